#include "src/load/model_tokenizer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* The numbers are the same on both sides. */
#define SAME(a, b) static_assert((int)(a) == (int)(b), #a)
SAME(TOKENIZER_JSON_NORMAL, TOKEN_NORMAL);
SAME(TOKENIZER_JSON_CONTROL, TOKEN_CONTROL);
SAME(TOKENIZER_JSON_USER_DEFINED, TOKEN_USER_DEFINED);
SAME(TOKENIZER_JSON_UNUSED, TOKEN_UNUSED);
SAME(TOKENIZER_JSON_BYTE, TOKEN_BYTE);
SAME(TOKENIZER_JSON_BLANK_EVERY, TOKENIZER_BLANK_EVERY);
SAME(TOKENIZER_JSON_BLANK_FIRST, TOKENIZER_BLANK_FIRST);
SAME(TOKENIZER_JSON_BLANK_EVERY_UNLESS, TOKENIZER_BLANK_EVERY_UNLESS);

static struct tokenizer_string *views(const struct tokenizer_json_string *strings, uint32_t n)
{
	struct tokenizer_string *out = calloc((size_t)n + 1, sizeof *out);
	for (uint32_t i = 0; out && i < n; i++)
		out[i] = (struct tokenizer_string){strings[i].bytes, strings[i].n_bytes};
	return out;
}

int model_tokenizer_init(const struct tokenizer_json *json, struct tokenizer_source *out)
{
	struct tokenizer_source source = {
		.model = json->kind == TOKENIZER_JSON_BYTE_LEVEL ? "gpt2"
			 : json->kind == TOKENIZER_JSON_UNIGRAM	 ? "unigram"
								 : "characters",
		.pre = json->pre,
		.tokens = views(json->tokens, json->n_tokens),
		.types = json->types,
		.n_tokens = json->n_tokens,
		.merges = views(json->merges, json->n_merges),
		.n_merges = json->n_merges,
		.log_probabilities = json->scores,
		.words_at_blanks = json->words_at_blanks,
		.bos = json->bos,
		.eos = json->eos,
		.eot = -1,
		.unk = json->unk,
		.pad = -1,
		.add_bos = json->bos >= 0,
		.add_eos = json->eos >= 0,
		.ignore_merges = json->ignore_merges,
		.normalizer = json->nfc ? TOKENIZER_NFC : TOKENIZER_AS_IT_IS,
		.blank = (enum tokenizer_blank)json->blank,
	};
	if (!source.tokens || !source.merges) {
		model_tokenizer_fini(&source);
		return -ENOMEM;
	}
	*out = source;
	return 0;
}

void model_tokenizer_fini(struct tokenizer_source *source)
{
	/* The source's view of its lists is const; they were made here. */
	free((void *)(uintptr_t)source->tokens);
	free((void *)(uintptr_t)source->merges);
	*source = (struct tokenizer_source){0};
}
