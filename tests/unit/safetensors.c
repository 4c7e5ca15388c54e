/* The safetensors parser on good files, and on every way to spoil one that could be thought of. */
#include "src/format/safetensors.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/suite.h"

/* A file with this header and so many bytes of data, all of them zero. Returns owned; *n_bytes is its length. */
static unsigned char *file_of(const char *header, size_t header_bytes, size_t data_bytes, size_t *n_bytes)
{
	*n_bytes = SAFETENSORS_LENGTH_BYTES + header_bytes + data_bytes;
	unsigned char *bytes = calloc(*n_bytes, 1);
	ck_assert_ptr_nonnull(bytes);
	for (int i = 0; i < SAFETENSORS_LENGTH_BYTES; i++)
		bytes[i] = (unsigned char)((uint64_t)header_bytes >> 8 * i);
	memcpy(bytes + SAFETENSORS_LENGTH_BYTES, header, header_bytes);
	return bytes;
}

/* What every refusal owes: a reason in one printable line that names an offset. */
static void check_message(const struct err *err)
{
	ck_assert_msg(strncmp(err->text, "offset ", 7) == 0, "no offset: %s", err->text);
	for (const char *c = err->text; *c; c++)
		ck_assert_msg(*c >= ' ' && *c <= '~', "unprintable byte in: %s", err->text);
}

/* Parses a private copy of exactly the given bytes, so that the sanitizer sees a read past them, and gives it away
 * before looking at what came out. */
static int parse(const void *bytes, size_t n_bytes, uint64_t file_bytes, struct safetensors *out, uint64_t *need,
		 struct err *err)
{
	unsigned char *copy = malloc(n_bytes ? n_bytes : 1);
	ck_assert_ptr_nonnull(copy);
	memcpy(copy, bytes, n_bytes);
	int rc = safetensors_parse(copy, n_bytes, file_bytes, out, need, err);
	free(copy);
	return rc;
}

/* Parses a whole file; what is accepted has to tile it. Returns the code. */
static int try_file(const unsigned char *bytes, size_t n_bytes, struct err *err)
{
	struct safetensors file;
	uint64_t need = 0;
	err->text[0] = '\0';
	int rc = parse(bytes, n_bytes, n_bytes, &file, &need, err);
	ck_assert_int_ne(rc, -EAGAIN);
	if (rc == 0) {
		uint64_t next = file.data_offset;
		for (uint32_t i = 0; i < file.n_tensors; i++) {
			ck_assert_uint_eq(file.tensors[i].offset, next);
			next += file.tensors[i].bytes;
		}
		ck_assert_uint_eq(next, n_bytes);
		safetensors_fini(&file);
	} else {
		ck_assert_msg(rc == -EINVAL || rc == -ENOTSUP, "code %d: %s", rc, err->text);
		check_message(err);
	}
	return rc;
}

/* Names out of order, an escape in one, a single value, an empty tensor between two others, metadata and padding. */
static const char everything[] =
	"{\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[16,28]},"
	"\"__metadata__\":{\"format\":\"pt\",\"a\":\"\"},"
	"\"a\\u0062\":{\"data_offsets\":[0,16],\"shape\":[4],\"dtype\":\"F32\"},"
	"\"empty\":{\"dtype\":\"F16\",\"shape\":[0,18446744073709551615,3],\"data_offsets\":[16,16]},"
	"\"one\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[28,30]}}   ";

