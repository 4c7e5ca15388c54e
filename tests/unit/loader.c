/* The loader as a process: an order over its socket, progress and segments back, or the reason why not. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/message.h"
#include "src/roles.h"
#include "src/source.h"
#include "tests/unit/gguf_builder.h"
#include "tests/unit/load_fixture.h"
#include "tests/unit/suite.h"

struct loader {
	pid_t pid;
	int fd;
};

/* A child that has nothing but descriptor MESSAGE_FD of us. */
static struct loader start(void)
{
	int pair[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	pid_t pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		int fd = fcntl(pair[1], F_DUPFD, MESSAGE_FD + 1);
		dup2(fd, MESSAGE_FD);
		for (int i = MESSAGE_FD + 1; i < 64; i++)
			close(i);
		_exit(loader_main());
	}
	close(pair[1]);
	return (struct loader){pid, pair[0]};
}

static int finish(struct loader *loader)
{
	int status;
	close(loader->fd);
	ck_assert_int_eq(waitpid(loader->pid, &status, 0), loader->pid);
	ck_assert_msg(WIFEXITED(status), "status %x", (unsigned)status);
	return WEXITSTATUS(status);
}

/* An order to load, and the file of it. */
static void order_load(const struct loader *loader, const struct message_load *order, int file)
{
	struct message_files files;
	memset(&files, 0, sizeof files);
	files.n = 1;
	files.file[0].role = FILE_WEIGHTS;
	strcpy(files.file[0].name, "made for tests.gguf");
	ck_assert_int_eq(message_send(loader->fd, MESSAGE_LOAD, order, sizeof *order, NULL, 0), 0);
	ck_assert_int_eq(message_send(loader->fd, MESSAGE_FILES, &files, sizeof files, &file, 1), 0);
}

static int model_file(uint32_t ffn)
{
	struct gguf_builder b;
	builder_init(&b, 3);
	builder_llama_keys(&b, ffn);
	builder_llama_tensors(&b, ffn);
	int fd = load_fixture_file(b.bytes, b.n);
	builder_fini(&b);
	return fd;
}

START_TEST(loads_and_hands_over)
{
	struct message_load order;
	struct message message;
	struct loader loader = start();
	unsigned n_progress = 0;
	uint64_t done = 0, total = 1;
	struct load_pace told = {0};
	struct loaded loaded = {0};
	int fd = model_file(8192);
	load_fixture_order(&order);
	order.backing = _i;
	order_load(&loader, &order, fd);
	while (message_receive(loader.fd, &message) == 1) {
		const struct message_progress *progress = message_payload(&message, sizeof *progress, 0);
		const struct message_segment *segment = message_payload(&message, sizeof *segment, 1);
		if (message.type == MESSAGE_PROGRESS) {
			ck_assert_ptr_nonnull(progress);
			ck_assert_uint_ge(progress->done_bytes, done);
			done = progress->done_bytes;
			total = progress->total_bytes;
			n_progress++;
		} else if (message.type == MESSAGE_PACE) {
			const struct load_pace *pace = message_payload(&message, sizeof *pace, 0);
			ck_assert_ptr_nonnull(pace);
			ck_assert_uint_eq(loaded.n, 1);
			told = *pace;
		} else {
			ck_assert_uint_eq(message.type, MESSAGE_SEGMENT);
			ck_assert_ptr_nonnull(segment);
			ck_assert_uint_eq(loaded.n, 0);
			loaded.segments[0] = *segment;
			loaded.fds[loaded.n++] = message.fds[0];
		}
	}
	ck_assert_int_eq(finish(&loader), 0);
	ck_assert_uint_ge(n_progress, 1);
	ck_assert_uint_eq(done, total);
	ck_assert_uint_eq(loaded.n, 1);
	ck_assert_uint_eq(told.file_bytes, total);
	ck_assert_uint_ge(told.n_threads, 1);
	ck_assert_uint_ge(told.fill_ns, told.wait_ns);
	ck_assert_uint_gt(told.wait_ns, 0);
	ck_assert_uint_ge(told.total_ns, told.room_ns + told.fill_ns + told.spread_ns + told.publish_ns);
	ck_assert_uint_eq(loaded.segments[0].node, order.node[0]);
	ck_assert_uint_eq(loaded.segments[0].context, 512);
	ck_assert_int_eq(fcntl(loaded.fds[0], F_GETFL) & O_ACCMODE, O_RDONLY);
	ck_assert_uint_gt(load_fixture_compare(&loaded, fd), 8192); /* the maker is gone, its copy is not */
	loaded_discard(&loaded);
	ck_assert_uint_eq(load_fixture_objects(&order), 0);
	close(fd);
}
END_TEST

