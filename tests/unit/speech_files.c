#include "tests/unit/speech_files.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/family.h"
#include "src/kernel/half.h"

enum { LAYERS = 2, ENCODER_LAYERS = 3, DIM = 64, FFN = 96, BINS = 80, CONTEXT = 32, ENCODER_CONTEXT = 50, TAPS = 3 };

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
static int code_of(uint32_t role, uint32_t layer, uint32_t row, uint32_t col)
{
	uint32_t h = role * 2654435761u ^ layer * 40503u ^ row * 97u ^ col * 7919u;
	h = (h ^ h >> 15) * 2246822519u;
	h ^= h >> 13;
	return (int)(h % 255) - 127;
}

static float value_of(uint32_t role, uint32_t layer, uint32_t row, uint32_t col)
{
	return (float)code_of(role, layer, row, col) / 128;
}

/* A power of two, whose inverse float16 has. */
static float scale_of(uint32_t role, uint32_t row)
{
	return (float)(32 << (role + row) % 4);
}

void speech_expected_row(const struct image_tensor *t, uint32_t row, unsigned char *out)
{
	uint32_t role = t->role & ~(uint32_t)IMAGE_OF_ENCODER,
		 cols = role == IMAGE_CONV1 ? TAPS * BINS : t->cols; /* zeros behind them */
	for (uint32_t col = 0; col < t->cols; col++) {
		float value = col < cols ? value_of(t->role, t->layer, row, col) : 0;
		uint16_t half = t->kind == PACK_F16 ? f16_from_f32(value) : bf16_from_f32(value);
		if (t->kind == PACK_Q4_0) {
			uint16_t d = f16_from_f32(1 / scale_of(t->role, row));
			unsigned code = (unsigned)code_of(t->role, t->layer, row, col) & 15;
			unsigned char *block = out + col / 32 * 18, *at = block + 2 + col % 16;
			memcpy(block, &d, 2);
			*at = (unsigned char)(col % 32 < 16 ? code : *at | code << 4);
		} else if (t->kind == PACK_F32)
			memcpy(out + 4 * (size_t)col, &value, 4);
		else if (t->kind == PACK_Q8_0) {
			uint16_t d = f16_from_f32(1 / scale_of(t->role, row));
			memcpy(out + col / 32 * 34, &d, 2);
			out[col / 32 * 34 + 2 + col % 32] = (unsigned char)code_of(t->role, t->layer, row, col);
		} else
			memcpy(out + 2 * (size_t)col, &half, 2);
	}
}

/* --- bytes ------------------------------------------------------------------------------------ */

static void put(struct speech_file *file, const void *bytes, size_t n)
{
	if (file->n_bytes + n > file->room) {
		file->room = 2 * (file->n_bytes + n);
		file->bytes = realloc(file->bytes, file->room);
		assert(file->bytes);
	}
	memcpy(file->bytes + file->n_bytes, bytes, n);
	file->n_bytes += n;
}

static void put_u(struct speech_file *file, uint32_t value, unsigned n)
{
	unsigned char bytes[4] = {(unsigned char)value, (unsigned char)(value >> 8), (unsigned char)(value >> 16),
				  (unsigned char)(value >> 24)};
	put(file, bytes, n);
}

static void put_text(struct speech_file *file, const char *text)
{
	put(file, text, strlen(text));
}

static void put_value(struct speech_file *file, enum speech_type type, float value)
{
	uint16_t half = type == SPEECH_F16 ? f16_from_f32(value) : bf16_from_f32(value);
	if (type == SPEECH_F32)
		put(file, &value, 4);
	else
		put(file, &half, 2);
}

static struct speech_file *add(struct speech_files *files, const char *name, uint32_t role)
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
		put_text(file, item);
	}
	put_text(file, ",\"th\":256,\"\\u0120t\":257,\"the\":258,\"\\u0120th\":259");
}

