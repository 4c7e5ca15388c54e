/* A line of numa_maps (numa(7)) is a mapping: its address, its policy, then words in any order. Counts are of pages of
 * kernelpagesize_kB:
 *
 *   7fe078600000 bind:0 file=/dev/shm/weightd.default.m.g1.n0 dirty=24236 N0=24236 kernelpagesize_kB=4 */
#include "src/ctl/numastat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "numa/kernfile.h"
#include "src/ctl/machine.h"

int numastat_nodes(const char *root, struct numastat_nodes *out, struct err *err)
{
	struct idset nodes, with_memory;
	machine_nodes(root, &nodes, &with_memory);
	if (idset_count(&nodes) > NUMASTAT_NODES_MAX)
		return err_set(err, -ERANGE, "this machine has more than %d nodes", NUMASTAT_NODES_MAX);
	out->n = 0;
	for (int node = idset_first(&nodes); node >= 0; node = idset_next(&nodes, node))
		out->number[out->n++] = (unsigned)node;
	return 0;
}

/* One mapping's words. */
struct mapping {
	enum numastat_kind kind;
	const char *file; /* NULL: none */
	uint64_t page_bytes;
	uint64_t pages[NUMASTAT_NODES_MAX];
};

static void take_count(const char *word, const struct numastat_nodes *nodes, struct mapping *mapping)
{
	char *end;
	unsigned long node = strtoul(word + 1, &end, 10);
	if (end == word + 1 || *end != '=')
		return;
	for (unsigned i = 0; i < nodes->n; i++)
		if (nodes->number[i] == node)
			mapping->pages[i] += strtoull(end + 1, NULL, 10);
}

static void take_word(const char *word, const struct numastat_nodes *nodes, struct mapping *mapping)
{
	static const char page_key[] = "kernelpagesize_kB=", file_key[] = "file=";
	if (!strcmp(word, "huge"))
		mapping->kind = NUMASTAT_HUGE;
	else if (!strcmp(word, "heap"))
		mapping->kind = NUMASTAT_HEAP;
	else if (!strcmp(word, "stack"))
		mapping->kind = NUMASTAT_STACK;
	else if (!strncmp(word, file_key, sizeof file_key - 1))
		mapping->file = word + sizeof file_key - 1;
	else if (!strncmp(word, page_key, sizeof page_key - 1))
		mapping->page_bytes = strtoull(word + sizeof page_key - 1, NULL, 10) * 1024;
	else if (word[0] == 'N')
		take_count(word, nodes, mapping);
}

/* Whether the file of a mapping is this segment: a file in /dev/shm or another tmpfs, or a memfd, which has the name
 * without its slash and a remark behind it ("/memfd:weightd.m.g1.n0\040(deleted)"). */
static bool is_copy(const char *file, const char *name)
{
	static const char memfd[] = "/memfd:";
	size_t n = strlen(name);
	const char *base = strrchr(file, '/');
	if (!strncmp(file, memfd, sizeof memfd - 1))
		return n > 1 && !strncmp(file + sizeof memfd - 1, name + 1, n - 1) &&
		       (!file[sizeof memfd - 1 + n - 1] || file[sizeof memfd - 1 + n - 1] == '\\');
	return base && !strncmp(base, name, n) && (!base[n] || base[n] == '\\');
}

static struct numastat_copy *copy_of(const struct mapping *mapping, struct numastat_copy *copies, unsigned n_copies)
{
	for (unsigned i = 0; mapping->file && i < n_copies; i++)
		if (is_copy(mapping->file, copies[i].name))
			return &copies[i];
	return NULL;
}

static void add_mapping(const struct mapping *mapping, unsigned n_nodes, struct numastat_copy *copy,
			struct numastat_process *out)
{
	enum numastat_kind kind = copy ? NUMASTAT_COPIES : mapping->kind;
	for (unsigned i = 0; i < n_nodes; i++) {
		uint64_t bytes = mapping->pages[i] * mapping->page_bytes;
		out->bytes[kind][i] += bytes;
		if (copy && bytes > copy->bytes[i])
			copy->bytes[i] = bytes;
	}
	if (copy)
		copy->n_mappings++;
}

void numastat_add(char *text, const struct numastat_nodes *nodes, struct numastat_copy *copies, unsigned n_copies,
		  struct numastat_process *out)
{
	char *save_line = NULL;
	for (char *line = strtok_r(text, "\n", &save_line); line; line = strtok_r(NULL, "\n", &save_line)) {
		struct mapping mapping = {.kind = NUMASTAT_PRIVATE};
		char *save = NULL;
		for (char *word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save))
			take_word(word, nodes, &mapping);
		add_mapping(&mapping, nodes->n, copy_of(&mapping, copies, n_copies), out);
	}
}

int numastat_process(const char *root, pid_t pid, const struct numastat_nodes *nodes, struct numastat_copy *copies,
		     unsigned n_copies, struct numastat_process *out, struct err *err)
{
	enum { LEAST_BYTES = 1 << 18, MOST_BYTES = 1 << 26 };
	char path[64], *text = NULL;
	int rc = -EFBIG;
	snprintf(path, sizeof path, "/proc/%d/numa_maps", (int)pid);
	for (size_t size = LEAST_BYTES; rc == -EFBIG && size <= MOST_BYTES; size *= 2) {
		free(text);
		text = malloc(size);
		rc = text ? kernfile_read(root, path, text, size) : -ENOMEM;
	}
	if (rc >= 0)
		numastat_add(text, nodes, copies, n_copies, out);
	free(text);
	if (rc >= 0)
		return 0;
	char status[64], line[16];
	snprintf(status, sizeof status, "/proc/%d/comm", (int)pid);
	if (rc == -ENOENT && kernfile_read(root, status, line, sizeof line) != -ENOENT)
		return err_set(err, -ENOSYS, "%s is not there: this kernel does not count pages by node (CONFIG_NUMA)",
			       path);
	if (rc == -ENOENT || rc == -ESRCH)
		return err_set(err, -ESRCH, "process %d is gone", (int)pid);
	return err_set(err, rc, "%s: %s%s", path, strerror(-rc),
		       rc == -EACCES ? "; run this as root or as the daemon's user" : "");
}
