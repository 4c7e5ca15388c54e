#include "src/load/model_speech.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/load/model_tokenizer.h"

void model_speech_defaults(struct image_config *config)
{
	config->family = IMAGE_FAMILY_WHISPER;
	config->norm_eps = 1e-5f;
	config->tied_head = 1;
	config->activation = IMAGE_GELU;
	config->embedding_scale = 1;
}

/* --- tensors ---------------------------------------------------------------------------------- */

struct entry {
	struct image_tensor tensor;
	struct model_source source;
};

static uint32_t kind_of(const struct family_tensor *expected, const struct model_source *source,
			enum model_quantize quantize)
{
	uint32_t role = expected->role & ~(uint32_t)IMAGE_OF_ENCODER;
	bool keeps = role == IMAGE_POSITION_EMBD || role == IMAGE_CONV1 || role == IMAGE_CONV2;
	if (expected->vector)
		return PACK_F32;
	if (quantize == MODEL_BF16)
		return PACK_BF16;
	if (source->scales || (quantize == MODEL_INT8 && !keeps))
		return PACK_Q8_0;
	return source->kind;
}

static int by_place(const void *a, const void *b)
{
	const struct model_source *x = &((const struct entry *)a)->source, *y = &((const struct entry *)b)->source;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

static int check_quantize(const struct entry *entry, enum model_quantize quantize, struct err *err)
{
	const struct model_source *source = &entry->source;
	if (entry->tensor.vector || source->scales || source->kind == entry->tensor.kind || source->kind <= PACK_BF16)
		return 0;
	return err_set(err, -ENOTSUP,
		       "key 'quantize': the file's weights are %s already; they are served as they are, with "
		       "quantize = none (%d was asked for)",
		       pack_kind_name(source->kind), quantize);
}

int model_speech_place(struct model_plan *plan, enum model_quantize quantize, const struct model_source *found,
		       struct err *err)
{
	uint32_t n = family_n_tensors(&plan->config);
	int rc = 0;
	if (quantize == MODEL_INT4)
		return err_set(err, -ENOTSUP, "key 'quantize': int4 is not possible with a speech model, int8 is");
	struct entry *entries = calloc(n, sizeof *entries);
	plan->tensors = calloc(n, sizeof *plan->tensors);
	plan->sources = calloc(n, sizeof *plan->sources);
	plan->n_tensors = n;
	if (!entries || !plan->tensors || !plan->sources)
		rc = err_set(err, -ENOMEM, "no memory for %u tensors", n);
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		struct family_tensor expected;
		family_tensor(&plan->config, i, &expected);
		entries[i] = (struct entry){.source = found[i],
					    .tensor = {.role = expected.role,
						       .layer = expected.layer,
						       .kind = kind_of(&expected, &found[i], quantize),
						       .vector = expected.vector,
						       .rows = expected.rows,
						       .cols = expected.cols}};
		rc = check_quantize(&entries[i], quantize, err);
	}
	if (rc == 0)
		qsort(entries, n, sizeof *entries, by_place);
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		plan->tensors[i] = entries[i].tensor;
		plan->sources[i] = entries[i].source;
	}
	free(entries);
	return rc;
}

/* --- tokens ----------------------------------------------------------------------------------- */

static int find_token(const struct tokenizer_json *json, const char *spelled, uint32_t *out, struct err *err)
{
	int64_t id = tokenizer_json_find(json, spelled, strlen(spelled));
	if (id < 0)
		return err_set(err, -EINVAL,
			       "tokenizer.json: added_tokens: '%s' is missing, which a speech model needs", spelled);
	*out = (uint32_t)id;
	return 0;
}

