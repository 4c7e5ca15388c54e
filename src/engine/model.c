#include "src/engine/model.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* Where a role's pointer belongs: exactly one of the two is set. */
struct slot {
	struct matrix *matrix;
	const float **vector;
};

/* What the model itself has. */
static struct slot model_slot(struct model *model, uint32_t role)
{
	struct model_encoder *encoder = &model->encoder;
	switch (role) {
	case IMAGE_TOKEN_EMBD:
		return (struct slot){.matrix = &model->token_embd};
	case IMAGE_OUTPUT:
		return (struct slot){.matrix = &model->head};
	case IMAGE_OUTPUT_NORM:
		return (struct slot){.vector = &model->output_norm};
	case IMAGE_OUTPUT_NORM_BIAS:
		return (struct slot){.vector = &model->output_norm_bias};
	case IMAGE_POSITION_EMBD:
		return (struct slot){.matrix = &model->position_embd};
	case IMAGE_ROPE_FREQS:
		return (struct slot){.vector = &model->rope_divisors};
	case IMAGE_OF_ENCODER | IMAGE_CONV1:
		return (struct slot){.matrix = &encoder->conv1};
	case IMAGE_OF_ENCODER | IMAGE_CONV1_BIAS:
		return (struct slot){.vector = &encoder->conv1_bias};
	case IMAGE_OF_ENCODER | IMAGE_CONV2:
		return (struct slot){.matrix = &encoder->conv2};
	case IMAGE_OF_ENCODER | IMAGE_CONV2_BIAS:
		return (struct slot){.vector = &encoder->conv2_bias};
	case IMAGE_OF_ENCODER | IMAGE_POSITION_EMBD:
		return (struct slot){.matrix = &encoder->position_embd};
	case IMAGE_OF_ENCODER | IMAGE_OUTPUT_NORM:
		return (struct slot){.vector = &encoder->output_norm};
	case IMAGE_OF_ENCODER | IMAGE_OUTPUT_NORM_BIAS:
		return (struct slot){.vector = &encoder->output_norm_bias};
	default:
		return (struct slot){0};
	}
}

static struct slot cross_slot(struct model_layer *l, uint32_t role)
{
	switch (role) {
	case IMAGE_CROSS_NORM:
		return (struct slot){.vector = &l->cross_norm};
	case IMAGE_CROSS_NORM_BIAS:
		return (struct slot){.vector = &l->cross_norm_bias};
	case IMAGE_CROSS_Q:
		return (struct slot){.matrix = &l->cross_q};
	case IMAGE_CROSS_K:
		return (struct slot){.matrix = &l->cross_k};
	case IMAGE_CROSS_V:
		return (struct slot){.matrix = &l->cross_v};
	case IMAGE_CROSS_OUTPUT:
		return (struct slot){.matrix = &l->cross_output};
	case IMAGE_CROSS_Q_BIAS:
		return (struct slot){.vector = &l->cross_q_bias};
	case IMAGE_CROSS_V_BIAS:
		return (struct slot){.vector = &l->cross_v_bias};
	case IMAGE_CROSS_OUTPUT_BIAS:
		return (struct slot){.vector = &l->cross_output_bias};
	default:
		return (struct slot){0};
	}
}

/* What a layer of either tower has. */
static struct slot layer_slot(struct model_layer *l, uint32_t role)
{
	switch (role) {
	case IMAGE_ATTN_NORM:
		return (struct slot){.vector = &l->attn_norm};
	case IMAGE_ATTN_NORM_BIAS:
		return (struct slot){.vector = &l->attn_norm_bias};
	case IMAGE_ATTN_Q:
		return (struct slot){.matrix = &l->attn_q};
	case IMAGE_ATTN_K:
		return (struct slot){.matrix = &l->attn_k};
	case IMAGE_ATTN_V:
		return (struct slot){.matrix = &l->attn_v};
	case IMAGE_ATTN_OUTPUT:
		return (struct slot){.matrix = &l->attn_output};
	case IMAGE_ATTN_Q_BIAS:
		return (struct slot){.vector = &l->attn_q_bias};
	case IMAGE_ATTN_K_BIAS:
		return (struct slot){.vector = &l->attn_k_bias};
	case IMAGE_ATTN_V_BIAS:
		return (struct slot){.vector = &l->attn_v_bias};
	case IMAGE_ATTN_OUTPUT_BIAS:
		return (struct slot){.vector = &l->attn_output_bias};
	case IMAGE_ATTN_Q_NORM:
		return (struct slot){.vector = &l->attn_q_norm};
	case IMAGE_ATTN_K_NORM:
		return (struct slot){.vector = &l->attn_k_norm};
	case IMAGE_ATTN_POST_NORM:
		return (struct slot){.vector = &l->attn_post_norm};
	case IMAGE_FFN_NORM:
		return (struct slot){.vector = &l->ffn_norm};
	case IMAGE_FFN_NORM_BIAS:
		return (struct slot){.vector = &l->ffn_norm_bias};
	case IMAGE_FFN_GATE:
		return (struct slot){.matrix = &l->ffn_gate};
	case IMAGE_FFN_UP:
		return (struct slot){.matrix = &l->ffn_up};
	case IMAGE_FFN_DOWN:
		return (struct slot){.matrix = &l->ffn_down};
	case IMAGE_FFN_UP_BIAS:
		return (struct slot){.vector = &l->ffn_up_bias};
	case IMAGE_FFN_DOWN_BIAS:
		return (struct slot){.vector = &l->ffn_down_bias};
	case IMAGE_FFN_POST_NORM:
		return (struct slot){.vector = &l->ffn_post_norm};
	default:
		return cross_slot(l, role);
	}
}