/* --- adopting --------------------------------------------------------------------------------- */

/* A copy that an earlier loader left: its one message, with its descriptor. */
static struct message_segment leave(const struct message_load *order, int file, int *fd)
{
	struct message message;
	struct message_segment segment;
	struct loader loader = start();
	memset(&segment, 0, sizeof segment);
	order_load(&loader, order, file);
	while (message_receive(loader.fd, &message) == 1)
		if (message.type == MESSAGE_SEGMENT) {
			segment = *(const struct message_segment *)message.payload;
			*fd = message.fds[0];
		}
	ck_assert_int_eq(finish(&loader), 0);
	ck_assert_uint_gt(segment.report.total_bytes, 0);
	ck_assert_uint_eq(segment.adopted, 0);
	return segment;
}

static struct message_adopt adopt_order(const struct message_load *load, int file)
{
	struct message_adopt order;
	struct stat st;
	memset(&order, 0, sizeof order);
	order.load = *load;
	order.n_candidates = 1;
	ck_assert_int_eq(fstat(file, &st), 0);
	ck_assert_int_eq(source_begin(load->path, &order.source), 0);
	ck_assert_int_eq(source_add(&order.source, "made for tests.gguf", FILE_WEIGHTS, &st), 0);
	return order;
}

static void offer(const struct loader *loader, const struct message_adopt *order, const struct message_segment *segment,
		  int fd)
{
	struct message_candidate candidate;
	memset(&candidate, 0, sizeof candidate);
	memcpy(candidate.name, segment->name, sizeof candidate.name);
	candidate.node = segment->node;
	candidate.generation = segment->generation;
	ck_assert_int_eq(message_send(loader->fd, MESSAGE_ADOPT, order, sizeof *order, NULL, 0), 0);
	ck_assert_int_eq(message_send(loader->fd, MESSAGE_CANDIDATE, &candidate, sizeof candidate, &fd, 1), 0);
}

static ino_t inode_of(int fd)
{
	struct stat st;
	ck_assert_int_eq(fstat(fd, &st), 0);
	return st.st_ino;
}

START_TEST(adopts_what_was_left)
{
	struct message_load load;
	struct message message;
	int fd, file = model_file(8192);
	load_fixture_order(&load);
	load.backing = (uint32_t)_i;
	struct message_segment left = leave(&load, file, &fd);
	struct message_adopt order = adopt_order(&load, file);
	struct loader loader = start();
	offer(&loader, &order, &left, fd);
	ck_assert_int_eq(message_receive(loader.fd, &message), 1);
	ck_assert_uint_eq(message.type, MESSAGE_SEGMENT);
	const struct message_segment *segment = message_payload(&message, sizeof *segment, 1);
	ck_assert_ptr_nonnull(segment);
	ck_assert_uint_eq(segment->adopted, 1);
	ck_assert_str_eq(segment->name, left.name);
	ck_assert_str_eq(segment->architecture, left.architecture);
	ck_assert_uint_eq(segment->context, left.context);
	ck_assert_uint_eq(segment->backing, left.backing);
	ck_assert_mem_eq(segment->report.digest, left.report.digest, SEGMENT_DIGEST_BYTES);
	ck_assert_uint_eq(inode_of(message.fds[0]), inode_of(fd));
	ck_assert_int_eq(fcntl(message.fds[0], F_GETFL) & O_ACCMODE, O_RDONLY);
	close(message.fds[0]);
	ck_assert_int_eq(message_receive(loader.fd, &message), 0);
	ck_assert_int_eq(finish(&loader), 0);
	ck_assert_uint_eq(load_fixture_objects(&load), _i == SEGMENT_SHM);
	if (left.name[0])
		ck_assert_int_eq(shm_unlink(left.name), 0);
	close(fd);
	close(file);
}
END_TEST

