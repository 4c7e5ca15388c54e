#include "numa/refusal.h"

#include <errno.h>
#include <numaif.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "numa/bind.h"
#include "numa/placement.h"

enum { NO_MODE = 0xff }; /* no policy's number, no flag */

static const char *const names[N_NUMA_CALLS] = {
	[NUMA_MBIND] = "mbind",
	[NUMA_GET_MEMPOLICY] = "get_mempolicy",
	[NUMA_SET_MEMPOLICY] = "set_mempolicy",
	[NUMA_MOVE_PAGES] = "move_pages",
	[NUMA_MIGRATE_PAGES] = "migrate_pages",
};

const char *numa_call_name(enum numa_call call)
{
	return names[call];
}

const char *refusal_error_name(int error)
{
	const char *name = strerrorname_np(error);
	return name ? name : "?";
}

bool refusals_note(struct refusals *refusals, enum numa_call call, int rc)
{
	if (rc != -EPERM && rc != -EACCES && rc != -EINVAL && rc != -ENOSYS)
		return false;
	refusals->error[call] = -rc;
	return true;
}

bool refusals_any(const struct refusals *refusals)
{
	for (unsigned call = 0; call < N_NUMA_CALLS; call++)
		if (refusals->error[call])
			return true;
	return false;
}

bool refusals_add(struct refusals *refusals, const struct refusals *other)
{
	bool fresh = false;
	for (unsigned call = 0; call < N_NUMA_CALLS; call++) {
		if (!other->error[call])
			continue;
		fresh |= !refusals->error[call];
		refusals->error[call] = other->error[call];
	}
	return fresh;
}

const char *refusals_format(const struct refusals *refusals, char *text, size_t size)
{
	size_t n = 0;
	if (size)
		text[0] = '\0';
	for (unsigned call = 0; call < N_NUMA_CALLS && n < size; call++) {
		if (!refusals->error[call])
			continue;
		int error = refusals->error[call];
		n += (size_t)snprintf(text + n, size - n, "%s%s (%s)", n ? ", " : "", names[call],
				      refusal_error_name(error));
	}
	return text;
}

/* The thread's own policy, read and set again. What cannot be read could not be put back: then a mode that there is
 * not, which is invalid unless the call is not even looked at. */
static void probe_thread(struct refusals *refusals)
{
	unsigned long nodes[IDSET_WORDS] = {0};
	int mode;
	bool known = !get_mempolicy(&mode, nodes, IDSET_MAX + 1, NULL, 0);
	if (!known)
		refusals_note(refusals, NUMA_GET_MEMPOLICY, -errno);
	if (set_mempolicy(known ? mode : NO_MODE, nodes, IDSET_MAX + 1) && (known || errno != EINVAL))
		refusals_note(refusals, NUMA_SET_MEMPOLICY, -errno);
}

int refusals_probe(unsigned node, struct refusals *refusals)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	struct placement placement;
	char *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return -errno;
	/* Any other failure is told when the real thing fails, with all that belongs to it. */
	(void)bind_mapping(page, bytes, node, refusals, NULL);
	page[0] = 1;
	int rc = placement_check(page, bytes, node, &placement);
	if (!rc)
		refusals_add(refusals, &placement.refused);
	munmap(page, bytes);
	probe_thread(refusals);
	return rc;
}
