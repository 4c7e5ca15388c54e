/* weightctl doctor: findings about the machine, each with its remedy; with a daemon running also what it got. */
#include <string.h>
#include <sys/stat.h>
#include <yyjson.h>

#include "src/ctl/control_object.h"
#include "src/ctl/doctor.h"

/* Models' files, which are about as large as their copies. A folder's or a part's size says little: then nothing is
 * known. */
static void add_model_sizes(const struct config *config, struct doctor_subject *subject)
{
	uint64_t sum = 0, largest = 0;
	for (uint32_t i = 0; i < config->n_models; i++) {
		struct stat st;
		if (stat(config->models[i].path, &st) || !S_ISREG(st.st_mode))
			return;
		sum += (uint64_t)st.st_size;
		largest = (uint64_t)st.st_size > largest ? (uint64_t)st.st_size : largest;
	}
	subject->model_bytes = sum;
	subject->largest_bytes = largest;
}

static void add_copy(yyjson_val *copy, struct doctor_daemon *daemon)
{
	const char *placement = yyjson_get_str(yyjson_obj_get(copy, "placement"));
	bool misplaced = placement && !strcmp(placement, "misplaced");
	daemon->copy_bytes += yyjson_get_uint(yyjson_obj_get(copy, "bytes"));
	daemon->huge_bytes += yyjson_get_uint(yyjson_obj_get(copy, "huge_bytes"));
	daemon->n_copies++;
	daemon->n_misplaced += misplaced;
	daemon->n_unverified += !misplaced && placement && strcmp(placement, "verified") != 0;
}

/* {"mbind": "EPERM"} */
static void read_refused(yyjson_val *object, struct refusals *out)
{
	enum { ERRNO_MAX = 4096 };
	for (unsigned call = 0; call < N_NUMA_CALLS; call++) {
		const char *said = yyjson_get_str(yyjson_obj_get(object, numa_call_name(call)));
		int error = 1;
		if (!said)
			continue;
		while (error < ERRNO_MAX && strcmp(refusal_error_name(error), said))
			error++;
		out->error[call] = error;
	}
}

/* Workers say whether their weights are locked once they are ready. */
static void read_daemon(yyjson_val *root, struct doctor_daemon *daemon)
{
	yyjson_val *model, *copy, *worker;
	size_t i, n, j, m;
	daemon->runs = true;
	read_refused(yyjson_obj_get(root, "refused_calls"), &daemon->refused);
	yyjson_arr_foreach(yyjson_obj_get(root, "models"), i, n, model)
	{
		yyjson_arr_foreach(yyjson_obj_get(model, "copies"), j, m, copy) add_copy(copy, daemon);
	}
	yyjson_arr_foreach(yyjson_obj_get(root, "workers"), i, n, worker)
	{
		yyjson_val *locked = yyjson_obj_get(worker, "locked");
		daemon->n_workers += locked != NULL;
		daemon->n_unlocked += locked && !yyjson_get_bool(locked);
	}
}

static const char *const verdict_words[] = {"ok", "note", "wrong"}; /* by enum doctor_verdict */

static void print_for_people(const struct doctor_report *report)
{
	static const char *const words[] = {"ok", "note", "WRONG"};
	for (unsigned i = 0; i < report->n; i++) {
		const struct doctor_finding *f = &report->findings[i];
		printf("%-6s %-15s %s\n", words[f->verdict], f->name, f->found);
		if (f->remedy[0])
			printf("%22s -> %s\n", "", f->remedy);
	}
	if (report->n_wrong)
		printf("\n%u of %u findings are wrong.\n", report->n_wrong, report->n);
	else
		printf("\nNothing is wrong.\n");
}

static int print_json(const struct weightctl *ctl, const struct doctor_report *report)
{
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc);
	yyjson_mut_doc_set_root(doc, root);
	yyjson_mut_obj_add_uint(doc, root, "wrong", report->n_wrong);
	yyjson_mut_val *findings = yyjson_mut_obj_add_arr(doc, root, "findings");
	for (unsigned i = 0; i < report->n; i++) {
		const struct doctor_finding *f = &report->findings[i];
		yyjson_mut_val *object = yyjson_mut_arr_add_obj(doc, findings);
		yyjson_mut_obj_add_str(doc, object, "name", f->name);
		yyjson_mut_obj_add_str(doc, object, "verdict", verdict_words[f->verdict]);
		yyjson_mut_obj_add_str(doc, object, "found", f->found);
		if (f->remedy[0])
			yyjson_mut_obj_add_str(doc, object, "remedy", f->remedy);
	}
	return weightctl_print_json(ctl, doc);
}

int weightctl_doctor(struct weightctl *ctl)
{
	struct doctor_subject subject = {.root = ctl->sysroot, .process = "self", .config = &ctl->config};
	struct doctor_report report;
	struct err err = {""};
	char process[16];
	add_model_sizes(&ctl->config, &subject);
	if (!ctl->sysroot) {
		yyjson_doc *doc = NULL;
		doctor_try_calls(&subject.calls);
		enum weightctl_exit code = control_object(ctl, "status", &doc, &err);
		if (code == EXIT_INTERRUPTED)
			return code;
		if (code == EXIT_OK) {
			yyjson_val *root = yyjson_doc_get_root(doc);
			read_daemon(root, &subject.daemon);
			snprintf(process, sizeof process, "%d", (int)yyjson_get_int(yyjson_obj_get(root, "pid")));
			subject.process = process;
		}
		yyjson_doc_free(doc);
	}
	doctor_examine(&subject, &report);
	if (ctl->json) {
		int rc = print_json(ctl, &report);
		if (rc)
			return rc;
	} else {
		print_for_people(&report);
	}
	return report.n_wrong ? EXIT_FAILED : EXIT_OK;
}
