#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/speech/beam.h"
#include "tests/unit/suite.h"

/* A made-up model: the logits behind a text are a function of the whole text. Token EOT ends. */
enum { MAX_VOCAB = 12, EOT = 2 };
static uint32_t n_vocab, model_seed;
static float flatness;

static uint32_t hash(uint32_t h, uint32_t x)
{
	h ^= x + 0x9e3779b9u + (h << 6) + (h >> 2);
	h *= 0x85ebca6bu;
	return h ^ (h >> 13);
}

static void model(const uint32_t *tokens, uint32_t n, float *logits)
{
	uint32_t h = hash(7, model_seed);
	for (uint32_t i = 0; i < n; i++)
		h = hash(h, tokens[i]);
	for (uint32_t v = 0; v < n_vocab; v++)
		logits[v] = (float)(hash(h, 1000 + v) % 10007) / 10007 * flatness;
}

static double log_probability(const uint32_t *tokens, uint32_t n, uint32_t next)
{
	float logits[MAX_VOCAB];
	double sum = 0;
	model(tokens, n, logits);
	for (uint32_t v = 0; v < n_vocab; v++)
		sum += exp(logits[v]);
	return logits[next] - log(sum);
}

static struct speech_rules rules_of(uint32_t vocab)
{
	n_vocab = vocab;
	return (struct speech_rules){.n_vocab = vocab, .eot = EOT, .repetition_penalty = 1};
}

static struct speech_search_params params_of(uint32_t beams, float length_penalty, uint32_t max)
{
	return (struct speech_search_params){
		.beam_size = beams, .best_of = 1, .patience = 1, .length_penalty = length_penalty, .max_tokens = max};
}

/* Runs a search over the model with texts kept beside it, by parents alone, as a caller keeps its sequences. */
static struct speech_text_found run(const struct speech_rules *rules, const struct speech_search_params *params,
				    const uint32_t *prefix, uint32_t n_prefix)
{
	static uint32_t texts[SPEECH_MAX_BEAMS][SPEECH_MAX_TOKENS], next[SPEECH_MAX_BEAMS][SPEECH_MAX_TOKENS];
	static float logits[SPEECH_MAX_BEAMS * MAX_VOCAB];
	struct speech_search search;
	uint32_t n = n_prefix;
	ck_assert_int_eq(speech_search_init(&search, rules, params, prefix, n_prefix), 0);
	if (n)
		memcpy(texts[0], prefix, n * sizeof *prefix);
	while (search.n_live) {
		for (uint32_t row = 0; row < search.n_live; row++)
			model(texts[row], n, logits + row * rules->n_vocab);
		speech_search_feed(&search, logits);
		for (uint32_t row = 0; row < search.n_live; row++) {
			memcpy(next[row], texts[search.parents[row]], sizeof *next);
			next[row][n] = speech_search_token(&search, row);
			ck_assert(next[row][n] != EOT);
		}
		memcpy(texts, next, sizeof texts);
		n++;
	}
	struct speech_text_found best = *speech_search_best(&search);
	speech_search_fini(&search);
	return best;
}

/* --- the search again, slow and plain: all candidates are listed and sorted ------------------------------------- */

struct plain_text {
	uint32_t tokens[SPEECH_MAX_TOKENS];
	uint32_t n; /* with the end */
	double log_probability;
};

static int by_log_probability(const void *a, const void *b)
{
	const struct plain_text *x = a, *y = b;
	return (x->log_probability < y->log_probability) - (x->log_probability > y->log_probability);
}

static double score_of(const struct plain_text *t, double length_penalty)
{
	uint32_t n = t->n - (t->tokens[t->n - 1] == EOT);
	return n ? t->log_probability / pow(n, length_penalty) : -INFINITY;
}

static struct plain_text search_ref(uint32_t beams, double patience, double length_penalty, uint32_t max)
{
	static struct plain_text live[64], all[64 * MAX_VOCAB], best;
	uint32_t n_live = 1, n_done = 0, first_done = 0;
	live[0].n = 0;
	live[0].log_probability = 0;
	for (uint32_t step = 0; step < max; step++) {
		uint32_t n_all = 0, used = 0, spare = beams;
		for (uint32_t i = 0; i < n_live; i++)
			for (uint32_t v = 0; v < n_vocab; v++) {
				all[n_all] = live[i];
				all[n_all].tokens[all[n_all].n++] = v;
				all[n_all].log_probability += log_probability(live[i].tokens, live[i].n, v);
				n_all++;
			}
		qsort(all, n_all, sizeof *all, by_log_probability);
		n_all = n_all < 2 * beams ? n_all : 2 * beams;
		n_live = 0;
		for (uint32_t k = 0; k < beams && k < n_all; k++) {
			if (all[k].tokens[step] != EOT && step + 1 < max) {
				live[n_live++] = all[k];
				continue;
			}
			first_done |= k == 0;
			if (!n_done++ || score_of(&all[k], length_penalty) > score_of(&best, length_penalty))
				best = all[k];
			for (used = spare; used < n_all && all[used].tokens[step] == EOT; used++)
				;
			spare = used + 1;
			if (used < n_all)
				live[n_live++] = all[used];
		}
		if (length_penalty == 0 ? first_done : n_done >= (uint32_t)lround(beams * patience))
			break;
	}
	return best;
}

