/* The steps around the vocabulary. A step may be a Sequence of steps; a list of one stands for a step alone, so both
 * are read by one loop. Each step is known by its type and by every option that changes what it does. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "src/format/tokenizer_json_private.h"

#define LLAMA3_PATTERN(digits)                                                     \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits \
	"| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*["                                    \
	"\\r\\n]+|\\s+(?!\\S)|\\s+"

/* The patterns by which the known families cut words, letter by letter, and their names in GGUF files. */
static const struct {
	const char *pattern, *pre;
} patterns[] = {
	{LLAMA3_PATTERN("{1,3}"), "llama-bpe"},
	{LLAMA3_PATTERN(""), "qwen2"},
};

/* The steps of `root[name]`: absent, one, or those of a Sequence whose list is `list`. */
struct steps {
	const char *name, *list;
	yyjson_val *step, *steps;
	size_t n;
};

static struct steps steps_of(yyjson_val *root, const char *name, const char *list)
{
	struct steps steps = {.name = name, .list = list, .step = yyjson_obj_get(root, name)};
	if (!steps.step || yyjson_is_null(steps.step))
		return steps;
	steps.n = 1;
	if (tokenizer_json_is(yyjson_obj_get(steps.step, "type"), "Sequence")) {
		steps.steps = yyjson_obj_get(steps.step, list);
		steps.n = yyjson_arr_size(steps.steps);
	}
	return steps;
}

static yyjson_val *step_at(const struct steps *steps, size_t i)
{
	return steps->steps ? yyjson_arr_get(steps->steps, i) : steps->step;
}

static const char *type_at(const struct steps *steps, size_t i)
{
	const char *type = yyjson_get_str(yyjson_obj_get(step_at(steps, i), "type"));
	return type ? type : "";
}

/* Refuses step i, or its option if one is named. */
static int refuse_step(const struct steps *steps, size_t i, const char *option, struct err *err)
{
	char path[128];
	const char *field = option ? option : "type";
	if (steps->steps)
		snprintf(path, sizeof path, "%s.%s[%zu].%s", steps->name, steps->list, i, field);
	else
		snprintf(path, sizeof path, "%s.%s", steps->name, field);
	return tokenizer_json_refuse(err, path, yyjson_obj_get(step_at(steps, i), field));
}

static bool option_is(const struct steps *steps, size_t i, const char *option, const char *text)
{
	return tokenizer_json_is(yyjson_obj_get(step_at(steps, i), option), text);
}

static bool option_bool(const struct steps *steps, size_t i, const char *option, bool absent)
{
	yyjson_val *value = yyjson_obj_get(step_at(steps, i), option);
	return yyjson_is_bool(value) ? yyjson_get_bool(value) : absent;
}

/* {"String": text} */
static bool pattern_is(const struct steps *steps, size_t i, const char *text)
{
	return tokenizer_json_is(yyjson_obj_get(yyjson_obj_get(step_at(steps, i), "pattern"), "String"), text);
}

/* --- normalizer ------------------------------------------------------------------------------- */

/* What a normalizer and a pre-tokenizer may do about blanks, whichever of the two it is that does it. */
struct found {
	bool replaces_blanks;
	bool byte_level, byte_level_words, digits;
	bool unigram;		 /* model.type */
	const char *pattern_pre; /* NULL: no Split */
};

static int read_normalizer(yyjson_val *root, struct tokenizer_json *json, struct found *found, struct err *err)
{
	struct steps steps = steps_of(root, "normalizer", "normalizers");
	for (size_t i = 0; i < steps.n; i++) {
		const char *type = type_at(&steps, i);
		if (strcmp(type, "Prepend") == 0 && !found->replaces_blanks) {
			if (!option_is(&steps, i, "prepend", TOKENIZER_JSON_BLANK))
				return refuse_step(&steps, i, "prepend", err);
			json->blank = TOKENIZER_JSON_BLANK_EVERY;
		} else if (strcmp(type, "Replace") == 0) {
			if (!pattern_is(&steps, i, " "))
				return refuse_step(&steps, i, "pattern", err);
			if (!option_is(&steps, i, "content", TOKENIZER_JSON_BLANK))
				return refuse_step(&steps, i, "content", err);
			found->replaces_blanks = true;
		} else if (strcmp(type, "NFC") == 0) {
			json->nfc = true; /* blanks compose with nothing, so the order does not matter */
		} else {
			return refuse_step(&steps, i, NULL, err);
		}
	}
	if (json->blank && !found->replaces_blanks)
		return tokenizer_json_wrong(err, "normalizer", "a Replace of blanks");
	return 0;
}

