/* The pace on a machine of which we know what everything costs: a step's layers may take their share and no more, and
 * disturbances neither starve prompts nor widen their share. */
#include <check.h>
#include <stdlib.h>

#include "src/worker/worker_pace.h"
#include "tests/unit/suite.h"

enum { US = 1000, LAYERS = 30, CHUNK = 256 };

struct machine {
	uint64_t decode_ns;	      /* a decode pass */
	uint64_t layer_ns, row_ns;    /* a layer of a prefill pass: expanding weights, and each row */
	uint64_t context_ns;	      /* and each thousand tokens that a row looks back at */
	unsigned disturbed_percent;   /* of passes and layers take ten times as long */
	uint32_t n_tokens;	      /* of the prompt so far */
	uint32_t n_prompts;	      /* that wait */
	uint32_t n_rows, layers_left; /* the pass under way */
	uint64_t sum_ns, largest_ns;  /* of what steps gave to prompts */
	unsigned n_steps;
};

static uint64_t disturb(const struct machine *m, uint64_t ns)
{
	return (unsigned)rand() % 100 < m->disturbed_percent ? 10 * ns : ns;
}

static uint64_t layer_ns(const struct machine *m, uint32_t n_rows)
{
	return m->layer_ns + n_rows * (m->row_ns + m->context_ns * m->n_tokens / 1000);
}

/* One step, as the worker makes it. */
static void step(struct machine *m, struct pace *pace, uint32_t n_decoding)
{
	uint64_t spent = 0, ns;
	pace_decoded(pace, n_decoding, n_decoding ? disturb(m, m->decode_ns) : 0, m->n_prompts);
	if (!m->layers_left) {
		m->n_rows = pace_rows(pace);
		m->layers_left = LAYERS;
		pace_began(pace, m->n_rows);
	}
	do {
		ns = layer_ns(m, m->n_rows);
		spent += ns; /* what the disturbances add is nobody's fault */
		if (!--m->layers_left)
			m->n_tokens += m->n_rows;
	} while (pace_layer(pace, disturb(m, ns)) && m->layers_left);
	m->sum_ns += spent;
	m->largest_ns = spent > m->largest_ns ? spent : m->largest_ns;
	m->n_steps++;
}

static struct machine small_model(void) /* 135M parameters on two CPUs */
{
	return (struct machine){
		.decode_ns = 2900 * US, .layer_ns = 280 * US, .row_ns = 25 * US, .context_ns = 2 * US, .n_prompts = 1};
}

static struct machine large_model(void) /* 7B */
{
	return (struct machine){.decode_ns = 100000 * US,
				.layer_ns = 14000 * US,
				.row_ns = 1250 * US,
				.context_ns = 20 * US,
				.n_prompts = 1};
}

static void run(struct machine *m, struct pace *pace, uint32_t n_tokens)
{
	for (int i = 0; i < 20; i++) /* the first passes try how wide they may be */
		step(m, pace, 1);
	m->sum_ns = m->largest_ns = m->n_steps = 0;
	while (m->n_tokens < n_tokens) {
		step(m, pace, 1);
		ck_assert_uint_lt(m->n_steps, 1000000);
	}
}

START_TEST(prompts_take_their_share_and_no_more)
{
	static const uint32_t shares[] = {10, 25, 50, 75, 90};
	for (int large = 0; large < 2; large++) {
		struct machine m = large ? large_model() : small_model();
		struct pace pace;
		uint64_t budget = m.decode_ns * shares[_i] / (100 - shares[_i]);
		uint64_t least = layer_ns(&m, PACE_ROWS_MIN);
		pace_init(&pace, shares[_i], CHUNK);
		run(&m, &pace, 4000);
		if (least + 4000 * m.context_ns / 1000 * PACE_ROWS_MIN < budget) {
			ck_assert_uint_le(m.largest_ns, budget + budget / 10);
			ck_assert_uint_ge(m.sum_ns / m.n_steps, budget * 3 / 4);
		} else { /* the share is less than the least there is */
			ck_assert_uint_le(m.largest_ns, layer_ns(&m, PACE_ROWS_MIN));
		}
	}
}
END_TEST

START_TEST(each_prompt_that_waits_counts)
{
	static const struct {
		uint32_t share, n_prompts;
		uint64_t budget; /* beside a pass of 9000 */
	} rules[] = {
		{50, 0, 9000},	 {50, 1, 9000},	       {50, 2, 11250}, {50, 8, 24750}, {50, 32, 78750},
		{50, 33, 81000}, {50, 34, 81000},      {25, 3, 4500},  {10, 1, 1000},  {10, 32, 8750},
		{75, 2, 33750},	 {75, 9, 81000},       {90, 1, 81000}, {90, 2, 81000}, {96, 1, 216000},
		{96, 9, 216000}, {100, 1, UINT64_MAX},
	};
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
		struct pace pace;
		pace_init(&pace, rules[i].share, CHUNK);
		pace_decoded(&pace, 1, 9000, rules[i].n_prompts);
		ck_assert_msg(pace.budget_ns == rules[i].budget, "share %u, %u prompts: %llu", rules[i].share,
			      rules[i].n_prompts, (unsigned long long)pace.budget_ns);
	}
}
END_TEST

