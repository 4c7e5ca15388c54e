/* hwloc tells cores, packages, memory and distances; three things it does not tell the way we need them are read beside
 * it:
 *
 *   - which CPUs the kernel counts to a node (nodeN/cpulist). hwloc gives a node without CPUs the CPUs of its
 * neighbours, which is right for choosing memory and wrong for placing workers: they would run twice on the same CPUs;
 *   - the affinity this process inherited (taskset, numactl --cpunodebind, systemd's CPUAffinity): hwloc knows cpusets
 * only;
 *   - the nodes this process may allocate on, Mems_allowed_list of /proc/self/status: that is what mbind(2) checks
 * against. */
#include "numa/topology.h"

#include <errno.h>
#include <hwloc.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "numa/bind.h"
#include "numa/kernfile.h"

struct topology {
	unsigned n_nodes;
	struct topology_node *nodes; /* [n_nodes], by os_index */
	unsigned *distances;	     /* [n_nodes][n_nodes], 0: unknown */
	uint16_t core[IDSET_MAX];    /* of each CPU: the lowest CPU of its core; where the machine shows none, itself */
};

static void from_bitmap(hwloc_const_bitmap_t bitmap, struct idset *out)
{
	idset_clear(out);
	for (int i = hwloc_bitmap_first(bitmap); i >= 0 && i < IDSET_MAX; i = hwloc_bitmap_next(bitmap, i))
		idset_add(out, (unsigned)i);
}

/* --- loading through hwloc -------------------------------------------------------------------- */

/* The variables that decide where hwloc looks; put back as they were after loading. */
struct hwloc_environment {
	char *fsroot, *components;
};

static int environment_set(const char *root, struct hwloc_environment *saved)
{
	const char *fsroot = getenv("HWLOC_FSROOT"), *components = getenv("HWLOC_COMPONENTS");
	saved->fsroot = fsroot ? strdup(fsroot) : NULL;
	saved->components = components ? strdup(components) : NULL;
	if ((fsroot && !saved->fsroot) || (components && !saved->components))
		return -ENOMEM;
	/* "linux,stop": the CPUID of this machine must not leak into a recorded one. */
	return setenv("HWLOC_FSROOT", root, 1) || setenv("HWLOC_COMPONENTS", "linux,stop", 1) ? -ENOMEM : 0;
}

static void environment_put_back(struct hwloc_environment *saved)
{
	/* setenv can only fail for lack of memory here; then the variable is gone, which is its usual state. */
	if (!saved->fsroot || setenv("HWLOC_FSROOT", saved->fsroot, 1))
		unsetenv("HWLOC_FSROOT");
	if (!saved->components || setenv("HWLOC_COMPONENTS", saved->components, 1))
		unsetenv("HWLOC_COMPONENTS");
	free(saved->fsroot);
	free(saved->components);
}

static int hwloc_read(hwloc_topology_t *out, struct err *err)
{
	hwloc_topology_t hw;
	if (hwloc_topology_init(&hw))
		return err_set(err, -ENOMEM, "hwloc could not start");
	/* Disallowed CPUs and nodes stay visible: status shows them, and the allowed sets are applied below. */
	if (hwloc_topology_set_flags(hw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) ||
	    hwloc_topology_set_io_types_filter(hw, HWLOC_TYPE_FILTER_KEEP_NONE) || hwloc_topology_load(hw)) {
		int rc = errno ? -errno : -EIO;
		hwloc_topology_destroy(hw);
		return err_set(err, rc, "hwloc could not read the machine's topology: %s", strerror(-rc));
	}
	*out = hw;
	return 0;
}

static int hwloc_read_tree(const char *root, hwloc_topology_t *out, struct err *err)
{
	struct hwloc_environment saved;
	char path[PATH_MAX];
	if (snprintf(path, sizeof path, "%s/sys/devices/system/node", root) >= (int)sizeof path)
		return err_set(err, -ENAMETOOLONG, "%.128s: path too long", root);
	/* hwloc quietly makes one up when the tree is not there. */
	if (access(path, R_OK | X_OK))
		return err_set(err, -errno, "%.200s: %s", path, strerror(errno));
	int rc = environment_set(root, &saved);
	if (!rc)
		rc = hwloc_read(out, err);
	else
		err_set(err, rc, "no memory to set up hwloc");
	environment_put_back(&saved);
	return rc;
}

/* --- what this process may use ---------------------------------------------------------------- */

struct limits {
	struct idset cpus, nodes;
};

static int mems_allowed(struct idset *out, struct err *err)
{
	/* The line stands after all fixed ones; 16 KiB hold it even with the widest masks. */
	char text[16384];
	int rc = kernfile_read(NULL, "/proc/self/status", text, sizeof text);
	if (rc < 0)
		return err_set(err, rc, "/proc/self/status: %s", strerror(-rc));
	static const char key[] = "\nMems_allowed_list:";
	const char *line = strstr(text, key);
	if (!line)
		return err_set(err, -ENODATA,
			       "/proc/self/status has no Mems_allowed_list: is this kernel built without NUMA?");
	line += sizeof key - 1;
	line += strspn(line, " \t");
	char list[IDSET_TEXT];
	snprintf(list, sizeof list, "%.*s", (int)strcspn(line, "\n"), line);
	return idset_parse(list, out, err);
}

