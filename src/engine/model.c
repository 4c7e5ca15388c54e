#include "src/engine/model.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* Where a role's pointer belongs: exactly one of the two is set. */
struct slot {
	struct matrix *matrix;
	const float **vector;
};

static struct slot find_slot(struct model *model, uint32_t role, uint32_t layer)
{
	struct model_layer *l = &model->layers[layer];
	switch (role) {
	case IMAGE_TOKEN_EMBD:
		return (struct slot){.matrix = &model->token_embd};
	case IMAGE_OUTPUT:
		return (struct slot){.matrix = &model->head};
	case IMAGE_OUTPUT_NORM:
		return (struct slot){.vector = &model->output_norm};
	case IMAGE_ROPE_FREQS:
		return (struct slot){.vector = &model->rope_divisors};
	case IMAGE_ATTN_NORM:
		return (struct slot){.vector = &l->attn_norm};
	case IMAGE_ATTN_Q:
		return (struct slot){.matrix = &l->attn_q};
	case IMAGE_ATTN_K:
		return (struct slot){.matrix = &l->attn_k};
	case IMAGE_ATTN_V:
		return (struct slot){.matrix = &l->attn_v};
	case IMAGE_ATTN_OUTPUT:
		return (struct slot){.matrix = &l->attn_output};
	case IMAGE_FFN_NORM:
		return (struct slot){.vector = &l->ffn_norm};
	case IMAGE_FFN_GATE:
		return (struct slot){.matrix = &l->ffn_gate};
	case IMAGE_FFN_UP:
		return (struct slot){.matrix = &l->ffn_up};
	case IMAGE_FFN_DOWN:
		return (struct slot){.matrix = &l->ffn_down};
	case IMAGE_ATTN_Q_BIAS:
		return (struct slot){.vector = &l->attn_q_bias};
	case IMAGE_ATTN_K_BIAS:
		return (struct slot){.vector = &l->attn_k_bias};
	case IMAGE_ATTN_V_BIAS:
		return (struct slot){.vector = &l->attn_v_bias};
	case IMAGE_ATTN_Q_NORM:
		return (struct slot){.vector = &l->attn_q_norm};
	case IMAGE_ATTN_K_NORM:
		return (struct slot){.vector = &l->attn_k_norm};
	case IMAGE_ATTN_POST_NORM:
		return (struct slot){.vector = &l->attn_post_norm};
	case IMAGE_FFN_POST_NORM:
		return (struct slot){.vector = &l->ffn_post_norm};
	default:
		return (struct slot){0};
	}
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
	};
	model.layers = calloc(model.config.n_layers, sizeof *model.layers);
	if (!model.layers)
		return err_set(err, -ENOMEM, "no memory for the table of %u layers", model.config.n_layers);
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
	*model = (struct model){0};
}

uint32_t model_matrices(const struct model *model, struct matrix *out, uint32_t max)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < model->config.n_layers; i++) {
		const struct model_layer *l = &model->layers[i];
		const struct matrix all[] = {l->attn_q,	  l->attn_k, l->attn_v,	 l->attn_output,
					     l->ffn_gate, l->ffn_up, l->ffn_down};
		for (size_t j = 0; j < sizeof all / sizeof *all; j++, n++)
			if (n < max)
				out[n] = all[j];
	}
	if (n < max)
		out[n] = model->head;
	return n + 1;
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