/* Times have no tokens in the list: the model's vocabulary is longer. */
static void add_tokenizer(struct speech_files *files)
{
	struct speech_file *file = add(files, "tokenizer.json", FILE_BESIDE);
	char item[160];
	put_text(file, "{\"added_tokens\":[");
	for (unsigned i = 0; i < sizeof specials / sizeof *specials; i++) {
		snprintf(item, sizeof item,
			 "%s{\"id\":%u,\"content\":\"%s\",\"special\":true,\"single_word\":false,\"lstrip\":false,"
			 "\"rstrip\":false,\"normalized\":false}",
			 i ? "," : "", SPEECH_EOT + i, specials[i]);
		put_text(file, item);
	}
	put_text(file,
		 "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
		 "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
		 "{\"SpecialToken\":{\"id\":\"<|startoftranscript|>\"}},{\"SpecialToken\":{\"id\":\"<|notimestamps|>\"}"
		 "},"
		 "{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"<|endoftext|>\"}}],\"special_tokens\":{"
		 "\"<|startoftranscript|>\":{\"ids\":[261]},\"<|notimestamps|>\":{\"ids\":[269]},"
		 "\"<|endoftext|>\":{\"ids\":[260]}}},\"decoder\":{\"type\":\"ByteLevel\"},"
		 "\"model\":{\"type\":\"BPE\",\"merges\":[\"t h\",\"\\u0120 t\",\"th e\",\"\\u0120 th\"],\"vocab\":{");
	put_vocab(file);
	put_text(file, "}}}");
}

/* --- CTranslate2 ------------------------------------------------------------------------------ */

/* A file that is being written, and the tower and layer that names are of. */
struct ct2 {
	struct speech_file *file;
	enum speech_type type;
	uint32_t tower, layer, n_variables;
};

static void ct2_string(struct speech_file *file, const char *text)
{
	put_u(file, (uint32_t)strlen(text) + 1, 2);
	put(file, text, strlen(text) + 1);
}

static void ct2_name(struct ct2 *c, const char *name)
{
	char full[128];
	char *at = full + snprintf(full, sizeof full, "%s/", c->tower ? "encoder" : "decoder");
	const char *layer = strchr(name, '%');
	if (layer)
		snprintf(at, 100, "%.*s%u%s", (int)(layer - name), name, c->layer, layer + 1);
	else
		snprintf(at, 100, "%s", name);
	ct2_string(c->file, full);
	c->n_variables++;
}

static void ct2_shape(struct ct2 *c, enum speech_type type, uint32_t n_dims, uint32_t a, uint32_t b, uint32_t last)
{
	static const struct {
		uint32_t id, bytes;
	} types[] = {[SPEECH_F32] = {0, 4}, [SPEECH_F16] = {4, 2}, [SPEECH_BF16] = {5, 2}, [SPEECH_INT8] = {1, 1}};
	const uint32_t dims[] = {a, b, last};
	uint32_t n = types[type].bytes;
	put_u(c->file, n_dims, 1);
	for (uint32_t i = 0; i < n_dims; i++, n *= dims[i - 1])
		put_u(c->file, dims[i], 4);
	put_u(c->file, types[type].id, 1);
	put_u(c->file, n, 4);
}

static void ct2_scalar(struct ct2 *c, const char *name, uint32_t type, uint32_t bytes, uint32_t value)
{
	ct2_name(c, name);
	put_u(c->file, 0, 1);
	put_u(c->file, type, 1);
	put_u(c->file, bytes, 4);
	put_u(c->file, value, bytes);
}

/* Rows of several roles behind each other; role 0: zeros. */
static void ct2_matrix(struct ct2 *c, const char *name, const uint32_t *roles, uint32_t n, uint32_t rows, uint32_t cols,
		       bool may_shrink)
{
	bool small = c->type == SPEECH_INT8 && may_shrink;
	enum speech_type type = small ? SPEECH_INT8 : c->type == SPEECH_INT8 ? SPEECH_F32 : c->type;
	char scale[128];
	ct2_name(c, name);
	ct2_shape(c, type, 2, n * rows, cols, 0);
	for (uint32_t k = 0; k < n; k++)
		for (uint32_t row = 0; row < rows; row++)
			for (uint32_t col = 0; col < cols; col++)
				if (small)
					put_u(c->file, (uint32_t)code_of(roles[k] | c->tower, c->layer, row, col), 1);
				else
					put_value(c->file, type, value_of(roles[k] | c->tower, c->layer, row, col));
	if (!small)
		return;
	snprintf(scale, sizeof scale, "%s_scale", name);
	ct2_name(c, scale);
	ct2_shape(c, SPEECH_F32, 1, n * rows, 0, 0);
	for (uint32_t k = 0; k < n; k++)
		for (uint32_t row = 0; row < rows; row++)
			put_value(c->file, SPEECH_F32, scale_of(roles[k] | c->tower, row));
}