static int limits_read(hwloc_topology_t hw, const char *root, struct limits *out, struct err *err)
{
	from_bitmap(hwloc_topology_get_allowed_cpuset(hw), &out->cpus);
	from_bitmap(hwloc_topology_get_allowed_nodeset(hw), &out->nodes);
	if (root)
		return 0;
	struct limits own;
	int rc = bind_thread_read(&own.cpus, err);
	if (!rc && mems_allowed(&own.nodes, NULL)) {
		/* A kernel without NUMA has one node and no such line. */
		own.nodes = out->nodes;
	}
	if (rc)
		return rc;
	idset_and(&out->cpus, &own.cpus);
	idset_and(&out->nodes, &own.nodes);
	return 0;
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* The CPUs the kernel counts to a node; hwloc's answer where sysfs has no nodes at all. */
static int node_cpus(hwloc_obj_t obj, const char *root, struct idset *out, struct err *err)
{
	char path[96], text[32768]; /* 4096 CPUs, worst case every second one */
	snprintf(path, sizeof path, "/sys/devices/system/node/node%u/cpulist", obj->os_index);
	int rc = kernfile_read(root, path, text, sizeof text);
	if (rc >= 0)
		return idset_parse(text, out, err);
	if (rc != -ENOENT)
		return err_set(err, rc, "%.120s%s: %s", root ? root : "", path, strerror(-rc));
	from_bitmap(obj->cpuset, out);
	return 0;
}

static void cores_read(hwloc_topology_t hw, struct topology *t)
{
	for (unsigned cpu = 0; cpu < IDSET_MAX; cpu++)
		t->core[cpu] = (uint16_t)cpu;
	for (hwloc_obj_t core = NULL; (core = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_CORE, core));) {
		struct idset own;
		from_bitmap(core->cpuset, &own);
		for (int first = idset_first(&own), cpu = first; cpu >= 0; cpu = idset_next(&own, cpu))
			t->core[cpu] = (uint16_t)first;
	}
}

static unsigned node_package(hwloc_topology_t hw, hwloc_obj_t node)
{
	for (hwloc_obj_t package = NULL; (package = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_PACKAGE, package));)
		if (hwloc_bitmap_isset(package->nodeset, node->os_index) && package->os_index != HWLOC_UNKNOWN_INDEX)
			return package->os_index;
	return 0;
}

static int compare_nodes(const void *a, const void *b)
{
	const struct topology_node *x = a, *y = b;
	return (x->os_index > y->os_index) - (x->os_index < y->os_index);
}

static int nodes_read(hwloc_topology_t hw, const char *root, struct topology *t, struct err *err)
{
	struct limits limits;
	int n = hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_NUMANODE);
	if (n <= 0)
		return err_set(err, -ENODEV, "hwloc found no memory node");
	t->nodes = calloc((size_t)n, sizeof *t->nodes);
	if (!t->nodes)
		return err_set(err, -ENOMEM, "no memory for %d nodes", n);
	int rc = limits_read(hw, root, &limits, err);
	if (rc)
		return rc;
	for (hwloc_obj_t obj = NULL; (obj = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_NUMANODE, obj));) {
		struct topology_node *node = &t->nodes[t->n_nodes];
		if (obj->os_index >= IDSET_MAX)
			return err_set(err, -ERANGE, "node number %u is past %d", obj->os_index, IDSET_MAX - 1);
		node->os_index = obj->os_index;
		rc = node_cpus(obj, root, &node->cpus, err);
		if (rc)
			return rc;
		idset_and(&node->cpus, &limits.cpus);
		topology_cores(t, &node->cpus, &node->cores);
		node->memory_bytes = obj->attr->numanode.local_memory;
		node->package = node_package(hw, obj);
		node->may_bind_memory = idset_has(&limits.nodes, node->os_index);
		t->n_nodes++;
	}
	qsort(t->nodes, t->n_nodes, sizeof *t->nodes, compare_nodes);
	return 0;
}

static int index_of(const struct topology *t, unsigned os_index)
{
	for (unsigned i = 0; i < t->n_nodes; i++)
		if (t->nodes[i].os_index == os_index)
			return (int)i;
	return -1;
}

static int distances_read(hwloc_topology_t hw, struct topology *t, struct err *err)
{
	unsigned n_matrices = 1;
	struct hwloc_distances_s *matrix = NULL;
	t->distances = calloc((size_t)t->n_nodes * t->n_nodes, sizeof *t->distances);
	if (!t->distances)
		return err_set(err, -ENOMEM, "no memory for the distances of %u nodes", t->n_nodes);
	/* "NUMALatency" is the name under which hwloc keeps the ACPI SLIT, numactl's numbers. */
	if (hwloc_distances_get_by_name(hw, "NUMALatency", &n_matrices, &matrix, 0) || !n_matrices || !matrix)
		return 0;
	for (unsigned i = 0; i < matrix->nbobjs; i++)
		for (unsigned j = 0; j < matrix->nbobjs; j++) {
			int from = index_of(t, matrix->objs[i]->os_index), to = index_of(t, matrix->objs[j]->os_index);
			if (from >= 0 && to >= 0)
				t->distances[(unsigned)from * t->n_nodes + (unsigned)to] =
					(unsigned)matrix->values[i * matrix->nbobjs + j];
		}
	hwloc_distances_release(hw, matrix);
	return 0;
}

