/* What config.json leaves out means what the classes of `transformers` take for it, as far as real files leave it out;
 * where a default differs between versions or families the key has to be there. Rotary positions are told in three
 * ways, by the age of the file: rope_theta and rope_scaling; rope_parameters; and rope_parameters by kind of layer. */
#include "src/load/model_hf_config.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* The models that these files may have, by their model_type. */
static const struct kind {
	const char *type, *architecture;
	const struct family *family;
	const char *activation_key, *activation;
	bool has_window;	  /* sliding_window is in force whenever it is there */
	bool needs_head_dim;	  /* hidden_size / num_attention_heads is not what it means to leave it out */
	float rope_base;	  /* where the file has none */
	enum model_hf_tie untold; /* what it means to leave tie_word_embeddings out */
} kinds[] = {
	{"llama", "LlamaForCausalLM", &family_llama, "hidden_act", "silu", .rope_base = 10000},
	{"mistral", "MistralForCausalLM", &family_llama, "hidden_act", "silu", .has_window = true, .rope_base = 10000},
	{"qwen2", "Qwen2ForCausalLM", &family_qwen2, "hidden_act", "silu", .rope_base = 10000},
	{"qwen3", "Qwen3ForCausalLM", &family_qwen3, "hidden_act", "silu", .needs_head_dim = true, .rope_base = 10000},
	{"gemma3_text", "Gemma3ForCausalLM", &family_gemma3, "hidden_activation", "gelu_pytorch_tanh",
	 .has_window = true, .needs_head_dim = true, .rope_base = 1000000, .untold = MODEL_HF_TIED},
};

enum { N_KINDS = sizeof kinds / sizeof *kinds };
#define KINDS "llama, mistral, qwen2, qwen3 and gemma3_text"

enum { PATH_BYTES = 96 };

/* What reads keys one after the other; the first error stays. */
struct reader {
	const struct hf_json *json;
	const struct kind *kind;
	struct err *err;
	int rc;
};

/* --- values ----------------------------------------------------------------------------------- */

/* Where the key is absent, *out stays what it was; these are false then. */
static bool read_u32(struct reader *r, const char *path, uint32_t *out)
{
	int rc = r->rc ? -ENOENT : hf_json_u32(r->json, path, out, r->err);
	if (rc && rc != -ENOENT)
		r->rc = rc;
	return rc == 0;
}

static bool read_f32(struct reader *r, const char *path, float *out)
{
	int rc = r->rc ? -ENOENT : hf_json_f32(r->json, path, out, r->err);
	if (rc && rc != -ENOENT)
		r->rc = rc;
	return rc == 0;
}

static bool read_bool(struct reader *r, const char *path, bool *out)
{
	int rc = r->rc ? -ENOENT : hf_json_bool(r->json, path, out, r->err);
	if (rc && rc != -ENOENT)
		r->rc = rc;
	return rc == 0;
}

static bool read_string(struct reader *r, const char *path, struct hf_string *out)
{
	int rc = r->rc ? -ENOENT : hf_json_string(r->json, path, out, r->err);
	if (rc && rc != -ENOENT)
		r->rc = rc;
	return rc == 0;
}

static void refuse_missing(struct reader *r, const char *path)
{
	if (r->rc == 0)
		r->rc = hf_json_refuse(r->json, path, -EINVAL, r->err, "is missing");
}

static void need_u32(struct reader *r, const char *path, uint32_t *out)
{
	if (!read_u32(r, path, out))
		refuse_missing(r, path);
}

static void need_f32(struct reader *r, const char *path, float *out)
{
	if (!read_f32(r, path, out))
		refuse_missing(r, path);
}

static void refuse_string(struct reader *r, const char *path, const struct hf_string *string, const char *supported)
{
	char quoted[HF_STRING_SHOWN_BYTES];
	if (r->rc == 0)
		r->rc = hf_json_refuse(r->json, path, -ENOTSUP, r->err, "'%s' is not supported (%s)",
				       hf_string_quote(string, quoted), supported);
}

