/* What keeps copies from being made, from being whole in memory and from lying in huge pages. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "io/loop.h"
#include "numa/cgroup.h"
#include "numa/kernfile.h"
#include "shm/segment.h"
#include "src/ctl/doctor.h"
#include "src/ctl/machine.h"
#include "src/ctl/table.h"

static unsigned n_copies(const struct doctor_subject *subject)
{
	struct idset nodes, with_memory;
	machine_nodes(subject->root, &nodes, &with_memory);
	return idset_count(&with_memory);
}

/* --- /dev/shm --------------------------------------------------------------------------------- */

static uint64_t memory_total(const char *root)
{
	uint64_t bytes = 0;
	machine_node_memory(root, -1, "MemTotal", &bytes);
	return bytes;
}

/* The size of the file system at /dev/shm, the last one mounted there; 0: there is none. A tmpfs without a size has
 * half of the memory (tmpfs(5)). */
static uint64_t shm_bytes(const char *root)
{
	enum { MOUNTS_BYTES = 1 << 20 };
	char *text = malloc(MOUNTS_BYTES), *save = NULL;
	uint64_t bytes = 0;
	if (!text || kernfile_read(root, "/proc/self/mountinfo", text, MOUNTS_BYTES) < 0) {
		free(text);
		return 0;
	}
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char point[256];
		if (sscanf(line, "%*s %*s %*s %*s %255s", point) != 1 || strcmp(point, "/dev/shm"))
			continue;
		const char *options = strstr(line, " - "), *size = options ? strstr(options, "size=") : NULL;
		char unit = 0;
		bytes = 0;
		if (!size || sscanf(size, "size=%" SCNu64 "%c", &bytes, &unit) < 1)
			bytes = memory_total(root) / 2;
		else
			bytes <<= unit == 'k' ? 10 : unit == 'm' ? 20 : unit == 'g' ? 30 : 0;
	}
	free(text);
	return bytes;
}

static void dev_shm(const struct doctor_subject *subject, struct doctor_finding *f)
{
	char size[TABLE_UNIT_TEXT], need[TABLE_UNIT_TEXT];
	unsigned copies = n_copies(subject);
	uint64_t bytes = shm_bytes(subject->root), needed = subject->model_bytes * copies;
	if (subject->config->backing == SEGMENT_MEMFD) {
		doctor_found(f, "not used: backing = memfd");
		return;
	}
	if (!bytes) {
		doctor_found(f, "nothing is mounted at /dev/shm: named copies cannot be made");
		doctor_remedy(f, DOCTOR_WRONG, "mount -t tmpfs tmpfs /dev/shm, or set backing = memfd in weightd.conf");
		return;
	}
	table_bytes(bytes, size);
	if (!needed) {
		doctor_found(f, "%s", size);
		return;
	}
	doctor_found(f, "%s; the models' copies take about %s on %u node%s", size, table_bytes(needed, need), copies,
		     copies == 1 ? "" : "s");
	if (needed > bytes)
		doctor_remedy(f, DOCTOR_WRONG,
			      "mount -o remount,size=%" PRIu64 "G /dev/shm (and the same size in /etc/fstab), or set "
			      "backing = memfd in weightd.conf",
			      (needed >> 30) + (needed >> 33) + 1);
}

/* --- locking ---------------------------------------------------------------------------------- */

/* The soft limit of locked memory; UINT64_MAX: none. False: it can't be read. */
static bool memlock_limit(const struct doctor_subject *subject, uint64_t *out)
{
	static const char key[] = "Max locked memory";
	char path[64], text[8192];
	snprintf(path, sizeof path, "/proc/%s/limits", subject->process);
	if (kernfile_read(subject->root, path, text, sizeof text) < 0)
		return false;
	const char *line = strstr(text, key);
	if (!line)
		return false;
	line += sizeof key - 1;
	line += strspn(line, " ");
	*out = *line == 'u' ? UINT64_MAX : strtoull(line, NULL, 10);
	return true;
}

/* CAP_IPC_LOCK: no limit holds. */
static bool may_lock_anything(const struct doctor_subject *subject)
{
	enum { CAPABILITY_IPC_LOCK = 14 };
	char path[64], text[16384];
	snprintf(path, sizeof path, "/proc/%s/status", subject->process);
	const char *line = kernfile_read(subject->root, path, text, sizeof text) > 0 ? strstr(text, "\nCapEff:") : NULL;
	return line && strtoull(line + strlen("\nCapEff:"), NULL, 16) >> CAPABILITY_IPC_LOCK & 1;
}

