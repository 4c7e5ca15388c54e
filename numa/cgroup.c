/* A process' groups are named in /proc/self/cgroup, one line for each hierarchy ("4:memory:/a/b" in version 1,
 * "0::/a/b" in version 2), relative to the hierarchy's root. Where that root is mounted stands in /proc/self/mountinfo.
 * In a container only a part of the hierarchy is mounted (its fourth field, "/a"), so that part is cut from the group's
 * name:
 *
 *     group /a/b, mounted /a at /sys/fs/cgroup   ->   /sys/fs/cgroup/b, then /sys/fs/cgroup
 *
 * Limits add up downwards: every group on the way has its own, and the tightest decides. Groups above the mounted part
 * cannot be seen from in here. */
#include "numa/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "numa/kernfile.h"

/* The two versions differ in names only. */
struct version {
	const char *file_system; /* in mountinfo */
	const char *option;	 /* a word of the mount's super options, "" for none */
	const char *controllers; /* in /proc/self/cgroup */
	const char *limits[2];	 /* NULL: none */
	const char *use;
	const char *cache[2]; /* lines of memory.stat that count the group and all below it */
};

static const struct version versions[] = {
	{"cgroup",
	 "memory",
	 "memory",
	 {"memory.limit_in_bytes", NULL},
	 "memory.usage_in_bytes",
	 {"total_inactive_file ", "total_active_file "}},
	/* Past memory.high a group is slowed down until it gives pages back, which shared memory without swap cannot.
	 */
	{"cgroup2", "", "", {"memory.max", "memory.high"}, "memory.current", {"inactive_file ", "active_file "}},
};

/* True if `word` is one of the words of a comma-separated list, or both are empty. */
static bool has_word(const char *list, size_t n_list, const char *word)
{
	size_t n = strlen(word);
	const char *end = list + n_list;
	if (!n)
		return true;
	while (list < end) {
		const char *comma = memchr(list, ',', (size_t)(end - list));
		const char *stop = comma ? comma : end;
		if ((size_t)(stop - list) == n && !memcmp(list, word, n))
			return true;
		list = stop + 1;
	}
	return false;
}

/* Finds this version's line in /proc/self/cgroup and copies the group's path. */
static bool find_group(const char *text, const struct version *version, char *path, size_t size)
{
	for (const char *line = text; *line;) {
		const char *end = line + strcspn(line, "\n");
		const char *controllers = memchr(line, ':', (size_t)(end - line));
		const char *group = controllers ? memchr(controllers + 1, ':', (size_t)(end - controllers - 1)) : NULL;
		if (group) {
			size_t n = (size_t)(group - controllers - 1);
			bool same =
				version->controllers[0] ? has_word(controllers + 1, n, version->controllers) : n == 0;
			if (same && (size_t)(end - group) <= size) {
				memcpy(path, group + 1, (size_t)(end - group - 1));
				path[end - group - 1] = '\0';
				return true;
			}
		}
		line = *end ? end + 1 : end;
	}
	return false;
}

/* Where this version's hierarchy is mounted, and which part of it. A line of mountinfo reads
 * "id parent major:minor ROOT POINT options [tags] - TYPE source SUPER-OPTIONS". */
static bool find_mount(char *text, const struct version *version, char *mounted_root, char *point)
{
	char *save_line = NULL;
	for (char *line = strtok_r(text, "\n", &save_line); line; line = strtok_r(NULL, "\n", &save_line)) {
		char *dash = strstr(line, " - ");
		char type[32], options[1024];
		if (!dash || sscanf(dash, " - %31s %*s %1023s", type, options) != 2 ||
		    strcmp(type, version->file_system) || !has_word(options, strlen(options), version->option))
			continue;
		if (sscanf(line, "%*s %*s %*s %1023s %1023s", mounted_root, point) == 2)
			return true;
	}
	return false;
}

static uint64_t stat_bytes(const char *text, const char *key)
{
	size_t n = strlen(key);
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (!strncmp(line, key, n))
			return strtoull(line + n, NULL, 10);
	return 0;
}

static int read_file(const char *root, const char *group, const char *name, char *text, size_t size)
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof path, "%s/%s", group, name) >= (int)sizeof path)
		return -ENAMETOOLONG;
	return kernfile_read(root, path, text, size);
}

/* What one group still has room for; UINT64_MAX when it has no limit (the root group, or a controller that is off). */
static uint64_t group_room(const char *root, const char *group, const struct version *version)
{
	char text[16384];
	uint64_t limit = UINT64_MAX;
	for (int i = 0; i < 2 && version->limits[i]; i++) {
		if (read_file(root, group, version->limits[i], text, sizeof text) <= 0 || !strncmp(text, "max", 3))
			continue;
		uint64_t bytes = strtoull(text, NULL, 10);
		if (bytes < limit)
			limit = bytes;
	}
	if (limit == UINT64_MAX || read_file(root, group, version->use, text, sizeof text) <= 0)
		return UINT64_MAX;
	uint64_t use = strtoull(text, NULL, 10), cache = 0;
	if (read_file(root, group, "memory.stat", text, sizeof text) > 0)
		cache = stat_bytes(text, version->cache[0]) + stat_bytes(text, version->cache[1]);
	use = use > cache ? use - cache : 0;
	return limit > use ? limit - use : 0;
}

int cgroup_memory_room(const char *root, uint64_t *out, struct err *err)
{
	enum { MOUNTS_BYTES = 1 << 20 }; /* a container host has thousands of mounts */
	char groups[8192];
	uint64_t room = UINT64_MAX;
	int rc = kernfile_read(root, "/proc/self/cgroup", groups, sizeof groups);
	if (rc == -ENOENT) { /* a kernel without control groups */
		*out = room;
		return 0;
	}
	if (rc < 0)
		return err_set(err, rc, "/proc/self/cgroup: %s", strerror(-rc));
	char *mounts = malloc(MOUNTS_BYTES);
	if (!mounts)
		return err_set(err, -ENOMEM, "no memory to read /proc/self/mountinfo");
	for (size_t v = 0; v < sizeof versions / sizeof versions[0]; v++) {
		char group[PATH_MAX], mounted_root[1024], point[1024], path[PATH_MAX];
		if (!find_group(groups, &versions[v], group, sizeof group))
			continue;
		rc = kernfile_read(root, "/proc/self/mountinfo", mounts, MOUNTS_BYTES);
		if (rc < 0) {
			free(mounts);
			return err_set(err, rc, "/proc/self/mountinfo: %s", strerror(-rc));
		}
		if (!find_mount(mounts, &versions[v], mounted_root, point))
			continue;
		size_t n_root = strcmp(mounted_root, "/") ? strlen(mounted_root) : 0;
		bool inside = !strncmp(group, mounted_root, n_root) && (group[n_root] == '/' || !group[n_root]);
		int n = snprintf(path, sizeof path, "%s%s", point, inside ? group + n_root : "");
		if (n >= (int)sizeof path)
			continue;
		for (size_t end = (size_t)n; end >= strlen(point) && end > 0;) {
			path[end] = '\0';
			uint64_t here = group_room(root, path, &versions[v]);
			if (here < room)
				room = here;
			const char *slash = strrchr(path, '/');
			end = slash ? (size_t)(slash - path) : 0;
		}
	}
	free(mounts);
	*out = room;
	return 0;
}
