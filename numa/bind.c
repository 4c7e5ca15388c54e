#include "numa/bind.h"

#include <dirent.h>
#include <errno.h>
#include <numaif.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The kernel takes node masks as arrays of unsigned long and a size one greater than the number of bits it reads. */
_Static_assert(sizeof(unsigned long) == sizeof(uint64_t), "an idset is a kernel bit mask");
enum { MASK_BITS = IDSET_MAX + 1 };

int bind_thread_read(struct idset *out, struct err *err)
{
	struct idset cpus;
	idset_clear(&cpus);
	/* glibc's sched_getaffinity clears what the kernel did not write. -EINVAL: more CPUs than IDSET_MAX. */
	if (sched_getaffinity(0, sizeof cpus, (cpu_set_t *)&cpus))
		return err_set(err, -errno, "cannot read the thread's CPU affinity: %s", strerror(errno));
	*out = cpus;
	return 0;
}

int bind_process_read(pid_t pid, struct idset *out)
{
	char path[32];
	struct idset found, cpus;
	idset_clear(&found);
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *tasks = opendir(path);
	if (!tasks)
		return errno == ENOENT ? -ESRCH : -errno;
	for (const struct dirent *task; (task = readdir(tasks));) {
		pid_t thread = (pid_t)strtol(task->d_name, NULL, 10);
		idset_clear(&cpus);
		/* "." and ".."; threads that have ended since they were listed. */
		if (thread > 0 && !sched_getaffinity(thread, sizeof cpus, (cpu_set_t *)&cpus))
			idset_or(&found, &cpus);
	}
	closedir(tasks);
	if (idset_first(&found) < 0)
		return -ESRCH;
	*out = found;
	return 0;
}

int bind_thread(const struct idset *cpus, struct err *err)
{
	struct idset inherited, outside = *cpus;
	int rc = bind_thread_read(&inherited, err);
	if (rc)
		return rc;
	char wanted_text[64], text[64];
	idset_format(cpus, wanted_text, sizeof wanted_text);
	if (idset_first(cpus) < 0)
		return err_set(err, -EINVAL, "cannot bind a thread to no CPU at all");
	for (int cpu = idset_first(&inherited); cpu >= 0; cpu = idset_next(&inherited, cpu))
		idset_remove(&outside, (unsigned)cpu);
	if (idset_first(&outside) >= 0)
		return err_set(err, -EINVAL, "CPUs %s are outside the CPUs this thread inherited (%s)", wanted_text,
			       idset_format(&inherited, text, sizeof text));
	if (sched_setaffinity(0, sizeof *cpus, (const cpu_set_t *)cpus))
		return err_set(err, -errno, "cannot bind to CPUs %s: %s", wanted_text, strerror(errno));
	/* A cpuset that shrank meanwhile cuts the mask down without a word. */
	struct idset now;
	rc = bind_thread_read(&now, err);
	if (rc)
		return rc;
	if (!idset_equal(&now, cpus))
		return err_set(err, -EIO, "asked for CPUs %s, the kernel gave %s", wanted_text,
			       idset_format(&now, text, sizeof text));
	return 0;
}

int bind_thread_memory(unsigned node, struct err *err)
{
	struct idset nodes;
	idset_clear(&nodes);
	idset_add(&nodes, node);
	if (node >= IDSET_MAX)
		return err_set(err, -EINVAL, "node %u is past %d", node, IDSET_MAX - 1);
	if (set_mempolicy(MPOL_PREFERRED, (unsigned long *)nodes.word, MASK_BITS))
		return err_set(err, -errno, "cannot prefer memory of node %u: %s", node, strerror(errno));
	return 0;
}

