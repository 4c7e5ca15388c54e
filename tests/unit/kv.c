/* KV pages: taken one by one, counted once however many hold them, and back in the arena when the last lets go. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "src/engine/kv.h"
#include "tests/unit/suite.h"

enum { PAGE_BYTES = 3 * 2 * 16 * KV_PAGE_TOKENS * 2 * 2 };

static struct arena arena;
static struct kv kv;
static struct kv_sequence one, two;

static void set_up(void)
{
	const struct image_config config = {.n_layers = 3, .n_kv_heads = 2, .head_dim = 16};
	ck_assert_int_eq(arena_init(&arena, 1 << 26, NULL), 0);
	kv_init(&kv, &config, KV_BF16, &arena, 10);
	one = two = (struct kv_sequence){0};
}

static void tear_down(void)
{
	kv_release(&kv, &one);
	kv_release(&kv, &two);
	ck_assert_uint_eq(kv.n_used, 0);
	ck_assert_uint_eq(kv.n_idle, 0);
	ck_assert_uint_eq(arena.bytes, 0);
	arena_fini(&arena);
}

START_TEST(pages_are_taken_as_they_are_needed)
{
	ck_assert_uint_eq(kv.page_bytes, PAGE_BYTES);
	ck_assert_int_eq(kv_extend(&kv, &one, 1), 0);
	ck_assert_int_eq(kv_extend(&kv, &one, KV_PAGE_TOKENS), 0);
	ck_assert_uint_eq(kv.n_used, 1);
	ck_assert_int_eq(kv_extend(&kv, &one, KV_PAGE_TOKENS + 1), 0);
	ck_assert_uint_eq(kv.n_used, 2);
	ck_assert_uint_eq(arena.bytes, 2 * PAGE_BYTES);
	/* Heads and layers of a page do not overlap and fill it. */
	char *last = kv_values(&kv, one.pages[0], 2, 1);
	ck_assert_ptr_eq(last + 16 * KV_PAGE_TOKENS * sizeof(uint16_t), (char *)one.pages[0]->data + PAGE_BYTES);
	kv_release(&kv, &one);
	kv_release(&kv, &one);
}
END_TEST

START_TEST(an_empty_pool_gives_what_it_has_and_says_so)
{
	ck_assert_int_eq(kv_extend(&kv, &one, 7 * KV_PAGE_TOKENS), 0);
	ck_assert_int_eq(kv_extend(&kv, &two, 3 * KV_PAGE_TOKENS + 1), -EAGAIN);
	ck_assert_uint_eq(two.n_pages, 3);
	ck_assert_uint_eq(kv_available(&kv), 0);
	kv_release(&kv, &one);
	ck_assert_uint_eq(kv_available(&kv), 7);
	ck_assert_int_eq(kv_extend(&kv, &two, 10 * KV_PAGE_TOKENS), 0);
}
END_TEST

START_TEST(pages_know_the_class_of_their_positions)
{
	ck_assert_int_eq(kv_extend(&kv, &one, 3 * KV_PAGE_TOKENS), 0);
	kv_advance(&one, KV_PAGE_TOKENS + 5, PHASE_PREFILL);
	kv_advance(&one, 30, PHASE_DECODE);
	ck_assert_uint_eq(one.n_tokens, KV_PAGE_TOKENS + 35);
	ck_assert_uint_eq(one.pages[0]->n_prefill, KV_PAGE_TOKENS);
	ck_assert_uint_eq(one.pages[1]->n_prefill, 5);
	ck_assert_uint_eq(one.pages[1]->n_decode, 27);
	ck_assert_uint_eq(one.pages[2]->n_decode, 3);
	ck_assert(kv_may_read(one.pages[0], PHASE_PREFILL));
	ck_assert(!kv_may_read(one.pages[1], PHASE_PREFILL));
	ck_assert(kv_may_read(one.pages[1], PHASE_DECODE));
	ck_assert(kv_may_store(one.pages[2], 3, PHASE_DECODE));
	ck_assert(!kv_may_store(one.pages[2], 2, PHASE_DECODE));  /* stored already */
	ck_assert(!kv_may_store(one.pages[2], 3, PHASE_PREFILL)); /* after an answer's token */
	ck_assert(!kv_may_store(one.pages[0], 31, PHASE_PREFILL));
}
END_TEST

