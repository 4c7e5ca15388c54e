/* One transcription, from frames to segments, as a state machine without a model: it says what it wants next and is fed
 * with the outcome, so that a worker can put the rows of several calls into one pass.
 *
 *   ENCODE  ─feed_encoded─▶ PROMPT ─feed_logits─▶ STEP ⟲ feed_logits ─▶ [ALIGN] ─▶ SEGMENT ⟲ next ─▶ ENCODE … DONE
 *
 * Language detection is an ENCODE and a PROMPT of one token. A text that fails (too repetitive, too improbable) is
 * searched again at the next temperature, from the same prompt. Segments come out window by window. Where the next
 * window begins follows from the timestamps that were found, and its prompt is what was said before.
 *
 * Semantics are those of faster-whisper 1.2.1 with CTranslate2. Not its: a language is detected from the window that is
 * then transcribed (it looks at one more frame, and encodes twice); max_new_tokens is kept whatever the prompt's
 * length; a prompt that would leave no room to answer is cut; a window always moves on; of languages that were heard
 * in as many windows the more probable is taken; a text without tokens has a log-probability. Memory is the task's own
 * and bounded: a window's tokens and words, and one row of logits. */
#ifndef WEIGHTD_ENGINE_SPEECH_TASK_H
#define WEIGHTD_ENGINE_SPEECH_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/engine/speech/beam.h"
#include "src/engine/speech/options.h"
#include "src/engine/speech/words.h"
#include "src/engine/speech_table.h"
#include "src/engine/tokenizer.h"
#include "src/err.h"

enum speech_want_kind {
	SPEECH_ENCODE, /* encode frames [frame, frame + n_frames), and zeros up to SPEECH_FRAMES; the last window can go
			*/
	SPEECH_PROMPT, /* run tokens [n] at positions 0.. over the window as a sequence that steps can go on from */
	SPEECH_STEP,  /* run a token for each of n slots at `position`, slot i going on from what was slot parents[i] */
	SPEECH_ALIGN, /* run tokens [n] at positions 0.. as a sequence of its own and collect its attention */
	SPEECH_SEGMENT, /* take the segment */
	SPEECH_DONE,
};

enum {
	SPEECH_CONTEXT = 448,		/* positions of the decoder */
	SPEECH_FROM_PROMPT = UINT32_MAX /* as a parent: the prompt itself */
};

struct speech_segment {
	uint32_t id;	   /* 0.. */
	uint32_t frame;	   /* the window's */
	double start, end; /* s */
	const char *text;  /* [n_bytes] UTF-8, not terminated */
	size_t n_bytes;
	const uint32_t *tokens; /* [n_tokens] timestamps among them */
	uint32_t n_tokens;
	float temperature;
	double avg_log_probability, compression_ratio, no_speech_probability; /* of the window */
	const struct speech_word *words;				      /* [n_words] */
	uint32_t n_words;
	const char *words_text; /* what their offsets are into */
};

/* All pointers are views, valid until the next feed or next. */
struct speech_want {
	enum speech_want_kind kind;
	uint32_t frame, n_frames; /* ENCODE */
	uint32_t n;		  /* PROMPT, ALIGN: tokens; STEP: slots, 1..SPEECH_MAX_BEAMS */
	const uint32_t *tokens;	  /* [n] */
	const uint32_t *parents;  /* STEP: [n] */
	uint32_t position;	  /* STEP */
	/* Rows that logits are wanted of: PROMPT: rows[n_rows], rising; STEP: all; ALIGN: rows[0] .. rows[0] + n_rows
	 * - 1. */
	uint32_t rows[2], n_rows;
	const struct speech_segment *segment;
};

struct speech_task;

/* Begins a transcription of content_frames, the spectrogram's frames without the last one, of audio alone. Table and
 * tokenizer are borrowed until the end, options are copied. -EINVAL: an option, or a language that the model has not;
 * -ENOMEM. Returns owned. */
int speech_task_new(const struct speech_table *table, const struct tokenizer *tokenizer, uint32_t n_vocab,
		    uint32_t content_frames, const struct speech_options *options, struct speech_task **out,
		    struct err *err);
void speech_task_free(struct speech_task *task); /* takes NULL, at any time */

/* What is to be done now. View, valid until the next call that changes the task. */
const struct speech_want *speech_task_want(const struct speech_task *task);

/* ENCODE was done. 0 or -ENOMEM, as all of these: then the task can only be freed. */
int speech_task_feed_encoded(struct speech_task *task);
/* Logits [n_rows][n_vocab] that PROMPT or STEP wanted; they are changed. */
int speech_task_feed_logits(struct speech_task *task, float *logits);
/* ALIGN: the logits [n_vocab] of the next of its rows, in any number of calls before the attention is fed. */
void speech_task_feed_align_logits(struct speech_task *task, const float *logits);
/* ALIGN: weights [n][n_heads][n_positions] of all its tokens, heads as in the table, positions as the encoder has. */
int speech_task_feed_attention(struct speech_task *task, const float *weights, uint32_t n_positions);
/* SEGMENT was taken. */
int speech_task_next(struct speech_task *task);

/* The language, once it is known, and how probable it is (1 when it was given). False: not yet. */
bool speech_task_language(const struct speech_task *task, const char **code, float *probability);

#endif
