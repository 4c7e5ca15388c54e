#include "src/load/model_whisper_ggml.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/load/model_gguf.h"
#include "src/load/model_speech.h"

enum { BLOCKS_FACTOR = 1000, BLOCKS_VERSION = 2 /* of the blocks that today's files have */ };

static int refuse(const struct whisper_ggml_tensor *t, int code, const char *what, struct err *err)
{
	return err_set(err, code, "offset %" PRIu64 ": tensor '%s': %s", t->offset, t->name, what);
}

static int read_config(const struct whisper_ggml *file, struct image_config *c, struct err *err)
{
	const struct whisper_ggml_config *g = &file->config;
	const struct whisper_ggml_tensor *ffn = whisper_ggml_find(file, "decoder.blocks.0.mlp.0.weight");
	if (!ffn)
		return err_set(err, -EINVAL, "tensor 'decoder.blocks.0.mlp.0.weight': is missing");
	if (g->encoder_dim != g->dim || g->encoder_heads != g->heads)
		return err_set(err, -ENOTSUP, "n_audio_state, n_audio_head: %u and %u, but the decoder has %u and %u",
			       g->encoder_dim, g->encoder_heads, g->dim, g->heads);
	if (g->heads == 0 || g->dim % g->heads)
		return err_set(err, -EINVAL, "n_text_head: %u is no divisor of n_text_state, %u", g->heads, g->dim);
	model_speech_defaults(c);
	c->vocab = g->vocab;
	c->dim = g->dim;
	c->n_layers = g->layers;
	c->encoder_layers = g->encoder_layers;
	c->n_heads = c->n_kv_heads = g->heads;
	c->head_dim = g->dim / g->heads;
	c->ffn_dim = ffn->dim[1];
	c->context = g->context;
	c->encoder_context = g->encoder_context;
	c->mel_bins = g->mel_bins;
	c->attention_scale = (float)(1 / sqrt(c->head_dim));
	struct err what;
	const char *key = "";
	int rc = family_check(c, &key, &what);
	return rc ? err_set(err, rc, "%s: %.200s", key, what.text) : 0;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static int check_type(const struct whisper_ggml *file, const struct whisper_ggml_tensor *found,
		      const struct family_tensor *t, bool convolution, int kind, struct err *err)
{
	bool plain = kind == PACK_F32 || kind == PACK_F16 || kind == PACK_BF16;
	char what[80];
	if (kind < 0 || ((t->vector || convolution) && !plain))
		return refuse(found, -ENOTSUP, "values of its type are not supported here", err);
	if (!plain && file->config.type / BLOCKS_FACTOR != BLOCKS_VERSION) {
		snprintf(what, sizeof what, "ftype: blocks of version %u, only %d is supported",
			 file->config.type / BLOCKS_FACTOR, BLOCKS_VERSION);
		return refuse(found, -ENOTSUP, what, err);
	}
	return 0;
}

/* Extents begin with the fastest; a vector may have one more, of 1, on either side. */
static bool fits(const struct whisper_ggml_tensor *found, const struct family_tensor *t, bool convolution,
		 uint32_t channels, uint32_t taps)
{
	const uint32_t *dim = found->dim;
	if (dim[3] != 1)
		return false;
	if (t->vector)
		return dim[2] == 1 && ((dim[0] == t->cols && dim[1] == 1) || (dim[0] == 1 && dim[1] == t->cols));
	if (convolution)
		return dim[0] == taps && dim[1] == channels && dim[2] == t->rows;
	return dim[0] == t->cols && dim[1] == t->rows && dim[2] == 1;
}

static int find_one(const struct whisper_ggml *file, const struct image_config *c, const struct family_tensor *t,
		    struct model_source *out, struct err *err)
{
	enum { TAPS = 3 };
	uint32_t role = t->role & ~(uint32_t)IMAGE_OF_ENCODER, channels = role == IMAGE_CONV1 ? c->mel_bins : c->dim;
	bool convolution = role == IMAGE_CONV1 || role == IMAGE_CONV2;
	char name[FAMILY_NAME_BYTES], what[120];
	const struct whisper_ggml_tensor *found = whisper_ggml_find(file, family_tensor_name(t, name));
	if (!found)
		return err_set(err, -EINVAL, "tensor '%s': is missing", name);
	if (!fits(found, t, convolution, channels, TAPS)) {
		snprintf(what, sizeof what, "shape: %u x %u x %u x %u, expected %u x %u", found->dim[0], found->dim[1],
			 found->dim[2], found->dim[3], convolution ? channels * TAPS : t->cols, t->rows);
		return refuse(found, -EINVAL, what, err);
	}
	int kind = model_gguf_pack_kind(found->type);
	int rc = check_type(file, found, t, convolution, kind, err);
	if (rc)
		return rc;
	*out = (struct model_source){.kind = (uint32_t)kind,
				     .offset = found->offset,
				     .bytes = found->bytes,
				     .taps = convolution ? TAPS : 0,
				     .cols = convolution ? channels * TAPS : 0};
	return 0;
}

static int plan_tensors(const struct whisper_ggml *file, enum model_quantize quantize, struct model_plan *plan,
			struct err *err)
{
	uint32_t n = family_n_tensors(&plan->config);
	struct model_source *found = calloc(n, sizeof *found);
	int rc = found ? 0 : err_set(err, -ENOMEM, "no memory for %u tensors", n);
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		struct family_tensor t;
		family_tensor(&plan->config, i, &t);
		rc = find_one(file, &plan->config, &t, &found[i], err);
	}
	/* All were found, each by a name of its own: with their number none is left over. */
	for (uint32_t i = 0; i < file->n_tensors && rc == 0 && file->n_tensors != n; i++) {
		bool known = false;
		for (uint32_t k = 0; k < n && !known; k++)
			known = found[k].offset == file->tensors[i].offset;
		if (!known)
			rc = refuse(&file->tensors[i], -ENOTSUP, "a whisper model has no use for it here", err);
	}
	if (rc == 0)
		rc = model_speech_place(plan, quantize, found, err);
	free(found);
	return rc;
}

int model_whisper_ggml_plan(const struct whisper_ggml *file, enum model_quantize quantize, struct model_plan *out,
			    struct err *err)
{
	struct model_plan plan = {.family = &family_whisper};
	int rc = read_config(file, &plan.config, err);
	if (rc == 0)
		rc = model_whisper_ggml_tokens(file, &plan, err);
	if (rc == 0)
		rc = plan_tensors(file, quantize, &plan, err);
	if (rc) {
		model_plan_fini(&plan);
		return rc;
	}
	*out = plan;
	return 0;
}