/* Refused for its source: said so, removed, and then the same process loads. */
START_TEST(loads_where_nothing_can_be_adopted)
{
	struct message_load load;
	struct message message;
	int fd, file = model_file(96);
	load_fixture_order(&load);
	struct message_segment left = leave(&load, file, &fd);
	struct message_adopt order = adopt_order(&load, file);
	struct loader loader = start();
	order.source.files[0]++;
	offer(&loader, &order, &left, fd);
	ck_assert_int_eq(message_receive(loader.fd, &message), 1);
	ck_assert_uint_eq(message.type, MESSAGE_REFUSED);
	const struct message_refused *refused = message_payload(&message, sizeof *refused, 0);
	ck_assert_ptr_nonnull(refused);
	ck_assert_str_eq(refused->name, left.name);
	ck_assert_uint_eq(refused->node, left.node);
	ck_assert_msg(strstr(refused->why.text, "file 1 of 1 of its source was changed or replaced since") != NULL,
		      "%s", refused->why.text);
	ck_assert_int_eq(message_receive(loader.fd, &message), 1);
	ck_assert_uint_eq(message.type, MESSAGE_NOT_ADOPTED);
	ck_assert_uint_eq(load_fixture_objects(&load), 0);
	order_load(&loader, &load, file);
	do
		ck_assert_int_eq(message_receive(loader.fd, &message), 1);
	while (message.type == MESSAGE_PROGRESS);
	ck_assert_uint_eq(message.type, MESSAGE_SEGMENT);
	const struct message_segment *segment = message_payload(&message, sizeof *segment, 1);
	ck_assert_ptr_nonnull(segment);
	ck_assert_uint_eq(segment->adopted, 0);
	ck_assert_int_ne(inode_of(message.fds[0]), inode_of(fd));
	close(message.fds[0]);
	ck_assert_int_eq(finish(&loader), 0);
	ck_assert_uint_eq(load_fixture_objects(&load), 1);
	ck_assert_int_eq(shm_unlink(left.name), 0);
	close(fd);
	close(file);
}
END_TEST

/* Two of one node, the second too many; and one for a node that was not asked for. */
START_TEST(adopts_one_copy_for_each_node)
{
	struct message_load load;
	struct message message;
	int fds[2], file = model_file(96);
	unsigned n_refused = 0, n_adopted = 0;
	load_fixture_order(&load);
	struct message_segment left[2];
	left[0] = leave(&load, file, &fds[0]);
	load.backing = SEGMENT_MEMFD;
	left[1] = leave(&load, file, &fds[1]);
	struct message_adopt order = adopt_order(&load, file);
	order.n_candidates = 3;
	struct loader loader = start();
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_ADOPT, &order, sizeof order, NULL, 0), 0);
	for (int i = 0; i < 3; i++) {
		struct message_candidate candidate = {.node = left[0].node + (i == 2),
						      .generation = left[0].generation};
		ck_assert_int_eq(message_send(loader.fd, MESSAGE_CANDIDATE, &candidate, sizeof candidate, &fds[1], 1),
				 0);
	}
	while (message_receive(loader.fd, &message) == 1) {
		n_refused += message.type == MESSAGE_REFUSED;
		n_adopted += message.type == MESSAGE_SEGMENT;
		for (uint32_t i = 0; i < message.n_fds; i++)
			close(message.fds[i]);
	}
	ck_assert_int_eq(finish(&loader), 0);
	ck_assert_uint_eq(n_refused, 2);
	ck_assert_uint_eq(n_adopted, 1);
	ck_assert_uint_eq(load_fixture_objects(&load), 1); /* what was not offered is not touched */
	ck_assert_int_eq(shm_unlink(left[0].name), 0);
	close(fds[0]);
	close(fds[1]);
	close(file);
}
END_TEST

