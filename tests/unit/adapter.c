/* Adapter images as segments may hold them, which a worker believes only as far as it has checked; and who holds an
 * adapter. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/suite.h"
#include "tests/unit/tiny_adapter.h"

static struct tiny_model *tiny;
static char *image;
static uint64_t n_bytes;

static const struct tiny_adapter_spec spec = {9, 1 << ADAPTER_Q | 1 << ADAPTER_OUTPUT | 1 << ADAPTER_DOWN, 3, PACK_F32,
					      0.5f};

static void set_up(void)
{
	tiny = tiny_model_new(PACK_Q8_0, 3);
	image = tiny_adapter_image(tiny, &spec, &n_bytes);
}

static void tear_down(void)
{
	free(image);
	tiny_model_free(tiny);
}

static int check_image(struct err *err)
{
	return adapter_image_check(&tiny->model.config, image, n_bytes, err);
}

static struct adapter_header *header(void)
{
	return (void *)image;
}

static struct adapter_entry *entry(uint32_t i)
{
	return (struct adapter_entry *)(void *)(image + header()->entries_offset) + i;
}

static void refused(const char *words)
{
	struct err err = {""};
	ck_assert_int_lt(check_image(&err), 0);
	ck_assert_msg(strstr(err.text, words), "'%s' is not in: %s", words, err.text);
}

/* Nothing but the digest and the scales is free: whatever else changes is noticed. */
START_TEST(every_byte_of_the_tables_matters)
{
	uint64_t tables = header()->entries_offset + header()->n_entries * sizeof(struct adapter_entry);
	struct err err = {""};
	ck_assert_int_eq(check_image(&err), 0);
	for (uint64_t at = 0; at < tables; at++) {
		size_t in_entry = (at - header()->entries_offset) % sizeof(struct adapter_entry);
		bool in_digest = at >= offsetof(struct adapter_header, digest) &&
				 at < offsetof(struct adapter_header, digest) + sizeof(struct adapter_digest);
		bool in_scale = at >= sizeof(struct adapter_header) &&
				in_entry >= offsetof(struct adapter_entry, scale) &&
				in_entry < offsetof(struct adapter_entry, scale) + sizeof(float);
		for (unsigned bit = 0; bit < 8; bit++) {
			image[at] = (char)(image[at] ^ 1 << bit);
			int rc = check_image(&err);
			image[at] = (char)(image[at] ^ 1 << bit);
			if (in_digest || in_scale)
				continue;
			ck_assert_msg(rc < 0, "byte %u, bit %u: not noticed", (unsigned)at, bit);
		}
	}
}
END_TEST

START_TEST(an_image_of_any_length_is_read_no_further)
{
	struct err err = {""};
	for (uint64_t n = 0; n < 1024; n++) { /* in memory that ends there */
		char *shorter = aligned_alloc(64, (n + 63) / 64 * 64 + 64);
		memcpy(shorter, image, n);
		ck_assert_int_lt(adapter_image_check(&tiny->model.config, shorter, n, &err), 0);
		free(shorter);
	}
	ck_assert_int_lt(adapter_image_check(&tiny->model.config, image, n_bytes - 1, &err), 0);
	ck_assert_int_lt(adapter_image_check(&tiny->model.config, image + 32, n_bytes - 32, &err), 0);
	ck_assert_int_eq(check_image(&err), 0);
}
END_TEST

START_TEST(an_image_for_another_base_is_refused)
{
	tiny->model.config.rope_pairing = IMAGE_ROPE_HALVES;
	refused("base of another shape");
	tiny->model.config.rope_pairing = IMAGE_ROPE_PAIRS;
	tiny->model.config.n_layers = 2;
	refused("base of another shape");
}
END_TEST

