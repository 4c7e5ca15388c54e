#include "tests/unit/tiny_model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const struct image_config config = {
	.family = IMAGE_FAMILY_LLAMA,
	.n_layers = 3,
	.dim = 96,
	.n_heads = 6,
	.n_kv_heads = 2,
	.head_dim = 16,
	.ffn_dim = 160,
	.vocab = TINY_VOCAB,
	.context = 512,
	.rope_dim = 16,
	.rope_base = 10000,
	.norm_eps = 1e-5f,
	.tied_head = 1,
	.embedding_scale = 1,
	.attention_scale = 0.25f,
};

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* Random source rows in the file's form: a scale near 0.02 (float16 0x2400 is 0.0156) and random codes. */
static void random_rows(enum pack_kind kind, unsigned char *rows, uint32_t n_rows, uint32_t cols, uint32_t *state)
{
	size_t n = (size_t)n_rows * pack_source_row_bytes(kind, cols);
	for (size_t i = 0; i < n; i++)
		rows[i] = (unsigned char)next_random(state);
	size_t block = pack_source_row_bytes(kind, PACK_GROUP);
	for (size_t at = 0; at < n; at += block) {
		if (kind == PACK_F32) {
			for (unsigned i = 0; i < PACK_GROUP; i++) {
				float value = (float)((int)(next_random(state) % 2001) - 1000) * 1e-4f;
				memcpy(rows + at + 4 * i, &value, 4);
			}
			continue;
		}
		uint16_t d = (uint16_t)((kind == PACK_Q8_0 ? 0x1400 : 0x2400) + next_random(state) % 256), m = 0xa800;
		memcpy(rows + at, &d, 2);
		if (kind == PACK_Q4_1)
			memcpy(rows + at + 2, &m, 2);
	}
}

static struct matrix random_matrix(enum pack_kind kind, uint32_t rows, uint32_t cols, uint32_t *state)
{
	size_t block_row = pack_block_row_bytes(kind, cols), source_row = pack_source_row_bytes(kind, cols);
	uint32_t n_blocks = (rows + PACK_ROWS - 1) / PACK_ROWS;
	char *data = aligned_alloc(64, (n_blocks * block_row + 63) / 64 * 64);
	unsigned char *source = malloc(PACK_ROWS * source_row);
	assert(data && source);
	for (uint32_t b = 0; b < n_blocks; b++) {
		uint32_t n = rows - b * PACK_ROWS < PACK_ROWS ? rows - b * PACK_ROWS : PACK_ROWS;
		random_rows(kind, source, n, cols, state);
		pack_block_row(kind, data + b * block_row, source, n, cols);
	}
	free(source);
	return (struct matrix){data, kind, rows, cols};
}

static const float *random_vector(uint32_t n, uint32_t *state)
{
	float *v = aligned_alloc(64, (n * sizeof *v + 63) / 64 * 64);
	assert(v);
	for (uint32_t i = 0; i < n; i++)
		v[i] = 0.5f + (float)(next_random(state) % 1000) / 1000;
	return v;
}

/* GPT-2's spelling of a byte: printable ones as themselves, the others from U+0100 on. Returns its UTF-8 length. */
static uint32_t spell_byte(unsigned byte, char out[2])
{
	unsigned code = 0, n = 0;
	for (unsigned b = 0; b < 256; b++) {
		int plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
		unsigned c = plain ? b : 256 + n++;
		if (b == byte)
			code = c;
	}
	if (code < 128) {
		out[0] = (char)code;
		return 1;
	}
	out[0] = (char)(0xc0 | code >> 6);
	out[1] = (char)(0x80 | (code & 63));
	return 2;
}

