/* Passes of a speech model: against the same in double, and bit for bit against themselves in other company. Runs once
 * per CPU level: `speech_forward ref|avx2|avx512|int8 [kv_int8]`, exit status 77 where the CPU lacks the level. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/kernel/half.h"
#include "src/kernel/kv_page.h"
#include "tests/unit/suite.h"
#include "tests/unit/tiny_model.h"
#include "tests/unit/tiny_speech.h"

static enum cpu_level level;
static enum numerics numerics;
static enum kv_type kv_type;

enum { CALLS = 8, TOKENS = 44, PROMPT = 5 }; /* more tokens than a page has positions */

static struct tiny_speech *tiny;
static float *mel;	 /* a window's */
static float *other_mel; /* another one's */
static uint32_t tokens[TOKENS];

static void listener_init(struct tiny_listener *e, unsigned n_threads)
{
	const struct tiny_listener_setup setup = {level, numerics, kv_type, n_threads};
	tiny_listener_init(e, &tiny->model, &setup);
}

static void set_up(void)
{
	tiny = tiny_speech_new(numerics == NUMERICS_INT8 ? PACK_Q8_0 : PACK_F32, 11);
	mel = tiny_speech_mel(12);
	other_mel = tiny_speech_mel(13);
	srand(14);
	for (unsigned i = 0; i < TOKENS; i++)
		tokens[i] = (unsigned)rand() % TINY_WORDS;
}

static void tear_down(void)
{
	free(mel);
	free(other_mel);
	tiny_speech_free(tiny);
}

static void encode(struct tiny_listener *e, const float *frames, struct speech_window *window)
{
	ck_assert_int_eq(encoder_run(e->encoder, frames, window, 1), 0);
}

/* --- against double ---------------------------------------------------------------------------- */

/* The largest error beside the root mean square of what is right, and where a tolerance comes from: the rounding of an
 * operand or of a stored key or value is one of `unit` relative to each value at most, a third of its square on
 * average, independent of the others; a number of the residual stream is made of some `stages` products with two such
 * operands each, whose errors add up as their squares do, and norms keep what is relative. The largest of some ten
 * thousand is within five times that. */
static double tolerance(double stages)
{
	double unit = numerics == NUMERICS_INT8	  ? 1.0 / 127 /* of the largest of 32 */
		      : numerics == NUMERICS_BF16 ? 0x1p-8
						  : 0x1p-22; /* a sum's roundings */
	double stored = kv_type == KV_INT8 ? 2.0 / 127 : 0x1p-8;
	return 5 * sqrt((2 * stages * unit * unit + 2 * stages / 6 * stored * stored) / 12);
}

struct errors {
	double largest, squares, right;
	size_t n;
};

static void measure(struct errors *errors, double got, double right)
{
	ck_assert(isfinite(got));
	errors->largest = fmax(errors->largest, fabs(got - right));
	errors->squares += (got - right) * (got - right);
	errors->right += right * right;
	errors->n++;
}

static void expect_near(const struct errors *errors, double stages, const char *what)
{
	double rms = sqrt(errors->right / (double)errors->n), most = tolerance(stages);
	if (errors->largest > most * rms)
		ck_abort_msg("%s: off by %g (mean %g) of %g, tolerance %g", what, errors->largest / rms,
			     sqrt(errors->squares / errors->right), rms, most);
}

/* What a bfloat16 is off beside what it was rounded from. */
static double rounded_from(uint16_t stored, double right)
{
	double got = (double)f32_from_bf16(stored), rounding = fabs(right) * 0x1p-8;
	return fabs(got - right) <= rounding ? right : got + copysign(rounding, right - got);
}

