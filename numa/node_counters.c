#include "numa/node_counters.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numa/kernfile.h"

static const char *const pool_name[NODE_POOLS] = {[NODE_POOL_2M] = "2048kB", [NODE_POOL_1G] = "1048576kB"};

/* Reads a file of the node. The length, or -errno. */
static int read_file(const char *root, unsigned node, const char *name, char *text, size_t size)
{
	char path[128];
	snprintf(path, sizeof path, "/sys/devices/system/node/node%u/%s", node, name);
	return kernfile_read(root, path, text, size);
}

/* The number behind the word `name`, which begins a line or follows a space. */
static int find_number(const char *text, const char *name, uint64_t *out)
{
	size_t n = strlen(name);
	for (const char *at = text; (at = strstr(at, name)) != NULL; at += n) {
		char *end;
		if ((at > text && at[-1] != '\n' && at[-1] != ' ') || at[n] != ' ')
			continue;
		*out = strtoull(at + n, &end, 10);
		return end > at + n ? 0 : -EPROTO;
	}
	return -EPROTO;
}

static int read_pages(const char *root, unsigned node, struct node_counters *out)
{
	char text[1024];
	const struct {
		const char *name;
		uint64_t *value;
	} fields[] = {{"numa_hit", &out->hit},	       {"numa_miss", &out->miss},
		      {"numa_foreign", &out->foreign}, {"interleave_hit", &out->interleave_hit},
		      {"local_node", &out->local},     {"other_node", &out->other}};
	int rc = read_file(root, node, "numastat", text, sizeof text);
	for (size_t i = 0; i < sizeof fields / sizeof *fields && rc >= 0; i++)
		rc = find_number(text, fields[i].name, fields[i].value);
	return rc < 0 ? rc : 0;
}

/* Lines read "Node 0 MemTotal:       16384 kB". */
static int read_memory(const char *root, unsigned node, struct node_counters *out)
{
	char text[8192];
	int rc = read_file(root, node, "meminfo", text, sizeof text);
	if (rc >= 0)
		rc = find_number(text, "MemTotal:", &out->total_bytes);
	if (!rc)
		rc = find_number(text, "MemFree:", &out->free_bytes);
	out->total_bytes *= 1024;
	out->free_bytes *= 1024;
	return rc < 0 ? rc : 0;
}

static uint64_t pool_number(const char *root, unsigned node, const char *pool, const char *file)
{
	char name[64], text[32];
	snprintf(name, sizeof name, "hugepages/hugepages-%s/%s", pool, file);
	return read_file(root, node, name, text, sizeof text) > 0 ? strtoull(text, NULL, 10) : 0;
}

int node_counters_read(const char *sysfs_root, unsigned node, struct node_counters *out)
{
	struct node_counters read = {0};
	int rc = read_pages(sysfs_root, node, &read);
	if (!rc)
		rc = read_memory(sysfs_root, node, &read);
	if (rc)
		return rc;
	for (int i = 0; i < NODE_POOLS; i++) {
		read.pool[i].pages = pool_number(sysfs_root, node, pool_name[i], "nr_hugepages");
		read.pool[i].free_pages = pool_number(sysfs_root, node, pool_name[i], "free_hugepages");
	}
	*out = read;
	return 0;
}
