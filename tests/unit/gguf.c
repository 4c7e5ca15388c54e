/* The GGUF parser on good files, and on every way to spoil one that could be thought of. */
#include "src/format/gguf.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/gguf_builder.h"
#include "tests/unit/suite.h"

/* A file with every value type, nested arrays, every supported tensor type and no more than 2 KiB of header. */
static void build_everything(struct gguf_builder *b)
{
	builder_init(b, 3);
	builder_string(b, "general.architecture", "llama");
	builder_u32(b, "general.alignment", 64);
	builder_scalar(b, "a.u8", GGUF_UINT8, &(uint8_t){200}, 1);
	builder_scalar(b, "a.i8", GGUF_INT8, &(int8_t){-5}, 1);
	builder_scalar(b, "a.u16", GGUF_UINT16, &(uint16_t){65535}, 2);
	builder_scalar(b, "a.i16", GGUF_INT16, &(int16_t){-32768}, 2);
	builder_scalar(b, "a.i32", GGUF_INT32, &(int32_t){77}, 4);
	builder_scalar(b, "a.u64", GGUF_UINT64, &(uint64_t){UINT64_MAX}, 8);
	builder_scalar(b, "a.i64", GGUF_INT64, &(int64_t){1 << 30}, 8);
	builder_f32(b, "a.f32", 1.5f);
	builder_scalar(b, "a.f64", GGUF_FLOAT64, &(double){0.25}, 8);
	builder_scalar(b, "a.huge", GGUF_FLOAT64, &(double){1e300}, 8);
	builder_scalar(b, "a.bool", GGUF_BOOL, &(uint8_t){1}, 1);
	builder_array(b, "a.strings", GGUF_STRING, 3);
	builder_element(b, "one");
	builder_element(b, "");
	builder_element(b, "three");
	builder_array(b, "a.ints", GGUF_INT16, 3);
	builder_raw(b, (int16_t[]){-1, 0, 32767}, 6, FIELD_VALUE);
	builder_array(b, "a.bools", GGUF_BOOL, 2);
	builder_raw(b, "\1\0", 2, FIELD_VALUE);
	builder_array(b, "a.nested", GGUF_ARRAY, 2);
	for (int i = 0; i < 2; i++) {
		builder_raw(b, &(uint32_t){GGUF_UINT8}, 4, FIELD_TYPE);
		builder_raw(b, &(uint64_t){2}, 8, FIELD_COUNT);
		builder_raw(b, "xy", 2, FIELD_VALUE);
	}
	builder_array(b, "a.empty", GGUF_STRING, 0);
	builder_tensor(b, "f32", GGUF_TENSOR_F32, 1, (uint64_t[]){7});
	builder_tensor(b, "f16", GGUF_TENSOR_F16, 2, (uint64_t[]){3, 5});
	builder_tensor(b, "bf16", GGUF_TENSOR_BF16, 3, (uint64_t[]){3, 5, 2});
	builder_tensor(b, "q8_0", GGUF_TENSOR_Q8_0, 4, (uint64_t[]){64, 2, 1, 2});
	builder_tensor(b, "q4_0", GGUF_TENSOR_Q4_0, 2, (uint64_t[]){32, 4});
	builder_tensor(b, "q4_1", GGUF_TENSOR_Q4_1, 2, (uint64_t[]){96, 2});
	builder_tensor(b, "q5_0", GGUF_TENSOR_Q5_0, 1, (uint64_t[]){64});
	builder_tensor(b, "q5_1", GGUF_TENSOR_Q5_1, 1, (uint64_t[]){96});
	builder_tensor(b, "iq4_nl", GGUF_TENSOR_IQ4_NL, 1, (uint64_t[]){32});
	builder_tensor(b, "q2_k", GGUF_TENSOR_Q2_K, 1, (uint64_t[]){256});
	builder_tensor(b, "q3_k", GGUF_TENSOR_Q3_K, 1, (uint64_t[]){512});
	builder_tensor(b, "q4_k", GGUF_TENSOR_Q4_K, 1, (uint64_t[]){256});
	builder_tensor(b, "q5_k", GGUF_TENSOR_Q5_K, 1, (uint64_t[]){256});
	builder_tensor(b, "q6_k", GGUF_TENSOR_Q6_K, 1, (uint64_t[]){768});
	builder_data(b);
}