int topology_load(const char *sysfs_root, struct topology **out, struct err *err)
{
	hwloc_topology_t hw = NULL;
	struct topology *t = calloc(1, sizeof *t);
	if (!t)
		return err_set(err, -ENOMEM, "no memory for the topology");
	int rc = sysfs_root ? hwloc_read_tree(sysfs_root, &hw, err) : hwloc_read(&hw, err);
	if (rc)
		goto fail;
	cores_read(hw, t);
	rc = nodes_read(hw, sysfs_root, t, err);
	if (!rc)
		rc = distances_read(hw, t, err);
	hwloc_topology_destroy(hw);
	if (rc)
		goto fail;
	*out = t;
	return 0;
fail:
	topology_free(t);
	return rc;
}

void topology_free(struct topology *topology)
{
	if (!topology)
		return;
	free(topology->nodes);
	free(topology->distances);
	free(topology);
}

/* --- questions -------------------------------------------------------------------------------- */

unsigned topology_n_nodes(const struct topology *topology)
{
	return topology->n_nodes;
}

const struct topology_node *topology_node(const struct topology *topology, unsigned i)
{
	return i < topology->n_nodes ? &topology->nodes[i] : NULL;
}

const struct topology_node *topology_find(const struct topology *topology, unsigned os_index)
{
	int i = index_of(topology, os_index);
	return i < 0 ? NULL : &topology->nodes[i];
}

void topology_cores(const struct topology *topology, const struct idset *cpus, struct idset *out)
{
	struct idset taken;
	idset_clear(&taken);
	idset_clear(out);
	for (int cpu = idset_first(cpus); cpu >= 0; cpu = idset_next(cpus, cpu)) {
		if (idset_has(&taken, topology->core[cpu]))
			continue;
		idset_add(&taken, topology->core[cpu]);
		idset_add(out, (unsigned)cpu);
	}
}

unsigned topology_distance(const struct topology *topology, unsigned from, unsigned to)
{
	int i = index_of(topology, from), j = index_of(topology, to);
	return i < 0 || j < 0 ? 0 : topology->distances[(unsigned)i * topology->n_nodes + (unsigned)j];
}

int topology_nearest(const struct topology *topology, unsigned from, const struct idset *among)
{
	int best = -1;
	unsigned best_distance = UINT_MAX;
	for (unsigned i = 0; i < topology->n_nodes; i++) {
		const struct topology_node *node = &topology->nodes[i];
		if (!idset_has(among, node->os_index) || !node->memory_bytes)
			continue;
		if (node->os_index == from)
			return (int)from;
		unsigned distance = topology_distance(topology, from, node->os_index);
		/* A machine that states no distances has nodes that are equally far: the first one wins. */
		if (best < 0 || (distance && distance < best_distance)) {
			best = (int)node->os_index;
			best_distance = distance ? distance : UINT_MAX;
		}
	}
	return best;
}

/* --- memory right now ------------------------------------------------------------------------- */

/* Bytes of "<key> <n> kB" in a meminfo text; 0 when it is not there. */
static uint64_t meminfo_bytes(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

int topology_free_bytes(unsigned os_index, uint64_t *out)
{
	return topology_free_bytes_in(NULL, os_index, out);
}

int topology_free_bytes_in(const char *root, unsigned os_index, uint64_t *out)
{
	char path[96], text[8192];
	struct idset online;
	int rc = kernfile_read(root, "/sys/devices/system/node/online", text, sizeof text);
	if (rc >= 0)
		rc = idset_parse(text, &online, NULL);
	if (rc < 0)
		return rc;
	if (!idset_has(&online, os_index))
		return -ENODEV;
	if (idset_count(&online) == 1) {
		rc = kernfile_read(root, "/proc/meminfo", text, sizeof text);
		if (rc < 0)
			return rc;
		*out = meminfo_bytes(text, "\nMemAvailable:");
		return 0;
	}
	snprintf(path, sizeof path, "/sys/devices/system/node/node%u/meminfo", os_index);
	rc = kernfile_read(root, path, text, sizeof text);
	if (rc < 0)
		return rc;
	/* Page cache gives way to an allocation unless it must be written first. */
	uint64_t cache = meminfo_bytes(text, " Active(file):") + meminfo_bytes(text, " Inactive(file):");
	uint64_t busy = meminfo_bytes(text, " Dirty:") + meminfo_bytes(text, " Writeback:");
	*out = meminfo_bytes(text, " MemFree:") + (cache > busy ? cache - busy : 0);
	return 0;
}
