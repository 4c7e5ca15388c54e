/* CTranslate2 fuses what it multiplies together: the rows of queries, keys and values of one attention are one matrix,
 * and so are keys and values of attention to the encoder. Here they are taken apart by rows, which lie behind each
 * other. Its matrices of 8 bits have one scale a row, value = code / scale. */
#include "src/load/model_ctranslate2.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/kernel/half.h"
#include "src/load/model_speech.h"

enum { SPECIFICATION_REVISION = 3, GELU = 3 };

/* Where a role's rows are: in a variable of the tower, '%' its layer, the part-th of so many equal parts. */
struct place {
	uint32_t role; /* without IMAGE_OF_ENCODER */
	const char *pattern;
	uint32_t part, n_parts;
};

static const struct place places[] = {
	{IMAGE_TOKEN_EMBD, "embeddings/weight", 0, 1},
	{IMAGE_POSITION_EMBD, "position_encodings/encodings", 0, 1},
	{IMAGE_OUTPUT_NORM, "layer_norm/gamma", 0, 1},
	{IMAGE_OUTPUT_NORM_BIAS, "layer_norm/beta", 0, 1},
	{IMAGE_CONV1, "conv1/weight", 0, 1},
	{IMAGE_CONV1_BIAS, "conv1/bias", 0, 1},
	{IMAGE_CONV2, "conv2/weight", 0, 1},
	{IMAGE_CONV2_BIAS, "conv2/bias", 0, 1},
	{IMAGE_ATTN_NORM, "layer_%/self_attention/layer_norm/gamma", 0, 1},
	{IMAGE_ATTN_NORM_BIAS, "layer_%/self_attention/layer_norm/beta", 0, 1},
	{IMAGE_ATTN_Q, "layer_%/self_attention/linear_0/weight", 0, 3},
	{IMAGE_ATTN_Q_BIAS, "layer_%/self_attention/linear_0/bias", 0, 3},
	{IMAGE_ATTN_K, "layer_%/self_attention/linear_0/weight", 1, 3},
	{IMAGE_ATTN_V, "layer_%/self_attention/linear_0/weight", 2, 3},
	{IMAGE_ATTN_V_BIAS, "layer_%/self_attention/linear_0/bias", 2, 3},
	{IMAGE_ATTN_OUTPUT, "layer_%/self_attention/linear_1/weight", 0, 1},
	{IMAGE_ATTN_OUTPUT_BIAS, "layer_%/self_attention/linear_1/bias", 0, 1},
	{IMAGE_CROSS_NORM, "layer_%/attention/layer_norm/gamma", 0, 1},
	{IMAGE_CROSS_NORM_BIAS, "layer_%/attention/layer_norm/beta", 0, 1},
	{IMAGE_CROSS_Q, "layer_%/attention/linear_0/weight", 0, 1},
	{IMAGE_CROSS_Q_BIAS, "layer_%/attention/linear_0/bias", 0, 1},
	{IMAGE_CROSS_K, "layer_%/attention/linear_1/weight", 0, 2},
	{IMAGE_CROSS_V, "layer_%/attention/linear_1/weight", 1, 2},
	{IMAGE_CROSS_V_BIAS, "layer_%/attention/linear_1/bias", 1, 2},
	{IMAGE_CROSS_OUTPUT, "layer_%/attention/linear_2/weight", 0, 1},
	{IMAGE_CROSS_OUTPUT_BIAS, "layer_%/attention/linear_2/bias", 0, 1},
	{IMAGE_FFN_NORM, "layer_%/ffn/layer_norm/gamma", 0, 1},
	{IMAGE_FFN_NORM_BIAS, "layer_%/ffn/layer_norm/beta", 0, 1},
	{IMAGE_FFN_UP, "layer_%/ffn/linear_0/weight", 0, 1},
	{IMAGE_FFN_UP_BIAS, "layer_%/ffn/linear_0/bias", 0, 1},
	{IMAGE_FFN_DOWN, "layer_%/ffn/linear_1/weight", 0, 1},
	{IMAGE_FFN_DOWN_BIAS, "layer_%/ffn/linear_1/bias", 0, 1},
};

