/* The prefix cache's tree over sequences that were never computed: only tokens and owners matter here. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/prefix.h"
#include "tests/unit/suite.h"

enum { POOL = 40, PAGE = KV_PAGE_TOKENS };

static struct arena arena;
static struct kv kv;
static struct prefix *prefix;
static const struct adapter_digest base; /* no adapter */

static void set_up(void)
{
	const struct image_config config = {.n_layers = 1, .n_kv_heads = 2, .head_dim = 16};
	ck_assert_int_eq(arena_init(&arena, 1 << 26, NULL), 0);
	kv_init(&kv, &config, KV_BF16, &arena, POOL);
	ck_assert_int_eq(prefix_new(&kv, 8 * kv.page_bytes + kv.page_bytes / 2, &prefix), 0);
}

static void tear_down(void)
{
	prefix_free(prefix);
	ck_assert_uint_eq(kv.n_used, 0);
	ck_assert_uint_eq(kv.n_idle, 0);
	ck_assert_uint_eq(arena.bytes, 0);
	arena_fini(&arena);
}

/* A prompt whose page p consists of the letter name[p]; as many tokens as `n`. */
static const uint32_t *prompt_of(const char *name, uint32_t n)
{
	static uint32_t tokens[16 * PAGE];
	for (uint32_t i = 0; i < n; i++)
		tokens[i] = i / PAGE < strlen(name) ? (uint32_t)name[i / PAGE] : '.';
	return tokens;
}

static uint32_t matched(const char *name)
{
	uint32_t n_idle;
	return prefix_match(prefix, base, prompt_of(name, (uint32_t)strlen(name) * PAGE), (uint32_t)strlen(name) * PAGE,
			    &n_idle);
}

/* A sequence that computed this prompt and five tokens more; taken into the cache. */
static struct kv_sequence computed(const char *name)
{
	struct kv_sequence sequence = {0};
	uint32_t n = (uint32_t)strlen(name) * PAGE + 5;
	ck_assert_int_eq(kv_extend(&kv, &sequence, n), 0);
	kv_advance(&sequence, n, PHASE_PREFILL);
	prefix_insert(prefix, base, &sequence, prompt_of(name, n), n);
	return sequence;
}

static void compute(const char *name)
{
	struct kv_sequence sequence = computed(name);
	kv_release(&kv, &sequence);
}

START_TEST(pages_are_found_by_all_tokens_before_their_end)
{
	compute("abc");
	ck_assert_uint_eq(matched("abc"), 3);
	ck_assert_uint_eq(matched("abcd"), 3);
	ck_assert_uint_eq(matched("abx"), 2);
	ck_assert_uint_eq(matched("bc"), 0); /* not as the beginning of a prompt */
	ck_assert_uint_eq(matched("xbc"), 0);
	uint32_t n_idle;
	ck_assert_uint_eq(prefix_match(prefix, base, prompt_of("abc", 3 * PAGE), 3 * PAGE - 1, &n_idle), 2);
	ck_assert_uint_eq(n_idle, 2);
	const uint32_t *almost = prompt_of("abc", 3 * PAGE);
	uint32_t tokens[3 * PAGE];
	memcpy(tokens, almost, sizeof tokens);
	tokens[2 * PAGE - 1]++;
	ck_assert_uint_eq(prefix_match(prefix, base, tokens, 3 * PAGE, &n_idle), 1);
	ck_assert_uint_eq(prefix_bytes(prefix), 3 * kv.page_bytes);
	ck_assert_uint_eq(kv.n_used, 3);
}
END_TEST

START_TEST(a_taken_path_is_shared_and_not_idle)
{
	struct kv_sequence sequence = {0};
	compute("abc");
	ck_assert_uint_eq(prefix_take(prefix, base, &sequence, prompt_of("abz", 3 * PAGE), 3 * PAGE), 2);
	ck_assert_uint_eq(sequence.n_tokens, 2 * PAGE);
	ck_assert_uint_eq(kv.n_idle, 1);
	ck_assert(prefix_give_up(prefix));
	ck_assert(!prefix_give_up(prefix)); /* the others are in use */
	ck_assert_uint_eq(matched("abc"), 2);
	kv_release(&kv, &sequence);
	ck_assert_uint_eq(kv.n_idle, 2);
}
END_TEST