START_TEST(reads_everything)
{
	struct safetensors file;
	struct err err = {""};
	uint64_t need;
	size_t n_bytes;
	unsigned char *bytes = file_of(everything, strlen(everything), 30, &n_bytes);
	ck_assert_msg(parse(bytes, n_bytes, n_bytes, &file, &need, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(file.n_tensors, 4);
	ck_assert_uint_eq(file.data_offset, n_bytes - 30);

	const struct safetensors_tensor *tensor = safetensors_find(&file, "ab");
	ck_assert_ptr_eq(tensor, &file.tensors[0]);
	ck_assert_int_eq(tensor->type, SAFETENSORS_F32);
	ck_assert_uint_eq(tensor->n_dims, 1);
	ck_assert_uint_eq(tensor->dim[0], 4);
	ck_assert_uint_eq(tensor->bytes, 16);
	ck_assert_uint_eq(tensor->offset, file.data_offset);

	tensor = safetensors_find(&file, "b");
	ck_assert_ptr_eq(tensor, &file.tensors[2]);
	ck_assert_int_eq(tensor->type, SAFETENSORS_BF16);
	ck_assert_uint_eq(tensor->n_dims, 2);
	ck_assert_uint_eq(tensor->dim[0], 2);
	ck_assert_uint_eq(tensor->dim[1], 3);
	ck_assert_uint_eq(tensor->dim[2], 1);
	ck_assert_uint_eq(tensor->offset, file.data_offset + 16);

	ck_assert_uint_eq(safetensors_find(&file, "empty")->bytes, 0);
	ck_assert_uint_eq(safetensors_find(&file, "one")->n_dims, 0);
	ck_assert_int_eq(safetensors_find(&file, "one")->type, SAFETENSORS_F16);
	ck_assert_ptr_null(safetensors_find(&file, "a"));
	ck_assert_ptr_null(safetensors_find(&file, "__metadata__"));

	const struct safetensors_string *value = safetensors_metadata(&file, "format");
	ck_assert_ptr_nonnull(value);
	ck_assert_uint_eq(value->n_bytes, 2);
	ck_assert_mem_eq(value->bytes, "pt", 2);
	ck_assert_uint_eq(safetensors_metadata(&file, "a")->n_bytes, 0);
	ck_assert_ptr_null(safetensors_metadata(&file, "b"));
	safetensors_fini(&file);
	free(bytes);
}
END_TEST

START_TEST(a_file_may_have_nothing)
{
	struct safetensors file;
	struct err err = {""};
	uint64_t need;
	size_t n_bytes;
	unsigned char *bytes = file_of("{}", 2, 0, &n_bytes);
	ck_assert_msg(parse(bytes, n_bytes, n_bytes, &file, &need, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(file.n_tensors, 0);
	ck_assert_ptr_null(safetensors_find(&file, ""));
	ck_assert_ptr_null(safetensors_metadata(&file, ""));
	safetensors_fini(&file);
	free(bytes);
}
END_TEST

START_TEST(asks_for_the_header_and_no_more)
{
	struct safetensors file = {.n_tensors = 77};
	struct err err = {""};
	size_t n_bytes;
	unsigned char *bytes = file_of(everything, strlen(everything), 30, &n_bytes);
	for (size_t n = 0; n < n_bytes - 30; n++) {
		uint64_t need = 0;
		ck_assert_int_eq(parse(bytes, n, n_bytes, &file, &need, &err), -EAGAIN);
		ck_assert_uint_eq(need, n < 8 ? 8 : n_bytes - 30);
		ck_assert_uint_eq(file.n_tensors, 77);
	}
	uint64_t need;
	ck_assert_int_eq(parse(bytes, n_bytes - 30, n_bytes, &file, &need, &err), 0);
	safetensors_fini(&file);
	free(bytes);
}
END_TEST

#define TENSOR(name, dtype, shape, offsets) \
	"\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct {
	const char *header;
	size_t data_bytes;
	int code;
	const char *says; /* what the message has to have */
} hostile[] = {
	/* The header. */
	{"", 0, -EINVAL, "begin with '{'"},
	{" {}", 0, -EINVAL, "begin with '{'"},
	{"[]", 0, -EINVAL, "begin with '{'"},
	{"{}\n", 0, -EINVAL, "offset 10: header: does not end"},
	{"{", 0, -EINVAL, "does not end"},
	{"{} {}", 0, -EINVAL, "offset 11: header: "},
	{"{\"a\":1,}", 0, -EINVAL, "header: "},
	{"{\"\xff\":1}", 0, -EINVAL, "header: "},
	{"{\"a\":\"\xed\xa0\x80\"}", 0, -EINVAL, "header: "},
	{"{\"a\":NaN}", 0, -EINVAL, "header: "},
	{"{\"__metadata__\":[]}", 0, -EINVAL, "__metadata__: an object"},
	{"{\"__metadata__\":{\"a\":1}}", 0, -EINVAL, "__metadata__ 'a': a string"},
	{"{\"__metadata__\":{\"a\":\"\",\"b\":\"\",\"a\":\"\"}}", 0, -EINVAL, "__metadata__ 'a': is there twice"},
	{"{\"__metadata__\":{},\"__metadata__\":{}}", 0, -EINVAL, "__metadata__: is there twice"},
	/* Keys. */
	{"{\"a\":1}", 0, -EINVAL, "offset 10: tensor 'a': an object"},
	{"{\"a\":{}}", 0, -EINVAL, "tensor 'a': dtype: a string"},
	{"{\"a\":{\"dtype\":\"F32\"}}", 0, -EINVAL, "tensor 'a': shape: a list"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[0]}}", 0, -EINVAL, "tensor 'a': data_offsets: two"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0],\"x\\u0007\":0}}", 0, -EINVAL,
	 "tensor 'a': 'x?' is no key"},
	{"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, -EINVAL,
	 "the key 'dtype' is there twice"},
	{"{" TENSOR("a", "F32", "[0]", "[0,0]") "," TENSOR("\\u0061", "F16", "[0]", "[0,0]") "}", 0, -EINVAL,
	 "tensor 'a': is there twice"},
	{"{" TENSOR("a\\u0000b", "I8", "[0]", "[0,0]") "}", 0, -ENOTSUP, "tensor 'a?b': dtype: I8 is not"},
	/* Types and shapes. */
	{"{" TENSOR("a", "I64", "[1]", "[0,8]") "}", 8, -ENOTSUP, "tensor 'a': dtype: I64 is not supported"},
	{"{" TENSOR("a", "F8_E4M3", "[1]", "[0,1]") "}", 1, -ENOTSUP, "dtype: F8_E4M3 is not supported"},
	{"{" TENSOR("a", "f32", "[1]", "[0,4]") "}", 4, -ENOTSUP, "dtype: f32 is not supported"},
	{"{" TENSOR("a", "F32\\u0000", "[1]", "[0,4]") "}", 4, -ENOTSUP, "dtype: F32? is not supported"},
	{"{" TENSOR("a", "F32", "1", "[0,4]") "}", 4, -EINVAL, "shape: a list"},
	{"{" TENSOR("a", "F32", "[-1]", "[0,4]") "}", 4, -EINVAL, "shape: a whole number"},
	{"{" TENSOR("a", "F32", "[1.0]", "[0,4]") "}", 4, -EINVAL, "shape: a whole number"},
	{"{" TENSOR("a", "F32", "[\"1\"]", "[0,4]") "}", 4, -EINVAL, "shape: a whole number"},
	{"{" TENSOR("a", "F32", "[18446744073709551616]", "[0,4]") "}", 4, -EINVAL, "shape: a whole number"},
	{"{" TENSOR("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, -ENOTSUP, "9 dimensions"},
	{"{" TENSOR("a", "F32", "[4611686018427387904]", "[0,0]") "}", 0, -EINVAL, "more than 2^64"},
	{"{" TENSOR("a", "F16", "[4294967296,4294967296]", "[0,0]") "}", 0, -EINVAL, "more than 2^64"},
	/* Places. */
	{"{" TENSOR("a", "F32", "[1]", "[0]") "}", 4, -EINVAL, "data_offsets: two"},
	{"{" TENSOR("a", "F32", "[1]", "[0,4,4]") "}", 4, -EINVAL, "data_offsets: two"},
	{"{" TENSOR("a", "F32", "[1]", "{\"0\":0,\"1\":4}") "}", 4, -EINVAL, "data_offsets: two"},
	{"{" TENSOR("a", "F32", "[1]", "[-4,0]") "}", 4, -EINVAL, "data_offsets: two"},
	{"{" TENSOR("a", "F32", "[1]", "[4,0]") "}", 4, -EINVAL, "4 to 0 of 4 bytes"},
	{"{" TENSOR("a", "F32", "[1]", "[0,4]") "}", 3, -EINVAL, "0 to 4 of 3 bytes"},
	{"{" TENSOR("a", "F32", "[1]", "[0,18446744073709551615]") "}", 4, -EINVAL, "of 4 bytes"},
	{"{" TENSOR("a", "F32", "[1]", "[0,3]") "}", 4, -EINVAL, "3 bytes, but type and shape take 4"},
	{"{" TENSOR("a", "F16", "[1]", "[0,4]") "}", 4, -EINVAL, "4 bytes, but type and shape take 2"},
	{"{" TENSOR("a", "F32", "[0]", "[0,4]") "}", 4, -EINVAL, "4 bytes, but type and shape take 0"},
	/* Tiles. */
	{"{}", 1, -EINVAL, "offset 10: data: 1 bytes belong to no tensor"},
	{"{" TENSOR("a", "F32", "[1]", "[0,4]") "}", 5, -EINVAL, "1 bytes belong to no tensor"},
	{"{" TENSOR("a", "F32", "[1]", "[1,5]") "}", 5, -EINVAL, "tensor 'a': data_offsets: begins behind"},
	{"{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("b", "F32", "[1]", "[0,4]") "}", 4, -EINVAL,
	 "begins before"},
	{"{" TENSOR("a", "F32", "[2]", "[0,8]") "," TENSOR("b", "F32", "[1]", "[4,8]") "}", 8, -EINVAL,
	 "tensor 'b': data_offsets: begins before"},
	{"{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("b", "F32", "[1]", "[8,12]") "}", 12, -EINVAL,
	 "tensor 'b': data_offsets: begins behind"},
	{"{" TENSOR("a", "F32", "[2]", "[0,8]") "," TENSOR("b", "F32", "[0]", "[4,4]") "}", 8, -EINVAL,
	 "tensor 'b': data_offsets: begins before"},
};

START_TEST(refuses)
{
	struct err err;
	size_t n_bytes;
	unsigned char *bytes =
		file_of(hostile[_i].header, strlen(hostile[_i].header), hostile[_i].data_bytes, &n_bytes);
	int rc = try_file(bytes, n_bytes, &err);
	ck_assert_msg(rc == hostile[_i].code, "%s: code %d: %s", hostile[_i].header, rc, err.text);
	ck_assert_msg(strstr(err.text, hostile[_i].says), "%s: not '%s': %s", hostile[_i].header, hostile[_i].says,
		      err.text);
	free(bytes);
}
END_TEST

START_TEST(lengths_of_headers_have_a_bound)
{
	struct safetensors file;
	struct err err;
	uint64_t need = 0;
	static const struct {
		uint64_t length, file_bytes;
		int code;
	} cases[] = {
		{100000000, 1000000000, -EAGAIN},
		{100000001, 1000000000, -EINVAL},
		{UINT64_MAX, UINT64_MAX, -EINVAL},
		{UINT64_MAX - 7, 100, -EINVAL},
		{93, 100, -EINVAL},
		{92, 100, -EAGAIN},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int rc = parse(&cases[i].length, 8, cases[i].file_bytes, &file, &need, &err);
		ck_assert_msg(rc == cases[i].code, "%zu: %d", i, rc);
		if (rc == -EAGAIN)
			ck_assert_uint_eq(need, 8 + cases[i].length);
		else
			check_message(&err);
	}
	for (size_t n = 0; n < 8; n++) {
		ck_assert_int_eq(parse("\2\0\0\0\0\0\0", n, n, &file, &need, &err), -EINVAL);
		check_message(&err);
	}
}
END_TEST

/* A level of brackets costs a parser that calls itself some stack. */
START_TEST(depth_costs_no_stack)
{
	enum { DEPTH = 4 << 20 };
	struct err err;
	size_t n_bytes;
	char *header = malloc(DEPTH + 16);
	ck_assert_ptr_nonnull(header);
	memcpy(header, "{\"a\":", 5);
	memset(header + 5, '[', DEPTH);
	header[5 + DEPTH] = '}';
	unsigned char *bytes = file_of(header, 6 + DEPTH, 0, &n_bytes);
	ck_assert_int_eq(try_file(bytes, n_bytes, &err), -EINVAL);
	free(bytes);
	free(header);
}
END_TEST

/* One byte of a good file changed, to every value, at every place. */
START_TEST(survives_every_changed_byte)
{
	struct err err;
	size_t n_bytes;
	unsigned char *bytes = file_of(everything, strlen(everything), 30, &n_bytes);
	for (size_t at = 0; at < n_bytes - 30; at++)
		for (int flip = 1; flip < 256; flip++) {
			bytes[at] ^= (unsigned char)flip;
			try_file(bytes, n_bytes, &err);
			bytes[at] ^= (unsigned char)flip;
		}
	ck_assert_int_eq(try_file(bytes, n_bytes, &err), 0);
	free(bytes);
}
END_TEST

START_TEST(survives_every_cut)
{
	struct err err;
	size_t n_bytes;
	unsigned char *bytes = file_of(everything, strlen(everything), 30, &n_bytes);
	for (size_t n = 0; n < n_bytes; n++)
		ck_assert_int_eq(try_file(bytes, n, &err), -EINVAL);
	free(bytes);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("safetensors");
	TCase *good = tcase_create("good"), *bad = tcase_create("bad");
	tcase_set_timeout(bad, 60);
	tcase_add_test(good, reads_everything);
	tcase_add_test(good, a_file_may_have_nothing);
	tcase_add_test(good, asks_for_the_header_and_no_more);
	suite_add_tcase(suite, good);
	tcase_add_loop_test(bad, refuses, 0, sizeof hostile / sizeof *hostile);
	tcase_add_test(bad, lengths_of_headers_have_a_bound);
	tcase_add_test(bad, depth_costs_no_stack);
	tcase_add_test(bad, survives_every_changed_byte);
	tcase_add_test(bad, survives_every_cut);
	suite_add_tcase(suite, bad);
	return suite_run(suite);
}
