/* What is refused here rather than ignored: any tensor that the family doesn't know, and any key that would change the
 * arithmetic. A model that is computed almost right gives answers nobody can tell from right ones. */
#include "src/load/model_gguf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/load/model_gguf_config.h"

static int check_config(const struct gguf *gguf, const struct model_plan *plan, struct err *err)
{
	const char *suffix = "";
	char key[MODEL_GGUF_KEY_BYTES];
	struct err what;
	int rc = family_check(&plan->config, &suffix, &what);
	return rc ? model_gguf_refuse(gguf, model_gguf_key(plan->family, suffix, key), rc, err, "%.180s", what.text)
		  : 0;
}

/* Blocks as this program unpacks them. */
static int check_general(const struct gguf *gguf, struct err *err)
{
	uint32_t quantization = 2;
	int rc = gguf_get_u32(gguf, "general.quantization_version", &quantization, err);
	if (rc && rc != -ENOENT)
		return rc;
	if (quantization != 2)
		return model_gguf_refuse(gguf, "general.quantization_version", -ENOTSUP, err,
					 "%u is not supported (2 is)", quantization);
	return 0;
}

/* --- tensors ---------------------------------------------------------------------------------- */

int model_gguf_pack_kind(uint32_t type)
{
	switch ((enum gguf_tensor_type)type) {
	case GGUF_TENSOR_F32:
		return PACK_F32;
	case GGUF_TENSOR_F16:
		return PACK_F16;
	case GGUF_TENSOR_BF16:
		return PACK_BF16;
	case GGUF_TENSOR_Q4_0:
		return PACK_Q4_0;
	case GGUF_TENSOR_Q4_1:
		return PACK_Q4_1;
	case GGUF_TENSOR_Q8_0:
		return PACK_Q8_0;
	case GGUF_TENSOR_Q5_0:
		return PACK_Q5_0;
	case GGUF_TENSOR_Q5_1:
		return PACK_Q5_1;
	case GGUF_TENSOR_Q2_K:
		return PACK_Q2_K;
	case GGUF_TENSOR_Q3_K:
		return PACK_Q3_K;
	case GGUF_TENSOR_Q4_K:
		return PACK_Q4_K;
	case GGUF_TENSOR_Q5_K:
		return PACK_Q5_K;
	case GGUF_TENSOR_Q6_K:
		return PACK_Q6_K;
	case GGUF_TENSOR_IQ4_NL:
		return PACK_IQ4_NL;
	}
	return -1;
}

/* Finds the tensor that the family expects and gives it its role. */
static int plan_tensor(const struct gguf *gguf, const struct family_tensor *expected, struct model_plan *plan,
		       struct err *err)
{
	char name[FAMILY_NAME_BYTES], place[GGUF_PLACE_BYTES];
	const struct gguf_tensor *tensor = gguf_find_tensor(gguf, family_tensor_name(expected, name));
	if (!tensor)
		return err_set(err, -EINVAL, "tensor '%s': is missing", name);
	if (tensor->dim[0] != expected->cols || tensor->dim[1] != expected->rows || tensor->dim[2] != 1 ||
	    tensor->dim[3] != 1)
		return err_set(err, -EINVAL,
			       "%s: tensor '%s', dimensions: %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
			       ", expected %u x %u",
			       gguf_place(gguf, tensor, place), name, tensor->dim[0], tensor->dim[1], tensor->dim[2],
			       tensor->dim[3], expected->cols, expected->rows);
	int kind = model_gguf_pack_kind(tensor->type);
	bool plain = kind == PACK_F32 || kind == PACK_F16 || kind == PACK_BF16;
	if (kind < 0 || (expected->vector && !plain))
		return err_set(err, -ENOTSUP, "%s: tensor '%s', type: %s is not supported here (F32, F16, BF16 are)",
			       gguf_place(gguf, tensor, place), name, gguf_tensor_type_name(tensor->type));
	plan->sources[tensor - gguf->tensors] = (struct model_source){
		.file = tensor->part,
		.kind = (uint32_t)kind,
		.offset = tensor->offset,
		.bytes = tensor->bytes,
	};
	plan->tensors[tensor - gguf->tensors] = (struct image_tensor){
		.role = expected->role,
		.layer = expected->layer,
		.kind = expected->vector ? PACK_F32 : (uint32_t)kind,
		.vector = expected->vector,
		.rows = expected->rows,
		.cols = expected->cols,
	};
	return 0;
}

