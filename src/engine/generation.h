/* One answer being made: a call's private state, from its prompt to its last token. All but the KV pages stays when the
 * pages are taken away, so that it can go on as if nothing had happened. */
#ifndef WEIGHTD_ENGINE_GENERATION_H
#define WEIGHTD_ENGINE_GENERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "src/engine/adapter.h"
#include "src/engine/grammar/constraint.h"
#include "src/engine/kv.h"
#include "src/engine/pooling.h"
#include "src/engine/sampler.h"
#include "src/engine/tokenizer.h"

enum { GENERATION_STOPS_MAX = 16, GENERATION_LOGPROBS_MAX = 20 };

enum generation_state { GENERATION_WAITING, GENERATION_PREFILL, GENERATION_DECODE, GENERATION_FINISHED };

enum generation_finish { GENERATION_STOP = 1, GENERATION_LENGTH, GENERATION_CANCELLED };

struct generation_params {
	struct sampler_params sampler;
	uint32_t max_tokens; /* of the answer; UINT32_MAX: as many as the context holds */
	uint32_t n_logprobs; /* alternatives per token, 0..20 */
	bool logprobs;	     /* report log-probabilities */
	bool echo;	     /* report prompt tokens with text and, if asked, log-probabilities */
	bool prompt_ids;     /* report prompt tokens' ids alone */
	bool ignore_end;     /* go on past end tokens */
	bool show_mark;	     /* the control token `mark` is text */
	uint32_t mark;
};

/* A string that ends an answer; not part of it. */
struct generation_stop {
	const char *bytes; /* view into the generation's own copy */
	uint32_t n_bytes;  /* 1.. */
};

struct generation {
	uint64_t id;
	enum generation_state state;
	enum generation_finish finish;
	bool blocked; /* set by the sink's owner while its client can't take more: no step is made for it */
	struct generation_params params;

	struct adapter *adapter; /* a reference of its own, set before the call is added; NULL: the base alone */
	uint32_t *prompt; /* [n_prompt] owned */
	uint32_t n_prompt;
	uint32_t *forced; /* [n_forced] owned: the answer's first tokens, given instead of sampled */
	uint32_t n_forced;
	char *stop_bytes; /* owned */
	struct generation_stop stops[GENERATION_STOPS_MAX];
	uint32_t n_stops;

	struct kv_sequence kv;
	struct sampler sampler;
	struct sampler_bias *biases; /* owned, the sampler's; NULL: none */
	struct matcher *matcher;     /* owned; NULL: any answer will do */
	struct pooling *pooling;     /* owned; NULL: an answer of tokens is wanted, not the prompt's vector */
	uint32_t *answer; /* [answer_capacity] owned: the tokens generated, [n_answer]; kept to be replayed */
	uint32_t n_answer, answer_capacity;
	uint32_t max_answer; /* max_tokens cut to what context and KV pool hold */

	struct utf8_stream utf8;
	char *held; /* [held_capacity] owned: answer text that may become a stop string */
	uint32_t n_held, held_capacity;

	/* The scheduler's. */
	struct generation *next;
	uint64_t arrival;	/* number in the order of arrival, from 1 */
	bool begun;		/* what can be said before any pass was said */
	uint32_t n_reported;	/* prompt tokens reported */
	uint32_t n_prompt_done; /* prompt tokens computed, or had from the cache, at least once */
	uint32_t n_evicted;	/* how often it had to make room */
};

/* Takes `prompt` (and `forced`, may be NULL); copies `stops` ([n_stops] strings, each ended by NUL, in `stop_bytes`).
 * Returns owned, or NULL when out of memory (then `prompt` and `forced` are freed). */
struct generation *generation_new(uint64_t id, const struct generation_params *params, uint32_t *prompt,
				  uint32_t n_prompt, uint32_t *forced, uint32_t n_forced, const char *stop_bytes,
				  uint32_t n_stop_bytes);
/* The KV pages must have been released. Takes NULL. */
void generation_free(struct generation *generation);

/* The answer's next token. 0 or -ENOMEM. */
int generation_add_token(struct generation *generation, uint32_t token);

/* Token number `position` of prompt and answer. */
uint32_t generation_token(const struct generation *generation, uint32_t position);

/* Adds a token's bytes to the answer. *text [*n] is what is now final (view into `held`, valid until the next call) and
 * *stopped says that a stop string was reached. 0 or -ENOMEM. */
int generation_add_text(struct generation *generation, const char *piece, uint32_t n_piece, const char **text,
			uint32_t *n, bool *stopped);
/* The text still held back when the answer ends; view. *stopped: a character that was cut off and has become U+FFFD made
 * a stop string whole. */
int generation_last_text(struct generation *generation, const char **text, uint32_t *n, bool *stopped);

#endif
