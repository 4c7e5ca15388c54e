#include "src/ctl/answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

#include "src/ctl/client.h"
#include "src/ctl/sse.h"

enum { ANSWER_JSON_MAX = 64 * 1024 * 1024 };

void answer_fini(struct answer *answer)
{
	free(answer->text);
	*answer = (struct answer){.text = NULL};
}

/* Bytes of the character at `text` that a terminal must not see: C0 but for newline and tab, DEL, and C1
 * (U+0080..U+009F). */
static size_t control_bytes(const char *text, size_t n_bytes)
{
	unsigned char c = (unsigned char)text[0];
	if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f)
		return 1;
	if (c == 0xc2 && n_bytes > 1 && (unsigned char)text[1] < 0xa0)
		return 2;
	return 0;
}

void answer_print(const char *text, size_t n_bytes)
{
	bool terminal = isatty(STDOUT_FILENO);
	size_t begin = 0, at = 0;
	while (at < n_bytes) {
		size_t skip = terminal ? control_bytes(text + at, n_bytes - at) : 0;
		if (skip == 0) {
			at++;
			continue;
		}
		fwrite(text + begin, 1, at - begin, stdout);
		at += skip;
		begin = at;
	}
	fwrite(text + begin, 1, at - begin, stdout);
	fflush(stdout);
}

static int keep(struct answer *answer, const char *text, size_t n_bytes)
{
	char *grown = realloc(answer->text, answer->n_bytes + n_bytes + 1);
	if (!grown)
		return -ENOMEM;
	memcpy(grown + answer->n_bytes, text, n_bytes);
	answer->n_bytes += n_bytes;
	grown[answer->n_bytes] = '\0';
	answer->text = grown;
	return 0;
}

/* The message of an OpenAI error object, or NULL. */
static const char *error_message(yyjson_val *root)
{
	return yyjson_get_str(yyjson_obj_get(yyjson_obj_get(root, "error"), "message"));
}

/* One event of the stream: prints and keeps its text. An exit status other than EXIT_OK ends the stream. */
static int take_event(const struct weightctl *ctl, const char *data, size_t n_data, struct answer *answer)
{
	yyjson_doc *doc = yyjson_read(data, n_data, 0);
	yyjson_val *root = yyjson_doc_get_root(doc);
	yyjson_val *choice = yyjson_arr_get_first(yyjson_obj_get(root, "choices"));
	yyjson_val *text = yyjson_obj_get(yyjson_obj_get(choice, "delta"), "content");
	int rc = EXIT_OK;
	if (!text)
		text = yyjson_obj_get(choice, "text");
	if (!doc)
		rc = weightctl_fail(ctl, EXIT_FAILED, "the server sent an event that is not JSON");
	else if (yyjson_obj_get(root, "error"))
		rc = weightctl_fail(ctl, EXIT_REFUSED, "weightd: %s",
				    error_message(root) ? error_message(root) : "unknown error");
	else if (yyjson_is_str(text)) {
		answer_print(yyjson_get_str(text), yyjson_get_len(text));
		if (keep(answer, yyjson_get_str(text), yyjson_get_len(text)) < 0)
			rc = weightctl_fail(ctl, EXIT_FAILED, "out of memory");
	}
	yyjson_doc_free(doc);
	return rc;
}

/* -1: the stream goes on; else the exit status it ended with. */
static int take_bytes(const struct weightctl *ctl, struct sse *sse, const char *bytes, size_t n_bytes,
		      struct answer *answer)
{
	const char *data;
	size_t n_data;
	int rc;
	sse_feed(sse, bytes, n_bytes);
	while ((rc = sse_next(sse, &data, &n_data)) > 0) {
		if (!strcmp(data, "[DONE]"))
			return EXIT_OK;
		rc = take_event(ctl, data, n_data, answer);
		if (rc != EXIT_OK)
			return rc;
	}
	return rc == 0 ? -1 : weightctl_fail(ctl, EXIT_FAILED, "the server's stream: %s", strerror(-rc));
}

static int read_stream(const struct weightctl *ctl, struct client *client, struct answer *answer)
{
	struct err err = {""};
	struct sse sse;
	const char *bytes;
	size_t n_bytes;
	int rc, result = -1;
	sse_init(&sse);
	while (result < 0 && (rc = client_read(client, &bytes, &n_bytes, &err)) > 0)
		result = take_bytes(ctl, &sse, bytes, n_bytes, answer);
	sse_fini(&sse);
	if (result >= 0)
		return result;
	if (rc == -EINTR)
		return EXIT_INTERRUPTED;
	return weightctl_fail(ctl, EXIT_FAILED, "%s", rc < 0 ? err.text : "the stream ended without [DONE]");
}

/* An answer with a status other than 200: prints the server's reason. */
static int refused(const struct weightctl *ctl, struct client *client, int status)
{
	struct err err = {""};
	char *text;
	size_t n;
	if (client_read_all(client, ANSWER_JSON_MAX, &text, &n, &err) < 0)
		return weightctl_fail(ctl, EXIT_REFUSED, "weightd answered with status %d", status);
	yyjson_doc *doc = yyjson_read(text, n, 0);
	const char *message = error_message(yyjson_doc_get_root(doc));
	int rc = weightctl_fail(ctl, EXIT_REFUSED, "weightd answered with status %d%s%s", status, message ? ": " : "",
				message ? message : "");
	yyjson_doc_free(doc);
	free(text);
	return rc;
}

/* Connects and sends. EXIT_OK with the status of the answer, or the exit status of a failure that has been printed. */
static int post(const struct weightctl *ctl, const char *target, const char *body, struct client **out, int *status)
{
	struct err err = {""};
	struct client *client;
	if (client_open(ctl->socket, ctl->interrupt_fd, &client, &err) < 0)
		return weightctl_unreachable(ctl, &err);
	int rc = client_request(client, "POST", target, body, strlen(body), status, &err);
	if (rc < 0) {
		client_close(client);
		return rc == -EINTR ? EXIT_INTERRUPTED : weightctl_fail(ctl, EXIT_FAILED, "%s", err.text);
	}
	*out = client;
	return EXIT_OK;
}

int answer_stream(const struct weightctl *ctl, const char *target, const char *body, struct answer *out)
{
	struct client *client;
	int status, rc = post(ctl, target, body, &client, &status);
	*out = (struct answer){.text = NULL};
	if (rc != EXIT_OK)
		return rc;
	rc = status == 200 ? read_stream(ctl, client, out) : refused(ctl, client, status);
	client_close(client);
	return rc;
}

int answer_json(const struct weightctl *ctl, const char *target, const char *body)
{
	struct err err = {""};
	struct client *client;
	char *text;
	size_t n;
	int status, rc = post(ctl, target, body, &client, &status);
	if (rc != EXIT_OK)
		return rc;
	rc = client_read_all(client, ANSWER_JSON_MAX, &text, &n, &err);
	client_close(client);
	if (rc < 0)
		return rc == -EINTR ? EXIT_INTERRUPTED : weightctl_fail(ctl, EXIT_FAILED, "%s", err.text);
	fwrite(text, 1, n, stdout);
	if (n == 0 || text[n - 1] != '\n')
		putchar('\n');
	free(text);
	return status == 200 ? EXIT_OK : EXIT_REFUSED;
}
