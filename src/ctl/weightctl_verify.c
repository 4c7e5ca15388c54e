/* weightctl verify: has every page of every copy counted, and with --repair those copies made anew that have moved. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "src/clock.h"
#include "src/ctl/control_object.h"
#include "src/ctl/weightctl.h"

enum { PATIENCE_MS = INT_MAX }; /* the daemon always answers; how long counting and copying take is memory's to say */

/* A model or an adapter. */
static bool is_degraded(yyjson_val *owner)
{
	yyjson_val *copy;
	size_t i, n;
	yyjson_arr_foreach(yyjson_obj_get(owner, "copies"), i, n, copy)
	{
		if (yyjson_equals_str(yyjson_obj_get(copy, "state"), "degraded"))
			return true;
	}
	return false;
}

/* Whether all copies were counted within the last `ms`: a verifier may have been killed. */
static bool were_counted(yyjson_val *owners, uint64_t ms)
{
	yyjson_val *owner, *copy;
	size_t i, n, j, m;
	yyjson_arr_foreach(owners, i, n, owner)
	{
		yyjson_arr_foreach(yyjson_obj_get(owner, "copies"), j, m, copy)
		{
			if (yyjson_get_uint(yyjson_obj_get(copy, "checked_ms_ago")) > ms)
				return false;
		}
	}
	return true;
}

/* Status after every page was counted; 0 or the exit status. */
static int count(const struct weightctl *ctl, yyjson_doc **status)
{
	struct err err = {""};
	uint64_t began_ns = clock_now_ns();
	enum weightctl_exit code = control_object_within(ctl, "verify", PATIENCE_MS, status, &err);
	if (code != EXIT_OK)
		return control_object_fail(ctl, code, "verify", &err);
	uint64_t ms = (clock_now_ns() - began_ns) / CLOCK_MS_NS;
	yyjson_val *root = yyjson_doc_get_root(*status);
	if (were_counted(yyjson_obj_get(root, "models"), ms) && were_counted(yyjson_obj_get(root, "adapters"), ms))
		return EXIT_OK;
	yyjson_doc_free(*status);
	return weightctl_fail(ctl, EXIT_FAILED, "verify: the pages could not be counted; the daemon's log says why");
}

/* One after the other, so that no more memory than for one more copy is taken at a time. */
static int repair(const struct weightctl *ctl, yyjson_val *owners)
{
	yyjson_val *owner;
	size_t i, n;
	yyjson_arr_foreach(owners, i, n, owner)
	{
		char command[512];
		struct err err = {""};
		yyjson_doc *doc = NULL;
		if (!is_degraded(owner))
			continue;
		snprintf(command, sizeof command, "repair %s", yyjson_get_str(yyjson_obj_get(owner, "name")));
		enum weightctl_exit code = control_object_within(ctl, command, PATIENCE_MS, &doc, &err);
		if (code != EXIT_OK)
			return control_object_fail(ctl, code, "verify", &err);
		if (!ctl->json)
			puts(yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "text")));
		yyjson_doc_free(doc);
	}
	return EXIT_OK;
}

/* The copies of models or adapters, each with whose it is. */
static void add_copies(yyjson_mut_doc *doc, yyjson_mut_val *copies, yyjson_val *owners)
{
	yyjson_val *owner, *copy;
	size_t i, n, j, m;
	yyjson_arr_foreach(owners, i, n, owner)
	{
		yyjson_arr_foreach(yyjson_obj_get(owner, "copies"), j, m, copy)
		{
			yyjson_mut_val *out = yyjson_val_mut_copy(doc, copy);
			yyjson_mut_obj_add(out, yyjson_mut_str(doc, "of"),
					   yyjson_val_mut_copy(doc, yyjson_obj_get(owner, "name")));
			yyjson_mut_arr_append(copies, out);
		}
	}
}

static int print_json(const struct weightctl *ctl, yyjson_val *status)
{
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc), *copies = yyjson_mut_arr(doc);
	yyjson_mut_doc_set_root(doc, root);
	add_copies(doc, copies, yyjson_obj_get(status, "models"));
	add_copies(doc, copies, yyjson_obj_get(status, "adapters"));
	yyjson_mut_obj_add_val(doc, root, "copies", copies);
	return weightctl_print_json(ctl, doc);
}

int weightctl_verify(struct weightctl *ctl)
{
	yyjson_doc *status;
	int rc = count(ctl, &status);
	if (rc == EXIT_OK && ctl->repair) {
		rc = repair(ctl, yyjson_obj_get(yyjson_doc_get_root(status), "models"));
		if (rc == EXIT_OK)
			rc = repair(ctl, yyjson_obj_get(yyjson_doc_get_root(status), "adapters"));
		yyjson_doc_free(status);
		if (rc == EXIT_OK)
			rc = count(ctl, &status);
	}
	if (rc != EXIT_OK)
		return rc;
	yyjson_val *root = yyjson_doc_get_root(status);
	if (ctl->json)
		rc = print_json(ctl, root);
	else
		copies_print(root);
	if (rc == EXIT_OK && !copies_are_placed(root))
		rc = EXIT_FAILED;
	yyjson_doc_free(status);
	return rc;
}
