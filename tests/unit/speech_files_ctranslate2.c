#include "tests/unit/speech_files_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file that is being written, and the tower and layer that names are of. */
struct ct2 {
	struct speech_file *file;
	enum speech_type type;
	uint32_t tower, layer, n_variables;
};

static void ct2_string(struct speech_file *file, const char *text)
{
	speech_put_u(file, (uint32_t)strlen(text) + 1, 2);
	speech_put(file, text, strlen(text) + 1);
}

static void ct2_name(struct ct2 *c, const char *name)
{
	char full[128];
	char *at = full + snprintf(full, sizeof full, "%s/", c->tower ? "encoder" : "decoder");
	const char *layer = strchr(name, '%');
	if (layer)
		snprintf(at, 100, "%.*s%u%s", (int)(layer - name), name, c->layer, layer + 1);
	else
		snprintf(at, 100, "%s", name);
	ct2_string(c->file, full);
	c->n_variables++;
}

static void ct2_shape(struct ct2 *c, enum speech_type type, uint32_t n_dims, uint32_t a, uint32_t b, uint32_t last)
{
	static const struct {
		uint32_t id, bytes;
	} types[] = {[SPEECH_F32] = {0, 4}, [SPEECH_F16] = {4, 2}, [SPEECH_BF16] = {5, 2}, [SPEECH_INT8] = {1, 1}};
	const uint32_t dims[] = {a, b, last};
	uint32_t n = types[type].bytes;
	speech_put_u(c->file, n_dims, 1);
	for (uint32_t i = 0; i < n_dims; i++, n *= dims[i - 1])
		speech_put_u(c->file, dims[i], 4);
	speech_put_u(c->file, types[type].id, 1);
	speech_put_u(c->file, n, 4);
}

static void ct2_scalar(struct ct2 *c, const char *name, uint32_t type, uint32_t bytes, uint32_t value)
{
	ct2_name(c, name);
	speech_put_u(c->file, 0, 1);
	speech_put_u(c->file, type, 1);
	speech_put_u(c->file, bytes, 4);
	speech_put_u(c->file, value, bytes);
}

/* Rows of several roles behind each other; role 0: zeros. */
static void ct2_matrix(struct ct2 *c, const char *name, const uint32_t *roles, uint32_t n, uint32_t rows, uint32_t cols,
		       bool may_shrink)
{
	bool small = c->type == SPEECH_INT8 && may_shrink;
	enum speech_type type = small ? SPEECH_INT8 : c->type == SPEECH_INT8 ? SPEECH_F32 : c->type;
	char scale[128];
	ct2_name(c, name);
	ct2_shape(c, type, 2, n * rows, cols, 0);
	for (uint32_t k = 0; k < n; k++)
		for (uint32_t row = 0; row < rows; row++)
			for (uint32_t col = 0; col < cols; col++)
				if (small)
					speech_put_u(c->file,
						     (uint32_t)speech_code(roles[k] | c->tower, c->layer, row, col), 1);
				else
					speech_put_value(c->file, type,
							 speech_value(roles[k] | c->tower, c->layer, row, col));
	if (!small)
		return;
	snprintf(scale, sizeof scale, "%s_scale", name);
	ct2_name(c, scale);
	ct2_shape(c, SPEECH_F32, 1, n * rows, 0, 0);
	for (uint32_t k = 0; k < n; k++)
		for (uint32_t row = 0; row < rows; row++)
			speech_put_value(c->file, SPEECH_F32, speech_scale(roles[k] | c->tower, row));
}

static void ct2_vector(struct ct2 *c, const char *name, const uint32_t *roles, uint32_t n, uint32_t cols)
{
	enum speech_type type = c->type == SPEECH_INT8 ? SPEECH_F32 : c->type;
	ct2_name(c, name);
	ct2_shape(c, type, 1, n * cols, 0, 0);
	for (uint32_t k = 0; k < n; k++)
		for (uint32_t col = 0; col < cols; col++)
			speech_put_value(c->file, type,
					 roles[k] ? speech_value(roles[k] | c->tower, c->layer, 0, col) : 0);
}

#define ROLES(...) (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)

static void ct2_convolution(struct ct2 *c, const char *name, uint32_t role, uint32_t channels)
{
	enum speech_type type = c->type == SPEECH_INT8 ? SPEECH_F32 : c->type;
	ct2_name(c, name);
	ct2_shape(c, type, 3, DIM, channels, TAPS);
	for (uint32_t row = 0; row < DIM; row++)
		for (uint32_t i = 0; i < channels; i++)
			for (uint32_t tap = 0; tap < TAPS; tap++)
				speech_put_value(c->file, type,
						 speech_value(role | c->tower, 0, row, tap * channels + i));
}