/* Parses a private copy of exactly the given bytes, so that the sanitizer sees a read past them. */
static int parse_copy(const uint8_t *bytes, size_t n_bytes, uint64_t file_bytes, struct gguf *gguf, uint64_t *need,
		      struct err *err, uint8_t **copy)
{
	*copy = malloc(n_bytes ? n_bytes : 1);
	ck_assert_ptr_nonnull(*copy);
	memcpy(*copy, bytes, n_bytes);
	return gguf_parse(*copy, n_bytes, file_bytes, gguf, need, err);
}

/* What every refusal owes: a reason in one printable line that names an offset. */
static void check_message(const struct err *err)
{
	ck_assert_msg(strncmp(err->text, "offset ", 7) == 0, "no offset: %s", err->text);
	ck_assert_msg(strchr(err->text, ':') && strchr(err->text, ',') != err->text, "no field: %s", err->text);
	for (const char *c = err->text; *c; c++)
		ck_assert_msg(*c >= ' ' && *c <= '~', "unprintable byte in: %s", err->text);
}

/* Parses, walks all that came out if anything did. Returns the code. */
static int try_file(const uint8_t *bytes, size_t n_bytes, uint64_t file_bytes, struct err *err)
{
	struct gguf gguf;
	uint64_t need = 0;
	uint8_t *copy;
	err->text[0] = '\0';
	int rc = parse_copy(bytes, n_bytes, file_bytes, &gguf, &need, err, &copy);
	if (rc == 0) {
		for (uint64_t i = 0; i < gguf.n_tensors; i++) {
			ck_assert_uint_le(gguf.tensors[i].offset, file_bytes);
			ck_assert_uint_le(gguf.tensors[i].bytes, file_bytes - gguf.tensors[i].offset);
			ck_assert_uint_ge(gguf.tensors[i].offset, gguf.data_offset);
		}
		gguf_fini(&gguf);
	} else if (rc == -EAGAIN) {
		ck_assert_uint_gt(need, n_bytes);
		ck_assert_uint_le(need, file_bytes);
	} else {
		ck_assert_msg(rc == -EINVAL || rc == -ENOTSUP, "code %d: %s", rc, err->text);
		check_message(err);
	}
	free(copy);
	return rc;
}