/* --- which model, and what it must not have --------------------------------------------------- */

static void find_kind(struct reader *r)
{
	struct hf_string type = {"", 0}, architecture = {"", 0};
	if (!read_string(r, "model_type", &type))
		refuse_missing(r, "model_type");
	for (size_t i = 0; i < N_KINDS && r->rc == 0; i++)
		if (hf_string_is(&type, kinds[i].type))
			r->kind = &kinds[i];
	if (!r->kind)
		refuse_string(r, "model_type", &type, "these are: " KINDS);
	else if (read_string(r, "architectures.0", &architecture) &&
		 !hf_string_is(&architecture, r->kind->architecture))
		refuse_string(r, "architectures", &architecture, r->kind->architecture);
}

/* Keys that must be absent, null, or say that what they are about is off. */
static void check_switches(struct reader *r)
{
	static const char *const flags[] = {"attention_bias", "mlp_bias", "use_bidirectional_attention", "use_qk_norm",
					    "add_cross_attention"};
	static const struct {
		const char *path;
		float off;
	} numbers[] = {
		{"attn_logit_softcapping", 0},
		{"final_logit_softcapping", 0},
		{"partial_rotary_factor", 1},
		{"num_experts", 0},
		{"num_local_experts", 0},
		{"n_routed_experts", 0},
		{"logit_scale", 1},
		{"rope_scaling_factor", 1},
	};
	static const char *const absent[] = {"quantization_config", "compression_config", "text_config",
					     "vision_config"};
	struct hf_string activation = {"", 0};
	for (size_t i = 0; i < sizeof absent / sizeof *absent && r->rc == 0; i++)
		if (hf_json_find(r->json, absent[i]))
			r->rc = hf_json_refuse(r->json, absent[i], -ENOTSUP, r->err, "is not supported");
	for (size_t i = 0; i < sizeof flags / sizeof *flags && r->rc == 0; i++) {
		bool on = false;
		if (read_bool(r, flags[i], &on) && on)
			r->rc = hf_json_refuse(r->json, flags[i], -ENOTSUP, r->err, "true is not supported");
	}
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers && r->rc == 0; i++) {
		float value = numbers[i].off;
		if (read_f32(r, numbers[i].path, &value) && !(value == numbers[i].off))
			r->rc = hf_json_refuse(r->json, numbers[i].path, -ENOTSUP, r->err, "%g is not supported",
					       (double)value);
	}
	if (r->rc)
		return;
	const char *path = r->kind->activation_key;
	if (!read_string(r, path, &activation))
		refuse_missing(r, path);
	else if (!hf_string_is(&activation, r->kind->activation))
		refuse_string(r, path, &activation, r->kind->activation);
}

/* --- shapes ----------------------------------------------------------------------------------- */

static void read_shapes(struct reader *r, struct image_config *c)
{
	need_u32(r, "num_hidden_layers", &c->n_layers);
	need_u32(r, "hidden_size", &c->dim);
	need_u32(r, "num_attention_heads", &c->n_heads);
	c->n_kv_heads = c->n_heads;
	read_u32(r, "num_key_value_heads", &c->n_kv_heads);
	c->head_dim = c->n_heads && c->dim % c->n_heads == 0 ? c->dim / c->n_heads : 0;
	if (!read_u32(r, "head_dim", &c->head_dim) && r->kind->needs_head_dim)
		refuse_missing(r, "head_dim");
	need_u32(r, "intermediate_size", &c->ffn_dim);
	need_u32(r, "max_position_embeddings", &c->context);
	need_u32(r, "vocab_size", &c->vocab);
	need_f32(r, "rms_norm_eps", &c->norm_eps);
}

/* --- windows ---------------------------------------------------------------------------------- */

