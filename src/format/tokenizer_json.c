/* The vocabulary of a tokenizer.json; the steps around it are read in tokenizer_json_steps.c. */
#include "src/format/tokenizer_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "src/format/tokenizer_json_private.h"

enum { MAX_FILE_BYTES = 512 << 20, MAX_TOKENS = 1 << 24, MAX_MERGES = 1 << 26 };

int tokenizer_json_refuse(struct err *err, const char *path, yyjson_val *value)
{
	if (yyjson_is_str(value))
		return err_set(err, -ENOTSUP, "tokenizer.json: %s: \"%.80s\" is not supported", path,
			       yyjson_get_str(value));
	if (yyjson_is_bool(value))
		return err_set(err, -ENOTSUP, "tokenizer.json: %s: %s is not supported", path,
			       yyjson_get_bool(value) ? "true" : "false");
	return err_set(err, -ENOTSUP, "tokenizer.json: %s: this value is not supported", path);
}

int tokenizer_json_wrong(struct err *err, const char *path, const char *expected)
{
	return err_set(err, -EINVAL, "tokenizer.json: %s: %s is expected", path, expected);
}

bool tokenizer_json_is(yyjson_val *value, const char *text)
{
	return yyjson_equals_str(value, text);
}

static struct tokenizer_json_string string_of(yyjson_val *value)
{
	return (struct tokenizer_json_string){yyjson_get_str(value), (uint32_t)yyjson_get_len(value)};
}

/* --- tokens ----------------------------------------------------------------------------------- */

static int count_id(yyjson_val *id, const char *path, uint32_t *n_tokens, struct err *err)
{
	if (!yyjson_is_uint(id) || yyjson_get_uint(id) >= MAX_TOKENS)
		return tokenizer_json_wrong(err, path, "an id below 16777216");
	if (yyjson_get_uint(id) >= *n_tokens)
		*n_tokens = (uint32_t)yyjson_get_uint(id) + 1;
	return 0;
}

static int count_tokens(yyjson_val *vocab, yyjson_val *added, uint32_t *n_tokens, struct err *err)
{
	size_t i, n;
	yyjson_val *key, *value;
	int ret = 0;
	if (!yyjson_is_obj(vocab) && !yyjson_is_arr(vocab))
		return tokenizer_json_wrong(err, "model.vocab", "an object, or a list of tokens with scores");
	if (yyjson_arr_size(vocab) > MAX_TOKENS)
		return tokenizer_json_wrong(err, "model.vocab", "at most 16777216 tokens");
	*n_tokens = (uint32_t)yyjson_arr_size(vocab);
	if (added && !yyjson_is_null(added) && !yyjson_is_arr(added))
		return tokenizer_json_wrong(err, "added_tokens", "a list");
	yyjson_obj_foreach(vocab, i, n, key, value)
	{
		ret = count_id(value, "model.vocab", n_tokens, err);
		if (ret < 0)
			return ret;
	}
	yyjson_arr_foreach(added, i, n, value)
	{
		ret = count_id(yyjson_obj_get(value, "id"), "added_tokens[].id", n_tokens, err);
		if (ret < 0)
			return ret;
	}
	return *n_tokens ? 0 : tokenizer_json_wrong(err, "model.vocab", "at least one token");
}

static bool is_byte_spelling(struct tokenizer_json_string spelled)
{
	return spelled.n_bytes == 6 && memcmp(spelled.bytes, "<0x", 3) == 0 && spelled.bytes[5] == '>' &&
	       strspn(spelled.bytes + 3, "0123456789ABCDEF") == 2;
}

/* [["<unk>", 0.0], ["\u2581the", -3.1], ...]: the ids are the places. */
static int read_scored_vocab(yyjson_val *vocab, struct tokenizer_json *json, struct err *err)
{
	size_t i, n;
	yyjson_val *pair;
	json->scores = calloc(json->n_tokens, sizeof *json->scores);
	if (!json->scores)
		return -ENOMEM;
	yyjson_arr_foreach(vocab, i, n, pair)
	{
		yyjson_val *spelled = yyjson_arr_get(pair, 0), *score = yyjson_arr_get(pair, 1);
		if (yyjson_arr_size(pair) != 2 || !yyjson_is_str(spelled) || !yyjson_is_num(score))
			return err_set(err, -EINVAL, "tokenizer.json: model.vocab[%zu]: [token, score] is expected", i);
		json->tokens[i] = string_of(spelled);
		json->types[i] = TOKENIZER_JSON_NORMAL;
		json->scores[i] = yyjson_get_num(score);
	}
	return 0;
}

