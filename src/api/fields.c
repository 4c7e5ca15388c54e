#include "src/api/fields.h"

#include "src/api/response.h"
#include "src/api/tools.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int wrong_type(const struct api_field *field, const char *wanted, yyjson_val *value, struct api_error *error)
{
	return api_error_set(error, 400, "invalid_type", field->name, "'%s' must be %s, not %s", field->name, wanted,
			     yyjson_get_type_desc(value));
}

static int out_of_range(const struct api_field *field, struct api_error *error)
{
	return api_error_set(error, 400, "out_of_range", field->name, "'%s' must be from %.10g to %.10g", field->name,
			     field->min, field->max);
}

static int read_bool(const struct api_field *field, yyjson_val *value, struct api_request *request,
		     struct api_error *error)
{
	if (!yyjson_is_bool(value))
		return wrong_type(field, "true or false", value, error);
	*(bool *)((char *)request + field->offset) = yyjson_get_bool(value);
	return 0;
}

static int read_u32(const struct api_field *field, yyjson_val *value, struct api_request *request,
		    struct api_error *error)
{
	if (!yyjson_is_int(value)) /* what does not fit 64 bits has become a real */
		return yyjson_is_num(value) && fabs(yyjson_get_num(value)) > field->max
			       ? out_of_range(field, error)
			       : wrong_type(field, "an integer", value, error);
	/* Beyond 2^53 a double is not exact, but still on the same side of these bounds. */
	double number = yyjson_get_num(value);
	if (number < field->min || number > field->max)
		return out_of_range(field, error);
	*(uint32_t *)((char *)request + field->offset) = (uint32_t)yyjson_get_uint(value);
	return 0;
}

static int read_f32(const struct api_field *field, yyjson_val *value, struct api_request *request,
		    struct api_error *error)
{
	if (!yyjson_is_num(value))
		return wrong_type(field, "a number", value, error);
	double number = yyjson_get_num(value);
	if (!(number >= field->min && number <= field->max))
		return out_of_range(field, error);
	*(float *)((char *)request + field->offset) = (float)number;
	return 0;
}

/* Any 64-bit integer, as OpenAI's API has it: -1 is a seed like others. */
static int read_seed(const struct api_field *field, yyjson_val *value, struct api_request *request,
		     struct api_error *error)
{
	if (!yyjson_is_int(value))
		return wrong_type(field, "an integer of 64 bits", value, error);
	request->seed = yyjson_get_uint(value); /* a negative one keeps its bits */
	request->has_seed = true;
	return 0;
}

static int read_text(const struct api_field *field, yyjson_val *value, struct api_request *request,
		     struct api_error *error)
{
	if (!yyjson_is_str(value))
		return wrong_type(field, "a string", value, error);
	size_t n = yyjson_get_len(value);
	if ((double)n < field->min || (double)n > field->max)
		return api_error_set(error, 400, "out_of_range", field->name, "'%s' must have %.0f to %.0f bytes",
				     field->name, field->min, field->max);
	*(struct api_text *)((char *)request + field->offset) = (struct api_text){yyjson_get_str(value), n};
	return 0;
}

static int read_stream_options(const struct api_field *field, yyjson_val *value, struct api_request *request,
			       struct api_error *error)
{
	if (!yyjson_is_obj(value))
		return wrong_type(field, "an object", value, error);
	yyjson_obj_iter members = yyjson_obj_iter_with(value);
	for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));) {
		yyjson_val *member = yyjson_obj_iter_get_val(key);
		bool usage = yyjson_equals_str(key, "include_usage");
		/* Padding of events against traffic analysis: changes nothing of the answer, so it may be asked for. */
		if (!usage && !yyjson_equals_str(key, "include_obfuscation"))
			return api_error_set(error, 400, "unknown_field", "stream_options",
					     "'stream_options' has an unknown member '%.64s'", yyjson_get_str(key));
		if (yyjson_is_null(member))
			continue;
		if (!yyjson_is_bool(member))
			return api_error_set(error, 400, "invalid_type", "stream_options",
					     "'stream_options.%s' must be true or false", yyjson_get_str(key));
		if (usage)
			request->include_usage = yyjson_get_bool(member);
	}
	request->has_stream_options = true;
	return 0;
}