static void ct2_vector(struct ct2 *c, const char *name, const uint32_t *roles, uint32_t n, uint32_t cols)
{
	enum speech_type type = c->type == SPEECH_INT8 ? SPEECH_F32 : c->type;
	ct2_name(c, name);
	ct2_shape(c, type, 1, n * cols, 0, 0);
	for (uint32_t k = 0; k < n; k++)
		for (uint32_t col = 0; col < cols; col++)
			put_value(c->file, type, roles[k] ? value_of(roles[k] | c->tower, c->layer, 0, col) : 0);
}

#define ROLES(...) (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)

static void ct2_convolution(struct ct2 *c, const char *name, uint32_t role, uint32_t channels)
{
	enum speech_type type = c->type == SPEECH_INT8 ? SPEECH_F32 : c->type;
	ct2_name(c, name);
	ct2_shape(c, type, 3, DIM, channels, TAPS);
	for (uint32_t row = 0; row < DIM; row++)
		for (uint32_t i = 0; i < channels; i++)
			for (uint32_t tap = 0; tap < TAPS; tap++)
				put_value(c->file, type, value_of(role | c->tower, 0, row, tap * channels + i));
}

static void ct2_layer(struct ct2 *c)
{
	if (!c->tower) {
		ct2_vector(c, "layer_%/attention/layer_norm/beta", ROLES(IMAGE_CROSS_NORM_BIAS), DIM);
		ct2_vector(c, "layer_%/attention/layer_norm/gamma", ROLES(IMAGE_CROSS_NORM), DIM);
		ct2_vector(c, "layer_%/attention/linear_0/bias", ROLES(IMAGE_CROSS_Q_BIAS), DIM);
		ct2_matrix(c, "layer_%/attention/linear_0/weight", ROLES(IMAGE_CROSS_Q), DIM, DIM, true);
		ct2_vector(c, "layer_%/attention/linear_1/bias", ROLES(0, IMAGE_CROSS_V_BIAS), DIM);
		ct2_matrix(c, "layer_%/attention/linear_1/weight", ROLES(IMAGE_CROSS_K, IMAGE_CROSS_V), DIM, DIM, true);
		ct2_vector(c, "layer_%/attention/linear_2/bias", ROLES(IMAGE_CROSS_OUTPUT_BIAS), DIM);
		ct2_matrix(c, "layer_%/attention/linear_2/weight", ROLES(IMAGE_CROSS_OUTPUT), DIM, DIM, true);
	}
	ct2_vector(c, "layer_%/ffn/layer_norm/beta", ROLES(IMAGE_FFN_NORM_BIAS), DIM);
	ct2_vector(c, "layer_%/ffn/layer_norm/gamma", ROLES(IMAGE_FFN_NORM), DIM);
	ct2_vector(c, "layer_%/ffn/linear_0/bias", ROLES(IMAGE_FFN_UP_BIAS), FFN);
	ct2_matrix(c, "layer_%/ffn/linear_0/weight", ROLES(IMAGE_FFN_UP), FFN, DIM, true);
	ct2_vector(c, "layer_%/ffn/linear_1/bias", ROLES(IMAGE_FFN_DOWN_BIAS), DIM);
	ct2_matrix(c, "layer_%/ffn/linear_1/weight", ROLES(IMAGE_FFN_DOWN), DIM, FFN, true);
	ct2_vector(c, "layer_%/self_attention/layer_norm/beta", ROLES(IMAGE_ATTN_NORM_BIAS), DIM);
	ct2_vector(c, "layer_%/self_attention/layer_norm/gamma", ROLES(IMAGE_ATTN_NORM), DIM);
	ct2_vector(c, "layer_%/self_attention/linear_0/bias", ROLES(IMAGE_ATTN_Q_BIAS, 0, IMAGE_ATTN_V_BIAS), DIM);
	ct2_matrix(c, "layer_%/self_attention/linear_0/weight", ROLES(IMAGE_ATTN_Q, IMAGE_ATTN_K, IMAGE_ATTN_V), DIM,
		   DIM, true);
	ct2_vector(c, "layer_%/self_attention/linear_1/bias", ROLES(IMAGE_ATTN_OUTPUT_BIAS), DIM);
	ct2_matrix(c, "layer_%/self_attention/linear_1/weight", ROLES(IMAGE_ATTN_OUTPUT), DIM, DIM, true);
}

