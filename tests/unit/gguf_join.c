/* The headers of a split model made into one, and every way in which files may not belong together. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/gguf_parts.h"
#include "tests/unit/suite.h"

enum { FFN = 96, N_TENSORS = 20 };

static const char *const names[GGUF_PARTS_MAX] = {"p1.gguf", "p2.gguf", "p3.gguf", "p4.gguf",
						  "p5.gguf", "p6.gguf", "p7.gguf", "p8.gguf"};

struct fixture {
	struct gguf_builder whole, parts[GGUF_PARTS_MAX];
	uint32_t n;
};

static void setup(struct fixture *f, uint32_t n)
{
	builder_init(&f->whole, 3);
	builder_llama_keys(&f->whole, FFN);
	builder_llama_tensors(&f->whole, FFN);
	gguf_parts_make(&f->whole, n, f->parts);
	f->n = n;
}

static void teardown(struct fixture *f)
{
	builder_fini(&f->whole);
	for (uint32_t i = 0; i < f->n; i++)
		builder_fini(&f->parts[i]);
}

/* Parses the parts, which are good files each, and joins the first n. */
static int join(const struct fixture *f, uint32_t n, struct gguf *out, struct err *err)
{
	struct gguf gguf[GGUF_PARTS_MAX];
	uint64_t need;
	for (uint32_t i = 0; i < n; i++)
		ck_assert_msg(gguf_parse(f->parts[i].bytes, f->parts[i].n, f->parts[i].n, &gguf[i], &need, err) == 0,
			      "part %u: %s", i + 1, err->text);
	int rc = gguf_join(gguf, names, n, out, err);
	for (uint32_t i = 0; i < n; i++)
		gguf_fini(&gguf[i]);
	return rc;
}

static void refuse(struct fixture *f, uint32_t n, const char *part)
{
	struct gguf out;
	struct err err = {""};
	int rc = join(f, n, &out, &err);
	ck_assert_msg(rc == -EINVAL, "%d: %s", rc, err.text);
	ck_assert_msg(strstr(err.text, part) != NULL, "'%s' isn't in: %s", part, err.text);
	teardown(f);
}

