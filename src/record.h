/* What front and worker say (src/call.h), taken apart with every length checked. The bytes given must be a private
 * copy: what still lies in the ring may change between the check and the use. */
#ifndef WEIGHTD_SRC_FRONT_RECORD_H
#define WEIGHTD_SRC_FRONT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/call.h"

/* Views into the copied payload. */
struct record_piece {
	uint32_t id;
	float logprob;
	const char *bytes; /* [n_bytes] what the token adds to a text */
	uint32_t n_bytes;
};

struct record_token {
	struct record_piece token;
	uint32_t index;
	bool is_prompt, has_logprob;
	uint32_t n_top;
	struct record_piece top[CALL_LOGPROBS_MAX]; /* [n_top] most probable first */
	const char *text;
	uint32_t text_bytes;
};

struct record_done {
	enum finish_reason finish;
	uint32_t prompt_tokens, generated_tokens;
	const char *text;
	uint32_t text_bytes;
};

struct record_failed {
	int status;
	char param[32], code[32];
	const char *text;
	uint32_t text_bytes;
};

struct record_word {
	double start, end;
	float probability;
	const char *text;
	uint32_t text_bytes;
};

struct record_segment {
	struct call_segment head;
	uint32_t tokens[CALL_SEGMENT_TOKENS_MAX];	   /* [head.n_tokens] */
	struct record_word words[CALL_SEGMENT_TOKENS_MAX]; /* [head.n_words] */
	const char *text;				   /* [head.text_bytes] */
};

/* 0, or -EPROTO when the lengths do not add up or a value is none that may come; *out is then untouched. */
int record_read_accepted(const void *payload, size_t n_bytes, struct call_accepted *out);
int record_read_token(const void *payload, size_t n_bytes, struct record_token *out);
int record_read_done(const void *payload, size_t n_bytes, struct record_done *out);
int record_read_failed(const void *payload, size_t n_bytes, struct record_failed *out);
int record_read_language(const void *payload, size_t n_bytes, struct call_language *out);
int record_read_segment(const void *payload, size_t n_bytes, struct record_segment *out);
int record_read_want(const void *payload, size_t n_bytes, struct call_want *out);

/* What a front says: CALL_BEGIN of speech. -EPROTO as above; a value out of its range is the front's fault, too. */
int record_read_speech(const void *payload, size_t n_bytes, struct call_begin *begin, struct call_speech *out);
/* The bytes of CALL_BYTES that this call has in all, texts and frames. */
uint64_t record_speech_bytes(const struct call_speech *speech);

#endif