static void ck_same(const struct speech_text_found *found, const struct plain_text *expected)
{
	uint32_t n = expected->n - (expected->tokens[expected->n - 1] == EOT);
	ck_assert_uint_eq(found->n_tokens, n);
	ck_assert(!n || !memcmp(found->tokens, expected->tokens, n * sizeof *found->tokens));
	ck_assert_double_eq_tol(found->log_probability, expected->log_probability, 1e-4);
}

START_TEST(beams_find_what_a_plain_search_finds)
{
	for (uint32_t round = 0; round < 600; round++) {
		struct speech_rules rules = rules_of(4 + round % 9);
		uint32_t beams = 2 + round % 5, max = 3 + round % 11;
		struct speech_search_params params = params_of(beams, (float)(round % 3) / 2, max);
		params.patience = round % 4 == 3 ? 2 : 1;
		model_seed = round, flatness = (float)(1 + round % 6);
		struct speech_text_found found = run(&rules, &params, NULL, 0);
		struct plain_text expected = search_ref(beams, params.patience, params.length_penalty, max);
		ck_same(&found, &expected);
	}
}
END_TEST

/* With as many beams as there are texts, and patience for all of them, the best of all texts is found. */
static void enumerate(struct plain_text *t, uint32_t max, struct plain_text *best)
{
	for (uint32_t v = 0; v < n_vocab; v++) {
		struct plain_text next = *t;
		next.log_probability += log_probability(t->tokens, t->n, v);
		next.tokens[next.n++] = v;
		if (v != EOT && next.n < max)
			enumerate(&next, max, best);
		else if (!best->n || score_of(&next, 1) > score_of(best, 1))
			*best = next;
	}
}

START_TEST(beams_enough_for_all_texts_find_the_best_of_all)
{
	for (model_seed = 0; model_seed < 40; model_seed++) {
		struct speech_rules rules = rules_of(3);
		struct speech_search_params params = params_of(32, 1, 5);
		params.patience = 10;
		flatness = 5;
		struct plain_text nothing = {.n = 0}, best = {.n = 0};
		enumerate(&nothing, 5, &best); /* at most 2^4 texts of four tokens that have not ended */
		struct speech_text_found found = run(&rules, &params, NULL, 0);
		ck_same(&found, &best);
	}
}
END_TEST

START_TEST(one_beam_takes_the_most_probable_token_each_time)
{
	for (model_seed = 0; model_seed < 100; model_seed++) {
		struct speech_rules rules = rules_of(8);
		struct speech_search_params params = params_of(1, 1, 20);
		struct plain_text t = {.n = 0};
		flatness = 3;
		while (t.n < 20 && (!t.n || t.tokens[t.n - 1] != EOT)) {
			uint32_t best = 0;
			for (uint32_t v = 1; v < n_vocab; v++)
				if (log_probability(t.tokens, t.n, v) > log_probability(t.tokens, t.n, best))
					best = v;
			t.log_probability += log_probability(t.tokens, t.n, best);
			t.tokens[t.n++] = best;
		}
		struct speech_text_found found = run(&rules, &params, NULL, 0);
		ck_same(&found, &t);
	}
}
END_TEST

START_TEST(a_prefix_is_part_of_the_text_and_costs_nothing)
{
	static const uint32_t prefix[] = {4, 5, 6};
	struct speech_rules rules = rules_of(8);
	struct speech_search_params params = params_of(3, 1, 10);
	model_seed = 5, flatness = 4;
	struct speech_text_found found = run(&rules, &params, prefix, 3);
	ck_assert_uint_ge(found.n_tokens, 3);
	ck_assert(!memcmp(found.tokens, prefix, sizeof prefix));
	double sum = 0;
	for (uint32_t i = 3; i < found.n_tokens; i++)
		sum += log_probability(found.tokens, i, found.tokens[i]);
	if (found.n_tokens < 10)
		sum += log_probability(found.tokens, found.n_tokens, EOT);
	ck_assert_double_eq_tol(found.log_probability, sum, 1e-5);
}
END_TEST

START_TEST(rules_hold_for_what_is_found)
{
	static const uint32_t never[] = {0, 1, 3}, first[] = {EOT};
	struct speech_rules rules = rules_of(8);
	rules.suppressed = never, rules.n_suppressed = 3;
	rules.suppressed_begin = first, rules.n_suppressed_begin = 1;
	flatness = 4;
	for (model_seed = 0; model_seed < 50; model_seed++)
		for (int draws = 0; draws < 2; draws++) {
			struct speech_search_params params = params_of(4, 1, 9);
			params.temperature = draws ? 1 : 0;
			struct speech_text_found found = run(&rules, &params, NULL, 0);
			ck_assert_uint_ge(found.n_tokens, 1);
			for (uint32_t i = 0; i < found.n_tokens; i++)
				ck_assert_uint_ge(found.tokens[i], 4);
		}
}
END_TEST