/* --- pre-tokenizer ---------------------------------------------------------------------------- */

static int read_metaspace(const struct steps *steps, size_t i, struct tokenizer_json *json, struct found *found,
			  struct err *err)
{
	bool prefix = option_bool(steps, i, "add_prefix_space", true);
	if (!option_is(steps, i, "replacement", TOKENIZER_JSON_BLANK))
		return refuse_step(steps, i, "replacement", err);
	json->words_at_blanks = option_bool(steps, i, "split", true);
	if (json->words_at_blanks && !found->unigram) /* merges would have to stop there */
		return refuse_step(steps, i, "split", err);
	if (found->replaces_blanks)
		return refuse_step(steps, i, NULL, err);
	found->replaces_blanks = true;
	if (option_is(steps, i, "prepend_scheme", "first"))
		json->blank = TOKENIZER_JSON_BLANK_FIRST;
	else if (option_is(steps, i, "prepend_scheme", "never") || !prefix)
		json->blank = TOKENIZER_JSON_BLANK_NONE;
	else
		json->blank = TOKENIZER_JSON_BLANK_EVERY_UNLESS;
	return 0;
}

static int read_split(const struct steps *steps, size_t i, struct found *found, struct err *err)
{
	/* Gemma cuts at blanks, of which its normalizer has left none. */
	if (pattern_is(steps, i, " ") && found->replaces_blanks)
		return 0;
	yyjson_val *regex = yyjson_obj_get(yyjson_obj_get(step_at(steps, i), "pattern"), "Regex");
	for (size_t k = 0; k < sizeof patterns / sizeof *patterns && !found->pattern_pre; k++)
		if (tokenizer_json_is(regex, patterns[k].pattern))
			found->pattern_pre = patterns[k].pre;
	if (!found->pattern_pre || found->digits)
		return refuse_step(steps, i, "pattern", err);
	if (!option_is(steps, i, "behavior", "Isolated"))
		return refuse_step(steps, i, "behavior", err);
	return option_bool(steps, i, "invert", false) ? refuse_step(steps, i, "invert", err) : 0;
}

static int read_byte_level(const struct steps *steps, size_t i, struct found *found, struct err *err)
{
	if (option_bool(steps, i, "add_prefix_space", true))
		return refuse_step(steps, i, "add_prefix_space", err);
	found->byte_level = true;
	found->byte_level_words = option_bool(steps, i, "use_regex", true);
	return 0;
}