static void make_tokenizer(struct tiny_model *tiny)
{
	struct tokenizer_string tokens[TINY_VOCAB];
	int32_t types[TINY_VOCAB];
	static char text[TINY_VOCAB][16];
	for (unsigned i = 0; i < TINY_VOCAB; i++) {
		types[i] = i < TINY_BYTES ? TOKEN_NORMAL : TOKEN_CONTROL;
		uint32_t n = i < TINY_BYTES ? spell_byte(i, text[i])
					    : (uint32_t)snprintf(text[i], sizeof text[i], "<|%u|>", i);
		tokens[i] = (struct tokenizer_string){text[i], n};
	}
	struct tokenizer_source source = {
		.model = "gpt2",
		.pre = "smollm",
		.tokens = tokens,
		.types = types,
		.n_tokens = TINY_VOCAB,
		.bos = -1,
		.eos = TINY_EOS,
		.eot = -1,
		.unk = -1,
		.pad = -1,
	};
	uint64_t bytes;
	struct err err;
	int rc = tokenizer_table_bytes(&source, &bytes, &err);
	tiny->table = rc ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64);
	assert(tiny->table);
	memset(tiny->table, 0, bytes);
	rc = tokenizer_table_build(&source, tiny->table, bytes, &err);
	assert(!rc);
	rc = tokenizer_attach(tiny->table, bytes, &tiny->tokenizer, &err);
	assert(!rc);
	(void)rc;
}

struct tiny_model *tiny_model_new(enum pack_kind kind, unsigned seed)
{
	struct tiny_model *tiny = calloc(1, sizeof *tiny);
	uint32_t state = seed, dim = config.dim, kv = config.n_kv_heads * config.head_dim;
	assert(tiny);
	tiny->model.config = config;
	tiny->model.layers = calloc(config.n_layers, sizeof *tiny->model.layers);
	tiny->model.token_embd = tiny->model.head = random_matrix(PACK_Q8_0, TINY_VOCAB, dim, &state);
	tiny->model.output_norm = random_vector(dim, &state);
	for (uint32_t i = 0; i < config.n_layers; i++)
		tiny->model.layers[i] = (struct model_layer){
			.attn_norm = random_vector(dim, &state),
			.attn_q = random_matrix(kind, dim, dim, &state),
			.attn_k = random_matrix(kind, kv, dim, &state),
			.attn_v = random_matrix(kind, kv, dim, &state),
			.attn_output = random_matrix(kind, dim, dim, &state),
			.ffn_norm = random_vector(dim, &state),
			.ffn_gate = random_matrix(kind, config.ffn_dim, dim, &state),
			.ffn_up = random_matrix(kind, config.ffn_dim, dim, &state),
			.ffn_down = random_matrix(kind, dim, config.ffn_dim, &state),
		};
	make_tokenizer(tiny);
	return tiny;
}

void tiny_model_dress(struct tiny_model *tiny, unsigned seed)
{
	struct image_config *c = &tiny->model.config;
	uint32_t state = seed, dim = c->dim, kv = c->n_kv_heads * c->head_dim;
	c->rope_pairing = IMAGE_ROPE_HALVES;
	c->activation = IMAGE_GELU_TANH;
	c->embedding_scale = 9.75f;
	c->window = 20; /* shorter than most sequences of the tests, and ends within a page */
	c->window_period = 3;
	c->window_rope_base = 500;
	for (uint32_t i = 0; i < c->n_layers; i++) {
		struct model_layer *l = &tiny->model.layers[i];
		l->attn_q_bias = random_vector(c->n_heads * c->head_dim, &state);
		l->attn_k_bias = random_vector(kv, &state);
		l->attn_v_bias = random_vector(kv, &state);
		l->attn_q_norm = random_vector(c->head_dim, &state);
		l->attn_k_norm = random_vector(c->head_dim, &state);
		l->attn_post_norm = random_vector(dim, &state);
		l->ffn_post_norm = random_vector(dim, &state);
		l->window = (i + 1) % c->window_period ? c->window : 0;
	}
}