static void ct2_decoder(struct ct2 *c)
{
	enum { I8 = 1, I16 = 2, GELU = 3 };
	c->tower = 0;
	ct2_scalar(c, "activation", I8, 1, GELU);
	ct2_scalar(c, "alibi", I8, 1, 0);
	ct2_scalar(c, "alignment_heads", I16, 2, 1);
	ct2_scalar(c, "alignment_layer", I16, 2, 0xffff);
	ct2_matrix(c, "embeddings/weight", ROLES(IMAGE_TOKEN_EMBD), SPEECH_VOCAB, DIM, true);
	for (c->layer = 0; c->layer < LAYERS; c->layer++)
		ct2_layer(c);
	c->layer = 0;
	ct2_vector(c, "layer_norm/beta", ROLES(IMAGE_OUTPUT_NORM_BIAS), DIM);
	ct2_vector(c, "layer_norm/gamma", ROLES(IMAGE_OUTPUT_NORM), DIM);
	ct2_scalar(c, "num_heads", I16, 2, 4);
	ct2_matrix(c, "position_encodings/encodings", ROLES(IMAGE_POSITION_EMBD), CONTEXT, DIM, false);
	ct2_scalar(c, "pre_norm", I8, 1, 1);
	ct2_scalar(c, "scale_embeddings", I8, 1, 0);
}

static void ct2_encoder(struct ct2 *c)
{
	c->tower = IMAGE_OF_ENCODER;
	ct2_vector(c, "conv1/bias", ROLES(IMAGE_CONV1_BIAS), DIM);
	ct2_convolution(c, "conv1/weight", IMAGE_CONV1, BINS);
	ct2_vector(c, "conv2/bias", ROLES(IMAGE_CONV2_BIAS), DIM);
	ct2_convolution(c, "conv2/weight", IMAGE_CONV2, DIM);
	for (c->layer = 0; c->layer < ENCODER_LAYERS; c->layer++)
		ct2_layer(c);
	c->layer = 0;
	ct2_vector(c, "layer_norm/beta", ROLES(IMAGE_OUTPUT_NORM_BIAS), DIM);
	ct2_vector(c, "layer_norm/gamma", ROLES(IMAGE_OUTPUT_NORM), DIM);
	ct2_scalar(c, "num_heads", 2, 2, 4);
	ct2_matrix(c, "position_encodings/encodings", ROLES(IMAGE_POSITION_EMBD), ENCODER_CONTEXT, DIM, false);
}

void speech_files_ctranslate2(struct speech_files *out, enum speech_type type)
{
	memset(out, 0, sizeof *out);
	struct ct2 c = {.file = add(out, "model.bin", FILE_WEIGHTS), .type = type};
	put_u(c.file, 6, 4);
	ct2_string(c.file, "WhisperSpec");
	put_u(c.file, 3, 4);
	size_t count_at = c.file->n_bytes;
	put_u(c.file, 0, 4);
	ct2_decoder(&c);
	ct2_encoder(&c);
	memcpy(c.file->bytes + count_at, &c.n_variables, 4);
	put_u(c.file, 1, 4);
	ct2_string(c.file, "decoder/projection/weight");
	ct2_string(c.file, "decoder/embeddings/weight");
	put_text(add(out, "config.json", FILE_BESIDE),
		 "{\"alignment_heads\":[[1,0],[1,3]],\"lang_ids\":[262,263],\"suppress_ids\":[1,2,261],"
		 "\"suppress_ids_begin\":[32,260]}");
	add_tokenizer(out);
}

/* --- Hugging Face ----------------------------------------------------------------------------- */

/* A safetensors file: header and data grow beside each other. */
struct hf {
	struct speech_file header, data;
	enum speech_type type;
	uint32_t tower, layer;
};

