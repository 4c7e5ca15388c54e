/* Defaults are those of the GGUF specification or, where it has none, those of the program that writes these files:
 * keys were added over the years, and older files lack them. */
#include "src/load/model_gguf_config.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *model_gguf_key(const struct family *family, const char *suffix, char out[MODEL_GGUF_KEY_BYTES])
{
	snprintf(out, MODEL_GGUF_KEY_BYTES, "%s.%s", family->name, suffix);
	return out;
}

int model_gguf_refuse(const struct gguf *gguf, const char *key, int code, struct err *err, const char *format, ...)
{
	char what[200];
	va_list args;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	const struct gguf_value *value = gguf_find(gguf, key);
	if (!value) /* a default, or what follows from other keys */
		return err_set(err, code, "key '%s', absent: %s", key, what);
	return err_set(err, code, "offset %" PRIu64 ": key '%s': %s", value->offset, key, what);
}

/* --- values ----------------------------------------------------------------------------------- */

/* What reads the family's keys one after the other; the first error stays. */
struct reader {
	const struct gguf *gguf;
	const struct family *family;
	struct err *err;
	int rc;
};

/* An integer; where the key is absent, *out stays what it was. */
static void read_u32(struct reader *r, const char *suffix, uint32_t *out)
{
	char key[MODEL_GGUF_KEY_BYTES];
	if (r->rc == 0)
		r->rc = gguf_get_u32(r->gguf, model_gguf_key(r->family, suffix, key), out, r->err);
	if (r->rc == -ENOENT)
		r->rc = 0;
}

/* An integer that a file must have. */
static void need_u32(struct reader *r, const char *suffix, uint32_t *out)
{
	char key[MODEL_GGUF_KEY_BYTES];
	if (r->rc == 0)
		r->rc = gguf_get_u32(r->gguf, model_gguf_key(r->family, suffix, key), out, r->err);
	if (r->rc == -ENOENT)
		r->rc = -EINVAL;
}

/* An integer or a float; where the key is absent, *out stays what it was. */
static void read_number(struct reader *r, const char *suffix, float *out)
{
	char key[MODEL_GGUF_KEY_BYTES];
	uint32_t integer = 0;
	if (r->rc)
		return;
	r->rc = gguf_get_u32(r->gguf, model_gguf_key(r->family, suffix, key), &integer, NULL);
	if (r->rc == 0)
		*out = (float)integer;
	if (r->rc == -EINVAL)
		r->rc = gguf_get_f32(r->gguf, key, out, r->err);
	if (r->rc == -ENOENT)
		r->rc = 0;
}

static void need_f32(struct reader *r, const char *suffix, float *out)
{
	char key[MODEL_GGUF_KEY_BYTES];
	if (r->rc == 0)
		r->rc = gguf_get_f32(r->gguf, model_gguf_key(r->family, suffix, key), out, r->err);
	if (r->rc == -ENOENT)
		r->rc = -EINVAL;
}

/* --- shapes ----------------------------------------------------------------------------------- */

static int find_family(const struct gguf *gguf, const struct family **out, struct err *err)
{
	struct gguf_string name;
	char quoted[GGUF_QUOTE_BYTES], names[64];
	int rc = gguf_get_string(gguf, "general.architecture", &name, err);
	if (rc)
		return rc == -ENOENT ? -EINVAL : rc;
	*out = family_find(name.bytes, name.n_bytes);
	if (!*out)
		return model_gguf_refuse(gguf, "general.architecture", -ENOTSUP, err,
					 "'%s' is not supported (these are: %s)", gguf_quote(&name, quoted),
					 family_names(names));
	return 0;
}

static void read_shapes(struct reader *r, struct image_config *c)
{
	char key[MODEL_GGUF_KEY_BYTES];
	uint32_t value_length;
	need_u32(r, "block_count", &c->n_layers);
	need_u32(r, "embedding_length", &c->dim);
	need_u32(r, "attention.head_count", &c->n_heads);
	c->n_kv_heads = c->n_heads;
	read_u32(r, "attention.head_count_kv", &c->n_kv_heads);
	c->head_dim = c->n_heads && c->dim % c->n_heads == 0 ? c->dim / c->n_heads : 0;
	read_u32(r, "attention.key_length", &c->head_dim);
	value_length = c->head_dim;
	read_u32(r, "attention.value_length", &value_length);
	if (r->rc == 0 && value_length != c->head_dim)
		r->rc = model_gguf_refuse(r->gguf, model_gguf_key(r->family, "attention.value_length", key), -ENOTSUP,
					  r->err, "%u, but keys have %u values", value_length, c->head_dim);
	need_u32(r, "feed_forward_length", &c->ffn_dim);
	need_u32(r, "context_length", &c->context);
	need_f32(r, "attention.layer_norm_rms_epsilon", &c->norm_eps);
}

