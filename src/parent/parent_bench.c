/* Measuring on request (weightctl bench): the order goes to one worker, which must have nothing to do, and its answer
 * to whoever asked. One at a time. */
#include "src/parent/parent_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "src/parent/control.h"

static int order(struct parent *parent, uint32_t type, const void *payload, size_t n, struct err *err)
{
	if (parent->benching)
		return err_set(err, -EBUSY, "another measurement is under way");
	for (uint32_t i = 0; i < parent->n_workers && !parent->stopping; i++) {
		struct parent_worker *worker = &parent->workers[i];
		if (!worker->ready || !worker_serves(worker))
			continue;
		int rc = message_send(worker->child.fd, type, payload, n, NULL, 0);
		if (rc)
			return err_set(err, rc, "worker %u cannot be told: %s", i, strerror(-rc));
		parent->benching = worker;
		return 0;
	}
	return err_set(err, -EAGAIN, "no worker is ready");
}

int parent_bench(struct parent *parent, const struct message_bench *bench, struct err *err)
{
	return order(parent, MESSAGE_BENCH, bench, sizeof *bench, err);
}

int parent_quality(struct parent *parent, const struct message_quality *quality, struct err *err)
{
	return order(parent, MESSAGE_QUALITY, quality, sizeof *quality, err);
}

static void add_figures(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct message_benched *result)
{
	yyjson_mut_obj_add_uint(doc, root, "prefill_ns", result->prefill_ns);
	yyjson_mut_obj_add_uint(doc, root, "decode_ns", result->decode_ns);
	yyjson_mut_obj_add_uint(doc, root, "prefill_forward_ns", result->prefill_forward_ns);
	yyjson_mut_obj_add_uint(doc, root, "decode_forward_ns", result->decode_forward_ns);
	yyjson_mut_obj_add_uint(doc, root, "prefill_operations", result->prefill_operations);
	yyjson_mut_obj_add_uint(doc, root, "prefill_library_operations", result->prefill_library_operations);
	yyjson_mut_obj_add_uint(doc, root, "decode_steps", result->decode_steps);
	yyjson_mut_obj_add_uint(doc, root, "weight_bytes", result->weight_bytes);
	yyjson_mut_obj_add_real(doc, root, "matrix_operations", result->matrix_operations);
	yyjson_mut_obj_add_real(doc, root, "read_bytes_per_second", result->read_bytes_per_s);
	yyjson_mut_obj_add_real(doc, root, "multiply_operations_per_second", result->multiply_operations_per_s);
}

static void add_quality(yyjson_mut_doc *doc, yyjson_mut_val *root, const char *phase, const struct quality *quality)
{
	yyjson_mut_val *object = yyjson_mut_obj_add_obj(doc, root, phase);
	yyjson_mut_obj_add_real(doc, object, "mean_kl", quality->mean_kl);
	yyjson_mut_obj_add_real(doc, object, "max_kl", quality->max_kl);
	yyjson_mut_obj_add_real(doc, object, "perplexity", quality->perplexity);
}

static void add_judgement(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct message_judged *result)
{
	yyjson_mut_obj_add_uint(doc, root, "positions", result->n_positions);
	yyjson_mut_obj_add_real(doc, root, "reference_perplexity", result->reference_perplexity);
	add_quality(doc, root, "prefill", &result->prefill);
	add_quality(doc, root, "decode", &result->decode);
}

/* Says what the worker said: a fault, figures or a judgement, of which the others are NULL. */
static void tell(struct parent *parent, const char *fault, const struct message_benched *figures,
		 const struct message_judged *judgement)
{
	size_t n = 0;
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc);
	yyjson_mut_doc_set_root(doc, root);
	if (fault && fault[0])
		yyjson_mut_obj_add_str(doc, root, "error", fault);
	else if (figures)
		add_figures(doc, root, figures);
	else if (judgement)
		add_judgement(doc, root, judgement);
	char *text = yyjson_mut_write(doc, YYJSON_WRITE_NEWLINE_AT_END, &n);
	yyjson_mut_doc_free(doc);
	parent->benching = NULL;
	control_benched(parent->control, text, n);
}

bool bench_message(struct parent *parent, const struct parent_worker *worker, const struct message *message)
{
	const struct message_benched *figures = message_payload(message, sizeof *figures, 0);
	const struct message_judged *judgement = message_payload(message, sizeof *judgement, 0);
	if (parent->benching != worker)
		return false;
	if (message->type == MESSAGE_BENCHED && figures)
		tell(parent, figures->err.text, figures, NULL);
	else if (message->type == MESSAGE_JUDGED && judgement)
		tell(parent, judgement->err.text, NULL, judgement);
	else
		return false;
	return true;
}

void bench_lost(struct parent *parent, const struct parent_worker *worker)
{
	if (parent->benching == worker)
		tell(parent, "the worker that measured has ended", NULL, NULL);
}
