#include "tests/unit/speech_files_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A safetensors file: header and data grow beside each other. */
struct hf {
	struct speech_file header, data;
	enum speech_type type;
	uint32_t tower, layer;
};

static void hf_begin(struct hf *h, const char *name, uint32_t n_dims, uint32_t a, uint32_t b, uint32_t last)
{
	static const char *const types[] = {[SPEECH_F32] = "F32", [SPEECH_F16] = "F16", [SPEECH_BF16] = "BF16"};
	char item[256], full[128], shape[64];
	const char *layer = strchr(name, '%');
	size_t n = (size_t)a * (n_dims > 1 ? b : 1) * (n_dims > 2 ? last : 1) * (h->type == SPEECH_F32 ? 4 : 2);
	if (layer)
		snprintf(full, sizeof full, "%.*s%u%s", (int)(layer - name), name, h->layer, layer + 1);
	else
		snprintf(full, sizeof full, "%s", name);
	int used = snprintf(shape, sizeof shape, "%u", a);
	if (n_dims > 1)
		used += snprintf(shape + used, sizeof shape - (size_t)used, ",%u", b);
	if (n_dims > 2)
		snprintf(shape + used, sizeof shape - (size_t)used, ",%u", last);
	snprintf(item, sizeof item, "%s\"model.%s.%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
		 h->header.n_bytes ? "," : "{", h->tower ? "encoder" : "decoder", full, types[h->type], shape,
		 h->data.n_bytes, h->data.n_bytes + n);
	speech_put_text(&h->header, item);
}

static void hf_put(struct hf *h, const char *name, uint32_t role, uint32_t rows, uint32_t cols)
{
	hf_begin(h, name, rows ? 2 : 1, rows ? rows : cols, cols, 0);
	for (uint32_t row = 0; row < (rows ? rows : 1); row++)
		for (uint32_t col = 0; col < cols; col++)
			speech_put_value(&h->data, h->type, speech_value(role | h->tower, h->layer, row, col));
}

static void hf_convolution(struct hf *h, const char *name, uint32_t role, uint32_t channels)
{
	hf_begin(h, name, 3, DIM, channels, TAPS);
	for (uint32_t row = 0; row < DIM; row++)
		for (uint32_t i = 0; i < channels; i++)
			for (uint32_t tap = 0; tap < TAPS; tap++)
				speech_put_value(&h->data, h->type,
						 speech_value(role | h->tower, 0, row, tap * channels + i));
}

static void hf_layer(struct hf *h)
{
	hf_put(h, "layers.%.fc1.weight", IMAGE_FFN_UP, FFN, DIM);
	hf_put(h, "layers.%.fc1.bias", IMAGE_FFN_UP_BIAS, 0, FFN);
	hf_put(h, "layers.%.fc2.weight", IMAGE_FFN_DOWN, DIM, FFN);
	hf_put(h, "layers.%.fc2.bias", IMAGE_FFN_DOWN_BIAS, 0, DIM);
	hf_put(h, "layers.%.final_layer_norm.weight", IMAGE_FFN_NORM, 0, DIM);
	hf_put(h, "layers.%.final_layer_norm.bias", IMAGE_FFN_NORM_BIAS, 0, DIM);
	hf_put(h, "layers.%.self_attn.k_proj.weight", IMAGE_ATTN_K, DIM, DIM);
	hf_put(h, "layers.%.self_attn.v_proj.weight", IMAGE_ATTN_V, DIM, DIM);
	hf_put(h, "layers.%.self_attn.v_proj.bias", IMAGE_ATTN_V_BIAS, 0, DIM);
	hf_put(h, "layers.%.self_attn.q_proj.weight", IMAGE_ATTN_Q, DIM, DIM);
	hf_put(h, "layers.%.self_attn.q_proj.bias", IMAGE_ATTN_Q_BIAS, 0, DIM);
	hf_put(h, "layers.%.self_attn.out_proj.weight", IMAGE_ATTN_OUTPUT, DIM, DIM);
	hf_put(h, "layers.%.self_attn.out_proj.bias", IMAGE_ATTN_OUTPUT_BIAS, 0, DIM);
	hf_put(h, "layers.%.self_attn_layer_norm.weight", IMAGE_ATTN_NORM, 0, DIM);
	hf_put(h, "layers.%.self_attn_layer_norm.bias", IMAGE_ATTN_NORM_BIAS, 0, DIM);
	if (h->tower)
		return;
	hf_put(h, "layers.%.encoder_attn.k_proj.weight", IMAGE_CROSS_K, DIM, DIM);
	hf_put(h, "layers.%.encoder_attn.v_proj.weight", IMAGE_CROSS_V, DIM, DIM);
	hf_put(h, "layers.%.encoder_attn.v_proj.bias", IMAGE_CROSS_V_BIAS, 0, DIM);
	hf_put(h, "layers.%.encoder_attn.q_proj.weight", IMAGE_CROSS_Q, DIM, DIM);
	hf_put(h, "layers.%.encoder_attn.q_proj.bias", IMAGE_CROSS_Q_BIAS, 0, DIM);
	hf_put(h, "layers.%.encoder_attn.out_proj.weight", IMAGE_CROSS_OUTPUT, DIM, DIM);
	hf_put(h, "layers.%.encoder_attn.out_proj.bias", IMAGE_CROSS_OUTPUT_BIAS, 0, DIM);
	hf_put(h, "layers.%.encoder_attn_layer_norm.weight", IMAGE_CROSS_NORM, 0, DIM);
	hf_put(h, "layers.%.encoder_attn_layer_norm.bias", IMAGE_CROSS_NORM_BIAS, 0, DIM);
}