static int read_pre_tokenizer(yyjson_val *root, struct tokenizer_json *json, struct found *found, struct err *err)
{
	struct steps steps = steps_of(root, "pre_tokenizer", "pretokenizers");
	for (size_t i = 0; i < steps.n; i++) {
		const char *type = type_at(&steps, i);
		int ret = 0;
		if (found->byte_level) /* what comes behind would see the spelled bytes */
			return refuse_step(&steps, i, NULL, err);
		if (strcmp(type, "Metaspace") == 0)
			ret = read_metaspace(&steps, i, json, found, err);
		else if (strcmp(type, "Split") == 0)
			ret = read_split(&steps, i, found, err);
		else if (strcmp(type, "ByteLevel") == 0)
			ret = read_byte_level(&steps, i, found, err);
		else if (strcmp(type, "Digits") == 0 && option_bool(&steps, i, "individual_digits", false))
			found->digits = true;
		else
			ret = refuse_step(&steps, i, NULL, err);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* Which kind of vocabulary the steps found belong to. */
static int conclude(struct tokenizer_json *json, const struct found *found, struct err *err)
{
	if (found->unigram && found->replaces_blanks && !found->byte_level && !found->pattern_pre && !found->digits) {
		json->kind = TOKENIZER_JSON_UNIGRAM;
		return 0;
	}
	if (found->unigram)
		return err_set(err, -ENOTSUP,
			       "tokenizer.json: pre_tokenizer: a Unigram model without Metaspace is not supported");
	bool words = found->byte_level_words, pattern = found->pattern_pre, digits = found->digits;
	json->kind = found->byte_level ? TOKENIZER_JSON_BYTE_LEVEL : TOKENIZER_JSON_CHARACTERS;
	if (found->byte_level && !found->replaces_blanks && words != pattern && !(pattern && digits)) {
		json->pre = pattern ? found->pattern_pre : digits ? "smollm" : "gpt-2";
		return 0;
	}
	if (!found->byte_level && found->replaces_blanks && !pattern && !digits)
		return 0;
	return err_set(
		err, -ENOTSUP,
		"tokenizer.json: pre_tokenizer: neither ByteLevel with a known pattern nor blanks written as U+2581");
}

/* --- decoder ---------------------------------------------------------------------------------- */

/* Decoding is what the vocabulary's spelling says; the file must not say otherwise. */
static int check_decoder(yyjson_val *root, const struct tokenizer_json *json, struct err *err)
{
	struct steps steps = steps_of(root, "decoder", "decoders");
	for (size_t i = 0; i < steps.n; i++) {
		const char *type = type_at(&steps, i);
		bool known = strcmp(type, "ByteFallback") == 0 || strcmp(type, "Fuse") == 0 ||
			     strcmp(type, "Metaspace") == 0 || strcmp(type, "Strip") == 0;
		if (strcmp(type, "Replace") == 0)
			known = pattern_is(&steps, i, TOKENIZER_JSON_BLANK) && option_is(&steps, i, "content", " ");
		if (json->kind == TOKENIZER_JSON_BYTE_LEVEL)
			known = strcmp(type, "ByteLevel") == 0;
		if (!known)
			return refuse_step(&steps, i, NULL, err);
	}
	return 0;
}

int tokenizer_json_read_steps(yyjson_val *root, struct tokenizer_json *json, struct err *err)
{
	if (!yyjson_is_obj(root))
		return tokenizer_json_wrong(err, "the file", "an object");
	struct found found = {
		.unigram = tokenizer_json_is(yyjson_obj_get(yyjson_obj_get(root, "model"), "type"), "Unigram")};
	int ret = read_normalizer(root, json, &found, err);
	if (ret == 0)
		ret = read_pre_tokenizer(root, json, &found, err);
	if (ret == 0)
		ret = conclude(json, &found, err);
	return ret == 0 ? check_decoder(root, json, err) : ret;
}

/* --- post-processor --------------------------------------------------------------------------- */

/* The id of a special token that a template names: special_tokens[name].ids has just one. */
static int template_token(yyjson_val *step, yyjson_val *item, const struct tokenizer_json *json, int64_t *id,
			  struct err *err)
{
	yyjson_val *name = yyjson_obj_get(yyjson_obj_get(item, "SpecialToken"), "id");
	yyjson_val *special = yyjson_is_str(name) ? yyjson_obj_getn(yyjson_obj_get(step, "special_tokens"),
								    yyjson_get_str(name), yyjson_get_len(name))
						  : NULL;
	yyjson_val *ids = yyjson_obj_get(special, "ids"), *first = yyjson_arr_get(ids, 0);
	if (yyjson_arr_size(ids) != 1 || !yyjson_is_uint(first) || yyjson_get_uint(first) >= json->n_tokens)
		return tokenizer_json_wrong(err, "post_processor: special_tokens", "one id of the vocabulary for each");
	*id = (int64_t)yyjson_get_uint(first);
	return 0;
}

/* At most one token, the text, at most one token; of more the first. */
static int read_template(yyjson_val *step, struct tokenizer_json *json, struct err *err)
{
	size_t i, n;
	yyjson_val *item;
	bool after = false;
	yyjson_arr_foreach(yyjson_obj_get(step, "single"), i, n, item)
	{
		if (yyjson_obj_get(item, "Sequence") && !after) {
			after = true;
			continue;
		}
		int64_t *id = after ? &json->eos : &json->bos;
		if (!yyjson_obj_get(item, "SpecialToken"))
			return err_set(err, -ENOTSUP, TOKENIZER_JSON_PUTS_MORE);
		if (*id >= 0) {
			json->puts_more = true;
			continue;
		}
		int ret = template_token(step, item, json, id, err);
		if (ret < 0)
			return ret;
	}
	return after ? 0 : tokenizer_json_wrong(err, "post_processor: single", "a template with the text");
}

int tokenizer_json_read_post_processor(yyjson_val *root, struct tokenizer_json *json, struct err *err)
{
	struct steps steps = steps_of(root, "post_processor", "processors");
	for (size_t i = 0; i < steps.n; i++) {
		int ret = 0;
		if (strcmp(type_at(&steps, i), "TemplateProcessing") == 0)
			ret = read_template(step_at(&steps, i), json, err);
		else if (strcmp(type_at(&steps, i), "ByteLevel") != 0) /* that one only moves offsets */
			ret = refuse_step(&steps, i, NULL, err);
		if (ret < 0)
			return ret;
	}
	return 0;
}