/* Keys and values as pages have them; those of int8 are another basis, and seen in logits alone. */
static void compare_window(const struct speech_window *w, const double *states)
{
	struct errors keys = {0}, values = {0};
	for (uint32_t layer = 0; layer < TINY_LAYERS; layer++) {
		const struct model_layer *l = &tiny->model.layers[layer];
		for (uint32_t t = 0; t < TINY_POSITIONS; t++) {
			double k[TINY_DIM], v[TINY_DIM];
			tiny_speech_linear(&l->cross_k, NULL, states + (size_t)t * TINY_DIM, k);
			tiny_speech_linear(&l->cross_v, l->cross_v_bias, states + (size_t)t * TINY_DIM, v);
			for (uint32_t i = 0; i < TINY_DIM; i++) {
				uint32_t head = i / TINY_HEAD_DIM, d = i % TINY_HEAD_DIM, page = t / KV_PAGE_TOKENS;
				const uint16_t *ks = speech_window_keys(w, layer, head, page);
				const uint16_t *vs = speech_window_values(w, layer, head, page);
				uint32_t slot = t % KV_PAGE_TOKENS;
				measure(&keys, rounded_from(ks[kv_key_at(slot, d)], k[i]), k[i]);
				measure(&values, rounded_from(vs[kv_value_at(slot, d, TINY_HEAD_DIM)], v[i]), v[i]);
			}
		}
	}
	expect_near(&keys, 4 * TINY_ENCODER_LAYERS + 3, "keys");
	expect_near(&values, 4 * TINY_ENCODER_LAYERS + 3, "values");
}

/* Runs tokens [begin, end) of a sequence in a phase and keeps their logits. */
static void run(struct tiny_listener *e, struct kv_sequence *sequence, const struct speech_window *window,
		enum phase phase, uint32_t end, float *logits, float *attended)
{
	struct batch_row rows[TOKENS];
	struct batch batch = {phase, 0, rows};
	uint32_t numbers[LOGIT_ROWS_MAX], begin = sequence->n_tokens;
	ck_assert_int_eq(kv_extend(&e->kv, sequence, end), 0);
	for (uint32_t t = begin; t < end; t++) {
		rows[batch.n_rows] =
			(struct batch_row){.token = tokens[t], .position = t, .sequence = sequence, .window = window};
		if (attended)
			rows[batch.n_rows].attended = attended + (size_t)t * TINY_HEADS_HEARD * TINY_POSITIONS;
		batch.n_rows++;
	}
	ck_assert_int_eq(forward_run(e->forward, &batch), 0);
	for (uint32_t i = 0; i < batch.n_rows; i++) {
		numbers[0] = i;
		memcpy(logits + (size_t)(begin + i) * TINY_WORDS, forward_logits(e->forward, numbers, 1),
		       TINY_WORDS * sizeof(float));
	}
	kv_advance(sequence, batch.n_rows, phase);
}

/* A prompt, then token by token. */
static void run_whole(struct tiny_listener *e, const struct speech_window *window, float *logits, float *attended)
{
	struct kv_sequence sequence = {0};
	run(e, &sequence, window, PHASE_PREFILL, PROMPT, logits, attended);
	while (sequence.n_tokens < TOKENS)
		run(e, &sequence, window, PHASE_DECODE, sequence.n_tokens + 1, logits, attended);
	kv_release(&e->kv, &sequence);
}