static void hf_begin(struct hf *h, const char *name, uint32_t n_dims, uint32_t a, uint32_t b, uint32_t last)
{
	static const char *const types[] = {[SPEECH_F32] = "F32", [SPEECH_F16] = "F16", [SPEECH_BF16] = "BF16"};
	char item[256], full[128], shape[64];
	const char *layer = strchr(name, '%');
	size_t n = (size_t)a * (n_dims > 1 ? b : 1) * (n_dims > 2 ? last : 1) * (h->type == SPEECH_F32 ? 4 : 2);
	if (layer)
		snprintf(full, sizeof full, "%.*s%u%s", (int)(layer - name), name, h->layer, layer + 1);
	else
		snprintf(full, sizeof full, "%s", name);
	int used = snprintf(shape, sizeof shape, "%u", a);
	if (n_dims > 1)
		used += snprintf(shape + used, sizeof shape - (size_t)used, ",%u", b);
	if (n_dims > 2)
		snprintf(shape + used, sizeof shape - (size_t)used, ",%u", last);
	snprintf(item, sizeof item, "%s\"model.%s.%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
		 h->header.n_bytes ? "," : "{", h->tower ? "encoder" : "decoder", full, types[h->type], shape,
		 h->data.n_bytes, h->data.n_bytes + n);
	put_text(&h->header, item);
}

static void hf_put(struct hf *h, const char *name, uint32_t role, uint32_t rows, uint32_t cols)
{
	hf_begin(h, name, rows ? 2 : 1, rows ? rows : cols, cols, 0);
	for (uint32_t row = 0; row < (rows ? rows : 1); row++)
		for (uint32_t col = 0; col < cols; col++)
			put_value(&h->data, h->type, value_of(role | h->tower, h->layer, row, col));
}

static void hf_convolution(struct hf *h, const char *name, uint32_t role, uint32_t channels)
{
	hf_begin(h, name, 3, DIM, channels, TAPS);
	for (uint32_t row = 0; row < DIM; row++)
		for (uint32_t i = 0; i < channels; i++)
			for (uint32_t tap = 0; tap < TAPS; tap++)
				put_value(&h->data, h->type, value_of(role | h->tower, 0, row, tap * channels + i));
}

static void hf_layer(struct hf *h)
{
	hf_put(h, "layers.%.fc1.weight", IMAGE_FFN_UP, FFN, DIM);
	hf_put(h, "layers.%.fc1.bias", IMAGE_FFN_UP_BIAS, 0, FFN);
	hf_put(h, "layers.%.fc2.weight", IMAGE_FFN_DOWN, DIM, FFN);
	hf_put(h, "layers.%.fc2.bias", IMAGE_FFN_DOWN_BIAS, 0, DIM);
	hf_put(h, "layers.%.final_layer_norm.weight", IMAGE_FFN_NORM, 0, DIM);
	hf_put(h, "layers.%.final_layer_norm.bias", IMAGE_FFN_NORM_BIAS, 0, DIM);
	hf_put(h, "layers.%.self_attn.k_proj.weight", IMAGE_ATTN_K, DIM, DIM);
	hf_put(h, "layers.%.self_attn.v_proj.weight", IMAGE_ATTN_V, DIM, DIM);
	hf_put(h, "layers.%.self_attn.v_proj.bias", IMAGE_ATTN_V_BIAS, 0, DIM);
	hf_put(h, "layers.%.self_attn.q_proj.weight", IMAGE_ATTN_Q, DIM, DIM);
	hf_put(h, "layers.%.self_attn.q_proj.bias", IMAGE_ATTN_Q_BIAS, 0, DIM);
	hf_put(h, "layers.%.self_attn.out_proj.weight", IMAGE_ATTN_OUTPUT, DIM, DIM);
	hf_put(h, "layers.%.self_attn.out_proj.bias", IMAGE_ATTN_OUTPUT_BIAS, 0, DIM);
	hf_put(h, "layers.%.self_attn_layer_norm.weight", IMAGE_ATTN_NORM, 0, DIM);
	hf_put(h, "layers.%.self_attn_layer_norm.bias", IMAGE_ATTN_NORM_BIAS, 0, DIM);
	if (h->tower)
		return;
	hf_put(h, "layers.%.encoder_attn.k_proj.weight", IMAGE_CROSS_K, DIM, DIM);
	hf_put(h, "layers.%.encoder_attn.v_proj.weight", IMAGE_CROSS_V, DIM, DIM);
	hf_put(h, "layers.%.encoder_attn.v_proj.bias", IMAGE_CROSS_V_BIAS, 0, DIM);
	hf_put(h, "layers.%.encoder_attn.q_proj.weight", IMAGE_CROSS_Q, DIM, DIM);
	hf_put(h, "layers.%.encoder_attn.q_proj.bias", IMAGE_CROSS_Q_BIAS, 0, DIM);
	hf_put(h, "layers.%.encoder_attn.out_proj.weight", IMAGE_CROSS_OUTPUT, DIM, DIM);
	hf_put(h, "layers.%.encoder_attn.out_proj.bias", IMAGE_CROSS_OUTPUT_BIAS, 0, DIM);
	hf_put(h, "layers.%.encoder_attn_layer_norm.weight", IMAGE_CROSS_NORM, 0, DIM);
	hf_put(h, "layers.%.encoder_attn_layer_norm.bias", IMAGE_CROSS_NORM_BIAS, 0, DIM);
}

