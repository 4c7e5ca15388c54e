/* What the scheduler's tests share: a repertoire of calls over a whole tiny engine, and all that a client could see of
 * them, to compare to the last bit. */
#ifndef WEIGHTD_TESTS_SCHEDULER_RIG_H
#define WEIGHTD_TESTS_SCHEDULER_RIG_H

#include <stdbool.h>

#include "tests/unit/tiny_adapter.h"

/* What a call said. */
struct transcript {
	uint32_t ids[600];
	float logprobs[600];
	float top[600];
	uint32_t n, n_prompt_reported;
	char text[8192];
	uint32_t n_text;
	int done; /* enum generation_finish, -1 failed */
};

enum { RIG_CALLS_MAX = 40, RIG_REPERTOIRE = 20 };

struct room {
	struct transcript call[RIG_CALLS_MAX]; /* by id */
};

/* Reads the CPU level, and how keys and values are kept, from the command line. Returns its name, NULL: this CPU lacks
 * it. */
const char *rig_level(int argc, char **argv);

/* An engine at that level with room for all, whose calls talk into `room`. */
struct tiny_setup rig_setup(struct room *room);

/* Adapters for calls of the repertoire: from here on two of three have one. */
void rig_adapters_new(const struct tiny_model *tiny);
void rig_adapters_free(void);

/* Call number i of a fixed repertoire: lengths, sampling, options and adapters vary with i. Calls with the same i % 4
 * have prompts that begin alike. */
struct generation *rig_call(uint64_t id, unsigned i);

/* Calls [0, n) of the repertoire one after the other on a new engine. */
void rig_run_alone(const struct tiny_model *tiny, unsigned n, const struct tiny_setup *setup);

/* Whether the scheduler has calls. */
bool rig_busy(const struct tiny_engine *engine);

/* All that was taken is back: no calls, no pages but the prefix cache's, no memory but theirs, no adapter held. */
void rig_expect_rest(struct tiny_engine *engine);

void rig_same(const struct transcript *a, const struct transcript *b, unsigned i);

#endif
