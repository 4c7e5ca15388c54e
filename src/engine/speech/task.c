#include "src/engine/speech/task.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/speech/task_private.h"

static int next_window(struct speech_task *task);

/* --- making ------------------------------------------------------------------------------------ */

static int find_language(struct speech_task *task, struct err *err)
{
	const struct speech_table *table = task->table;
	const char *code = task->options.language;
	if (!table->is_multilingual) {
		if (code[0] && strcmp(code, "en"))
			return err_set(err, -EINVAL, "language: the model knows English (\"en\") alone, not \"%.7s\"",
				       code);
		if (task->options.translate)
			return err_set(err, -EINVAL,
				       "translation: the model knows English alone; ask for a transcription");
		task->language_known = true;
		task->language_probability = 1;
		return 0;
	}
	for (uint32_t i = 0; code[0] && i < table->n_languages; i++)
		if (!strcmp(speech_languages(table)[i].code, code))
			task->language = &speech_languages(table)[i];
	if (code[0] && !task->language)
		return err_set(err, -EINVAL,
			       "language: the model does not know \"%.7s\"; leave it out to have it detected", code);
	task->language_known = task->language;
	task->language_probability = 1;
	return 0;
}

static int copy_options(struct speech_task *task, const struct speech_options *options, struct err *err)
{
	const struct speech_clip everything = {0, INFINITY};
	const struct speech_clip *clips = options->n_clips ? options->clips : &everything;
	task->options.n_clips = options->n_clips ? options->n_clips : 1;
	task->clips = calloc(task->options.n_clips, sizeof *clips);
	task->prepend = strdup(options->prepend_punctuations ? options->prepend_punctuations : "");
	task->append = strdup(options->append_punctuations ? options->append_punctuations : "");
	if (!task->clips || !task->prepend || !task->append)
		return err_set(err, -ENOMEM, "out of memory");
	memcpy(task->clips, clips, task->options.n_clips * sizeof *clips);

	struct token_list before = {0};
	int failed = speech_task_suppress(task, options, err);
	if (!failed)
		failed = speech_task_encode(task->tokenizer, &options->prefix, SPEECH_MAX_TOKENS - 3, false,
					    &task->prefix, err);
	if (!failed)
		failed = speech_task_encode(task->tokenizer, &options->hotwords, PREVIOUS_TOKENS, false,
					    &task->hotwords, err);
	if (!failed)
		failed = speech_task_encode(task->tokenizer, &options->initial_prompt, PREVIOUS_TOKENS, true, &before,
					    err);
	if (!failed && before.n) {
		memcpy(task->previous, before.ids, before.n * sizeof *before.ids);
		task->n_previous = (uint32_t)before.n;
	}
	token_list_fini(&before);
	return failed;
}