/* An object that is handed to the chat template as it is. */
static int read_variables(const struct api_field *field, yyjson_val *value, struct api_request *request,
			  struct api_error *error)
{
	if (!yyjson_is_obj(value))
		return wrong_type(field, "an object", value, error);
	api_json_value(&request->variables, value);
	if (request->variables.failed)
		return api_error_set(error, 500, NULL, NULL, "out of memory");
	request->kwargs = value;
	return 0;
}

static int read_encoding(const struct api_field *field, yyjson_val *value, struct api_request *request,
			 struct api_error *error)
{
	request->base64 = yyjson_equals_str(value, "base64");
	if (!request->base64 && !yyjson_equals_str(value, "float"))
		return api_error_set(error, 400, "invalid_value", field->name, "'%s' must be \"float\" or \"base64\"",
				     field->name);
	return 0;
}

/* What does not change the answer is accepted and not looked at. */
static int read_ignored(const struct api_field *field, yyjson_val *value, struct api_request *request,
			struct api_error *error)
{
	(void)field, (void)value, (void)request, (void)error;
	return 0;
}

static bool listed(const char *words, const char *word, size_t n)
{
	for (const char *w = words; *w;) {
		size_t length = strcspn(w, " ");
		if (length == n && memcmp(w, word, n) == 0)
			return true;
		w += length + (w[length] == ' ');
	}
	return false;
}

static int read_unsupported(const struct api_field *field, yyjson_val *value, struct api_request *request,
			    struct api_error *error)
{
	(void)request;
	bool off = false;
	if (field->off && (!yyjson_is_ctn(value) || yyjson_get_len(value) <= 1)) {
		size_t n;
		char *text = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, &n);
		off = text && listed(field->off, text, n);
		free(text);
	}
	if (off)
		return 0;
	if (field->off)
		return api_error_set(error, 400, "unsupported_field", field->name,
				     "'%s' is not supported in this version (may be: null %s)", field->name,
				     field->off);
	return api_error_set(error, 400, "unsupported_field", field->name, "'%s' is not supported in this version",
			     field->name);
}

#define AT(member) offsetof(struct api_request, member)
enum {
	C = API_CHAT,
	P = API_COMPLETION,
	CP = API_CHAT | API_COMPLETION,
	T = API_TOKENIZE,
	D = API_DETOKENIZE,
	A = API_TEMPLATE,
	CA = API_CHAT | API_TEMPLATE,
	E = API_EMBEDDING,
	R = API_RESPONSE,
	CR = C | R,
	CPR = CP | R,
	CPER = CP | E | R,
	L = API_LOAD_ADAPTER,
	U = API_UNLOAD_ADAPTER,
	LU = L | U,
	ALL = CPER | T | D | A,
};
#define NO_UPPER 0x1p31 - 1 /* where the bound is the request's size or the context */

