/* Pre-tokenizers: cutting text into the words that byte-pair merging never crosses.
 *
 * A pre-tokenizer is a list of patterns, applied one after another as llama.cpp does: each cuts every piece the one
 * before left into its matches and the gaps between them, and sees the piece as if it were the whole text (a lookahead
 * at the end of a piece sees the end). */
#ifndef WEIGHTD_ENGINE_TOKENIZER_SPLIT_H
#define WEIGHTD_ENGINE_TOKENIZER_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

enum split_kind { /* written to segments: never renumber */
		  SPLIT_SMOLLM = 1,
		  SPLIT_GPT2 = 2,
		  SPLIT_LLAMA3 = 3,
		  SPLIT_QWEN2 = 4,
		  SPLIT_DEFAULT = 5, /* what llama.cpp takes for a file that names none */
};

/* The kind that a model file names (tokenizer.ggml.pre). Returns 0, -ENOTSUP. */
int split_kind_of(const char *name, uint32_t *out, struct err *err);

struct split_rules; /* compiled patterns: immutable, usable by several threads at once */

/* -EINVAL: no such kind. Returns owned. */
int split_rules_new(uint32_t kind, struct split_rules **out, struct err *err);
void split_rules_free(struct split_rules *rules);

struct split; /* one walk over one text after another, for one thread */

/* Borrows the rules. Returns owned. */
int split_new(const struct split_rules *rules, struct split **out);
void split_free(struct split *split);

/* Starts on a text of well-formed UTF-8; borrows it until the last word. */
void split_begin(struct split *split, const char *text, size_t n_bytes);

/* The next word, a view into the text. Every byte is in exactly one word. Returns 1; 0: no more; -ENOMEM, -EIO (a
 * pattern ran into its limits: our fault, never the text's). */
int split_next(struct split *split, const char **word, size_t *n_bytes, struct err *err);

#endif
