#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/sampler.h"
#include "tests/unit/suite.h"

enum { N = 512 };
static float logits[N];
static struct sampler_candidate scratch[N];

static struct sampler_params plain(void)
{
	return (struct sampler_params){.seed = 1, .temperature = 1, .top_p = 1, .repeat_penalty = 1};
}

static uint32_t pick(const struct sampler_params *params, uint32_t index)
{
	struct sampler s;
	sampler_init(&s, params);
	uint32_t id = sampler_pick(&s, logits, N, index, NULL, scratch);
	sampler_fini(&s);
	return id;
}

static void fill(unsigned seed)
{
	srand(seed);
	for (int i = 0; i < N; i++)
		logits[i] = (float)(rand() % 4000) / 250 - 8;
}

START_TEST(greedy_takes_the_largest_and_ties_go_to_the_lower_id)
{
	struct sampler_params p = plain();
	p.temperature = 0;
	fill(1);
	logits[400] = logits[77] = 50;
	ck_assert_uint_eq(pick(&p, 0), 77);
}
END_TEST

/* A bias of nothing takes the way of all other choices. */
START_TEST(greedy_is_the_same_with_and_without_candidates)
{
	enum { MOST = 2100 };
	static float many[MOST];
	static struct sampler_candidate candidates[MOST];
	static const float odd[] = {NAN, INFINITY, -INFINITY, 0, -0.0f, 1e30f};
	const struct sampler_bias nothing = {0, 0};
	struct sampler_params p = plain();
	p.temperature = 0;
	srand(9);
	for (int round = 0; round < 3000; round++) {
		struct sampler with, without;
		uint32_t n = 1 + (uint32_t)rand() % MOST;
		int span = 1 + rand() % 40; /* few values: ties */
		for (uint32_t i = 0; i < n; i++)
			many[i] = rand() % 50 < round % 3 ? odd[rand() % (round % 2 ? 6 : 3)] : (float)(rand() % span);
		sampler_init(&with, &p);
		sampler_init(&without, &p);
		with.biases = &nothing;
		with.n_biases = 1;
		ck_assert_uint_eq(sampler_pick(&without, many, n, 0, NULL, candidates),
				  sampler_pick(&with, many, n, 0, NULL, candidates));
	}
}
END_TEST

START_TEST(a_draw_depends_on_seed_and_index_alone)
{
	struct sampler_params p = plain();
	unsigned differ_index = 0, differ_seed = 0;
	fill(2);
	for (uint32_t i = 0; i < 50; i++) {
		uint32_t first = pick(&p, i);
		ck_assert_uint_eq(first, pick(&p, i));
		differ_index += first != pick(&p, i + 1);
		p.seed++;
		differ_seed += first != pick(&p, i);
		p.seed--;
	}
	ck_assert_uint_gt(differ_index, 10);
	ck_assert_uint_gt(differ_seed, 10);
}
END_TEST

START_TEST(draws_follow_the_distribution)
{
	/* Three tokens with probabilities 0.5, 0.3, 0.2; 20,000 draws; 5 standard deviations are about 0.018. */
	struct sampler_params p = plain();
	unsigned seen[N] = {0};
	for (int i = 0; i < N; i++)
		logits[i] = -1000;
	logits[3] = logf(0.5f);
	logits[9] = logf(0.3f);
	logits[200] = logf(0.2f);
	for (uint32_t i = 0; i < 20000; i++)
		seen[pick(&p, i)]++;
	ck_assert_uint_eq(seen[3] + seen[9] + seen[200], 20000);
	ck_assert_double_lt(fabs(seen[3] / 20000.0 - 0.5), 0.018);
	ck_assert_double_lt(fabs(seen[9] / 20000.0 - 0.3), 0.018);
	ck_assert_double_lt(fabs(seen[200] / 20000.0 - 0.2), 0.018);
}
END_TEST

/* The set that top_k, top_p and min_p leave, by definition: sort everything. */
static int by_logit(const void *a, const void *b)
{
	const struct sampler_candidate *x = a, *y = b;
	return x->value != y->value ? (x->value < y->value ? 1 : -1) : (x->id > y->id) - (x->id < y->id);
}

static unsigned allowed(const struct sampler_params *p, char set[N])
{
	struct sampler_candidate all[N];
	double total = 0, sum = 0;
	unsigned n = N, kept = 0;
	for (unsigned i = 0; i < N; i++)
		all[i] = (struct sampler_candidate){i, logits[i] / p->temperature};
	qsort(all, N, sizeof *all, by_logit);
	if (p->top_k && p->top_k < n)
		n = p->top_k;
	for (unsigned i = 0; i < n; i++)
		total += exp((double)all[i].value - all[0].value);
	memset(set, 0, N);
	for (unsigned i = 0; i < n && (i == 0 || sum < p->top_p * total); i++) {
		sum += exp((double)all[i].value - all[0].value);
		if (p->min_p == 0 || all[i].value >= all[0].value + logf(p->min_p)) {
			set[all[i].id] = 1;
			kept++;
		}
	}
	return kept;
}

