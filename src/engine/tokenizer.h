/* Text to tokens and back.
 *
 * The loader builds a flat, position-independent table from the model file's lists; workers attach to it inside the
 * shared segment and keep only small private state (a compiled pre-tokenizer). Kinds: byte-level BPE (GGUF
 * tokenizer.ggml.model "gpt2") with a named pre-tokenizer, SentencePiece BPE with scores and byte fallback ("llama"),
 * and the same with a list of merges instead of scores, as tokenizer.json has it ("characters"; no GGUF name). A
 * fourth, "unigram", is SentencePiece's unigram model, also from tokenizer.json. */
#ifndef WEIGHTD_ENGINE_TOKENIZER_H
#define WEIGHTD_ENGINE_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

/* GGUF's tokenizer.ggml.token_type. */
enum token_type {
	TOKEN_NORMAL = 1,
	TOKEN_UNKNOWN = 2,
	TOKEN_CONTROL = 3,
	TOKEN_USER_DEFINED = 4,
	TOKEN_UNUSED = 5,
	TOKEN_BYTE = 6,
};

struct tokenizer_string {
	const char *bytes; /* borrowed, not terminated */
	uint32_t n_bytes;
};

/* Where a blank is put before a text; not for "gpt2". */
enum tokenizer_blank {
	TOKENIZER_BLANK_NONE = 0,
	TOKENIZER_BLANK_EVERY = 1,	  /* before a text, and before what follows a special */
	TOKENIZER_BLANK_FIRST = 2,	  /* before a text, unless it begins with a blank or a special */
	TOKENIZER_BLANK_EVERY_UNLESS = 3, /* as EVERY, unless there is a blank */
};

enum { TOKENIZER_MAX_ENDS = 5 };

/* What a text goes through before anything is looked for in it but special tokens. */
enum tokenizer_normalizer {
	TOKENIZER_AS_IT_IS = 0,
	TOKENIZER_NFC = 1, /* Unicode's normalization form C */
};

/* What a model file says of its tokenizer; all pointers borrowed for the call. */
struct tokenizer_source {
	const char *model;		       /* "gpt2", "llama", "characters", "unigram" */
	const char *pre;		       /* "smollm", "gpt-2", "llama-bpe", "qwen2", "default"; only "gpt2" */
	const struct tokenizer_string *tokens; /* [n_tokens], in the file's byte-to-unicode spelling */
	const int32_t *types;		       /* [n_tokens] enum token_type, or NULL: all normal */
	uint32_t n_tokens;
	const float *scores;		 /* [n_tokens], "llama" only, else NULL: the higher is merged the earlier */
	const double *log_probabilities; /* [n_tokens], "unigram" only */
	const struct tokenizer_string *merges; /* [n_merges] "left right"; "llama" ignores them */
	uint32_t n_merges;
	int64_t bos, eos, eot, unk, pad;   /* -1: none */
	uint32_t ends[TOKENIZER_MAX_ENDS]; /* [n_ends] more tokens that end an answer */
	uint32_t n_ends;
	bool add_bos, add_eos;
	bool ignore_merges;   /* a word that is a token is not merged, only "gpt2" */
	bool words_at_blanks; /* every blank begins a word, only "unigram" */
	enum tokenizer_blank blank;
	enum tokenizer_normalizer normalizer;
};

/* Two steps, so that the table is written once, straight into the segment. Hostile lists (ids out of range, merges of
 * unknown tokens, duplicate tokens, no byte tokens, lengths that do not add up) are -EINVAL with the field's GGUF name;
 * an unknown model or pre-tokenizer is -ENOTSUP and names it. `dst` is 64-byte aligned and zeroed. */
int tokenizer_table_bytes(const struct tokenizer_source *source, uint64_t *bytes, struct err *err);
int tokenizer_table_build(const struct tokenizer_source *source, void *dst, uint64_t bytes, struct err *err);

struct tokenizer; /* opaque, private, immutable; reads the table in place; several threads may use one at once */

/* Checks the whole table (trusts nothing) and makes the private part. The table must outlive it. Returns owned. */
int tokenizer_attach(const void *table, uint64_t bytes, struct tokenizer **out, struct err *err);
void tokenizer_detach(struct tokenizer *tokenizer);

