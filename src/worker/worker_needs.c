#include "src/worker/worker_needs.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/grammar/constraints.h"
#include "src/engine/scheduler.h"
#include "src/engine/template.h"
#include "src/engine/tokenizer.h"
#include "src/worker/worker_calls.h"

/* Leaked on purpose, all of them. */
struct parts {
	struct model model;
	struct tokenizer *tokenizer;
	struct template *template;
	struct gemm *gemm;
	struct team *team;
	struct arena arena;
	struct kv kv;
	struct forward *forward;
	struct constraints *constraints;
	struct scheduler *scheduler;
	struct worker_calls calls;
};

/* No page is ever taken from this pool, so its size is of no account. */
static int make_forward(struct parts *p, const struct message_work *order, uint32_t context, struct err *err)
{
	const struct kernels *kernels = kernels_get(order->cpu_level, order->numerics);
	if (!kernels)
		return err_set(err, -ENOTSUP, "cpu_level %s with these numerics is not available on this CPU",
			       cpu_level_name(order->cpu_level));
	int rc = arena_init(&p->arena, (size_t)1 << 30, err);
	if (rc)
		return rc;
	kv_init(&p->kv, &p->model.config, (enum kv_type)order->kv_type, &p->arena, 1);
	const struct forward_setup setup = {
		.model = &p->model,
		.kernels = kernels,
		.gemm = p->gemm,
		.team = p->team,
		.arena = &p->arena,
		.kv = &p->kv,
		.numerics = order->numerics,
		.max_rows = order->prefill_chunk,
		.max_context = context,
	};
	return forward_new(&setup, &p->forward, err);
}

static int make_scheduler(struct parts *p, const struct message_work *order, uint32_t context, struct err *err)
{
	const struct scheduler_setup setup = {
		.model = &p->model,
		.tokenizer = p->tokenizer,
		.forward = p->forward,
		.kv = &p->kv,
		.team = p->team,
		.sink = worker_calls_sink(&p->calls),
		.prefill_chunk = order->prefill_chunk,
		.max_running = order->max_running,
		.context_tokens = context,
	};
	struct dialect dialect = dialect_of(p->model.chat_template, p->model.template_bytes, order->tool_parser,
					    order->reasoning, p->tokenizer);
	int64_t mark = dialect.calls.mark_is_token ? (int64_t)dialect.mark : -1;
	if (constraints_new(p->tokenizer, p->model.config.vocab, mark, &p->arena, &p->constraints))
		return err_set(err, -ENOMEM, "no memory for the order of the vocabulary");
	return scheduler_new(&setup, &p->scheduler, err);
}

int worker_needs_make(const struct message_work *order, unsigned n_threads, const void *image, uint64_t bytes,
		      struct worker_needs *out, struct err *err)
{
	struct parts *p = calloc(1, sizeof *p);
	if (!p)
		return err_set(err, -ENOMEM, "no memory for a worker's parts");
	int rc = team_new(n_threads, 0, NULL, NULL, &p->team, err);
	if (!rc)
		rc = model_open(image, bytes, &p->model, err);
	if (rc)
		return rc;
	uint32_t context = p->model.config.context;
	if (order->context_tokens && order->context_tokens < context)
		context = order->context_tokens;
	rc = tokenizer_attach(p->model.tokenizer, p->model.tokenizer_bytes, &p->tokenizer, err);
	if (!rc)
		rc = model_gemm(&p->model, order->cpu_level, order->numerics, &p->gemm, err);
	if (!rc)
		rc = make_forward(p, order, context, err);
	if (!rc)
		rc = make_scheduler(p, order, context, err);
	if (rc)
		return rc;
	/* One that can't be compiled costs nothing but its chat (src/worker/worker.c). */
	if (p->model.template_bytes)
		(void)template_compile(p->model.chat_template, p->model.template_bytes, &p->template, NULL);
	malloc_trim(0);
	const uint32_t most = order->max_running, chunk = order->prefill_chunk;
	uint64_t one = forward_scratch_bytes(p->forward, chunk, 1),
		 all = forward_scratch_bytes(p->forward, chunk, most);
	*out = (struct worker_needs){
		.context_tokens = context,
		.kv_page_tokens = KV_PAGE_TOKENS,
		.kv_page_bytes = arena_span_bytes(p->kv.page_bytes),
		.scratch_bytes = one,
		.further_scratch_bytes = most > 1 && all > one ? (all - one) / (most - 1) : 0,
	};
	return 0;
}
