/* Files that somebody meant ill with, through the whole loader: each must end in a good load or in one line that names
 * the file, with no crash and nothing left in shared memory. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/loop.h"
#include "tests/unit/gguf_builder.h"
#include "tests/unit/load_fixture.h"
#include "tests/unit/suite.h"

enum { FFN = 96, FLIPS = 3000 };

struct fixture {
	struct gguf_builder b;
	struct message_load order;
	unsigned n_good, n_refused;
};

static void setup(struct fixture *f)
{
	memset(f, 0, sizeof *f);
	builder_init(&f->b, 3);
	builder_llama_keys(&f->b, FFN);
	builder_llama_tensors(&f->b, FFN);
	load_fixture_order(&f->order);
	f->order.io =
		IO_EPOLL; /* no ring to set up thousands of times; which backend reads a header makes no difference */
}

static void teardown(struct fixture *f)
{
	ck_assert_uint_eq(load_fixture_objects(&f->order), 0);
	builder_fini(&f->b);
}

/* Loads the first n_bytes of the file as it now is. */
static int try(struct fixture *f, size_t n_bytes)
{
	static const char prefix[] = "/models/made for tests.gguf: ";
	struct loaded loaded;
	struct err err = {""};
	int fd = load_fixture_memory(f->b.bytes, n_bytes);
	int rc = load_fixture_load(&f->order, fd, &loaded, &err);
	close(fd);
	if (rc == 0) {
		f->n_good++;
		loaded_discard(&loaded);
		return 0;
	}
	f->n_refused++;
	ck_assert_msg(rc == -EINVAL || rc == -ENOTSUP || rc == -ENOMEM, "%d: %s", rc, err.text);
	ck_assert_msg(strncmp(err.text, prefix, sizeof prefix - 1) == 0, "no file: %s", err.text);
	ck_assert_msg(strstr(err.text, "offset ") || strstr(err.text, "key '") || strstr(err.text, "tensor '") ||
			      strstr(err.text, "tokenizer."),
		      "neither offset nor field: %s", err.text);
	for (const char *c = err.text; *c; c++)
		ck_assert_msg((unsigned char)*c >= ' ' && *c != 0x7f, "a control character in: %s", err.text);
	return rc;
}

START_TEST(truncated_anywhere)
{
	struct fixture f;
	setup(&f);
	/* At every field, one byte to each side of it, and at random in between. */
	for (size_t i = 0; i < f.b.n_fields; i += i < 100 ? 1 : 7)
		for (size_t n = f.b.fields[i].at - 1; n <= f.b.fields[i].at + 1; n++)
			ck_assert_int_eq(try(&f, n), -EINVAL);
	uint32_t state = 7;
	for (unsigned i = 0; i < 300; i++) {
		state = state * 1664525u + 1013904223u;
		ck_assert_int_eq(try(&f, (state >> 4) % (f.b.n - 64)), -EINVAL);
	}
	ck_assert_int_eq(try(&f, 0), -EINVAL);
	ck_assert_int_eq(try(&f, f.b.n), 0);
	teardown(&f);
}
END_TEST

START_TEST(every_field_spoilt)
{
	static const uint64_t evil[] = {0,
					1,
					31,
					33,
					255,
					65536,
					1ull << 31,
					UINT32_MAX,
					1ull << 32,
					1ull << 61,
					1ull << 63,
					UINT64_MAX / 34,
					UINT64_MAX - 7,
					UINT64_MAX};
	struct fixture f;
	setup(&f);
	/* The fields of the tokens' lists are all alike: some of them are enough. */
	for (size_t i = 0; i < f.b.n_fields; i++) {
		const struct builder_field *field = &f.b.fields[i];
		uint64_t good = 0;
		if (field->width > 8 || (i > 60 && i < 300 && i % 24))
			continue;
		memcpy(&good, f.b.bytes + field->at, field->width);
		for (size_t j = 0; j < sizeof evil / sizeof *evil; j++) {
			builder_poke(&f.b, field->at, evil[j], field->width);
			try(&f, f.b.n);
		}
		builder_poke(&f.b, field->at, good, field->width);
	}
	ck_assert_uint_gt(f.n_refused, f.n_good);
	ck_assert_int_eq(try(&f, f.b.n), 0);
	teardown(&f);
}
END_TEST

START_TEST(bits_flipped)
{
	struct fixture f;
	setup(&f);
	uint32_t state = 99;
	for (unsigned round = 0; round < FLIPS; round++) {
		uint8_t saved[4];
		size_t at[4];
		unsigned n = 1 + round % 4;
		for (unsigned i = 0; i < n; i++) {
			state = state * 1664525u + 1013904223u;
			at[i] = (state >> 7) % f.b.header_bytes;
			saved[i] = f.b.bytes[at[i]];
			f.b.bytes[at[i]] ^= (uint8_t)(1u << (state & 7));
		}
		try(&f, f.b.n);
		while (n--)
			f.b.bytes[at[n]] = saved[n];
	}
	ck_assert_uint_gt(f.n_refused, 0);
	ck_assert_uint_gt(f.n_good, 0);
	ck_assert_int_eq(try(&f, f.b.n), 0);
	teardown(&f);
}
END_TEST

/* A file name made to fill the whole message leaves room for the reason. */
START_TEST(long_paths)
{
	struct fixture f;
	struct loaded loaded;
	struct err err = {""};
	setup(&f);
	memset(f.order.path, 'p', sizeof f.order.path - 1);
	int fd = load_fixture_memory(f.b.bytes, 100);
	ck_assert_int_eq(load_fixture_load(&f.order, fd, &loaded, &err), -EINVAL);
	ck_assert_msg(strstr(err.text, "ppp: offset ") != NULL, "%s", err.text);
	close(fd);
	int pipes[2];
	ck_assert_int_eq(pipe(pipes), 0);
	ck_assert_int_eq(load_fixture_load(&f.order, pipes[0], &loaded, &err), -EINVAL);
	ck_assert_msg(strstr(err.text, "not a regular file") != NULL, "%s", err.text);
	close(pipes[0]);
	close(pipes[1]);
	teardown(&f);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("load_hostile");
	TCase *tcase = tcase_create("hostile files");
	tcase_set_timeout(tcase, 180);
	tcase_add_test(tcase, truncated_anywhere);
	tcase_add_test(tcase, every_field_spoilt);
	tcase_add_test(tcase, bits_flipped);
	tcase_add_test(tcase, long_paths);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
