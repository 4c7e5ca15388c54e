#include "src/ctl/doctor.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/ctl/machine.h"

void doctor_found(struct doctor_finding *finding, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(finding->found, sizeof finding->found, format, args);
	va_end(args);
}

void doctor_remedy(struct doctor_finding *finding, enum doctor_verdict verdict, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(finding->remedy, sizeof finding->remedy, format, args);
	va_end(args);
	finding->verdict = verdict;
}

/* As the daemon tries them at its start: on the first node that it could have a copy on. False: nobody to ask. */
static bool try_numa(struct refusals *out)
{
	struct idset nodes, with_memory, allowed;
	machine_nodes(NULL, &nodes, &with_memory);
	if (machine_allowed(NULL, "self", "Mems_allowed_list", &allowed))
		idset_and(&with_memory, &allowed);
	int node = idset_first(&with_memory);
	return node >= 0 && !refusals_probe((unsigned)node, out);
}

void doctor_try_calls(struct doctor_calls *out)
{
	struct io_uring_params params;
	memset(&params, 0, sizeof params);
	*out = (struct doctor_calls){.asked = false};
	out->asked = try_numa(&out->numa);
	long ring = syscall(SYS_io_uring_setup, 1, &params);
	out->io_uring_setup = ring < 0 ? -errno : 0;
	if (ring >= 0)
		close((int)ring);
}

static void run_checks(const struct doctor_subject *subject, const struct doctor_check *checks,
		       struct doctor_report *out)
{
	for (; checks->name && out->n < DOCTOR_FINDINGS_MAX; checks++) {
		struct doctor_finding *finding = &out->findings[out->n++];
		*finding = (struct doctor_finding){.name = checks->name};
		checks->run(subject, finding);
		out->n_wrong += finding->verdict == DOCTOR_WRONG;
	}
}

void doctor_examine(const struct doctor_subject *subject, struct doctor_report *out)
{
	out->n = out->n_wrong = 0;
	run_checks(subject, doctor_memory_checks, out);
	run_checks(subject, doctor_cpu_checks, out);
}
