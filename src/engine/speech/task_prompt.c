#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/speech/symbols.h"
#include "src/engine/speech/task_private.h"

/* --- what is suppressed ------------------------------------------------------------------------ */

static int push(struct token_list *list, uint32_t id)
{
	if (list->n == list->capacity) {
		size_t capacity = list->capacity ? 2 * list->capacity : 128;
		uint32_t *ids = realloc(list->ids, capacity * sizeof *ids);
		if (!ids)
			return -ENOMEM;
		list->ids = ids;
		list->capacity = capacity;
	}
	list->ids[list->n++] = id;
	return 0;
}

int speech_task_suppress(struct speech_task *task, const struct speech_options *options, struct err *err)
{
	const struct speech_table *table = task->table;
	const uint32_t marks[] = {table->transcribe, table->translate, table->sot,
				  table->sot_prev,   table->sot_lm,    table->no_speech};
	int failed = 0;
	for (uint32_t i = 0; !failed && i < options->n_suppress; i++) {
		int32_t id = options->suppress[i];
		if (id < -1 || (id >= 0 && (uint32_t)id >= task->rules.n_vocab))
			return err_set(err, -EINVAL,
				       "suppress_tokens: %d is no token; ids are 0 to %u, or -1 for the model's list",
				       id, task->rules.n_vocab - 1);
		if (id >= 0)
			failed = push(&task->suppressed, (uint32_t)id);
		for (uint32_t k = 0; !failed && id == -1 && k < table->n_suppressed; k++)
			failed = push(&task->suppressed, speech_suppressed(table)[k]);
		if (id == -1 && !table->n_suppressed)
			failed = speech_symbols(task->tokenizer, &task->suppressed, err);
	}
	for (uint32_t i = 0; !failed && options->n_suppress && i < sizeof marks / sizeof *marks; i++)
		failed = push(&task->suppressed, marks[i]);
	task->rules.suppressed = task->suppressed.ids;
	task->rules.n_suppressed = (uint32_t)task->suppressed.n;
	return failed ? err_set(err, failed, "out of memory") : 0;
}

/* --- prompts ----------------------------------------------------------------------------------- */

int speech_task_encode(const struct tokenizer *tokenizer, const struct speech_given *given, uint32_t max, bool last,
		       struct token_list *out, struct err *err)
{
	if (!given->bytes)
		return 0;
	size_t n = given->n_bytes;
	const char *text = speech_strip(given->bytes, &n);
	char *blank = malloc(n + 1);
	if (!blank)
		return err_set(err, -ENOMEM, "out of memory");
	blank[0] = ' ';
	if (n)
		memcpy(blank + 1, text, n);
	int failed = tokenizer_encode(tokenizer, blank, n + 1, false, false, n + 1, out, err);
	free(blank);
	if (failed || out->n <= max)
		return failed;
	if (last)
		memmove(out->ids, out->ids + (out->n - max), max * sizeof *out->ids);
	out->n = max;
	return 0;
}

uint32_t speech_task_start(const struct speech_task *task, uint32_t *out)
{
	out[0] = task->table->sot;
	if (!task->language)
		return 1;
	out[1] = task->language->token;
	out[2] = task->options.translate ? task->table->translate : task->table->transcribe;
	return 3;
}

static void append(struct speech_task *task, const uint32_t *ids, uint32_t n)
{
	if (n)
		memcpy(task->prompt + task->n_prompt, ids, n * sizeof *ids);
	task->n_prompt += n;
}

/* [<|startofprev|> hotwords, what was said before] start [<|notimestamps|>] [<|0.00|> prefix] */
void speech_task_prompt(struct speech_task *task)
{
	bool timestamps = !task->options.without_timestamps, prefixed = task->frame == 0 && task->prefix.n;
	uint32_t n_hotwords = task->prefix.n && task->frame == 0 ? 0 : (uint32_t)task->hotwords.n;
	uint32_t n_prefix = prefixed ? (uint32_t)task->prefix.n : 0, start[3], n_start = speech_task_start(task, start);
	uint32_t fixed = 1 + n_hotwords + n_start + 1 + n_prefix, n_previous = task->n_previous;
	uint32_t room = SPEECH_CONTEXT - LEAST_ROOM - fixed;
	n_previous = n_previous < room ? n_previous : room;
	task->n_prompt = 0;
	if (n_previous || n_hotwords)
		append(task, &task->table->sot_prev, 1);
	append(task, task->hotwords.ids, n_hotwords);
	append(task, task->previous + (task->n_previous - n_previous), n_previous);
	task->sot_row = task->n_prompt;
	append(task, start, n_start);
	if (!timestamps)
		append(task, &task->table->no_timestamps, 1);
	task->n_given = task->n_prompt;
	if (prefixed && timestamps)
		append(task, &task->table->first_timestamp, 1);
	append(task, task->prefix.ids, n_prefix);
	task->n_given = task->n_prompt - task->n_given;
}

int speech_task_decode(const struct speech_task *task, const uint32_t *tokens, uint32_t n, struct speech_text *text)
{
	struct speech_piece pieces[SPEECH_MAX_TOKENS];
	uint32_t n_pieces = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (tokens[i] >= task->table->eot)
			continue;
		struct speech_piece *piece = &pieces[n_pieces++];
		piece->bytes = tokenizer_piece(task->tokenizer, tokens[i], false, &piece->n_bytes);
	}
	return speech_text_append(text, pieces, n_pieces);
}
