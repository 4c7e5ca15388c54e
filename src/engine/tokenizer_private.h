/* What a worker keeps of its own: shared by the encoder and the accessors. Immutable after attaching, so several
 * threads may encode at once; what one encoding needs is made for it (tokenizer_encode.c). */
#ifndef WEIGHTD_ENGINE_TOKENIZER_PRIVATE_H
#define WEIGHTD_ENGINE_TOKENIZER_PRIVATE_H

#include "src/engine/tokenizer_table.h"

struct tokenizer {
	struct table table;	   /* borrowed, checked */
	struct split_rules *rules; /* owned; NULL where the table's joins make the words */
	double unknown_score;	   /* of a character that is no token, where there are scores */
	/* Specials that begin with byte b are specials[first[b]] up to specials[first[b + 1]]. */
	uint32_t first[257];
};

#endif
