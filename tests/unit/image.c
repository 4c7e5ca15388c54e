/* Planning an image, and refusing every image that was not planned. */
#include "src/engine/image.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/family.h"
#include "src/engine/model.h"
#include "tests/unit/suite.h"

enum { TOKENIZER_BYTES = 1000, TEMPLATE_BYTES = 77 };

static const struct image_tables tables = {.tokenizer_bytes = TOKENIZER_BYTES, .template_bytes = TEMPLATE_BYTES};

static const struct image_config small = {
	.family = IMAGE_FAMILY_LLAMA,
	.n_layers = 2,
	.dim = 64,
	.n_heads = 4,
	.n_kv_heads = 2,
	.head_dim = 16,
	.ffn_dim = 96,
	.vocab = 50,
	.context = 128,
	.rope_dim = 16,
	.rope_base = 10000,
	.norm_eps = 1e-5f,
	.tied_head = 1,
	.embedding_scale = 1,
	.attention_scale = 0.25f,
};

static const struct image_config hearing = {
	.family = IMAGE_FAMILY_WHISPER,
	.n_layers = 2,
	.dim = 64,
	.n_heads = 4,
	.n_kv_heads = 4,
	.head_dim = 16,
	.ffn_dim = 96,
	.vocab = 60,
	.context = 32,
	.norm_eps = 1e-5f,
	.tied_head = 1,
	.activation = IMAGE_GELU,
	.embedding_scale = 1,
	.attention_scale = 0.25f,
	.encoder_layers = 3,
	.encoder_context = 50,
	.mel_bins = 80,
};

static const struct speech_language languages[] = {{"en", 40}, {"yue", 41}};
static const uint32_t suppressed[] = {1, 2, 7}, suppressed_begin[] = {3, 30};
static const struct speech_head heads[] = {{0, 1}, {1, 3}};
static const struct speech_source speech = {
	.table = {.eot = 30,
		  .sot = 31,
		  .translate = 42,
		  .transcribe = 43,
		  .sot_lm = 44,
		  .sot_prev = 45,
		  .no_speech = 46,
		  .no_timestamps = 47,
		  .first_timestamp = 48,
		  .is_multilingual = 1,
		  .n_languages = 2,
		  .n_suppressed = 3,
		  .n_suppressed_begin = 2,
		  .n_heads = 2},
	.languages = languages,
	.suppressed = suppressed,
	.suppressed_begin = suppressed_begin,
	.heads = heads,
};

/* The tensors of a config in the family's order; matrices of the kinds in turn, where whole
 * blocks of them make the columns. Returns their number. */
static uint32_t list_tensors(const struct image_config *config, struct image_tensor *out)
{
	uint32_t n = family_n_tensors(config);
	for (uint32_t i = 0; i < n; i++) {
		struct family_tensor t;
		family_tensor(config, i, &t);
		out[i] = (struct image_tensor){
			.role = t.role,
			.layer = t.layer,
			.kind = t.vector || t.cols % pack_block_cols(i % PACK_N_KINDS) ? PACK_F32 : i % PACK_N_KINDS,
			.vector = t.vector,
			.rows = t.rows,
			.cols = t.cols,
		};
	}
	return n;
}

struct fixture {
	unsigned char *image; /* owned, 64-byte aligned */
	struct image_header header;
	struct image_tensor *table; /* in the image */
	uint32_t n;
};

static void build(struct fixture *f, const struct image_config *config)
{
	struct image_tensor tensors[128];
	struct image_tables all = tables;
	struct err err = {""};
	all.speech_bytes = config->encoder_layers ? speech_table_bytes(&speech) : 0;
	f->n = list_tensors(config, tensors);
	ck_assert_uint_le(f->n, 128);
	ck_assert_msg(image_plan(config, tensors, f->n, &all, &f->header, &err) == 0, "%s", err.text);
	f->image = aligned_alloc(64, f->header.image_bytes);
	ck_assert_ptr_nonnull(f->image);
	memset(f->image, 0, f->header.image_bytes);
	memcpy(f->image, &f->header, sizeof f->header);
	if (all.speech_bytes)
		speech_table_build(&speech, f->image + f->header.speech_offset);
	f->table = (struct image_tensor *)(void *)(f->image + f->header.tensors_offset);
	memcpy(f->table, tensors, f->n * sizeof *tensors);
}