/* The one message that says why, and the exit status. */
static void expect_failure(struct loader *loader, const char *part)
{
	struct message message;
	ck_assert_int_eq(message_receive(loader->fd, &message), 1);
	ck_assert_uint_eq(message.type, MESSAGE_FAILED);
	const struct message_failed *failed = message_payload(&message, sizeof *failed, 0);
	ck_assert_ptr_nonnull(failed);
	ck_assert_msg(strstr(failed->err.text, part) != NULL, "'%s' isn't in: %s", part, failed->err.text);
	ck_assert_int_eq(message_receive(loader->fd, &message), 0);
	ck_assert_int_eq(finish(loader), 1);
}

START_TEST(says_why_it_failed)
{
	struct message_load order;
	struct loader loader = start();
	int fd = load_fixture_file("GGUF\3\0\0\0garbage, and more of it than a header has", 50);
	load_fixture_order(&order);
	order_load(&loader, &order, fd);
	expect_failure(&loader, "made for tests.gguf: offset 8: header, tensor count");
	ck_assert_uint_eq(load_fixture_objects(&order), 0);
	close(fd);

	loader = start();
	fd = load_fixture_memory("", 1);
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_LOAD, &order, sizeof order, &fd, 1), 0);
	expect_failure(&loader, "no order to load");
	close(fd);

	loader = start();
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_DRAIN, NULL, 0, NULL, 0), 0);
	expect_failure(&loader, "no order to load");
}
END_TEST

/* --- copies of a segment ---------------------------------------------------------------------- */

START_TEST(copies_what_is_served_without_its_files)
{
	struct message_load order;
	struct message message;
	struct message_segment made;
	struct segment_view from, view;
	int file = model_file(96), old_fd = -1, fd = -1;
	load_fixture_order(&order);
	order.backing = _i;
	struct message_segment old = leave(&order, file, &old_fd);
	close(file);
	order.generation = 7;
	struct loader loader = start();
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_COPY, &order, sizeof order, &old_fd, 1), 0);
	ck_assert_int_eq(message_receive(loader.fd, &message), 1);
	ck_assert_uint_eq(message.type, MESSAGE_SEGMENT);
	made = *(const struct message_segment *)message.payload;
	fd = message.fds[0];
	ck_assert_int_eq(message_receive(loader.fd, &message), 0);
	ck_assert_int_eq(finish(&loader), 0);
	ck_assert_uint_eq(made.generation, 7);
	ck_assert_uint_eq(made.node, order.node[0]);
	ck_assert_uint_eq(made.context, old.context);
	ck_assert_str_eq(made.architecture, old.architecture);
	ck_assert_mem_eq(made.report.digest, old.report.digest, SEGMENT_DIGEST_BYTES);
	ck_assert(_i == SEGMENT_MEMFD || strcmp(made.name, old.name));
	/* A restart has to find it as it would find the first. */
	ck_assert_int_eq(segment_attach(old_fd, &from, NULL), 0);
	ck_assert_int_eq(segment_attach(fd, &view, NULL), 0);
	ck_assert_uint_eq(view.header->generation, 7);
	ck_assert_uint_eq(view.header->isa, from.header->isa);
	ck_assert_mem_eq(&view.header->source, &from.header->source, sizeof view.header->source);
	ck_assert_uint_eq(view.total_bytes, from.total_bytes);
	ck_assert_mem_eq((const char *)view.base + SEGMENT_HEADER_BYTES, (const char *)from.base + SEGMENT_HEADER_BYTES,
			 view.total_bytes - SEGMENT_HEADER_BYTES);
	if (made.name[0]) {
		shm_unlink(made.name);
		shm_unlink(old.name);
	}
	ck_assert_uint_eq(load_fixture_objects(&order), 0);
	close(old_fd);
	close(fd);
}
END_TEST