static void ct2_layer(struct ct2 *c)
{
	if (!c->tower) {
		ct2_vector(c, "layer_%/attention/layer_norm/beta", ROLES(IMAGE_CROSS_NORM_BIAS), DIM);
		ct2_vector(c, "layer_%/attention/layer_norm/gamma", ROLES(IMAGE_CROSS_NORM), DIM);
		ct2_vector(c, "layer_%/attention/linear_0/bias", ROLES(IMAGE_CROSS_Q_BIAS), DIM);
		ct2_matrix(c, "layer_%/attention/linear_0/weight", ROLES(IMAGE_CROSS_Q), DIM, DIM, true);
		ct2_vector(c, "layer_%/attention/linear_1/bias", ROLES(0, IMAGE_CROSS_V_BIAS), DIM);
		ct2_matrix(c, "layer_%/attention/linear_1/weight", ROLES(IMAGE_CROSS_K, IMAGE_CROSS_V), DIM, DIM, true);
		ct2_vector(c, "layer_%/attention/linear_2/bias", ROLES(IMAGE_CROSS_OUTPUT_BIAS), DIM);
		ct2_matrix(c, "layer_%/attention/linear_2/weight", ROLES(IMAGE_CROSS_OUTPUT), DIM, DIM, true);
	}
	ct2_vector(c, "layer_%/ffn/layer_norm/beta", ROLES(IMAGE_FFN_NORM_BIAS), DIM);
	ct2_vector(c, "layer_%/ffn/layer_norm/gamma", ROLES(IMAGE_FFN_NORM), DIM);
	ct2_vector(c, "layer_%/ffn/linear_0/bias", ROLES(IMAGE_FFN_UP_BIAS), FFN);
	ct2_matrix(c, "layer_%/ffn/linear_0/weight", ROLES(IMAGE_FFN_UP), FFN, DIM, true);
	ct2_vector(c, "layer_%/ffn/linear_1/bias", ROLES(IMAGE_FFN_DOWN_BIAS), DIM);
	ct2_matrix(c, "layer_%/ffn/linear_1/weight", ROLES(IMAGE_FFN_DOWN), DIM, FFN, true);
	ct2_vector(c, "layer_%/self_attention/layer_norm/beta", ROLES(IMAGE_ATTN_NORM_BIAS), DIM);
	ct2_vector(c, "layer_%/self_attention/layer_norm/gamma", ROLES(IMAGE_ATTN_NORM), DIM);
	ct2_vector(c, "layer_%/self_attention/linear_0/bias", ROLES(IMAGE_ATTN_Q_BIAS, 0, IMAGE_ATTN_V_BIAS), DIM);
	ct2_matrix(c, "layer_%/self_attention/linear_0/weight", ROLES(IMAGE_ATTN_Q, IMAGE_ATTN_K, IMAGE_ATTN_V), DIM,
		   DIM, true);
	ct2_vector(c, "layer_%/self_attention/linear_1/bias", ROLES(IMAGE_ATTN_OUTPUT_BIAS), DIM);
	ct2_matrix(c, "layer_%/self_attention/linear_1/weight", ROLES(IMAGE_ATTN_OUTPUT), DIM, DIM, true);
}

static void ct2_decoder(struct ct2 *c)
{
	enum { I8 = 1, I16 = 2, GELU = 3 };
	c->tower = 0;
	ct2_scalar(c, "activation", I8, 1, GELU);
	ct2_scalar(c, "alibi", I8, 1, 0);
	ct2_scalar(c, "alignment_heads", I16, 2, 1);
	ct2_scalar(c, "alignment_layer", I16, 2, 0xffff);
	ct2_matrix(c, "embeddings/weight", ROLES(IMAGE_TOKEN_EMBD), SPEECH_VOCAB, DIM, true);
	for (c->layer = 0; c->layer < LAYERS; c->layer++)
		ct2_layer(c);
	c->layer = 0;
	ct2_vector(c, "layer_norm/beta", ROLES(IMAGE_OUTPUT_NORM_BIAS), DIM);
	ct2_vector(c, "layer_norm/gamma", ROLES(IMAGE_OUTPUT_NORM), DIM);
	ct2_scalar(c, "num_heads", I16, 2, 4);
	ct2_matrix(c, "position_encodings/encodings", ROLES(IMAGE_POSITION_EMBD), CONTEXT, DIM, false);
	ct2_scalar(c, "pre_norm", I8, 1, 1);
	ct2_scalar(c, "scale_embeddings", I8, 1, 0);
}

static void ct2_encoder(struct ct2 *c)
{
	c->tower = IMAGE_OF_ENCODER;
	ct2_vector(c, "conv1/bias", ROLES(IMAGE_CONV1_BIAS), DIM);
	ct2_convolution(c, "conv1/weight", IMAGE_CONV1, BINS);
	ct2_vector(c, "conv2/bias", ROLES(IMAGE_CONV2_BIAS), DIM);
	ct2_convolution(c, "conv2/weight", IMAGE_CONV2, DIM);
	for (c->layer = 0; c->layer < ENCODER_LAYERS; c->layer++)
		ct2_layer(c);
	c->layer = 0;
	ct2_vector(c, "layer_norm/beta", ROLES(IMAGE_OUTPUT_NORM_BIAS), DIM);
	ct2_vector(c, "layer_norm/gamma", ROLES(IMAGE_OUTPUT_NORM), DIM);
	ct2_scalar(c, "num_heads", 2, 2, 4);
	ct2_matrix(c, "position_encodings/encodings", ROLES(IMAGE_POSITION_EMBD), ENCODER_CONTEXT, DIM, false);
}

void speech_files_ctranslate2(struct speech_files *out, enum speech_type type)
{
	memset(out, 0, sizeof *out);
	struct ct2 c = {.file = speech_add(out, "model.bin", FILE_WEIGHTS), .type = type};
	speech_put_u(c.file, 6, 4);
	ct2_string(c.file, "WhisperSpec");
	speech_put_u(c.file, 3, 4);
	size_t count_at = c.file->n_bytes;
	speech_put_u(c.file, 0, 4);
	ct2_decoder(&c);
	ct2_encoder(&c);
	memcpy(c.file->bytes + count_at, &c.n_variables, 4);
	speech_put_u(c.file, 1, 4);
	ct2_string(c.file, "decoder/projection/weight");
	ct2_string(c.file, "decoder/embeddings/weight");
	speech_put_text(speech_add(out, "config.json", FILE_BESIDE),
			"{\"alignment_heads\":[[1,0],[1,3]],\"lang_ids\":[262,263],\"suppress_ids\":[1,2,261],"
			"\"suppress_ids_begin\":[32,260]}");
	speech_add_tokenizer(out);
}