/* The period of a list in which every n-th layer attends all positions: 0 where all have windows, 1 where none has. */
static void read_layer_types(struct reader *r, uint32_t n_layers, uint32_t *period)
{
	yyjson_val *list = hf_json_find(r->json, "layer_types");
	uint32_t found = 0;
	size_t i, n;
	yyjson_val *layer;
	if (!yyjson_is_arr(list) || yyjson_arr_size(list) != n_layers) {
		r->rc = hf_json_refuse(r->json, "layer_types", -EINVAL, r->err, "a list of %u strings is expected",
				       n_layers);
		return;
	}
	yyjson_arr_foreach(list, i, n, layer)
	{
		struct hf_string name = {yyjson_get_str(layer), yyjson_get_len(layer)};
		bool full = yyjson_equals_str(layer, "full_attention");
		if (!full && !yyjson_equals_str(layer, "sliding_attention")) {
			refuse_string(r, "layer_types", name.bytes ? &name : &(struct hf_string){"?", 1},
				      "full_attention and sliding_attention are");
			return;
		}
		if (full && found == 0)
			found = (uint32_t)i + 1;
		if (full != (found && (i + 1) % found == 0)) {
			r->rc = hf_json_refuse(
				r->json, "layer_types", -ENOTSUP, r->err,
				"layer %zu breaks the order, in which every n-th layer is full_attention", i);
			return;
		}
	}
	*period = found;
}

/* Qwen's files have a window that is not in force unless another key says so, and then in the layers from a third key
 * on. */
static bool may_slide(struct reader *r, uint32_t n_layers)
{
	bool use = r->kind->has_window;
	uint32_t first = 0;
	read_bool(r, "use_sliding_window", &use);
	if (use && read_u32(r, "max_window_layers", &first) && first >= n_layers)
		return false;
	return use;
}

static void read_windows(struct reader *r, struct image_config *c)
{
	uint32_t window = 0, period = 0;
	bool alternates = r->kind->family->alternates_window;
	if (!may_slide(r, c->n_layers) || !read_u32(r, "sliding_window", &window)) {
		if (alternates)
			refuse_missing(r, "sliding_window");
		return;
	}
	if (r->rc == 0 && hf_json_find(r->json, "layer_types"))
		read_layer_types(r, c->n_layers, &period);
	else if (alternates && !read_u32(r, "sliding_window_pattern", &period) &&
		 !read_u32(r, "_sliding_window_pattern", &period))
		refuse_missing(r, "layer_types");
	if (period == 1)
		return;
	c->window = window;
	c->window_period = period;
}

/* --- rotary positions ------------------------------------------------------------------------- */

static void join(char out[PATH_BYTES], const char *group, const char *key)
{
	snprintf(out, PATH_BYTES, "%s.%s", group, key);
}

/* A key that is not known may change the arithmetic. */
static void check_rope_keys(struct reader *r, const char *group)
{
	static const char *const known[] = {"rope_type",
					    "type",
					    "rope_theta",
					    "factor",
					    "original_max_position_embeddings",
					    "low_freq_factor",
					    "high_freq_factor",
					    "beta_fast",
					    "beta_slow",
					    "attention_factor",
					    "mscale",
					    "mscale_all_dim",
					    "finetuned"};
	size_t i, n;
	yyjson_val *key, *value, *object = hf_json_find(r->json, group);
	if (r->rc || !object)
		return;
	if (!yyjson_is_obj(object))
		r->rc = hf_json_refuse(r->json, group, -EINVAL, r->err, "an object is expected");
	yyjson_obj_foreach(object, i, n, key, value)
	{
		bool is_known = yyjson_is_null(value) ||
				(yyjson_equals_str(key, "partial_rotary_factor") && yyjson_is_num(value) &&
				 yyjson_get_num(value) == 1) ||
				(yyjson_equals_str(key, "truncate") && yyjson_is_true(value));
		for (size_t k = 0; k < sizeof known / sizeof *known; k++)
			is_known |= yyjson_equals_str(key, known[k]);
		struct hf_string name = {yyjson_get_str(key), yyjson_get_len(key)};
		if (r->rc == 0 && !is_known)
			refuse_string(r, group, &name, "a key that would change rotary positions");
	}
}