static int check(const struct fixture *f, struct err *err)
{
	return image_check(f->image, f->header.image_bytes, err);
}

static void expect(const struct fixture *f, const char *part)
{
	struct err err = {""};
	ck_assert_int_eq(check(f, &err), -EINVAL);
	ck_assert_msg(strstr(err.text, part) != NULL, "'%s' isn't in: %s", part, err.text);
}

START_TEST(accepts_what_it_planned)
{
	struct fixture f;
	struct err err = {""};
	build(&f, &small);
	ck_assert_msg(check(&f, &err) == 0, "%s", err.text);
	uint64_t end = f.header.tensors_offset + f.n * sizeof *f.table;
	for (uint32_t i = 0; i < f.n; i++) {
		ck_assert_uint_eq(f.table[i].offset % 64, 0);
		ck_assert_uint_ge(f.table[i].offset, end);
		end = f.table[i].offset + f.table[i].bytes;
	}
	ck_assert_uint_ge(f.header.tokenizer_offset, end);
	ck_assert_uint_ge(f.header.template_offset, f.header.tokenizer_offset + TOKENIZER_BYTES);
	ck_assert_uint_ge(f.header.image_bytes, f.header.template_offset + TEMPLATE_BYTES);
	ck_assert_uint_eq(f.n, 2 + 2 * 9);
	free(f.image);
	struct image_config untied = small;
	untied.tied_head = 0;
	build(&f, &untied);
	ck_assert_uint_eq(f.n, 3 + 2 * 9);
	ck_assert_msg(check(&f, &err) == 0, "%s", err.text);
	free(f.image);
}
END_TEST

START_TEST(accepts_any_order_of_tensors)
{
	struct fixture f;
	struct err err = {""};
	struct image_tensor tensors[64], t;
	build(&f, &small);
	memcpy(tensors, f.table, f.n * sizeof *tensors);
	t = tensors[0];
	tensors[0] = tensors[7];
	tensors[7] = t;
	ck_assert_int_eq(image_plan(&small, tensors, f.n, &tables, &f.header, &err), 0);
	memcpy(f.image, &f.header, sizeof f.header);
	memcpy(f.table, tensors, f.n * sizeof *tensors);
	ck_assert_msg(check(&f, &err) == 0, "%s", err.text);
	free(f.image);
}
END_TEST

/* Where another value may be right, too: the checker can't know. The tokenizer's and the template's lengths may change
 * within the padding behind them; their own readers check them. */
static bool may_vary(const struct fixture *f, size_t byte)
{
	static const size_t fields[] = {
		offsetof(struct image_header, config.context),	       offsetof(struct image_header, config.rope_dim),
		offsetof(struct image_header, config.rope_base),       offsetof(struct image_header, config.norm_eps),
		offsetof(struct image_header, config.attention_scale), offsetof(struct image_header, config.window),
		offsetof(struct image_header, config.rope_pairing),
	};
	bool rotates = f->header.config.family != IMAGE_FAMILY_WHISPER;
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if (byte >= fields[i] && byte < fields[i] + 4)
			return rotates || fields[i] == offsetof(struct image_header, config.norm_eps) ||
			       fields[i] == offsetof(struct image_header, config.attention_scale);
	return byte == offsetof(struct image_header, tokenizer_bytes) ||
	       byte == offsetof(struct image_header, template_bytes);
}

