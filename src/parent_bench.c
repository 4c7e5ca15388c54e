/* Measuring on request (weightctl bench): the order goes to one worker, which must have nothing to do, and its answer
 * to whoever asked. One at a time. */
#include "src/parent_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "src/control.h"

int parent_bench(struct parent *parent, const struct message_bench *order, struct err *err)
{
	if (parent->benching)
		return err_set(err, -EBUSY, "another measurement is under way");
	for (uint32_t i = 0; i < parent->n_workers && !parent->stopping; i++) {
		struct parent_worker *worker = &parent->workers[i];
		if (!worker->ready)
			continue;
		int rc = message_send(worker->child.fd, MESSAGE_BENCH, order, sizeof *order, NULL, 0);
		if (rc)
			return err_set(err, rc, "worker %u cannot be told: %s", i, strerror(-rc));
		parent->benching = worker;
		return 0;
	}
	return err_set(err, -EAGAIN, "no worker is ready");
}

/* Returns owned, or NULL. */
static char *result_json(const struct message_benched *result, size_t *n)
{
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc);
	yyjson_mut_doc_set_root(doc, root);
	if (result->err.text[0]) {
		yyjson_mut_obj_add_str(doc, root, "error", result->err.text);
	} else {
		yyjson_mut_obj_add_uint(doc, root, "prefill_ns", result->prefill_ns);
		yyjson_mut_obj_add_uint(doc, root, "decode_ns", result->decode_ns);
		yyjson_mut_obj_add_uint(doc, root, "decode_steps", result->decode_steps);
		yyjson_mut_obj_add_uint(doc, root, "weight_bytes", result->weight_bytes);
		yyjson_mut_obj_add_real(doc, root, "matrix_operations", result->matrix_operations);
		yyjson_mut_obj_add_real(doc, root, "read_bytes_per_second", result->read_bytes_per_s);
		yyjson_mut_obj_add_real(doc, root, "multiply_operations_per_second", result->multiply_operations_per_s);
	}
	char *text = yyjson_mut_write(doc, YYJSON_WRITE_NEWLINE_AT_END, n);
	yyjson_mut_doc_free(doc);
	return text;
}

void bench_ended(struct parent *parent, const struct parent_worker *worker, const struct message_benched *result)
{
	size_t n = 0;
	if (parent->benching != worker)
		return;
	parent->benching = NULL;
	char *text = result_json(result, &n);
	control_benched(parent->control, text, n);
}
