#include "src/engine/family.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct family *const families[] = {&family_llama, &family_qwen2, &family_qwen3, &family_gemma3,
						&family_whisper};

enum { N_FAMILIES = sizeof families / sizeof *families, N_HEAR = 1 /* the last of them */ };

/* What models that write texts have, those that they may lack last. */
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
		if (!families[i]->encoder_layer && strlen(families[i]->name) == name_bytes &&
		    memcmp(families[i]->name, name, name_bytes) == 0)
			return families[i];
	return NULL;
}

const char *family_names(char out[64])
{
	enum { N_WRITE = N_FAMILIES - N_HEAR };
	size_t n = 0;
	for (size_t i = 0; i < N_WRITE; i++) {
		const char *separator = i == 0 ? "" : i + 1 < N_WRITE ? ", " : " and ";
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

/* The model's own shapes, of which it may lack some. */
static const struct family_shape *own_shapes(const struct family *family, uint32_t *n)
{
	*n = family->model ? family->n_of_model : N_OF_MODEL;
	return family->model ? family->model : of_model;
}

static uint32_t n_of_model(const struct image_config *config)
{
	uint32_t n = 0, n_shapes;
	const struct family_shape *shapes = own_shapes(family_get(config->family), &n_shapes);
	for (uint32_t i = 0; i < n_shapes; i++)
		n += has(config, &shapes[i]);
	return n;
}

/* The index-th of those that the model has. */
static const struct family_shape *own_shape(const struct image_config *config, uint32_t index)
{
	uint32_t n_shapes;
	const struct family_shape *shape = own_shapes(family_get(config->family), &n_shapes);
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
	case FAMILY_CONTEXT:
		return config->context;
	case FAMILY_ENCODER_CONTEXT:
		return config->encoder_context;
	case FAMILY_CONV1:
		return (3 * config->mel_bins + PACK_GROUP - 1) / PACK_GROUP * PACK_GROUP;
	case FAMILY_CONV2:
		return 3 * config->dim;
	}
	return 0;
}

/* The model's own come first, then those of the layers, then those of the encoder's. */
uint32_t family_n_tensors(const struct image_config *config)
{
	const struct family *family = family_get(config->family);
	return n_of_model(config) + config->n_layers * family->n_of_layer +
	       config->encoder_layers * family->n_of_encoder_layer;
}

/* The shape with an index, and its layer; *per_layer: whether it is a layer's. */
static const struct family_shape *shape_at(const struct image_config *config, uint32_t index, uint32_t *layer,
					   bool *per_layer)
{
	const struct family *family = family_get(config->family);
	uint32_t n_own = n_of_model(config), n_of_layers = config->n_layers * family->n_of_layer;
	*layer = 0;
	*per_layer = index >= n_own;
	if (!*per_layer)
		return own_shape(config, index);
	index -= n_own;
	if (index < n_of_layers) {
		*layer = index / family->n_of_layer;
		return &family->layer[index % family->n_of_layer];
	}
	index -= n_of_layers;
	*layer = index / family->n_of_encoder_layer;
	return &family->encoder_layer[index % family->n_of_encoder_layer];
}

void family_tensor(const struct image_config *config, uint32_t index, struct family_tensor *out)
{
	uint32_t layer;
	bool per_layer;
	const struct family_shape *shape = shape_at(config, index, &layer, &per_layer);
	*out = (struct family_tensor){
		.role = shape->role,
		.layer = layer,
		.per_layer = per_layer,
		.vector = shape->rows == FAMILY_ONE,
		.rows = extent(config, shape->rows),
		.cols = extent(config, shape->cols),
		.pattern = shape->pattern,
		.hf_pattern = shape->hf_pattern,
	};
}

static int find_in_layers(const struct family_shape *shapes, uint32_t n_shapes, uint32_t n_layers, uint32_t role,
			  uint32_t layer)
{
	for (uint32_t i = 0; i < n_shapes; i++)
		if ((uint32_t)shapes[i].role == role)
			return layer < n_layers ? (int)(layer * n_shapes + i) : -1;
	return -1;
}

int family_tensor_index(const struct image_config *config, uint32_t role, uint32_t layer)
{
	const struct family *family = family_get(config->family);
	uint32_t n_own = 0, n_shapes;
	const struct family_shape *shapes = own_shapes(family, &n_shapes);
	for (uint32_t i = 0; i < n_shapes; i++) {
		if (!has(config, &shapes[i]))
			continue;
		if ((uint32_t)shapes[i].role == role)
			return layer == 0 ? (int)n_own : -1;
		n_own++;
	}
	int at = find_in_layers(family->layer, family->n_of_layer, config->n_layers, role, layer);
	if (at >= 0)
		return (int)n_own + at;
	at = find_in_layers(family->encoder_layer, family->n_of_encoder_layer, config->encoder_layers, role, layer);
	return at < 0 ? -1 : (int)(n_own + config->n_layers * family->n_of_layer) + at;
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
