#include "src/worker/worker_engine.h"

#include <errno.h>
#include <string.h>

uint32_t worker_engine_context(const struct message_work *order, const struct model *model)
{
	uint32_t most = model->config.context;
	return order->context_tokens && order->context_tokens < most ? order->context_tokens : most;
}

int worker_engine_attach(struct worker_engine *engine, const struct message_work *order, const struct model *model,
			 struct err *err)
{
	engine->model = model;
	int rc = tokenizer_attach(model->tokenizer, model->tokenizer_bytes, &engine->tokenizer, err);
	if (rc)
		return rc;
	if (tokenizer_n_tokens(engine->tokenizer) != model->config.vocab)
		return err_set(err, -EINVAL, "the tokenizer has %u tokens, the model %u",
			       tokenizer_n_tokens(engine->tokenizer), model->config.vocab);
	engine->dialect = dialect_of(model->chat_template, model->template_bytes, order->tool_parser, order->reasoning,
				     engine->tokenizer);
	return 0;
}

/* As many as the order pays for, and calls or kept prompts could use. */
static int make_kv(struct worker_engine *engine, const struct message_work *order, struct err *err)
{
	const struct image_config *c = &engine->model->config;
	enum kv_type kv_type = (enum kv_type)order->kv_type;
	uint32_t context = worker_engine_context(order, engine->model);
	size_t page = kv_page_bytes(c, kv_type);
	uint64_t pages = order->kv_bytes / page,
		 useful = (uint64_t)order->max_running * kv_pages_for(context) + order->prefix_cache_bytes / page;
	if (useful > UINT32_MAX)
		useful = UINT32_MAX;
	if (pages > useful)
		pages = useful;
	if (!pages)
		return err_set(err, -EINVAL, "kv_bytes of %llu is less than one KV page of this model, %zu bytes",
			       (unsigned long long)order->kv_bytes, page);
	/* Address space: all KV pages, the batch scratch, and slack for holes between them. */
	int rc = arena_init(&engine->arena, pages * page + pages * page / 4 + ((size_t)4 << 30), err);
	if (rc)
		return rc;
	kv_init(&engine->kv, c, kv_type, &engine->arena, (uint32_t)pages);
	return 0;
}

static int make_scheduler(struct worker_engine *engine, const struct message_work *order, struct scheduler_sink sink,
			  struct err *err)
{
	const struct dialect *dialect = &engine->dialect;
	int64_t mark = dialect->calls.mark_is_token ? (int64_t)dialect->mark : -1;
	engine->scheduler_setup = (struct scheduler_setup){
		.model = engine->model,
		.tokenizer = engine->tokenizer,
		.forward = engine->forward,
		.kv = &engine->kv,
		.team = engine->forward_setup.team,
		.sink = sink,
		.prefill_chunk = order->prefill_chunk,
		.max_running = order->max_running,
		.context_tokens = engine->forward_setup.max_context,
		.prefix_cache_bytes = order->prefix_cache_bytes,
	};
	if (constraints_new(engine->tokenizer, engine->model->config.vocab, mark, &engine->arena, &engine->constraints))
		return err_set(err, -ENOMEM, "no memory for the order of the vocabulary");
	return scheduler_new(&engine->scheduler_setup, &engine->scheduler, err);
}

int worker_engine_make(struct worker_engine *engine, const struct message_work *order,
		       const struct model *const *copies, struct team *team, struct scheduler_sink sink,
		       struct err *err)
{
	const struct kernels *kernels = kernels_get(order->cpu_level, order->numerics);
	if (!kernels)
		return err_set(err, -ENOTSUP, "cpu_level %s with these numerics is not available on this CPU",
			       cpu_level_name(order->cpu_level));
	int rc = model_gemm(engine->model, order->cpu_level, order->numerics, &engine->gemm, err);
	if (!rc)
		rc = make_kv(engine, order, err);
	if (rc)
		return rc;
	engine->forward_setup = (struct forward_setup){
		.model = engine->model,
		.copies = copies,
		.kernels = kernels,
		.gemm = engine->gemm,
		.team = team,
		.arena = &engine->arena,
		.kv = &engine->kv,
		.numerics = order->numerics,
		.max_rows = order->prefill_chunk,
		.max_context = worker_engine_context(order, engine->model),
	};
	rc = forward_new(&engine->forward_setup, &engine->forward, err);
	return rc ? rc : make_scheduler(engine, order, sink, err);
}

void worker_engine_fini(struct worker_engine *engine)
{
	scheduler_free(engine->scheduler);
	constraints_free(engine->constraints);
	forward_free(engine->forward);
	arena_fini(&engine->arena);
	gemm_free(engine->gemm);
	tokenizer_detach(engine->tokenizer);
}
