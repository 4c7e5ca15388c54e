#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/speech/task.h"
#include "tests/unit/speech_vocabulary.h"
#include "tests/unit/suite.h"

/* --- recorded: what faster-whisper made of made-up models (tests/speech/record) -------------------------------- */

enum { MAX_NUMBERS = 800, POSITIONS = 1500 };

/* The line that comes next, cut into its parts. */
static char *recorded, *next_line, line[20000];
static struct {
	char kind[16];
	double numbers[MAX_NUMBERS]; /* before the bar */
	uint32_t n_numbers;
	uint32_t after[MAX_NUMBERS]; /* behind it */
	uint32_t n_after;
	char *text; /* the last part */
} now;

static void advance(void)
{
	char *end = strchr(next_line, '\n'), *save = NULL;
	ck_assert_ptr_nonnull(end);
	size_t n = (size_t)(end - next_line);
	ck_assert_uint_lt(n, sizeof line);
	memcpy(line, next_line, n);
	line[n] = 0;
	next_line = end + 1;
	now.n_numbers = now.n_after = 0;
	bool behind = false;
	char *part = strtok_r(line, " ", &save);
	ck_assert_uint_lt(strlen(part), sizeof now.kind);
	strcpy(now.kind, part);
	now.text = save;
	if (!strcmp(now.kind, "initial") || !strcmp(now.kind, "hotwords"))
		return;
	while ((part = strtok_r(NULL, " ", &save))) {
		now.text = part;
		if (!strcmp(part, "|"))
			behind = true;
		else if (behind)
			now.after[now.n_after++] = (uint32_t)strtoul(part, NULL, 10);
		else
			now.numbers[now.n_numbers++] = strtod(part, NULL);
		ck_assert(now.n_numbers < MAX_NUMBERS && now.n_after < MAX_NUMBERS);
	}
}

static void ck_kind(const char *kind)
{
	ck_assert_str_eq(now.kind, kind);
}

static void ck_tokens(const uint32_t *tokens, uint32_t n, const double *expected, uint32_t n_expected)
{
	ck_assert_uint_eq(n, n_expected);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_uint_eq(tokens[i], (uint32_t)expected[i]);
}

static void ck_bytes(const char *bytes, size_t n, const char *hex)
{
	ck_assert_uint_eq(2 * n, strlen(hex));
	for (size_t i = 0; i < n; i++) {
		char two[3] = {hex[2 * i], hex[2 * i + 1], 0};
		ck_assert_uint_eq((unsigned char)bytes[i], strtoul(two, NULL, 16));
	}
}

/* What the model of the newest "generate" line says. */
static struct {
	uint32_t rows[MAX_NUMBERS], n_rows;
	uint32_t n_prompt, attempts;
	double p, silence;
} script;

static float logits[2 * V_N];

/* The token has probability p among text, everything else next to none. */
static void write_row(float *row, uint32_t token, double p)
{
	for (uint32_t i = 0; i < V_N; i++)
		row[i] = i < V_EOT ? 0 : -30;
	row[token] = (float)log(p / (1 - p) * (V_EOT - (token < V_EOT)));
}

static void read_script(uint32_t frame, const uint32_t *prompt, uint32_t n_prompt)
{
	ck_kind("generate");
	ck_assert_uint_eq(frame, (uint32_t)now.numbers[0]);
	script.p = now.numbers[1];
	script.silence = now.numbers[2];
	ck_assert_double_eq_tol(now.numbers[3], 0.2 * script.attempts++, 1e-6);
	if (prompt)
		ck_tokens(prompt, n_prompt, now.numbers + 4, now.n_numbers - 4);
	memcpy(script.rows, now.after, now.n_after * sizeof *now.after);
	script.n_rows = now.n_after;
	advance();
}

static int feed_prompt(struct speech_task *task, uint32_t frame)
{
	const struct speech_want *want = speech_task_want(task);
	ck_assert_uint_eq(want->n_rows, 2);
	ck_assert_uint_eq(want->tokens[want->rows[0]], V_SOT);
	script.attempts = 0;
	script.n_prompt = want->n;
	read_script(frame, want->tokens, want->n);
	for (uint32_t i = 0; i < V_N; i++)
		logits[i] = -1e9f;
	logits[V_NO_SPEECH] = (float)log(script.silence / (1 - script.silence));
	logits[0] = 0;
	write_row(logits + V_N, script.rows[0], script.p);
	return speech_task_feed_logits(task, logits);
}

