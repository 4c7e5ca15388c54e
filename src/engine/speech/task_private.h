/* What the parts of a task share: task.c moves from want to want, task_prompt.c makes prompts, task_window.c makes
 * segments of what was found. */
#ifndef WEIGHTD_ENGINE_SPEECH_TASK_PRIVATE_H
#define WEIGHTD_ENGINE_SPEECH_TASK_PRIVATE_H

#include "src/engine/speech/task.h"

enum {
	PREVIOUS_TOKENS = SPEECH_CONTEXT / 2 - 1, /* of what was said before, in a prompt */
	LEAST_ROOM = 32,			  /* positions that a prompt leaves for the answer */
};

/* What a window's search at one temperature gave. */
struct speech_result {
	uint32_t tokens[SPEECH_MAX_TOKENS]; /* [n_tokens] */
	uint32_t n_tokens;
	float temperature;
	double avg_log_probability, compression_ratio;
};

/* What an ENCODE, PROMPT or ALIGN that was fed is for. */
enum speech_stage {
	STAGE_DETECT,	    /* the audio's language */
	STAGE_DETECT_AGAIN, /* the window's */
	STAGE_WINDOW,
};

struct speech_task {
	const struct speech_table *table;   /* borrowed */
	const struct tokenizer *tokenizer;  /* borrowed */
	struct speech_options options;	    /* its pointers are not to be used any more, but these: */
	struct speech_clip *clips;	    /* [options.n_clips] owned */
	char *prepend, *append;		    /* owned */
	struct token_list prefix, hotwords; /* owned */
	struct token_list suppressed;	    /* owned */
	struct speech_rules rules;
	uint32_t content_frames;
	double last_speech;

	struct speech_want want;
	enum speech_stage stage;

	const struct speech_language *language; /* NULL: not known, or the model has English alone */
	float language_probability;
	bool language_known;
	uint32_t *language_votes; /* [n_languages] owned */
	float *language_best;	  /* [n_languages] owned */
	uint32_t n_language_windows, detect_frame;

	uint32_t clip, frame, n_frames;		/* the window */
	uint32_t encoded_frame, encoded_frames; /* 0 frames: none */
	uint32_t previous[PREVIOUS_TOKENS], n_previous;
	uint32_t prompt[SPEECH_CONTEXT], n_prompt, n_given; /* the last n_given of it are part of the text */
	uint32_t sot_row;
	double no_speech_probability;
	float *first_logits; /* [n_vocab] owned, of the prompt's last row; NULL with one temperature */

	struct speech_search search;
	uint32_t temperature; /* index */
	uint32_t step_tokens[SPEECH_MAX_BEAMS], step_parents[SPEECH_MAX_BEAMS];
	struct speech_result result, best, best_varied; /* best of all, and of those that do not repeat themselves */
	bool have_best, have_varied;

	struct speech_draft drafts[SPEECH_MAX_TOKENS + 1];
	struct speech_window_split split;
	struct speech_words words;
	float *token_probabilities; /* [SPEECH_MAX_TOKENS] owned, NULL without words */
	uint32_t n_text_tokens, n_probabilities;
	uint32_t draft; /* the next to come out */
	struct speech_segment segment;
	struct speech_text text; /* the segment's */
	uint32_t n_segments;
};

/* Tokens that a text never has, by the options. -EINVAL, -ENOMEM. */
int speech_task_suppress(struct speech_task *task, const struct speech_options *options, struct err *err);

/* Encodes a given text behind a blank, its first `max` tokens; the last ones if `last`. -ENOMEM. */
int speech_task_encode(const struct tokenizer *tokenizer, const struct speech_given *given, uint32_t max, bool last,
		       struct token_list *out, struct err *err);

/* Puts <|startoftranscript|>, language and task, if the model has them, at `out`; returns their number, 1 to 3. */
uint32_t speech_task_start(const struct speech_task *task, uint32_t *out);

/* Makes the window's prompt. */
void speech_task_prompt(struct speech_task *task);

/* Appends the text of tokens [n] that are not marks. 0 or -ENOMEM. */
int speech_task_decode(const struct speech_task *task, const uint32_t *tokens, uint32_t n, struct speech_text *text);

/* Splits the window's result. Then words may be wanted. */
void speech_task_split(struct speech_task *task);
/* Whether words are to be aligned, and with which tokens: fills prompt and n_prompt. */
bool speech_task_wants_alignment(struct speech_task *task);
/* Gives segments their words. 0 or -ENOMEM. */
int speech_task_align(struct speech_task *task, const float *weights, uint32_t n_positions);
/* With the words, or without any, decides where the next window begins. False: the window counts for nothing. */
bool speech_task_settle(struct speech_task *task);
/* Makes the next segment that has text. 1, 0: there is none, or -ENOMEM. */
int speech_task_segment(struct speech_task *task);

#endif
