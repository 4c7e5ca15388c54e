#include "tests/unit/speech_files_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/kernel/half.h"

struct ggml {
	struct speech_file *file;
	enum speech_type type;
	bool q4_0;
	uint32_t tower, layer;
};

static void ggml_begin(struct ggml *g, const char *name, uint32_t type, uint32_t n_dims, uint32_t first, uint32_t b,
		       uint32_t c)
{
	const uint32_t dims[] = {first, b, c};
	char full[128];
	char *at = full + snprintf(full, sizeof full, "%s", g->tower ? "encoder." : "decoder.");
	const char *layer = strchr(name, '%');
	if (layer)
		snprintf(at, 100, "%.*s%u%s", (int)(layer - name), name, g->layer, layer + 1);
	else
		snprintf(at, 100, "%s", name);
	speech_put_u(g->file, n_dims, 4);
	speech_put_u(g->file, (uint32_t)strlen(full), 4);
	speech_put_u(g->file, type, 4);
	for (uint32_t i = 0; i < n_dims; i++)
		speech_put_u(g->file, dims[i], 4);
	speech_put_text(g->file, full);
}

static uint32_t ggml_type(enum speech_type type)
{
	return type == SPEECH_F32 ? 0 : type == SPEECH_F16 ? 1 : 30;
}

/* A block of 32: its scale, then codes i and i + 16 in a byte. */
static void put_q4_0(struct speech_file *file, uint32_t role, uint32_t layer, uint32_t row, uint32_t col)
{
	speech_put_u(file, f16_from_f32(1 / speech_scale(role, row)), 2);
	for (uint32_t i = 0; i < 16; i++) {
		uint32_t low = (uint32_t)speech_code(role, layer, row, col + i) & 15,
			 high = (uint32_t)speech_code(role, layer, row, col + i + 16) & 15;
		speech_put_u(file, low | high << 4, 1);
	}
}

static void ggml_matrix(struct ggml *g, const char *name, uint32_t role, uint32_t rows, uint32_t cols)
{
	ggml_begin(g, name, g->q4_0 ? 2 : ggml_type(g->type), 2, cols, rows, 0);
	for (uint32_t row = 0; row < rows; row++)
		for (uint32_t col = 0; col < cols; col += g->q4_0 ? 32 : 1)
			if (g->q4_0)
				put_q4_0(g->file, role | g->tower, g->layer, row, col);
			else
				speech_put_value(g->file, g->type, speech_value(role | g->tower, g->layer, row, col));
}

/* Vectors and positions are float32 in every file; biases of convolutions have two extents. */
static void ggml_numbers(struct ggml *g, const char *name, uint32_t role, uint32_t n_dims, uint32_t rows, uint32_t cols)
{
	ggml_begin(g, name, 0, n_dims, n_dims == 2 && rows == 1 ? 1 : cols, n_dims == 2 && rows == 1 ? cols : rows, 0);
	for (uint32_t row = 0; row < rows; row++)
		for (uint32_t col = 0; col < cols; col++)
			speech_put_value(g->file, SPEECH_F32, speech_value(role | g->tower, g->layer, row, col));
}

static void ggml_convolution(struct ggml *g, const char *name, uint32_t role, uint32_t channels)
{
	ggml_begin(g, name, ggml_type(g->type), 3, TAPS, channels, DIM);
	for (uint32_t row = 0; row < DIM; row++)
		for (uint32_t i = 0; i < channels; i++)
			for (uint32_t tap = 0; tap < TAPS; tap++)
				speech_put_value(g->file, g->type,
						 speech_value(role | g->tower, 0, row, tap * channels + i));
}

