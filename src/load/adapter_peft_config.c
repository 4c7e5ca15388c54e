#include "src/load/adapter_peft_config.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <math.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/adapter_image.h"
#include "src/format/hf_json.h"

enum {
	EXPRESSIONS_MAX = 8192, /* a rank for each of seven modules in a thousand layers */
	EXPRESSION_MAX_BYTES = 4096,
	MATCH_LIMIT = 100000, /* steps: names have some dozens of bytes */
};

/* A regular expression, and what it stands for. */
struct expression {
	pcre2_code *code; /* owned */
	double value;
};

/* A field that says which modules: nothing, a list of names' ends, or one expression for all of a name. */
struct selection {
	yyjson_val *names;
	struct expression expression;
};

struct patterns {
	struct expression *all; /* [n] owned */
	uint32_t n;
};

struct adapter_peft_config {
	struct hf_json json;
	uint32_t rank;
	double alpha;
	bool rslora;
	bool every_module; /* target_modules says nothing or "all-linear" */
	struct selection targets, excluded;
	struct patterns ranks, alphas;
	yyjson_val *layers; /* NULL: all */
	pcre2_match_data *match;
	pcre2_match_context *limits;
};

/* A string of the file for a message. */
static const char *shown(const char *text, char out[HF_STRING_SHOWN_BYTES])
{
	return hf_string_quote(&(const struct hf_string){text, strlen(text)}, out);
}

/* --- expressions ------------------------------------------------------------------------------ */

/* Matches all of a name, as Python's fullmatch. */
static int compile(const struct adapter_peft_config *config, const char *key, const char *text, pcre2_code **out,
		   struct err *err)
{
	int error;
	size_t where;
	PCRE2_UCHAR why[64];
	char quoted[HF_STRING_SHOWN_BYTES];
	if (strlen(text) > EXPRESSION_MAX_BYTES)
		return hf_json_refuse(&config->json, key, -EINVAL, err, "an expression of more than %d bytes",
				      EXPRESSION_MAX_BYTES);
	*out = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
			     PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_NEVER_BACKSLASH_C, &error, &where, NULL);
	if (*out)
		return 0;
	pcre2_get_error_message(error, why, sizeof why);
	return hf_json_refuse(&config->json, key, -EINVAL, err, "'%s' is no expression: %s", shown(text, quoted),
			      (const char *)why);
}

/* 1, 0 or -EINVAL. */
static int matches(const struct adapter_peft_config *config, const pcre2_code *code, const char *module,
		   struct err *err)
{
	int rc = pcre2_match(code, (PCRE2_SPTR)module, PCRE2_ZERO_TERMINATED, 0, 0, config->match, config->limits);
	if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH)
		return rc >= 0;
	return err_set(err, -EINVAL, "%s: an expression takes too long on '%s'", config->json.file, module);
}

/* --- fields ----------------------------------------------------------------------------------- */

static int read_selection(struct adapter_peft_config *config, const char *key, struct selection *out, struct err *err)
{
	yyjson_val *value = hf_json_find(&config->json, key), *name;
	size_t i, n;
	if (yyjson_is_str(value))
		return compile(config, key, yyjson_get_str(value), &out->expression.code, err);
	if (value && !yyjson_is_arr(value))
		return hf_json_refuse(&config->json, key, -EINVAL, err, "a list or a string is expected");
	yyjson_arr_foreach(value, i, n, name)
	{
		if (!yyjson_is_str(name))
			return hf_json_refuse(&config->json, key, -EINVAL, err, "a list of strings is expected");
	}
	out->names = value;
	return 0;
}

/* A key of a pattern is an expression for the end of a name, at a dot. */
static int read_pattern(struct adapter_peft_config *config, const char *key, yyjson_val *name, yyjson_val *value,
			struct expression *out, struct err *err)
{
	char text[EXPRESSION_MAX_BYTES], quoted[HF_STRING_SHOWN_BYTES];
	if (!yyjson_is_num(value) || !isfinite(yyjson_get_num(value)))
		return hf_json_refuse(&config->json, key, -EINVAL, err, "'%s': a number is expected",
				      shown(yyjson_get_str(name), quoted));
	if (snprintf(text, sizeof text, "(.*\\.)?(%s)", yyjson_get_str(name)) >= (int)sizeof text)
		return hf_json_refuse(&config->json, key, -EINVAL, err, "an expression of more than %d bytes",
				      EXPRESSION_MAX_BYTES);
	out->value = yyjson_get_num(value);
	return compile(config, key, text, &out->code, err);
}

static int read_patterns(struct adapter_peft_config *config, const char *key, struct patterns *out, struct err *err)
{
	yyjson_val *object = hf_json_find(&config->json, key), *name, *value;
	size_t i, n = yyjson_obj_size(object);
	int rc = 0;
	if (!object)
		return 0;
	if (!yyjson_is_obj(object))
		return hf_json_refuse(&config->json, key, -EINVAL, err, "an object is expected");
	if (n > EXPRESSIONS_MAX)
		return hf_json_refuse(&config->json, key, -EINVAL, err, "more than %d patterns", EXPRESSIONS_MAX);
	out->all = calloc(n + 1, sizeof *out->all);
	if (!out->all)
		return err_set(err, -ENOMEM, "%s: no memory for %zu patterns", config->json.file, n);
	yyjson_obj_foreach(object, i, n, name, value)
	{
		rc = rc ? rc : read_pattern(config, key, name, value, &out->all[out->n++], err);
	}
	return rc;
}