/* An adapter of one matrix of model_file's. */
static int adapter_file(void)
{
	enum { RANK = 4, DIM = 64 };
	struct gguf_builder b;
	builder_init(&b, 3);
	builder_string(&b, "general.type", "adapter");
	builder_string(&b, "general.architecture", "llama");
	builder_string(&b, "adapter.type", "lora");
	builder_f32(&b, "adapter.lora.alpha", 8);
	builder_tensor(&b, "blk.0.attn_output.weight.lora_a", GGUF_TENSOR_F32, 2, (uint64_t[]){DIM, RANK});
	builder_tensor(&b, "blk.0.attn_output.weight.lora_b", GGUF_TENSOR_F32, 2, (uint64_t[]){RANK, DIM});
	builder_data(&b);
	int fd = load_fixture_file(b.bytes, b.n);
	builder_fini(&b);
	return fd;
}

START_TEST(copies_an_adapter_that_is_served_without_its_files)
{
	struct message_load order;
	struct message message;
	struct message_segment made[2];
	struct segment_view view[2];
	int fds[2], base_fd = -1, file = model_file(96);
	load_fixture_order(&order);
	struct message_segment base = leave(&order, file, &base_fd);
	close(file);
	strcpy(order.model, "adapter");
	for (int i = 0; i < 2; i++) {
		order.generation = 7 + (uint32_t)i;
		struct loader loader = start();
		if (i == 0) {
			int given[] = {base_fd, adapter_file()};
			ck_assert_int_eq(message_send(loader.fd, MESSAGE_LOAD_ADAPTER, &order, sizeof order, given, 2),
					 0);
			close(given[1]);
		} else {
			ck_assert_int_eq(message_send(loader.fd, MESSAGE_COPY, &order, sizeof order, fds, 1), 0);
		}
		ck_assert_int_eq(message_receive(loader.fd, &message), 1);
		const struct message_failed *failed = message_payload(&message, sizeof *failed, 0);
		ck_assert_msg(message.type == MESSAGE_SEGMENT, "%s", failed ? failed->err.text : "");
		memcpy(&made[i], message.payload, sizeof made[i]);
		fds[i] = message.fds[0];
		ck_assert_int_eq(message_receive(loader.fd, &message), 0);
		ck_assert_int_eq(finish(&loader), 0);
		ck_assert_uint_eq(made[i].generation, order.generation);
		ck_assert_str_eq(made[i].architecture, "lora");
		ck_assert_int_eq(segment_attach(fds[i], &view[i], NULL), 0);
		shm_unlink(made[i].name);
	}
	ck_assert_str_ne(made[0].name, made[1].name);
	ck_assert_uint_eq(view[0].total_bytes, view[1].total_bytes);
	ck_assert_mem_eq(made[0].report.digest, made[1].report.digest, SEGMENT_DIGEST_BYTES);
	ck_assert_mem_eq((const char *)view[0].base + SEGMENT_HEADER_BYTES,
			 (const char *)view[1].base + SEGMENT_HEADER_BYTES, view[0].total_bytes - SEGMENT_HEADER_BYTES);
	for (int i = 0; i < 2; i++) {
		segment_detach(&view[i]);
		close(fds[i]);
	}
	shm_unlink(base.name);
	close(base_fd);
}
END_TEST

START_TEST(a_copy_that_differs_is_none)
{
	struct message_load order;
	int file = model_file(96), old_fd = -1;
	load_fixture_order(&order);
	struct message_segment old = leave(&order, file, &old_fd);
	close(file);
	/* The last byte of the payload, as only the owner of a named object could change it. */
	int writable = shm_open(old.name, O_RDONLY, 0);
	ck_assert_int_ge(writable, 0);
	ck_assert_int_eq(fchmod(writable, 0640), 0);
	close(writable);
	writable = shm_open(old.name, O_RDWR, 0);
	ck_assert_int_ge(writable, 0);
	ck_assert_int_eq(pwrite(writable, "!", 1, (off_t)old.report.total_bytes - 1), 1);
	close(writable);
	order.generation = 7;
	struct loader loader = start();
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_COPY, &order, sizeof order, &old_fd, 1), 0);
	expect_failure(&loader, "differs from what node");
	ck_assert_uint_eq(load_fixture_objects(&order), 1); /* the old one alone */
	shm_unlink(old.name);

	loader = start();
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_COPY, &order, sizeof order, NULL, 0), 0);
	expect_failure(&loader, "malformed");
	close(old_fd);
}
END_TEST