static int feed_step(struct speech_task *task, uint32_t frame, bool *first)
{
	const struct speech_want *want = speech_task_want(task);
	uint32_t row = want->position - script.n_prompt + 1;
	ck_assert_uint_eq(want->n, 1);
	if (want->parents[0] == SPEECH_FROM_PROMPT && !*first)
		read_script(frame, NULL, 0); /* the same prompt, hotter */
	ck_assert_int_eq(want->parents[0] == SPEECH_FROM_PROMPT, row == 1);
	*first = false;
	ck_assert_uint_lt(row, script.n_rows);
	ck_assert_uint_eq(want->tokens[0], script.rows[row - 1]);
	write_row(logits, script.rows[row], script.p);
	return speech_task_feed_logits(task, logits);
}

static int feed_alignment(struct speech_task *task, uint32_t n_frames)
{
	const struct speech_want *want = speech_task_want(task);
	uint32_t positions = n_frames / 2, n = now.n_after - 1, n_rows = want->n;
	float *weights = malloc((size_t)n_rows * V_HEADS * POSITIONS * sizeof *weights);
	ck_kind("align");
	ck_assert_uint_eq((uint32_t)now.numbers[0], n_frames);
	ck_tokens(want->tokens + 4, n, now.numbers + 1, now.n_numbers - 1);
	ck_assert_uint_eq(n_rows, n + 5);
	ck_assert_uint_eq(want->tokens[3], V_NO_TIMESTAMPS);
	ck_assert_uint_eq(want->tokens[n_rows - 1], V_EOT);
	ck_assert_uint_eq(want->rows[0], 3);
	ck_assert_uint_eq(want->n_rows, n);
	for (uint32_t row = 0; row < n_rows; row++)
		for (uint32_t h = 0; h < V_HEADS; h++)
			for (uint32_t f = 0; f < POSITIONS; f++) {
				int64_t i = (int64_t)row - 3;
				bool inside = i >= 0 && i <= n && now.after[i] <= f && (i == n || f < now.after[i + 1]);
				float w = inside ? 1 : 0.01f + 0.0001f * (float)((row * 31 + f * 17) % 23);
				weights[((size_t)row * V_HEADS + h) * POSITIONS + f] =
					f < positions ? w : 77 * (float)row;
			}
	for (uint32_t k = 0; k < n; k++) {
		uint32_t token = want->tokens[4 + k];
		double p = (token * 7 + k) % 5 == 0 ? 0.05 : 0.9;
		write_row(logits, token, p);
		logits[token] = (float)log(p / (1 - p) * (V_EOT - 1));
		logits[V_EOT] = 40; /* what is no text does not count */
		speech_task_feed_align_logits(task, logits);
	}
	advance();
	int failed = speech_task_feed_attention(task, weights, POSITIONS);
	free(weights);
	return failed;
}

static void ck_segment(const struct speech_segment *segment, uint32_t id)
{
	ck_kind("segment");
	ck_assert_uint_eq(segment->id, id);
	ck_assert_uint_eq(segment->frame, (uint32_t)now.numbers[0]);
	ck_assert_double_eq_tol(segment->start, now.numbers[1], 1e-4);
	ck_assert_double_eq_tol(segment->end, now.numbers[2], 1e-4);
	ck_assert_double_eq_tol(segment->temperature, now.numbers[3], 1e-6);
	ck_assert_double_eq_tol(segment->avg_log_probability, now.numbers[4], 1e-4);
	ck_assert_double_eq_tol(segment->compression_ratio, now.numbers[5], 1e-6);
	ck_assert_double_eq_tol(segment->no_speech_probability, now.numbers[6], 1e-5);
	ck_tokens(segment->tokens, segment->n_tokens, now.numbers + 7, now.n_numbers - 7);
	ck_bytes(segment->text, segment->n_bytes, now.text);
	advance();
	for (uint32_t i = 0; i < segment->n_words; i++) {
		const struct speech_word *word = &segment->words[i];
		ck_kind("word");
		ck_assert_double_eq_tol(word->start, now.numbers[0], 1e-4);
		ck_assert_double_eq_tol(word->end, now.numbers[1], 1e-4);
		ck_assert_double_eq_tol(word->probability, now.numbers[2], 1e-3);
		ck_bytes(segment->words_text + word->text, word->n_bytes, now.text);
		advance();
	}
}

