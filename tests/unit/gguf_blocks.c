/* Tensors of every block type: whole blocks are read, and neither a part of one nor data that stops short. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/gguf_builder.h"
#include "tests/unit/suite.h"

static const struct {
	uint32_t type, columns; /* of a block */
	const char *name;
} blocks[] = {
	{GGUF_TENSOR_F32, 1, "F32"},	 {GGUF_TENSOR_F16, 1, "F16"},	  {GGUF_TENSOR_BF16, 1, "BF16"},
	{GGUF_TENSOR_Q4_0, 32, "Q4_0"},	 {GGUF_TENSOR_Q4_1, 32, "Q4_1"},  {GGUF_TENSOR_Q5_0, 32, "Q5_0"},
	{GGUF_TENSOR_Q5_1, 32, "Q5_1"},	 {GGUF_TENSOR_Q8_0, 32, "Q8_0"},  {GGUF_TENSOR_IQ4_NL, 32, "IQ4_NL"},
	{GGUF_TENSOR_Q2_K, 256, "Q2_K"}, {GGUF_TENSOR_Q3_K, 256, "Q3_K"}, {GGUF_TENSOR_Q4_K, 256, "Q4_K"},
	{GGUF_TENSOR_Q5_K, 256, "Q5_K"}, {GGUF_TENSOR_Q6_K, 256, "Q6_K"},
};
enum { N_BLOCKS = sizeof blocks / sizeof *blocks, ROWS = 5 };

static void build(struct gguf_builder *b, uint32_t type, uint64_t columns)
{
	builder_init(b, 3);
	builder_string(b, "general.architecture", "llama");
	builder_tensor(b, "blk.0.attn_q.weight", type, 2, (uint64_t[]){columns, ROWS});
	builder_data(b);
}

START_TEST(whole_blocks_are_read)
{
	struct gguf_builder b;
	struct gguf gguf;
	struct err err = {""};
	uint64_t need;
	for (uint64_t n = 1; n <= 3; n++) {
		build(&b, blocks[_i].type, n * blocks[_i].columns);
		ck_assert_msg(gguf_parse(b.bytes, b.n, b.n, &gguf, &need, &err) == 0, "%s", err.text);
		ck_assert_str_eq(gguf_tensor_type_name(gguf.tensors[0].type), blocks[_i].name);
		ck_assert_uint_eq(gguf.tensors[0].bytes, builder_tensor_bytes(blocks[_i].type, 2, gguf.tensors[0].dim));
		ck_assert_uint_le(gguf.tensors[0].offset + gguf.tensors[0].bytes, b.n);
		gguf_fini(&gguf);
		builder_fini(&b);
	}
}
END_TEST

/* The last byte that the blocks need, and every one before it in the last row. */
START_TEST(data_that_stops_short_is_refused)
{
	struct gguf_builder b;
	struct gguf gguf;
	struct err err = {""};
	uint64_t need, whole;
	build(&b, blocks[_i].type, 2 * (uint64_t)blocks[_i].columns);
	ck_assert_int_eq(gguf_parse(b.bytes, b.n, b.n, &gguf, &need, &err), 0);
	whole = gguf.tensors[0].offset + gguf.tensors[0].bytes;
	uint64_t row = gguf.tensors[0].bytes / ROWS;
	gguf_fini(&gguf);
	ck_assert_int_eq(gguf_parse(b.bytes, whole, whole, &gguf, &need, &err), 0);
	gguf_fini(&gguf);
	for (uint64_t n = whole - row; n < whole; n++) {
		ck_assert_int_eq(gguf_parse(b.bytes, n, n, &gguf, &need, &err), -EINVAL);
		ck_assert_msg(strstr(err.text, "blk.0.attn_q.weight") != NULL, "%s", err.text);
	}
	builder_fini(&b);
}
END_TEST

START_TEST(parts_of_blocks_are_refused)
{
	uint64_t columns = blocks[_i].columns;
	const uint64_t odd[] = {1, columns / 2, columns - 1, columns + 1, 3 * columns + columns / 2};
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		struct gguf_builder b;
		struct gguf gguf;
		struct err err = {""};
		uint64_t need;
		char expected[80];
		build(&b, blocks[_i].type, odd[i]);
		ck_assert_int_eq(gguf_parse(b.bytes, b.n, b.n, &gguf, &need, &err), -EINVAL);
		snprintf(expected, sizeof expected, "rows of %llu elements aren't whole blocks of %s",
			 (unsigned long long)odd[i], blocks[_i].name);
		ck_assert_msg(strstr(err.text, expected) != NULL, "'%s' isn't in: %s", expected, err.text);
		builder_fini(&b);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("gguf_blocks");
	TCase *tcase = tcase_create("every type");
	tcase_add_loop_test(tcase, whole_blocks_are_read, 0, N_BLOCKS);
	tcase_add_loop_test(tcase, data_that_stops_short_is_refused, 0, N_BLOCKS);
	tcase_add_loop_test(tcase, parts_of_blocks_are_refused, 3, N_BLOCKS);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