START_TEST(reads_every_type)
{
	struct gguf_builder b;
	build_everything(&b);
	struct gguf gguf;
	struct err err = {""};
	uint64_t need;
	ck_assert_msg(gguf_parse(b.bytes, b.n, b.n, &gguf, &need, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(gguf.version, 3);
	ck_assert_uint_eq(gguf.alignment, 64);
	ck_assert_uint_eq(gguf.n_pairs, 18);
	ck_assert_uint_eq(gguf.n_tensors, 14);
	ck_assert_uint_eq(gguf.data_offset, (b.header_bytes + 63) / 64 * 64);

	uint32_t u32;
	float f32;
	bool yes;
	struct gguf_string string;
	ck_assert_int_eq(gguf_get_u32(&gguf, "a.u8", &u32, &err), 0);
	ck_assert_uint_eq(u32, 200);
	ck_assert_int_eq(gguf_get_u32(&gguf, "a.u16", &u32, &err), 0);
	ck_assert_uint_eq(u32, 65535);
	ck_assert_int_eq(gguf_get_u32(&gguf, "a.i32", &u32, &err), 0);
	ck_assert_uint_eq(u32, 77);
	ck_assert_int_eq(gguf_get_u32(&gguf, "a.i64", &u32, &err), 0);
	ck_assert_uint_eq(u32, 1 << 30);
	u32 = 5;
	ck_assert_int_eq(gguf_get_u32(&gguf, "a.i8", &u32, &err), -EINVAL);
	check_message(&err);
	ck_assert_int_eq(gguf_get_u32(&gguf, "a.i16", &u32, &err), -EINVAL);
	ck_assert_int_eq(gguf_get_u32(&gguf, "a.u64", &u32, &err), -EINVAL);
	ck_assert_int_eq(gguf_get_u32(&gguf, "a.f32", &u32, &err), -EINVAL);
	ck_assert_int_eq(gguf_get_u32(&gguf, "a.ints", &u32, &err), -EINVAL);
	ck_assert_int_eq(gguf_get_u32(&gguf, "a.none", &u32, &err), -ENOENT);
	ck_assert_uint_eq(u32, 5);
	ck_assert_int_eq(gguf_get_f32(&gguf, "a.f32", &f32, &err), 0);
	ck_assert_float_eq(f32, 1.5f);
	ck_assert_int_eq(gguf_get_f32(&gguf, "a.f64", &f32, &err), 0);
	ck_assert_float_eq(f32, 0.25f);
	ck_assert_int_eq(gguf_get_f32(&gguf, "a.huge", &f32, &err), 0);
	ck_assert_float_infinite(f32);
	ck_assert_int_eq(gguf_get_f32(&gguf, "a.u8", &f32, &err), -EINVAL);
	ck_assert_int_eq(gguf_get_bool(&gguf, "a.bool", &yes, &err), 0);
	ck_assert(yes);
	ck_assert_int_eq(gguf_get_bool(&gguf, "a.u8", &yes, &err), -EINVAL);
	ck_assert_int_eq(gguf_get_string(&gguf, "general.architecture", &string, &err), 0);
	ck_assert_uint_eq(string.n_bytes, 5);
	ck_assert_mem_eq(string.bytes, "llama", 5);
	ck_assert_int_eq(gguf_get_string(&gguf, "a.strings", &string, &err), -EINVAL);
	gguf_fini(&gguf);
	builder_fini(&b);
}
END_TEST

START_TEST(reads_arrays_and_tensors)
{
	struct gguf_builder b;
	build_everything(&b);
	struct gguf gguf;
	struct err err = {""};
	uint64_t need, n;
	ck_assert_int_eq(gguf_parse(b.bytes, b.n, b.n, &gguf, &need, &err), 0);

	struct gguf_string *strings;
	int32_t *integers;
	ck_assert_int_eq(gguf_get_strings(&gguf, "a.strings", &strings, &n, &err), 0);
	ck_assert_uint_eq(n, 3);
	ck_assert_uint_eq(strings[1].n_bytes, 0);
	ck_assert_uint_eq(strings[2].n_bytes, 5);
	ck_assert_mem_eq(strings[2].bytes, "three", 5);
	free(strings);
	ck_assert_int_eq(gguf_get_strings(&gguf, "a.empty", &strings, &n, &err), 0);
	ck_assert_uint_eq(n, 0);
	free(strings);
	ck_assert_int_eq(gguf_get_strings(&gguf, "a.ints", &strings, &n, &err), -EINVAL);
	ck_assert_int_eq(gguf_get_i32s(&gguf, "a.ints", &integers, &n, &err), 0);
	ck_assert_uint_eq(n, 3);
	ck_assert_int_eq(integers[0], -1);
	ck_assert_int_eq(integers[2], 32767);
	free(integers);
	ck_assert_int_eq(gguf_get_i32s(&gguf, "a.strings", &integers, &n, &err), -EINVAL);
	ck_assert_int_eq(gguf_get_i32s(&gguf, "a.nested", &integers, &n, &err), -EINVAL);
	const struct gguf_value *nested = gguf_find(&gguf, "a.nested");
	ck_assert(nested && nested->is_array && nested->type == GGUF_ARRAY && nested->n == 2);

	const struct gguf_tensor *tensor = gguf_find_tensor(&gguf, "q8_0");
	ck_assert_ptr_nonnull(tensor);
	ck_assert_uint_eq(tensor->n_dims, 4);
	ck_assert_uint_eq(tensor->dim[0], 64);
	ck_assert_uint_eq(tensor->dim[3], 2);
	ck_assert_uint_eq(tensor->bytes, 4 * 2 * 34);
	ck_assert_ptr_null(gguf_find_tensor(&gguf, "q8"));
	ck_assert_ptr_null(gguf_find_tensor(&gguf, "q8_00"));
	for (uint64_t i = 0; i < gguf.n_tensors; i++) {
		ck_assert_uint_eq(gguf.tensors[i].offset % 64, 0);
		if (i)
			ck_assert_uint_gt(gguf.tensors[i].offset, gguf.tensors[i - 1].offset);
	}
	gguf_fini(&gguf);
	builder_fini(&b);
}
END_TEST

/* The prefix grows by exactly what the parser asks for: it must get there, and never claim to be there too early. */
START_TEST(asks_for_what_it_needs)
{
	struct gguf_builder b;
	build_everything(&b);
	struct err err;
	size_t have = 0, rounds = 0;
	for (;;) {
		struct gguf gguf;
		uint64_t need = 0;
		uint8_t *copy;
		int rc = parse_copy(b.bytes, have, b.n, &gguf, &need, &err, &copy);
		if (rc == 0) {
			ck_assert_uint_eq(have, b.header_bytes);
			gguf_fini(&gguf);
			free(copy);
			break;
		}
		free(copy);
		ck_assert_msg(rc == -EAGAIN, "%s", err.text);
		ck_assert_uint_gt(need, have);
		have = need;
		ck_assert_uint_lt(++rounds, 1000);
	}
	for (size_t n = 0; n < b.header_bytes; n++)
		ck_assert_int_eq(try_file(b.bytes, n, b.n, &err), -EAGAIN);
	builder_fini(&b);
}
END_TEST

/* A file cut anywhere: in the header it is malformed; in the data, too, up to the last tensor's last byte. */
START_TEST(refuses_every_truncation)
{
	struct gguf_builder b;
	build_everything(&b);
	struct err err;
	struct gguf gguf;
	uint64_t need;
	ck_assert_int_eq(gguf_parse(b.bytes, b.n, b.n, &gguf, &need, &err), 0);
	const struct gguf_tensor *last = &gguf.tensors[gguf.n_tensors - 1];
	uint64_t end = last->offset + last->bytes;
	gguf_fini(&gguf);
	for (size_t n = 0; n < end; n++)
		ck_assert_msg(try_file(b.bytes, n, n, &err) == -EINVAL, "cut at %zu", n);
	ck_assert_int_eq(try_file(b.bytes, end, end, &err), 0);
	builder_fini(&b);
}
END_TEST

/* Every count, length, type, offset and dimension takes every value that has ever broken a parser. */
START_TEST(survives_every_field_spoilt)
{
	static const uint64_t evil[] = {
		0,
		1,
		2,
		3,
		5,
		7,
		8,
		9,
		13,
		31,
		33,
		63,
		64,
		65,
		100,
		127,
		128,
		255,
		256,
		257,
		4095,
		65535,
		65536,
		1u << 20,
		INT32_MAX,
		1ull << 31,
		(1ull << 31) + 1,
		UINT32_MAX,
		1ull << 32,
		(1ull << 32) + 1,
		1ull << 33,
		1ull << 60,
		1ull << 61,
		1ull << 62,
		INT64_MAX - 63,
		INT64_MAX,
		1ull << 63,
		(1ull << 63) + 64,
		UINT64_MAX / 34,
		UINT64_MAX / 34 + 1,
		UINT64_MAX - 4096,
		UINT64_MAX - 64,
		UINT64_MAX - 8,
		UINT64_MAX - 1,
		UINT64_MAX,
	};
	struct gguf_builder b;
	build_everything(&b);
	unsigned refused = 0, tried = 0;
	for (size_t f = 0; f < b.n_fields; f++) {
		const struct builder_field *field = &b.fields[f];
		if (field->width > 8)
			continue;
		uint64_t good = 0;
		memcpy(&good, b.bytes + field->at, field->width);
		for (size_t i = 0; i < sizeof evil / sizeof *evil; i++) {
			struct err err;
			builder_poke(&b, field->at, evil[i], field->width);
			refused += try_file(b.bytes, b.n, b.n, &err) != 0;
			try_file(b.bytes, b.header_bytes, UINT64_MAX, &err);
			try_file(b.bytes, b.header_bytes, INT64_MAX, &err);
			tried++;
		}
		builder_poke(&b, field->at, good, field->width);
	}
	ck_assert_uint_gt(refused, tried / 2);
	struct err err;
	ck_assert_int_eq(try_file(b.bytes, b.n, b.n, &err), 0);
	builder_fini(&b);
}
END_TEST

START_TEST(survives_bit_flips)
{
	struct gguf_builder b;
	build_everything(&b);
	uint32_t state = 12345;
	for (unsigned round = 0; round < 5000; round++) {
		uint8_t saved[8];
		size_t at[8];
		unsigned n = 1 + round % 8;
		for (unsigned i = 0; i < n; i++) {
			state = state * 1664525u + 1013904223u;
			at[i] = (state >> 8) % b.header_bytes;
			saved[i] = b.bytes[at[i]];
			b.bytes[at[i]] ^= (uint8_t)(1u << (state & 7));
		}
		struct err err;
		try_file(b.bytes, b.n, b.n, &err);
		while (n--)
			b.bytes[at[n]] = saved[n];
	}
	builder_fini(&b);
}
END_TEST

/* --- one refusal at a time -------------------------------------------------------------------- */

static void refuse(struct gguf_builder *b, int code, const char *part)
{
	struct err err;
	if (!b->header_bytes)
		builder_data(b);
	int rc = try_file(b->bytes, b->n, b->n, &err);
	ck_assert_msg(rc == code, "%d: %s", rc, err.text);
	ck_assert_msg(strstr(err.text, part) != NULL, "'%s' isn't in: %s", part, err.text);
	builder_fini(b);
}

START_TEST(refuses_wrong_heads)
{
	struct gguf_builder b;
	builder_init(&b, 3);
	b.bytes[0] = 'g';
	refuse(&b, -EINVAL, "offset 0: header, magic: not a GGUF file");
	builder_init(&b, 1);
	refuse(&b, -ENOTSUP, "offset 4: header, version: 1");
	builder_init(&b, 4);
	refuse(&b, -ENOTSUP, "version: 4");
	builder_init(&b, 3u << 24);
	refuse(&b, -ENOTSUP, "big-endian");
	builder_init(&b, 2);
	builder_poke(&b, 8, UINT64_MAX, 8);
	refuse(&b, -EINVAL, "offset 8: header, tensor count: 18446744073709551615");
	builder_init(&b, 2);
	builder_poke(&b, 16, 1000, 8);
	refuse(&b, -EINVAL, "offset 16: header, key count: 1000");
}
END_TEST

START_TEST(refuses_wrong_alignments)
{
	static const uint32_t wrong[] = {0, 1, 4, 7, 24, 33, 1u << 21, 1u << 31, UINT32_MAX};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct gguf_builder b;
		builder_init(&b, 3);
		builder_u32(&b, "general.alignment", wrong[i]);
		b.alignment = 32;
		refuse(&b, -EINVAL, "key 'general.alignment', value");
	}
	struct gguf_builder b;
	builder_init(&b, 3);
	builder_string(&b, "general.alignment", "32");
	refuse(&b, -EINVAL, "expected an integer");
}
END_TEST

START_TEST(refuses_duplicates)
{
	struct gguf_builder b;
	builder_init(&b, 3);
	builder_u32(&b, "a", 1);
	builder_u32(&b, "b", 1);
	builder_u32(&b, "a", 2);
	refuse(&b, -EINVAL, "key 'a': is there twice");
	builder_init(&b, 3);
	builder_tensor(&b, "x", GGUF_TENSOR_F32, 1, (uint64_t[]){8});
	builder_tensor(&b, "y", GGUF_TENSOR_F32, 1, (uint64_t[]){8});
	builder_tensor(&b, "x", GGUF_TENSOR_F32, 1, (uint64_t[]){8});
	refuse(&b, -EINVAL, "tensor 'x', name: is there twice");
	builder_init(&b, 3);
	builder_u32(&b, "", 1);
	refuse(&b, -EINVAL, "name: is empty");
}
END_TEST

START_TEST(refuses_wrong_values)
{
	struct gguf_builder b;
	builder_init(&b, 3);
	builder_scalar(&b, "truth", GGUF_BOOL, &(uint8_t){2}, 1);
	refuse(&b, -EINVAL, "key 0 'truth', value: 2 is neither");
	builder_init(&b, 3);
	builder_scalar(&b, "kind", 13, "", 1);
	refuse(&b, -EINVAL, "key 0 'kind', value type: 13");
	builder_init(&b, 3);
	builder_array(&b, "many", GGUF_UINT64, 1ull << 61);
	refuse(&b, -EINVAL, "2305843009213693952 elements");
	builder_init(&b, 3);
	builder_array(&b, "many", GGUF_STRING, 1ull << 61);
	refuse(&b, -EINVAL, "2305843009213693952 elements");
	builder_init(&b, 3);
	builder_array(&b, "deep", GGUF_ARRAY, 1);
	for (int i = 0; i < 10; i++) {
		builder_raw(&b, &(uint32_t){GGUF_ARRAY}, 4, FIELD_TYPE);
		builder_raw(&b, &(uint64_t){1}, 8, FIELD_COUNT);
	}
	refuse(&b, -EINVAL, "nested deeper");
	builder_init(&b, 3);
	builder_string(&b, "new\nline\x1b[2J", "x");
	builder_scalar(&b, "new\nline\x1b[2J", GGUF_BOOL, &(uint8_t){7}, 1);
	refuse(&b, -EINVAL, "'new?line?[2J'");
}
END_TEST

START_TEST(refuses_wrong_tensors)
{
	struct gguf_builder b;
	builder_init(&b, 3);
	builder_tensor(&b, "blk.0.ffn_up.weight", 23, 2, (uint64_t[]){256, 2});
	refuse(&b, -ENOTSUP, "tensor 0 'blk.0.ffn_up.weight', type: IQ4_XS is not supported (F32, F16, BF16, Q8_0,");
	builder_init(&b, 3);
	builder_tensor(&b, "old", 4, 1, (uint64_t[]){32});
	refuse(&b, -EINVAL, "type: 4 is no tensor type");
	builder_init(&b, 3);
	builder_tensor(&b, "odd", GGUF_TENSOR_Q4_0, 2, (uint64_t[]){33, 32});
	refuse(&b, -EINVAL, "rows of 33 elements");
	builder_init(&b, 3);
	builder_tensor(&b, "blk.1.attn_k.weight", GGUF_TENSOR_Q4_K, 2, (uint64_t[]){576, 32});
	refuse(&b, -EINVAL, "tensor 0 'blk.1.attn_k.weight', type: rows of 576 elements aren't whole blocks of Q4_K");
	builder_init(&b, 3);
	builder_tensor(&b, "none", GGUF_TENSOR_F32, 2, (uint64_t[]){8, 0});
	refuse(&b, -EINVAL, "dimension: 0 at place 1");
	builder_init(&b, 3);
	builder_tensor(&b, "flat", GGUF_TENSOR_F32, 0, NULL);
	refuse(&b, -EINVAL, "dimensions: 0");
	builder_init(&b, 3);
	builder_tensor(&b, "wide", GGUF_TENSOR_F32, 4, (uint64_t[]){1ull << 32, 1ull << 32, 1, 1});
	b.data_bytes = 0;
	refuse(&b, -EINVAL, "dimension: 4294967296 at place 1");
	builder_init(&b, 3);
	builder_tensor(&b, "big", GGUF_TENSOR_F32, 1, (uint64_t[]){1ull << 40});
	b.data_bytes = 0;
	refuse(&b, -EINVAL, "more than the whole file");
	char name[66];
	memset(name, 'n', 65);
	name[65] = '\0';
	builder_init(&b, 3);
	builder_tensor(&b, name, GGUF_TENSOR_F32, 1, (uint64_t[]){8});
	refuse(&b, -EINVAL, "name: length 65");
}
END_TEST

/* The last field of the last entry written is its data offset. */
static void poke_last_offset(struct gguf_builder *b, uint64_t value)
{
	builder_poke(b, b->fields[b->n_fields - 1].at, value, 8);
}

START_TEST(refuses_wrong_data_offsets)
{
	struct gguf_builder b;
	for (int version = 2; version <= 3; version++) {
		builder_init(&b, (uint32_t)version);
		builder_tensor(&b, "x", GGUF_TENSOR_F32, 1, (uint64_t[]){16});
		builder_tensor(&b, "y", GGUF_TENSOR_F32, 1, (uint64_t[]){16});
		poke_last_offset(&b, 32);
		refuse(&b, -EINVAL, "tensor 'y', data: overlaps that of 'x'");
	}
	builder_init(&b, 3);
	builder_tensor(&b, "x", GGUF_TENSOR_F32, 1, (uint64_t[]){16});
	poke_last_offset(&b, 4);
	refuse(&b, -EINVAL, "tensor 0 'x', data offset: 4 is no multiple");
	builder_init(&b, 3);
	builder_tensor(&b, "x", GGUF_TENSOR_F32, 1, (uint64_t[]){16});
	poke_last_offset(&b, UINT64_MAX - 31);
	refuse(&b, -EINVAL, "reach past the file's end");
	builder_init(&b, 3);
	builder_tensor(&b, "x", GGUF_TENSOR_F32, 1, (uint64_t[]){16});
	poke_last_offset(&b, 32);
	refuse(&b, -EINVAL, "tensor 'x', data: 64 bytes, but the file ends");
}
END_TEST

/* A header that claims 2^60 of everything is refused without work or memory in proportion. */
START_TEST(believes_no_claim)
{
	struct gguf_builder b;
	builder_init(&b, 3);
	builder_array(&b, "tokens", GGUF_STRING, 1ull << 56);
	builder_element(&b, "a");
	struct gguf gguf;
	struct err err;
	uint64_t need = 0;
	clock_t begin = clock();
	ck_assert_int_eq(gguf_parse(b.bytes, b.n, INT64_MAX, &gguf, &need, &err), -EAGAIN);
	ck_assert_uint_eq(need, b.n + 8);
	ck_assert_int_lt((clock() - begin) / CLOCKS_PER_SEC, 1);
	builder_fini(&b);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("gguf");
	TCase *good = tcase_create("good files"), *bad = tcase_create("bad files");
	tcase_add_test(good, reads_every_type);
	tcase_add_test(good, reads_arrays_and_tensors);
	tcase_add_test(good, asks_for_what_it_needs);
	tcase_set_timeout(bad, 60);
	tcase_add_test(bad, refuses_every_truncation);
	tcase_add_test(bad, survives_every_field_spoilt);
	tcase_add_test(bad, survives_bit_flips);
	tcase_add_test(bad, refuses_wrong_heads);
	tcase_add_test(bad, refuses_wrong_alignments);
	tcase_add_test(bad, refuses_duplicates);
	tcase_add_test(bad, refuses_wrong_values);
	tcase_add_test(bad, refuses_wrong_tensors);
	tcase_add_test(bad, refuses_wrong_data_offsets);
	tcase_add_test(bad, believes_no_claim);
	suite_add_tcase(suite, good);
	suite_add_tcase(suite, bad);
	return suite_run(suite);
}
