#include "src/worker/worker_needs.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/template.h"
#include "src/worker/worker_calls.h"
#include "src/worker/worker_engine.h"

/* Leaked on purpose, all of them. */
struct parts {
	struct model model;
	struct template *template;
	struct team *team;
	struct worker_engine engine;
	struct worker_calls calls;
};

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
	/* No page of keys and values is ever taken, so one is enough. */
	struct message_work small = *order;
	small.kv_bytes = kv_page_bytes(&p->model.config, (enum kv_type)order->kv_type);
	rc = worker_engine_attach(&p->engine, &small, &p->model, err);
	if (!rc)
		rc = worker_engine_make(&p->engine, &small, NULL, p->team, worker_calls_sink(&p->calls), err);
	if (rc)
		return rc;
	/* One that can't be compiled costs nothing but its chat (src/worker/worker.c). */
	if (p->model.template_bytes)
		(void)template_compile(p->model.chat_template, p->model.template_bytes, &p->template, NULL);
	malloc_trim(0);
	const uint32_t most = order->max_running, chunk = order->prefill_chunk;
	uint64_t one = forward_scratch_bytes(p->engine.forward, chunk, 1),
		 all = forward_scratch_bytes(p->engine.forward, chunk, most);
	*out = (struct worker_needs){
		.context_tokens = worker_engine_context(order, &p->model),
		.kv_page_tokens = KV_PAGE_TOKENS,
		.kv_page_bytes = arena_span_bytes(p->engine.kv.page_bytes),
		.scratch_bytes = one,
		.further_scratch_bytes = most > 1 && all > one ? (all - one) / (most - 1) : 0,
	};
	return 0;
}
