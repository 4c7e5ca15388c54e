#include "tests/unit/load_fixture.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/engine/family.h"
#include "src/engine/image.h"
#include "src/format/gguf.h"
#include "src/kernel/kernel.h"
#include "tests/unit/gguf_decode.h"

static int fill(int fd, const void *bytes, size_t n_bytes)
{
	for (size_t done = 0; done < n_bytes;) {
		ssize_t n = write(fd, (const char *)bytes + done, n_bytes - done);
		ck_assert_int_gt(n, 0);
		done += (size_t)n;
	}
	return fd;
}

int load_fixture_file(const void *bytes, size_t n_bytes)
{
	char path[] = "./weightd-load-XXXXXX";
	int fd = mkstemp(path);
	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	unlink(path);
	return fill(fd, bytes, n_bytes);
}

int load_fixture_memory(const void *bytes, size_t n_bytes)
{
	int fd = memfd_create("model", MFD_CLOEXEC);
	ck_assert_msg(fd >= 0, "memfd_create: %s", strerror(errno));
	return fill(fd, bytes, n_bytes);
}

void load_fixture_order(struct message_load *out)
{
	struct topology *topology;
	struct err err;
	memset(out, 0, sizeof *out);
	snprintf(out->path, sizeof out->path, "/models/made for tests.gguf");
	snprintf(out->instance, sizeof out->instance, "test-%d", getpid());
	snprintf(out->model, sizeof out->model, "tiny");
	out->generation = 1;
	out->n_files = 1;
	out->huge = SEGMENT_HUGE_OFF;
	out->group = UINT32_MAX;
	ck_assert_int_eq(topology_load(NULL, &topology, &err), 0);
	for (unsigned i = 0; i < topology_n_nodes(topology) && out->n_nodes == 0; i++)
		if (topology_node(topology, i)->may_bind_memory && topology_node(topology, i)->memory_bytes)
			out->node[out->n_nodes++] = (uint16_t)topology_node(topology, i)->os_index;
	topology_free(topology);
	ck_assert_uint_eq(out->n_nodes, 1);
}

void load_fixture_input(int fd, struct load_input *out)
{
	*out = (struct load_input){.fd = fd, .role = FILE_WEIGHTS, .name = "made for tests.gguf"};
}

static void ignore_progress(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
	(void)context;
	ck_assert_uint_le(done_bytes, total_bytes);
}

int load_fixture_load_parts(const struct message_load *order, const int *fds, struct loaded *out, struct err *err)
{
	const struct load_progress progress = {ignore_progress, NULL};
	struct load_input inputs[16];
	ck_assert_uint_le(order->n_files, 16);
	for (uint32_t i = 0; i < order->n_files; i++) {
		inputs[i] = (struct load_input){.fd = fds[i], .role = FILE_WEIGHTS};
		snprintf(inputs[i].name, sizeof inputs[i].name, "part %u", i + 1);
	}
	return model_load(order, inputs, &progress, out, err);
}

int load_fixture_load(const struct message_load *order, int fd, struct loaded *out, struct err *err)
{
	const struct load_progress progress = {ignore_progress, NULL};
	struct load_input input;
	load_fixture_input(fd, &input);
	return model_load(order, &input, &progress, out, err);
}

unsigned load_fixture_objects(const struct message_load *order)
{
	char prefix[128];
	unsigned n = 0;
	DIR *dir = opendir("/dev/shm");
	ck_assert_ptr_nonnull(dir);
	snprintf(prefix, sizeof prefix, "weightd.%s.", order->instance);
	for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
		n += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
	closedir(dir);
	return n;
}

/* The packed tensor with a role in a layer. */
static const struct image_tensor *find_packed(const struct image_header *header, uint32_t role, uint32_t layer)
{
	const struct image_tensor *tensors = (const void *)((const char *)header + header->tensors_offset);
	for (uint32_t i = 0; i < header->n_tensors; i++)
		if (tensors[i].role == role && tensors[i].layer == layer)
			return &tensors[i];
	ck_abort_msg("role %u of layer %u isn't in the image", role, layer);
}

static void compare_tensor(const struct image_header *header, const struct family_tensor *expected,
			   const struct gguf_tensor *source, const uint8_t *file)
{
	const struct kernels *kernels = kernels_get(CPU_LEVEL_REF, NUMERICS_F32);
	const struct image_tensor *packed = find_packed(header, expected->role, expected->layer);
	const void *data = (const char *)header + packed->offset;
	const struct matrix matrix = {data, packed->kind, packed->rows, packed->cols};
	size_t n_bytes = expected->cols * sizeof(float);
	float *want = malloc(n_bytes), *got = malloc(n_bytes);
	ck_assert(want && got);
	for (uint32_t row = 0; row < expected->rows; row++) {
		gguf_decode_row(source->type, file + source->offset + row * (source->bytes / expected->rows),
				expected->cols, want);
		if (packed->vector)
			memcpy(got, data, n_bytes);
		else
			kernels->expand_row(&matrix, row, got);
		for (uint32_t i = 0; i < expected->cols; i++)
			if (want[i] != got[i])
				ck_abort_msg("%.*s, row %u, column %u: %a in the file, %a in the image",
					     (int)source->name.n_bytes, source->name.bytes, row, i, (double)want[i],
					     (double)got[i]);
	}
	free(want);
	free(got);
}

unsigned long load_fixture_compare(const struct loaded *loaded, int fd)
{
	struct segment_view view;
	struct err err = {""};
	struct stat st;
	struct gguf gguf;
	uint64_t need;
	unsigned long n_rows = 0;
	ck_assert_int_eq(fstat(fd, &st), 0);
	void *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	ck_assert_ptr_ne(file, MAP_FAILED);
	ck_assert_int_eq(gguf_parse(file, (uint64_t)st.st_size, (uint64_t)st.st_size, &gguf, &need, &err), 0);
	ck_assert_msg(segment_attach(loaded->fds[0], &view, &err) == 0, "%s", err.text);
	const struct image_header *header = (const void *)((const char *)view.base + SEGMENT_HEADER_BYTES);
	ck_assert_msg(image_check(header, view.total_bytes - SEGMENT_HEADER_BYTES, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(gguf.n_tensors, header->n_tensors);
	for (uint32_t i = 0; i < header->n_tensors; i++) {
		struct family_tensor expected;
		char name[FAMILY_NAME_BYTES];
		family_tensor(&header->config, i, &expected);
		const struct gguf_tensor *source = gguf_find_tensor(&gguf, family_tensor_name(&expected, name));
		ck_assert_msg(source != NULL, "%s", name);
		compare_tensor(header, &expected, source, file);
		n_rows += expected.rows;
	}
	segment_detach(&view);
	gguf_fini(&gguf);
	munmap(file, (size_t)st.st_size);
	return n_rows;
}
