/* Whisper in a Hugging Face folder. config.json has the shapes of both towers, which have to be the same but for their
 * layers; generation_config.json what steers the decoder, where older folders have it in config.json. The output matrix
 * is the embedding, which some files repeat as proj_out. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/load/model_hf_private.h"
#include "src/load/model_speech.h"

static const char head_name[] = "proj_out.weight";

bool model_hf_is_speech(const struct model_hf *folder)
{
	return yyjson_equals_str(hf_json_find(&folder->config, "model_type"), "whisper");
}

/* --- hyperparameters -------------------------------------------------------------------------- */

static int need_u32(const struct hf_json *json, const char *key, uint32_t *out, struct err *err)
{
	int rc = hf_json_u32(json, key, out, err);
	return rc == -ENOENT ? hf_json_refuse(json, key, -EINVAL, err, "is missing") : rc;
}

/* What has to be as this program computes, where it is said at all. */
static int check_said(const struct hf_json *json, struct err *err)
{
	struct hf_string text = {"", 0};
	char quoted[HF_STRING_SHOWN_BYTES];
	const struct {
		const char *key, *text;
	} strings[] = {{"architectures.0", "WhisperForConditionalGeneration"}, {"activation_function", "gelu"}};
	const struct {
		const char *key;
		bool value;
	} flags[] = {{"scale_embedding", false}, {"tie_word_embeddings", true}};
	for (size_t i = 0; i < 2; i++) {
		int rc = hf_json_string(json, strings[i].key, &text, err);
		if (rc == 0 && !hf_string_is(&text, strings[i].text))
			return hf_json_refuse(json, strings[i].key, -ENOTSUP, err, "'%s' is not supported (%s)",
					      hf_string_quote(&text, quoted), strings[i].text);
		if (rc && rc != -ENOENT)
			return rc;
	}
	for (size_t i = 0; i < 2; i++) {
		bool value = flags[i].value;
		int rc = hf_json_bool(json, flags[i].key, &value, err);
		if (rc && rc != -ENOENT)
			return rc;
		if (value != flags[i].value)
			return hf_json_refuse(json, flags[i].key, -ENOTSUP, err, "%s is not supported",
					      value ? "true" : "false");
	}
	return 0;
}

static int read_config(const struct hf_json *json, struct image_config *c, struct err *err)
{
	uint32_t encoder_heads = 0, encoder_ffn = 0;
	const struct {
		const char *key;
		uint32_t *out;
	} numbers[] = {
		{"vocab_size", &c->vocab},
		{"d_model", &c->dim},
		{"decoder_layers", &c->n_layers},
		{"encoder_layers", &c->encoder_layers},
		{"decoder_attention_heads", &c->n_heads},
		{"encoder_attention_heads", &encoder_heads},
		{"decoder_ffn_dim", &c->ffn_dim},
		{"encoder_ffn_dim", &encoder_ffn},
		{"max_target_positions", &c->context},
		{"max_source_positions", &c->encoder_context},
		{"num_mel_bins", &c->mel_bins},
	};
	int rc = check_said(json, err);
	model_speech_defaults(c);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers && rc == 0; i++)
		rc = need_u32(json, numbers[i].key, numbers[i].out, err);
	if (rc)
		return rc;
	if (encoder_heads != c->n_heads)
		return hf_json_refuse(json, "encoder_attention_heads", -ENOTSUP, err, "%u, but the decoder's are %u",
				      encoder_heads, c->n_heads);
	if (encoder_ffn != c->ffn_dim)
		return hf_json_refuse(json, "encoder_ffn_dim", -ENOTSUP, err, "%u, but the decoder's is %u",
				      encoder_ffn, c->ffn_dim);
	if (c->n_heads == 0 || c->dim % c->n_heads)
		return hf_json_refuse(json, "decoder_attention_heads", -EINVAL, err, "%u is no divisor of d_model, %u",
				      c->n_heads, c->dim);
	c->n_kv_heads = c->n_heads;
	c->head_dim = c->dim / c->n_heads;
	c->attention_scale = (float)(1 / sqrt(c->head_dim));
	struct err what;
	const char *key = "";
	rc = family_check(c, &key, &what);
	return rc ? err_set(err, rc, "%s: %s: %.200s", json->file, key, what.text) : 0;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static int find_one(const struct model_hf *folder, const struct image_config *c, const struct family_tensor *t,
		    struct model_source *out, struct err *err)
{
	enum { TAPS = 3 };
	uint32_t role = t->role & ~(uint32_t)IMAGE_OF_ENCODER, file = 0, n_dims = t->vector ? 1 : 2;
	bool convolution = role == IMAGE_CONV1 || role == IMAGE_CONV2;
	uint64_t shape[3] = {t->vector ? t->cols : t->rows, t->vector ? 1 : t->cols, 1};
	char name[FAMILY_NAME_BYTES], what[160];
	const struct safetensors_tensor *found = model_hf_find_tensor(folder, family_tensor_hf_name(t, name), &file);
	if (!found)
		return err_set(err, -EINVAL, "tensor '%s': is missing", name);
	if (convolution) {
		n_dims = 3;
		shape[1] = role == IMAGE_CONV1 ? c->mel_bins : c->dim;
		shape[2] = TAPS;
	}
	if (found->n_dims != n_dims || memcmp(found->dim, shape, sizeof shape) != 0) {
		snprintf(what, sizeof what,
			 "shape: %u dimensions, %" PRIu64 " x %" PRIu64 " x %" PRIu64 ", expected %u, %" PRIu64
			 " x %" PRIu64 " x %" PRIu64,
			 found->n_dims, found->dim[0], found->dim[1], found->dim[2], n_dims, shape[0], shape[1],
			 shape[2]);
		return model_hf_refuse_tensor(&folder->files[file], found, -EINVAL, what, err);
	}
	*out = (struct model_source){.file = file,
				     .kind = model_hf_stored_kind(found->type),
				     .offset = found->offset,
				     .bytes = found->bytes,
				     .taps = convolution ? TAPS : 0,
				     .cols = convolution ? (uint32_t)shape[1] * TAPS : 0};
	return 0;
}

