/* A small speech model with random weights, made in memory without a file, an engine over it, and the same model once
 * more in double and plain loops: what the passes of speech models are held against. */
#ifndef WEIGHTD_TESTS_TINY_SPEECH_H
#define WEIGHTD_TESTS_TINY_SPEECH_H

#include "src/engine/speech/encoder.h"

enum {
	TINY_DIM = 128, /* two heads */
	TINY_HEAD_DIM = 64,
	TINY_FFN = 160,
	TINY_WORDS = 307,
	TINY_CONTEXT = 70,
	TINY_POSITIONS = 555, /* more than the encoder takes at once, and not a whole number of pages */
	TINY_BINS = 80,
	TINY_LAYERS = 2,
	TINY_ENCODER_LAYERS = 3,
	TINY_HEADS_HEARD = 3,
};

struct tiny_speech {
	struct model model;
	struct speech_table *table;
};

struct tiny_speech *tiny_speech_new(enum pack_kind kind, unsigned seed);
void tiny_speech_free(struct tiny_speech *tiny);
/* [2 * TINY_POSITIONS][TINY_BINS] random frames, owned. */
float *tiny_speech_mel(unsigned seed);

struct tiny_listener {
	struct gemm *gemm;
	struct team *team;
	struct arena arena;
	struct kv kv;
	struct forward *forward;
	struct encoder *encoder;
};

struct tiny_listener_setup {
	enum cpu_level level;
	enum numerics numerics;
	enum kv_type kv_type;
	unsigned n_threads;
};

void tiny_listener_init(struct tiny_listener *e, const struct model *model, const struct tiny_listener_setup *setup);
void tiny_listener_fini(struct tiny_listener *e);

/* The encoder's output [TINY_POSITIONS][TINY_DIM] in double, owned. */
double *tiny_speech_states(const struct model *model, const float *mel);
/* Logits [n][TINY_WORDS] of tokens [n], one sequence that hears `states`; and what the table's heads attend to,
 * attended [n][TINY_HEADS_HEARD][TINY_POSITIONS]. */
void tiny_speech_logits(const struct model *model, const double *states, const uint32_t *tokens, uint32_t n,
			double *logits, double *attended);
/* y [w->rows] = w x + bias, bias NULL: none. */
void tiny_speech_linear(const struct matrix *w, const float *bias, const double *x, double *y);

#endif
