/* A table while it is written, private to tokenizer_build*.c. */
#ifndef WEIGHTD_ENGINE_TOKENIZER_BUILD_H
#define WEIGHTD_ENGINE_TOKENIZER_BUILD_H

#include "src/engine/tokenizer_table.h"

struct draft {
	const struct tokenizer_source *source; /* borrowed */
	struct table_header *header;	       /* and the sections behind it, all inside the table */
	uint8_t *joins;
	struct table_merge *merges;
	struct table_string *strings;
	double *scores;
	uint32_t *starts;
	uint32_t *specials;
	uint32_t *ranks;
	uint8_t *types;
	char *text;
	struct table view; /* the same bytes, to read */
};

/* The index by spelling, of normal tokens. The pieces' text is written already. -EINVAL: made to collide. */
int draft_strings(struct draft *draft, struct err *err);

/* What a vocabulary of scored pieces needs: strings, ranks, joins and byte ids. The pieces' text is written already.
 * -EINVAL: a score that is no number, strings made to collide, characters that nothing could stand for; -ENOMEM. */
int draft_pieces(struct draft *draft, struct err *err);

#endif