static void memlock(const struct doctor_subject *subject, struct doctor_finding *f)
{
	static const char remedy[] = "LimitMEMLOCK=infinity in the service's unit (weightd.service has it); without "
				     "systemd: ulimit -l unlimited, or memlock in /etc/security/limits.d";
	const struct doctor_daemon *daemon = &subject->daemon;
	const char *whose = daemon->runs ? "the daemon" : "a program started here";
	char text[TABLE_UNIT_TEXT], need[TABLE_UNIT_TEXT];
	uint64_t limit;
	if (!subject->config->lock_memory) {
		doctor_found(f, "not wanted: lock_memory = no");
	} else if (daemon->n_unlocked) {
		doctor_found(f, "the weights of %u of %u workers are not locked: they may be swapped out",
			     daemon->n_unlocked, daemon->n_workers);
		doctor_remedy(f, DOCTOR_WRONG, "%s", remedy);
	} else if (daemon->n_workers) {
		doctor_found(f, "all weights are locked");
	} else if (may_lock_anything(subject)) {
		doctor_found(f, "%s may lock any amount (CAP_IPC_LOCK)", whose);
	} else if (!memlock_limit(subject, &limit)) {
		doctor_found(f, "/proc/%s/limits cannot be read", subject->process);
		doctor_remedy(f, DOCTOR_NOTE, "run this as root or as the daemon's user");
	} else if (limit == UINT64_MAX) {
		doctor_found(f, "%s may lock any amount", whose);
	} else if (subject->largest_bytes) {
		doctor_found(f, "%s may lock %s, the largest model takes about %s", whose, table_bytes(limit, text),
			     table_bytes(subject->largest_bytes, need));
		if (limit < subject->largest_bytes)
			doctor_remedy(f, DOCTOR_WRONG, "%s", remedy);
	} else {
		doctor_found(f, "%s may lock %s: models that are larger will not be locked", whose,
			     table_bytes(limit, text));
		doctor_remedy(f, DOCTOR_NOTE, "%s", remedy);
	}
}

/* --- room ------------------------------------------------------------------------------------- */

static void memory_limit(const struct doctor_subject *subject, struct doctor_finding *f)
{
	char text[TABLE_UNIT_TEXT], need[TABLE_UNIT_TEXT];
	struct err err = {""};
	uint64_t room, needed = subject->model_bytes * n_copies(subject), total = memory_total(subject->root);
	if (cgroup_memory_room(subject->root, &room, &err)) {
		doctor_found(f, "%s", err.text);
		doctor_remedy(f, DOCTOR_NOTE, "mount the control groups' file system where this runs");
	} else if (room == UINT64_MAX ||
		   (total && room >= total)) { /* version 1 says "unlimited" with a large number */
		doctor_found(f, "no control group limits memory here");
	} else if (!needed || subject->daemon.n_copies) {
		doctor_found(f, "the control group has room for %s", table_bytes(room, text));
	} else {
		doctor_found(f, "the control group has room for %s, the models' copies take about %s",
			     table_bytes(room, text), table_bytes(needed, need));
		if (room < needed)
			doctor_remedy(f, DOCTOR_WRONG,
				      "raise MemoryMax= (the container's memory limit), or serve fewer or smaller "
				      "models");
	}
}

/* --- huge pages ------------------------------------------------------------------------------- */

/* The word in brackets of "always [madvise] never"; false: there is no such file. */
static bool chosen_word(const char *root, const char *path, char *out, size_t size)
{
	char text[256];
	if (kernfile_read(root, path, text, sizeof text) < 0)
		return false;
	const char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;
	snprintf(out, size, "%.*s", close ? (int)(close - open - 1) : 0, close ? open + 1 : "");
	return close != NULL;
}

static void huge_pages(const struct doctor_subject *subject, struct doctor_finding *f)
{
	static const char path[] = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
	const struct doctor_daemon *daemon = &subject->daemon;
	char word[32], have[TABLE_UNIT_TEXT], all[TABLE_UNIT_TEXT];
	enum doctor_verdict verdict = subject->config->huge_pages == SEGMENT_HUGE_ON ? DOCTOR_WRONG : DOCTOR_NOTE;
	if (subject->config->huge_pages == SEGMENT_HUGE_OFF) {
		doctor_found(f, "not wanted: huge_pages = off");
	} else if (!chosen_word(subject->root, path, word, sizeof word)) {
		doctor_found(f, "this kernel has no transparent huge pages for shared memory");
		doctor_remedy(f, verdict,
			      "a kernel with CONFIG_TRANSPARENT_HUGEPAGE: copies in 4 KiB pages are read "
			      "with more TLB misses");
	} else if (!strcmp(word, "deny")) {
		doctor_found(f, "shmem_enabled is 'deny': copies lie in 4 KiB pages");
		doctor_remedy(f, DOCTOR_WRONG, "echo never > %s is enough: weightd asks for what it needs", path);
	} else if (daemon->copy_bytes && daemon->huge_bytes < daemon->copy_bytes / 10 * 9) {
		doctor_found(f, "%s of the copies' %s lie in huge pages", table_bytes(daemon->huge_bytes, have),
			     table_bytes(daemon->copy_bytes, all));
		doctor_remedy(f, verdict,
			      "memory was in pieces when they were made: echo 1 > /proc/sys/vm/compact_memory, then "
			      "restart weightd");
	} else {
		doctor_found(f, "to be had for shared memory (shmem_enabled is '%s'; weightd asks)", word);
	}
}

