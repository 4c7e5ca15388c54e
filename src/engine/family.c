#include "src/engine/family.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct family *const families[] = {&family_llama, &family_qwen2, &family_qwen3, &family_gemma3};

enum { N_FAMILIES = sizeof families / sizeof *families };

/* Every family's own tensors, those it may lack last. */
static const struct family_shape of_model[] = {
	{IMAGE_TOKEN_EMBD, "token_embd.weight", "model.embed_tokens.weight", FAMILY_VOCAB, FAMILY_DIM},
	{IMAGE_OUTPUT_NORM, "output_norm.weight", "model.norm.weight", FAMILY_ONE, FAMILY_DIM},
	{IMAGE_OUTPUT, "output.weight", "lm_head.weight", FAMILY_VOCAB, FAMILY_DIM},
	{IMAGE_ROPE_FREQS, "rope_freqs.weight", NULL, FAMILY_ONE, FAMILY_ROPE},
};

enum { N_OF_MODEL = sizeof of_model / sizeof *of_model };

const struct family *family_get(uint32_t id)
{
	for (size_t i = 0; i < N_FAMILIES; i++)
		if ((uint32_t)families[i]->id == id)
			return families[i];
	return NULL;
}

const struct family *family_find(const char *name, size_t name_bytes)
{
	for (size_t i = 0; i < N_FAMILIES; i++)
		if (strlen(families[i]->name) == name_bytes && memcmp(families[i]->name, name, name_bytes) == 0)
			return families[i];
	return NULL;
}

const char *family_names(char out[64])
{
	size_t n = 0;
	for (size_t i = 0; i < N_FAMILIES; i++) {
		const char *separator = i == 0 ? "" : i + 1 < N_FAMILIES ? ", " : " and ";
		n += (size_t)snprintf(out + n, 64 - n, "%s%s", separator, families[i]->name);
		assert(n < 64);
	}
	return out;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static bool has(const struct image_config *config, const struct family_shape *shape)
{
	if (shape->role == IMAGE_OUTPUT)
		return !config->tied_head;
	if (shape->role == IMAGE_ROPE_FREQS)
		return config->rope_scaling == IMAGE_ROPE_DIVISORS;
	return true;
}

static uint32_t n_of_model(const struct image_config *config)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < N_OF_MODEL; i++)
		n += has(config, &of_model[i]);
	return n;
}

/* The index-th of those that the model has. */
static const struct family_shape *own_shape(const struct image_config *config, uint32_t index)
{
	const struct family_shape *shape = of_model;
	while (!has(config, shape) || index-- > 0)
		shape++;
	return shape;
}

static uint32_t extent(const struct image_config *config, enum family_extent of)
{
	switch (of) {
	case FAMILY_ONE:
		return 1;
	case FAMILY_DIM:
		return config->dim;
	case FAMILY_VOCAB:
		return config->vocab;
	case FAMILY_QUERY:
		return config->n_heads * config->head_dim;
	case FAMILY_KEY_VALUE:
		return config->n_kv_heads * config->head_dim;
	case FAMILY_HEAD:
		return config->head_dim;
	case FAMILY_FFN:
		return config->ffn_dim;
	case FAMILY_ROPE:
		return config->rope_dim / 2;
	}
	return 0;
}

uint32_t family_n_tensors(const struct image_config *config)
{
	return n_of_model(config) + config->n_layers * family_get(config->family)->n_of_layer;
}

void family_tensor(const struct image_config *config, uint32_t index, struct family_tensor *out)
{
	const struct family *family = family_get(config->family);
	uint32_t n_own = n_of_model(config);
	bool per_layer = index >= n_own;
	const struct family_shape *shape =
		per_layer ? &family->layer[(index - n_own) % family->n_of_layer] : own_shape(config, index);
	*out = (struct family_tensor){
		.role = shape->role,
		.layer = per_layer ? (index - n_own) / family->n_of_layer : 0,
		.per_layer = per_layer,
		.vector = shape->rows == FAMILY_ONE,
		.rows = extent(config, shape->rows),
		.cols = extent(config, shape->cols),
		.pattern = shape->pattern,
		.hf_pattern = shape->hf_pattern,
	};
}

int family_tensor_index(const struct image_config *config, uint32_t role, uint32_t layer)
{
	const struct family *family = family_get(config->family);
	uint32_t n_own = 0;
	for (uint32_t i = 0; i < N_OF_MODEL; i++) {
		if (!has(config, &of_model[i]))
			continue;
		if ((uint32_t)of_model[i].role == role)
			return layer == 0 ? (int)n_own : -1;
		n_own++;
	}
	for (uint32_t i = 0; i < family->n_of_layer; i++)
		if ((uint32_t)family->layer[i].role == role)
			return layer < config->n_layers ? (int)(n_own + layer * family->n_of_layer + i) : -1;
	return -1;
}

static const char *fill_in(const char *pattern, uint32_t number, char out[FAMILY_NAME_BYTES])
{
	const char *layer = strchr(pattern, '%');
	if (layer)
		snprintf(out, FAMILY_NAME_BYTES, "%.*s%u%s", (int)(layer - pattern), pattern, number, layer + 1);
	else
		snprintf(out, FAMILY_NAME_BYTES, "%s", pattern);
	return out;
}

const char *family_tensor_name(const struct family_tensor *tensor, char out[FAMILY_NAME_BYTES])
{
	return fill_in(tensor->pattern, tensor->layer, out);
}

const char *family_tensor_hf_name(const struct family_tensor *tensor, char out[FAMILY_NAME_BYTES])
{
	assert(tensor->hf_pattern);
	return fill_in(tensor->hf_pattern, tensor->layer, out);
}
