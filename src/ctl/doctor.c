#include "src/ctl/doctor.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <numaif.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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

static int outcome(long rc)
{
	return rc < 0 ? -errno : 0;
}

void doctor_try_calls(struct doctor_calls *out)
{
	struct io_uring_params params;
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	memset(&params, 0, sizeof params);
	*out = (struct doctor_calls){.asked = true};
	struct idset nodes;
	int mode = MPOL_DEFAULT, status;
	idset_clear(&nodes);
	void *page = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (page == MAP_FAILED) {
		out->asked = false;
		return;
	}
	/* A mask's size is one more than the bits in it (numa/bind.c). The policy is set to what it is. */
	out->get_mempolicy = outcome(get_mempolicy(&mode, (unsigned long *)nodes.word, IDSET_MAX + 1, NULL, 0));
	out->set_mempolicy = outcome(set_mempolicy(mode, (unsigned long *)nodes.word, IDSET_MAX + 1));
	out->mbind = outcome(mbind(page, page_bytes, MPOL_DEFAULT, NULL, 0, 0));
	out->move_pages = outcome(move_pages(0, 1, &page, NULL, &status, 0));
	munmap(page, page_bytes);
	long ring = syscall(SYS_io_uring_setup, 1, &params);
	out->io_uring_setup = outcome(ring);
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