/* --- attention -------------------------------------------------------------------------------- */

/* The 27B model alone divides by the square root of dim / n_heads, which isn't its head_dim; its files don't say so,
 * and its number of layers is how others recognise it, too. */
static float attention_scale(const struct image_config *c)
{
	bool is_gemma3_27b = c->family == IMAGE_FAMILY_GEMMA3 && c->n_layers == 62 && c->n_heads;
	return 1 / sqrtf(is_gemma3_27b ? (float)c->dim / (float)c->n_heads : (float)c->head_dim);
}

static void read_attention(struct reader *r, struct image_config *c)
{
	float scale = 0;
	read_number(r, "attention.scale", &scale);
	c->attention_scale = scale != 0 ? scale : attention_scale(c);
	if (!r->family->may_have_window)
		return;
	if (!r->family->alternates_window) {
		read_u32(r, "attention.sliding_window", &c->window);
		return;
	}
	need_u32(r, "attention.sliding_window", &c->window);
	if (c->window == 0)
		return;
	c->window_period = 6;
	c->window_rope_base = 10000;
	read_u32(r, "attention.sliding_window_pattern", &c->window_period);
	read_number(r, "rope.freq_base_swa", &c->window_rope_base);
}

/* --- rotary positions ------------------------------------------------------------------------- */

/* Keys of rope.scaling. that are known; one that isn't may change the arithmetic. */
static int check_scaling_keys(const struct gguf *gguf, const struct family *family, struct err *err)
{
	static const char *const known[] = {"type",	      "factor",		 "original_context_length",
					    "finetuned",      "attn_factor",	 "yarn_beta_fast",
					    "yarn_beta_slow", "yarn_ext_factor", "yarn_attn_factor"};
	char prefix[MODEL_GGUF_KEY_BYTES], quoted[GGUF_QUOTE_BYTES];
	size_t prefix_bytes = strlen(model_gguf_key(family, "rope.scaling.", prefix));
	for (uint64_t i = 0; i < gguf->n_pairs; i++) {
		const struct gguf_pair *pair = &gguf->pairs[i];
		bool is_known = false;
		if (pair->key.n_bytes < prefix_bytes || memcmp(pair->key.bytes, prefix, prefix_bytes) != 0)
			continue;
		for (size_t j = 0; j < sizeof known / sizeof *known; j++)
			is_known |= strlen(known[j]) == pair->key.n_bytes - prefix_bytes &&
				    memcmp(pair->key.bytes + prefix_bytes, known[j], strlen(known[j])) == 0;
		if (!is_known)
			return err_set(err, -ENOTSUP, "offset %" PRIu64 ": key '%s': is not supported",
				       pair->value.offset, gguf_quote(&pair->key, quoted));
	}
	return 0;
}

/* The kind by its name; a file with a factor and without a name means a linear one. */
static int scaling_kind(const struct gguf *gguf, const struct family *family, uint32_t *out, struct err *err)
{
	static const struct {
		const char *name;
		enum image_rope_scaling kind;
	} kinds[] = {{"none", IMAGE_ROPE_UNSCALED}, {"linear", IMAGE_ROPE_LINEAR}, {"yarn", IMAGE_ROPE_YARN}};
	char key[MODEL_GGUF_KEY_BYTES], quoted[GGUF_QUOTE_BYTES];
	struct gguf_string type;
	int rc = gguf_get_string(gguf, model_gguf_key(family, "rope.scaling.type", key), &type, err);
	if (rc == -ENOENT)
		*out = IMAGE_ROPE_LINEAR;
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strlen(kinds[i].name) == type.n_bytes && memcmp(kinds[i].name, type.bytes, type.n_bytes) == 0) {
			*out = kinds[i].kind;
			return 0;
		}
	return model_gguf_refuse(gguf, key, -ENOTSUP, err, "'%s' is not supported (none, linear and yarn are)",
				 gguf_quote(&type, quoted));
}

static void read_yarn(struct reader *r, struct image_config *c)
{
	float attention = 1;
	c->rope_original = c->context;
	c->rope_low = 1;
	c->rope_high = 32;
	read_u32(r, "rope.scaling.original_context_length", &c->rope_original);
	read_number(r, "rope.scaling.yarn_beta_slow", &c->rope_low);
	read_number(r, "rope.scaling.yarn_beta_fast", &c->rope_high);
	read_number(r, "rope.scaling.attn_factor", &attention);
	c->rope_magnitude = attention * (float)(1 + 0.1 * log((double)c->rope_factor));
}