/* The case's line: number, language, task, frames, thresholds and switches in the order that the script writes them. */
static struct speech_options read_options(uint32_t *content_frames, const struct speech_clip *clips, char *texts)
{
	struct speech_options o;
	char task[16];
	float no_speech, log_p, ratio, silence;
	int number, condition, without, words, prefix, cut;
	speech_options_default(&o);
	ck_assert_int_eq(sscanf(next_line, "case %d %7s %15s %u %f %f %f %f %d %f %u %d %d %f %d %d", &number,
				o.language, task, content_frames, &o.length_penalty, &log_p, &no_speech, &ratio,
				&condition, &o.prompt_reset_on_temperature, &o.n_temperatures, &without, &words,
				&silence, &prefix, &cut),
			 16);
	o.beam_size = o.best_of = 1;
	o.n_suppress = 0, o.suppress_blank = false;
	o.translate = !strcmp(task, "translate");
	o.log_probability_threshold = log_p, o.no_speech_threshold = no_speech, o.compression_ratio_threshold = ratio;
	o.condition_on_previous_text = condition, o.without_timestamps = without, o.word_timestamps = words;
	o.hallucination_silence_threshold = silence;
	if (prefix)
		o.prefix = (struct speech_given){" yes ", 5};
	o.clips = clips, o.n_clips = cut ? 2 : 0;
	next_line = strchr(next_line, '\n') + 1;
	for (int i = 0; i < 2; i++, texts += 1000) {
		advance();
		strcpy(texts, now.text);
		*(i ? &o.hotwords : &o.initial_prompt) = (struct speech_given){*texts ? texts : NULL, strlen(texts)};
	}
	return o;
}

static void run_case(const struct vocabulary *v)
{
	const struct speech_clip clips[] = {{3, 12.5}, {20, INFINITY}};
	static char texts[2000];
	uint32_t content_frames, frame = 0, n_frames = 0, n_segments = 0;
	struct speech_options options = read_options(&content_frames, clips, texts);
	struct speech_task *task;
	struct err err;
	bool first = false;
	int failed = speech_task_new(v->table, v->tokenizer, V_N, content_frames, &options, &task, &err);
	ck_assert_msg(!failed, "%s", err.text);
	advance();
	for (const struct speech_want *want; !failed && (want = speech_task_want(task))->kind != SPEECH_DONE;)
		switch (want->kind) {
		case SPEECH_ENCODE:
			frame = want->frame, n_frames = want->n_frames;
			failed = speech_task_feed_encoded(task);
			break;
		case SPEECH_PROMPT:
			failed = feed_prompt(task, frame);
			first = true;
			break;
		case SPEECH_STEP:
			failed = feed_step(task, frame, &first);
			break;
		case SPEECH_ALIGN:
			failed = feed_alignment(task, n_frames);
			break;
		default:
			ck_segment(want->segment, n_segments++);
			failed = speech_task_next(task);
		}
	ck_assert_int_eq(failed, 0);
	ck_kind("end");
	speech_task_free(task);
}

static void read_recorded(void)
{
	char path[4096];
	const char *srcdir = getenv("srcdir");
	snprintf(path, sizeof path, "%s/tests/speech/windows.txt", srcdir ? srcdir : ".");
	FILE *file = fopen(path, "r");
	ck_assert_msg(file != NULL, "%s", path);
	recorded = calloc(1, 1 << 20);
	ck_assert_uint_lt(fread(recorded, 1, (1 << 20) - 1, file), (1 << 20) - 1);
	fclose(file);
	next_line = strstr(recorded, "\ncase ") + 1;
}

START_TEST(windows_prompts_segments_and_words_are_those_recorded)
{
	struct vocabulary v;
	int n = 0;
	vocabulary_init(&v);
	read_recorded();
	for (; *next_line; n++)
		run_case(&v);
	ck_assert_int_ge(n, 50);
	free(recorded);
	vocabulary_fini(&v);
}
END_TEST