START_TEST(joins_parts)
{
	struct fixture f;
	struct gguf gguf;
	struct err err = {""};
	uint32_t n = (uint32_t)_i, context;
	char place[GGUF_PLACE_BYTES];
	setup(&f, n);
	ck_assert_msg(join(&f, n, &gguf, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(gguf.n_tensors, N_TENSORS);
	ck_assert_int_eq(gguf_get_u32(&gguf, "llama.context_length", &context, &err), 0);
	ck_assert_uint_eq(context, 512);
	for (uint32_t i = 0; i < N_TENSORS; i++) {
		const struct gguf_tensor *tensor = &gguf.tensors[i];
		ck_assert_uint_lt(tensor->part, n);
		ck_assert(i == 0 || tensor->part > tensor[-1].part ||
			  (tensor->part == tensor[-1].part && tensor->offset > tensor[-1].offset));
		ck_assert_uint_le(tensor->offset + tensor->bytes, f.parts[tensor->part].n);
	}
	const struct gguf_tensor *last = gguf_find_tensor(&gguf, "token_embd.weight");
	ck_assert_ptr_nonnull(last);
	ck_assert_uint_eq(last->part, n - 1);
	ck_assert_ptr_eq(strstr(gguf_place(&gguf, last, place), names[n - 1]), n > 1 ? place : NULL);
	ck_assert_ptr_nonnull(strstr(place, "offset "));
	ck_assert_ptr_null(gguf_find_tensor(&gguf, "token_embd.bias"));
	gguf_fini(&gguf);
	teardown(&f);
}
END_TEST

static void put_split(struct gguf_builder *b, uint16_t no, uint16_t count)
{
	builder_scalar(b, "split.no", GGUF_UINT16, &no, sizeof no);
	builder_scalar(b, "split.count", GGUF_UINT16, &count, sizeof count);
	builder_scalar(b, "split.tensors.count", GGUF_INT32, &(int32_t){N_TENSORS}, 4);
}

/* gguf-split can leave the first part to the keys alone. */
START_TEST(joins_a_part_without_tensors)
{
	struct fixture f = {.n = 2};
	struct gguf gguf;
	struct err err = {""};
	builder_init(&f.whole, 3);
	builder_init(&f.parts[0], 3);
	builder_llama_keys(&f.parts[0], FFN);
	put_split(&f.parts[0], 0, 2);
	builder_init(&f.parts[1], 3);
	put_split(&f.parts[1], 1, 2);
	builder_llama_tensors(&f.parts[1], FFN);
	ck_assert_msg(join(&f, 2, &gguf, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(gguf.n_tensors, N_TENSORS);
	ck_assert_uint_eq(gguf.tensors[0].part, 1);
	gguf_fini(&gguf);
	teardown(&f);
}
END_TEST

START_TEST(refuses_wrong_numbers)
{
	struct fixture f;
	setup(&f, 3);
	builder_poke(&f.parts[1], builder_find(&f.parts[1], "split.count"), 4, 2);
	refuse(&f, 3, "p2.gguf: key 'split.count', value: is 4, by its name it is one of 3");
	setup(&f, 3);
	builder_poke(&f.parts[2], builder_find(&f.parts[2], "split.no"), 1, 2);
	refuse(&f, 3, "p3.gguf: key 'split.no', value: is 1, by its name it should be 2");
	setup(&f, 3);
	builder_poke(&f.parts[0], builder_find(&f.parts[0], "split.tensors.count"), N_TENSORS + 1, 4);
	refuse(&f, 3, "p1.gguf: key 'split.tensors.count', value: is 21, but all parts have 20 tensors together");
	setup(&f, 3);
	builder_poke(&f.parts[2], builder_find(&f.parts[2], "split.tensors.count"), UINT32_MAX, 4);
	refuse(&f, 3, "p3.gguf: offset ");
	/* Two of three, as if their names said that there are two. */
	setup(&f, 3);
	refuse(&f, 2, "p1.gguf: key 'split.count', value: is 3, by its name it is one of 2");
	setup(&f, 2);
	builder_poke(&f.parts[1], builder_find(&f.parts[1], "split.no") - 5, 'x', 1);
	refuse(&f, 2, "p2.gguf: key 'split.no': is missing");
}
END_TEST

/* The last of n parts is there with another one's tensors, as many as it should have. */
static void with_content(struct fixture *f, uint32_t n, uint32_t content)
{
	setup(f, n);
	struct gguf_builder *last = &f->parts[n - 1], *other = &f->parts[content];
	builder_poke(other, builder_find(other, "split.no"), n - 1, 2);
	builder_fini(last);
	builder_init(last, 3);
	last->n = 0;
	builder_raw(last, other->bytes, other->n, FIELD_BYTES);
	builder_poke(other, builder_find(other, "split.no"), content, 2);
}

START_TEST(refuses_a_tensor_that_is_twice_there)
{
	struct fixture f;
	with_content(&f, 4, 2);
	refuse(&f, 4, "p4.gguf, offset ");
	with_content(&f, 4, 2);
	refuse(&f, 4, ".weight', name: is in part 3, too");
	with_content(&f, 2, 0);
	refuse(&f, 2, ".weight', name: is in part 1, too");
}
END_TEST

/* A second part that has keys of its own. */
static void with_key(struct fixture *f, const char *key, uint32_t value)
{
	struct gguf_builder part;
	setup(f, 2);
	builder_init(&part, 3);
	builder_u32(&part, key, value);
	builder_raw(&part, f->parts[1].bytes + 24, f->parts[1].n - 24, FIELD_BYTES);
	builder_poke(&part, 8, f->parts[1].n_tensors, 8);
	builder_poke(&part, 16, f->parts[1].n_pairs + 1, 8);
	builder_raw(&part, (char[64]){0}, 64,
		    FIELD_BYTES); /* room for the data's new place; its bytes don't matter here */
	builder_fini(&f->parts[1]);
	f->parts[1] = part;
}

START_TEST(refuses_parts_of_different_models)
{
	struct fixture f;
	struct gguf gguf;
	struct err err = {""};
	with_key(&f, "llama.context_length", 513);
	refuse(&f, 2,
	       "key 'llama.context_length', value: is not that of the first part; it is a part of another model");
	with_key(&f, "llama.rope.scaling.factor", 4);
	refuse(&f, 2, "key 'llama.rope.scaling.factor', value: the first part has no such key");
	with_key(&f, "general.name", 4);
	refuse(&f, 2, "p2.gguf: offset ");
	/* What is the same is no reason, nor is where a file puts its data. */
	with_key(&f, "llama.context_length", 512);
	ck_assert_msg(join(&f, 2, &gguf, &err) == 0, "%s", err.text);
	gguf_fini(&gguf);
	teardown(&f);
	with_key(&f, "general.alignment", 32);
	ck_assert_msg(join(&f, 2, &gguf, &err) == 0, "%s", err.text);
	gguf_fini(&gguf);
	teardown(&f);
}
END_TEST

START_TEST(refuses_a_part_alone)
{
	static const struct {
		uint16_t count;
		int code;
	} cases[] = {{0, 0}, {1, 0}, {2, -EINVAL}, {65535, -EINVAL}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct fixture f;
		struct gguf gguf;
		struct err err = {""};
		setup(&f, 1);
		builder_poke(&f.parts[0], builder_find(&f.parts[0], "split.count"), cases[i].count, 2);
		int rc = join(&f, 1, &gguf, &err);
		ck_assert_msg(rc == cases[i].code, "%u: %d: %s", cases[i].count, rc, err.text);
		if (rc)
			ck_assert_ptr_nonnull(strstr(err.text, "p1.gguf should end in -00001-of-"));
		else
			gguf_fini(&gguf);
		teardown(&f);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("gguf_join");
	TCase *tcase = tcase_create("join");
	tcase_add_loop_test(tcase, joins_parts, 1, GGUF_PARTS_MAX + 1);
	tcase_add_test(tcase, joins_a_part_without_tensors);
	tcase_add_test(tcase, refuses_wrong_numbers);
	tcase_add_test(tcase, refuses_a_tensor_that_is_twice_there);
	tcase_add_test(tcase, refuses_parts_of_different_models);
	tcase_add_test(tcase, refuses_a_part_alone);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