static void hf_tower(struct hf *h, uint32_t tower)
{
	h->tower = tower;
	for (h->layer = 0; h->layer < (tower ? ENCODER_LAYERS : LAYERS); h->layer++)
		hf_layer(h);
	h->layer = 0;
	hf_put(h, "layer_norm.weight", IMAGE_OUTPUT_NORM, 0, DIM);
	hf_put(h, "layer_norm.bias", IMAGE_OUTPUT_NORM_BIAS, 0, DIM);
	hf_put(h, "embed_positions.weight", IMAGE_POSITION_EMBD, tower ? ENCODER_CONTEXT : CONTEXT, DIM);
	if (!tower) {
		hf_put(h, "embed_tokens.weight", IMAGE_TOKEN_EMBD, SPEECH_VOCAB, DIM);
		return;
	}
	hf_convolution(h, "conv1.weight", IMAGE_CONV1, BINS);
	hf_put(h, "conv1.bias", IMAGE_CONV1_BIAS, 0, DIM);
	hf_convolution(h, "conv2.weight", IMAGE_CONV2, DIM);
	hf_put(h, "conv2.bias", IMAGE_CONV2_BIAS, 0, DIM);
}

void speech_files_hf(struct speech_files *out, enum speech_type type)
{
	struct hf h = {.type = type};
	memset(out, 0, sizeof *out);
	struct speech_file *weights = add(out, "model.safetensors", FILE_WEIGHTS);
	hf_tower(&h, IMAGE_OF_ENCODER);
	hf_tower(&h, 0);
	put_text(&h.header, "}");
	put_u(weights, (uint32_t)h.header.n_bytes, 4);
	put_u(weights, 0, 4);
	put(weights, h.header.bytes, h.header.n_bytes);
	put(weights, h.data.bytes, h.data.n_bytes);
	free(h.header.bytes);
	free(h.data.bytes);
	put_text(add(out, "config.json", FILE_BESIDE),
		 "{\"model_type\":\"whisper\",\"architectures\":[\"WhisperForConditionalGeneration\"],"
		 "\"activation_function\":\"gelu\",\"d_model\":64,\"vocab_size\":1771,\"decoder_layers\":2,"
		 "\"encoder_layers\":3,\"decoder_attention_heads\":4,\"encoder_attention_heads\":4,"
		 "\"decoder_ffn_dim\":96,\"encoder_ffn_dim\":96,\"max_target_positions\":32,"
		 "\"max_source_positions\":50,\"num_mel_bins\":80,\"scale_embedding\":false,"
		 "\"begin_suppress_tokens\":[32,260]}");
	put_text(add(out, "generation_config.json", FILE_BESIDE),
		 "{\"alignment_heads\":[[1,0],[1,3]],\"suppress_tokens\":[1,2,261],\"eos_token_id\":260}");
	add_tokenizer(out);
}

/* --- whisper.cpp ------------------------------------------------------------------------------ */

struct ggml {
	struct speech_file *file;
	enum speech_type type;
	bool q4_0;
	uint32_t tower, layer;
};

static void ggml_begin(struct ggml *g, const char *name, uint32_t type, uint32_t n_dims, uint32_t first, uint32_t b,
		       uint32_t c)
{
	const uint32_t dims[] = {first, b, c};
	char full[128];
	char *at = full + snprintf(full, sizeof full, "%s", g->tower ? "encoder." : "decoder.");
	const char *layer = strchr(name, '%');
	if (layer)
		snprintf(at, 100, "%.*s%u%s", (int)(layer - name), name, g->layer, layer + 1);
	else
		snprintf(at, 100, "%s", name);
	put_u(g->file, n_dims, 4);
	put_u(g->file, (uint32_t)strlen(full), 4);
	put_u(g->file, type, 4);
	for (uint32_t i = 0; i < n_dims; i++)
		put_u(g->file, dims[i], 4);
	put_text(g->file, full);
}

