#include "tests/unit/speech_files_private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/kernel/half.h"

const struct image_config speech_config = {
	.family = IMAGE_FAMILY_WHISPER,
	.n_layers = LAYERS,
	.dim = DIM,
	.n_heads = 4,
	.n_kv_heads = 4,
	.head_dim = DIM / 4,
	.ffn_dim = FFN,
	.vocab = SPEECH_VOCAB,
	.context = CONTEXT,
	.norm_eps = 1e-5f,
	.tied_head = 1,
	.activation = IMAGE_GELU,
	.embedding_scale = 1,
	.attention_scale = 0.25f,
	.encoder_layers = ENCODER_LAYERS,
	.encoder_context = ENCODER_CONTEXT,
	.mel_bins = BINS,
};

/* --- values ----------------------------------------------------------------------------------- */

/* -127 to 127: 8 bits, which all types have. */
int speech_code(uint32_t role, uint32_t layer, uint32_t row, uint32_t col)
{
	uint32_t h = role * 2654435761u ^ layer * 40503u ^ row * 97u ^ col * 7919u;
	h = (h ^ h >> 15) * 2246822519u;
	h ^= h >> 13;
	return (int)(h % 255) - 127;
}

float speech_value(uint32_t role, uint32_t layer, uint32_t row, uint32_t col)
{
	return (float)speech_code(role, layer, row, col) / 128;
}

/* A power of two, whose inverse float16 has. */
float speech_scale(uint32_t role, uint32_t row)
{
	return (float)(32 << (role + row) % 4);
}

void speech_expected_row(const struct image_tensor *t, uint32_t row, unsigned char *out)
{
	uint32_t role = t->role & ~(uint32_t)IMAGE_OF_ENCODER,
		 cols = role == IMAGE_CONV1 ? TAPS * BINS : t->cols; /* zeros behind them */
	for (uint32_t col = 0; col < t->cols; col++) {
		float value = col < cols ? speech_value(t->role, t->layer, row, col) : 0;
		uint16_t half = t->kind == PACK_F16 ? f16_from_f32(value) : bf16_from_f32(value);
		if (t->kind == PACK_Q4_0) {
			uint16_t d = f16_from_f32(1 / speech_scale(t->role, row));
			unsigned code = (unsigned)speech_code(t->role, t->layer, row, col) & 15;
			unsigned char *block = out + col / 32 * 18, *at = block + 2 + col % 16;
			memcpy(block, &d, 2);
			*at = (unsigned char)(col % 32 < 16 ? code : *at | code << 4);
		} else if (t->kind == PACK_F32)
			memcpy(out + 4 * (size_t)col, &value, 4);
		else if (t->kind == PACK_Q8_0) {
			uint16_t d = f16_from_f32(1 / speech_scale(t->role, row));
			memcpy(out + col / 32 * 34, &d, 2);
			out[col / 32 * 34 + 2 + col % 32] = (unsigned char)speech_code(t->role, t->layer, row, col);
		} else
			memcpy(out + 2 * (size_t)col, &half, 2);
	}
}

/* --- bytes ------------------------------------------------------------------------------------ */

void speech_put(struct speech_file *file, const void *bytes, size_t n)
{
	if (file->n_bytes + n > file->room) {
		file->room = 2 * (file->n_bytes + n);
		file->bytes = realloc(file->bytes, file->room);
		assert(file->bytes);
	}
	memcpy(file->bytes + file->n_bytes, bytes, n);
	file->n_bytes += n;
}

void speech_put_u(struct speech_file *file, uint32_t value, unsigned n)
{
	unsigned char bytes[4] = {(unsigned char)value, (unsigned char)(value >> 8), (unsigned char)(value >> 16),
				  (unsigned char)(value >> 24)};
	speech_put(file, bytes, n);
}

void speech_put_text(struct speech_file *file, const char *text)
{
	speech_put(file, text, strlen(text));
}

void speech_put_value(struct speech_file *file, enum speech_type type, float value)
{
	uint16_t half = type == SPEECH_F16 ? f16_from_f32(value) : bf16_from_f32(value);
	if (type == SPEECH_F32)
		speech_put(file, &value, 4);
	else
		speech_put(file, &half, 2);
}

struct speech_file *speech_add(struct speech_files *files, const char *name, uint32_t role)
{
	struct speech_file *file = &files->files[files->n++];
	snprintf(file->name, sizeof file->name, "%s", name);
	file->role = role;
	return file;
}

void speech_files_free(struct speech_files *files)
{
	for (uint32_t i = 0; i < files->n; i++)
		free(files->files[i].bytes);
	files->n = 0;
}

struct speech_file *speech_files_get(struct speech_files *files, const char *name)
{
	for (uint32_t i = 0; i < files->n; i++)
		if (strcmp(files->files[i].name, name) == 0)
			return &files->files[i];
	return NULL;
}

/* --- the tokenizer ---------------------------------------------------------------------------- */

static const char *const specials[] = {"<|endoftext|>", "<|startoftranscript|>", "<|en|>",	  "<|zh|>",
				       "<|translate|>", "<|transcribe|>",	 "<|startoflm|>", "<|startofprev|>",
				       "<|nospeech|>",	"<|notimestamps|>"};

/* GPT-2's spelling of bytes: printable ones as themselves, the others from U+0100 on. */
static void put_vocab(struct speech_file *file)
{
	unsigned n = 0;
	for (unsigned b = 0; b < 256; b++) {
		bool plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
		char item[32];
		snprintf(item, sizeof item, "%s\"\\u%04x\":%u", b ? "," : "", plain ? b : 256 + n, b);
		n += !plain;
		speech_put_text(file, item);
	}
	speech_put_text(file, ",\"th\":256,\"\\u0120t\":257,\"the\":258,\"\\u0120th\":259");
}

/* Times have no tokens in the list: the model's vocabulary is longer. */
void speech_add_tokenizer(struct speech_files *files)
{
	struct speech_file *file = speech_add(files, "tokenizer.json", FILE_BESIDE);
	char item[160];
	speech_put_text(file, "{\"added_tokens\":[");
	for (unsigned i = 0; i < sizeof specials / sizeof *specials; i++) {
		snprintf(item, sizeof item,
			 "%s{\"id\":%u,\"content\":\"%s\",\"special\":true,\"single_word\":false,\"lstrip\":false,"
			 "\"rstrip\":false,\"normalized\":false}",
			 i ? "," : "", SPEECH_EOT + i, specials[i]);
		speech_put_text(file, item);
	}
	speech_put_text(
		file,
		"],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
		"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
		"{\"SpecialToken\":{\"id\":\"<|startoftranscript|>\"}},{\"SpecialToken\":{\"id\":\"<|notimestamps|>\"}"
		"},"
		"{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"<|endoftext|>\"}}],\"special_tokens\":{"
		"\"<|startoftranscript|>\":{\"ids\":[261]},\"<|notimestamps|>\":{\"ids\":[269]},"
		"\"<|endoftext|>\":{\"ids\":[260]}}},\"decoder\":{\"type\":\"ByteLevel\"},"
		"\"model\":{\"type\":\"BPE\",\"merges\":[\"t h\",\"\\u0120 t\",\"th e\",\"\\u0120 th\"],\"vocab\":{");
	put_vocab(file);
	speech_put_text(file, "}}}");
}