static const char key_bias[] = "/self_attention/linear_0/bias", cross_key_bias[] = "/attention/linear_1/bias";

static int refuse(const struct ctranslate2_variable *v, int code, const char *what, struct err *err)
{
	return err_set(err, code, "model.bin: offset %" PRIu64 ": variable '%s': %s", v->offset, v->name, what);
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), n_end = strlen(end);
	return n >= n_end && strcmp(name + n - n_end, end) == 0;
}

static bool has_key_bias(const struct ctranslate2_variable *v)
{
	return ends_with(v->name, key_bias) || ends_with(v->name, cross_key_bias);
}

bool model_ctranslate2_needs(const struct ctranslate2_variable *variable)
{
	return variable->n_dims == 1 && (ends_with(variable->name, "/weight_scale") || has_key_bias(variable));
}

/* --- hyperparameters -------------------------------------------------------------------------- */

/* What says how the model computes, and has to be what this program does. */
static int check_scalars(const struct ctranslate2 *weights, struct err *err)
{
	static const struct {
		const char *name;
		int64_t value;
	} known[] = {{"decoder/activation", GELU}, {"decoder/pre_norm", 1}};
	char what[64];
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		const struct ctranslate2_variable *v = ctranslate2_find(weights, known[i].name);
		if (!v || v->n_dims || v->value != known[i].value) {
			snprintf(what, sizeof what, "%" PRId64 " is expected", known[i].value);
			return v ? refuse(v, -ENOTSUP, what, err)
				 : err_set(err, -EINVAL, "model.bin: variable '%s': is missing", known[i].name);
		}
	}
	for (uint32_t i = 0; i < weights->n_variables; i++) {
		const struct ctranslate2_variable *v = &weights->variables[i];
		bool told = v->n_dims || ends_with(v->name, "/num_heads") || ends_with(v->name, "/keep_in_float32") ||
			    strcmp(v->name, known[0].name) == 0 || strcmp(v->name, known[1].name) == 0 ||
			    /* those that config.json names replace them */
			    strcmp(v->name, "decoder/alignment_heads") == 0 ||
			    strcmp(v->name, "decoder/alignment_layer") == 0;
		/* What is off is as good as absent. */
		if (!told && (v->value || v->type == CTRANSLATE2_F32))
			return refuse(v, -ENOTSUP, "a whisper model has no use for it here", err);
	}
	return 0;
}

/* An extent of a variable that must have n_dims of them. */
static int read_dim(const struct ctranslate2 *weights, const char *name, uint32_t n_dims, uint32_t dim, uint32_t *out,
		    struct err *err)
{
	const struct ctranslate2_variable *v = ctranslate2_find(weights, name);
	if (!v)
		return err_set(err, -EINVAL, "model.bin: variable '%s': is missing", name);
	if (v->n_dims != n_dims)
		return refuse(v, -EINVAL, "its number of dimensions is another", err);
	*out = v->dim[dim];
	return 0;
}

static uint32_t count_layers(const struct ctranslate2 *weights, const char *tower)
{
	char name[CTRANSLATE2_NAME_BYTES];
	uint32_t n = 0;
	do
		snprintf(name, sizeof name, "%s/layer_%u/self_attention/linear_0/weight", tower, n);
	while (n <= FAMILY_MAX_LAYERS && ctranslate2_find(weights, name) && ++n);
	return n;
}

static int read_heads(const struct ctranslate2 *weights, struct image_config *c, struct err *err)
{
	const struct ctranslate2_variable *decoder = ctranslate2_find(weights, "decoder/num_heads"),
					  *encoder = ctranslate2_find(weights, "encoder/num_heads");
	if (!decoder || !encoder)
		return err_set(err, -EINVAL, "model.bin: variable '%s/num_heads': is missing",
			       decoder ? "encoder" : "decoder");
	if (decoder->value < 1 || decoder->value > c->dim || c->dim % decoder->value)
		return refuse(decoder, -EINVAL, "is no divisor of the model's width", err);
	if (encoder->value != decoder->value)
		return refuse(encoder, -ENOTSUP, "an encoder with other heads than the decoder's is not supported",
			      err);
	c->n_heads = c->n_kv_heads = (uint32_t)decoder->value;
	c->head_dim = c->dim / c->n_heads;
	c->attention_scale = (float)(1 / sqrt(c->head_dim));
	return 0;
}