/* YaRN's magnitude as the file gives it, or by the paper's rule. (Peng et al., 2023, section 3.4) */
static float yarn_magnitude(struct reader *r, const char *group, float factor)
{
	char path[PATH_BYTES];
	float magnitude = 0, scale = 0, scale_all = 0;
	join(path, group, "attention_factor");
	if (read_f32(r, path, &magnitude))
		return magnitude;
	join(path, group, "mscale");
	read_f32(r, path, &scale);
	join(path, group, "mscale_all_dim");
	read_f32(r, path, &scale_all);
	double growth = factor > 1 ? 0.1 * log((double)factor) : 0;
	if (scale != 0 && scale_all != 0)
		return (float)((1 + growth * (double)scale) / (1 + growth * (double)scale_all));
	return (float)(1 + growth);
}

static void read_by_turns(struct reader *r, const char *group, struct image_config *c)
{
	bool yarn = c->rope_scaling == IMAGE_ROPE_YARN;
	char path[PATH_BYTES];
	c->rope_original = c->context;
	join(path, group, "original_max_position_embeddings");
	if (!read_u32(r, path, &c->rope_original) && !yarn)
		refuse_missing(r, path);
	c->rope_low = yarn ? 1 : 0;
	c->rope_high = yarn ? 32 : 0;
	join(path, group, yarn ? "beta_slow" : "low_freq_factor");
	if (!read_f32(r, path, &c->rope_low) && !yarn)
		refuse_missing(r, path);
	join(path, group, yarn ? "beta_fast" : "high_freq_factor");
	if (!read_f32(r, path, &c->rope_high) && !yarn)
		refuse_missing(r, path);
	if (yarn)
		c->rope_magnitude = yarn_magnitude(r, group, c->rope_factor);
}

static uint32_t read_scaling_kind(struct reader *r, const char *group)
{
	static const struct {
		const char *name;
		enum image_rope_scaling kind;
	} names[] = {{"default", IMAGE_ROPE_UNSCALED},
		     {"linear", IMAGE_ROPE_LINEAR},
		     {"yarn", IMAGE_ROPE_YARN},
		     {"llama3", IMAGE_ROPE_LLAMA3}};
	char path[PATH_BYTES];
	struct hf_string name = {"default", strlen("default")};
	join(path, group, "rope_type");
	if (!read_string(r, path, &name)) {
		join(path, group, "type");
		read_string(r, path, &name);
	}
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (hf_string_is(&name, names[i].name))
			return names[i].kind;
	refuse_string(r, path, &name, "default, linear, yarn and llama3 are");
	return IMAGE_ROPE_UNSCALED;
}

/* One object: the base if it has one, and the scaling. */
static void read_rope_group(struct reader *r, const char *group, struct image_config *c)
{
	char path[PATH_BYTES];
	check_rope_keys(r, group);
	join(path, group, "rope_theta");
	read_f32(r, path, &c->rope_base);
	c->rope_scaling = read_scaling_kind(r, group);
	if (r->rc || c->rope_scaling == IMAGE_ROPE_UNSCALED)
		return;
	join(path, group, "factor");
	need_f32(r, path, &c->rope_factor);
	if (c->rope_scaling != IMAGE_ROPE_LINEAR)
		read_by_turns(r, group, c);
}

/* Layers with a window turn by a base of their own, which nothing scales. */
static void read_window_rope(struct reader *r, struct image_config *c)
{
	static const char group[] = "rope_parameters.sliding_attention";
	char path[PATH_BYTES];
	join(path, group, "rope_theta");
	check_rope_keys(r, group);
	if (read_scaling_kind(r, group) != IMAGE_ROPE_UNSCALED && r->rc == 0)
		r->rc = hf_json_refuse(r->json, group, -ENOTSUP, r->err, "layers with a window may not be scaled");
	if (!read_f32(r, path, &c->window_rope_base) && !read_f32(r, "rope_local_base_freq", &c->window_rope_base))
		refuse_missing(r, "rope_local_base_freq");
}

