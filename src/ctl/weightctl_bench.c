/* weightctl bench: how fast a model runs on this machine, and how much of the machine that is. An ordinary daemon is
 * started for it and a worker of it measures itself (src/worker/worker_bench.h); rounds alternate prompt and answer,
 * and what is printed is the median of the rounds with their range. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "src/ctl/bench_daemon.h"
#include "src/ctl/interrupt.h"
#include "src/ctl/table.h"
#include "src/ctl/weightctl.h"

enum { ROUNDS_MAX = 1000 };

/* A figure's rounds. */
struct series {
	const char *key, *title;
	double values[ROUNDS_MAX];
};

enum {
	PREFILL,
	DECODE,
	PREFILL_SHARE,
	DECODE_SHARE,
	PREFILL_LIBRARY,
	PREFILL_OVERHEAD,
	DECODE_OVERHEAD,
	READ,
	MULTIPLY,
	N_SERIES
};

struct bench {
	struct weightctl *ctl;
	char model[PATH_MAX];
	struct bench_daemon daemon;
	uint32_t n_rounds; /* so far */
	uint64_t weight_bytes;
	struct series series[N_SERIES];
};

static double number_of(yyjson_val *object, const char *key)
{
	return yyjson_get_num(yyjson_obj_get(object, key));
}

/* --- measuring -------------------------------------------------------------------------------- */

static int take_round(struct bench *b, yyjson_val *root)
{
	const struct weightctl_bench *o = &b->ctl->bench;
	double prefill_s = number_of(root, "prefill_ns") * 1e-9, decode_s = number_of(root, "decode_ns") * 1e-9;
	double steps = number_of(root, "decode_steps"), read = number_of(root, "read_bytes_per_second"),
	       multiply = number_of(root, "multiply_operations_per_second"),
	       operations = number_of(root, "prefill_operations");
	uint32_t i = b->n_rounds;
	if (prefill_s <= 0 || decode_s <= 0 || read <= 0 || multiply <= 0 || operations <= 0)
		return weightctl_fail(b->ctl, EXIT_FAILED, "the daemon's answer lacks a figure");
	b->weight_bytes = yyjson_get_uint(yyjson_obj_get(root, "weight_bytes"));
	b->series[PREFILL].values[i] = o->prompt / prefill_s;
	b->series[DECODE].values[i] = steps * o->streams / decode_s;
	b->series[PREFILL_SHARE].values[i] = number_of(root, "matrix_operations") / prefill_s / multiply;
	b->series[DECODE_SHARE].values[i] = (double)b->weight_bytes * steps / decode_s / read;
	b->series[PREFILL_LIBRARY].values[i] = number_of(root, "prefill_library_operations") / operations;
	b->series[PREFILL_OVERHEAD].values[i] = 1 - number_of(root, "prefill_forward_ns") * 1e-9 / prefill_s;
	b->series[DECODE_OVERHEAD].values[i] = 1 - number_of(root, "decode_forward_ns") * 1e-9 / decode_s;
	b->series[READ].values[i] = read;
	b->series[MULTIPLY].values[i] = multiply;
	b->n_rounds++;
	return EXIT_OK;
}

static int measure_once(struct bench *b)
{
	const struct weightctl_bench *o = &b->ctl->bench;
	struct err err = {""};
	char command[64], *text = NULL;
	snprintf(command, sizeof command, "bench %u %u %u %u", o->prompt, o->generate, o->streams, o->depth);
	int rc = bench_daemon_ask(&b->daemon, command, b->ctl->interrupt_fd, &text, &err);
	if (rc)
		return rc == -EINTR ? EXIT_INTERRUPTED : weightctl_fail(b->ctl, EXIT_FAILED, "%s", err.text);
	yyjson_doc *doc = yyjson_read(text, strlen(text), 0);
	yyjson_val *root = yyjson_doc_get_root(doc);
	const char *error = yyjson_get_str(yyjson_obj_get(root, "error"));
	rc = error ? weightctl_fail(b->ctl, EXIT_REFUSED, "bench: %s", error) : take_round(b, root);
	yyjson_doc_free(doc);
	free(text);
	return rc;
}