static int make_room(struct speech_task *task, struct err *err)
{
	uint32_t n_languages = task->table->n_languages ? task->table->n_languages : 1;
	task->language_votes = calloc(n_languages, sizeof *task->language_votes);
	task->language_best = calloc(n_languages, sizeof *task->language_best);
	if (task->options.n_temperatures > 1)
		task->first_logits = malloc(task->rules.n_vocab * sizeof *task->first_logits);
	if (task->options.word_timestamps)
		task->token_probabilities = calloc(SPEECH_MAX_TOKENS, sizeof *task->token_probabilities);
	if (!task->language_votes || !task->language_best ||
	    (task->options.n_temperatures > 1 && !task->first_logits) ||
	    (task->options.word_timestamps && !task->token_probabilities))
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

static void set_rules(struct speech_task *task)
{
	const struct speech_options *options = &task->options;
	struct speech_rules *rules = &task->rules;
	rules->eot = task->table->eot;
	rules->no_timestamps = task->table->no_timestamps;
	rules->first_timestamp = task->table->first_timestamp;
	rules->timestamps = !options->without_timestamps;
	rules->max_initial_timestamp = (uint32_t)rint(options->max_initial_timestamp * SPEECH_POSITIONS_PER_S);
	rules->repetition_penalty = options->repetition_penalty;
	rules->no_repeat_ngram = options->no_repeat_ngram_size;
	if (options->suppress_blank) {
		rules->suppressed_begin = speech_suppressed_begin(task->table);
		rules->n_suppressed_begin = task->table->n_suppressed_begin;
	}
}

static uint32_t first_frame(const struct speech_task *task)
{
	double frame = task->clips[0].start * SPEECH_FRAMES_PER_S;
	return frame < task->content_frames ? (uint32_t)frame : 0;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int want_encoded(struct speech_task *task, uint32_t frame, uint32_t n_frames)
{
	task->want = (struct speech_want){.kind = SPEECH_ENCODE, .frame = frame, .n_frames = n_frames};
	if (task->encoded_frames == n_frames && task->encoded_frame == frame)
		return speech_task_feed_encoded(task); /* it is there: the language was detected in it */
	return 0;
}

static int want_language(struct speech_task *task)
{
	task->stage = STAGE_DETECT;
	return want_encoded(task, task->detect_frame,
			    smaller(SPEECH_FRAMES, task->content_frames - task->detect_frame));
}

int speech_task_new(const struct speech_table *table, const struct tokenizer *tokenizer, uint32_t n_vocab,
		    uint32_t content_frames, const struct speech_options *options, struct speech_task **out,
		    struct err *err)
{
	int failed = speech_options_check(options, err);
	if (failed)
		return failed;
	if (options->word_timestamps && !table->n_heads)
		return err_set(
			err, -EINVAL,
			"word_timestamps: the model does not say which heads tell the time of words (alignment_heads)");
	struct speech_task *task = calloc(1, sizeof *task);
	if (!task)
		return err_set(err, -ENOMEM, "out of memory");
	task->table = table;
	task->tokenizer = tokenizer;
	task->options = *options;
	task->content_frames = content_frames;
	task->rules.n_vocab = n_vocab;
	failed = find_language(task, err);
	if (!failed)
		failed = copy_options(task, options, err);
	if (!failed)
		failed = make_room(task, err);
	if (!failed) {
		set_rules(task);
		task->detect_frame = first_frame(task);
		failed = task->language_known || !content_frames ? next_window(task) : want_language(task);
	}
	if (failed) {
		speech_task_free(task);
		return failed;
	}
	*out = task;
	return 0;
}

void speech_task_free(struct speech_task *task)
{
	if (!task)
		return;
	speech_search_fini(&task->search);
	speech_words_fini(&task->words);
	speech_text_fini(&task->text);
	token_list_fini(&task->prefix);
	token_list_fini(&task->hotwords);
	token_list_fini(&task->suppressed);
	free(task->clips);
	free(task->prepend);
	free(task->append);
	free(task->language_votes);
	free(task->language_best);
	free(task->first_logits);
	free(task->token_probabilities);
	free(task);
}

const struct speech_want *speech_task_want(const struct speech_task *task)
{
	return &task->want;
}

bool speech_task_language(const struct speech_task *task, const char **code, float *probability)
{
	if (!task->language_known)
		return false;
	*code = task->language ? task->language->code : "en";
	*probability = task->language_probability;
	return true;
}

/* --- windows ------------------------------------------------------------------------------------ */

static uint32_t frame_of(double s, uint32_t most)
{
	double frame = rint(s * SPEECH_FRAMES_PER_S);
	return frame < most ? (uint32_t)frame : most;
}

/* Goes to the next window with audio, from task->frame on. */
static int next_window(struct speech_task *task)
{
	for (; task->clip < task->options.n_clips; task->clip++) {
		uint32_t start = frame_of(task->clips[task->clip].start, task->content_frames);
		uint32_t end = frame_of(task->clips[task->clip].end, task->content_frames);
		if (task->frame < start)
			task->frame = start;
		if (task->frame >= end)
			continue;
		task->stage = STAGE_WINDOW;
		task->n_frames = smaller(SPEECH_FRAMES, end - task->frame);
		return want_encoded(task, task->frame, task->n_frames);
	}
	task->want = (struct speech_want){.kind = SPEECH_DONE};
	return 0;
}

static void want_prompt(struct speech_task *task)
{
	task->want = (struct speech_want){.kind = SPEECH_PROMPT, .n = task->n_prompt, .tokens = task->prompt};
	task->want.rows[task->want.n_rows++] = task->sot_row;
	if (task->sot_row != task->n_prompt - 1)
		task->want.rows[task->want.n_rows++] = task->n_prompt - 1;
}

static void want_detection(struct speech_task *task)
{
	task->prompt[0] = task->table->sot;
	task->n_prompt = 1;
	task->sot_row = 0;
	want_prompt(task);
}

static void want_text(struct speech_task *task)
{
	task->stage = STAGE_WINDOW;
	speech_task_prompt(task);
	want_prompt(task);
}

int speech_task_feed_encoded(struct speech_task *task)
{
	task->encoded_frame = task->want.frame;
	task->encoded_frames = task->want.n_frames;
	if (task->stage == STAGE_WINDOW && task->options.multilingual && task->table->is_multilingual)
		task->stage = STAGE_DETECT_AGAIN;
	if (task->stage == STAGE_WINDOW)
		want_text(task);
	else
		want_detection(task);
	return 0;
}

/* Of a token among the first n; 0 in a broken row. */
static double probability_of(const float *logits, uint32_t n, uint32_t token)
{
	double p = exp(logits[token] - speech_log_sum_exp(logits, n));
	return isnan(p) ? 0 : p;
}

/* --- the language ------------------------------------------------------------------------------- */

/* The most probable language, by the tokens of languages alone. */
static uint32_t hear_language(const struct speech_task *task, const float *logits, float *probability)
{
	const struct speech_language *languages = speech_languages(task->table);
	uint32_t best = 0;
	double sum = 0;
	for (uint32_t i = 1; i < task->table->n_languages; i++)
		if (logits[languages[i].token] > logits[languages[best].token])
			best = i;
	for (uint32_t i = 0; i < task->table->n_languages; i++)
		sum += exp((double)logits[languages[i].token] - logits[languages[best].token]);
	*probability = isnan(sum) ? 0 : (float)(1 / sum); /* of a broken row */
	return best;
}

static void set_language(struct speech_task *task, uint32_t language, float probability)
{
	task->language = &speech_languages(task->table)[language];
	task->language_probability = probability;
	task->language_known = true;
}

/* A window that is sure decides, else most windows. */
static int feed_language(struct speech_task *task, const float *logits)
{
	float probability;
	uint32_t heard = hear_language(task, logits, &probability);
	if (task->stage == STAGE_DETECT_AGAIN) {
		set_language(task, heard, probability);
		want_text(task);
		return 0;
	}
	task->language_votes[heard]++;
	task->language_best[heard] = fmaxf(task->language_best[heard], probability);
	task->detect_frame += SPEECH_FRAMES;
	if (!(probability > task->options.language_threshold)) {
		if (++task->n_language_windows < task->options.language_windows &&
		    task->detect_frame < task->content_frames)
			return want_language(task);
		for (uint32_t i = 0; i < task->table->n_languages; i++)
			if (task->language_votes[i] > task->language_votes[heard] ||
			    (task->language_votes[i] == task->language_votes[heard] &&
			     task->language_best[i] > task->language_best[heard]))
				heard = i;
		probability = task->language_best[heard];
	}
	set_language(task, heard, probability);
	return next_window(task);
}

/* --- the search --------------------------------------------------------------------------------- */

static uint32_t longest_text(const struct speech_task *task)
{
	/* The mark before the text is the search's first row. */
	uint32_t room = SPEECH_CONTEXT - (task->n_prompt - task->n_given - 1), max = smaller(SPEECH_MAX_TOKENS, room);
	uint32_t asked = task->options.max_new_tokens;
	return asked && asked < max - task->n_given ? task->n_given + asked : max;
}

static int begin_search(struct speech_task *task)
{
	const struct speech_options *options = &task->options;
	const struct speech_search_params params = {
		.beam_size = options->beam_size,
		.best_of = options->best_of,
		.patience = options->patience,
		.length_penalty = options->length_penalty,
		.temperature = options->temperatures[task->temperature],
		/* Draws of different windows and temperatures have nothing to do with each other. */
		.seed = options->seed + ((uint64_t)task->frame << 16 | task->temperature << 8),
		.max_tokens = longest_text(task),
	};
	speech_search_fini(&task->search);
	return speech_search_init(&task->search, &task->rules, &params, task->prompt + (task->n_prompt - task->n_given),
				  task->n_given);
}

static void want_step(struct speech_task *task, bool first)
{
	const struct speech_search *search = &task->search;
	for (uint32_t i = 0; i < search->n_live; i++) {
		task->step_tokens[i] = speech_search_token(search, i);
		task->step_parents[i] = first ? SPEECH_FROM_PROMPT : search->parents[i];
	}
	task->want = (struct speech_want){.kind = SPEECH_STEP,
					  .n = search->n_live,
					  .tokens = task->step_tokens,
					  .parents = task->step_parents,
					  .position = task->n_prompt + (search->n_tokens - task->n_given) - 1,
					  .n_rows = search->n_live};
}

static int take_result(struct speech_task *task)
{
	const struct speech_text_found *found = speech_search_best(&task->search);
	struct speech_result *result = &task->result;
	memcpy(result->tokens, found->tokens, found->n_tokens * sizeof *found->tokens);
	result->n_tokens = found->n_tokens;
	result->temperature = task->options.temperatures[task->temperature];
	result->avg_log_probability = (double)found->log_probability / (found->n_tokens + 1);
	task->text.n_bytes = 0;
	int failed = speech_task_decode(task, result->tokens, result->n_tokens, &task->text);
	if (failed)
		return failed;
	size_t n_bytes = task->text.n_bytes;
	const char *text = speech_strip(task->text.bytes, &n_bytes);
	return speech_compression_ratio(text, n_bytes, &result->compression_ratio);
}

/* Whether the text fails, and so the next temperature is to be tried. Keeps the best of those that failed. */
static bool fails(struct speech_task *task)
{
	const struct speech_options *o = &task->options;
	const struct speech_result *r = &task->result;
	bool repeats = r->compression_ratio > o->compression_ratio_threshold;
	bool improbable = r->avg_log_probability < o->log_probability_threshold;
	bool silent = improbable && task->no_speech_probability > o->no_speech_threshold;
	if (!task->have_best || r->avg_log_probability > task->best.avg_log_probability)
		task->best = *r;
	task->have_best = true;
	if (!isnan(o->compression_ratio_threshold) && !repeats) {
		if (!task->have_varied || r->avg_log_probability > task->best_varied.avg_log_probability)
			task->best_varied = *r;
		task->have_varied = true;
	}
	return (repeats || improbable) && !silent;
}

/* --- a window's end ----------------------------------------------------------------------------- */

static int emit(struct speech_task *task)
{
	int has = speech_task_segment(task);
	if (has < 0)
		return has;
	if (has) {
		task->want = (struct speech_want){.kind = SPEECH_SEGMENT, .segment = &task->segment};
		return 0;
	}
	if (!task->options.condition_on_previous_text ||
	    task->result.temperature > task->options.prompt_reset_on_temperature)
		task->n_previous = 0;
	task->frame = task->split.next_frame;
	return next_window(task);
}

static int settle(struct speech_task *task)
{
	if (speech_task_settle(task))
		return emit(task);
	task->frame = task->split.next_frame;
	return next_window(task);
}

static bool is_silent(const struct speech_task *task)
{
	const struct speech_options *o = &task->options;
	return task->no_speech_probability > o->no_speech_threshold &&
	       !(task->result.avg_log_probability > o->log_probability_threshold);
}

static int conclude(struct speech_task *task)
{
	if (is_silent(task)) {
		task->frame += task->n_frames;
		return next_window(task);
	}
	speech_task_split(task);
	if (!speech_task_wants_alignment(task))
		return settle(task);
	task->want = (struct speech_want){.kind = SPEECH_ALIGN,
					  .n = task->n_prompt,
					  .tokens = task->prompt,
					  .rows = {task->n_prompt - task->n_text_tokens - 2},
					  .n_rows = task->n_text_tokens};
	return 0;
}

/* Feeds the search; goes on with the next temperature while texts fail. */
static int search(struct speech_task *task, float *logits, bool first)
{
	for (;;) {
		speech_search_feed(&task->search, logits);
		if (task->search.n_live) {
			want_step(task, first);
			return 0;
		}
		int failed = take_result(task);
		if (failed)
			return failed;
		if (!fails(task))
			return conclude(task);
		if (++task->temperature == task->options.n_temperatures)
			break;
		failed = begin_search(task);
		if (failed)
			return failed;
		memcpy(logits, task->first_logits, task->rules.n_vocab * sizeof *logits);
		first = true;
	}
	float last = task->result.temperature; /* the prompt is reset by the temperature that was reached */
	task->result = task->have_varied ? task->best_varied : task->best;
	task->result.temperature = last;
	return conclude(task);
}

static int feed_prompt(struct speech_task *task, float *logits)
{
	uint32_t n_vocab = task->rules.n_vocab;
	float *last = logits + (size_t)(task->want.n_rows - 1) * n_vocab;
	task->no_speech_probability = probability_of(logits, n_vocab, task->table->no_speech);
	if (task->first_logits)
		memcpy(task->first_logits, last, n_vocab * sizeof *last);
	task->temperature = 0;
	task->have_best = task->have_varied = false;
	int failed = begin_search(task);
	return failed ? failed : search(task, last, true);
}

int speech_task_feed_logits(struct speech_task *task, float *logits)
{
	if (task->want.kind == SPEECH_STEP)
		return search(task, logits, false);
	return task->stage == STAGE_WINDOW ? feed_prompt(task, logits) : feed_language(task, logits);
}

void speech_task_feed_align_logits(struct speech_task *task, const float *logits)
{
	uint32_t token = task->prompt[task->want.rows[0] + 1 + task->n_probabilities];
	task->token_probabilities[task->n_probabilities++] = (float)probability_of(logits, task->table->eot, token);
}

int speech_task_feed_attention(struct speech_task *task, const float *weights, uint32_t n_positions)
{
	int failed = speech_task_align(task, weights, n_positions);
	return failed ? failed : settle(task);
}

int speech_task_next(struct speech_task *task)
{
	return emit(task);
}