static int read_vocab(yyjson_val *vocab, struct tokenizer_json *json, bool byte_fallback, struct err *err)
{
	size_t i, n;
	yyjson_val *key, *id;
	for (uint32_t token = 0; token < json->n_tokens; token++) {
		json->tokens[token] = (struct tokenizer_json_string){"", 0};
		json->types[token] = TOKENIZER_JSON_UNUSED;
	}
	if (json->kind == TOKENIZER_JSON_UNIGRAM)
		return read_scored_vocab(vocab, json, err);
	yyjson_obj_foreach(vocab, i, n, key, id)
	{
		uint32_t token = (uint32_t)yyjson_get_uint(id);
		if (json->types[token] != TOKENIZER_JSON_UNUSED)
			return err_set(err, -EINVAL, "tokenizer.json: model.vocab: two tokens have the id %u", token);
		json->tokens[token] = string_of(key);
		bool byte = byte_fallback && is_byte_spelling(json->tokens[token]);
		json->types[token] = byte ? TOKENIZER_JSON_BYTE : TOKENIZER_JSON_NORMAL;
	}
	return 0;
}

/* Spaces beside a token that it takes with it, and matching of whole words only, are nothing the engine does. A token
 * that is looked for in the normalized text is the same as any other unless there is a normalizer. */
static int check_added(yyjson_val *token, const struct tokenizer_json *json, struct err *err)
{
	static const char *const options[] = {"single_word", "lstrip", "rstrip"};
	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		if (yyjson_get_bool(yyjson_obj_get(token, options[i])))
			return err_set(err, -ENOTSUP, "tokenizer.json: added_tokens[id %llu].%s: true is not supported",
				       (unsigned long long)yyjson_get_uint(yyjson_obj_get(token, "id")), options[i]);
	bool normalizer = json->kind != TOKENIZER_JSON_BYTE_LEVEL || json->nfc;
	if (normalizer && yyjson_get_bool(yyjson_obj_get(token, "normalized")))
		return err_set(err, -ENOTSUP, "tokenizer.json: added_tokens[id %llu].normalized: true is not supported",
			       (unsigned long long)yyjson_get_uint(yyjson_obj_get(token, "id")));
	return 0;
}

/* Gemma's lists have runs of U+2581 among the added tokens, which in a text are looked for as such, not as the blanks
 * they decode to; those of a text merge into the same tokens. */
static int32_t added_type(yyjson_val *token, const struct tokenizer_json *json, uint32_t id)
{
	if (yyjson_get_bool(yyjson_obj_get(token, "special")))
		return TOKENIZER_JSON_CONTROL;
	bool blanks = json->kind != TOKENIZER_JSON_BYTE_LEVEL && json->types[id] == TOKENIZER_JSON_NORMAL &&
		      strstr(yyjson_get_str(yyjson_obj_get(token, "content")), TOKENIZER_JSON_BLANK);
	return blanks ? TOKENIZER_JSON_NORMAL : TOKENIZER_JSON_USER_DEFINED;
}

static int read_added(yyjson_val *added, struct tokenizer_json *json, struct err *err)
{
	size_t i, n;
	yyjson_val *token;
	yyjson_arr_foreach(added, i, n, token)
	{
		uint32_t id = (uint32_t)yyjson_get_uint(yyjson_obj_get(token, "id"));
		yyjson_val *content = yyjson_obj_get(token, "content");
		int ret = check_added(token, json, err);
		if (ret < 0)
			return ret;
		if (!yyjson_is_str(content) || !yyjson_get_len(content))
			return tokenizer_json_wrong(err, "added_tokens[].content", "a string");
		struct tokenizer_json_string spelled = string_of(content), before = json->tokens[id];
		if (json->types[id] != TOKENIZER_JSON_UNUSED &&
		    (before.n_bytes != spelled.n_bytes || memcmp(before.bytes, spelled.bytes, before.n_bytes) != 0))
			return err_set(err, -EINVAL,
				       "tokenizer.json: added_tokens: id %u is another token in model.vocab", id);
		json->tokens[id] = spelled;
		json->types[id] = added_type(token, json, id);
	}
	return 0;
}

/* --- merges ----------------------------------------------------------------------------------- */

static bool is_part(yyjson_val *part)
{
	return yyjson_is_str(part) && yyjson_get_len(part) && !memchr(yyjson_get_str(part), ' ', yyjson_get_len(part));
}