static struct slot find_slot(struct model *model, uint32_t role, uint32_t layer)
{
	struct slot slot = model_slot(model, role);
	if (slot.matrix || slot.vector)
		return slot;
	return role & IMAGE_OF_ENCODER ? layer_slot(&model->encoder.layers[layer], role & ~(uint32_t)IMAGE_OF_ENCODER)
				       : layer_slot(&model->layers[layer], role);
}

static uint32_t layer_window(const struct image_config *config, uint32_t layer)
{
	bool everywhere = config->window_period && (layer + 1) % config->window_period == 0;
	return everywhere ? 0 : config->window;
}

int model_open(const void *image, uint64_t bytes, struct model *out, struct err *err)
{
	int rc = image_check(image, bytes, err);
	if (rc)
		return rc;
	const char *base = image;
	const struct image_header *header = image;
	struct model model = {
		.config = header->config,
		.tokenizer = base + header->tokenizer_offset,
		.tokenizer_bytes = header->tokenizer_bytes,
		.chat_template = base + header->template_offset,
		.template_bytes = header->template_bytes,
		.speech = header->speech_bytes ? (const void *)(base + header->speech_offset) : NULL,
	};
	model.layers = calloc(model.config.n_layers, sizeof *model.layers);
	if (model.config.encoder_layers)
		model.encoder.layers = calloc(model.config.encoder_layers, sizeof *model.encoder.layers);
	if (!model.layers || (model.config.encoder_layers && !model.encoder.layers)) {
		model_close(&model);
		return err_set(err, -ENOMEM, "no memory for the table of %u layers", header->config.n_layers);
	}
	const struct image_tensor *tensors = (const void *)(base + header->tensors_offset);
	for (uint32_t i = 0; i < header->n_tensors; i++) {
		const struct image_tensor *t = &tensors[i];
		struct slot slot = find_slot(&model, t->role, t->layer);
		const void *data = base + t->offset;
		if (slot.matrix)
			*slot.matrix = (struct matrix){data, t->kind, t->rows, t->cols};
		else if (slot.vector)
			*slot.vector = data;
	}
	for (uint32_t i = 0; i < model.config.n_layers; i++)
		model.layers[i].window = layer_window(&model.config, i);
	if (model.config.tied_head)
		model.head = model.token_embd;
	*out = model;
	return 0;
}

void model_close(struct model *model)
{
	free(model->layers);
	free(model->encoder.layers);
	*model = (struct model){0};
}

/* Behind the `n` that are there already; how many there are then. */
static uint32_t add_matrices(const struct matrix *all, size_t n_all, struct matrix *out, uint32_t max, uint32_t n)
{
	for (size_t i = 0; i < n_all; i++) {
		if (!all[i].rows)
			continue;
		if (n < max)
			out[n] = all[i];
		n++;
	}
	return n;
}

static uint32_t add_layers(const struct model_layer *layers, uint32_t n_layers, struct matrix *out, uint32_t max,
			   uint32_t n)
{
	for (uint32_t i = 0; i < n_layers; i++) {
		const struct model_layer *l = &layers[i];
		const struct matrix all[] = {l->attn_q,	  l->attn_k,  l->attn_v,  l->attn_output,
					     l->cross_q,  l->cross_k, l->cross_v, l->cross_output,
					     l->ffn_gate, l->ffn_up,  l->ffn_down};
		n = add_matrices(all, sizeof all / sizeof *all, out, max, n);
	}
	return n;
}

uint32_t model_matrices(const struct model *model, struct matrix *out, uint32_t max)
{
	const struct matrix convolutions[] = {model->encoder.conv1, model->encoder.conv2};
	uint32_t n = add_layers(model->layers, model->config.n_layers, out, max, 0);
	n = add_matrices(convolutions, 2, out, max, n);
	n = add_layers(model->encoder.layers, model->config.encoder_layers, out, max, n);
	return add_matrices(&model->head, 1, out, max, n);
}

int model_gemm(const struct model *model, enum cpu_level level, enum numerics numerics, struct gemm **out,
	       struct err *err)
{
	uint32_t n = model_matrices(model, NULL, 0);
	struct matrix *all = calloc(n, sizeof *all);
	if (!all)
		return err_set(err, -ENOMEM, "no memory for the list of %u matrices", n);
	model_matrices(model, all, n);
	int rc = gemm_new(level, kernels_plain(level, numerics), all, n, out, err);
	free(all);
	return rc;
}