START_TEST(refuses_every_flipped_bit)
{
	struct fixture f;
	struct err err;
	build(&f, _i ? &hearing : &small);
	size_t n_bytes = f.header.tensors_offset + f.n * sizeof *f.table;
	for (size_t bit = 0; bit < 8 * n_bytes; bit++) {
		if (bit / 8 >= sizeof f.header && bit / 8 < f.header.tensors_offset)
			continue; /* belongs to nothing */
		/* Kinds of the same size, bfloat16 and float16, can be taken for each other. */
		size_t in_table = bit / 8 - f.header.tensors_offset;
		bool is_kind = bit / 8 >= f.header.tensors_offset &&
			       in_table % sizeof *f.table / 4 == offsetof(struct image_tensor, kind) / 4;
		f.image[bit / 8] ^= (unsigned char)(1u << bit % 8);
		int rc = check(&f, &err);
		ck_assert_msg(rc == -EINVAL || (rc == 0 && (may_vary(&f, bit / 8) || is_kind)), "byte %zu bit %zu: %d",
			      bit / 8, bit % 8, rc);
		f.image[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	ck_assert_int_eq(check(&f, &err), 0);
	free(f.image);
}
END_TEST

START_TEST(refuses_every_truncation)
{
	struct fixture f;
	build(&f, _i ? &hearing : &small);
	for (uint64_t n = 0; n < f.header.image_bytes; n += n < 2000 ? 1 : 997) {
		/* A copy of exactly n bytes, so that a read past them is seen. */
		unsigned char *copy = NULL;
		struct err err;
		ck_assert_int_eq(posix_memalign((void **)&copy, 64, n ? n : 1), 0);
		memcpy(copy, f.image, n);
		ck_assert_int_eq(image_check(copy, n, &err), -EINVAL);
		free(copy);
	}
	struct err err;
	ck_assert_int_eq(image_check(f.image + 8, f.header.image_bytes - 8, &err), -EINVAL);
	free(f.image);
}
END_TEST

START_TEST(refuses_wrong_tensors)
{
	struct fixture f;
	build(&f, &small);
	f.table[3].role = f.table[4].role; /* Q twice, no K: of different shapes or the same */
	expect(&f, "");
	free(f.image);
	build(&f, &small);
	ck_assert_uint_eq(f.table[4].role, IMAGE_ATTN_K);
	f.table[5].role = IMAGE_ATTN_K;
	expect(&f, "tensor 5: role 6 in layer 0 is there twice");
	free(f.image);
	build(&f, &small);
	f.table[4].layer = 1;
	expect(&f, "is there twice");
	free(f.image);
	build(&f, &small);
	f.table[4].layer = 2;
	expect(&f, "tensor 4: role 6 in layer 2 has no place");
	free(f.image);
	build(&f, &small);
	f.table[0].role = IMAGE_OUTPUT; /* a tied model has none */
	expect(&f, "tensor 0: role 3 in layer 0 has no place");
	free(f.image);
	build(&f, &small);
	f.table[9].offset = f.table[8].offset;
	expect(&f, "tensor 9: offset");
	free(f.image);
	build(&f, &small);
	f.table[9].offset += 64;
	expect(&f, "tensor 9: offset");
	free(f.image);
	build(&f, &small);
	f.table[4].rows *= 2;
	f.table[4].bytes *= 2;
	expect(&f, "tensor 4: shape [64][64], expected [32][64]");
	free(f.image);
}
END_TEST

START_TEST(refuses_wrong_lengths)
{
	static const uint64_t lengths[] = {0,	       1ull << 31,	1ull << 32, 1ull << 62,	      INT64_MAX,
					   1ull << 63, UINT64_MAX - 63, UINT64_MAX, UINT64_MAX - 4096};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		struct fixture f;
		struct image_header *header;
		build(&f, &small);
		header = (struct image_header *)(void *)f.image;
		header->image_bytes = lengths[i];
		expect(&f, "image");
		header->image_bytes = f.header.image_bytes;
		header->tokenizer_bytes = lengths[i];
		expect(&f, "t");
		header->tokenizer_bytes = TOKENIZER_BYTES;
		header->template_bytes = lengths[i];
		expect(&f, i ? "template" : "speech");
		header->template_bytes = TEMPLATE_BYTES;
		header->tensors_offset = lengths[i];
		expect(&f, "tensor table");
		free(f.image);
	}
}
END_TEST

/* A field of the config, and the key that is named for it. */
struct wrong_field {
	size_t at;
	uint32_t value;
	const char *key;
};

static void expect_each(const struct image_config *config, const struct wrong_field *wrong, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct fixture f;
		build(&f, config);
		memcpy(f.image + offsetof(struct image_header, config) + wrong[i].at, &wrong[i].value, 4);
		expect(&f, wrong[i].key);
		free(f.image);
	}
}