/* How many bytes of the pool the merges need: those that are pairs. */
static int measure_merges(yyjson_val *merges, size_t *pool_bytes, struct err *err)
{
	size_t i, n, total = 0;
	yyjson_val *merge;
	if (!yyjson_is_arr(merges) || yyjson_arr_size(merges) > MAX_MERGES)
		return tokenizer_json_wrong(err, "model.merges", "a list of at most 67108864 merges");
	yyjson_arr_foreach(merges, i, n, merge)
	{
		yyjson_val *left = yyjson_arr_get(merge, 0), *right = yyjson_arr_get(merge, 1);
		if (yyjson_is_str(merge))
			continue;
		if (yyjson_arr_size(merge) != 2 || !is_part(left) || !is_part(right))
			return err_set(
				err, -EINVAL,
				"tokenizer.json: model.merges[%zu]: \"left right\" or [\"left\", \"right\"] without "
				"blanks is expected",
				i);
		total += yyjson_get_len(left) + 1 + yyjson_get_len(right);
	}
	*pool_bytes = total;
	return 0;
}

static int read_merges(yyjson_val *merges, struct tokenizer_json *json, struct err *err)
{
	size_t i, n, pool_bytes = 0;
	yyjson_val *merge;
	int ret = measure_merges(merges, &pool_bytes, err);
	if (ret < 0)
		return ret;
	json->n_merges = (uint32_t)yyjson_arr_size(merges);
	json->merges = calloc(json->n_merges + 1u, sizeof *json->merges);
	json->pool = malloc(pool_bytes + 1);
	if (!json->merges || !json->pool)
		return -ENOMEM;
	char *at = json->pool;
	yyjson_arr_foreach(merges, i, n, merge)
	{
		if (yyjson_is_str(merge)) {
			json->merges[i] = string_of(merge);
			continue;
		}
		struct tokenizer_json_string left = string_of(yyjson_arr_get(merge, 0)),
					     right = string_of(yyjson_arr_get(merge, 1));
		json->merges[i] = (struct tokenizer_json_string){at, left.n_bytes + 1 + right.n_bytes};
		memcpy(at, left.bytes, left.n_bytes);
		at[left.n_bytes] = ' ';
		memcpy(at + left.n_bytes + 1, right.bytes, right.n_bytes);
		at += json->merges[i].n_bytes;
	}
	return 0;
}

/* --- the model -------------------------------------------------------------------------------- */

static bool is_absent(yyjson_val *value)
{
	return !value || yyjson_is_null(value) || tokenizer_json_is(value, "");
}

/* Unknown characters next to each other become one unknown token here; a file that wants one for each is refused,
 * unless it has byte tokens for all, so that nothing is unknown. */
static int read_unknown(yyjson_val *model, struct tokenizer_json *json, struct err *err)
{
	yyjson_val *unk = yyjson_obj_get(model, "unk_token"), *fuse = yyjson_obj_get(model, "fuse_unk");
	uint32_t n_bytes = 0;
	json->unk = -1;
	if (json->kind == TOKENIZER_JSON_UNIGRAM) {
		yyjson_val *id = yyjson_obj_get(model, "unk_id");
		if (!yyjson_is_uint(id) || yyjson_get_uint(id) >= yyjson_arr_size(yyjson_obj_get(model, "vocab")))
			return tokenizer_json_wrong(err, "model.unk_id", "the id of a token");
		json->unk = (int64_t)yyjson_get_uint(id);
		return 0;
	}
	if (!is_absent(unk)) {
		json->unk =
			yyjson_is_str(unk) ? tokenizer_json_find(json, yyjson_get_str(unk), yyjson_get_len(unk)) : -1;
		if (json->unk < 0)
			return tokenizer_json_wrong(err, "model.unk_token", "a token of the vocabulary");
	}
	for (uint32_t id = 0; id < json->n_tokens; id++)
		n_bytes += json->types[id] == TOKENIZER_JSON_BYTE;
	if (json->kind == TOKENIZER_JSON_CHARACTERS && json->unk >= 0 && n_bytes != 256 && !yyjson_get_bool(fuse))
		return err_set(err, -ENOTSUP, "tokenizer.json: model.fuse_unk: false is not supported");
	return 0;
}