static int read_layers(struct adapter_peft_config *config, struct err *err)
{
	static const char key[] = "layers_to_transform";
	yyjson_val *value = hf_json_find(&config->json, key), *layer;
	size_t i, n;
	bool right = !value || yyjson_is_uint(value) || yyjson_is_arr(value);
	yyjson_arr_foreach(value, i, n, layer)
	{
		right = right && yyjson_is_uint(layer);
	}
	config->layers = value;
	return right ? 0 : hf_json_refuse(&config->json, key, -EINVAL, err, "a list of layers is expected");
}

static bool is_empty(yyjson_val *value)
{
	return !value || yyjson_is_null(value) || yyjson_is_false(value) ||
	       (yyjson_is_ctn(value) && yyjson_get_len(value) == 0) || yyjson_equals_str(value, "");
}

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* Fields that are read, or that say nothing about the arithmetic of an adapter that is trained. */
static int check_known(const struct adapter_peft_config *config, struct err *err)
{
	static const char *const known[] = {
		"alpha_pattern",
		"auto_mapping",
		"base_model_name_or_path",
		"bias",
		"corda_config",
		"ensure_weight_tying",
		"eva_config",
		"exclude_modules",
		"inference_mode",
		"init_lora_weights",
		"layers_pattern",
		"layers_to_transform",
		"loftq_config",
		"lora_alpha",
		"lora_dropout",
		"megatron_core",
		"peft_type",
		"peft_version",
		"qalora_group_size",
		"r",
		"rank_pattern",
		"revision",
		"runtime_config",
		"target_modules",
		"task_type",
		"use_rslora",
	};
	yyjson_val *key, *value;
	size_t i, n;
	yyjson_obj_foreach(yyjson_doc_get_root(config->json.document), i, n, key, value)
	{
		const char *name = yyjson_get_str(key);
		char quoted[HF_STRING_SHOWN_BYTES];
		if (!is_one_of(name, known, sizeof known / sizeof *known) && !is_empty(value))
			return hf_json_refuse(&config->json, shown(name, quoted), -ENOTSUP, err, "is not supported");
	}
	return 0;
}

/* A field that is a string, or absent. */
static int expect(const struct adapter_peft_config *config, const char *key, const char *expected, bool must_be,
		  struct err *err)
{
	yyjson_val *value = hf_json_find(&config->json, key);
	if ((!value && !must_be) || yyjson_equals_str(value, expected))
		return 0;
	return hf_json_refuse(&config->json, key, -ENOTSUP, err, "only \"%s\" is supported", expected);
}

/* Ways to begin a training that take their beginning away from the base's weights: what is saved is an adapter for
 * those, unless it was converted when it was saved. */
static int check_beginning(const struct adapter_peft_config *config, struct err *err)
{
	static const char key[] = "init_lora_weights";
	static const char *const harmless[] = {"gaussian", "eva", "orthogonal"};
	yyjson_val *value = hf_json_find(&config->json, key);
	if (!value || yyjson_is_bool(value) ||
	    (yyjson_is_str(value) && is_one_of(yyjson_get_str(value), harmless, sizeof harmless / sizeof *harmless)))
		return 0;
	return hf_json_refuse(&config->json, key, -ENOTSUP, err,
			      "such adapters are for a changed base; save it with "
			      "path_initial_model_for_weight_conversion");
}

static int read_numbers(struct adapter_peft_config *config, struct err *err)
{
	float alpha = 8; /* both are the library's own defaults */
	config->rank = 8;
	int rc = hf_json_u32(&config->json, "r", &config->rank, err);
	if (rc == 0 || rc == -ENOENT)
		rc = hf_json_f32(&config->json, "lora_alpha", &alpha, err);
	if (rc == 0 || rc == -ENOENT)
		rc = hf_json_bool(&config->json, "use_rslora", &config->rslora, err);
	config->alpha = (double)alpha;
	return rc == -ENOENT ? 0 : rc;
}

static int read(struct adapter_peft_config *config, struct err *err)
{
	yyjson_val *targets, *pattern;
	int rc = expect(config, "peft_type", "LORA", true, err);
	if (rc == 0)
		rc = expect(config, "bias", "none", false, err);
	if (rc == 0)
		rc = check_known(config, err);
	if (rc == 0)
		rc = check_beginning(config, err);
	pattern = hf_json_find(&config->json, "layers_pattern");
	if (rc == 0 && !is_empty(pattern) && !yyjson_equals_str(pattern, "layers"))
		rc = hf_json_refuse(&config->json, "layers_pattern", -ENOTSUP, err, "only \"layers\" is supported");
	if (rc == 0)
		rc = read_numbers(config, err);
	targets = hf_json_find(&config->json, "target_modules");
	config->every_module = !targets || yyjson_equals_str(targets, "all-linear");
	if (rc == 0 && !config->every_module)
		rc = read_selection(config, "target_modules", &config->targets, err);
	if (rc == 0)
		rc = read_selection(config, "exclude_modules", &config->excluded, err);
	if (rc == 0)
		rc = read_patterns(config, "rank_pattern", &config->ranks, err);
	if (rc == 0)
		rc = read_patterns(config, "alpha_pattern", &config->alphas, err);
	return rc ? rc : read_layers(config, err);
}

