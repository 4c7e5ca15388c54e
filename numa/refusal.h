/* NUMA system calls that were refused: by a kernel without NUMA (ENOSYS), by a seccomp filter as containers have one
 * (EPERM, mostly, as it may choose), or for nodes that a cpuset took away (EINVAL). None of them is needed to compute,
 * so work goes on; but what the call was to bring about or to prove is then nobody's promise. */
#ifndef WEIGHTD_NUMA_REFUSAL_H
#define WEIGHTD_NUMA_REFUSAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum numa_call {
	NUMA_MBIND,
	NUMA_GET_MEMPOLICY,
	NUMA_SET_MEMPOLICY,
	NUMA_MOVE_PAGES,
	NUMA_MIGRATE_PAGES,
	N_NUMA_CALLS
};

struct refusals {
	int32_t error[N_NUMA_CALLS]; /* errno by enum numa_call; 0: it was not refused */
};

enum { REFUSALS_TEXT = 160 };

const char *numa_call_name(enum numa_call call); /* "mbind" */
const char *refusal_error_name(int error);	 /* "EPERM" */

/* Notes that `call` failed with `rc` (-errno) if that is a refusal. False for any other failure, which is the caller's
 * to tell. */
bool refusals_note(struct refusals *refusals, enum numa_call call, int rc);

bool refusals_any(const struct refusals *refusals);
/* Adds the other's. True if one of them is new. */
bool refusals_add(struct refusals *refusals, const struct refusals *other);
/* "mbind (EPERM), move_pages (ENOSYS)"; "" for none. REFUSALS_TEXT holds all calls. Returns `text`. */
const char *refusals_format(const struct refusals *refusals, char *text, size_t size);

/* Tries each call on a page of its own, bound to `node`, and on the calling thread's policy, which stays as it is; not
 * migrate_pages, which is needed only where there are several nodes, and told there by who needs it. 0, with what was
 * refused added to *refusals, or -errno for want of a page. */
int refusals_probe(unsigned node, struct refusals *refusals);

#endif