/* Every tensor of the files is one of those that were found, or the head that repeats the embedding. */
static int check_leftovers(const struct model_hf *folder, const struct model_source *found, uint32_t n, struct err *err)
{
	for (uint32_t file = 0; file < folder->n; file++) {
		const struct safetensors *weights = folder->files[file].is_used ? folder->files[file].weights : NULL;
		for (uint32_t i = 0; weights && i < weights->n_tensors; i++) {
			const struct safetensors_tensor *tensor = &weights->tensors[i];
			bool known = tensor->name.n_bytes == strlen(head_name) &&
				     memcmp(tensor->name.bytes, head_name, strlen(head_name)) == 0;
			for (uint32_t k = 0; k < n && !known; k++)
				known = found[k].file == file && found[k].offset == tensor->offset && tensor->bytes;
			if (!known)
				return model_hf_refuse_tensor(&folder->files[file], tensor, -ENOTSUP,
							      "a whisper model has no use for it here", err);
		}
	}
	return 0;
}

static int plan_tensors(const struct model_hf *folder, enum model_quantize quantize, struct model_plan *plan,
			struct err *err)
{
	uint32_t n = family_n_tensors(&plan->config);
	struct model_source *found = calloc(n, sizeof *found);
	int rc = found ? 0 : err_set(err, -ENOMEM, "no memory for %u tensors", n);
	if (rc == 0 && folder->index.document)
		rc = model_hf_check_index(folder, err);
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		struct family_tensor t;
		family_tensor(&plan->config, i, &t);
		rc = find_one(folder, &plan->config, &t, &found[i], err);
	}
	if (rc == 0)
		rc = check_leftovers(folder, found, n, err);
	if (rc == 0)
		rc = model_speech_place(plan, quantize, found, err);
	free(found);
	return rc;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* A list in generation_config.json, else in config.json. */
static int read_ids(const struct model_hf *folder, const char *key, uint32_t **out, uint32_t *n, struct err *err)
{
	bool newer = hf_json_find(&folder->generation, key) != NULL;
	return model_speech_ids(newer ? &folder->generation : &folder->config, key, out, n, err);
}

static int plan_tokens(const struct model_hf *folder, struct model_plan *plan, struct err *err)
{
	const struct model_hf_file *file = model_hf_find(folder->files, folder->n, "tokenizer.json");
	struct speech_table *t = &plan->speech.table;
	uint32_t *suppressed = NULL, *begin = NULL;
	if (!file)
		return err_set(err, -EINVAL, "the folder has no tokenizer.json");
	int rc = model_speech_tokenizer(plan, file->bytes, file->n_bytes, err);
	if (rc == 0)
		rc = read_ids(folder, "suppress_tokens", &suppressed, &t->n_suppressed, err);
	plan->speech.suppressed = suppressed;
	if (rc == 0)
		rc = read_ids(folder, "begin_suppress_tokens", &begin, &t->n_suppressed_begin, err);
	plan->speech.suppressed_begin = begin;
	if (rc == 0)
		rc = model_speech_languages(plan, NULL, 0, err);
	if (rc == 0)
		rc = model_speech_heads(plan, &folder->generation, "alignment_heads", err);
	return rc ? rc : model_speech_check(plan, err);
}

int model_hf_plan_speech(const struct model_hf *folder, enum model_quantize quantize, struct model_plan *plan,
			 struct err *err)
{
	plan->family = &family_whisper;
	int rc = read_config(&folder->config, &plan->config, err);
	if (rc == 0)
		rc = plan_tokens(folder, plan, err);
	return rc ? rc : plan_tensors(folder, quantize, plan, err);
}
