/* tokenizer.json of Hugging Face: the vocabulary and the rules around it, as far as this program's tokenizer has them.
 *
 * Three shapes are read. Two are BPE with a list of merges: byte-level (GPT-2, Llama 3, Qwen, SmolLM) and characters
 * with byte fallback (Llama 2, Mistral, Gemma: SentencePiece models that were converted). The third is SentencePiece's
 * unigram model, without byte fallback and without a table of its own normalization (Precompiled). The file describes a
 * pipeline of named steps; every step must be one that is known to mean what the engine does, and anything else is
 * refused by its name and its path in the file: a text that becomes almost the right tokens gives answers nobody can
 * tell from right ones. What concerns only training and batches (truncation, padding) is passed over.
 *
 * Source: the documentation of the `tokenizers` library, "Components". */
#ifndef WEIGHTD_FORMAT_TOKENIZER_JSON_H
#define WEIGHTD_FORMAT_TOKENIZER_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

enum tokenizer_json_kind {
	TOKENIZER_JSON_BYTE_LEVEL, /* tokens are spelled as GPT-2 spells bytes */
	TOKENIZER_JSON_CHARACTERS, /* a blank is spelled as U+2581 */
	TOKENIZER_JSON_UNIGRAM,	   /* as well; tokens have scores and nothing is merged */
};

/* Where a blank is put before a text. */
enum tokenizer_json_blank {
	TOKENIZER_JSON_BLANK_NONE,
	TOKENIZER_JSON_BLANK_EVERY,	   /* before the text and behind every special token */
	TOKENIZER_JSON_BLANK_FIRST,	   /* before the text, unless it begins with one or with a special token */
	TOKENIZER_JSON_BLANK_EVERY_UNLESS, /* as EVERY, unless there is one */
};

/* The numbers of GGUF's tokenizer.ggml.token_type. */
enum tokenizer_json_type {
	TOKENIZER_JSON_NORMAL = 1,
	TOKENIZER_JSON_CONTROL = 3,
	TOKENIZER_JSON_USER_DEFINED = 4, /* added, but not special */
	TOKENIZER_JSON_UNUSED = 5,	 /* an id that the file gives to no token */
	TOKENIZER_JSON_BYTE = 6,
};

/* What a caller says that can't do with puts_more. */
#define TOKENIZER_JSON_PUTS_MORE \
	"tokenizer.json: post_processor: single: only a token, the text and a token are supported"

struct tokenizer_json_string {
	const char *bytes; /* view into the document, not terminated */
	uint32_t n_bytes;
};

struct tokenizer_json {
	enum tokenizer_json_kind kind;
	const char *pre; /* static: the pre-tokenizer's name in GGUF files ("llama-bpe"); "" for characters */
	enum tokenizer_json_blank blank;
	bool nfc; /* texts are normalized to Unicode's form C */
	bool ignore_merges;
	struct tokenizer_json_string *tokens; /* [n_tokens] owned */
	int32_t *types;			      /* [n_tokens] owned, enum tokenizer_json_type */
	uint32_t n_tokens;
	double *scores;			      /* [n_tokens] owned; unigram, else NULL: logarithms of probabilities */
	bool words_at_blanks;		      /* unigram: every blank begins a word */
	struct tokenizer_json_string *merges; /* [n_merges] owned, "left right" */
	uint32_t n_merges;
	int64_t unk; /* -1: none */
	int64_t bos,
		eos;	/* what goes before and behind every text, -1: nothing; tokenizer_config.json may name others */
	bool puts_more; /* more than that: bos and eos are the first of several, which a caller may have no use for */
	void *document; /* owned: a yyjson_doc, what the strings are views into */
	char *pool;	/* owned: merges that the file does not write as one string */
};

/* Parses a whole file, at most 512 MiB. `n_vocab`: the model's vocabulary, which may be larger than the file's list
 * (the rest is unused); 0: what the file has. The bytes may go afterwards. -EINVAL: malformed; -ENOTSUP: a step or
 * option that is not known; both with the path in the file; -ENOMEM. *out is untouched on failure. */
int tokenizer_json_parse(const char *bytes, size_t n_bytes, uint32_t n_vocab, struct tokenizer_json *out,
			 struct err *err);
void tokenizer_json_fini(struct tokenizer_json *json);

/* The id of the token that is spelled like this, which is how other files name tokens; -1: none. Looks at all. */
int64_t tokenizer_json_find(const struct tokenizer_json *json, const char *spelled, size_t n_bytes);

#endif