START_TEST(truncation_keeps_exactly_the_defined_set)
{
	static const struct sampler_params cases[] = {
		{.temperature = 1, .top_p = 1, .top_k = 1, .repeat_penalty = 1},
		{.temperature = 1, .top_p = 1, .top_k = 40, .repeat_penalty = 1},
		{.temperature = 1, .top_p = 0.9f, .repeat_penalty = 1},
		{.temperature = 3, .top_p = 0.999f, .repeat_penalty = 1},
		{.temperature = 0.5f, .top_p = 0.5f, .top_k = 100, .repeat_penalty = 1},
		{.temperature = 1, .top_p = 1, .min_p = 0.05f, .repeat_penalty = 1},
		{.temperature = 2, .top_p = 0.95f, .min_p = 0.1f, .top_k = 300, .repeat_penalty = 1},
	};
	struct sampler_params p = cases[_i];
	char set[N], hit[N] = {0};
	fill(3 + (unsigned)_i);
	unsigned kept = allowed(&p, set), reached = 0;
	ck_assert_uint_ge(kept, 1);
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t id = pick(&p, i);
		ck_assert_msg(set[id], "case %d drew token %u, which is cut off", _i, id);
		hit[id] = 1;
	}
	for (int i = 0; i < N; i++)
		reached += hit[i];
	ck_assert_uint_ge(reached, kept < 3 ? kept : kept / 3); /* it does not simply take the first one */
}
END_TEST

START_TEST(penalties_count_prompt_and_answer_as_documented)
{
	struct sampler_params p = plain();
	struct sampler s;
	p.temperature = 0;
	p.repeat_penalty = 2;
	p.presence_penalty = 1;
	p.frequency_penalty = 0.5f;
	for (int i = 0; i < N; i++)
		logits[i] = 0;
	logits[5] = 8;	   /* twice in the answer: 8 / 2 - 1 - 2 * 0.5 = 2 */
	logits[6] = 5;	   /* in the prompt: 5 / 2 = 2.5 */
	logits[7] = 2.25f; /* never seen */
	logits[8] = -1;	   /* in the prompt: -1 * 2 */
	sampler_init(&s, &p);
	ck_assert_int_eq(sampler_see(&s, 5, 1), 0);
	ck_assert_int_eq(sampler_see(&s, 5, 1), 0);
	ck_assert_int_eq(sampler_see(&s, 6, 0), 0);
	ck_assert_int_eq(sampler_see(&s, 8, 0), 0);
	ck_assert_uint_eq(sampler_pick(&s, logits, N, 0, NULL, scratch), 6);
	ck_assert_float_eq(scratch[5].value, 2);
	ck_assert_float_eq(scratch[6].value, 2.5f);
	ck_assert_float_eq(scratch[7].value, 2.25f);
	ck_assert_float_eq(scratch[8].value, -2);
	for (uint32_t id = 0; id < N; id++) /* growth keeps the counts */
		ck_assert_int_eq(sampler_see(&s, id, 0), 0);
	sampler_pick(&s, logits, N, 0, NULL, scratch);
	ck_assert_float_eq(scratch[5].value, 2);
	sampler_fini(&s);
}
END_TEST

START_TEST(broken_logits_give_some_token)
{
	struct sampler_params p = plain();
	for (int mode = 0; mode < 3; mode++)
		for (int t = 0; t < 2; t++) {
			for (int i = 0; i < N; i++)
				logits[i] = mode == 0 ? NAN : mode == 1 ? INFINITY : -INFINITY;
			p.temperature = (float)t;
			p.top_p = 0.9f;
			p.top_k = 10;
			p.min_p = 0.1f;
			ck_assert_uint_lt(pick(&p, 0), N);
		}
	logits[10] = 1; /* among -inf: the only finite one */
	ck_assert_uint_eq(pick(&p, 0), 10);
}
END_TEST

START_TEST(top_is_sorted_and_log_sum_exp_is_exact)
{
	struct sampler_candidate top[20];
	fill(11);
	ck_assert_uint_eq(sampler_top(logits, N, 20, top), 20);
	for (int i = 1; i < 20; i++)
		ck_assert(top[i - 1].value > top[i].value ||
			  (top[i - 1].value == top[i].value && top[i - 1].id < top[i].id));
	unsigned above = 0;
	for (int i = 0; i < N; i++)
		above += logits[i] > top[19].value;
	ck_assert_uint_le(above, 19);
	ck_assert_uint_eq(sampler_top(logits, 3, 20, top), 3);
	ck_assert_uint_eq(sampler_top(logits, N, 0, top), 0);
	long double sum = 0;
	for (int i = 0; i < N; i++)
		sum += expl((long double)logits[i]);
	ck_assert_double_lt(fabs(sampler_log_sum_exp(logits, N) - (double)logl(sum)), 1e-12);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sampler");
	TCase *tc = tcase_create("sampler");
	tcase_add_test(tc, greedy_takes_the_largest_and_ties_go_to_the_lower_id);
	tcase_add_test(tc, greedy_is_the_same_with_and_without_candidates);
	tcase_add_test(tc, a_draw_depends_on_seed_and_index_alone);
	tcase_add_test(tc, draws_follow_the_distribution);
	tcase_add_loop_test(tc, truncation_keeps_exactly_the_defined_set, 0, 7);
	tcase_add_test(tc, penalties_count_prompt_and_answer_as_documented);
	tcase_add_test(tc, broken_logits_give_some_token);
	tcase_add_test(tc, top_is_sorted_and_log_sum_exp_is_exact);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