/* --- languages ---------------------------------------------------------------------------------- */

static void write_languages(double en, double zh, double de)
{
	for (uint32_t i = 0; i < V_N; i++)
		logits[i] = 50; /* only languages count */
	logits[V_EN] = (float)log(en), logits[V_ZH] = (float)log(zh), logits[V_DE] = (float)log(de);
}

/* Answers detection of up to n windows and returns the code that was found. */
static const char *detect(struct speech_task *task, const double (*heard)[3], uint32_t n, float *probability)
{
	const char *code = NULL;
	for (uint32_t i = 0; i < n; i++) {
		ck_assert(!speech_task_language(task, &code, probability));
		ck_assert_int_eq(speech_task_want(task)->kind, SPEECH_ENCODE);
		ck_assert_uint_eq(speech_task_want(task)->frame, SPEECH_FRAMES * i);
		ck_assert_int_eq(speech_task_feed_encoded(task), 0);
		ck_assert_int_eq(speech_task_want(task)->kind, SPEECH_PROMPT);
		ck_assert_uint_eq(speech_task_want(task)->n, 1);
		ck_assert_uint_eq(speech_task_want(task)->tokens[0], V_SOT);
		write_languages(heard[i][0], heard[i][1], heard[i][2]);
		ck_assert_int_eq(speech_task_feed_logits(task, logits), 0);
	}
	ck_assert(speech_task_language(task, &code, probability));
	return code;
}

static struct speech_task *begin(const struct vocabulary *v, const struct speech_options *options, uint32_t frames)
{
	struct speech_task *task;
	struct err err;
	int failed = speech_task_new(v->table, v->tokenizer, V_N, frames, options, &task, &err);
	ck_assert_msg(!failed, "%s", err.text);
	return task;
}

START_TEST(a_language_that_is_sure_is_taken_and_its_window_not_encoded_again)
{
	static const double sure[][3] = {{0.1, 0.7, 0.2}};
	struct speech_options options;
	struct vocabulary v;
	float probability;
	vocabulary_init(&v);
	speech_options_default(&options);
	options.language_windows = 4;
	struct speech_task *task = begin(&v, &options, 9000);
	ck_assert_str_eq(detect(task, sure, 1, &probability), "zh");
	ck_assert_float_eq_tol(probability, 0.7f, 1e-5f);
	ck_assert_int_eq(speech_task_want(task)->kind, SPEECH_PROMPT);
	ck_assert_uint_eq(speech_task_want(task)->n, 3);
	ck_assert_uint_eq(speech_task_want(task)->tokens[1], V_ZH);
	ck_assert_uint_eq(speech_task_want(task)->tokens[2], V_TRANSCRIBE);
	speech_task_free(task);
	vocabulary_fini(&v);
}
END_TEST

START_TEST(of_unsure_windows_most_decide)
{
	static const double unsure[][3] = {{0.2, 0.34, 0.46}, {0.3, 0.3, 0.4}, {0.45, 0.35, 0.2}};
	struct speech_options options;
	struct vocabulary v;
	float probability;
	vocabulary_init(&v);
	speech_options_default(&options);
	options.language_windows = 3;
	options.translate = true;
	struct speech_task *task = begin(&v, &options, 9000);
	ck_assert_str_eq(detect(task, unsure, 3, &probability), "de");
	ck_assert_float_eq_tol(probability, 0.46f, 1e-5f);
	ck_assert_int_eq(speech_task_want(task)->kind, SPEECH_ENCODE); /* back to the first window */
	ck_assert_uint_eq(speech_task_want(task)->frame, 0);
	ck_assert_int_eq(speech_task_feed_encoded(task), 0);
	ck_assert_uint_eq(speech_task_want(task)->tokens[1], V_DE);
	ck_assert_uint_eq(speech_task_want(task)->tokens[2], V_TRANSLATE);
	speech_task_free(task);
	vocabulary_fini(&v);
}
END_TEST