static uint32_t ggml_type(enum speech_type type)
{
	return type == SPEECH_F32 ? 0 : type == SPEECH_F16 ? 1 : 30;
}

/* A block of 32: its scale, then codes i and i + 16 in a byte. */
static void put_q4_0(struct speech_file *file, uint32_t role, uint32_t layer, uint32_t row, uint32_t col)
{
	put_u(file, f16_from_f32(1 / scale_of(role, row)), 2);
	for (uint32_t i = 0; i < 16; i++) {
		uint32_t low = (uint32_t)code_of(role, layer, row, col + i) & 15,
			 high = (uint32_t)code_of(role, layer, row, col + i + 16) & 15;
		put_u(file, low | high << 4, 1);
	}
}

static void ggml_matrix(struct ggml *g, const char *name, uint32_t role, uint32_t rows, uint32_t cols)
{
	ggml_begin(g, name, g->q4_0 ? 2 : ggml_type(g->type), 2, cols, rows, 0);
	for (uint32_t row = 0; row < rows; row++)
		for (uint32_t col = 0; col < cols; col += g->q4_0 ? 32 : 1)
			if (g->q4_0)
				put_q4_0(g->file, role | g->tower, g->layer, row, col);
			else
				put_value(g->file, g->type, value_of(role | g->tower, g->layer, row, col));
}

/* Vectors and positions are float32 in every file; biases of convolutions have two extents. */
static void ggml_numbers(struct ggml *g, const char *name, uint32_t role, uint32_t n_dims, uint32_t rows, uint32_t cols)
{
	ggml_begin(g, name, 0, n_dims, n_dims == 2 && rows == 1 ? 1 : cols, n_dims == 2 && rows == 1 ? cols : rows, 0);
	for (uint32_t row = 0; row < rows; row++)
		for (uint32_t col = 0; col < cols; col++)
			put_value(g->file, SPEECH_F32, value_of(role | g->tower, g->layer, row, col));
}

static void ggml_convolution(struct ggml *g, const char *name, uint32_t role, uint32_t channels)
{
	ggml_begin(g, name, ggml_type(g->type), 3, TAPS, channels, DIM);
	for (uint32_t row = 0; row < DIM; row++)
		for (uint32_t i = 0; i < channels; i++)
			for (uint32_t tap = 0; tap < TAPS; tap++)
				put_value(g->file, g->type, value_of(role | g->tower, 0, row, tap * channels + i));
}

static void ggml_layer(struct ggml *g)
{
	ggml_numbers(g, "blocks.%.mlp_ln.weight", IMAGE_FFN_NORM, 1, 1, DIM);
	ggml_numbers(g, "blocks.%.mlp_ln.bias", IMAGE_FFN_NORM_BIAS, 1, 1, DIM);
	ggml_matrix(g, "blocks.%.mlp.0.weight", IMAGE_FFN_UP, FFN, DIM);
	ggml_numbers(g, "blocks.%.mlp.0.bias", IMAGE_FFN_UP_BIAS, 1, 1, FFN);
	ggml_matrix(g, "blocks.%.mlp.2.weight", IMAGE_FFN_DOWN, DIM, FFN);
	ggml_numbers(g, "blocks.%.mlp.2.bias", IMAGE_FFN_DOWN_BIAS, 1, 1, DIM);
	ggml_numbers(g, "blocks.%.attn_ln.weight", IMAGE_ATTN_NORM, 1, 1, DIM);
	ggml_numbers(g, "blocks.%.attn_ln.bias", IMAGE_ATTN_NORM_BIAS, 1, 1, DIM);
	ggml_matrix(g, "blocks.%.attn.query.weight", IMAGE_ATTN_Q, DIM, DIM);
	ggml_numbers(g, "blocks.%.attn.query.bias", IMAGE_ATTN_Q_BIAS, 1, 1, DIM);
	ggml_matrix(g, "blocks.%.attn.key.weight", IMAGE_ATTN_K, DIM, DIM);
	ggml_matrix(g, "blocks.%.attn.value.weight", IMAGE_ATTN_V, DIM, DIM);
	ggml_numbers(g, "blocks.%.attn.value.bias", IMAGE_ATTN_V_BIAS, 1, 1, DIM);
	ggml_matrix(g, "blocks.%.attn.out.weight", IMAGE_ATTN_OUTPUT, DIM, DIM);
	ggml_numbers(g, "blocks.%.attn.out.bias", IMAGE_ATTN_OUTPUT_BIAS, 1, 1, DIM);
	if (g->tower)
		return;
	ggml_numbers(g, "blocks.%.cross_attn_ln.weight", IMAGE_CROSS_NORM, 1, 1, DIM);
	ggml_numbers(g, "blocks.%.cross_attn_ln.bias", IMAGE_CROSS_NORM_BIAS, 1, 1, DIM);
	ggml_matrix(g, "blocks.%.cross_attn.query.weight", IMAGE_CROSS_Q, DIM, DIM);
	ggml_numbers(g, "blocks.%.cross_attn.query.bias", IMAGE_CROSS_Q_BIAS, 1, 1, DIM);
	ggml_matrix(g, "blocks.%.cross_attn.key.weight", IMAGE_CROSS_K, DIM, DIM);
	ggml_matrix(g, "blocks.%.cross_attn.value.weight", IMAGE_CROSS_V, DIM, DIM);
	ggml_numbers(g, "blocks.%.cross_attn.value.bias", IMAGE_CROSS_V_BIAS, 1, 1, DIM);
	ggml_matrix(g, "blocks.%.cross_attn.out.weight", IMAGE_CROSS_OUTPUT, DIM, DIM);
	ggml_numbers(g, "blocks.%.cross_attn.out.bias", IMAGE_CROSS_OUTPUT_BIAS, 1, 1, DIM);
}