START_TEST(the_same_prompt_computed_twice_is_kept_once)
{
	struct kv_sequence one = computed("ab"), two = computed("abc");
	ck_assert_ptr_eq(one.pages[0], two.pages[0]);
	ck_assert_ptr_eq(one.pages[1], two.pages[1]);
	ck_assert_uint_eq(kv.n_used, 3 + 2); /* and the last page of each */
	kv_release(&kv, &one);
	ck_assert_uint_eq(kv.n_idle, 0);
	kv_release(&kv, &two);
	ck_assert_uint_eq(kv.n_idle, 3);
}
END_TEST

START_TEST(the_least_recently_used_leaf_goes_first)
{
	compute("abc");
	compute("abd");
	compute("xyz"); /* 7 of 8 pages */
	ck_assert_uint_eq(matched("abc"), 3);
	struct kv_sequence reader = {0};
	ck_assert_uint_eq(prefix_take(prefix, base, &reader, prompt_of("abc", 3 * PAGE), 3 * PAGE), 3);
	kv_release(&kv, &reader);
	compute("pq"); /* one page must go: d was used longest ago */
	ck_assert_uint_eq(matched("abd"), 2);
	ck_assert_uint_eq(matched("abc"), 3);
	ck_assert_uint_eq(matched("xyz"), 3);
	compute("r");
	ck_assert_uint_eq(matched("xyz"), 2); /* z before y before x */
	ck_assert(prefix_give_up(prefix) && prefix_give_up(prefix));
	ck_assert_uint_eq(matched("xyz"), 0);
	ck_assert_uint_eq(matched("abc"), 3);
	ck_assert(prefix_bytes(prefix) <= 8 * kv.page_bytes);
}
END_TEST

START_TEST(a_prompt_longer_than_the_cache_leaves_its_beginning)
{
	compute("xy");
	compute("abcdefghij");
	ck_assert_uint_eq(matched("abcdefghij"), 8);
	ck_assert_uint_eq(matched("xy"), 0);
	ck_assert_uint_eq(prefix_bytes(prefix), 8 * kv.page_bytes);
}
END_TEST

/* Random prompts over few letters, random holders: a model of the cache would be the cache again, so what is checked is
 * what must always hold. */
START_TEST(random_use_keeps_the_books)
{
	struct kv_sequence held[4] = {{0}};
	srand(3);
	for (int round = 0; round < 20000; round++) {
		char name[8] = "";
		for (int i = 0, n = 1 + rand() % 6; i < n; i++)
			name[i] = (char)('a' + rand() % 3);
		uint32_t n = (uint32_t)strlen(name) * PAGE, who = (uint32_t)rand() % 4, n_idle;
		kv_release(&kv, &held[who]);
		uint32_t expected = prefix_match(prefix, base, prompt_of(name, n), n, &n_idle), idle = kv.n_idle;
		ck_assert_uint_eq(prefix_take(prefix, base, &held[who], prompt_of(name, n), n), expected);
		ck_assert_uint_eq(kv.n_idle, idle - n_idle);
		if (rand() % 2) {
			ck_assert_int_eq(kv_extend(&kv, &held[who], n + 1), 0);
			kv_advance(&held[who], n + 1 - held[who].n_tokens, PHASE_PREFILL);
			prefix_insert(prefix, base, &held[who], prompt_of(name, n), n + 1);
		}
		idle = kv.n_idle;
		if (rand() % 8 == 0)
			ck_assert_int_eq(prefix_give_up(prefix), idle > 0);
		ck_assert_uint_le(prefix_bytes(prefix), 8 * kv.page_bytes);
		ck_assert_uint_eq(arena.bytes, kv.n_used * kv.page_bytes);
	}
	for (int i = 0; i < 4; i++)
		kv_release(&kv, &held[i]);
	ck_assert_uint_eq(kv.n_idle, kv.n_used);
	ck_assert_uint_eq(kv.n_used * kv.page_bytes, prefix_bytes(prefix));
	while (prefix_give_up(prefix))
		;
	ck_assert_uint_eq(kv.n_used, 0);
}
END_TEST

/* The hash of a page before its last token, by the definition in prefix.c. */
static uint64_t state_before_last(const uint32_t page[PAGE])
{
	uint64_t state = 0;
	for (uint32_t i = 0; i < PAGE - 1; i++) {
		state = (state ^ page[i]) * UINT64_C(0x9e3779b97f4a7c15);
		state ^= state >> 29;
	}
	return state;
}