/* A factor of 1 scales nothing; with type "none" the other keys of the group say nothing. */
static void read_scaling(struct reader *r, struct image_config *c)
{
	char key[MODEL_GGUF_KEY_BYTES];
	uint32_t kind = IMAGE_ROPE_UNSCALED;
	float factor = 1;
	if (r->rc == 0)
		r->rc = check_scaling_keys(r->gguf, r->family, r->err);
	if (r->rc == 0)
		r->rc = scaling_kind(r->gguf, r->family, &kind, r->err);
	if (kind != IMAGE_ROPE_UNSCALED)
		read_number(r, "rope.scaling.factor", &factor);
	if (r->rc == 0 && !(isfinite(factor) && factor > 0))
		r->rc = model_gguf_refuse(r->gguf, model_gguf_key(r->family, "rope.scaling.factor", key), -EINVAL,
					  r->err, "%g, a finite number above 0 is needed", (double)factor);
	if (r->rc || factor == 1)
		return;
	c->rope_scaling = kind;
	c->rope_factor = factor;
	if (kind == IMAGE_ROPE_YARN)
		read_yarn(r, c);
}

static void read_rope(struct reader *r, struct image_config *c)
{
	c->rope_dim = c->head_dim;
	c->rope_base = 10000;
	c->rope_pairing = r->family->rope_in_pairs ? IMAGE_ROPE_PAIRS : IMAGE_ROPE_HALVES;
	read_u32(r, "rope.dimension_count", &c->rope_dim);
	read_number(r, "rope.freq_base", &c->rope_base);
	read_scaling(r, c);
	if (r->rc || !gguf_find_tensor(r->gguf, "rope_freqs.weight"))
		return;
	if (c->rope_scaling != IMAGE_ROPE_UNSCALED)
		r->rc = err_set(
			r->err, -ENOTSUP,
			"tensor 'rope_freqs.weight': scales positions that '%s.rope.scaling.factor' scales already",
			r->family->name);
	c->rope_scaling = IMAGE_ROPE_DIVISORS;
}

/* --- what would change the arithmetic --------------------------------------------------------- */

/* Keys that must be absent or say that what they are about is off. */
static const struct {
	const char *suffix;
	float off;
} switches[] = {
	{"rope.scale_linear", 1},
	{"rope.scaling.yarn_ext_factor", 1},
	{"rope.scaling.yarn_attn_factor", 1},
	{"expert_count", 0},
	{"expert_used_count", 0},
	{"attention.max_alibi_bias", 0},
	{"attention.clamp_kqv", 0},
	{"attn_logit_softcapping", 0},
	{"final_logit_softcapping", 0},
	{"logit_scale", 0},
	{"embedding_scale", 0},
	{"residual_scale", 0},
};

static void check_switches(struct reader *r)
{
	char key[MODEL_GGUF_KEY_BYTES];
	bool causal = true;
	for (size_t i = 0; i < sizeof switches / sizeof *switches && r->rc == 0; i++) {
		float value = switches[i].off;
		read_number(r, switches[i].suffix, &value);
		if (r->rc == 0 && !(value == switches[i].off))
			r->rc = model_gguf_refuse(r->gguf, model_gguf_key(r->family, switches[i].suffix, key), -ENOTSUP,
						  r->err, "%g is not supported", (double)value);
	}
	float window = 0;
	if (!r->family->may_have_window)
		read_number(r, "attention.sliding_window", &window);
	if (r->rc == 0 && !(window == 0))
		r->rc = model_gguf_refuse(r->gguf, model_gguf_key(r->family, "attention.sliding_window", key), -ENOTSUP,
					  r->err, "%g is not supported in a %s model", (double)window, r->family->name);
	if (r->rc)
		return;
	r->rc = gguf_get_bool(r->gguf, model_gguf_key(r->family, "attention.causal", key), &causal, r->err);
	if (r->rc == -ENOENT)
		r->rc = 0;
	if (!causal)
		r->rc = model_gguf_refuse(r->gguf, key, -ENOTSUP, r->err,
					  "attention to later positions is not supported");
}

int model_gguf_config(const struct gguf *gguf, const struct family **family, struct image_config *out, struct err *err)
{
	struct reader r = {.gguf = gguf, .err = err};
	int rc = find_family(gguf, &r.family, err);
	if (rc)
		return rc;
	struct image_config c = {.family = r.family->id, .activation = r.family->activation};
	read_shapes(&r, &c);
	/* In float32 like everything of the pass. (In bfloat16, where Gemma was trained, it has fewer digits.) */
	c.embedding_scale = r.family->scales_embedding ? sqrtf((float)c.dim) : 1;
	read_attention(&r, &c);
	read_rope(&r, &c);
	check_switches(&r);
	if (r.rc)
		return r.rc;
	*family = r.family;
	*out = c;
	return 0;
}
