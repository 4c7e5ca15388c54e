#include "tests/unit/segment_rig.h"

#include <check.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "numa/topology.h"

static char instance[32]; /* this process' own, so that test programs may run beside each other */
static unsigned node;

void segment_rig_set_up(void)
{
	const char *wanted = getenv("TEST_NODE");
	struct topology *t = NULL;
	snprintf(instance, sizeof instance, "unit-%d", (int)getpid());
	ck_assert_int_eq(topology_load(NULL, &t, NULL), 0);
	for (unsigned i = topology_n_nodes(t); i-- > 0;)
		if (topology_node(t, i)->memory_bytes && topology_node(t, i)->may_bind_memory)
			node = topology_node(t, i)->os_index;
	if (wanted) {
		node = (unsigned)atoi(wanted);
		ck_assert_ptr_nonnull(topology_find(t, node));
	}
	topology_free(t);
}

void segment_rig_tear_down(void)
{
	ck_assert_int_ge(segment_remove_instance(instance, NULL), 0);
}

struct segment_spec segment_rig_spec(enum segment_backing backing, uint64_t payload_bytes)
{
	struct segment_spec spec = {
		.instance = instance,
		.model = "tiny.Q4_0",
		.generation = 3,
		.node = node,
		.payload_bytes = payload_bytes,
		.backing = backing,
		.group = (gid_t)-1,
		.pack_layout = 7,
		.isa = 9,
		.source = {.path = "/models/tiny.gguf", .size_bytes = 3, .n_files = 2, .files = {4, 5}},
	};
	return spec;
}

const char *segment_rig_instance(void)
{
	return instance;
}

unsigned segment_rig_node(void)
{
	return node;
}

unsigned char segment_rig_byte(uint64_t i)
{
	return (unsigned char)(i * 2654435761u >> 13);
}

void segment_rig_fill(struct segment *segment, uint64_t payload_bytes)
{
	unsigned char *payload = segment_payload(segment);
	for (uint64_t i = 0; i < payload_bytes; i++)
		payload[i] = segment_rig_byte(i);
}

int segment_rig_publish(enum segment_backing backing, struct segment_report *report)
{
	struct segment_spec spec = segment_rig_spec(backing, RIG_PAYLOAD);
	struct segment segment;
	struct err err = {""};
	int fd = -1;
	ck_assert_msg(!segment_create(&spec, &segment, &err), "%s", err.text);
	ck_assert_uint_eq((uintptr_t)segment.base % (2 << 20), 0);
	ck_assert_uint_eq(segment.total_bytes % 4096, 0);
	ck_assert_uint_ge(segment.total_bytes, RIG_PAYLOAD + SEGMENT_HEADER_BYTES);
	segment_rig_fill(&segment, RIG_PAYLOAD);
	ck_assert_msg(!segment_publish(&segment, &fd, report, &err), "%s", err.text);
	ck_assert_int_ge(fd, 0);
	return fd;
}

unsigned segment_rig_left_behind(void)
{
	char prefix[64];
	unsigned n = 0;
	snprintf(prefix, sizeof prefix, "weightd.%s.", instance);
	DIR *directory = opendir("/dev/shm");
	ck_assert_ptr_nonnull(directory);
	for (const struct dirent *entry; (entry = readdir(directory));)
		n += !strncmp(entry->d_name, prefix, strlen(prefix));
	closedir(directory);
	return n;
}

unsigned segment_rig_descriptors(void)
{
	unsigned n = 0;
	DIR *directory = opendir("/proc/self/fd");
	while (readdir(directory))
		n++;
	closedir(directory);
	return n;
}
