#include "src/ctl/machine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "numa/kernfile.h"

/* A list of numbers in a file; false: there is none. */
static bool read_list(const char *root, const char *path, struct idset *out)
{
	char text[32768]; /* 4096 CPUs, worst case every second one */
	idset_clear(out);
	return kernfile_read(root, path, text, sizeof text) >= 0 && !idset_parse(text, out, NULL);
}

void machine_nodes(const char *root, struct idset *nodes, struct idset *with_memory)
{
	if (!read_list(root, "/sys/devices/system/node/online", nodes))
		idset_add(nodes, 0);
	if (!read_list(root, "/sys/devices/system/node/has_memory", with_memory))
		*with_memory = *nodes;
}

void machine_node_cpus(const char *root, unsigned node, struct idset *cpus)
{
	char path[96];
	snprintf(path, sizeof path, "/sys/devices/system/node/node%u/cpulist", node);
	if (!read_list(root, path, cpus))
		read_list(root, "/sys/devices/system/cpu/online", cpus);
}

bool machine_allowed(const char *root, const char *process, const char *key, struct idset *out)
{
	char path[64], text[16384], line_key[32], list[IDSET_TEXT];
	snprintf(path, sizeof path, "/proc/%s/status", process);
	snprintf(line_key, sizeof line_key, "\n%s:", key);
	const char *line = kernfile_read(root, path, text, sizeof text) > 0 ? strstr(text, line_key) : NULL;
	if (!line)
		return false;
	line += strlen(line_key);
	line += strspn(line, " \t");
	snprintf(list, sizeof list, "%.*s", (int)strcspn(line, "\n"), line);
	return !idset_parse(list, out, NULL);
}

/* "Key:   123 kB" among the lines of a meminfo text. */
static bool meminfo_field(const char *text, const char *key, uint64_t *out)
{
	size_t n = strlen(key);
	for (const char *at = text; (at = strstr(at, key)); at += n) {
		bool whole = (at == text || at[-1] == '\n' || at[-1] == ' ') && at[n] == ':';
		if (!whole)
			continue;
		char *end;
		*out = strtoull(at + n + 1, &end, 10) * (strncmp(end, " kB", 3) ? 1 : 1024);
		return true;
	}
	return false;
}

bool machine_node_memory(const char *root, int node, const char *key, uint64_t *out)
{
	char path[96] = "/proc/meminfo", text[16384];
	if (node >= 0)
		snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo", node);
	return kernfile_read(root, path, text, sizeof text) > 0 && meminfo_field(text, key, out);
}

bool machine_node_pool(const char *root, unsigned node, uint64_t kilobytes, const char *figure, uint64_t *out)
{
	char path[160], text[32];
	snprintf(path, sizeof path, "/sys/devices/system/node/node%u/hugepages/hugepages-%" PRIu64 "kB/%s", node,
		 kilobytes, figure);
	if (kernfile_read(root, path, text, sizeof text) <= 0)
		return false;
	*out = strtoull(text, NULL, 10);
	return true;
}