START_TEST(refuses_wrong_hyperparameters)
{
	static const struct wrong_field wrong[] = {
		{offsetof(struct image_config, family), 77, "family"},
		{offsetof(struct image_config, n_layers), 0, "block_count"},
		{offsetof(struct image_config, n_layers), 1025, "block_count"},
		{offsetof(struct image_config, n_layers), UINT32_MAX, "block_count"},
		{offsetof(struct image_config, dim), 0, "embedding_length"},
		{offsetof(struct image_config, dim), 33, "embedding_length"},
		{offsetof(struct image_config, dim), 65536 + 32, "embedding_length"},
		{offsetof(struct image_config, n_heads), 0, "attention.head_count"},
		{offsetof(struct image_config, n_heads), 3, "attention.head_count"},
		{offsetof(struct image_config, n_heads), 1u << 31, "attention.head_count"},
		{offsetof(struct image_config, n_kv_heads), 0, "attention.head_count_kv"},
		{offsetof(struct image_config, n_kv_heads), 3, "attention.head_count_kv"},
		{offsetof(struct image_config, n_kv_heads), 8, "attention.head_count_kv"},
		{offsetof(struct image_config, head_dim), 8, "attention.key_length"},
		{offsetof(struct image_config, head_dim), 272, "attention.key_length"},
		{offsetof(struct image_config, ffn_dim), 0, "feed_forward_length"},
		{offsetof(struct image_config, ffn_dim), 100, "feed_forward_length"},
		{offsetof(struct image_config, vocab), 0, "vocab_size"},
		{offsetof(struct image_config, vocab), (1 << 20) + 1, "vocab_size"},
		{offsetof(struct image_config, context), 0, "context_length"},
		{offsetof(struct image_config, context), (1 << 24) + 1, "context_length"},
		{offsetof(struct image_config, rope_dim), 0, "rope.dimension_count"},
		{offsetof(struct image_config, rope_dim), 15, "rope.dimension_count"},
		{offsetof(struct image_config, rope_dim), 18, "rope.dimension_count"},
		{offsetof(struct image_config, rope_base), 0, "rope.freq_base"},
		{offsetof(struct image_config, rope_base), 0x7fc00000, "rope.freq_base"},
		{offsetof(struct image_config, rope_base), 0x7f800000, "rope.freq_base"},
		{offsetof(struct image_config, norm_eps), 0x80000000, "layer_norm_rms_epsilon"},
		{offsetof(struct image_config, norm_eps), 0xbf800000, "layer_norm_rms_epsilon"},
		{offsetof(struct image_config, tied_head), 2, "tied_head"},
		{offsetof(struct image_config, activation), IMAGE_GELU_TANH, "activation"},
		{offsetof(struct image_config, embedding_scale), 0x40000000, "embedding_scale"},
		{offsetof(struct image_config, attention_scale), 0, "attention.scale"},
		{offsetof(struct image_config, attention_scale), 0x7f800000, "attention.scale"},
		{offsetof(struct image_config, window), (1 << 24) + 1, "sliding_window"},
		{offsetof(struct image_config, window_period), 6, "sliding_window_pattern"},
		{offsetof(struct image_config, window_rope_base), 0x461c4000, "freq_base_swa"},
		{offsetof(struct image_config, rope_pairing), 2, "pairing"},
		{offsetof(struct image_config, rope_scaling), IMAGE_ROPE_LINEAR, "scaling.factor"},
		{offsetof(struct image_config, rope_scaling), IMAGE_ROPE_YARN, "scaling.factor"},
		{offsetof(struct image_config, rope_scaling), IMAGE_ROPE_LLAMA3, "scaling.factor"},
		{offsetof(struct image_config, rope_scaling), IMAGE_ROPE_DIVISORS, "n_tensors"},
		{offsetof(struct image_config, rope_scaling), 5, "scaling.type"},
		{offsetof(struct image_config, rope_factor), 0x40000000, "scaling.factor"},
		{offsetof(struct image_config, rope_original), 64, "original_context"},
		{offsetof(struct image_config, rope_low), 0x3f800000, "beta_slow"},
		{offsetof(struct image_config, rope_high), 0x3f800000, "beta_fast"},
		{offsetof(struct image_config, rope_magnitude), 0x3f800000, "attn_factor"},
		{offsetof(struct image_config, encoder_layers), 1, "encoder.block_count"},
		{offsetof(struct image_config, encoder_context), 1500, "encoder.context_length"},
		{offsetof(struct image_config, mel_bins), 80, "encoder.mel_bins"},
		{offsetof(struct image_config, pad), 1, "unused"},
		{offsetof(struct image_config, pad) + 8, 1, "unused"},
	};
	expect_each(&small, wrong, sizeof wrong / sizeof *wrong);
}
END_TEST

