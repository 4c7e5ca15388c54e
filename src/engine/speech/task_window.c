#include <errno.h>
#include <math.h>
#include <string.h>

#include "src/engine/speech/align.h"
#include "src/engine/speech/anomaly.h"
#include "src/engine/speech/task_private.h"

void speech_task_split(struct speech_task *task)
{
	task->split = speech_window_split(task->result.tokens, task->result.n_tokens, task->table->eot,
					  task->table->first_timestamp, task->frame, task->n_frames, task->drafts);
	task->draft = 0;
	speech_words_fini(&task->words);
}

/* --- words ------------------------------------------------------------------------------------- */

/* Tokens of the segments that are text, without marks; returns their number. */
static uint32_t text_tokens(const struct speech_task *task, uint32_t *out)
{
	uint32_t n = 0;
	for (uint32_t d = 0; d < task->split.n_drafts; d++)
		for (uint32_t i = 0; i < task->drafts[d].n_tokens; i++) {
			uint32_t token = task->result.tokens[task->drafts[d].first_token + i];
			if (token < task->table->eot)
				out[n++] = token;
		}
	return n;
}

bool speech_task_wants_alignment(struct speech_task *task)
{
	uint32_t n_start = speech_task_start(task, task->prompt);
	if (!task->options.word_timestamps || task->n_frames < SPEECH_FRAMES_PER_POSITION)
		return false;
	task->prompt[n_start] = task->table->no_timestamps;
	task->n_text_tokens = text_tokens(task, task->prompt + n_start + 1);
	task->n_probabilities = 0;
	task->n_prompt = n_start + 1 + task->n_text_tokens;
	task->prompt[task->n_prompt++] = task->table->eot;
	return task->n_text_tokens > 0;
}

int speech_task_align(struct speech_task *task, const float *weights, uint32_t n_positions)
{
	uint32_t frames[SPEECH_MAX_TOKENS + 1], n = task->n_text_tokens;
	uint32_t first_row = task->n_prompt - n - 2; /* <|notimestamps|> predicts the first token of the text */
	struct speech_piece pieces[SPEECH_MAX_TOKENS];
	struct speech_pace pace;
	uint32_t n_frames = task->n_frames / SPEECH_FRAMES_PER_POSITION;
	const struct speech_attention attention = {.weights = weights,
						   .n_rows = task->n_prompt,
						   .n_heads = task->table->n_heads,
						   .n_positions = n_positions,
						   .n_frames = n_frames < n_positions ? n_frames : n_positions};
	for (uint32_t i = 0; i < n; i++)
		pieces[i].bytes =
			tokenizer_piece(task->tokenizer, task->prompt[first_row + 1 + i], false, &pieces[i].n_bytes);
	int failed = speech_align(&attention, first_row, n + 1, frames);
	if (failed)
		return failed;
	failed = speech_words_split(pieces, n, task->language && speech_by_characters(task->language->code),
				    &task->words);
	if (failed)
		return failed;
	speech_words_time(&task->words, frames, task->token_probabilities);
	failed = speech_words_pace(&task->words, &pace);
	if (failed)
		return failed;
	speech_words_join(&task->words, task->prepend, task->append);
	speech_words_deal(&task->words, task->drafts, task->split.n_drafts, (double)task->frame / SPEECH_FRAMES_PER_S,
			  &pace, task->last_speech);
	return 0;
}

/* The end of the last word of the segments, of the last segment if there is none, -1 without segments. */
static double end_of(const struct speech_task *task)
{
	uint32_t n = task->split.n_drafts;
	for (uint32_t d = n; d-- > 0;) {
		const struct speech_draft *draft = &task->drafts[d];
		if (draft->n_words)
			return task->words.words[draft->first_word + draft->n_words - 1].end;
	}
	return n ? task->drafts[n - 1].end : -1;
}

bool speech_task_settle(struct speech_task *task)
{
	uint32_t next = task->split.next_frame;
	bool skip = false;
	if (task->options.word_timestamps) {
		double offset = (double)task->frame / SPEECH_FRAMES_PER_S, end = end_of(task);
		struct speech_silence silence = {.threshold = task->options.hallucination_silence_threshold,
						 .last_speech = task->last_speech,
						 .frame = task->frame,
						 .n_frames = task->n_frames,
						 .content_frames = task->content_frames};
		if (!task->split.single_ending && end > offset)
			next = (uint32_t)rint(end * SPEECH_FRAMES_PER_S);
		if (!isnan(silence.threshold))
			speech_anomaly(&silence, &task->words, task->drafts, &task->split.n_drafts, &next, &skip);
		end = end_of(task);
		if (!skip && end >= 0)
			task->last_speech = end;
	}
	/* However odd times are, there is no standing still. */
	task->split.next_frame = next > task->frame ? next : task->frame + task->n_frames;
	return !skip;
}

/* --- segments ---------------------------------------------------------------------------------- */

/* Keeps the last tokens of what was said. */
static void remember(struct speech_task *task, const uint32_t *tokens, uint32_t n)
{
	uint32_t kept = PREVIOUS_TOKENS - (n < PREVIOUS_TOKENS ? n : PREVIOUS_TOKENS);
	if (n > PREVIOUS_TOKENS)
		tokens += n - PREVIOUS_TOKENS, n = PREVIOUS_TOKENS;
	if (task->n_previous > kept) {
		memmove(task->previous, task->previous + (task->n_previous - kept), kept * sizeof *tokens);
		task->n_previous = kept;
	}
	if (n)
		memcpy(task->previous + task->n_previous, tokens, n * sizeof *tokens);
	task->n_previous += n;
}

int speech_task_segment(struct speech_task *task)
{
	while (task->draft < task->split.n_drafts) {
		const struct speech_draft *draft = &task->drafts[task->draft++];
		const uint32_t *tokens = task->result.tokens + draft->first_token;
		task->text.n_bytes = 0;
		int failed = speech_task_decode(task, tokens, draft->n_tokens, &task->text);
		if (failed)
			return failed;
		size_t n_bytes = task->text.n_bytes;
		speech_strip(task->text.bytes, &n_bytes);
		if (draft->start == draft->end || !n_bytes)
			continue;
		remember(task, tokens, draft->n_tokens);
		task->segment = (struct speech_segment){
			.id = task->n_segments++,
			.frame = task->frame,
			.start = draft->start,
			.end = draft->end,
			.text = task->text.bytes,
			.n_bytes = task->text.n_bytes,
			.tokens = tokens,
			.n_tokens = draft->n_tokens,
			.temperature = task->result.temperature,
			.avg_log_probability = task->result.avg_log_probability,
			.compression_ratio = task->result.compression_ratio,
			.no_speech_probability = task->no_speech_probability,
			.words = draft->n_words ? task->words.words + draft->first_word : NULL,
			.n_words = draft->n_words,
			.words_text = task->words.text.bytes,
		};
		return 1;
	}
	return 0;
}
