/* tokenizer.json says how texts become tokens; which tokens have a part in chats is in three more files, and not always
 * in all of them. tokenizer_config.json names those that begin and end a text, and says whether the first is put there;
 * where it is silent, what tokenizer.json puts around a text counts. generation_config.json, or else config.json, lists
 * the tokens that end an answer. The chat template is a file of its own or a string in tokenizer_config.json. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/utf8.h"
#include "src/load/model_hf_private.h"
#include "src/load/model_tokenizer.h"

/* --- special tokens --------------------------------------------------------------------------- */

/* A token is named by its text, or by an object that has it as its content. */
static int read_token(const struct model_hf *folder, const struct tokenizer_json *json, const char *key, int64_t *id,
		      struct err *err)
{
	const struct hf_json *config = &folder->tokenizer;
	struct hf_string name = {"", 0};
	char path[48], quoted[HF_STRING_SHOWN_BYTES];
	bool is_object = yyjson_is_obj(hf_json_find(config, key));
	snprintf(path, sizeof path, is_object ? "%s.content" : "%s", key);
	int rc = hf_json_string(config, path, &name, err);
	if (rc == -ENOENT && is_object)
		return hf_json_refuse(config, path, -EINVAL, err, "is missing");
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	*id = tokenizer_json_find(json, name.bytes, name.n_bytes);
	if (*id < 0)
		return hf_json_refuse(config, path, -EINVAL, err, "'%s' is no token of tokenizer.json",
				      hf_string_quote(&name, quoted));
	return 0;
}

/* What is put around every text is one token on each side, and it is the one that the model calls so. */
static int read_around(const struct hf_json *config, const char *key, int64_t token, int64_t put, bool *add,
		       struct err *err)
{
	*add = put >= 0;
	int rc = hf_json_bool(config, key, add, err);
	if (rc && rc != -ENOENT)
		return rc;
	if (*add && token < 0)
		return hf_json_refuse(config, key, -EINVAL, err, "true, but no file names the token");
	if (*add && put >= 0 && token != put)
		return hf_json_refuse(config, key, -ENOTSUP, err,
				      "tokenizer.json puts token %lld there, the model's own is %lld", (long long)put,
				      (long long)token);
	return 0;
}

/* --- what ends an answer ---------------------------------------------------------------------- */

static int add_end(const struct hf_json *json, yyjson_val *value, struct tokenizer_source *source, struct err *err)
{
	if (!yyjson_is_uint(value) || yyjson_get_uint(value) >= source->n_tokens)
		return hf_json_refuse(json, "eos_token_id", -EINVAL, err,
				      "an id below %u, or a list of such, is expected", source->n_tokens);
	uint32_t id = (uint32_t)yyjson_get_uint(value);
	bool known = (int64_t)id == source->eos;
	for (uint32_t i = 0; i < source->n_ends; i++)
		known |= id == source->ends[i];
	if (known)
		return 0;
	if (source->n_ends == TOKENIZER_MAX_ENDS)
		return hf_json_refuse(json, "eos_token_id", -ENOTSUP, err, "more than %d tokens are not supported",
				      TOKENIZER_MAX_ENDS);
	source->ends[source->n_ends++] = id;
	return 0;
}

static int read_ends(const struct model_hf *folder, struct tokenizer_source *source, struct err *err)
{
	const struct hf_json *json = &folder->generation;
	yyjson_val *value = hf_json_find(json, "eos_token_id"), *id;
	size_t i, n;
	int rc = 0;
	if (!value) {
		json = &folder->config;
		value = hf_json_find(json, "eos_token_id");
	}
	if (!value)
		return 0;
	/* Without a name the first of them is the one that templates put. */
	yyjson_val *first = yyjson_is_arr(value) ? yyjson_arr_get_first(value) : value;
	if (source->eos < 0 && yyjson_is_uint(first) && yyjson_get_uint(first) < source->n_tokens)
		source->eos = (int64_t)yyjson_get_uint(first);
	if (!yyjson_is_arr(value))
		return add_end(json, value, source, err);
	yyjson_arr_foreach(value, i, n, id)
	{
		if (rc == 0)
			rc = add_end(json, id, source, err);
	}
	return rc;
}

