/* What about this machine keeps weightd from being fast or from keeping its promises, and what to do about it.
 *
 * Each check reads files of the kernel, below a root directory that may be a recorded machine's, and makes one finding.
 * What only a system call can tell, and what only the daemon knows, is found out by the caller and handed in, so that
 * every finding can be had from a directory of files and a struct. */
#ifndef WEIGHTD_DOCTOR_H
#define WEIGHTD_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "numa/refusal.h"
#include "src/config.h"

enum doctor_verdict {
	DOCTOR_OK,
	DOCTOR_NOTE,  /* worth knowing; it may be meant */
	DOCTOR_WRONG, /* there is a remedy */
};

struct doctor_finding {
	const char *name; /* static */
	enum doctor_verdict verdict;
	char found[256];
	char remedy[384]; /* "" where there is nothing to do */
};

/* Calls that sandboxes refuse. */
struct doctor_calls {
	bool asked; /* false: a recorded machine, nobody to ask */
	struct refusals numa;
	int io_uring_setup; /* -errno, 0: it is allowed */
};

/* The running daemon, as its status has it. */
struct doctor_daemon {
	bool runs;
	uint64_t copy_bytes, huge_bytes; /* of all copies of models */
	uint32_t n_workers, n_unlocked;
	uint32_t n_copies, n_unverified, n_misplaced;
	struct refusals refused; /* to any of its processes, where it runs: another sandbox than ours, as may be */
};

struct doctor_subject {
	const char *root;    /* NULL: this machine */
	const char *process; /* directory in /proc: whose limits count, "self" or the daemon's pid */
	const struct config *config;
	uint64_t model_bytes;	/* one copy of every model of the settings; 0: unknown */
	uint64_t largest_bytes; /* of these, the largest */
	struct doctor_calls calls;
	struct doctor_daemon daemon;
};

enum { DOCTOR_FINDINGS_MAX = 16 };

struct doctor_report {
	struct doctor_finding findings[DOCTOR_FINDINGS_MAX];
	unsigned n, n_wrong;
};

void doctor_examine(const struct doctor_subject *subject, struct doctor_report *out);

/* Tries the calls on memory of its own; nothing is different afterwards. */
void doctor_try_calls(struct doctor_calls *out);

/* The checks, by subject. */
struct doctor_check {
	const char *name;
	void (*run)(const struct doctor_subject *subject, struct doctor_finding *finding);
};
extern const struct doctor_check doctor_cpu_checks[], doctor_memory_checks[]; /* end with a NULL */

/* For checks: what there is, and what is to be done about it; the verdict is DOCTOR_OK until somebody says otherwise.
 */
__attribute__((format(printf, 2, 3))) void doctor_found(struct doctor_finding *finding, const char *format, ...);
__attribute__((format(printf, 3, 4))) void doctor_remedy(struct doctor_finding *finding, enum doctor_verdict verdict,
							 const char *format, ...);

#endif