static void ggml_layer(struct ggml *g)
{
	ggml_numbers(g, "blocks.%.mlp_ln.weight", IMAGE_FFN_NORM, 1, 1, DIM);
	ggml_numbers(g, "blocks.%.mlp_ln.bias", IMAGE_FFN_NORM_BIAS, 1, 1, DIM);
	ggml_matrix(g, "blocks.%.mlp.0.weight", IMAGE_FFN_UP, FFN, DIM);
	ggml_numbers(g, "blocks.%.mlp.0.bias", IMAGE_FFN_UP_BIAS, 1, 1, FFN);
	ggml_matrix(g, "blocks.%.mlp.2.weight", IMAGE_FFN_DOWN, DIM, FFN);
	ggml_numbers(g, "blocks.%.mlp.2.bias", IMAGE_FFN_DOWN_BIAS, 1, 1, DIM);
	ggml_numbers(g, "blocks.%.attn_ln.weight", IMAGE_ATTN_NORM, 1, 1, DIM);
	ggml_numbers(g, "blocks.%.attn_ln.bias", IMAGE_ATTN_NORM_BIAS, 1, 1, DIM);
	ggml_matrix(g, "blocks.%.attn.query.weight", IMAGE_ATTN_Q, DIM, DIM);
	ggml_numbers(g, "blocks.%.attn.query.bias", IMAGE_ATTN_Q_BIAS, 1, 1, DIM);
	ggml_matrix(g, "blocks.%.attn.key.weight", IMAGE_ATTN_K, DIM, DIM);
	ggml_matrix(g, "blocks.%.attn.value.weight", IMAGE_ATTN_V, DIM, DIM);
	ggml_numbers(g, "blocks.%.attn.value.bias", IMAGE_ATTN_V_BIAS, 1, 1, DIM);
	ggml_matrix(g, "blocks.%.attn.out.weight", IMAGE_ATTN_OUTPUT, DIM, DIM);
	ggml_numbers(g, "blocks.%.attn.out.bias", IMAGE_ATTN_OUTPUT_BIAS, 1, 1, DIM);
	if (g->tower)
		return;
	ggml_numbers(g, "blocks.%.cross_attn_ln.weight", IMAGE_CROSS_NORM, 1, 1, DIM);
	ggml_numbers(g, "blocks.%.cross_attn_ln.bias", IMAGE_CROSS_NORM_BIAS, 1, 1, DIM);
	ggml_matrix(g, "blocks.%.cross_attn.query.weight", IMAGE_CROSS_Q, DIM, DIM);
	ggml_numbers(g, "blocks.%.cross_attn.query.bias", IMAGE_CROSS_Q_BIAS, 1, 1, DIM);
	ggml_matrix(g, "blocks.%.cross_attn.key.weight", IMAGE_CROSS_K, DIM, DIM);
	ggml_matrix(g, "blocks.%.cross_attn.value.weight", IMAGE_CROSS_V, DIM, DIM);
	ggml_numbers(g, "blocks.%.cross_attn.value.bias", IMAGE_CROSS_V_BIAS, 1, 1, DIM);
	ggml_matrix(g, "blocks.%.cross_attn.out.weight", IMAGE_CROSS_OUTPUT, DIM, DIM);
	ggml_numbers(g, "blocks.%.cross_attn.out.bias", IMAGE_CROSS_OUTPUT_BIAS, 1, 1, DIM);
}

static void ggml_tower(struct ggml *g, uint32_t tower)
{
	g->tower = tower;
	ggml_numbers(g, "positional_embedding", IMAGE_POSITION_EMBD, 2, tower ? ENCODER_CONTEXT : CONTEXT, DIM);
	for (g->layer = 0; g->layer < (tower ? ENCODER_LAYERS : LAYERS); g->layer++)
		ggml_layer(g);
	g->layer = 0;
	ggml_numbers(g, tower ? "ln_post.weight" : "ln.weight", IMAGE_OUTPUT_NORM, 1, 1, DIM);
	ggml_numbers(g, tower ? "ln_post.bias" : "ln.bias", IMAGE_OUTPUT_NORM_BIAS, 1, 1, DIM);
	if (!tower) {
		ggml_matrix(g, "token_embedding.weight", IMAGE_TOKEN_EMBD, SPEECH_VOCAB, DIM);
		return;
	}
	ggml_convolution(g, "conv1.weight", IMAGE_CONV1, BINS);
	ggml_numbers(g, "conv1.bias", IMAGE_CONV1_BIAS, 2, 1, DIM);
	ggml_convolution(g, "conv2.weight", IMAGE_CONV2, DIM);
	ggml_numbers(g, "conv2.bias", IMAGE_CONV2_BIAS, 2, 1, DIM);
}

void speech_files_ggml(struct speech_files *out, enum speech_type type, bool q4_0)
{
	enum { FILTER_COLUMNS = 201 };
	static const char *const merged[] = {"th", " t", "the", " th"};
	const uint32_t head[] = {
		0x67676d6c,	 SPEECH_VOCAB, ENCODER_CONTEXT, DIM, 4, ENCODER_LAYERS, CONTEXT, DIM, 4, LAYERS, BINS,
		q4_0 ? 2002 : 1, BINS,	       FILTER_COLUMNS};
	memset(out, 0, sizeof *out);
	struct ggml g = {.file = speech_add(out, "ggml-tiny.bin", FILE_WEIGHTS), .type = type, .q4_0 = q4_0};
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		speech_put_u(g.file, head[i], 4);
	for (uint32_t i = 0; i < BINS * FILTER_COLUMNS; i++)
		speech_put_value(g.file, SPEECH_F32, 0);
	speech_put_u(g.file, SPEECH_WORDS, 4);
	for (uint32_t i = 0; i < SPEECH_WORDS; i++) {
		const char *word = i < 256 ? NULL : merged[i - 256];
		speech_put_u(g.file, word ? (uint32_t)strlen(word) : 1, 4);
		if (word)
			speech_put_text(g.file, word);
		else
			speech_put_u(g.file, i, 1);
	}
	ggml_tower(&g, 0);
	ggml_tower(&g, IMAGE_OF_ENCODER);
}