/* --- printing --------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(const struct series *s, uint32_t n)
{
	return n % 2 ? s->values[n / 2] : (s->values[n / 2 - 1] + s->values[n / 2]) / 2;
}

static void print_json(const struct bench *b)
{
	const struct weightctl_bench *o = &b->ctl->bench;
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc);
	yyjson_mut_doc_set_root(doc, root);
	yyjson_mut_obj_add_str(doc, root, "model", b->model);
	yyjson_mut_obj_add_uint(doc, root, "prompt", o->prompt);
	yyjson_mut_obj_add_uint(doc, root, "generate", o->generate);
	yyjson_mut_obj_add_uint(doc, root, "streams", o->streams);
	yyjson_mut_obj_add_uint(doc, root, "depth", o->depth);
	yyjson_mut_obj_add_uint(doc, root, "threads", o->threads);
	yyjson_mut_obj_add_uint(doc, root, "rounds", b->n_rounds);
	yyjson_mut_obj_add_uint(doc, root, "weight_bytes", b->weight_bytes);
	for (int i = 0; i < N_SERIES; i++)
		yyjson_mut_obj_add_real(doc, root, b->series[i].key, median(&b->series[i], b->n_rounds));
	yyjson_mut_val *ranges = yyjson_mut_obj_add_obj(doc, root, "ranges");
	for (int i = 0; i < N_SERIES; i++) {
		yyjson_mut_val *range = yyjson_mut_obj_add_arr(doc, ranges, b->series[i].key);
		yyjson_mut_arr_add_real(doc, range, b->series[i].values[0]);
		yyjson_mut_arr_add_real(doc, range, b->series[i].values[b->n_rounds - 1]);
	}
	char *text = yyjson_mut_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL);
	if (text)
		puts(text);
	free(text);
	yyjson_mut_doc_free(doc);
}

static void print_row(struct table *table, const struct series *s, uint32_t n, double unit)
{
	table_cell(table, "%s", s->title);
	table_cell(table, "%.1f", median(s, n) / unit);
	table_cell(table, "%.1f", s->values[0] / unit);
	table_cell(table, "%.1f", s->values[n - 1] / unit);
}

static void print_for_people(const struct bench *b)
{
	static const double units[N_SERIES] = {
		[PREFILL] = 1,
		[DECODE] = 1,
		[PREFILL_SHARE] = 0.01,
		[DECODE_SHARE] = 0.01,
		[PREFILL_LIBRARY] = 0.01,
		[PREFILL_OVERHEAD] = 0.01,
		[DECODE_OVERHEAD] = 0.01,
		[READ] = 1e9,
		[MULTIPLY] = 1e9,
	};
	const struct weightctl_bench *o = &b->ctl->bench;
	char size[TABLE_UNIT_TEXT];
	printf("%s: %s of weights, %u rounds\nprompt %u, generate %u, streams %u, depth %u\n\n", b->model,
	       table_bytes(b->weight_bytes, size), b->n_rounds, o->prompt, o->generate, o->streams, o->depth);
	struct table *table = table_new("FIGURE|>MEDIAN|>LEAST|>MOST");
	if (!table)
		return;
	for (int i = 0; i < N_SERIES; i++)
		print_row(table, &b->series[i], b->n_rounds, units[i]);
	table_print(table, stdout);
	table_free(table);
}

int weightctl_bench(struct weightctl *ctl)
{
	static struct bench b = {
		.series = {
			[PREFILL] = {"prefill_tokens_per_second", "prefill, tokens/s", {0}},
			[DECODE] = {"decode_tokens_per_second", "decode, tokens/s, all streams", {0}},
			[PREFILL_SHARE] = {"prefill_share", "prefill, % of the product rate", {0}},
			[DECODE_SHARE] = {"decode_share", "decode, % of the read bandwidth", {0}},
			[READ] = {"read_bytes_per_second", "read bandwidth of the weights, GB/s", {0}},
			[MULTIPLY] = {"multiply_operations_per_second", "product rate, GFLOP/s", {0}},
			[PREFILL_LIBRARY] = {"prefill_library_share", "prefill, % of operations by oneDNN", {0}},
			[PREFILL_OVERHEAD] = {"prefill_overhead_share", "prefill, % outside the forward pass", {0}},
			[DECODE_OVERHEAD] = {"decode_overhead_share", "decode, % outside the forward pass", {0}},
		}};
	struct err err = {""};
	b.ctl = ctl;
	if (!ctl->model)
		return weightctl_fail(ctl, EXIT_USAGE, "bench needs --model FILE");
	if (!realpath(ctl->model, b.model))
		return weightctl_fail(ctl, EXIT_USAGE, "%s: %s", ctl->model, strerror(errno));
	struct bench_setup setup = {b.model, ctl->bench.threads, ctl->bench.settings, ctl->bench.n_settings};
	int rc = bench_daemon_start(&b.daemon, &setup, ctl->interrupt_fd, &err);
	if (rc)
		rc = rc == -EINTR ? EXIT_INTERRUPTED : weightctl_fail(ctl, EXIT_FAILED, "%s", err.text);
	if (!rc && ctl->bench.quality)
		rc = bench_quality(ctl, &b.daemon);
	while (!rc && !ctl->bench.quality && b.n_rounds < ctl->bench.rounds)
		rc = measure_once(&b);
	bench_daemon_stop(&b.daemon);
	if (rc || ctl->bench.quality)
		return rc;
	for (int i = 0; i < N_SERIES; i++)
		qsort(b.series[i].values, b.n_rounds, sizeof(double), by_value);
	if (ctl->json)
		print_json(&b);
	else
		print_for_people(&b);
	return EXIT_OK;
}
