#include "tests/unit/scheduler_rig.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static enum cpu_level level;
static enum numerics numerics;
static enum kv_type kv_type;

enum { ADAPTERS = 2 };
static struct adapter *adapters[ADAPTERS]; /* NULL: not asked for */

void rig_adapters_new(const struct tiny_model *tiny)
{
	static const struct tiny_adapter_spec specs[ADAPTERS] = {
		{70, TINY_ALL_PRODUCTS, 4, PACK_BF16, 0.25f},
		{71, 1 << ADAPTER_K | 1 << ADAPTER_V | 1 << ADAPTER_GATE, 19, PACK_F32, -0.5f},
	};
	for (unsigned i = 0; i < ADAPTERS; i++)
		adapters[i] = tiny_adapter_new(tiny, &specs[i]);
}

void rig_adapters_free(void)
{
	for (unsigned i = 0; i < ADAPTERS; i++) {
		adapter_put(adapters[i]);
		adapters[i] = NULL;
	}
}

const char *rig_level(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "ref";
	kv_type = tiny_kv_type(argc, argv);
	return tiny_level(name, &level, &numerics) ? name : NULL;
}

static void on_token(void *arg, struct generation *g, const struct scheduler_token *t)
{
	struct transcript *c = &((struct room *)arg)->call[g->id];
	if (c->n == 600)
		ck_abort_msg("call %u says too much", (unsigned)g->id);
	c->ids[c->n] = t->id;
	c->logprobs[c->n] = t->has_logprob ? t->logprob : 0;
	c->top[c->n] = t->n_top ? t->top[t->n_top - 1].value : 0;
	c->n++;
	c->n_prompt_reported += t->is_prompt;
	memcpy(c->text + c->n_text, t->text, t->n_text);
	c->n_text += t->n_text;
}

static void on_done(void *arg, struct generation *g, const char *text, uint32_t n)
{
	struct transcript *c = &((struct room *)arg)->call[g->id];
	memcpy(c->text + c->n_text, text, n);
	c->n_text += n;
	ck_assert_int_eq(c->done, 0);
	c->done = (int)g->finish;
}

static void on_failed(void *arg, struct generation *g, const char *reason)
{
	(void)reason;
	((struct room *)arg)->call[g->id].done = -1;
}

struct tiny_setup rig_setup(struct room *room)
{
	return (struct tiny_setup){
		.level = level,
		.numerics = numerics,
		.kv_type = kv_type,
		.n_threads = 2,
		.prefill_chunk = 64,
		.max_running = 32,
		.kv_pages = 600,
		.context_tokens = 512,
		.sink = {.arg = room, .token = on_token, .done = on_done, .failed = on_failed},
	};
}

struct generation *rig_call(uint64_t id, unsigned i)
{
	static const uint32_t lengths[] = {1, 5, 31, 32, 33, 64, 65, 100, 150, 200};
	struct generation_params params = {
		.sampler = {.seed = i,
			    .temperature = i % 3 ? 0.9f : 0,
			    .top_p = i % 4 ? 1 : 0.9f,
			    .top_k = i % 5 ? 0 : 40,
			    .frequency_penalty = i % 7 ? 0 : 0.5f,
			    .repeat_penalty = i % 6 ? 1 : 1.2f},
		.max_tokens = 3 + i * 7 % 40 + (i % 3 ? 90 : 0),
		.n_logprobs = i % 8,
		.logprobs = i % 16 != 3,
		.echo = i % 4 == 1 || i % 16 == 3,
		.prompt_ids = i % 16 == 7,
		.ignore_end = true,
	};
	uint32_t n = lengths[i % 10], *prompt = malloc(n * sizeof *prompt);
	for (uint32_t j = 0; j < n; j++)
		prompt[j] = (i % 4 * 31 + j * j * 7 + j) % TINY_BYTES;
	struct generation *g = generation_new(id, &params, prompt, n, NULL, 0, "", 0);
	unsigned which = i / 4 % (ADAPTERS + 1);
	g->adapter = adapter_get(which ? adapters[which - 1] : NULL);
	return g;
}

void rig_run_alone(const struct tiny_model *tiny, unsigned n, const struct tiny_setup *setup)
{
	struct tiny_engine e;
	tiny_engine_init(&e, tiny, setup);
	for (unsigned i = 0; i < n; i++) {
		scheduler_add(e.scheduler, rig_call(i, i));
		while (scheduler_step(e.scheduler))
			;
		ck_assert_uint_eq(e.kv.n_used, e.kv.n_idle);
	}
	rig_expect_rest(&e);
	tiny_engine_fini(&e);
}

bool rig_busy(const struct tiny_engine *e)
{
	return scheduler_n_running(e->scheduler) || scheduler_n_waiting(e->scheduler);
}

void rig_expect_rest(struct tiny_engine *e)
{
	ck_assert(!rig_busy(e));
	ck_assert_uint_eq(e->kv.n_used, e->kv.n_idle);
	ck_assert_uint_eq(e->kv.n_used * e->kv.page_bytes, scheduler_prefix_bytes(e->scheduler));
	forward_rest(e->forward);
	ck_assert_uint_eq(e->arena.bytes, scheduler_prefix_bytes(e->scheduler));
	for (unsigned i = 0; i < ADAPTERS && adapters[i]; i++)
		ck_assert_uint_eq(adapters[i]->n_references, 1);
}

void rig_same(const struct transcript *a, const struct transcript *b, unsigned i)
{
	ck_assert_msg(a->n == b->n && a->done == b->done && a->n_text == b->n_text,
		      "call %u: %u and %u tokens, ended %d and %d", i, a->n, b->n, a->done, b->done);
	for (uint32_t t = 0; t < a->n; t++)
		if (a->ids[t] != b->ids[t] || memcmp(&a->logprobs[t], &b->logprobs[t], 4) ||
		    memcmp(&a->top[t], &b->top[t], 4))
			ck_abort_msg("call %u differs at token %u: %u %.9g, %u %.9g", i, t, a->ids[t],
				     (double)a->logprobs[t], b->ids[t], (double)b->logprobs[t]);
	ck_assert_int_eq(memcmp(a->text, b->text, a->n_text), 0);
}
