/* What a speech model says besides its weights: the ids of the tokens that steer it, the languages it knows, what it
 * is not to write, and the heads whose attention tells when a word was said. A part of the model's image, position
 * independent:
 *
 *   speech_table | speech_language[n_languages] | suppressed[n_suppressed] | suppressed at the beginning
 *   [n_suppressed_begin] | speech_head[n_heads]
 */
#ifndef WEIGHTD_ENGINE_SPEECH_TABLE_H
#define WEIGHTD_ENGINE_SPEECH_TABLE_H

#include <assert.h>
#include <stdint.h>

#include "src/engine/image.h"
#include "src/err.h"

enum { SPEECH_CODE_BYTES = 8, SPEECH_MAX_LANGUAGES = 1024 };

struct speech_language {
	char code[SPEECH_CODE_BYTES]; /* "en", "yue": letters a to z, then zeros, at least one */
	uint32_t token;		      /* <|en|> */
};
static_assert(sizeof(struct speech_language) == 12, "speech_language is part of the segment layout");

/* A head of the decoder's attention to the encoder's positions. */
struct speech_head {
	uint32_t layer, head;
};
static_assert(sizeof(struct speech_head) == 8, "speech_head is part of the segment layout");

struct speech_table {
	uint32_t eot;		  /* <|endoftext|> */
	uint32_t sot;		  /* <|startoftranscript|> */
	uint32_t translate;	  /* <|translate|> */
	uint32_t transcribe;	  /* <|transcribe|> */
	uint32_t sot_lm;	  /* <|startoflm|> */
	uint32_t sot_prev;	  /* <|startofprev|> */
	uint32_t no_speech;	  /* <|nospeech|>, <|nocaptions|> in older models */
	uint32_t no_timestamps;	  /* <|notimestamps|> */
	uint32_t first_timestamp; /* <|0.00|>; those up to the vocabulary's end are 0.02 s apart */
	uint32_t is_multilingual; /* 1: prompts have a language and a task; 0: English alone, and neither */
	uint32_t n_languages, n_suppressed, n_suppressed_begin, n_heads;
};
static_assert(sizeof(struct speech_table) == 56, "speech_table is part of the segment layout");

/* The lists behind a checked table, views of it: [n_languages], [n_suppressed], [n_suppressed_begin], [n_heads]. */
static inline const struct speech_language *speech_languages(const struct speech_table *table)
{
	return (const struct speech_language *)(table + 1);
}

static inline const uint32_t *speech_suppressed(const struct speech_table *table)
{
	return (const uint32_t *)(speech_languages(table) + table->n_languages);
}

static inline const uint32_t *speech_suppressed_begin(const struct speech_table *table)
{
	return speech_suppressed(table) + table->n_suppressed;
}

static inline const struct speech_head *speech_heads(const struct speech_table *table)
{
	return (const struct speech_head *)(speech_suppressed_begin(table) + table->n_suppressed_begin);
}

/* What a table is made of; lists as above, borrowed, NULL if empty. */
struct speech_source {
	struct speech_table table;
	const struct speech_language *languages;
	const uint32_t *suppressed, *suppressed_begin;
	const struct speech_head *heads;
};

uint64_t speech_table_bytes(const struct speech_source *source);
/* Writes speech_table_bytes to `out`, which is aligned for uint32_t. */
void speech_table_build(const struct speech_source *source, void *out);

/* Checks a table of `bytes` readable bytes at `table`, aligned for uint32_t, against the model's checked config: every
 * length, id, code and head. Trusts nothing. 0 or -EINVAL. */
int speech_table_check(const void *table, uint64_t bytes, const struct image_config *config, struct err *err);

#endif