START_TEST(languages_may_change_from_window_to_window)
{
	struct speech_options options;
	struct vocabulary v;
	vocabulary_init(&v);
	speech_options_default(&options);
	strcpy(options.language, "en");
	options.multilingual = true;
	struct speech_task *task = begin(&v, &options, 3000);
	ck_assert_int_eq(speech_task_feed_encoded(task), 0);
	ck_assert_uint_eq(speech_task_want(task)->n, 1);
	write_languages(0.1, 0.2, 0.7);
	ck_assert_int_eq(speech_task_feed_logits(task, logits), 0);
	ck_assert_uint_eq(speech_task_want(task)->n, 3);
	ck_assert_uint_eq(speech_task_want(task)->tokens[1], V_DE);
	speech_task_free(task);
	vocabulary_fini(&v);
}
END_TEST

/* --- what is refused, and ends ------------------------------------------------------------------- */

static void ck_refused(const struct vocabulary *v, const struct speech_options *options, const char *part)
{
	struct speech_task *task = NULL;
	struct err err;
	ck_assert_int_eq(speech_task_new(v->table, v->tokenizer, V_N, 100, options, &task, &err), -EINVAL);
	ck_assert_msg(strstr(err.text, part) != NULL, "%s", err.text);
	ck_assert_ptr_null(task);
}

START_TEST(what_can_not_be_done_is_refused_by_name)
{
	static const int32_t beyond[] = {V_N};
	const struct speech_clip backwards[] = {{5, 3}}, crossed[] = {{0, 5}, {4, 6}};
	struct speech_options good, o;
	struct vocabulary v;
	vocabulary_init(&v);
	speech_options_default(&good);
	o = good, strcpy(o.language, "xx"), ck_refused(&v, &o, "language");
	o = good, o.beam_size = 0, ck_refused(&v, &o, "beam_size");
	o = good, o.beam_size = 33, ck_refused(&v, &o, "beam_size");
	o = good, o.best_of = 33, ck_refused(&v, &o, "best_of");
	o = good, o.patience = NAN, ck_refused(&v, &o, "patience");
	o = good, o.length_penalty = NAN, ck_refused(&v, &o, "length_penalty");
	o = good, o.repetition_penalty = 0, ck_refused(&v, &o, "repetition_penalty");
	o = good, o.n_temperatures = 0, ck_refused(&v, &o, "temperature");
	o = good, o.temperatures[1] = -1, ck_refused(&v, &o, "temperature");
	o = good, o.max_initial_timestamp = -1, ck_refused(&v, &o, "max_initial_timestamp");
	o = good, o.suppress = beyond, ck_refused(&v, &o, "suppress_tokens");
	o = good, o.clips = backwards, o.n_clips = 1, ck_refused(&v, &o, "clip");
	o = good, o.clips = crossed, o.n_clips = 2, ck_refused(&v, &o, "clip");
	v.table->is_multilingual = 0;
	o = good, strcpy(o.language, "de"), ck_refused(&v, &o, "English");
	o = good, o.translate = true, ck_refused(&v, &o, "English");
	v.table->n_heads = 0;
	o = good, o.word_timestamps = true, ck_refused(&v, &o, "word_timestamps");
	vocabulary_fini(&v);
}
END_TEST

START_TEST(without_audio_there_is_nothing_to_do)
{
	struct speech_options options;
	struct vocabulary v;
	vocabulary_init(&v);
	speech_options_default(&options);
	struct speech_task *task = begin(&v, &options, 0);
	ck_assert_int_eq(speech_task_want(task)->kind, SPEECH_DONE);
	speech_task_free(task);
	speech_task_free(NULL);
	vocabulary_fini(&v);
}
END_TEST

/* --- any model ------------------------------------------------------------------------------------ */

/* A model of English alone (no language, no task: one row of logits), noise for logits, beams and draws: whatever it
 * says, the task ends, its wants are within bounds, and the same seed gives the same. */