static void build_model(struct fixture *f, const struct image_config *config, struct model *m)
{
	struct err err = {""};
	build(f, config);
	ck_assert_msg(model_open(f->image, f->header.image_bytes, m, &err) == 0, "%s", err.text);
}

/* A pointer of the model for every tensor of the image: no role without a place, no place for two. */
START_TEST(opens_both_towers)
{
	struct fixture f;
	struct model m;
	build_model(&f, &hearing, &m);
	ck_assert_uint_eq(f.n, 11 + 2 * 24 + 3 * 15);
	for (uint32_t i = 0; i < f.n; i++) {
		const struct image_tensor *t = &f.table[i];
		const void *at = f.image + t->offset;
		struct {
			const void *begin;
			size_t bytes;
		} parts[] = {{&m, sizeof m},
			     {m.layers, 2 * sizeof *m.layers},
			     {m.encoder.layers, 3 * sizeof *m.encoder.layers}};
		uint32_t n = 0;
		for (size_t p = 0; p < 3; p++)
			for (size_t k = 0; k < parts[p].bytes / sizeof at; k++)
				n += ((const void *const *)parts[p].begin)[k] == at;
		/* The head is the embedding. */
		ck_assert_uint_eq(n, t->role == IMAGE_TOKEN_EMBD ? 2 : 1);
	}
	ck_assert(m.encoder.conv1.cols == 256 && m.encoder.conv2.cols == 192);
	ck_assert_uint_eq(m.encoder.position_embd.rows, 50);
	ck_assert_uint_eq(m.position_embd.rows, 32);
	ck_assert_uint_eq(m.layers[1].ffn_gate.rows, 0);
	/* Layers, convolutions, head: each once, none without rows. */
	struct matrix all[41];
	ck_assert_uint_eq(model_matrices(&m, all, 41), 2 * 10 + 2 + 3 * 6 + 1);
	for (uint32_t i = 0; i < 41; i++)
		ck_assert_uint_gt(all[i].rows, 0);
	model_close(&m);
	free(f.image);
	build_model(&f, &small, &m);
	ck_assert(!m.speech && !m.encoder.layers);
	model_close(&m);
	free(f.image);
}
END_TEST

START_TEST(keeps_what_steers_speech)
{
	struct fixture f;
	struct model m;
	build_model(&f, &hearing, &m);
	ck_assert_mem_eq(m.speech, &speech.table, sizeof speech.table);
	ck_assert_mem_eq(speech_languages(m.speech), languages, sizeof languages);
	ck_assert_mem_eq(speech_suppressed(m.speech), suppressed, sizeof suppressed);
	ck_assert_mem_eq(speech_suppressed_begin(m.speech), suppressed_begin, sizeof suppressed_begin);
	ck_assert_mem_eq(speech_heads(m.speech), heads, sizeof heads);
	model_close(&m);
	free(f.image);
}
END_TEST