static int read_config(const struct ctranslate2 *weights, struct image_config *c, struct err *err)
{
	const struct {
		const char *name;
		uint32_t n_dims, dim, *out;
	} extents[] = {
		{"decoder/embeddings/weight", 2, 0, &c->vocab},
		{"decoder/embeddings/weight", 2, 1, &c->dim},
		{"decoder/position_encodings/encodings", 2, 0, &c->context},
		{"decoder/layer_0/ffn/linear_0/weight", 2, 0, &c->ffn_dim},
		{"encoder/position_encodings/encodings", 2, 0, &c->encoder_context},
		{"encoder/conv1/weight", 3, 1, &c->mel_bins},
	};
	int rc = 0;
	if (strcmp(weights->specification, "WhisperSpec") != 0 || weights->revision != SPECIFICATION_REVISION)
		return err_set(err, -ENOTSUP,
			       "model.bin: specification %s, revision %u: not supported (WhisperSpec, revision %d, is)",
			       weights->specification, weights->revision, SPECIFICATION_REVISION);
	model_speech_defaults(c);
	for (size_t i = 0; i < sizeof extents / sizeof *extents && rc == 0; i++)
		rc = read_dim(weights, extents[i].name, extents[i].n_dims, extents[i].dim, extents[i].out, err);
	if (rc == 0)
		rc = check_scalars(weights, err);
	if (rc == 0)
		rc = read_heads(weights, c, err);
	if (rc)
		return rc;
	c->n_layers = count_layers(weights, "decoder");
	c->encoder_layers = count_layers(weights, "encoder");
	struct err what;
	const char *key = "";
	rc = family_check(c, &key, &what);
	return rc ? err_set(err, rc, "model.bin: %s: %.200s", key, what.text) : 0;
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* Which variables have found their place. */
struct placing {
	const struct ctranslate2 *weights;
	const struct image_config *config;
	struct model_plan *plan;
	bool *used; /* [n_variables] owned */
	struct err *err;
};

static const struct place *place_of(uint32_t role)
{
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (places[i].role == (role & ~(uint32_t)IMAGE_OF_ENCODER))
			return &places[i];
	return NULL;
}

static void name_of(const struct family_tensor *t, const struct place *place, char out[CTRANSLATE2_NAME_BYTES])
{
	const char *layer = strchr(place->pattern, '%'), *tower = t->role & IMAGE_OF_ENCODER ? "encoder" : "decoder";
	if (layer)
		snprintf(out, CTRANSLATE2_NAME_BYTES, "%s/%.*s%u%s", tower, (int)(layer - place->pattern),
			 place->pattern, t->layer, layer + 1);
	else
		snprintf(out, CTRANSLATE2_NAME_BYTES, "%s/%s", tower, place->pattern);
}

static const struct ctranslate2_variable *use(struct placing *p, const char *name)
{
	const struct ctranslate2_variable *v = ctranslate2_find(p->weights, name);
	if (v)
		p->used[v - p->weights->variables] = true;
	return v;
}

static int check_shape(const struct ctranslate2_variable *v, const struct family_tensor *t, const struct place *place,
		       uint32_t taps, struct err *err)
{
	uint32_t expected[3] = {t->rows * place->n_parts, t->cols, 1}, n_dims = 2;
	char what[120];
	if (t->vector) {
		n_dims = 1;
		expected[0] = t->cols * place->n_parts;
		expected[1] = 1;
	} else if (taps > 1) {
		n_dims = 3;
		expected[1] = v->n_dims == 3 && (v->dim[1] * taps + PACK_GROUP - 1) / PACK_GROUP * PACK_GROUP == t->cols
				      ? v->dim[1]
				      : t->cols / taps;
		expected[2] = taps;
	}
	if (v->n_dims == n_dims && memcmp(v->dim, expected, sizeof expected) == 0)
		return 0;
	snprintf(what, sizeof what, "shape: %u dimensions, %u x %u x %u, expected %u, %u x %u x %u", v->n_dims,
		 v->dim[0], v->dim[1], v->dim[2], n_dims, expected[0], expected[1], expected[2]);
	return refuse(v, -EINVAL, what, err);
}

/* Scales of the tensor's rows, a copy that the plan will own. */
static int read_scales(struct placing *p, const struct ctranslate2_variable *v, const struct family_tensor *t,
		       const struct place *place, float **out)
{
	char name[CTRANSLATE2_NAME_BYTES + 8];
	snprintf(name, sizeof name, "%s_scale", v->name);
	const struct ctranslate2_variable *scale = use(p, name);
	if (!scale)
		return refuse(v, -EINVAL, "has 8 bits, but there is no '..._scale'", p->err);
	if (scale->type != CTRANSLATE2_F32 || scale->n_dims != 1 || scale->dim[0] != v->dim[0] || !scale->data)
		return refuse(scale, -EINVAL, "a float32 for each row is expected", p->err);
	float *scales = calloc(t->rows, sizeof *scales);
	if (!scales)
		return err_set(p->err, -ENOMEM, "no memory for %u scales", t->rows);
	memcpy(scales, (const float *)scale->data + (size_t)place->part * t->rows, t->rows * sizeof *scales);
	for (uint32_t i = 0; i < t->rows; i++)
		if (!isfinite(scales[i]) || scales[i] <= 0 || (f16_from_f32(1 / scales[i]) & 0x7fff) >= 0x7c00) {
			free(scales);
			return refuse(scale, -EINVAL, "a scale is no finite number above 0, or too small", p->err);
		}
	*out = scales;
	return 0;
}

static int find_one(struct placing *p, const struct family_tensor *t, struct model_source *out)
{
	const struct place *place = place_of(t->role);
	uint32_t role = t->role & ~(uint32_t)IMAGE_OF_ENCODER,
		 taps = role == IMAGE_CONV1 || role == IMAGE_CONV2 ? 3 : 1;
	char name[CTRANSLATE2_NAME_BYTES];
	name_of(t, place, name);
	const struct ctranslate2_variable *v = use(p, name);
	if (!v)
		return err_set(p->err, -EINVAL, "model.bin: variable '%s': is missing", name);
	int rc = check_shape(v, t, place, taps, p->err);
	if (rc)
		return rc;
	uint64_t part_bytes = v->bytes / place->n_parts;
	struct model_source source = {.offset = v->offset + place->part * part_bytes, .bytes = part_bytes};
	switch (v->type) {
	case CTRANSLATE2_F32:
		source.kind = PACK_F32;
		break;
	case CTRANSLATE2_F16:
		source.kind = PACK_F16;
		break;
	case CTRANSLATE2_BF16:
		source.kind = PACK_BF16;
		break;
	case CTRANSLATE2_I8:
		if (!t->vector && taps == 1) {
			source.kind = PACK_Q8_0;
			rc = read_scales(p, v, t, place, &source.scales);
			break;
		}
		/* fallthrough */
	default:
		return refuse(v, -ENOTSUP, "values of its type are not supported here", p->err);
	}
	if (taps > 1) {
		source.taps = taps;
		source.cols = v->dim[1] * taps;
	}
	*out = source;
	return rc;
}

/* Keys have no bias, so their part of a fused one is zeros. */
static int check_key_bias(const struct ctranslate2_variable *v, uint32_t dim, struct err *err)
{
	uint64_t first = ends_with(v->name, key_bias) ? dim : 0, width = ctranslate2_type_bytes(v->type);
	const unsigned char *data = v->data;
	for (uint64_t i = first * width; i < (first + dim) * width; i++)
		if (!data || data[i])
			return refuse(v, -ENOTSUP, "a bias of keys that is not 0 is not supported", err);
	return 0;
}

static int check_leftovers(const struct placing *p)
{
	for (uint32_t i = 0; i < p->weights->n_variables; i++) {
		const struct ctranslate2_variable *v = &p->weights->variables[i];
		bool is_told = v->n_dims == 0 || strcmp(v->name, "decoder/alignment_heads") == 0;
		if (!is_told && !p->used[i])
			return refuse(v, -ENOTSUP, "a whisper model has no use for it here", p->err);
		int rc = p->used[i] && has_key_bias(v) ? check_key_bias(v, p->config->dim, p->err) : 0;
		if (rc)
			return rc;
	}
	return 0;
}

/* An alias means that two names share data, of which a tensor is to be made once: the head that is the embedding. */
static int check_aliases(const struct ctranslate2 *weights, struct err *err)
{
	for (uint32_t i = 0; i < weights->n_aliases; i++) {
		const struct ctranslate2_alias *alias = &weights->aliases[i];
		const char *of = weights->variables[alias->variable].name;
		bool weight = strcmp(alias->name, "decoder/projection/weight") == 0 &&
			      strcmp(of, "decoder/embeddings/weight") == 0;
		bool scale = strcmp(alias->name, "decoder/projection/weight_scale") == 0 &&
			     strcmp(of, "decoder/embeddings/weight_scale") == 0;
		if (!weight && !scale)
			return err_set(err, -ENOTSUP, "model.bin: alias '%s' of '%s': not supported", alias->name, of);
	}
	return 0;
}

static int place_all(struct placing *p, enum model_quantize quantize)
{
	uint32_t n = family_n_tensors(p->config), i = 0;
	struct model_source *found = calloc(n, sizeof *found);
	int rc = found ? 0 : err_set(p->err, -ENOMEM, "no memory for %u tensors", n);
	for (; i < n && rc == 0; i++) {
		struct family_tensor t;
		family_tensor(p->config, i, &t);
		rc = find_one(p, &t, &found[i]);
	}
	if (rc == 0)
		rc = check_leftovers(p);
	if (rc == 0)
		rc = model_speech_place(p->plan, quantize, found, p->err);
	for (uint32_t k = 0; k < i && rc; k++) /* else they are the plan's */
		free(found[k].scales);
	free(found);
	return rc;
}

static int plan_tensors(const struct model_ctranslate2 *model, enum model_quantize quantize, struct model_plan *plan,
			struct err *err)
{
	struct placing p = {.weights = model->weights, .config = &plan->config, .plan = plan, .err = err};
	int rc = check_aliases(model->weights, err);
	if (rc)
		return rc;
	p.used = calloc(model->weights->n_variables + 1u, sizeof *p.used);
	rc = p.used ? place_all(&p, quantize)
		    : err_set(err, -ENOMEM, "no memory for %u variables", model->weights->n_variables);
	free(p.used);
	return rc;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int plan_speech(const struct model_ctranslate2 *model, struct model_plan *plan, struct err *err)
{
	struct speech_table *t = &plan->speech.table;
	uint32_t *suppressed = NULL, *begin = NULL, *languages = NULL, n_languages = 0;
	int rc = model_speech_tokenizer(plan, model->tokenizer, model->tokenizer_bytes, err);
	if (rc == 0)
		rc = model_speech_ids(&model->config, "suppress_ids", &suppressed, &t->n_suppressed, err);
	plan->speech.suppressed = suppressed;
	if (rc == 0)
		rc = model_speech_ids(&model->config, "suppress_ids_begin", &begin, &t->n_suppressed_begin, err);
	plan->speech.suppressed_begin = begin;
	if (rc == 0)
		rc = model_speech_ids(&model->config, "lang_ids", &languages, &n_languages, err);
	if (rc == 0)
		rc = model_speech_languages(plan, languages, n_languages, err);
	if (rc == 0)
		rc = model_speech_heads(plan, &model->config, "alignment_heads", err);
	free(languages);
	return rc ? rc : model_speech_check(plan, err);
}

int model_ctranslate2_plan(const struct model_ctranslate2 *model, enum model_quantize quantize, struct model_plan *out,
			   struct err *err)
{
	struct model_plan plan = {.family = &family_whisper};
	int rc = read_config(model->weights, &plan.config, err);
	if (rc == 0)
		rc = plan_speech(model, &plan, err);
	if (rc == 0)
		rc = plan_tensors(model, quantize, &plan, err);
	if (rc) {
		model_plan_fini(&plan);
		return rc;
	}
	*out = plan;
	return 0;
}