struct half {
	uint32_t token, upper;
};

static int by_upper(const void *a, const void *b)
{
	const struct half *x = a, *y = b;
	return x->upper < y->upper ? -1 : x->upper > y->upper;
}

/* Makes two pages of one hash. A token enters the hash by 32 bits, so of 2^18 pages that differ in the last token but
 * two some agree in the upper half of the state before the last, which then makes up for the lower half. (Not in the
 * last but one: multiples of the golden ratio keep apart.) */
static void collide(uint32_t one[PAGE], uint32_t two[PAGE])
{
	enum { N = 1 << 18 };
	struct half *halves = malloc(N * sizeof *halves);
	uint32_t i = 1;
	for (uint32_t token = 0; token < N; token++) {
		one[PAGE - 3] = token;
		halves[token] = (struct half){token, (uint32_t)(state_before_last(one) >> 32)};
	}
	qsort(halves, N, sizeof *halves, by_upper);
	while (i < N - 1 && halves[i].upper != halves[i - 1].upper)
		i++;
	one[PAGE - 3] = halves[i - 1].token;
	two[PAGE - 3] = halves[i].token;
	one[PAGE - 1] = 0;
	two[PAGE - 1] = (uint32_t)(state_before_last(one) ^ state_before_last(two));
	free(halves);
}

START_TEST(a_hash_alone_is_no_identity)
{
	uint32_t one[2 * PAGE] = {0}, two[2 * PAGE] = {0}, n_idle; /* the second pages are alike */
	struct kv_sequence sequence = {0};
	collide(one, two);
	ck_assert_uint_ne(one[PAGE - 3], two[PAGE - 3]);
	ck_assert_uint_eq(prefix_hash(0, one), prefix_hash(0, two)); /* else collide() is out of date */
	ck_assert_int_eq(kv_extend(&kv, &sequence, 2 * PAGE), 0);
	kv_advance(&sequence, 2 * PAGE, PHASE_PREFILL);
	prefix_insert(prefix, base, &sequence, one, 2 * PAGE);
	kv_release(&kv, &sequence);
	ck_assert_uint_eq(prefix_match(prefix, base, one, 2 * PAGE, &n_idle), 2);
	ck_assert_uint_eq(prefix_match(prefix, base, two, 2 * PAGE, &n_idle), 0);
	/* Nor is it with the same tokens after another beginning. */
	ck_assert_int_eq(kv_extend(&kv, &sequence, PAGE), 0);
	kv_advance(&sequence, PAGE, PHASE_PREFILL);
	prefix_insert(prefix, base, &sequence, two, PAGE);
	kv_release(&kv, &sequence);
	ck_assert_uint_eq(prefix_match(prefix, base, two, 2 * PAGE, &n_idle), 1);
}
END_TEST

START_TEST(no_cache_is_an_empty_cache)
{
	struct prefix *none;
	struct kv_sequence sequence = {0};
	uint32_t n_idle;
	ck_assert_int_eq(prefix_new(&kv, kv.page_bytes - 1, &none), 0);
	ck_assert_ptr_null(none);
	ck_assert_uint_eq(prefix_match(none, base, prompt_of("a", PAGE), PAGE, &n_idle), 0);
	ck_assert_uint_eq(prefix_take(none, base, &sequence, prompt_of("a", PAGE), PAGE), 0);
	ck_assert(!prefix_give_up(none));
	ck_assert_uint_eq(prefix_bytes(none), 0);
	prefix_free(none);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("prefix");
	TCase *tc = tcase_create("prefix");
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, pages_are_found_by_all_tokens_before_their_end);
	tcase_add_test(tc, a_taken_path_is_shared_and_not_idle);
	tcase_add_test(tc, the_same_prompt_computed_twice_is_kept_once);
	tcase_add_test(tc, the_least_recently_used_leaf_goes_first);
	tcase_add_test(tc, a_prompt_longer_than_the_cache_leaves_its_beginning);
	tcase_add_test(tc, random_use_keeps_the_books);
	tcase_add_test(tc, a_hash_alone_is_no_identity);
	tcase_add_test(tc, no_cache_is_an_empty_cache);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