START_TEST(is_what_it_is_in_double)
{
	struct tiny_listener e;
	struct speech_window window = {0};
	static float logits[TOKENS * TINY_WORDS], attended[TOKENS * TINY_HEADS_HEARD * TINY_POSITIONS];
	static double right[TOKENS * TINY_WORDS], weights[TOKENS * TINY_HEADS_HEARD * TINY_POSITIONS];
	struct errors errors = {0}, weight_errors = {0};
	double *states = tiny_speech_states(&tiny->model, mel);
	tiny_speech_logits(&tiny->model, states, tokens, TOKENS, right, weights);
	listener_init(&e, 2);
	encode(&e, mel, &window);
	if (kv_type == KV_BF16)
		compare_window(&window, states);
	run_whole(&e, &window, logits, attended);
	for (size_t i = 0; i < TOKENS * TINY_WORDS; i++)
		measure(&errors, (double)logits[i], right[i]);
	expect_near(&errors, 4 * TINY_ENCODER_LAYERS + 3 + 7 * TINY_LAYERS, "logits");
	for (size_t i = 0; i < TOKENS * TINY_HEADS_HEARD; i++) {
		double sum = 0;
		for (size_t t = 0; t < TINY_POSITIONS; t++) {
			sum += (double)attended[i * TINY_POSITIONS + t];
			measure(&weight_errors, (double)attended[i * TINY_POSITIONS + t],
				weights[i * TINY_POSITIONS + t]);
		}
		ck_assert_double_eq_tol(sum, 1, 1e-5);
	}
	/* A weight is an exponential: relative to itself it is as far off as the score's error, and scores of this
	 * model are about as large as 1. */
	expect_near(&weight_errors, 4 * (4 * TINY_ENCODER_LAYERS + 3 + 7 * TINY_LAYERS), "weights");
	speech_window_release(&window, &e.arena);
	free(states);
	tiny_listener_fini(&e);
}
END_TEST

/* --- bit for bit ------------------------------------------------------------------------------- */

static float alone[TOKENS * TINY_WORDS], alone_other[TOKENS * TINY_WORDS];

static void compute_alone(void)
{
	struct tiny_listener e;
	struct speech_window windows[2] = {0};
	listener_init(&e, 1);
	encode(&e, mel, &windows[0]);
	encode(&e, other_mel, &windows[1]);
	run_whole(&e, &windows[0], alone, NULL);
	run_whole(&e, &windows[1], alone_other, NULL);
	for (unsigned i = 0; i < 2; i++)
		speech_window_release(&windows[i], &e.arena);
	tiny_listener_fini(&e);
}

static void expect_same(const float *got, const float *expected, uint32_t position)
{
	if (memcmp(got, expected + (size_t)position * TINY_WORDS, TINY_WORDS * sizeof *got))
		ck_abort_msg("position %u has other logits than alone", position);
}

/* 32 rows that hear two windows, at different positions, by runs of different lengths. */
START_TEST(a_row_is_the_same_in_company)
{
	struct tiny_listener e;
	struct speech_window windows[2] = {0};
	struct kv_sequence sequences[DECODE_ROWS_MAX] = {0};
	struct batch_row rows[DECODE_ROWS_MAX];
	struct batch batch = {PHASE_DECODE, DECODE_ROWS_MAX, rows};
	static float logits[TOKENS * TINY_WORDS];
	uint32_t numbers[LOGIT_ROWS_MAX];
	compute_alone();
	listener_init(&e, 1 + (unsigned)_i);
	encode(&e, mel, &windows[0]);
	encode(&e, other_mel, &windows[1]);
	for (uint32_t i = 0; i < DECODE_ROWS_MAX; i++) {
		unsigned heard = i % 7 < 4;
		run(&e, &sequences[i], &windows[heard], PHASE_PREFILL, PROMPT, logits, NULL);
		for (uint32_t t = 0; t < PROMPT; t++)
			expect_same(logits + (size_t)t * TINY_WORDS, heard ? alone_other : alone, t);
		while (sequences[i].n_tokens < PROMPT + i)
			run(&e, &sequences[i], &windows[heard], PHASE_DECODE, sequences[i].n_tokens + 1, logits, NULL);
		ck_assert_int_eq(kv_extend(&e.kv, &sequences[i], PROMPT + i + 1), 0);
		rows[i] = (struct batch_row){.token = tokens[PROMPT + i],
					     .position = PROMPT + i,
					     .sequence = &sequences[i],
					     .window = &windows[heard]};
		numbers[i] = i;
	}
	ck_assert_int_eq(forward_run(e.forward, &batch), 0);
	const float *got = forward_logits(e.forward, numbers, DECODE_ROWS_MAX);
	for (uint32_t i = 0; i < DECODE_ROWS_MAX; i++)
		expect_same(got + (size_t)i * TINY_WORDS, i % 7 < 4 ? alone_other : alone, PROMPT + i);
	for (uint32_t i = 0; i < DECODE_ROWS_MAX; i++)
		kv_release(&e.kv, &sequences[i]);
	for (unsigned i = 0; i < 2; i++)
		speech_window_release(&windows[i], &e.arena);
	tiny_listener_fini(&e);
}
END_TEST