/* --- the chat template ------------------------------------------------------------------------ */

static int keep_template(struct model_plan *plan, const char *bytes, size_t n_bytes, struct err *err)
{
	plan->pool = malloc(n_bytes + 1);
	if (!plan->pool)
		return err_set(err, -ENOMEM, "no memory for a chat template of %zu bytes", n_bytes);
	memcpy(plan->pool, bytes, n_bytes);
	plan->chat_template = plan->pool;
	plan->template_bytes = n_bytes;
	return 0;
}

/* Of several the one for chats without tools and documents is called default. */
static int read_list(const struct model_hf *folder, yyjson_val *list, struct model_plan *plan, struct err *err)
{
	size_t i, n;
	yyjson_val *entry;
	yyjson_arr_foreach(list, i, n, entry)
	{
		yyjson_val *text = yyjson_obj_get(entry, "template");
		if (yyjson_equals_str(yyjson_obj_get(entry, "name"), "default") && yyjson_is_str(text))
			return keep_template(plan, yyjson_get_str(text), yyjson_get_len(text), err);
	}
	return hf_json_refuse(&folder->tokenizer, "chat_template", -ENOTSUP, err,
			      "a list without one that is called default");
}

static int read_template(const struct model_hf *folder, struct model_plan *plan, struct err *err)
{
	const struct model_hf_file *file = model_hf_find(folder->files, folder->n, "chat_template.jinja");
	yyjson_val *value = hf_json_find(&folder->tokenizer, "chat_template");
	if (file && !utf8_is_valid(file->bytes, file->n_bytes))
		return err_set(err, -EINVAL, "chat_template.jinja: is not UTF-8");
	if (file)
		return keep_template(plan, file->bytes, file->n_bytes, err);
	if (yyjson_is_arr(value))
		return read_list(folder, value, plan, err);
	if (yyjson_is_str(value))
		return keep_template(plan, yyjson_get_str(value), yyjson_get_len(value), err);
	return value ? hf_json_refuse(&folder->tokenizer, "chat_template", -EINVAL, err, "a string is expected") : 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int read_specials(const struct model_hf *folder, struct model_plan *plan, struct err *err)
{
	const struct tokenizer_json *json = &plan->tokenizer_json;
	struct tokenizer_source *source = &plan->tokenizer;
	int rc = read_token(folder, json, "bos_token", &source->bos, err);
	if (rc == 0)
		rc = read_token(folder, json, "eos_token", &source->eos, err);
	if (rc == 0)
		rc = read_token(folder, json, "pad_token", &source->pad, err);
	if (rc == 0)
		rc = read_ends(folder, source, err);
	if (rc == 0)
		rc = read_around(&folder->tokenizer, "add_bos_token", source->bos, json->bos, &source->add_bos, err);
	if (rc == 0)
		rc = read_around(&folder->tokenizer, "add_eos_token", source->eos, json->eos, &source->add_eos, err);
	return rc;
}

int model_hf_plan_tokenizer(const struct model_hf *folder, struct model_plan *plan, struct err *err)
{
	const struct model_hf_file *file = model_hf_find(folder->files, folder->n, "tokenizer.json");
	if (!file)
		return err_set(err, -EINVAL, "the folder has no tokenizer.json");
	int rc = tokenizer_json_parse(file->bytes, file->n_bytes, plan->config.vocab, &plan->tokenizer_json, err);
	if (rc == 0 && plan->tokenizer_json.puts_more)
		rc = err_set(err, -ENOTSUP, TOKENIZER_JSON_PUTS_MORE);
	if (rc == 0)
		rc = model_tokenizer_init(&plan->tokenizer_json, &plan->tokenizer);
	if (rc == -ENOMEM)
		err_set(err, rc, "tokenizer.json: no memory for its tokens");
	if (rc == 0)
		rc = read_specials(folder, plan, err);
	return rc ? rc : read_template(folder, plan, err);
}