static int find_specials(const struct tokenizer_json *json, struct speech_table *t, struct err *err)
{
	/* English models number as GPT-2 does, whose end of text is token 50256; the others have one token more. */
	enum { ENGLISH_EOT = 50256 };
	const struct {
		const char *spelled;
		uint32_t *id;
	} specials[] = {
		{"<|endoftext|>", &t->eot},
		{"<|startoftranscript|>", &t->sot},
		{"<|translate|>", &t->translate},
		{"<|transcribe|>", &t->transcribe},
		{"<|startoflm|>", &t->sot_lm},
		{"<|startofprev|>", &t->sot_prev},
		{"<|notimestamps|>", &t->no_timestamps},
	};
	int rc = 0;
	for (size_t i = 0; i < sizeof specials / sizeof *specials && rc == 0; i++)
		rc = find_token(json, specials[i].spelled, specials[i].id, err);
	if (rc == 0 && find_token(json, "<|nospeech|>", &t->no_speech, err)) /* older files have the other name */
		rc = find_token(json, "<|nocaptions|>", &t->no_speech, err);
	t->first_timestamp = t->no_timestamps + 1;
	t->is_multilingual = t->eot != ENGLISH_EOT;
	if (rc == 0 && t->first_timestamp >= json->n_tokens)
		rc = err_set(err, -EINVAL, "tokenizer.json: no tokens are left for times behind '<|notimestamps|>', %u",
			     t->no_timestamps);
	return rc;
}

int model_speech_tokenizer(struct model_plan *plan, const void *bytes, size_t n_bytes, struct err *err)
{
	int rc = tokenizer_json_parse(bytes, n_bytes, plan->config.vocab, &plan->tokenizer_json, err);
	if (rc == 0 && plan->tokenizer_json.kind != TOKENIZER_JSON_BYTE_LEVEL)
		rc = err_set(err, -ENOTSUP, "tokenizer.json: pre_tokenizer: a speech model's is ByteLevel");
	if (rc == 0)
		rc = model_tokenizer_init(&plan->tokenizer_json, &plan->tokenizer);
	if (rc == -ENOMEM)
		err_set(err, rc, "tokenizer.json: no memory for its tokens");
	if (rc == 0)
		rc = find_specials(&plan->tokenizer_json, &plan->speech.table, err);
	if (rc)
		return rc;
	plan->tokenizer.bos = -1;
	plan->tokenizer.eos = plan->speech.table.eot;
	plan->tokenizer.add_bos = plan->tokenizer.add_eos = false;
	return 0;
}

/* "<|yue|>" */
static bool is_language(const struct tokenizer_json_string *token, char code[SPEECH_CODE_BYTES])
{
	uint32_t n = token->n_bytes - 4; /* wraps where it is shorter */
	if (token->n_bytes < 6 || n >= SPEECH_CODE_BYTES || memcmp(token->bytes, "<|", 2) != 0 ||
	    memcmp(token->bytes + 2 + n, "|>", 2) != 0)
		return false;
	memset(code, 0, SPEECH_CODE_BYTES);
	for (uint32_t i = 0; i < n; i++) {
		if (token->bytes[2 + i] < 'a' || token->bytes[2 + i] > 'z')
			return false;
		code[i] = token->bytes[2 + i];
	}
	return true;
}

int model_speech_languages(struct model_plan *plan, const uint32_t *ids, uint32_t n, struct err *err)
{
	const struct tokenizer_json *json = &plan->tokenizer_json;
	struct speech_table *t = &plan->speech.table;
	uint32_t first = t->sot + 1;
	if (!ids)
		n = t->translate > first ? t->translate - first : 0;
	if (n > SPEECH_MAX_LANGUAGES)
		return err_set(err, -EINVAL, "%u languages, at most %d are possible", n, SPEECH_MAX_LANGUAGES);
	struct speech_language *languages = calloc(n + 1u, sizeof *languages);
	plan->speech.languages = languages;
	if (!languages)
		return err_set(err, -ENOMEM, "no memory for %u languages", n);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t id = ids ? ids[i] : first + i;
		if (id >= json->n_tokens || !is_language(&json->tokens[id], languages[i].code))
			return err_set(err, -EINVAL, "tokenizer.json: token %u is to be a language's, as '<|en|>' is",
				       id);
		languages[i].token = id;
	}
	t->n_languages = n;
	return 0;
}

/* --- lists of JSON files ---------------------------------------------------------------------- */

