#include "src/format/whisper_ggml.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/format/gguf.h"
#include "src/format/gguf_type.h"
#include "src/format/look.h"

/* --- the head --------------------------------------------------------------------------------- */

static int step_head(struct whisper_ggml *file, uint64_t file_bytes, struct look *look)
{
	struct whisper_ggml_config *c = &file->config;
	uint32_t magic = 0, bins = 0, columns = 0;
	const struct {
		const char *name;
		uint32_t *out;
	} fields[] = {
		{"magic", &magic},
		{"n_vocab", &c->vocab},
		{"n_audio_ctx", &c->encoder_context},
		{"n_audio_state", &c->encoder_dim},
		{"n_audio_head", &c->encoder_heads},
		{"n_audio_layer", &c->encoder_layers},
		{"n_text_ctx", &c->context},
		{"n_text_state", &c->dim},
		{"n_text_head", &c->heads},
		{"n_text_layer", &c->layers},
		{"n_mels", &c->mel_bins},
		{"ftype", &c->type},
		{"bins of the mel filters", &bins},
		{"columns of the mel filters", &columns},
	};
	int rc = 0;
	for (size_t i = 0; i < sizeof fields / sizeof *fields && rc == 0; i++)
		rc = look_take(look, 4, fields[i].name, fields[i].out);
	if (rc)
		return rc;
	if (magic != WHISPER_GGML_MAGIC)
		return err_set(look->err, -EINVAL, "offset 0: magic: %08x, expected %08x", magic, WHISPER_GGML_MAGIC);
	/* They are the model's for nobody: the spectra are made without them. */
	uint64_t filter_bytes = (uint64_t)bins * columns;
	if (filter_bytes > file_bytes / 4 || 4 * filter_bytes > file_bytes - look->at)
		return err_set(look->err, -EINVAL,
			       "offset %zu: mel filters: %u x %u numbers end behind the file's %" PRIu64 " bytes",
			       look->at, bins, columns, file_bytes);
	look->at += 4 * filter_bytes;
	file->part = WHISPER_GGML_WORD_COUNT;
	return 0;
}

/* --- words ------------------------------------------------------------------------------------ */

static int step_word_count(struct whisper_ggml *file, uint64_t file_bytes, struct look *look)
{
	uint32_t n = 0;
	int rc = look_take(look, 4, "number of words", &n);
	if (rc)
		return rc;
	/* A word takes four bytes at least. */
	if (n > WHISPER_GGML_MAX_WORDS || n > (file_bytes - look->offset) / 4)
		return err_set(look->err, -EINVAL, "offset %" PRIu64 ": %u words in a file of %" PRIu64 " bytes",
			       look->offset, n, file_bytes);
	file->n_expected_words = n;
	file->words = calloc(n + 1u, sizeof *file->words);
	file->pool = malloc(WHISPER_GGML_WORDS_BYTES);
	if (!file->words || !file->pool)
		return err_set(look->err, -ENOMEM, "no memory for %u words", n);
	file->part = n ? WHISPER_GGML_WORDS : WHISPER_GGML_TENSOR;
	return 0;
}

static int take_word(struct whisper_ggml *file, struct look *look)
{
	uint64_t begin = look->offset + look->at;
	uint32_t n = 0;
	int rc = look_take(look, 4, "length of a word", &n);
	if (rc)
		return rc;
	if (n > WHISPER_GGML_WORD_BYTES || n > WHISPER_GGML_WORDS_BYTES - file->n_pool)
		return err_set(look->err, -EINVAL,
			       "offset %" PRIu64 ": word %u: %u bytes, at most %d, and %d of all, are possible", begin,
			       file->n_words, n, WHISPER_GGML_WORD_BYTES, WHISPER_GGML_WORDS_BYTES);
	if (look->n - look->at < n)
		return err_set(look->err, -EINVAL, "offset %" PRIu64 ": word %u: the file ends here", begin,
			       file->n_words);
	memcpy(file->pool + file->n_pool, look->bytes + look->at, n);
	file->words[file->n_words++] = (struct whisper_ggml_word){file->n_pool, n};
	file->n_pool += n;
	look->at += n;
	return 0;
}