START_TEST(refuses_wrong_speech_tables)
{
	enum { LANGUAGES = sizeof(struct speech_table), LISTS = LANGUAGES + sizeof languages, HEADS = LISTS + 20 };
	static const struct {
		size_t at;
		uint32_t value;
		const char *what;
	} wrong[] = {
		{offsetof(struct speech_table, eot), 60, "eot: token 60"},
		{offsetof(struct speech_table, sot), 30, "eot and sot are the same token"},
		{offsetof(struct speech_table, sot), 50, "among the timestamps"},
		{offsetof(struct speech_table, first_timestamp), UINT32_MAX, "first_timestamp"},
		{offsetof(struct speech_table, is_multilingual), 2, "is_multilingual"},
		{offsetof(struct speech_table, n_languages), 3, "bytes"},
		{offsetof(struct speech_table, n_languages), UINT32_MAX, "bytes"},
		{offsetof(struct speech_table, n_suppressed), 0, "bytes"},
		{offsetof(struct speech_table, n_suppressed_begin), UINT32_MAX, "bytes"},
		{offsetof(struct speech_table, n_heads), 1u << 29, "bytes"},
		{LANGUAGES, 0, "language 0"},
		{LANGUAGES, 0x41414141, "language 0"},
		{LANGUAGES + 4, 1, "language 0"},
		{LANGUAGES + 8, 60, "a language: token 60"},
		{LISTS + 8, 61, "suppressed: token 61"},
		{LISTS + 12, UINT32_MAX, "at the beginning"},
		{HEADS, 2, "head 1 of layer 2"},
		{HEADS + 12, 4, "head 4 of layer 1"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct fixture f;
		build(&f, &hearing);
		memcpy(f.image + f.header.speech_offset + wrong[i].at, &wrong[i].value, 4);
		expect(&f, wrong[i].what);
		free(f.image);
	}
	static const uint64_t lengths[] = {0, 55, 56, 1ull << 63, UINT64_MAX};
	struct fixture f;
	build(&f, &hearing);
	struct image_header *header = (struct image_header *)(void *)f.image;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		header->speech_bytes = lengths[i];
		expect(&f, "");
	}
	free(f.image);
}
END_TEST

START_TEST(refuses_wrong_hyperparameters_of_speech)
{
	static const struct wrong_field wrong[] = {
		{offsetof(struct image_config, rope_dim), 16, "rope.dimension_count"},
		{offsetof(struct image_config, rope_base), 0x461c4000, "rope.freq_base"},
		{offsetof(struct image_config, rope_pairing), IMAGE_ROPE_HALVES, "rope.pairing"},
		{offsetof(struct image_config, rope_scaling), IMAGE_ROPE_LINEAR, "rope.scaling.type"},
		{offsetof(struct image_config, activation), IMAGE_GELU_TANH, "activation"},
		{offsetof(struct image_config, tied_head), 0, "tied_head"},
		{offsetof(struct image_config, encoder_layers), 0, "encoder.block_count"},
		{offsetof(struct image_config, encoder_layers), 1025, "encoder.block_count"},
		{offsetof(struct image_config, encoder_context), 0, "encoder.context_length"},
		{offsetof(struct image_config, encoder_context), (1 << 16) + 1, "encoder.context_length"},
		{offsetof(struct image_config, mel_bins), 0, "encoder.mel_bins"},
		{offsetof(struct image_config, mel_bins), 81, "encoder.mel_bins"},
		{offsetof(struct image_config, mel_bins), 528, "encoder.mel_bins"},
		{offsetof(struct image_config, family), IMAGE_FAMILY_LLAMA, "rope.dimension_count"},
	};
	expect_each(&hearing, wrong, sizeof wrong / sizeof *wrong);
}
END_TEST

