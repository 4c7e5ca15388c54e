/* How model files spell tokens, and what that means. Byte-level lists (GPT-2's) write every byte as a printable
 * character; SentencePiece's write a blank as U+2581 and single bytes as <0xHH>. */
#ifndef WEIGHTD_ENGINE_TOKENIZER_SPELLING_H
#define WEIGHTD_ENGINE_TOKENIZER_SPELLING_H

#include "src/engine/tokenizer_table.h"

#define SPELLING_BLANK "\xe2\x96\x81" /* U+2581 */

/* The bytes that a token adds to a text; writes them unless `out` is NULL. What each type is follows llama.cpp: control
 * and unknown tokens are spelled as they are, user-defined ones too but for SentencePiece's blanks; unused ones add
 * nothing. A normal token that is not in the byte spelling is taken as it is. Returns their number, at most
 * spelled.n_bytes; -1: not a byte token's spelling. */
int64_t spelling_decode(enum table_kind kind, enum token_type type, struct tokenizer_string spelled, char *out);

/* A byte in the byte-level spelling: a view into `room`. */
struct tokenizer_string spelling_of_byte(uint8_t byte, char room[2]);

#endif
