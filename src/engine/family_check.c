/* Bounds of hyperparameters. What is let through here is computed with, so the sizes that follow from it must not
 * overflow, and what a family has no use for must be off: an image whose window nobody attends to would be wrong. */
#include "src/engine/family.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

struct bound {
	const char *key;
	uint32_t value, least, most, multiple;
};

static int check_bounds(const struct image_config *c, const char **key, struct err *err)
{
	const struct family *family = family_get(c->family);
	bool hears = family->encoder_layer != NULL, rotates = !family->learns_positions;
	const struct bound bounds[] = {
		{"block_count", c->n_layers, 1, FAMILY_MAX_LAYERS, 1},
		{"embedding_length", c->dim, 32, 65536, 32},
		{"attention.head_count", c->n_heads, 1, 1024, 1},
		{"attention.head_count_kv", c->n_kv_heads, 1, 1024, 1},
		{"attention.key_length", c->head_dim, 16, 256, 16},
		{"feed_forward_length", c->ffn_dim, 32, FAMILY_MAX_COLS, 32},
		{"vocab_size", c->vocab, 1, 1 << 20, 1},
		{"context_length", c->context, 1, 1 << 24, 1},
		{"rope.dimension_count", c->rope_dim, rotates ? 2 : 0, rotates ? c->head_dim : 0, 2},
		{"attention.sliding_window", c->window, 0, 1 << 24, 1},
		{"attention.sliding_window_pattern", c->window_period, 0, FAMILY_MAX_LAYERS, 1},
		{"rope.scaling.type", c->rope_scaling, 0, rotates ? IMAGE_ROPE_DIVISORS : 0, 1},
		{"encoder.block_count", c->encoder_layers, hears, hears ? FAMILY_MAX_LAYERS : 0, 1},
		{"encoder.context_length", c->encoder_context, hears, hears ? 1 << 16 : 0, 1},
		{"encoder.mel_bins", c->mel_bins, hears ? 16 : 0, hears ? 512 : 0, hears ? 16 : 1},
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

static int check_heads(const struct image_config *c, const char **key, struct err *err)
{
	*key = "attention.head_count";
	if (c->n_heads * c->head_dim % PACK_GROUP || c->n_heads * c->head_dim > FAMILY_MAX_COLS)
		return err_set(err, -EINVAL, "%u heads of %u values are no multiple of %d up to %d", c->n_heads,
			       c->head_dim, PACK_GROUP, FAMILY_MAX_COLS);
	*key = "attention.head_count_kv";
	if (c->n_heads % c->n_kv_heads || c->n_heads / c->n_kv_heads > 32)
		return err_set(err, -EINVAL, "%u, but %u heads have to share them evenly, 32 at most each",
			       c->n_kv_heads, c->n_heads);
	return 0;
}

static bool is_off(float value)
{
	return value == 0 && !signbit(value);
}

static int check_positive(const struct image_config *c, const char **key, struct err *err)
{
	const struct {
		const char *key;
		float value;
	} positive[] = {
		{"rope.freq_base", c->rope_base},
		{"attention.layer_norm_rms_epsilon", c->norm_eps},
		{"embedding_scale", c->embedding_scale},
		{"attention.scale", c->attention_scale},
	};
	for (size_t i = 0; i < sizeof positive / sizeof *positive; i++) {
		*key = positive[i].key;
		if (i == 0 && family_get(c->family)->learns_positions) {
			if (!is_off(c->rope_base))
				return err_set(err, -EINVAL, "%g, but the family rotates nothing",
					       (double)c->rope_base);
			continue;
		}
		if (!isfinite(positive[i].value) || positive[i].value <= 0)
			return err_set(err, -EINVAL, "%g, a finite number above 0 is needed",
				       (double)positive[i].value);
	}
	return 0;
}

/* --- what only some families have ------------------------------------------------------------- */

static int check_traits(const struct image_config *c, const char **key, struct err *err)
{
	const struct family *family = family_get(c->family);
	*key = "activation";
	if (c->activation != (uint32_t)family->activation)
		return err_set(err, -EINVAL, "%u, the family's is %u", c->activation, (unsigned)family->activation);
	*key = "embedding_scale";
	if (!family->scales_embedding && !(c->embedding_scale == 1))
		return err_set(err, -EINVAL, "%g, the family's is 1", (double)c->embedding_scale);
	*key = "rope.pairing";
	bool pairs = family->rope_in_pairs || family->learns_positions; /* 0 where nothing is rotated */
	if (family->learns_positions && c->rope_pairing)
		return err_set(err, -EINVAL, "%u, but the family rotates nothing", c->rope_pairing);
	if (c->rope_pairing > IMAGE_ROPE_HALVES || (c->rope_pairing == IMAGE_ROPE_PAIRS && !pairs))
		return err_set(err, -EINVAL, "%u, the family has no such order", c->rope_pairing);
	*key = "attention.sliding_window";
	if (c->window && !family->may_have_window)
		return err_set(err, -EINVAL, "%u, but the family has no windows", c->window);
	*key = "attention.sliding_window_pattern";
	if (c->window_period && !(family->alternates_window && c->window))
		return err_set(err, -EINVAL, "%u, but there are no windows to alternate", c->window_period);
	*key = "rope.freq_base_swa";
	bool allowed = family->alternates_window && c->window && isfinite(c->window_rope_base);
	if (!is_off(c->window_rope_base) && !(allowed && c->window_rope_base > 0))
		return err_set(err, -EINVAL, "%g, a finite number above 0 is needed, and a window",
			       (double)c->window_rope_base);
	return 0;
}

/* A parameter that the kind of scaling uses is above 0 and finite; one that it doesn't is 0. */
static int check_scaling(const struct image_config *c, const char **key, struct err *err)
{
	bool yarn = c->rope_scaling == IMAGE_ROPE_YARN, by_turns = yarn || c->rope_scaling == IMAGE_ROPE_LLAMA3;
	const struct {
		const char *key;
		float value;
		bool used;
	} parameters[] = {
		{"rope.scaling.factor", c->rope_factor, by_turns || c->rope_scaling == IMAGE_ROPE_LINEAR},
		{"rope.scaling.original_context_length", (float)c->rope_original, by_turns},
		{"rope.scaling.yarn_beta_slow", c->rope_low, by_turns},
		{"rope.scaling.yarn_beta_fast", c->rope_high, by_turns},
		{"rope.scaling.attn_factor", c->rope_magnitude, yarn},
	};
	for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
		float value = parameters[i].value;
		*key = parameters[i].key;
		if (parameters[i].used && !(isfinite(value) && value > 0))
			return err_set(err, -EINVAL, "%g, a finite number above 0 is needed", (double)value);
		if (!parameters[i].used && !is_off(value))
			return err_set(err, -EINVAL, "%g, but this kind of scaling has no use for it", (double)value);
	}
	*key = "rope.scaling.yarn_beta_fast";
	if (by_turns && !(c->rope_high > c->rope_low))
		return err_set(err, -EINVAL, "%g, must be above %g", (double)c->rope_high, (double)c->rope_low);
	return 0;
}

int family_check(const struct image_config *c, const char **key, struct err *err)
{
	int rc = check_bounds(c, key, err);
	if (rc == 0)
		rc = check_heads(c, key, err);
	if (rc == 0)
		rc = check_positive(c, key, err);
	if (rc == 0)
		rc = check_traits(c, key, err);
	return rc ? rc : check_scaling(c, key, err);
}
