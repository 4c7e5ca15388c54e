/* weightctl bench --quality: a text becomes tokens by the daemon's own tokenizer, and a worker judges its numerics by
 * them (src/worker/worker_quality.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

#include "src/ctl/bench_daemon.h"
#include "src/ctl/client.h"
#include "src/ctl/table.h"
#include "src/ctl/weightctl.h"
#include "src/message.h"

enum { TEXT_MAX_BYTES = 64 << 10, ANSWER_MAX_BYTES = 4 << 20 };

/* The file's beginning; more than QUALITY_TOKENS_MAX tokens are of no use. */
static int read_text(const char *path, char text[TEXT_MAX_BYTES], size_t *n, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, TEXT_MAX_BYTES);
	int rc = got < 0 ? err_set(err, -errno, "%s: %s", path, strerror(errno)) : 0;
	if (fd >= 0)
		close(fd);
	*n = (size_t)got;
	return rc;
}

static char *tokenize_body(const char *text, size_t n, size_t *n_body)
{
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc);
	yyjson_mut_doc_set_root(doc, root);
	yyjson_mut_obj_add_strn(doc, root, "content", text, n);
	yyjson_mut_obj_add_bool(doc, root, "add_special", true);
	char *body = yyjson_mut_write(doc, 0, n_body); /* NULL where the text is not UTF-8 */
	yyjson_mut_doc_free(doc);
	return body;
}

/* The daemon's answer to POST /tokenize; returns owned. */
static int tokenize(struct weightctl *ctl, const struct bench_daemon *daemon, const char *text, size_t n, char **answer,
		    struct err *err)
{
	char socket[sizeof daemon->directory + 16];
	struct client *client;
	size_t n_body, n_answer;
	int status = 0;
	char *body = tokenize_body(text, n, &n_body);
	if (!body)
		return err_set(err, -EINVAL, "the text is not UTF-8");
	snprintf(socket, sizeof socket, "%s/weightd.sock", daemon->directory);
	int rc = client_open(socket, ctl->interrupt_fd, &client, err);
	if (!rc) {
		rc = client_request(client, "POST", "/tokenize", body, n_body, &status, err);
		if (!rc)
			rc = client_read_all(client, ANSWER_MAX_BYTES, answer, &n_answer, err);
		client_close(client);
	}
	free(body);
	if (!rc && status != 200) {
		rc = err_set(err, -EPROTO, "the text cannot be made tokens: %.200s", *answer);
		free(*answer);
	}
	return rc;
}

/* "quality 1 2 3"; returns owned. */
static char *command_of(const char *tokens_json)
{
	yyjson_doc *doc = yyjson_read(tokens_json, strlen(tokens_json), 0);
	yyjson_val *tokens = yyjson_obj_get(yyjson_doc_get_root(doc), "tokens"), *token;
	size_t i, n, used = strlen("quality");
	char *command = malloc(used + 12 * (size_t)QUALITY_TOKENS_MAX + 1);
	if (command) {
		strcpy(command, "quality");
		yyjson_arr_foreach(tokens, i, n, token)
		{
			if (i == QUALITY_TOKENS_MAX)
				break;
			used += (size_t)sprintf(command + used, " %u", (unsigned)yyjson_get_uint(token));
		}
	}
	yyjson_doc_free(doc);
	return command;
}

static void print_phase(struct table *table, yyjson_val *root, const char *phase)
{
	yyjson_val *object = yyjson_obj_get(root, phase);
	table_cell(table, "%s", phase);
	table_cell(table, "%.6f", yyjson_get_num(yyjson_obj_get(object, "mean_kl")));
	table_cell(table, "%.6f", yyjson_get_num(yyjson_obj_get(object, "max_kl")));
	table_cell(table, "%.4f", yyjson_get_num(yyjson_obj_get(object, "perplexity")));
}

static int print_answer(struct weightctl *ctl, const char *text)
{
	yyjson_doc *doc = yyjson_read(text, strlen(text), 0);
	yyjson_val *root = yyjson_doc_get_root(doc);
	const char *error = yyjson_get_str(yyjson_obj_get(root, "error"));
	struct table *table = error ? NULL : table_new("PHASE|>MEAN KL|>LARGEST KL|>PERPLEXITY");
	int rc = error ? weightctl_fail(ctl, EXIT_REFUSED, "bench: %s", error) : EXIT_OK;
	if (!error && ctl->json) {
		fputs(text, stdout);
	} else if (table) {
		printf("%llu positions; nats; perplexity in float32: %.4f\n\n",
		       (unsigned long long)yyjson_get_uint(yyjson_obj_get(root, "positions")),
		       yyjson_get_num(yyjson_obj_get(root, "reference_perplexity")));
		print_phase(table, root, "prefill");
		print_phase(table, root, "decode");
		table_print(table, stdout);
	}
	table_free(table);
	yyjson_doc_free(doc);
	return rc;
}

int bench_quality(struct weightctl *ctl, const struct bench_daemon *daemon)
{
	static char text[TEXT_MAX_BYTES];
	char *answer = NULL, *command = NULL, *judgement = NULL;
	struct err err = {""};
	size_t n;
	int rc = read_text(ctl->bench.quality, text, &n, &err);
	if (!rc)
		rc = tokenize(ctl, daemon, text, n, &answer, &err);
	if (!rc && !(command = command_of(answer)))
		rc = err_set(&err, -ENOMEM, "no memory for the text's tokens");
	if (!rc)
		rc = bench_daemon_ask(daemon, command, ctl->interrupt_fd, &judgement, &err);
	if (rc)
		rc = rc == -EINTR ? EXIT_INTERRUPTED : weightctl_fail(ctl, EXIT_FAILED, "%s", err.text);
	else
		rc = print_answer(ctl, judgement);
	free(answer);
	free(command);
	free(judgement);
	return rc;
}
