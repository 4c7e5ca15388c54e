/* weightctl adapter: load, unload and list adapters over the control socket, with the operator's rights. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

#include "src/ctl/control_client.h"
#include "src/ctl/control_object.h"
#include "src/ctl/table.h"
#include "src/ctl/weightctl.h"

/* The daemon's JSON object, owned; NULL: *rc is the exit status, and the reason was printed. */
static yyjson_doc *ask(const struct weightctl *ctl, const char *command, int *rc)
{
	struct err err = {""};
	yyjson_doc *doc = NULL;
	char what[64];
	enum weightctl_exit code = control_object(ctl, command, &doc, &err);
	snprintf(what, sizeof what, "adapter %s", ctl->arguments[0]);
	*rc = code == EXIT_OK ? EXIT_OK : control_object_fail(ctl, code, what, &err);
	return doc;
}

static int print_text(const struct weightctl *ctl, const char *command)
{
	char what[64];
	snprintf(what, sizeof what, "adapter %s", ctl->arguments[0]);
	return control_text(ctl, what, command, CONTROL_PATIENCE_MS);
}

static int load(const struct weightctl *ctl)
{
	char command[3 * PATH_MAX], here[PATH_MAX] = "";
	const char *name = ctl->arguments[1], *path = ctl->arguments[2];
	if (path[0] != '/' && !getcwd(here, sizeof here))
		return weightctl_fail(ctl, EXIT_FAILED, "the working directory: %s", strerror(errno));
	if (strpbrk(name, " \n") || strpbrk(ctl->model ? ctl->model : "", " \n") || strchr(path, '\n'))
		return weightctl_fail(ctl, EXIT_USAGE, "adapter load: names have no blanks, and no text a line end");
	/* The path comes last: it may have blanks. */
	int n = snprintf(command, sizeof command, "adapter load %s %s %s%s%s", name, ctl->model ? ctl->model : "-",
			 here, here[0] ? "/" : "", path);
	if (n < 0 || (size_t)n >= sizeof command)
		return weightctl_fail(ctl, EXIT_USAGE, "adapter load: the path is too long");
	return print_text(ctl, command);
}

static int unload(const struct weightctl *ctl)
{
	char command[PATH_MAX];
	int n = snprintf(command, sizeof command, "adapter unload %s", ctl->arguments[1]);
	if (n < 0 || (size_t)n >= sizeof command || strchr(ctl->arguments[1], '\n'))
		return weightctl_fail(ctl, EXIT_USAGE, "adapter unload: that is no adapter's name");
	return print_text(ctl, command);
}

static int list(const struct weightctl *ctl)
{
	int rc;
	yyjson_doc *doc = ask(ctl, "status", &rc);
	if (!doc)
		return rc;
	yyjson_val *adapters = yyjson_obj_get(yyjson_doc_get_root(doc), "adapters");
	if (ctl->json) {
		char *text = yyjson_val_write(adapters, YYJSON_WRITE_NOFLAG, NULL);
		puts(text ? text : "[]");
		free(text);
	} else if (yyjson_arr_size(adapters)) {
		adapters_print(adapters);
	} else {
		puts("no adapter is loaded");
	}
	yyjson_doc_free(doc);
	return EXIT_OK;
}

int weightctl_adapter(struct weightctl *ctl)
{
	static const struct {
		const char *name;
		int n_arguments;
		int (*run)(const struct weightctl *ctl);
		bool takes_model;
		const char *usage;
	} verbs[] = {
		{"load", 3, load, true, "adapter load NAME PATH [--model NAME]"},
		{"unload", 2, unload, false, "adapter unload NAME"},
		{"list", 1, list, false, "adapter list"},
	};
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		if (strcmp(ctl->arguments[0], verbs[i].name))
			continue;
		if (ctl->n_arguments != verbs[i].n_arguments || (ctl->model && !verbs[i].takes_model))
			return weightctl_fail(ctl, EXIT_USAGE, "usage: weightctl %s", verbs[i].usage);
		return verbs[i].run(ctl);
	}
	return weightctl_fail(ctl, EXIT_USAGE, "adapter: unknown command '%s'; known: load, unload, list",
			      ctl->arguments[0]);
}
