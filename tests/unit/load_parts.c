/* Models in several files, through the whole loader: the copy is that of the one file, however it was taken apart; and
 * what is wrong with one part is told with its name. */
#include <check.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "io/loop.h"
#include "tests/unit/gguf_parts.h"
#include "tests/unit/load_fixture.h"
#include "tests/unit/suite.h"

enum { NARROW = 96, WIDE = 16384 /* megabytes in each part: more than what is read with the headers */ };

struct fixture {
	struct gguf_builder whole, parts[GGUF_PARTS_MAX];
	int fds[GGUF_PARTS_MAX], whole_fd;
	struct message_load order;
};

static void setup(struct fixture *f, uint32_t ffn, uint32_t n)
{
	builder_init(&f->whole, 3);
	builder_llama_keys(&f->whole, ffn);
	builder_llama_tensors(&f->whole, ffn);
	gguf_parts_make(&f->whole, n, f->parts);
	f->whole_fd = load_fixture_file(f->whole.bytes, f->whole.n);
	for (uint32_t i = 0; i < n; i++)
		f->fds[i] = load_fixture_file(f->parts[i].bytes, f->parts[i].n);
	load_fixture_order(&f->order);
	f->order.n_files = n;
}

static void teardown(struct fixture *f)
{
	ck_assert_uint_eq(load_fixture_objects(&f->order), 0);
	for (uint32_t i = 0; i < f->order.n_files; i++) {
		close(f->fds[i]);
		builder_fini(&f->parts[i]);
	}
	close(f->whole_fd);
	builder_fini(&f->whole);
}

START_TEST(loads_what_the_whole_file_gives)
{
	static const struct {
		uint32_t ffn, n, io;
	} cases[] = {{NARROW, 2, IO_AUTO},
		     {NARROW, 8, IO_EPOLL},
		     {WIDE, 2, IO_URING},
		     {WIDE, 3, IO_EPOLL},
		     {WIDE, 8, IO_AUTO}};
	struct fixture f;
	struct loaded loaded, whole;
	struct segment_view view;
	struct err err = {""};
	uint64_t n_bytes = 0;
	setup(&f, cases[_i].ffn, cases[_i].n);
	f.order.io = cases[_i].io;
	ck_assert_msg(load_fixture_load_parts(&f.order, f.fds, &loaded, &err) == 0, "%s", err.text);
	load_fixture_compare(&loaded, f.whole_fd);
	for (uint32_t i = 0; i < f.order.n_files; i++)
		n_bytes += f.parts[i].n;
	ck_assert_uint_le(loaded.bytes_read, n_bytes);
	ck_assert_uint_ge(loaded.bytes_read, f.whole.n - f.whole.header_bytes - 32);
	ck_assert_int_eq(segment_attach(loaded.fds[0], &view, &err), 0);
	ck_assert_uint_eq(view.header->source.n_files, f.order.n_files);
	ck_assert_uint_eq(view.header->source.size_bytes, n_bytes);
	segment_detach(&view);
	/* The same bytes, not only the same values. */
	struct message_load order = f.order;
	order.generation = 2;
	order.n_files = 1;
	ck_assert_msg(load_fixture_load(&order, f.whole_fd, &whole, &err) == 0, "%s", err.text);
	ck_assert_mem_eq(loaded.segments[0].report.digest, whole.segments[0].report.digest, SEGMENT_DIGEST_BYTES);
	loaded_discard(&whole);
	loaded_discard(&loaded);
	teardown(&f);
}
END_TEST

static void refuse(struct fixture *f, int code, const char *expected)
{
	struct loaded loaded;
	struct err err = {""};
	int rc = load_fixture_load_parts(&f->order, f->fds, &loaded, &err);
	ck_assert_msg(rc == code, "%d instead of %d: %s", rc, code, err.text);
	ck_assert_msg(strncmp(err.text, "/models/made for tests.gguf: ", 29) == 0, "%s", err.text);
	ck_assert_msg(strncmp(err.text + 29, expected, strlen(expected)) == 0, "'%s' isn't in: %s", expected, err.text);
	teardown(f);
}

static void replace(struct fixture *f, uint32_t part, const void *bytes, size_t n_bytes)
{
	close(f->fds[part]);
	f->fds[part] = load_fixture_file(bytes, n_bytes);
}