/* Each expected tensor is found once under its own name, so equal numbers mean that none is left over. */
static int plan_tensors(const struct gguf *gguf, struct model_plan *plan, struct err *err)
{
	uint32_t n = family_n_tensors(&plan->config);
	if (gguf->n_tensors == 0)
		return err_set(err, -EINVAL, "offset 8: header, tensor count: 0");
	plan->tensors = calloc(gguf->n_tensors, sizeof *plan->tensors);
	plan->sources = calloc(gguf->n_tensors, sizeof *plan->sources);
	if (!plan->tensors || !plan->sources)
		return err_set(err, -ENOMEM, "no memory for %" PRIu64 " tensors", gguf->n_tensors);
	plan->n_tensors = (uint32_t)gguf->n_tensors; /* at most GGUF_MAX_TENSORS */
	for (uint32_t i = 0; i < n; i++) {
		struct family_tensor expected;
		family_tensor(&plan->config, i, &expected);
		int rc = plan_tensor(gguf, &expected, plan, err);
		if (rc)
			return rc;
	}
	for (uint64_t i = 0; i < gguf->n_tensors; i++) {
		char quoted[GGUF_QUOTE_BYTES], place[GGUF_PLACE_BYTES];
		if (plan->tensors[i].role == 0)
			return err_set(err, -ENOTSUP, "%s: tensor '%s', name: a %s model has no use for it here",
				       gguf_place(gguf, &gguf->tensors[i], place),
				       gguf_quote(&gguf->tensors[i].name, quoted), plan->family->name);
	}
	return 0;
}

/* --- tokenizer -------------------------------------------------------------------------------- */

static int read_name(const struct gguf *gguf, const char *key, char out[32], struct err *err)
{
	struct gguf_string name;
	char quoted[GGUF_QUOTE_BYTES];
	int rc = gguf_get_string(gguf, key, &name, err);
	if (rc)
		return rc;
	if (name.n_bytes > 31 || memchr(name.bytes, '\0', name.n_bytes))
		return model_gguf_refuse(gguf, key, -ENOTSUP, err, "'%s' is not supported", gguf_quote(&name, quoted));
	memcpy(out, name.bytes, name.n_bytes);
	out[name.n_bytes] = '\0';
	return 0;
}

/* The strings of a list as the tokenizer takes them. *out returns owned. */
static int read_strings(const struct gguf *gguf, const char *key, const struct tokenizer_string **out, uint32_t *n,
			struct err *err)
{
	struct gguf_string *strings;
	uint64_t n_strings = 0;
	int rc = gguf_get_strings(gguf, key, &strings, &n_strings, err);
	if (rc)
		return rc;
	/* The header has at most 512 MiB, and every string in it takes 8 bytes, so both fit 32 bits. */
	struct tokenizer_string *made = calloc(n_strings ? n_strings : 1, sizeof *made);
	for (uint64_t i = 0; made && i < n_strings; i++)
		made[i] = (struct tokenizer_string){strings[i].bytes, (uint32_t)strings[i].n_bytes};
	free(strings);
	if (!made)
		return err_set(err, -ENOMEM, "key '%s': no memory for %" PRIu64 " strings", key, n_strings);
	*out = made;
	*n = (uint32_t)n_strings;
	return 0;
}

static int read_types(const struct gguf *gguf, struct tokenizer_source *tokenizer, struct err *err)
{
	int32_t *types;
	uint64_t n = 0;
	int rc = gguf_get_i32s(gguf, "tokenizer.ggml.token_type", &types, &n, err);
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	tokenizer->types = types;
	if (n != tokenizer->n_tokens)
		return model_gguf_refuse(gguf, "tokenizer.ggml.token_type", -EINVAL, err,
					 "%" PRIu64 " types for %u tokens", n, tokenizer->n_tokens);
	return 0;
}

static int read_scores(const struct gguf *gguf, struct tokenizer_source *tokenizer, struct err *err)
{
	float *scores;
	uint64_t n = 0;
	int rc = gguf_get_f32s(gguf, "tokenizer.ggml.scores", &scores, &n, err);
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	tokenizer->scores = scores;
	if (n != tokenizer->n_tokens)
		return model_gguf_refuse(gguf, "tokenizer.ggml.scores", -EINVAL, err,
					 "%" PRIu64 " scores for %u tokens", n, tokenizer->n_tokens);
	return 0;
}

static int read_ids(const struct gguf *gguf, struct tokenizer_source *tokenizer, struct err *err)
{
	const struct {
		const char *key;
		int64_t *id;
	} ids[] = {
		{"tokenizer.ggml.bos_token_id", &tokenizer->bos},
		{"tokenizer.ggml.eos_token_id", &tokenizer->eos},
		{"tokenizer.ggml.eot_token_id", &tokenizer->eot},
		{"tokenizer.ggml.unknown_token_id", &tokenizer->unk},
		{"tokenizer.ggml.padding_token_id", &tokenizer->pad},
	};
	for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
		uint32_t id;
		int rc = gguf_get_u32(gguf, ids[i].key, &id, err);
		if (rc && rc != -ENOENT)
			return rc;
		*ids[i].id = rc ? -1 : (int64_t)id;
		if (rc == 0 && id >= tokenizer->n_tokens)
			return model_gguf_refuse(gguf, ids[i].key, -EINVAL, err, "%u, but there are %u tokens", id,
						 tokenizer->n_tokens);
	}
	return 0;
}

/* Files that say nothing leave the rules to the reader's knowledge of the tokenizer, as llama.cpp has it: SentencePiece
 * models begin with BOS and a blank, Llama 3 with BOS. That Llama 3 looks for whole words before it merges has no key.
 */