static uint64_t run_noise(const struct vocabulary *v, uint32_t seed, const struct speech_options *options)
{
	static float noise[SPEECH_MAX_BEAMS * V_N];
	struct speech_task *task = begin(v, options, 100 + seed * 37 % 7000);
	uint64_t sum = 0;
	uint32_t n_before = 0, state = seed;
	int failed = 0;
	for (const struct speech_want *want; !failed && (want = speech_task_want(task))->kind != SPEECH_DONE;) {
		uint32_t n_rows = want->n_rows, n = want->n;
		sum = sum * 31 + want->kind * 1000 + want->n;
		for (size_t i = 0; i < (size_t)n_rows * V_N; i++) {
			state = state * 1664525 + 1013904223;
			noise[i] = (float)(state >> 16) / 65536 * 8 - (i % V_N < V_EOT ? 0 : 4);
			noise[i] = state % 5000 == 0 ? NAN : noise[i];
		}
		switch (want->kind) {
		case SPEECH_ENCODE:
			failed = speech_task_feed_encoded(task);
			break;
		case SPEECH_PROMPT:
			ck_assert_uint_le(n, SPEECH_CONTEXT - 30);
			failed = speech_task_feed_logits(task, noise);
			break;
		case SPEECH_STEP:
			ck_assert(n >= 1 && n <= SPEECH_MAX_BEAMS && want->position < SPEECH_CONTEXT);
			for (uint32_t i = 0; i < n; i++) {
				ck_assert_uint_lt(want->tokens[i], V_N);
				ck_assert(want->parents[i] == SPEECH_FROM_PROMPT || want->parents[i] < n_before);
			}
			failed = speech_task_feed_logits(task, noise);
			break;
		case SPEECH_ALIGN: {
			float *weights = calloc((size_t)n * V_HEADS * POSITIONS, sizeof *weights);
			for (size_t i = 0; i < (size_t)n * V_HEADS * POSITIONS; i++)
				weights[i] = (float)((i * 2654435761u >> 7) % 1000);
			for (uint32_t i = 0; i < n_rows; i++)
				speech_task_feed_align_logits(task, noise);
			failed = speech_task_feed_attention(task, weights, POSITIONS);
			free(weights);
			break;
		}
		default:
			for (uint32_t i = 0; i < want->segment->n_tokens; i++)
				ck_assert(want->segment->tokens[i] != 'x' && want->segment->tokens[i] != '#');
			sum = sum * 31 + (uint64_t)(want->segment->end * 1000) + want->segment->n_bytes +
			      want->segment->n_words;
			failed = speech_task_next(task);
		}
		n_before = n;
	}
	ck_assert_int_eq(failed, 0);
	speech_task_free(task);
	return sum;
}

START_TEST(whatever_a_model_says_the_task_ends)
{
	static const int32_t suppress[] = {-1, 'x'};
	struct vocabulary v;
	vocabulary_init(&v);
	v.table->is_multilingual = 0;
	for (uint32_t seed = 0; seed < 24; seed++) {
		struct speech_options o;
		speech_options_default(&o);
		o.beam_size = 1 + seed % 5, o.best_of = 1 + seed % 3;
		o.n_temperatures = 1 + seed % 3;
		o.temperatures[0] = seed % 4 == 3 ? 0.7f : 0;
		o.max_new_tokens = 1 + seed % 40;
		o.word_timestamps = seed % 2;
		o.hallucination_silence_threshold = seed % 3 ? 0.5f : NAN;
		o.no_repeat_ngram_size = seed % 4, o.repetition_penalty = 1.1f;
		o.without_timestamps = seed % 7 == 0;
		o.no_speech_threshold = NAN;
		o.suppress = suppress, o.n_suppress = 2;
		o.hotwords = (struct speech_given){"a", 1};
		ck_assert_uint_eq(run_noise(&v, seed, &o), run_noise(&v, seed, &o));
	}
	vocabulary_fini(&v);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("speech_task");
	TCase *c = tcase_create("all");
	tcase_add_test(c, windows_prompts_segments_and_words_are_those_recorded);
	tcase_add_test(c, a_language_that_is_sure_is_taken_and_its_window_not_encoded_again);
	tcase_add_test(c, of_unsure_windows_most_decide);
	tcase_add_test(c, languages_may_change_from_window_to_window);
	tcase_add_test(c, what_can_not_be_done_is_refused_by_name);
	tcase_add_test(c, without_audio_there_is_nothing_to_do);
	tcase_add_test(c, whatever_a_model_says_the_task_ends);
	suite_add_tcase(s, c);
	return suite_run(s);
}