/* As many as are in sight whole, and one at least. */
static int step_words(struct whisper_ggml *file, struct look *look)
{
	int rc;
	do
		rc = take_word(file, look);
	while (rc == 0 && file->n_words < file->n_expected_words && look->n - look->at >= 4 + WHISPER_GGML_WORD_BYTES);
	if (rc == 0 && file->n_words == file->n_expected_words)
		file->part = WHISPER_GGML_TENSOR;
	return rc;
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* Printable, and then its zero, which the file has not. */
static int take_name(struct look *look, uint32_t n, char out[WHISPER_GGML_NAME_BYTES])
{
	uint64_t begin = look->offset + look->at;
	if (n < 1 || n >= WHISPER_GGML_NAME_BYTES)
		return err_set(look->err, -EINVAL,
			       "offset %" PRIu64 ": name of a tensor: %u bytes, possible are 1 to %d", begin, n,
			       WHISPER_GGML_NAME_BYTES - 1);
	if (look->n - look->at < n)
		return err_set(look->err, -EINVAL, "offset %" PRIu64 ": name of a tensor: the file ends here", begin);
	for (uint32_t i = 0; i < n; i++)
		if (look->bytes[look->at + i] < ' ' || look->bytes[look->at + i] > '~')
			return err_set(look->err, -EINVAL, "offset %" PRIu64 ": name of a tensor: it is not printable",
				       begin + i);
	memcpy(out, look->bytes + look->at, n);
	out[n] = '\0';
	look->at += n;
	return 0;
}

static int measure(struct look *look, uint64_t file_bytes, struct whisper_ggml_tensor *t)
{
	const struct gguf_type *type = gguf_type(t->type);
	uint64_t n = 1;
	if (!type || !type->block_elements)
		return err_set(look->err, -ENOTSUP, "offset %" PRIu64 ": tensor '%s': type %u (%s) is not supported",
			       look->offset, t->name, t->type, type ? type->name : "unknown");
	if (t->dim[0] % type->block_elements)
		return err_set(look->err, -EINVAL,
			       "offset %" PRIu64 ": tensor '%s': rows of %u numbers in blocks of %u", look->offset,
			       t->name, t->dim[0], type->block_elements);
	for (uint32_t i = 0; i < WHISPER_GGML_MAX_DIMS; i++)
		if (__builtin_mul_overflow(n, (uint64_t)t->dim[i], &n))
			return err_set(look->err, -EINVAL, "offset %" PRIu64 ": tensor '%s': its shape overflows",
				       look->offset, t->name);
	t->offset = look->offset + look->at;
	if (__builtin_mul_overflow(n / type->block_elements, (uint64_t)type->block_bytes, &t->bytes) ||
	    t->bytes > file_bytes - t->offset)
		return err_set(look->err, -EINVAL,
			       "offset %" PRIu64 ": tensor '%s': it ends behind the file's %" PRIu64 " bytes",
			       look->offset, t->name, file_bytes);
	return 0;
}

static int add_tensor(struct whisper_ggml *file, const struct whisper_ggml_tensor *t, struct look *look)
{
	if (!file->tensors)
		file->tensors = calloc(WHISPER_GGML_MAX_TENSORS, sizeof *file->tensors);
	if (!file->tensors)
		return err_set(look->err, -ENOMEM, "no memory for the table of tensors");
	if (file->n_tensors == WHISPER_GGML_MAX_TENSORS)
		return err_set(look->err, -EINVAL, "offset %" PRIu64 ": more than %d tensors", look->offset,
			       WHISPER_GGML_MAX_TENSORS);
	if (whisper_ggml_find(file, t->name))
		return err_set(look->err, -EINVAL, "offset %" PRIu64 ": tensor '%s' is there twice", look->offset,
			       t->name);
	file->tensors[file->n_tensors++] = *t;
	look->at += t->bytes;
	return 0;
}

static int step_tensor(struct whisper_ggml *file, uint64_t file_bytes, struct look *look)
{
	struct whisper_ggml_tensor t = {.dim = {1, 1, 1, 1}};
	uint32_t n_name = 0;
	if (look->n == 0) {
		file->part = WHISPER_GGML_END;
		return 0;
	}
	int rc = look_take(look, 4, "number of dimensions", &t.n_dims);
	if (rc == 0)
		rc = look_take(look, 4, "length of a name", &n_name);
	if (rc == 0)
		rc = look_take(look, 4, "type", &t.type);
	if (rc == 0 && (t.n_dims < 1 || t.n_dims > WHISPER_GGML_MAX_DIMS))
		return err_set(look->err, -EINVAL, "offset %" PRIu64 ": %u dimensions, possible are 1 to %d",
			       look->offset, t.n_dims, WHISPER_GGML_MAX_DIMS);
	for (uint32_t i = 0; i < t.n_dims && rc == 0; i++)
		rc = look_take(look, 4, "shape", &t.dim[i]);
	if (rc == 0)
		rc = take_name(look, n_name, t.name);
	if (rc == 0)
		rc = measure(look, file_bytes, &t);
	return rc ? rc : add_tensor(file, &t, look);
}

int whisper_ggml_step(struct whisper_ggml *file, uint64_t file_bytes, const void *bytes, size_t n_bytes,
		      struct err *err)
{
	struct look look = {.bytes = bytes, .n = n_bytes, .offset = file->offset, .err = err};
	int rc = 0;
	switch (file->part) {
	case WHISPER_GGML_HEAD:
		rc = step_head(file, file_bytes, &look);
		break;
	case WHISPER_GGML_WORD_COUNT:
		rc = step_word_count(file, file_bytes, &look);
		break;
	case WHISPER_GGML_WORDS:
		rc = step_words(file, &look);
		break;
	case WHISPER_GGML_TENSOR:
		rc = step_tensor(file, file_bytes, &look);
		break;
	case WHISPER_GGML_END:
		break;
	}
	if (rc == 0)
		file->offset += look.at;
	return rc;
}

void whisper_ggml_fini(struct whisper_ggml *file)
{
	free(file->words);
	free(file->pool);
	free(file->tensors);
	*file = (struct whisper_ggml){.n_words = 0};
}

const struct whisper_ggml_tensor *whisper_ggml_find(const struct whisper_ggml *file, const char *name)
{
	for (uint32_t i = 0; i < file->n_tensors; i++)
		if (strcmp(file->tensors[i].name, name) == 0)
			return &file->tensors[i];
	return NULL;
}