static void ggml_tower(struct ggml *g, uint32_t tower)
{
	g->tower = tower;
	ggml_numbers(g, "positional_embedding", IMAGE_POSITION_EMBD, 2, tower ? ENCODER_CONTEXT : CONTEXT, DIM);
	for (g->layer = 0; g->layer < (tower ? ENCODER_LAYERS : LAYERS); g->layer++)
		ggml_layer(g);
	g->layer = 0;
	ggml_numbers(g, tower ? "ln_post.weight" : "ln.weight", IMAGE_OUTPUT_NORM, 1, 1, DIM);
	ggml_numbers(g, tower ? "ln_post.bias" : "ln.bias", IMAGE_OUTPUT_NORM_BIAS, 1, 1, DIM);
	if (!tower) {
		ggml_matrix(g, "token_embedding.weight", IMAGE_TOKEN_EMBD, SPEECH_VOCAB, DIM);
		return;
	}
	ggml_convolution(g, "conv1.weight", IMAGE_CONV1, BINS);
	ggml_numbers(g, "conv1.bias", IMAGE_CONV1_BIAS, 2, 1, DIM);
	ggml_convolution(g, "conv2.weight", IMAGE_CONV2, DIM);
	ggml_numbers(g, "conv2.bias", IMAGE_CONV2_BIAS, 2, 1, DIM);
}

void speech_files_ggml(struct speech_files *out, enum speech_type type, bool q4_0)
{
	enum { FILTER_COLUMNS = 201 };
	static const char *const merged[] = {"th", " t", "the", " th"};
	const uint32_t head[] = {
		0x67676d6c,	 SPEECH_VOCAB, ENCODER_CONTEXT, DIM, 4, ENCODER_LAYERS, CONTEXT, DIM, 4, LAYERS, BINS,
		q4_0 ? 2002 : 1, BINS,	       FILTER_COLUMNS};
	memset(out, 0, sizeof *out);
	struct ggml g = {.file = add(out, "ggml-tiny.bin", FILE_WEIGHTS), .type = type, .q4_0 = q4_0};
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		put_u(g.file, head[i], 4);
	for (uint32_t i = 0; i < BINS * FILTER_COLUMNS; i++)
		put_value(g.file, SPEECH_F32, 0);
	put_u(g.file, SPEECH_WORDS, 4);
	for (uint32_t i = 0; i < SPEECH_WORDS; i++) {
		const char *word = i < 256 ? NULL : merged[i - 256];
		put_u(g.file, word ? (uint32_t)strlen(word) : 1, 4);
		if (word)
			put_text(g.file, word);
		else
			put_u(g.file, i, 1);
	}
	ggml_tower(&g, 0);
	ggml_tower(&g, IMAGE_OF_ENCODER);
}
