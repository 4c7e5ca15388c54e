/* A small model with random weights, of the llama family or with features of several,, made in memory without a file,
 * and a whole engine over it: what scheduler and forward tests run on. */
#ifndef WEIGHTD_TESTS_TINY_MODEL_H
#define WEIGHTD_TESTS_TINY_MODEL_H

#include "src/engine/scheduler.h"

enum { TINY_BYTES = 256, TINY_EOS = 256, TINY_VOCAB = 272 }; /* byte tokens 0..255, end token, controls */

struct tiny_model {
	struct model model;
	struct tokenizer *tokenizer;
	void *table;
};

struct tiny_model *tiny_model_new(enum pack_kind kind, unsigned seed);
/* Gives it what other families have: biases, norms of heads and of outputs, windows in two layers of three with a
 * rotary base of their own, rotation of halves, a GELU gate, scaled embeddings. */
void tiny_model_dress(struct tiny_model *tiny, unsigned seed);
void tiny_model_free(struct tiny_model *tiny);

struct tiny_engine {
	const struct tiny_model *tiny;
	struct gemm *gemm;
	struct team *team;
	struct arena arena;
	struct kv kv;
	struct forward *forward;
	struct scheduler *scheduler;
};

/* Level and numerics of a test run: "ref", "avx2", "avx512", or "int8" at the highest level that has it. False where
 * this CPU has not got them. */
bool tiny_level(const char *name, enum cpu_level *level, enum numerics *numerics);
/* What a test's second argument, "kv_int8" or none, says. */
enum kv_type tiny_kv_type(int argc, char **argv);

struct tiny_setup {
	enum cpu_level level;
	enum numerics numerics;
	enum kv_type kv_type;
	unsigned n_threads;
	team_start *start; /* as team_new takes them; NULL: nothing to do */
	void *start_arg;
	const struct model *const *copies; /* as in forward_setup */
	uint32_t prefill_chunk, max_running, kv_pages, context_tokens;
	uint64_t prefix_cache_bytes;
	struct scheduler_sink sink;
	uint64_t (*now_ns)(void);
};

void tiny_engine_init(struct tiny_engine *engine, const struct tiny_model *tiny, const struct tiny_setup *setup);
void tiny_engine_fini(struct tiny_engine *engine);

#endif