/* The program's own data, its stack and its libraries' tables were touched before anybody could say where. */
static int move_process_memory(unsigned node, struct refusals *refused, struct err *err)
{
	struct idset from, to;
	idset_clear(&from);
	idset_clear(&to);
	idset_add(&to, node);
	if (get_mempolicy(NULL, (unsigned long *)from.word, MASK_BITS, NULL, MPOL_F_MEMS_ALLOWED)) {
		int rc = -errno;
		return refusals_note(refused, NUMA_GET_MEMPOLICY, rc)
			       ? 0
			       : err_set(err, rc, "cannot read the nodes that memory may be on: %s", strerror(-rc));
	}
	idset_remove(&from, node);
	/* A positive result is the number of pages that stayed: pinned, or there is no room for them. */
	if (idset_first(&from) >= 0 &&
	    migrate_pages(0, MASK_BITS, (unsigned long *)from.word, (unsigned long *)to.word) < 0) {
		int rc = -errno;
		return refusals_note(refused, NUMA_MIGRATE_PAGES, rc)
			       ? 0
			       : err_set(err, rc, "cannot move this process's memory to node %u: %s", node,
					 strerror(-rc));
	}
	return 0;
}

int bind_process_memory(unsigned node, struct refusals *refused, struct err *err)
{
	int rc = bind_thread_memory(node, err);
	if (rc && (node >= IDSET_MAX || !refusals_note(refused, NUMA_SET_MEMPOLICY, rc)))
		return rc;
	return move_process_memory(node, refused, err);
}

int bind_process_nodes(const struct idset *nodes, struct err *err)
{
	struct idset set = *nodes; /* the prototype lacks the const */
	char text[64];
	if (set_mempolicy(MPOL_BIND, (unsigned long *)set.word, MASK_BITS))
		return err_set(err, -errno, "cannot bind memory to nodes %s: %s",
			       idset_format(nodes, text, sizeof text), strerror(errno));
	return 0;
}

static const char *mode_name(int mode)
{
	return mode == MPOL_BIND ? "MPOL_BIND" : "MPOL_INTERLEAVE";
}

/* The policy of one address must be exactly this. */
static int check_policy(const void *address, int wanted_mode, const struct idset *wanted, struct refusals *refused,
			struct err *err)
{
	struct idset nodes;
	int mode = -1;
	idset_clear(&nodes);
	/* get_mempolicy only looks the address up; its prototype lacks the const. */
	if (get_mempolicy(&mode, (unsigned long *)nodes.word, MASK_BITS, (void *)(uintptr_t)address, MPOL_F_ADDR)) {
		int rc = -errno;
		return refusals_note(refused, NUMA_GET_MEMPOLICY, rc)
			       ? 0
			       : err_set(err, rc, "cannot read a mapping's memory policy back: %s", strerror(-rc));
	}
	if (mode != wanted_mode || !idset_equal(&nodes, wanted)) {
		char text[64], wanted_text[64];
		return err_set(err, -EIO, "asked for %s to node %s, the kernel reports policy %d on nodes '%s'",
			       mode_name(wanted_mode), idset_format(wanted, wanted_text, sizeof wanted_text), mode,
			       idset_format(&nodes, text, sizeof text));
	}
	return 0;
}

int bind_mapping_spread(void *base, size_t bytes, const struct idset *nodes, struct refusals *refused, struct err *err)
{
	struct idset set = *nodes; /* the prototype lacks the const */
	char text[64];
	int mode = idset_count(nodes) > 1 ? MPOL_INTERLEAVE : MPOL_BIND;
	idset_format(nodes, text, sizeof text);
	if (idset_first(nodes) < 0 || !bytes)
		return err_set(err, -EINVAL, "cannot bind %zu bytes to node '%s'", bytes, text);
	if (mbind(base, bytes, mode, (unsigned long *)set.word, MASK_BITS, 0)) {
		int rc = -errno;
		return refusals_note(refused, NUMA_MBIND, rc)
			       ? 0
			       : err_set(err, rc, "cannot bind a mapping of %zu bytes to node %s: %s", bytes, text,
					 strerror(-rc));
	}
	/* Both ends: a mapping that is really two would show here. */
	int rc = check_policy(base, mode, nodes, refused, err);
	return rc ? rc : check_policy((char *)base + bytes - 1, mode, nodes, refused, err);
}

int bind_mapping(void *base, size_t bytes, unsigned node, struct refusals *refused, struct err *err)
{
	struct idset nodes;
	idset_clear(&nodes);
	idset_add(&nodes, node); /* one past IDSET_MAX leaves it empty */
	return bind_mapping_spread(base, bytes, &nodes, refused, err);
}
