/* One choice of an answer while it grows: text, tokens and log-probabilities as they come from the worker.
 *
 * Everything is kept as columns of finished JSON (comma-separated items), because both ways of answering want exactly
 * that: a whole answer puts brackets around the columns once, a stream does it whenever something came and empties
 * them. The text alone is kept raw. */
#ifndef WEIGHTD_SRC_API_CHOICE_H
#define WEIGHTD_SRC_API_CHOICE_H

#include "src/api/json.h"
#include "src/api/split.h"
#include "src/record.h"

enum api_column {
	COLUMN_TEXT,	   /* bytes, not JSON */
	COLUMN_REASONING,  /* bytes, not JSON */
	COLUMN_PROMPT_IDS, /* of the prompt */
	COLUMN_IDS,	   /* of the generated tokens */
	COLUMN_TOKENS,	   /* completion: from here on one item per reported token */
	COLUMN_TOKEN_LOGPROBS,
	COLUMN_TOP_LOGPROBS, /* {"token": logprob, …} or null */
	COLUMN_TEXT_OFFSETS,
	COLUMN_ROW_IDS,
	COLUMN_ROW_TOP_IDS,
	COLUMN_ROW_TOP_VALUES,
	COLUMN_CONTENT, /* chat: {"token","logprob","bytes","top_logprobs"} */
	N_COLUMNS
};

/* What the request wants to see; one for all choices of an answer. */
struct api_shape {
	bool chat, echo, logprobs, token_ids;
	bool tools, one_call; /* the answer may call tools, only one */
};

struct api_choice {
	struct api_json column[N_COLUMNS]; /* owned */
	uint64_t offset;		   /* code points of the tokens so far */
	uint32_t prompt_tokens, generated_tokens;
	uint32_t reasoning_tokens;	 /* with which it was thinking */
	enum finish_reason finish;	 /* 0 while it grows */
	struct api_split split;		 /* of a chat's text into its parts, tool calls among them */
	bool role_sent, prompt_ids_sent; /* a stream's first chunk said them */
};

void api_choice_fini(struct api_choice *choice);
bool api_choice_failed(const struct api_choice *choice); /* out of memory */

/* The worker has taken the call, and told how its model speaks; `salt` makes the ids of tool calls. */
void api_choice_accepted(struct api_choice *choice, const struct api_shape *shape, const struct call_accepted *accepted,
			 uint64_t salt);
void api_choice_token(struct api_choice *choice, const struct api_shape *shape, const struct record_token *token);
void api_choice_done(struct api_choice *choice, const struct record_done *done);
/* Part of the answer of a call that generates nothing: raw bytes of text, or token ids. -EPROTO: not whole ids. */
void api_choice_text(struct api_choice *choice, const void *bytes, size_t n_bytes);
int api_choice_ids(struct api_choice *choice, const void *bytes, size_t n_bytes);

/* Anything a stream would have to send? */
bool api_choice_has_news(const struct api_choice *choice, const struct api_shape *shape);
/* The value of "logprobs": an object of what is in the columns, or null. */
void api_choice_write_logprobs(const struct api_choice *choice, const struct api_shape *shape, struct api_json *out);
/* The parts of a chat's message beside its text, each with a comma in front: reasoning_content, tool_calls. */
void api_choice_write_parts(const struct api_choice *choice, struct api_json *out);
/* The same for what came since a stream took it last, with `separator` in front of the first. */
bool api_choice_has_part_news(const struct api_choice *choice);
void api_choice_write_part_news(struct api_choice *choice, const char *separator, struct api_json *out);
/* "stop", "length", "tool_calls" or null. */
void api_choice_write_finish(const struct api_choice *choice, struct api_json *out);
/* Forgets what was sent: a stream's next chunk starts empty. */
void api_choice_clear(struct api_choice *choice);

#endif