/* A window made part by part, with passes of another call in between, by any number of threads. */
START_TEST(a_window_is_the_same_in_parts)
{
	struct tiny_listener one, e;
	struct speech_window whole = {0}, window = {0}, other = {0};
	struct kv_sequence sequence = {0};
	static float logits[TOKENS * TINY_WORDS];
	compute_alone();
	listener_init(&one, 1);
	encode(&one, mel, &whole);
	listener_init(&e, 2 + (unsigned)_i);
	encode(&e, other_mel, &other);
	run(&e, &sequence, &other, PHASE_PREFILL, PROMPT, logits, NULL);
	ck_assert_int_eq(encoder_begin(e.encoder, mel, encoder_frames(e.encoder), &window), 0);
	while (encoder_advance(e.encoder))
		if (sequence.n_tokens < TOKENS)
			run(&e, &sequence, &other, PHASE_DECODE, sequence.n_tokens + 1, logits, NULL);
	ck_assert_uint_gt(sequence.n_tokens, PROMPT + 5);
	for (uint32_t t = 0; t < sequence.n_tokens; t++)
		expect_same(logits + (size_t)t * TINY_WORDS, alone_other, t);
	ck_assert_uint_eq(window.n_bytes, whole.n_bytes);
	ck_assert_mem_eq(window.data, whole.data, whole.n_bytes);
	ck_assert_mem_ne(window.data, other.data, whole.n_bytes);
	kv_release(&e.kv, &sequence);
	speech_window_release(&window, &e.arena);
	speech_window_release(&other, &e.arena);
	speech_window_release(&whole, &one.arena);
	tiny_listener_fini(&e);
	tiny_listener_fini(&one);
}
END_TEST

/* Frames that are not given are zeros, and memory comes back, also in the middle. */
START_TEST(a_short_window_and_a_stopped_one)
{
	struct tiny_listener e;
	struct speech_window window = {0}, padded = {0};
	const uint32_t n_frames = 2 * TINY_POSITIONS, n_heard = 701;
	listener_init(&e, 2);
	size_t before = e.arena.bytes;
	ck_assert_int_eq(encoder_begin(e.encoder, mel, n_heard, &window), 0);
	ck_assert_uint_le(e.arena.bytes - before,
			  encoder_scratch_bytes(e.encoder) + speech_window_bytes(&tiny->model.config, kv_type));
	while (encoder_advance(e.encoder)) {
	}
	ck_assert_uint_eq(e.arena.bytes - before, speech_window_bytes(&tiny->model.config, kv_type));
	memset(mel + (size_t)n_heard * TINY_BINS, 0, (size_t)(n_frames - n_heard) * TINY_BINS * sizeof *mel);
	encode(&e, mel, &padded);
	ck_assert_mem_eq(window.data, padded.data, window.n_bytes);
	speech_window_release(&window, &e.arena);
	speech_window_release(&padded, &e.arena);
	ck_assert_int_eq(encoder_begin(e.encoder, mel, n_frames, &window), 0);
	for (unsigned i = 0; i < 4; i++)
		ck_assert(encoder_advance(e.encoder));
	encoder_stop(e.encoder);
	speech_window_release(&window, &e.arena);
	ck_assert_uint_eq(e.arena.bytes, before);
	tiny_listener_fini(&e);
}
END_TEST