START_TEST(where_nothing_is_allowed_the_text_so_far_is_the_answer)
{
	static const uint32_t all[] = {0, 1, 2, 3, 4}, prefix[] = {3, 4};
	struct speech_rules rules = rules_of(5);
	rules.suppressed = all, rules.n_suppressed = 5;
	for (int draws = 0; draws < 2; draws++) {
		struct speech_search_params params = params_of(4, 1, 9);
		params.temperature = draws ? 1 : 0;
		struct speech_text_found found = run(&rules, &params, prefix, 2);
		ck_assert_uint_eq(found.n_tokens, 2);
		ck_assert_uint_eq(found.tokens[1], 4);
	}
}
END_TEST

START_TEST(draws_depend_on_the_seed_alone)
{
	struct speech_rules rules = rules_of(12);
	struct speech_search_params params = params_of(1, 1, 30);
	int differ = 0;
	params.temperature = 1;
	params.best_of = 5;
	flatness = 1;
	for (model_seed = 0; model_seed < 20; model_seed++) {
		params.seed = 77;
		struct speech_text_found a = run(&rules, &params, NULL, 0), b = run(&rules, &params, NULL, 0);
		ck_assert_uint_eq(a.n_tokens, b.n_tokens);
		ck_assert(!memcmp(a.tokens, b.tokens, a.n_tokens * sizeof *a.tokens));
		params.seed = 7777;
		b = run(&rules, &params, NULL, 0);
		differ += a.n_tokens != b.n_tokens || memcmp(a.tokens, b.tokens, a.n_tokens * sizeof *a.tokens);
	}
	ck_assert_int_ge(differ, 15);
}
END_TEST

/* Texts of one token: their shares are those of the distribution at that temperature, and the log-probability is that
 * of temperature 1. */
START_TEST(draws_follow_the_distribution_at_their_temperature)
{
	enum { ROUNDS = 20000 };
	struct speech_rules rules = rules_of(6);
	struct speech_search_params params = params_of(1, 1, 1);
	double sum = 0;
	float logits[MAX_VOCAB];
	uint32_t counts[MAX_VOCAB] = {0};
	params.temperature = 0.5f;
	model_seed = 3, flatness = 1;
	model(NULL, 0, logits);
	for (uint32_t v = 0; v < 6; v++)
		sum += exp(logits[v] / 0.5);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		params.seed = i * 1000;
		struct speech_text_found found = run(&rules, &params, NULL, 0);
		uint32_t token = found.n_tokens ? found.tokens[0] : EOT;
		counts[token]++;
		ck_assert_double_eq_tol(found.log_probability, log_probability(NULL, 0, token), 1e-5);
	}
	for (uint32_t v = 0; v < 6; v++) { /* within five standard deviations */
		double p = exp(logits[v] / 0.5) / sum;
		ck_assert_double_eq_tol(counts[v] / (double)ROUNDS, p, 5 * sqrt(p * (1 - p) / ROUNDS));
	}
}
END_TEST

/* Of five draws the best score wins: never worse than the first draw, which is what one draw gives. */
START_TEST(the_best_of_several_draws_wins)
{
	struct speech_rules rules = rules_of(12);
	int better = 0;
	flatness = 3;
	for (model_seed = 0; model_seed < 50; model_seed++) {
		struct speech_search_params params = params_of(1, 1, 12);
		params.temperature = 1;
		struct speech_text_found one = run(&rules, &params, NULL, 0);
		params.best_of = 5;
		struct speech_text_found five = run(&rules, &params, NULL, 0);
		ck_assert(five.score >= one.score);
		better += five.score > one.score;
	}
	ck_assert_int_ge(better, 20);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("speech_beam");
	TCase *c = tcase_create("all");
	tcase_add_test(c, beams_find_what_a_plain_search_finds);
	tcase_add_test(c, beams_enough_for_all_texts_find_the_best_of_all);
	tcase_add_test(c, one_beam_takes_the_most_probable_token_each_time);
	tcase_add_test(c, a_prefix_is_part_of_the_text_and_costs_nothing);
	tcase_add_test(c, rules_hold_for_what_is_found);
	tcase_add_test(c, where_nothing_is_allowed_the_text_so_far_is_the_answer);
	tcase_add_test(c, draws_depend_on_the_seed_alone);
	tcase_add_test(c, draws_follow_the_distribution_at_their_temperature);
	tcase_add_test(c, the_best_of_several_draws_wins);
	suite_add_tcase(s, c);
	return suite_run(s);
}