struct token_list {
	uint32_t *ids; /* owned by the list; grown with realloc */
	size_t n, capacity;
};
void token_list_fini(struct token_list *list);

/* Appends the tokens of `text` [n_bytes], any bytes. `add_special`: the model's BOS/EOS rules; a text that begins with
 * BOS, parsed as such, gets no second one. `parse_special`: control
 * tokens spelled in the text become their ids (leftmost, then longest); user-defined tokens always do. Malformed UTF-8
 * goes through byte tokens. Many vocabularies lack some bytes: in well-formed text such a byte is left out, as
 * llama.cpp does; a malformed one becomes U+FFFD. Characters that a SentencePiece vocabulary lacks become byte tokens
 * or the unknown token. Time is near linear in n_bytes for any input. -ENOMEM; -E2BIG past
 * `max_tokens` appended or 512 MiB of text; -EIO: the pre-tokenizer ran into its limits, which no text makes it do. On
 * failure the list is as before. */
int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special,
		     bool parse_special, size_t max_tokens, struct token_list *out, struct err *err);

/* The same in slices, for callers who have other things to do meanwhile. Text and list are borrowed until the end; the
 * list is not to be touched in between. */
struct tokenizer_encoding;
/* Returns owned. Errors as tokenizer_encode. */
int tokenizer_encoding_begin(const struct tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special,
			     bool parse_special, size_t max_tokens, struct token_list *out,
			     struct tokenizer_encoding **encoding_out, struct err *err);
/* Goes on for about `work` steps of up to a tenth of a microsecond each; a text has up to four per byte, with a unigram
 * vocabulary as many as its longest token has bytes. Only looking for the end of a word or a stretch goes on as long as
 * it takes. Returns 1: there is more to do; 0: all tokens are in the list; or an error as tokenizer_encode. */
int tokenizer_encoding_advance(struct tokenizer_encoding *encoding, size_t work, struct err *err);
void tokenizer_encoding_end(struct tokenizer_encoding *encoding); /* at any time; takes NULL */

uint32_t tokenizer_n_tokens(const struct tokenizer *tokenizer);
int64_t tokenizer_bos(const struct tokenizer *tokenizer); /* -1: none */
int64_t tokenizer_eos(const struct tokenizer *tokenizer);
/* True for ids that end an answer: eos, eot and the source's ends. */
bool tokenizer_is_end(const struct tokenizer *tokenizer, uint32_t id);

/* Whether the model puts a blank before a text (tokenizer_encode does it). The pieces of a whole text's tokens then
 * begin with that blank, and who joins them takes it off; an answer goes on a text, and its first blank is part of it.
 */
bool tokenizer_blank_prefix(const struct tokenizer *tokenizer);

/* The bytes of a token: what it adds to a text. Control tokens give their spelling when `special`, else nothing.
 * Returns view, valid until detach; *n_bytes may be 0. An id out of range gives 0 bytes. */
const char *tokenizer_piece(const struct tokenizer *tokenizer, uint32_t id, bool special, uint32_t *n_bytes);

/* The text of ids [n_ids], control tokens spelled, without the blank that encoding puts before it; ill-formed UTF-8
 * becomes U+FFFD. Returns owned (free), [*n_bytes] and not terminated; NULL: out of memory. */
char *tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n_ids, size_t *n_bytes);

/* Streams text without ever splitting a UTF-8 sequence: bytes of an unfinished sequence are held back (3 at most).
 * Bytes that can't become valid UTF-8 come out as U+FFFD, one per maximal ill-formed part (Unicode 16, section 3.9,
 * table 3-8), so what comes out is always valid UTF-8. */
struct utf8_stream {
	char held[4];
	uint32_t n_held;
};
/* `out` has room for 3 * (n_bytes + 3) bytes; returns the number written. */
size_t utf8_stream_push(struct utf8_stream *stream, const char *bytes, size_t n_bytes, char *out);
size_t utf8_stream_finish(struct utf8_stream *stream, char *out); /* at most 3 bytes * held */

#endif