static int read_rules(const struct gguf *gguf, struct tokenizer_source *tokenizer, struct err *err)
{
	bool pieces = strcmp(tokenizer->model, "llama") == 0, blank = pieces;
	const struct {
		const char *key;
		bool *rule;
	} rules[] = {
		{"tokenizer.ggml.add_bos_token", &tokenizer->add_bos},
		{"tokenizer.ggml.add_eos_token", &tokenizer->add_eos},
		{"tokenizer.ggml.add_space_prefix", &blank},
	};
	bool llama3 = strcmp(tokenizer->pre, "llama-bpe") == 0 || strcmp(tokenizer->pre, "llama3") == 0 ||
		      strcmp(tokenizer->pre, "llama-v3") == 0;
	tokenizer->ignore_merges = !pieces && llama3;
	tokenizer->add_bos = (pieces || llama3) && tokenizer->bos >= 0;
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
		int rc = gguf_get_bool(gguf, rules[i].key, rules[i].rule, err);
		if (rc && rc != -ENOENT)
			return rc;
	}
	tokenizer->blank = blank ? TOKENIZER_BLANK_EVERY : TOKENIZER_BLANK_NONE;
	return 0;
}

static int plan_tokenizer(const struct gguf *gguf, struct model_plan *plan, struct err *err)
{
	struct tokenizer_source *tokenizer = &plan->tokenizer;
	int rc = read_name(gguf, "tokenizer.ggml.model", plan->tokenizer_model, err);
	if (rc)
		return rc == -ENOENT ? -EINVAL : rc;
	strcpy(plan->tokenizer_pre, "default"); /* what a file without the key means */
	rc = read_name(gguf, "tokenizer.ggml.pre", plan->tokenizer_pre, err);
	if (rc && rc != -ENOENT)
		return rc;
	tokenizer->model = plan->tokenizer_model;
	tokenizer->pre = plan->tokenizer_pre;
	rc = read_strings(gguf, "tokenizer.ggml.tokens", &tokenizer->tokens, &tokenizer->n_tokens, err);
	if (rc)
		return rc == -ENOENT ? -EINVAL : rc;
	rc = read_strings(gguf, "tokenizer.ggml.merges", &tokenizer->merges, &tokenizer->n_merges, err);
	if (rc == 0 || rc == -ENOENT)
		rc = read_types(gguf, tokenizer, err);
	if (rc == 0)
		rc = read_scores(gguf, tokenizer, err);
	if (rc == 0)
		rc = read_ids(gguf, tokenizer, err);
	return rc ? rc : read_rules(gguf, tokenizer, err);
}

/* The vocabulary is the list of tokens; where the file also gives a number, it is the same. */
static int plan_vocabulary(const struct gguf *gguf, struct model_plan *plan, struct err *err)
{
	char key[MODEL_GGUF_KEY_BYTES];
	uint32_t vocab = plan->tokenizer.n_tokens;
	int rc = gguf_get_u32(gguf, model_gguf_key(plan->family, "vocab_size", key), &vocab, err);
	if (rc && rc != -ENOENT)
		return rc;
	if (vocab != plan->tokenizer.n_tokens)
		return model_gguf_refuse(gguf, key, -EINVAL, err, "%u, but the tokenizer has %u tokens", vocab,
					 plan->tokenizer.n_tokens);
	plan->config.vocab = vocab;
	return 0;
}

static int plan_template(const struct gguf *gguf, struct model_plan *plan, struct err *err)
{
	struct gguf_string text = {"", 0};
	int rc = gguf_get_string(gguf, "tokenizer.chat_template", &text, err);
	if (rc && rc != -ENOENT)
		return rc;
	plan->chat_template = text.bytes;
	plan->template_bytes = text.n_bytes;
	return 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* A model without an output matrix uses its embedding twice. */
static void plan_head(const struct gguf *gguf, struct model_plan *plan)
{
	plan->config.tied_head = gguf_find_tensor(gguf, "output.weight") == NULL;
}

static int fill(const struct gguf *gguf, struct model_plan *plan, struct err *err)
{
	int rc = check_general(gguf, err);
	if (rc == 0)
		rc = model_gguf_config(gguf, &plan->family, &plan->config, err);
	if (rc == 0)
		rc = plan_tokenizer(gguf, plan, err);
	if (rc == 0)
		rc = plan_vocabulary(gguf, plan, err);
	if (rc)
		return rc;
	plan_head(gguf, plan);
	rc = check_config(gguf, plan, err);
	if (rc == 0)
		rc = plan_tensors(gguf, plan, err);
	return rc ? rc : plan_template(gguf, plan, err);
}

/* Filled aside, so that `out` is left alone on failure; the names then move, and with them the pointers to them. */
int model_gguf_plan(const struct gguf *gguf, struct model_plan *out, struct err *err)
{
	struct model_plan plan = {0};
	int rc = fill(gguf, &plan, err);
	if (rc) {
		model_plan_fini(&plan);
		return rc;
	}
	*out = plan;
	out->tokenizer.model = out->tokenizer_model;
	out->tokenizer.pre = out->tokenizer_pre;
	return 0;
}