void tiny_model_free(struct tiny_model *tiny)
{
	for (uint32_t i = 0; i < config.n_layers; i++) {
		struct model_layer *l = &tiny->model.layers[i];
		const void *all[] = {
			l->attn_norm,	     l->attn_q.data, l->attn_k.data,	l->attn_v.data,
			l->attn_output.data, l->ffn_norm,    l->ffn_gate.data,	l->ffn_up.data,
			l->ffn_down.data,    l->attn_q_bias, l->attn_k_bias,	l->attn_v_bias,
			l->attn_q_norm,	     l->attn_k_norm, l->attn_post_norm, l->ffn_post_norm,
		};
		for (size_t j = 0; j < sizeof all / sizeof *all; j++)
			free((void *)(uintptr_t)all[j]); /* made by this file, const since */
	}
	free((void *)(uintptr_t)tiny->model.token_embd.data);
	free((void *)(uintptr_t)tiny->model.output_norm);
	model_close(&tiny->model);
	tokenizer_detach(tiny->tokenizer);
	free(tiny->table);
	free(tiny);
}

bool tiny_level(const char *name, enum cpu_level *level, enum numerics *numerics)
{
	*level = CPU_LEVEL_REF;
	while (*level < CPU_LEVEL_AVX512 && strcmp(name, cpu_level_name(*level)) != 0)
		++*level;
	*numerics = kernels_numerics(*level);
	if (!strcmp(name, "int8")) {
		*numerics = NUMERICS_INT8;
		while (*level > CPU_LEVEL_REF && !kernels_get(*level, *numerics))
			--*level;
	}
	return kernels_get(*level, *numerics);
}

enum kv_type tiny_kv_type(int argc, char **argv)
{
	return argc > 2 && !strcmp(argv[2], "kv_int8") ? KV_INT8 : KV_BF16;
}

void tiny_engine_init(struct tiny_engine *e, const struct tiny_model *tiny, const struct tiny_setup *setup)
{
	struct matrix all[64];
	uint32_t n = model_matrices(&tiny->model, all, 64);
	struct err err = {""};
	memset(e, 0, sizeof *e);
	e->tiny = tiny;
	int rc = gemm_new(setup->level, kernels_plain(setup->level, setup->numerics), all, n, &e->gemm, &err);
	if (!rc)
		rc = team_new(setup->n_threads, 0, setup->start, setup->start_arg, &e->team, &err);
	if (!rc)
		rc = arena_init(&e->arena, (size_t)1 << 30, &err);
	if (rc)
		fprintf(stderr, "%s\n", err.text);
	assert(!rc);
	kv_init(&e->kv, &tiny->model.config, setup->kv_type, &e->arena, setup->kv_pages);
	struct forward_setup forward = {
		.model = &tiny->model,
		.copies = setup->copies,
		.kernels = kernels_get(setup->level, setup->numerics),
		.gemm = e->gemm,
		.team = e->team,
		.arena = &e->arena,
		.kv = &e->kv,
		.numerics = setup->numerics,
		.max_rows = setup->prefill_chunk,
		.max_context = setup->context_tokens,
	};
	rc = forward_new(&forward, &e->forward, &err);
	assert(!rc);
	struct scheduler_setup scheduler = {
		.model = &tiny->model,
		.tokenizer = tiny->tokenizer,
		.forward = e->forward,
		.kv = &e->kv,
		.team = e->team,
		.sink = setup->sink,
		.now_ns = setup->now_ns,
		.prefill_chunk = setup->prefill_chunk,
		.max_running = setup->max_running,
		.context_tokens = setup->context_tokens,
		.prefix_cache_bytes = setup->prefix_cache_bytes,
	};
	rc = scheduler_new(&scheduler, &e->scheduler, &err);
	assert(!rc);
	(void)rc;
}

void tiny_engine_fini(struct tiny_engine *e)
{
	scheduler_free(e->scheduler);
	forward_free(e->forward);
	arena_fini(&e->arena);
	team_free(e->team);
	gemm_free(e->gemm);
}