START_TEST(shared_pages_count_once_and_outlive_their_maker)
{
	ck_assert_int_eq(kv_extend(&kv, &one, 2 * KV_PAGE_TOKENS + 1), 0);
	kv_advance(&one, 2 * KV_PAGE_TOKENS + 1, PHASE_PREFILL);
	struct kv_page *first = one.pages[0], *second = one.pages[1];
	kv_cache(first);
	kv_cache(second);
	ck_assert_int_eq(kv_adopt(&kv, &two, first), 0);
	ck_assert_int_eq(kv_adopt(&kv, &two, second), 0);
	ck_assert_uint_eq(two.n_tokens, 2 * KV_PAGE_TOKENS);
	ck_assert_uint_eq(kv.n_used, 3);
	ck_assert(!kv_may_store(first, 31, PHASE_DECODE));
	kv_release(&kv, &one);
	ck_assert_uint_eq(kv.n_used, 2);
	ck_assert_uint_eq(kv.n_idle, 0);
	kv_release(&kv, &two);
	ck_assert_uint_eq(kv.n_used, 2);
	ck_assert_uint_eq(kv.n_idle, 2);
	ck_assert_uint_eq(kv_available(&kv), 10);
	ck_assert_int_eq(kv_adopt(&kv, &one, first), 0);
	ck_assert_uint_eq(kv.n_idle, 1);
	kv_uncache(&kv, first);
	ck_assert_uint_eq(kv.n_used, 2); /* the sequence's still */
	kv_uncache(&kv, second);
	ck_assert_uint_eq(kv.n_used, 1);
}
END_TEST

START_TEST(a_page_can_stand_for_another)
{
	ck_assert_int_eq(kv_extend(&kv, &one, KV_PAGE_TOKENS), 0);
	ck_assert_int_eq(kv_extend(&kv, &two, KV_PAGE_TOKENS), 0);
	kv_advance(&one, KV_PAGE_TOKENS, PHASE_PREFILL);
	kv_advance(&two, KV_PAGE_TOKENS, PHASE_PREFILL);
	kv_replace(&kv, &two, 0, one.pages[0]);
	ck_assert_ptr_eq(two.pages[0], one.pages[0]);
	ck_assert_uint_eq(kv.n_used, 1);
	kv_replace(&kv, &two, 0, one.pages[0]);
	ck_assert_uint_eq(one.pages[0]->n_owners, 2);
}
END_TEST

/* Of int8, heads and layers fill a page, too, up to the arena's next whole page, and it is half as large. */
START_TEST(pages_of_int8_are_half_as_large)
{
	const struct image_config config = {.n_layers = 3, .n_kv_heads = 3, .head_dim = 64};
	const size_t bytes = 3 * 3 * 2 * (64 * KV_PAGE_TOKENS + KV_PAGE_TOKENS * 2);
	struct kv narrow;
	kv_init(&narrow, &config, KV_INT8, &arena, 10);
	ck_assert_int_eq(kv_extend(&narrow, &one, 1), 0);
	char *last = kv_values(&narrow, one.pages[0], 2, 2);
	ck_assert_uint_eq((size_t)(last - (char *)one.pages[0]->data) + 64 * KV_PAGE_TOKENS + 64, bytes);
	ck_assert_uint_ge(narrow.page_bytes, bytes);
	ck_assert_uint_lt(narrow.page_bytes, bytes + 4096);
	ck_assert_uint_eq(arena.bytes, narrow.page_bytes);
	ck_assert_uint_lt(narrow.page_bytes, kv_page_bytes(&config, KV_BF16) * 56 / 100);
	kv_release(&narrow, &one);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("kv");
	TCase *tc = tcase_create("kv");
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, pages_are_taken_as_they_are_needed);
	tcase_add_test(tc, an_empty_pool_gives_what_it_has_and_says_so);
	tcase_add_test(tc, pages_know_the_class_of_their_positions);
	tcase_add_test(tc, shared_pages_count_once_and_outlive_their_maker);
	tcase_add_test(tc, a_page_can_stand_for_another);
	tcase_add_test(tc, pages_of_int8_are_half_as_large);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