static int check_model(yyjson_val *model, const struct tokenizer_json *json, struct err *err)
{
	static const char *const absent[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
	if (!yyjson_is_obj(model))
		return tokenizer_json_wrong(err, "model", "an object");
	yyjson_val *type = yyjson_obj_get(model, "type");
	if (json->kind == TOKENIZER_JSON_UNIGRAM ? !yyjson_is_arr(yyjson_obj_get(model, "vocab"))
						 : !yyjson_is_obj(yyjson_obj_get(model, "vocab")))
		return tokenizer_json_wrong(err, "model.vocab", "an object, or a list where model.type is Unigram");
	if (type && json->kind != TOKENIZER_JSON_UNIGRAM && !tokenizer_json_is(type, "BPE"))
		return tokenizer_json_refuse(err, "model.type", type);
	for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
		if (!is_absent(yyjson_obj_get(model, absent[i])))
			return err_set(err, -ENOTSUP, "tokenizer.json: model.%s: is not supported", absent[i]);
	yyjson_val *ignore = yyjson_obj_get(model, "ignore_merges"), *bytes = yyjson_obj_get(model, "byte_fallback");
	if (json->kind == TOKENIZER_JSON_UNIGRAM && yyjson_get_bool(bytes))
		return tokenizer_json_refuse(err, "model.byte_fallback", bytes);
	if (json->kind == TOKENIZER_JSON_CHARACTERS && yyjson_get_bool(ignore))
		return tokenizer_json_refuse(err, "model.ignore_merges", ignore);
	if (json->kind == TOKENIZER_JSON_BYTE_LEVEL && yyjson_get_bool(bytes))
		return tokenizer_json_refuse(err, "model.byte_fallback", bytes);
	return 0;
}

static int read_file(yyjson_val *root, uint32_t n_vocab, struct tokenizer_json *json, struct err *err)
{
	yyjson_val *model = yyjson_obj_get(root, "model"), *added = yyjson_obj_get(root, "added_tokens"),
		   *vocab = yyjson_obj_get(model, "vocab");
	int ret = tokenizer_json_read_steps(root, json, err);
	if (ret == 0)
		ret = check_model(model, json, err);
	if (ret == 0)
		ret = count_tokens(vocab, added, &json->n_tokens, err);
	if (ret < 0)
		return ret;
	if (n_vocab > MAX_TOKENS || (n_vocab && n_vocab < json->n_tokens))
		return err_set(err, -EINVAL, "tokenizer.json: %u tokens, but the model has %u", json->n_tokens,
			       n_vocab);
	if (n_vocab)
		json->n_tokens = n_vocab;
	json->tokens = calloc(json->n_tokens, sizeof *json->tokens);
	json->types = calloc(json->n_tokens, sizeof *json->types);
	if (!json->tokens || !json->types)
		return -ENOMEM;
	json->ignore_merges = yyjson_get_bool(yyjson_obj_get(model, "ignore_merges"));
	ret = read_vocab(vocab, json, yyjson_get_bool(yyjson_obj_get(model, "byte_fallback")), err);
	if (ret == 0)
		ret = read_added(added, json, err);
	if (ret == 0)
		ret = read_unknown(model, json, err);
	if (ret == 0 && json->kind != TOKENIZER_JSON_UNIGRAM)
		ret = read_merges(yyjson_obj_get(model, "merges"), json, err);
	return ret == 0 ? tokenizer_json_read_post_processor(root, json, err) : ret;
}

int tokenizer_json_parse(const char *bytes, size_t n_bytes, uint32_t n_vocab, struct tokenizer_json *out,
			 struct err *err)
{
	struct tokenizer_json json = {.pre = "", .unk = -1, .bos = -1, .eos = -1};
	yyjson_read_err wrong;
	if (n_bytes > MAX_FILE_BYTES)
		return err_set(err, -EINVAL, "tokenizer.json: %zu bytes, at most %d are possible", n_bytes,
			       MAX_FILE_BYTES);
	/* Without the in-situ flag the bytes are only read. */
	yyjson_doc *document = yyjson_read_opts((char *)(uintptr_t)bytes, n_bytes, 0, NULL, &wrong);
	if (!document)
		return wrong.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION
			       ? -ENOMEM
			       : err_set(err, -EINVAL, "tokenizer.json: offset %zu: %s", wrong.pos, wrong.msg);
	json.document = document;
	int ret = read_file(yyjson_doc_get_root(document), n_vocab, &json, err);
	if (ret < 0) {
		tokenizer_json_fini(&json);
		return ret;
	}
	*out = json;
	return 0;
}

void tokenizer_json_fini(struct tokenizer_json *json)
{
	if (!json)
		return;
	free(json->tokens);
	free(json->types);
	free(json->scores);
	free(json->merges);
	free(json->pool);
	yyjson_doc_free(json->document);
	*json = (struct tokenizer_json){0};
}

int64_t tokenizer_json_find(const struct tokenizer_json *json, const char *spelled, size_t n_bytes)
{
	for (uint32_t id = 0; id < json->n_tokens; id++)
		if (json->tokens[id].n_bytes == n_bytes && json->types[id] != TOKENIZER_JSON_UNUSED &&
		    memcmp(json->tokens[id].bytes, spelled, n_bytes) == 0)
			return id;
	return -1;
}