static void hf_tower(struct hf *h, uint32_t tower)
{
	h->tower = tower;
	for (h->layer = 0; h->layer < (tower ? ENCODER_LAYERS : LAYERS); h->layer++)
		hf_layer(h);
	h->layer = 0;
	hf_put(h, "layer_norm.weight", IMAGE_OUTPUT_NORM, 0, DIM);
	hf_put(h, "layer_norm.bias", IMAGE_OUTPUT_NORM_BIAS, 0, DIM);
	hf_put(h, "embed_positions.weight", IMAGE_POSITION_EMBD, tower ? ENCODER_CONTEXT : CONTEXT, DIM);
	if (!tower) {
		hf_put(h, "embed_tokens.weight", IMAGE_TOKEN_EMBD, SPEECH_VOCAB, DIM);
		return;
	}
	hf_convolution(h, "conv1.weight", IMAGE_CONV1, BINS);
	hf_put(h, "conv1.bias", IMAGE_CONV1_BIAS, 0, DIM);
	hf_convolution(h, "conv2.weight", IMAGE_CONV2, DIM);
	hf_put(h, "conv2.bias", IMAGE_CONV2_BIAS, 0, DIM);
}

void speech_files_hf(struct speech_files *out, enum speech_type type)
{
	struct hf h = {.type = type};
	memset(out, 0, sizeof *out);
	struct speech_file *weights = speech_add(out, "model.safetensors", FILE_WEIGHTS);
	hf_tower(&h, IMAGE_OF_ENCODER);
	hf_tower(&h, 0);
	speech_put_text(&h.header, "}");
	speech_put_u(weights, (uint32_t)h.header.n_bytes, 4);
	speech_put_u(weights, 0, 4);
	speech_put(weights, h.header.bytes, h.header.n_bytes);
	speech_put(weights, h.data.bytes, h.data.n_bytes);
	free(h.header.bytes);
	free(h.data.bytes);
	speech_put_text(speech_add(out, "config.json", FILE_BESIDE),
			"{\"model_type\":\"whisper\",\"architectures\":[\"WhisperForConditionalGeneration\"],"
			"\"activation_function\":\"gelu\",\"d_model\":64,\"vocab_size\":1771,\"decoder_layers\":2,"
			"\"encoder_layers\":3,\"decoder_attention_heads\":4,\"encoder_attention_heads\":4,"
			"\"decoder_ffn_dim\":96,\"encoder_ffn_dim\":96,\"max_target_positions\":32,"
			"\"max_source_positions\":50,\"num_mel_bins\":80,\"scale_embedding\":false,"
			"\"begin_suppress_tokens\":[32,260]}");
	speech_put_text(speech_add(out, "generation_config.json", FILE_BESIDE),
			"{\"alignment_heads\":[[1,0],[1,3]],\"suppress_tokens\":[1,2,261],\"eos_token_id\":260}");
	speech_add_tokenizer(out);
}