START_TEST(prompts_that_wait_together_are_paced_together)
{
	struct machine m = small_model();
	struct pace pace;
	uint64_t budget = m.decode_ns * (3 + (uint64_t)_i) / 4, least = budget * 3 / 4;
	m.n_prompts = (uint32_t)_i;
	pace_init(&pace, 50, CHUNK);
	run(&m, &pace, 4000);
	ck_assert_uint_le(m.largest_ns, budget + budget / 10);
	if (layer_ns(&m, CHUNK) > budget - least) /* where layers are as wide as they may be, that many fit */
		least = budget > layer_ns(&m, CHUNK) ? budget - layer_ns(&m, CHUNK) : 0;
	ck_assert_uint_ge(m.sum_ns / m.n_steps, least);
	ck_assert_uint_ge(m.sum_ns / m.n_steps, m.decode_ns * 5 / 4); /* more than one prompt has */
}
END_TEST

START_TEST(disturbances_change_little)
{
	struct machine quiet = small_model(), busy = small_model();
	struct pace pace;
	srand(1);
	pace_init(&pace, 50, CHUNK);
	run(&quiet, &pace, 4000);
	busy.disturbed_percent = 10; /* eight in a row will not come */
	pace_init(&pace, 50, CHUNK);
	run(&busy, &pace, 4000);
	ck_assert_uint_le(busy.largest_ns, busy.decode_ns + busy.decode_ns / 10);
	ck_assert_uint_le(busy.sum_ns / busy.n_steps, quiet.sum_ns / quiet.n_steps);
	ck_assert_uint_le(busy.n_steps, 3 * quiet.n_steps);
}
END_TEST

START_TEST(answers_that_become_dearer_are_believed)
{
	struct machine m = small_model();
	struct pace pace;
	pace_init(&pace, 50, CHUNK);
	run(&m, &pace, 1000);
	m.decode_ns *= 4;
	run(&m, &pace, 2000);
	ck_assert_uint_ge(m.sum_ns / m.n_steps, m.decode_ns * 2 / 3);
	m.decode_ns /= 4;
	for (int i = 0; i < LAYERS; i++) /* the pass under way has wide layers */
		step(&m, &pace, 1);
	run(&m, &pace, 3000);
	ck_assert_uint_le(m.largest_ns, m.decode_ns + m.decode_ns / 10);
}
END_TEST

START_TEST(prompts_alone_have_whole_chunks)
{
	struct machine m = small_model();
	struct pace pace;
	pace_init(&pace, 50, CHUNK);
	step(&m, &pace, 0);
	ck_assert_uint_eq(m.n_rows, CHUNK);
	ck_assert_uint_le(m.largest_ns, PACE_ALONE_NS + layer_ns(&m, CHUNK));
	ck_assert_uint_ge(m.largest_ns, PACE_ALONE_NS / 2);
	while (m.layers_left)
		step(&m, &pace, 1); /* an answer begins: it meets wide layers, one at a time, until the pass ends */
	ck_assert_uint_le(m.largest_ns, PACE_ALONE_NS + layer_ns(&m, CHUNK));
	step(&m, &pace, 1);
	ck_assert_uint_lt(m.n_rows, CHUNK / 2); /* the wide pass has taught what rows cost */
}
END_TEST

START_TEST(a_full_share_is_a_whole_pass)
{
	struct machine m = small_model();
	struct pace pace;
	pace_init(&pace, 100, CHUNK);
	step(&m, &pace, 5);
	ck_assert_uint_eq(m.n_tokens, CHUNK);
	ck_assert_uint_eq(m.layers_left, 0);
}
END_TEST

START_TEST(a_short_prompt_teaches_nothing)
{
	struct machine m = small_model();
	struct pace pace;
	pace_init(&pace, 50, CHUNK);
	run(&m, &pace, 1000);
	pace_began(&pace, 3); /* and the pass before it is known now */
	uint32_t before = pace_rows(&pace);
	pace_layer(&pace, layer_ns(&m, 3));
	pace_began(&pace, 5);
	pace_layer(&pace, layer_ns(&m, 5));
	ck_assert_uint_gt(before, PACE_ROWS_MIN);
	ck_assert_uint_eq(pace_rows(&pace), before);
}
END_TEST

START_TEST(chunks_smaller_than_the_least_width_are_kept)
{
	struct pace pace;
	pace_init(&pace, 50, 7);
	pace_decoded(&pace, 1, 1000000, 1);
	ck_assert_uint_eq(pace_rows(&pace), 7);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("worker_pace");
	TCase *tc = tcase_create("worker_pace");
	tcase_add_loop_test(tc, prompts_take_their_share_and_no_more, 0, 5);
	tcase_add_test(tc, each_prompt_that_waits_counts);
	tcase_add_loop_test(tc, prompts_that_wait_together_are_paced_together, 5, 34);
	tcase_add_test(tc, disturbances_change_little);
	tcase_add_test(tc, answers_that_become_dearer_are_believed);
	tcase_add_test(tc, prompts_alone_have_whole_chunks);
	tcase_add_test(tc, a_full_share_is_a_whole_pass);
	tcase_add_test(tc, a_short_prompt_teaches_nothing);
	tcase_add_test(tc, chunks_smaller_than_the_least_width_are_kept);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