START_TEST(entries_that_have_no_place_are_refused)
{
	struct adapter_entry before = *entry(0);
	entry(0)->scale = INFINITY;
	refused("entry 0: the scale");
	*entry(0) = before;
	entry(0)->rank = ADAPTER_RANK_MAX + 1;
	refused("entry 0: rank 513");
	*entry(0) = before;
	entry(0)->role = IMAGE_TOKEN_EMBD;
	refused("entry 0: role 1 in layer 0 has no place");
	*entry(0) = before;
	entry(0)->role = IMAGE_ATTN_NORM;
	refused("has no place");
	*entry(0) = before;
	entry(0)->a_kind = PACK_Q4_0;
	refused("values of kinds");
	*entry(0) = before;
	*entry(1) = *entry(0);
	refused("entry 1 is out of order");
}
END_TEST

START_TEST(contents_have_one_digest)
{
	struct tiny_adapter_spec other = spec;
	uint64_t n;
	char *again = tiny_adapter_image(tiny, &spec, &n);
	ck_assert_int_eq(memcmp(&header()->digest, &((struct adapter_header *)(void *)again)->digest, 16), 0);
	free(again);
	other.scale = 0.25f;
	again = tiny_adapter_image(tiny, &other, &n);
	ck_assert_int_ne(memcmp(&header()->digest, &((struct adapter_header *)(void *)again)->digest, 16), 0);
	free(again);
	struct adapter_digest before = header()->digest;
	image[n_bytes - 65] ^= 1; /* the last value of the last entry, or what pads it */
	adapter_image_seal(image);
	ck_assert_int_ne(memcmp(&header()->digest, &before, sizeof before), 0);
}
END_TEST

static void count(void *arg)
{
	++*(int *)arg;
}

START_TEST(the_last_one_to_hold_an_adapter_releases_it)
{
	int n_released = 0;
	struct err err = {""};
	struct adapter *adapter = NULL;
	image[8] ^= 1; /* the version */
	ck_assert_int_lt(adapter_attach(&tiny->model, image, n_bytes, count, &n_released, &adapter, &err), 0);
	ck_assert_int_eq(n_released, 0);
	image[8] ^= 1;
	ck_assert_int_eq(adapter_attach(&tiny->model, image, n_bytes, count, &n_released, &adapter, &err), 0);
	ck_assert_ptr_eq(adapter_get(adapter), adapter);
	adapter_put(adapter);
	ck_assert_int_eq(n_released, 0);
	ck_assert_uint_eq(adapter->layers[2].products[ADAPTER_OUTPUT].rank, 3 + ADAPTER_OUTPUT);
	ck_assert_uint_eq(adapter->layers[2].products[ADAPTER_K].rank, 0);
	adapter_put(adapter);
	ck_assert_int_eq(n_released, 1);
	ck_assert_ptr_null(adapter_get(NULL));
	adapter_put(NULL);
}
END_TEST

/* An infinity times 0 is no number, and 0 added to a -0 another one. */
START_TEST(an_entry_of_scale_0_is_none)
{
	struct adapter *adapter = NULL;
	struct err err = {""};
	entry(0)->scale = -0.0f;
	ck_assert_int_eq(adapter_attach(&tiny->model, image, n_bytes, NULL, NULL, &adapter, &err), 0);
	ck_assert_uint_eq(adapter->layers[0].products[ADAPTER_Q].rank, 0);
	ck_assert_uint_eq(adapter->layers[1].products[ADAPTER_Q].rank, 3);
	adapter_put(adapter);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("adapter");
	TCase *tc = tcase_create("all");
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, every_byte_of_the_tables_matters);
	tcase_add_test(tc, an_image_of_any_length_is_read_no_further);
	tcase_add_test(tc, an_image_for_another_base_is_refused);
	tcase_add_test(tc, entries_that_have_no_place_are_refused);
	tcase_add_test(tc, contents_have_one_digest);
	tcase_add_test(tc, an_entry_of_scale_0_is_none);
	tcase_add_test(tc, the_last_one_to_hold_an_adapter_releases_it);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