/* --- the whole -------------------------------------------------------------------------------- */

int adapter_peft_config_new(const void *bytes, size_t n_bytes, struct adapter_peft_config **out, struct err *err)
{
	struct adapter_peft_config *config = calloc(1, sizeof *config);
	if (!config)
		return err_set(err, -ENOMEM, "no memory for adapter_config.json");
	config->match = pcre2_match_data_create(1, NULL);
	config->limits = pcre2_match_context_create(NULL);
	int rc = config->match && config->limits ? 0 : err_set(err, -ENOMEM, "no memory for adapter_config.json");
	if (rc == 0)
		rc = pcre2_set_match_limit(config->limits, MATCH_LIMIT);
	if (rc == 0)
		rc = hf_json_parse("adapter_config.json", bytes, n_bytes, &config->json, err);
	if (rc == 0)
		rc = read(config, err);
	if (rc)
		adapter_peft_config_free(config);
	else
		*out = config;
	return rc;
}

static void free_patterns(struct patterns *patterns)
{
	for (uint32_t i = 0; i < patterns->n; i++)
		pcre2_code_free(patterns->all[i].code);
	free(patterns->all);
}

void adapter_peft_config_free(struct adapter_peft_config *config)
{
	if (!config)
		return;
	free_patterns(&config->ranks);
	free_patterns(&config->alphas);
	pcre2_code_free(config->targets.expression.code);
	pcre2_code_free(config->excluded.expression.code);
	pcre2_match_data_free(config->match);
	pcre2_match_context_free(config->limits);
	hf_json_fini(&config->json);
	free(config);
}

/* --- asking ----------------------------------------------------------------------------------- */

/* The name itself, or its end at a dot. */
static bool ends_with(const char *module, const char *end)
{
	size_t n = strlen(module), n_end = strlen(end);
	return n >= n_end && strcmp(module + n - n_end, end) == 0 && (n == n_end || module[n - n_end - 1] == '.');
}

static int selects(const struct adapter_peft_config *config, const struct selection *selection, const char *module,
		   struct err *err)
{
	yyjson_val *name;
	size_t i, n;
	if (selection->expression.code)
		return matches(config, selection->expression.code, module, err);
	yyjson_arr_foreach(selection->names, i, n, name)
	{
		if (ends_with(module, yyjson_get_str(name)))
			return 1;
	}
	return 0;
}

static bool has_layer(yyjson_val *layers, uint32_t layer)
{
	yyjson_val *value;
	size_t i, n;
	if (!layers || yyjson_is_uint(layers))
		return !layers || yyjson_get_uint(layers) == layer;
	yyjson_arr_foreach(layers, i, n, value)
	{
		if (yyjson_get_uint(value) == layer)
			return true;
	}
	return false;
}

int adapter_peft_config_has(const struct adapter_peft_config *config, const char *module, uint32_t layer,
			    struct err *err)
{
	int rc = selects(config, &config->excluded, module, err);
	if (rc)
		return rc < 0 ? rc : 0;
	if (!has_layer(config->layers, layer))
		return 0;
	return config->every_module ? 1 : selects(config, &config->targets, module, err);
}

/* *value = that of the first pattern that matches; it stays as it is when none does. */
static int look_up(const struct adapter_peft_config *config, const struct patterns *patterns, const char *module,
		   double *value, struct err *err)
{
	for (uint32_t i = 0; i < patterns->n; i++) {
		int rc = matches(config, patterns->all[i].code, module, err);
		if (rc > 0)
			*value = patterns->all[i].value;
		if (rc)
			return rc < 0 ? rc : 0;
	}
	return 0;
}

int adapter_peft_config_scale(const struct adapter_peft_config *config, const char *module, uint32_t *rank,
			      double *scale, struct err *err)
{
	double r = config->rank, alpha = config->alpha;
	int rc = look_up(config, &config->ranks, module, &r, err);
	if (rc == 0)
		rc = look_up(config, &config->alphas, module, &alpha, err);
	if (rc)
		return rc;
	if (!(r >= 1 && r <= ADAPTER_RANK_MAX) || r != floor(r))
		return err_set(err, -EINVAL, "%s: '%s' has a rank of %g, allowed are 1 to %d", config->json.file,
			       module, r, ADAPTER_RANK_MAX);
	*rank = (uint32_t)r;
	*scale = alpha / (config->rslora ? sqrt(r) : r);
	return 0;
}
