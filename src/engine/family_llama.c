/* The llama family: RMS norm, rotary positions on neighbouring pairs, grouped-query attention, SwiGLU; no biases.
 * Sources: Touvron et al., 2023; tensor and key names: GGUF's list of standardized names. */
#include "src/engine/family.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

/* Lengths that tensors have, as the hyperparameters give them. */
enum extent { ONE, DIM, VOCAB, QUERY, KEY_VALUE, FFN };

struct shape {
	enum image_role role;
	const char *pattern;
	enum extent rows, cols; /* rows ONE: a vector */
};

static const struct shape of_model[] = {
	{IMAGE_TOKEN_EMBD, "token_embd.weight", VOCAB, DIM},
	{IMAGE_OUTPUT_NORM, "output_norm.weight", ONE, DIM},
	{IMAGE_OUTPUT, "output.weight", VOCAB, DIM}, /* last: a tied model ends before it */
};

static const struct shape of_layer[] = {
	{IMAGE_ATTN_NORM, "blk.%.attn_norm.weight", ONE, DIM},
	{IMAGE_ATTN_Q, "blk.%.attn_q.weight", QUERY, DIM},
	{IMAGE_ATTN_K, "blk.%.attn_k.weight", KEY_VALUE, DIM},
	{IMAGE_ATTN_V, "blk.%.attn_v.weight", KEY_VALUE, DIM},
	{IMAGE_ATTN_OUTPUT, "blk.%.attn_output.weight", DIM, QUERY},
	{IMAGE_FFN_NORM, "blk.%.ffn_norm.weight", ONE, DIM},
	{IMAGE_FFN_GATE, "blk.%.ffn_gate.weight", FFN, DIM},
	{IMAGE_FFN_UP, "blk.%.ffn_up.weight", FFN, DIM},
	{IMAGE_FFN_DOWN, "blk.%.ffn_down.weight", DIM, FFN},
};

enum { N_OF_MODEL = sizeof of_model / sizeof *of_model, N_OF_LAYER = sizeof of_layer / sizeof *of_layer };

static uint32_t n_of_model(const struct image_config *config)
{
	return config->tied_head ? N_OF_MODEL - 1 : N_OF_MODEL;
}

static uint32_t extent(const struct image_config *config, enum extent of)
{
	switch (of) {
	case ONE:
		return 1;
	case DIM:
		return config->dim;
	case VOCAB:
		return config->vocab;
	case QUERY:
		return config->n_heads * config->head_dim;
	case KEY_VALUE:
		return config->n_kv_heads * config->head_dim;
	case FFN:
		return config->ffn_dim;
	}
	return 0;
}

static uint32_t n_tensors(const struct image_config *config)
{
	return n_of_model(config) + config->n_layers * N_OF_LAYER;
}

static void tensor(const struct image_config *config, uint32_t index, struct family_tensor *out)
{
	uint32_t n_own = n_of_model(config);
	bool per_layer = index >= n_own;
	const struct shape *shape = per_layer ? &of_layer[(index - n_own) % N_OF_LAYER] : &of_model[index];
	*out = (struct family_tensor){
		.role = shape->role,
		.layer = per_layer ? (index - n_own) / N_OF_LAYER : 0,
		.per_layer = per_layer,
		.vector = shape->rows == ONE,
		.rows = extent(config, shape->rows),
		.cols = extent(config, shape->cols),
		.pattern = shape->pattern,
	};
}

static int find(const struct image_config *config, uint32_t role, uint32_t layer)
{
	uint32_t n_own = n_of_model(config);
	for (uint32_t i = 0; i < n_own; i++)
		if ((uint32_t)of_model[i].role == role)
			return layer == 0 ? (int)i : -1;
	for (uint32_t i = 0; i < N_OF_LAYER; i++)
		if ((uint32_t)of_layer[i].role == role)
			return layer < config->n_layers ? (int)(n_own + layer * N_OF_LAYER + i) : -1;
	return -1;
}

/* --- bounds ----------------------------------------------------------------------------------- */

struct bound {
	const char *key;
	uint32_t value, least, most, multiple;
};

static int check_bounds(const struct image_config *c, const char **key, struct err *err)
{
	const struct bound bounds[] = {
		{"block_count", c->n_layers, 1, FAMILY_MAX_LAYERS, 1},
		{"embedding_length", c->dim, 32, 65536, 32},
		{"attention.head_count", c->n_heads, 1, 1024, 1},
		{"attention.head_count_kv", c->n_kv_heads, 1, 1024, 1},
		{"attention.key_length", c->head_dim, 16, 256, 16},
		{"feed_forward_length", c->ffn_dim, 32, FAMILY_MAX_COLS, 32},
		{"vocab_size", c->vocab, 1, 1 << 20, 1},
		{"context_length", c->context, 1, 1 << 24, 1},
		{"rope.dimension_count", c->rope_dim, 2, c->head_dim, 2},
	};
	for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
		const struct bound *b = &bounds[i];
		if (b->value >= b->least && b->value <= b->most && b->value % b->multiple == 0)
			continue;
		*key = b->key;
		char multiples[32] = "";
		if (b->multiple > 1)
			snprintf(multiples, sizeof multiples, ", multiples of %u", b->multiple);
		return err_set(err, -EINVAL, "%u, allowed are %u to %u%s", b->value, b->least, b->most, multiples);
	}
	return 0;
}

static int check(const struct image_config *c, const char **key, struct err *err)
{
	int rc = check_bounds(c, key, err);
	if (rc)
		return rc;
	*key = "attention.head_count";
	if (c->n_heads * c->head_dim % PACK_GROUP || c->n_heads * c->head_dim > FAMILY_MAX_COLS)
		return err_set(err, -EINVAL, "%u heads of %u values are no multiple of %d up to %d", c->n_heads,
			       c->head_dim, PACK_GROUP, FAMILY_MAX_COLS);
	*key = "attention.head_count_kv";
	if (c->n_heads % c->n_kv_heads || c->n_heads / c->n_kv_heads > 32)
		return err_set(err, -EINVAL, "%u, but %u heads have to share them evenly, 32 at most each",
			       c->n_kv_heads, c->n_heads);
	*key = "rope.freq_base";
	if (!isfinite(c->rope_base) || c->rope_base <= 0)
		return err_set(err, -EINVAL, "%g, a finite number above 0 is needed", (double)c->rope_base);
	*key = "attention.layer_norm_rms_epsilon";
	if (!isfinite(c->norm_eps) || c->norm_eps <= 0)
		return err_set(err, -EINVAL, "%g, a finite number above 0 is needed", (double)c->norm_eps);
	return 0;
}

const struct family family_llama = {
	.id = IMAGE_FAMILY_LLAMA,
	.name = "llama",
	.check = check,
	.n_tensors = n_tensors,
	.tensor = tensor,
	.find = find,
};
