/* Whole loads: a file on disk to a segment whose every row is the file's, and files that must not become one. */
#include "src/load/load.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/loop.h"
#include "src/engine/image.h"
#include "src/engine/tokenizer.h"
#include "tests/unit/gguf_builder.h"
#include "tests/unit/load_fixture.h"
#include "tests/unit/suite.h"

enum { NARROW = 96, WIDE = 16384 /* some megabytes of data: more than what is read with the header */ };

static void build(struct gguf_builder *b, uint32_t ffn)
{
	builder_init(b, 3);
	builder_llama_keys(b, ffn);
	builder_llama_tensors(b, ffn);
}

START_TEST(loads_every_row)
{
	static const struct {
		uint32_t ffn, io, backing;
	} cases[] = {
		{NARROW, IO_AUTO, SEGMENT_SHM}, {NARROW, IO_EPOLL, SEGMENT_MEMFD}, {WIDE, IO_URING, SEGMENT_SHM},
		{WIDE, IO_EPOLL, SEGMENT_SHM},	{WIDE, IO_AUTO, SEGMENT_MEMFD},
	};
	struct gguf_builder b;
	struct message_load order;
	struct loaded loaded;
	struct err err = {""};
	build(&b, cases[_i].ffn);
	int fd = load_fixture_file(b.bytes, b.n);
	load_fixture_order(&order);
	order.io = cases[_i].io;
	order.backing = cases[_i].backing;
	ck_assert_msg(load_fixture_load(&order, fd, &loaded, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(loaded.n, 1);
	ck_assert_uint_le(loaded.bytes_read, b.n);
	ck_assert_str_eq(loaded.segments[0].architecture, "llama");
	ck_assert_uint_eq(loaded.segments[0].context, 512);
	ck_assert_uint_eq(load_fixture_objects(&order), cases[_i].backing == SEGMENT_SHM);
	ck_assert_uint_eq(load_fixture_compare(&loaded, fd),
			  260 + 1 + 2 * (2 + 64 + 32 + 32 + 64 + 64 + 2 * (unsigned long)cases[_i].ffn));
	loaded_discard(&loaded);
	ck_assert_uint_eq(load_fixture_objects(&order), 0);
	close(fd);
	builder_fini(&b);
}
END_TEST

START_TEST(carries_tokenizer_template_and_source)
{
	struct gguf_builder b;
	struct message_load order;
	struct loaded loaded;
	struct segment_view view;
	struct tokenizer *tokenizer;
	struct token_list ids = {0};
	struct err err = {""};
	build(&b, NARROW);
	int fd = load_fixture_file(b.bytes, b.n);
	load_fixture_order(&order);
	ck_assert_msg(load_fixture_load(&order, fd, &loaded, &err) == 0, "%s", err.text);
	ck_assert_int_eq(segment_attach(loaded.fds[0], &view, &err), 0);
	ck_assert_str_eq(view.header->source.path, order.path);
	ck_assert_uint_eq(view.header->source.size_bytes, b.n);
	const char *image = (const char *)view.base + SEGMENT_HEADER_BYTES;
	const struct image_header *header = (const void *)image;
	ck_assert_uint_eq(header->config.vocab, 260);
	ck_assert_uint_eq(header->config.head_dim, 16);
	ck_assert_uint_eq(header->config.tied_head, 1);
	ck_assert_float_eq(header->config.rope_base, 50000);
	ck_assert_uint_eq(header->template_bytes, 28);
	ck_assert_mem_eq(image + header->template_offset, "{{ messages[0]['content'] }}", 28);
	ck_assert_msg(tokenizer_attach(image + header->tokenizer_offset, header->tokenizer_bytes, &tokenizer, &err) ==
			      0,
		      "%s", err.text);
	ck_assert_int_eq(tokenizer_encode(tokenizer, "he\n", 3, false, false, 10, &ids, &err), 0);
	ck_assert_uint_eq(ids.n, 2);
	ck_assert_uint_eq(ids.ids[0], 259); /* "he", by the one merge */
	ck_assert_uint_eq(ids.ids[1], 3 + '\n');
	ck_assert_int_eq((int)tokenizer_eos(tokenizer), 2);
	token_list_fini(&ids);
	tokenizer_detach(tokenizer);
	segment_detach(&view);
	loaded_discard(&loaded);
	close(fd);
	builder_fini(&b);
}
END_TEST

START_TEST(refuses_wrong_orders)
{
	struct gguf_builder b;
	struct message_load good, order;
	struct loaded loaded;
	struct err err;
	build(&b, NARROW);
	int fd = load_fixture_file(b.bytes, b.n);
	load_fixture_order(&good);
	order = good;
	order.n_nodes = 0;
	ck_assert_int_eq(load_fixture_load(&order, fd, &loaded, &err), -EINVAL);
	order.n_nodes = 65;
	ck_assert_int_eq(load_fixture_load(&order, fd, &loaded, &err), -EINVAL);
	order.n_nodes = 2;
	order.node[1] = order.node[0];
	ck_assert_int_eq(load_fixture_load(&order, fd, &loaded, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "twice"));
	order = good;
	memset(order.model, 'm', sizeof order.model);
	ck_assert_int_eq(load_fixture_load(&order, fd, &loaded, &err), -EINVAL);
	order = good;
	order.io = 3;
	ck_assert_int_eq(load_fixture_load(&order, fd, &loaded, &err), -EINVAL);
	/* A second node that isn't there: the first copy, made by then, goes again. */
	order = good;
	order.n_nodes = 2;
	order.node[1] = 4000;
	ck_assert_int_ne(load_fixture_load(&order, fd, &loaded, &err), 0);
	ck_assert_msg(strstr(err.text, "made for tests.gguf: ") != NULL, "%s", err.text);
	ck_assert_uint_eq(load_fixture_objects(&good), 0);
	/* Names that shm_open must never see. */
	order = good;
	snprintf(order.model, sizeof order.model, "../tiny");
	ck_assert_int_eq(load_fixture_load(&order, fd, &loaded, &err), -EINVAL);
	close(fd);
	builder_fini(&b);
}
END_TEST

START_TEST(leaves_a_taken_name_alone)
{
	struct gguf_builder b;
	struct message_load order;
	struct loaded loaded, second;
	struct err err;
	build(&b, NARROW);
	int fd = load_fixture_file(b.bytes, b.n);
	load_fixture_order(&order);
	ck_assert_int_eq(load_fixture_load(&order, fd, &loaded, &err), 0);
	ck_assert_int_eq(load_fixture_load(&order, fd, &second, &err), -EEXIST);
	ck_assert_uint_eq(load_fixture_objects(&order), 1);
	load_fixture_compare(&loaded, fd);
	loaded_discard(&loaded);
	close(fd);
	builder_fini(&b);
}
END_TEST

/* The same file gives the same digest, whoever reads it and however. */
START_TEST(is_the_same_every_time)
{
	struct gguf_builder b;
	struct message_load order;
	struct loaded one, two;
	struct err err;
	build(&b, WIDE);
	int fd = load_fixture_file(b.bytes, b.n);
	load_fixture_order(&order);
	ck_assert_int_eq(load_fixture_load(&order, fd, &one, &err), 0);
	order.generation = 2;
	order.io = IO_EPOLL;
	ck_assert_int_eq(load_fixture_load(&order, fd, &two, &err), 0);
	ck_assert_mem_eq(one.segments[0].report.digest, two.segments[0].report.digest, SEGMENT_DIGEST_BYTES);
	loaded_discard(&one);
	loaded_discard(&two);
	close(fd);
	builder_fini(&b);
}
END_TEST

static void ignore(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
	(void)context;
	ck_assert_uint_le(done_bytes, total_bytes);
}

/* With a chat template in a file of its own. */
static int load_with_template(const struct message_load *order, int fd, const void *text, size_t n_bytes,
			      struct loaded *out, struct err *err)
{
	const struct load_progress progress = {ignore, NULL};
	struct load_input inputs[2];
	load_fixture_input(fd, &inputs[0]);
	inputs[1] = (struct load_input){
		.fd = load_fixture_memory(text, n_bytes), .role = FILE_TEMPLATE, .name = "chat.jinja"};
	int rc = model_load(order, inputs, &progress, out, err);
	close(inputs[1].fd);
	return rc;
}

START_TEST(takes_a_template_of_its_own)
{
	static const char good[] = "{% for m in messages %}{{ m.content }}\u00e9{% endfor %}\n";
	static const struct {
		const char *text;
		size_t n_bytes;
		const char *part;
	} bad[] = {
		{"a\n{% if %}", 10, "chat.jinja: line 2: "},
		{"\xc3\xa9\n\xc3", 4, "chat.jinja: line 2: not UTF-8 at byte 3"},
		{"a\0b", 3, NULL},
		{"", 0, "chat.jinja: line 1: a chat template is wanted"},
	};
	struct gguf_builder b;
	struct message_load order;
	struct loaded loaded;
	struct segment_view view;
	struct err err = {""};
	build(&b, NARROW);
	int fd = load_fixture_file(b.bytes, b.n);
	load_fixture_order(&order);
	order.n_files = 2;
	ck_assert_msg(load_with_template(&order, fd, good, strlen(good), &loaded, &err) == 0, "%s", err.text);
	ck_assert_int_eq(segment_attach(loaded.fds[0], &view, &err), 0);
	const char *image = (const char *)view.base + SEGMENT_HEADER_BYTES;
	const struct image_header *header = (const void *)image;
	ck_assert_uint_eq(header->template_bytes, strlen(good));
	ck_assert_mem_eq(image + header->template_offset, good, strlen(good));
	ck_assert_uint_eq(view.header->source.n_files, 2);
	segment_detach(&view);
	loaded_discard(&loaded);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		int rc = load_with_template(&order, fd, bad[i].text, bad[i].n_bytes, &loaded, &err);
		if (!bad[i].part) { /* a byte like others: only that it does no harm */
			ck_assert_int_eq(rc, 0);
			loaded_discard(&loaded);
			continue;
		}
		ck_assert_int_eq(rc, -EINVAL);
		ck_assert_msg(strstr(err.text, bad[i].part) != NULL, "'%s' isn't in: %s", bad[i].part, err.text);
	}
	ck_assert_uint_eq(load_fixture_objects(&order), 0);
	close(fd);
	builder_fini(&b);
}
END_TEST

static int touched_fd;

/* Somebody appends to the file while it is being read. */
static void touch(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
	(void)context;
	(void)done_bytes;
	(void)total_bytes;
	ck_assert_int_eq(ftruncate(touched_fd, (off_t)total_bytes + 1), 0);
}

START_TEST(notices_a_file_changed_meanwhile)
{
	struct gguf_builder b;
	struct message_load order;
	struct loaded loaded;
	struct err err;
	const struct load_progress progress = {touch, NULL};
	struct load_input input;
	build(&b, NARROW);
	touched_fd = load_fixture_file(b.bytes, b.n);
	load_fixture_order(&order);
	load_fixture_input(touched_fd, &input);
	ck_assert_int_eq(model_load(&order, &input, &progress, &loaded, &err), -ESTALE);
	ck_assert_uint_eq(load_fixture_objects(&order), 0);
	close(touched_fd);
	builder_fini(&b);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("load");
	TCase *tcase = tcase_create("load");
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, loads_every_row, 0, 5);
	tcase_add_test(tcase, carries_tokenizer_template_and_source);
	tcase_add_test(tcase, refuses_wrong_orders);
	tcase_add_test(tcase, leaves_a_taken_name_alone);
	tcase_add_test(tcase, is_the_same_every_time);
	tcase_add_test(tcase, takes_a_template_of_its_own);
	tcase_add_test(tcase, notices_a_file_changed_meanwhile);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