/* clang-format off */
static const struct api_field table[] = {
	{"model",                 ALL, 0,  read_text, 1, 127, AT(model), NULL},
	{"adapter",               ALL, 0,  read_text, 1, 127, AT(adapter), NULL},
	{"messages",              CA,  CA, api_read_messages, 1, NO_UPPER, 0, NULL},
	{"prompt",                P,   P,  api_read_prompt, 1, API_PROMPTS_MAX, 0, NULL},
	{"input",                 E,   E,  api_read_input, 1, API_INPUTS_MAX, 0, NULL},
	{"input",                 R,   R,  api_read_response_value, 0, NO_UPPER, AT(input), NULL},
	{"instructions",          R,   0,  read_text, 0, NO_UPPER, AT(instructions), NULL},
	{"max_output_tokens",     R,   0,  read_u32, 0, NO_UPPER, AT(max_completion_tokens), NULL},
	{"tools",                 R,   0,  api_read_response_value, 0, API_TOOLS_MAX, AT(response_tools), NULL},
	{"tool_choice",           R,   0,  api_read_response_value, 0, 1, AT(response_choice), NULL},
	{"text",                  R,   0,  api_read_response_value, 0, 1, AT(text), NULL},
	{"metadata",              R,   0,  api_read_metadata, 0, 16, 0, NULL},
	{"include",               R,   0,  api_read_include, 0, 2, 0, NULL},
	{"reasoning",             R,   0,  api_read_reasoning, 0, 2, 0, NULL},
	{"encoding_format",       E,   0,  read_encoding, 0, 1, 0, NULL},
	{"dimensions",            E,   0,  read_u32, 1, NO_UPPER, AT(dimensions), NULL},
	{"content",               T,   T,  api_read_content, 0, NO_UPPER, 0, NULL},
	{"tokens",                D,   D,  api_read_tokens, 0, NO_UPPER, 0, NULL},
	{"add_special",           T,   0,  read_bool, 0, 1, AT(add_special), NULL},
	{"parse_special",         T,   0,  read_bool, 0, 1, AT(parse_special), NULL},
	{"add_generation_prompt", CA,  0,  read_bool, 0, 1, AT(add_generation_prompt), NULL},
	{"chat_template_kwargs",  CA,  0,  read_variables, 0, NO_UPPER, 0, NULL},

	{"tools",                 CA,  0,  api_read_tools, 0, API_TOOLS_MAX, 0, NULL},
	{"tool_choice",           CA,  0,  api_read_tool_choice, 0, 1, 0, NULL},
	{"parallel_tool_calls",   CA | R,  0,  read_bool, 0, 1, AT(parallel_tool_calls), NULL},

	{"stream",                CPR,  0,  read_bool, 0, 1, AT(stream), NULL},
	{"stream_options",        CPR,  0,  read_stream_options, 0, 2, 0, NULL},
	{"max_tokens",            CP,  0,  read_u32, 0, NO_UPPER, AT(max_tokens), NULL},
	{"max_completion_tokens", C,   0,  read_u32, 0, NO_UPPER, AT(max_completion_tokens), NULL},
	{"stop",                  CP,  0,  api_read_stop, 0, CALL_STOPS_MAX, 0, NULL},
	{"ignore_eos",            CPR,  0,  read_bool, 0, 1, AT(ignore_eos), NULL},
	{"forced_token_ids",      CPR,  0,  api_read_forced_ids, 0, NO_UPPER, 0, NULL},

	{"n",                     CP,  0,  read_u32, 1, API_CHOICES_MAX, AT(n_choices), NULL},
	{"best_of",               P,   0,  read_u32, 1, API_CHOICES_MAX, AT(best_of), NULL},
	{"seed",                  CPR,  0,  read_seed, -0x1p63, 0x1p64, 0, NULL},
	{"temperature",           CPR,  0,  read_f32, 0, 2, AT(temperature), NULL},
	{"top_p",                 CPR,  0,  read_f32, 0, 1, AT(top_p), NULL},
	{"min_p",                 CP,  0,  read_f32, 0, 1, AT(min_p), NULL},
	{"top_k",                 CP,  0,  read_u32, 0, NO_UPPER, AT(top_k), NULL},
	{"presence_penalty",      CP,  0,  read_f32, -2, 2, AT(presence_penalty), NULL},
	{"frequency_penalty",     CP,  0,  read_f32, -2, 2, AT(frequency_penalty), NULL},
	{"repeat_penalty",        CP,  0,  read_f32, 0.1, 10, AT(repeat_penalty), NULL},
	{"logit_bias",             CP,  0,  api_read_logit_bias, 0, CALL_BIASES_MAX, 0, NULL},

	{"response_format",        CP,  0,  api_read_response_format, 0, 1, 0, NULL},
	{"structured_outputs",     CP,  0,  api_read_structured_outputs, 0, 1, 0, NULL},
	{"grammar",                CP,  0,  api_read_grammar, 0, 1, 0, NULL},
	{"json_schema",            CP,  0,  api_read_schema, 0, 1, 0, NULL},
	{"guided_json",            CP,  0,  api_read_schema, 0, 1, 0, NULL},
	{"guided_regex",           CP,  0,  api_read_regex, 0, 1, 0, NULL},
	{"guided_choice",          CP,  0,  api_read_choice, 0, 1, 0, NULL},
	{"guided_grammar",         CP,  0,  api_read_grammar, 0, 1, 0, NULL},

	{"logprobs",              P,   0,  read_u32, 0, CALL_LOGPROBS_MAX, AT(completion_logprobs), NULL},
	{"logprobs",              C,   0,  read_bool, 0, 1, AT(chat_logprobs), NULL},
	{"top_logprobs",          CR,   0,  read_u32, 0, CALL_LOGPROBS_MAX, AT(top_logprobs), NULL},
	{"echo",                  P,   0,  read_bool, 0, 1, AT(echo), NULL},
	{"return_token_ids",      CP,  0,  read_bool, 0, 1, AT(return_token_ids), NULL},

	{"lora_name",             LU,  LU, read_text, 1, 127, AT(lora_name), NULL},
	{"lora_path",             L,   L,  read_text, 1, 1023, AT(lora_path), NULL},
	{"base_model_name",       L,   0,  read_text, 1, 127, AT(base_model), NULL},
	{"load_inplace",          L,   0,  read_bool, 0, 1, AT(load_inplace), NULL},
	{"is_3d_lora_weight",     L,   0,  read_unsupported, 0, 0, 0, "false"},
	{"lora_int_id",           U,   0,  read_ignored, 0, 0, 0, NULL},

	/* These change nothing of the answer. */
	{"user",                   CPER, 0, read_ignored, 0, 0, 0, NULL},
	{"metadata",               CP, 0, read_ignored, 0, 0, 0, NULL},
	{"store",                  CPR, 0, read_ignored, 0, 0, 0, NULL},
	{"service_tier",           CPR, 0, read_ignored, 0, 0, 0, NULL},
	{"safety_identifier",      CPR, 0, read_ignored, 0, 0, 0, NULL},
	{"prompt_cache_key",       CPR, 0, read_ignored, 0, 0, 0, NULL},
	{"prompt_cache_retention", CPR, 0, read_ignored, 0, 0, 0, NULL},
	{"cache_prompt",           CP, 0, read_ignored, 0, 0, 0, NULL},

	/* These would change it and can't be honoured yet; the values at the end ask for nothing. */
	{"best_of",               C,   0, read_unsupported, 0, 0, 0, "1"},
	{"suffix",                CP,  0, read_unsupported, 0, 0, 0, "\"\""},
	{"echo",                  C,   0, read_unsupported, 0, 0, 0, "false"},
	{"functions",             CA,  0, read_unsupported, 0, 0, 0, "[]"},
	{"function_call",         CA,  0, read_unsupported, 0, 0, 0, "\"none\" \"auto\""},
	{"audio",                 CP,  0, read_unsupported, 0, 0, 0, NULL},
	{"modalities",            CP,  0, read_unsupported, 0, 0, 0, "[\"text\"]"},
	{"prediction",            CP,  0, read_unsupported, 0, 0, 0, NULL},
	{"reasoning_effort",      CP,  0, read_unsupported, 0, 0, 0, "\"none\""},
	{"verbosity",             CP,  0, read_unsupported, 0, 0, 0, "\"medium\""},
	{"web_search_options",    CP,  0, read_unsupported, 0, 0, 0, NULL},
	{"previous_response_id",  R,   0, read_unsupported, 0, 0, 0, NULL}, /* nothing is stored */
	{"conversation",          R,   0, read_unsupported, 0, 0, 0, NULL},
	{"prompt",                R,   0, read_unsupported, 0, 0, 0, NULL},
	{"background",            R,   0, read_unsupported, 0, 0, 0, "false"},
	{"max_tool_calls",        R,   0, read_unsupported, 0, 0, 0, NULL},
	{"truncation",            R,   0, read_unsupported, 0, 0, 0, "\"disabled\""},
	{"context_management",    R,   0, read_unsupported, 0, 0, 0, "[]"},
	{"moderation",            R,   0, read_unsupported, 0, 0, 0, NULL},
	/* Other servers' extensions. */
	{"documents",             CA,  0, read_unsupported, 0, 0, 0, "[]"},
	{"chat_template",         CA,  0, read_unsupported, 0, 0, 0, NULL},
	{"continue_final_message", CA, 0, read_unsupported, 0, 0, 0, "false"},
	{"with_pieces",           T,   0, read_unsupported, 0, 0, 0, "false"},
	{"repetition_penalty",    CP,  0, read_unsupported, 0, 0, 0, "1 1.0"},
	{"min_tokens",            CP,  0, read_unsupported, 0, 0, 0, "0"},
	{"n_predict",             CP,  0, read_unsupported, 0, 0, 0, NULL},
	{"n_probs",               CP,  0, read_unsupported, 0, 0, 0, "0"},
	{"prompt_logprobs",       CP,  0, read_unsupported, 0, 0, 0, NULL},
	{"stop_token_ids",        CP,  0, read_unsupported, 0, 0, 0, "[]"},
	{"use_beam_search",       CP,  0, read_unsupported, 0, 0, 0, "false"},
	{"length_penalty",        CP,  0, read_unsupported, 0, 0, 0, "1 1.0"},
	{"typical_p",             CP,  0, read_unsupported, 0, 0, 0, "1 1.0"},
	{"mirostat",              CP,  0, read_unsupported, 0, 0, 0, "0"},
	{"xtc_probability",       CP,  0, read_unsupported, 0, 0, 0, "0 0.0"},
	{"dry_multiplier",        CP,  0, read_unsupported, 0, 0, 0, "0 0.0"},
	{"lora",                  CP,  0, read_unsupported, 0, 0, 0, "[]"},
};
/* clang-format on */
enum { N_FIELDS = sizeof table / sizeof *table };