START_TEST(plans_without_overflow)
{
	struct image_tensor tensors[64];
	struct image_header header;
	struct err err;
	uint32_t n = list_tensors(&small, tensors);
	ck_assert_int_eq(image_plan(&small, tensors, n, &(struct image_tables){UINT64_MAX - 100, 0, 0}, &header, &err),
			 -EOVERFLOW);
	ck_assert_int_eq(
		image_plan(&small, tensors, n, &(struct image_tables){1ull << 62, 1ull << 62, 0}, &header, &err),
		-EOVERFLOW);
	tensors[0].rows = UINT32_MAX;
	tensors[0].cols = UINT32_MAX - 31;
	ck_assert_int_eq(image_plan(&small, tensors, n, &(struct image_tables){1, 0, 0}, &header, &err), -EOVERFLOW);
	tensors[0].kind = 77;
	ck_assert_int_eq(image_plan(&small, tensors, n, &(struct image_tables){1, 0, 0}, &header, &err), -EOVERFLOW);
}
END_TEST

START_TEST(names_tensors_as_files_do)
{
	char name[FAMILY_NAME_BYTES];
	struct family_tensor t;
	ck_assert_ptr_null(family_find("llam", 4));
	ck_assert_ptr_null(family_find("llamas", 6));
	ck_assert_ptr_eq(family_find("llama", 5), &family_llama);
	for (uint32_t i = 0; i < family_n_tensors(&small); i++) {
		family_tensor(&small, i, &t);
		ck_assert_int_eq(family_tensor_index(&small, t.role, t.layer), (int)i);
	}
	family_tensor(&small, (uint32_t)family_tensor_index(&small, IMAGE_FFN_DOWN, 1), &t);
	ck_assert_str_eq(family_tensor_name(&t, name), "blk.1.ffn_down.weight");
	ck_assert_str_eq(family_tensor_hf_name(&t, name), "model.layers.1.mlp.down_proj.weight");
	ck_assert_uint_eq(t.rows, 64);
	ck_assert_uint_eq(t.cols, 96);
	family_tensor(&small, 0, &t);
	ck_assert_str_eq(family_tensor_name(&t, name), "token_embd.weight");
	ck_assert_str_eq(family_tensor_hf_name(&t, name), "model.embed_tokens.weight");
}
END_TEST

START_TEST(no_name_of_a_family_is_anothers)
{
	static const uint32_t ids[] = {IMAGE_FAMILY_LLAMA, IMAGE_FAMILY_QWEN2, IMAGE_FAMILY_QWEN3, IMAGE_FAMILY_GEMMA3,
				       IMAGE_FAMILY_WHISPER};
	struct image_config config = _i == 4 ? hearing : small;
	char name[2][FAMILY_NAME_BYTES];
	struct family_tensor a, b;
	config.family = ids[_i];
	for (uint32_t i = 0; i < family_n_tensors(&config); i++)
		for (uint32_t j = 0; j < i; j++) {
			family_tensor(&config, i, &a);
			family_tensor(&config, j, &b);
			ck_assert_str_ne(family_tensor_name(&a, name[0]), family_tensor_name(&b, name[1]));
			ck_assert_str_ne(family_tensor_hf_name(&a, name[0]), family_tensor_hf_name(&b, name[1]));
		}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("image");
	TCase *tcase = tcase_create("image");
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, accepts_what_it_planned);
	tcase_add_test(tcase, accepts_any_order_of_tensors);
	tcase_add_loop_test(tcase, refuses_every_flipped_bit, 0, 2);
	tcase_add_loop_test(tcase, refuses_every_truncation, 0, 2);
	tcase_add_test(tcase, refuses_wrong_tensors);
	tcase_add_test(tcase, refuses_wrong_lengths);
	tcase_add_test(tcase, refuses_wrong_hyperparameters);
	tcase_add_test(tcase, opens_both_towers);
	tcase_add_test(tcase, keeps_what_steers_speech);
	tcase_add_test(tcase, refuses_wrong_speech_tables);
	tcase_add_test(tcase, refuses_wrong_hyperparameters_of_speech);
	tcase_add_test(tcase, plans_without_overflow);
	tcase_add_test(tcase, names_tensors_as_files_do);
	tcase_add_loop_test(tcase, no_name_of_a_family_is_anothers, 0, 5);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
