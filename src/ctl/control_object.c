#include "src/ctl/control_object.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <yyjson.h>

#include "src/ctl/control_client.h"

enum weightctl_exit control_object_within(const struct weightctl *ctl, const char *command, int timeout_ms,
					  struct yyjson_doc **out, struct err *err)
{
	char *text;
	size_t n;
	pid_t pid;
	int fd = control_connect(ctl->control, &pid, err);
	if (fd < 0)
		return EXIT_UNREACHABLE;
	int rc = control_ask(fd, ctl->interrupt_fd, command, timeout_ms, &text, &n, err);
	close(fd);
	if (rc < 0)
		return rc == -EINTR ? EXIT_INTERRUPTED : EXIT_FAILED;
	yyjson_doc *doc = yyjson_read(text, n, 0);
	free(text);
	yyjson_val *root = yyjson_doc_get_root(doc);
	const char *error = yyjson_get_str(yyjson_obj_get(root, "error"));
	if (yyjson_is_obj(root) && !error) {
		*out = doc;
		return EXIT_OK;
	}
	err_set(err, 0, "%s", error ? error : "the daemon's answer is not a JSON object");
	yyjson_doc_free(doc);
	return error ? EXIT_REFUSED : EXIT_FAILED;
}

enum weightctl_exit control_object(const struct weightctl *ctl, const char *command, struct yyjson_doc **out,
				   struct err *err)
{
	return control_object_within(ctl, command, CONTROL_PATIENCE_MS, out, err);
}

int control_text(const struct weightctl *ctl, const char *what, const char *command, int timeout_ms)
{
	struct err err = {""};
	yyjson_doc *doc = NULL;
	enum weightctl_exit code = control_object_within(ctl, command, timeout_ms, &doc, &err);
	if (code != EXIT_OK)
		return control_object_fail(ctl, code, what, &err);
	int rc = EXIT_OK;
	if (ctl->json) {
		rc = weightctl_print_json(ctl, yyjson_doc_mut_copy(doc, NULL));
	} else {
		const char *text = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "text"));
		puts(text ? text : "done");
	}
	yyjson_doc_free(doc);
	return rc;
}

int control_object_fail(const struct weightctl *ctl, enum weightctl_exit code, const char *what, const struct err *err)
{
	switch (code) {
	case EXIT_UNREACHABLE:
		return weightctl_unreachable(ctl, err);
	case EXIT_INTERRUPTED:
		return EXIT_INTERRUPTED;
	case EXIT_REFUSED:
		return weightctl_fail(ctl, code, "%s: %s", what, err->text);
	default:
		return weightctl_fail(ctl, code, "%s", err->text);
	}
}