static void read_rope(struct reader *r, struct image_config *c)
{
	const char *group = "rope_scaling";
	if (hf_json_find(r->json, "rope_parameters.full_attention"))
		group = "rope_parameters.full_attention";
	else if (hf_json_find(r->json, "rope_parameters"))
		group = "rope_parameters";
	c->rope_dim = c->head_dim;
	c->rope_pairing = IMAGE_ROPE_HALVES;
	c->rope_base = r->kind->rope_base;
	read_f32(r, "rope_theta", &c->rope_base);
	read_rope_group(r, group, c);
	if (r->kind->family->alternates_window && c->window)
		read_window_rope(r, c);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void read_scales(struct reader *r, struct image_config *c)
{
	float scalar = (float)c->head_dim;
	if (r->kind->family->scales_embedding)
		need_f32(r, "query_pre_attn_scalar", &scalar);
	c->attention_scale = 1 / sqrtf(scalar);
	/* In float32 like everything of the pass. (In bfloat16, where Gemma was trained, it has fewer digits.) */
	c->embedding_scale = r->kind->family->scales_embedding ? sqrtf((float)c->dim) : 1;
}

int model_hf_config(const struct hf_json *json, const struct family **family, struct image_config *out,
		    enum model_hf_tie *tie, struct err *err)
{
	struct reader r = {.json = json, .err = err};
	bool tied = false;
	find_kind(&r);
	if (r.rc)
		return r.rc;
	struct image_config c = {.family = r.kind->family->id, .activation = r.kind->family->activation};
	check_switches(&r);
	read_shapes(&r, &c);
	read_scales(&r, &c);
	read_windows(&r, &c);
	read_rope(&r, &c);
	bool said = read_bool(&r, "tie_word_embeddings", &tied);
	if (r.rc)
		return r.rc;
	*tie = !said ? r.kind->untold : tied ? MODEL_HF_TIED : MODEL_HF_UNTIED;
	*family = r.kind->family;
	*out = c;
	return 0;
}

/* What family_check calls a hyperparameter, and where config.json has it. */
static const char *key_of(const char *gguf_key)
{
	static const char *const keys[][2] = {
		{"block_count", "num_hidden_layers"},
		{"embedding_length", "hidden_size"},
		{"attention.head_count", "num_attention_heads"},
		{"attention.head_count_kv", "num_key_value_heads"},
		{"attention.key_length", "head_dim"},
		{"feed_forward_length", "intermediate_size"},
		{"vocab_size", "vocab_size"},
		{"context_length", "max_position_embeddings"},
		{"attention.sliding_window", "sliding_window"},
		{"attention.sliding_window_pattern", "layer_types"},
		{"rope.freq_base", "rope_theta"},
		{"rope.freq_base_swa", "rope_local_base_freq"},
		{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
		{"attention.scale", "query_pre_attn_scalar"},
		{"rope.scaling.factor", "rope_scaling.factor"},
		{"rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings"},
		{"rope.scaling.yarn_beta_slow", "rope_scaling.beta_slow"},
		{"rope.scaling.yarn_beta_fast", "rope_scaling.beta_fast"},
		{"rope.scaling.attn_factor", "rope_scaling.attention_factor"},
	};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (strcmp(keys[i][0], gguf_key) == 0)
			return keys[i][1];
	return gguf_key;
}

int model_hf_config_check(const struct hf_json *json, const struct image_config *config, struct err *err)
{
	const char *key = "";
	struct err what = {""};
	int rc = family_check(config, &key, &what);
	return rc ? hf_json_refuse(json, key_of(key), rc, err, "%.150s", what.text) : 0;
}