/* A hypothesis that goes on from another one is what it would be by itself, and the other one does not notice. */
START_TEST(a_fork_goes_on_as_its_origin)
{
	struct tiny_listener e;
	struct speech_window window = {0};
	struct kv_sequence origin = {0}, fork = {0};
	static float logits[TOKENS * TINY_WORDS];
	uint32_t at = 30 + (unsigned)_i; /* before, at and behind the end of a page */
	compute_alone();
	listener_init(&e, 2);
	encode(&e, mel, &window);
	run(&e, &origin, &window, PHASE_PREFILL, PROMPT, logits, NULL);
	while (origin.n_tokens < at)
		run(&e, &origin, &window, PHASE_DECODE, origin.n_tokens + 1, logits, NULL);
	uint32_t n_used = e.kv.n_used;
	ck_assert_int_eq(kv_fork(&e.kv, &origin, &fork), 0);
	ck_assert_uint_eq(e.kv.n_used, n_used + (at % KV_PAGE_TOKENS != 0));
	while (fork.n_tokens < TOKENS) {
		struct kv_sequence *next = fork.n_tokens <= origin.n_tokens && origin.n_tokens < TOKENS - 3 ? &fork
					   : origin.n_tokens < TOKENS - 3				    ? &origin
													    : &fork;
		uint32_t t = next->n_tokens, said = tokens[t];
		if (next == &origin)
			tokens[t] = (said + 1) % TINY_WORDS; /* it says something else */
		run(&e, next, &window, PHASE_DECODE, t + 1, logits, NULL);
		if (next == &fork)
			expect_same(logits + (size_t)t * TINY_WORDS, alone, t);
		else if (t >= at)
			ck_assert_mem_ne(logits + (size_t)t * TINY_WORDS, alone + (size_t)t * TINY_WORDS,
					 TINY_WORDS * sizeof *logits);
		tokens[t] = said;
	}
	kv_release(&e.kv, &origin);
	kv_release(&e.kv, &fork);
	ck_assert_uint_eq(e.kv.n_used, 0);
	speech_window_release(&window, &e.arena);
	tiny_listener_fini(&e);
}
END_TEST

/* Rows of nothing but keys and values leave before they hear in the last layer; the others' logits stay. */
START_TEST(silent_rows_of_a_prompt)
{
	struct tiny_listener e;
	struct speech_window window = {0};
	struct kv_sequence sequence = {0};
	struct batch_row rows[PROMPT];
	struct batch batch = {PHASE_PREFILL, PROMPT, rows};
	const uint32_t last = PROMPT - 1;
	compute_alone();
	listener_init(&e, 2);
	encode(&e, mel, &window);
	ck_assert_int_eq(kv_extend(&e.kv, &sequence, PROMPT), 0);
	for (uint32_t t = 0; t < PROMPT; t++)
		rows[t] = (struct batch_row){.token = tokens[t],
					     .position = t,
					     .sequence = &sequence,
					     .window = &window,
					     .silent = t < last};
	ck_assert_int_eq(forward_run(e.forward, &batch), 0);
	expect_same(forward_logits(e.forward, &last, 1), alone, last);
	kv_release(&e.kv, &sequence);
	speech_window_release(&window, &e.arena);
	tiny_listener_fini(&e);
}
END_TEST

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "ref";
	if (!tiny_level(name, &level, &numerics))
		return 77;
	kv_type = tiny_kv_type(argc, argv);
	Suite *suite = suite_create("speech_forward");
	TCase *tc = tcase_create("passes");
	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, is_what_it_is_in_double);
	tcase_add_loop_test(tc, a_row_is_the_same_in_company, 0, 3);
	tcase_add_loop_test(tc, a_window_is_the_same_in_parts, 0, 2);
	tcase_add_test(tc, a_short_window_and_a_stopped_one);
	tcase_add_loop_test(tc, a_fork_goes_on_as_its_origin, 0, 4);
	tcase_add_test(tc, silent_rows_of_a_prompt);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