/* Of an order for two files, what follows it. */
static struct loader order_two(void)
{
	struct message_load order;
	struct loader loader = start();
	load_fixture_order(&order);
	order.n_files = 2;
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_LOAD, &order, sizeof order, NULL, 0), 0);
	return loader;
}

START_TEST(files_have_to_be_what_was_announced)
{
	static const struct {
		uint32_t n, n_fds;
	} wrong[] = {{0, 0}, {1, 2}, {2, 1}, {3, 3}, {UINT32_MAX, 2}, {MESSAGE_MAX_FDS + 1, 2}};
	struct message_files files;
	struct message_load order;
	struct loader loader;
	int file = model_file(96), fds[3] = {file, file, file};
	memset(&files, 0, sizeof files);
	for (uint32_t i = 0; i < MESSAGE_MAX_FDS; i++)
		files.file[i] = (struct message_file){FILE_WEIGHTS, "part"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		files.n = wrong[i].n;
		loader = order_two();
		ck_assert_int_eq(message_send(loader.fd, MESSAGE_FILES, &files, sizeof files, fds, wrong[i].n_fds), 0);
		expect_failure(&loader, "file 1 of 2 did not come");
	}
	/* One, and then no more. */
	files.n = 1;
	loader = order_two();
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_FILES, &files, sizeof files, fds, 1), 0);
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_DRAIN, NULL, 0, NULL, 0), 0);
	expect_failure(&loader, "file 2 of 2 did not come");

	memset(files.file[0].name, 'n', sizeof files.file[0].name);
	loader = order_two();
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_FILES, &files, sizeof files, fds, 1), 0);
	expect_failure(&loader, "file 1 of 2 has a name without an end");

	load_fixture_order(&order);
	order.n_files = SEGMENT_FILES_MAX + 1;
	loader = start();
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_LOAD, &order, sizeof order, NULL, 0), 0);
	expect_failure(&loader, "257 files are announced");
	close(file);
}
END_TEST

START_TEST(candidates_have_to_be_what_was_announced)
{
	struct message_load load;
	int file = model_file(96);
	load_fixture_order(&load);
	struct message_adopt order = adopt_order(&load, file);
	order.n_candidates = MESSAGE_CANDIDATES_MAX + 1;
	struct loader loader = start();
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_ADOPT, &order, sizeof order, NULL, 0), 0);
	expect_failure(&loader, "129 candidates");

	struct message_candidate candidate;
	memset(&candidate, 'n', sizeof candidate); /* no end */
	order.n_candidates = 1;
	loader = start();
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_ADOPT, &order, sizeof order, NULL, 0), 0);
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_CANDIDATE, &candidate, sizeof candidate, &file, 1), 0);
	expect_failure(&loader, "candidate 1 of 1");

	loader = start();
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_ADOPT, &order, sizeof order, NULL, 0), 0);
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_DRAIN, NULL, 0, NULL, 0), 0);
	expect_failure(&loader, "candidate 1 of 1");
	close(file);
}
END_TEST

START_TEST(ends_without_an_order)
{
	struct loader loader = start();
	ck_assert_int_eq(shutdown(loader.fd, SHUT_RDWR), 0);
	ck_assert_int_eq(finish(&loader), 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("loader");
	TCase *tcase = tcase_create("process");
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, loads_and_hands_over, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_loop_test(tcase, adopts_what_was_left, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_test(tcase, loads_where_nothing_can_be_adopted);
	tcase_add_test(tcase, adopts_one_copy_for_each_node);
	tcase_add_test(tcase, copies_an_adapter_that_is_served_without_its_files);
	tcase_add_loop_test(tcase, copies_what_is_served_without_its_files, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_test(tcase, a_copy_that_differs_is_none);
	tcase_add_test(tcase, says_why_it_failed);
	tcase_add_test(tcase, files_have_to_be_what_was_announced);
	tcase_add_test(tcase, candidates_have_to_be_what_was_announced);
	tcase_add_test(tcase, ends_without_an_order);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