const struct api_field *api_fields(size_t *n)
{
	*n = N_FIELDS;
	return table;
}

static const struct api_field *find(enum api_endpoint endpoint, yyjson_val *key)
{
	for (size_t i = 0; i < N_FIELDS; i++)
		if ((table[i].endpoints & endpoint) && yyjson_equals_str(key, table[i].name))
			return &table[i];
	return NULL;
}

static void set_defaults(struct api_request *request)
{
	request->add_generation_prompt = true;
	request->parse_special = true;
	request->n_choices = 1;
	request->parallel_tool_calls = true;
	request->max_tokens = request->max_completion_tokens = UINT32_MAX;
	request->completion_logprobs = request->top_logprobs = UINT32_MAX;
	request->temperature = request->top_p = request->repeat_penalty = 1;
}

int api_fields_read(struct api_request *request, yyjson_val *root, struct api_error *error)
{
	bool given[N_FIELDS] = {false};
	set_defaults(request);
	yyjson_obj_iter members = yyjson_obj_iter_with(root);
	for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));) {
		yyjson_val *value = yyjson_obj_iter_get_val(key);
		const struct api_field *field = find(request->endpoint, key);
		if (!field)
			return api_error_set(error, 400, "unknown_field", yyjson_get_str(key), "unknown field '%.64s'",
					     yyjson_get_str(key));
		if (yyjson_is_null(value)) /* null means absent */
			continue;
		given[field - table] = true;
		if (field->read(field, value, request, error))
			return -1;
	}
	for (size_t i = 0; i < N_FIELDS; i++)
		if ((table[i].required & request->endpoint) && !given[i])
			return api_error_set(error, 400, "missing_field", table[i].name, "'%s' is missing",
					     table[i].name);
	return 0;
}