/* Whole kilobytes in "hugepages-2048kB"; 0: another name. */
static uint64_t page_kilobytes(const char *name)
{
	uint64_t kilobytes = 0;
	int end = 0;
	return sscanf(name, "hugepages-%" SCNu64 "kB%n", &kilobytes, &end) == 1 && end && !name[end] ? kilobytes : 0;
}

/* One size's pools, one after the other; false: they are not alike. */
static bool describe_pools(const char *root, const struct idset *nodes, uint64_t kilobytes, char *text, size_t size)
{
	uint64_t first = UINT64_MAX;
	size_t n = strlen(text);
	bool alike = true;
	for (int node = idset_first(nodes); node >= 0; node = idset_next(nodes, node)) {
		uint64_t reserved, unused = 0;
		if (!machine_node_pool(root, (unsigned)node, kilobytes, "nr_hugepages", &reserved))
			continue;
		machine_node_pool(root, (unsigned)node, kilobytes, "free_hugepages", &unused);
		first = first == UINT64_MAX ? reserved : first;
		alike &= reserved == first;
		if (n < size)
			n += (size_t)snprintf(text + n, size - n,
					      "%snode %d: %" PRIu64 " of %" PRIu64 " kB, %" PRIu64 " free",
					      n ? "; " : "", node, reserved, kilobytes, unused);
	}
	return alike;
}

static bool any_reserved(const char *root, const struct idset *nodes, uint64_t kilobytes)
{
	uint64_t reserved;
	for (int node = idset_first(nodes); node >= 0; node = idset_next(nodes, node))
		if (machine_node_pool(root, (unsigned)node, kilobytes, "nr_hugepages", &reserved) && reserved)
			return true;
	return false;
}

/* Sizes differ by architecture, so they are read from the first node's directory. */
static void hugetlb_pools(const struct doctor_subject *subject, struct doctor_finding *f)
{
	struct idset all, nodes;
	char path[PATH_MAX], text[sizeof f->found] = "";
	bool alike = true;
	machine_nodes(subject->root, &all, &nodes);
	snprintf(path, sizeof path, "%s/sys/devices/system/node/node%d/hugepages", subject->root ? subject->root : "",
		 idset_first(&nodes));
	DIR *directory = opendir(path);
	if (!directory) {
		doctor_found(f, "this kernel has no hugetlb pools for each node");
		return;
	}
	for (struct dirent *entry; (entry = readdir(directory));) {
		uint64_t kilobytes = page_kilobytes(entry->d_name);
		if (kilobytes && any_reserved(subject->root, &nodes, kilobytes))
			alike &= describe_pools(subject->root, &nodes, kilobytes, text, sizeof text);
	}
	closedir(directory);
	doctor_found(f, "%s", text[0] ? text : "none is reserved; transparent huge pages need none");
	if (!alike)
		doctor_remedy(f, DOCTOR_WRONG,
			      "reserve alike on all nodes, as early as possible after boot: echo N > "
			      "/sys/devices/system/node/nodeX/hugepages/hugepages-SIZEkB/nr_hugepages");
}

/* --- rings ------------------------------------------------------------------------------------ */

static void io_uring(const struct doctor_subject *subject, struct doctor_finding *f)
{
	static const char loss[] = "without it sockets are served by epoll and files are read by pread";
	char text[32];
	long mode = 0;
	int refused = subject->calls.asked ? subject->calls.io_uring_setup : 0;
	enum doctor_verdict verdict = subject->config->io == IO_EPOLL ? DOCTOR_NOTE : DOCTOR_WRONG;
	if (kernfile_read(subject->root, "/proc/sys/kernel/io_uring_disabled", text, sizeof text) > 0)
		mode = strtol(text, NULL, 10);
	if (mode == 2) {
		doctor_found(f, "kernel.io_uring_disabled is 2: nobody may use it; %s", loss);
		doctor_remedy(f, verdict, "sysctl -w kernel.io_uring_disabled=0, and the same in /etc/sysctl.d");
	} else if (mode == 1) {
		doctor_found(f, "kernel.io_uring_disabled is 1: for root and members of kernel.io_uring_group; %s",
			     loss);
		doctor_remedy(f, refused ? verdict : DOCTOR_NOTE,
			      "sysctl -w kernel.io_uring_group=$(getent group weightd | cut -d: -f3), or "
			      "kernel.io_uring_disabled=0");
	} else if (refused) {
		doctor_found(f, "io_uring_setup: %s (a container's filter?); %s", strerror(-refused), loss);
		doctor_remedy(f, verdict,
			      "allow io_uring_setup, io_uring_enter and io_uring_register in the container's "
			      "seccomp profile, or set io = epoll in weightd.conf");
	} else {
		doctor_found(f, "allowed");
	}
}

const struct doctor_check doctor_memory_checks[] = {{"dev_shm", dev_shm},
						    {"memlock", memlock},
						    {"memory_limit", memory_limit},
						    {"huge_pages", huge_pages},
						    {"hugetlb_pools", hugetlb_pools},
						    {"io_uring", io_uring},
						    {NULL, NULL}};