int model_speech_ids(const struct hf_json *json, const char *key, uint32_t **out, uint32_t *n, struct err *err)
{
	yyjson_val *list = hf_json_find(json, key), *item;
	size_t i, n_items;
	*out = NULL;
	*n = 0;
	if (!list)
		return 0;
	if (!yyjson_is_arr(list) || yyjson_arr_size(list) > 1 << 20)
		return hf_json_refuse(json, key, -EINVAL, err, "a list of tokens is expected");
	uint32_t *ids = calloc(yyjson_arr_size(list) + 1, sizeof *ids);
	if (!ids)
		return err_set(err, -ENOMEM, "no memory for %zu tokens", yyjson_arr_size(list));
	yyjson_arr_foreach(list, i, n_items, item)
	{
		if (!yyjson_is_uint(item) || yyjson_get_uint(item) > UINT32_MAX) {
			free(ids);
			return hf_json_refuse(json, key, -EINVAL, err, "item %zu: a token's id is expected", i);
		}
		ids[i] = (uint32_t)yyjson_get_uint(item);
	}
	*out = ids;
	*n = (uint32_t)yyjson_arr_size(list);
	return 0;
}

static int upper_half(const struct image_config *config, struct speech_head **out, uint32_t *n, struct err *err)
{
	uint32_t first = config->n_layers / 2, n_heads = (config->n_layers - first) * config->n_heads;
	struct speech_head *heads = calloc(n_heads, sizeof *heads);
	if (!heads)
		return err_set(err, -ENOMEM, "no memory for %u heads", n_heads);
	for (uint32_t i = 0; i < n_heads; i++)
		heads[i] = (struct speech_head){first + i / config->n_heads, i % config->n_heads};
	*out = heads;
	*n = n_heads;
	return 0;
}

static int read_heads(const struct hf_json *json, const char *key, yyjson_val *list, const struct image_config *config,
		      struct speech_head *heads, struct err *err)
{
	size_t i, n;
	yyjson_val *pair;
	yyjson_arr_foreach(list, i, n, pair)
	{
		yyjson_val *layer = yyjson_arr_get(pair, 0), *head = yyjson_arr_get(pair, 1);
		if (yyjson_arr_size(pair) != 2 || !yyjson_is_uint(layer) || !yyjson_is_uint(head) ||
		    yyjson_get_uint(layer) >= config->n_layers || yyjson_get_uint(head) >= config->n_heads)
			return hf_json_refuse(json, key, -EINVAL, err,
					      "item %zu: [layer, head] below [%u, %u] is expected", i, config->n_layers,
					      config->n_heads);
		heads[i] = (struct speech_head){(uint32_t)yyjson_get_uint(layer), (uint32_t)yyjson_get_uint(head)};
	}
	return 0;
}

int model_speech_heads(struct model_plan *plan, const struct hf_json *json, const char *key, struct err *err)
{
	yyjson_val *list = hf_json_find(json, key);
	struct speech_head *heads = NULL;
	uint32_t n = 0;
	int rc = 0;
	if (!list)
		rc = upper_half(&plan->config, &heads, &n, err);
	else if (!yyjson_is_arr(list) || yyjson_arr_size(list) > plan->config.n_layers * plan->config.n_heads)
		return hf_json_refuse(json, key, -EINVAL, err, "a list of [layer, head] is expected, each once");
	else {
		n = (uint32_t)yyjson_arr_size(list);
		heads = calloc(n + 1u, sizeof *heads);
		rc = heads ? read_heads(json, key, list, &plan->config, heads, err)
			   : err_set(err, -ENOMEM, "no memory for %u heads", n);
	}
	plan->speech.heads = heads;
	plan->speech.table.n_heads = rc ? 0 : n;
	return rc;
}

int model_speech_check(const struct model_plan *plan, struct err *err)
{
	uint64_t bytes = speech_table_bytes(&plan->speech);
	void *table = malloc(bytes);
	if (!table)
		return err_set(err, -ENOMEM, "no memory for %" PRIu64 " bytes of tokens", bytes);
	speech_table_build(&plan->speech, table);
	int rc = speech_table_check(table, bytes, &plan->config, err);
	free(table);
	return rc;
}