START_TEST(names_the_part)
{
	struct fixture f;
	setup(&f, NARROW, 3);
	replace(&f, 1, f.parts[1].bytes, 100);
	refuse(&f, -EINVAL, "part 2: offset ");
	setup(&f, NARROW, 3);
	replace(&f, 2, "", 0);
	refuse(&f, -EINVAL, "part 3: offset 0: header, magic: the file is empty");
	setup(&f, NARROW, 3);
	replace(&f, 0, "GGUG", 4);
	refuse(&f, -EINVAL, "part 1: offset 0: header, magic: not a GGUF file");
	setup(&f, NARROW, 3);
	replace(&f, 2, f.parts[1].bytes, f.parts[1].n);
	refuse(&f, -EINVAL, "part 3: key 'split.no', value: is 1, by its name it should be 2");
	/* A tensor of a shape that the family doesn't have. */
	setup(&f, NARROW, 2);
	size_t at = builder_find(&f.parts[1], "token_embd.weight") + 8;
	builder_poke(&f.parts[1], at, 259, 8);
	replace(&f, 1, f.parts[1].bytes, f.parts[1].n);
	refuse(&f, -EINVAL, "part 2, offset ");
	setup(&f, NARROW, 2);
	int pipes[2];
	ck_assert_int_eq(pipe(pipes), 0);
	close(f.fds[1]);
	close(pipes[1]);
	f.fds[1] = pipes[0];
	refuse(&f, -EINVAL, "part 2: not a regular file");
}
END_TEST

/* Without a part, or with one too many, by what the order says. */
START_TEST(counts_the_parts)
{
	struct fixture f;
	setup(&f, NARROW, 3);
	close(f.fds[--f.order.n_files]);
	builder_fini(&f.parts[f.order.n_files]);
	refuse(&f, -EINVAL, "part 1: key 'split.count', value: is 3, by its name it is one of 2");
	setup(&f, NARROW, 2);
	f.fds[2] = dup(f.fds[1]);
	builder_init(&f.parts[f.order.n_files++], 3);
	refuse(&f, -EINVAL, "part 1: key 'split.count', value: is 2, by its name it is one of 3");
	setup(&f, NARROW, 2);
	close(f.fds[--f.order.n_files]);
	builder_fini(&f.parts[1]);
	refuse(&f, -EINVAL, "key 'split.count', value: the model is in 2 files");
}
END_TEST

struct touched {
	int fd;
	uint64_t n_bytes;
};

/* Somebody appends to a part while the model is being read. */
static void touch(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
	const struct touched *touched = context;
	ck_assert_uint_le(done_bytes, total_bytes);
	ck_assert_int_eq(ftruncate(touched->fd, (off_t)touched->n_bytes + 1), 0);
}

START_TEST(notices_a_part_changed_meanwhile)
{
	struct fixture f;
	struct loaded loaded;
	struct load_input inputs[3];
	struct err err = {""};
	setup(&f, NARROW, 3);
	struct touched touched = {f.fds[_i], f.parts[_i].n};
	const struct load_progress progress = {touch, &touched};
	for (int i = 0; i < 3; i++) {
		inputs[i] = (struct load_input){.fd = f.fds[i], .role = FILE_WEIGHTS};
		snprintf(inputs[i].name, sizeof inputs[i].name, "part %d", i + 1);
	}
	ck_assert_int_eq(model_load(&f.order, inputs, &progress, &loaded, &err), -ESTALE);
	ck_assert_ptr_nonnull(strstr(err.text, inputs[_i].name));
	teardown(&f);
}
END_TEST

/* Which file is which is part of what a copy is made of. */
START_TEST(knows_every_part)
{
	struct fixture f;
	struct loaded loaded;
	struct segment_view view;
	struct segment_source before, after;
	struct err err = {""};
	setup(&f, NARROW, 3);
	for (int round = 0; round < 2; round++) {
		ck_assert_msg(load_fixture_load_parts(&f.order, f.fds, &loaded, &err) == 0, "%s", err.text);
		ck_assert_int_eq(segment_attach(loaded.fds[0], &view, &err), 0);
		*(round ? &after : &before) = view.header->source;
		segment_detach(&view);
		loaded_discard(&loaded);
		if (!round)
			replace(&f, 1, f.parts[1].bytes, f.parts[1].n);
	}
	ck_assert_uint_eq(before.files[0], after.files[0]);
	ck_assert_uint_ne(before.files[1], after.files[1]);
	ck_assert_uint_eq(before.files[2], after.files[2]);
	ck_assert_uint_eq(after.files[3], 0);
	teardown(&f);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("load_parts");
	TCase *tcase = tcase_create("parts");
	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, loads_what_the_whole_file_gives, 0, 5);
	tcase_add_test(tcase, names_the_part);
	tcase_add_test(tcase, counts_the_parts);
	tcase_add_loop_test(tcase, notices_a_part_changed_meanwhile, 0, 3);
	tcase_add_test(tcase, knows_every_part);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
