/* Plans from headers: what a good file gives, and every key and tensor that must be refused by name. */
#include "src/load/model_gguf.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/gguf_builder.h"
#include "tests/unit/suite.h"

enum { FFN = 96 };

static void begin(struct gguf_builder *b)
{
	builder_init(b, 3);
	builder_llama_keys(b, FFN);
}

/* Finishes the file if the test didn't and plans it. */
static int plan(struct gguf_builder *b, struct model_plan *out, struct err *err)
{
	struct gguf gguf;
	uint64_t need;
	if (!b->header_bytes)
		builder_llama_tensors(b, FFN);
	ck_assert_msg(gguf_parse(b->bytes, b->n, b->n, &gguf, &need, err) == 0, "%s", err->text);
	int rc = model_gguf_plan(&gguf, out, err);
	gguf_fini(&gguf);
	return rc;
}

static void refuse(struct gguf_builder *b, int code, const char *part)
{
	struct model_plan out;
	struct err err = {""};
	int rc = plan(b, &out, &err);
	ck_assert_msg(rc == code, "%d instead of %d: %s", rc, code, err.text);
	ck_assert_msg(strstr(err.text, part) != NULL, "'%s' isn't in: %s", part, err.text);
	builder_fini(b);
}

static void accept(struct gguf_builder *b)
{
	struct model_plan out;
	struct err err = {""};
	ck_assert_msg(plan(b, &out, &err) == 0, "%s", err.text);
	model_plan_fini(&out);
	builder_fini(b);
}

/* A key is as good as absent when it is called something else. */
static void hide(struct gguf_builder *b, const char *key)
{
	builder_poke(b, builder_find(b, key) - 4 - strlen(key), 'x', 1);
}

START_TEST(plans_a_good_file)
{
	struct gguf_builder b;
	struct gguf gguf;
	struct model_plan p;
	struct err err = {""};
	uint64_t need;
	begin(&b);
	builder_llama_tensors(&b, FFN);
	ck_assert_int_eq(gguf_parse(b.bytes, b.n, b.n, &gguf, &need, &err), 0);
	ck_assert_msg(model_gguf_plan(&gguf, &p, &err) == 0, "%s", err.text);
	ck_assert_ptr_eq(p.family, &family_llama);
	ck_assert_uint_eq(p.config.n_layers, 2);
	ck_assert_uint_eq(p.config.dim, 64);
	ck_assert_uint_eq(p.config.n_heads, 4);
	ck_assert_uint_eq(p.config.n_kv_heads, 2);
	ck_assert_uint_eq(p.config.head_dim, 16);
	ck_assert_uint_eq(p.config.ffn_dim, FFN);
	ck_assert_uint_eq(p.config.vocab, 260);
	ck_assert_uint_eq(p.config.context, 512);
	ck_assert_uint_eq(p.config.rope_dim, 16);
	ck_assert_float_eq(p.config.rope_base, 50000);
	ck_assert_uint_eq(p.config.tied_head, 1);
	ck_assert_uint_eq(p.n_tensors, 20);
	ck_assert_uint_eq(p.tensors[0].role, IMAGE_OUTPUT_NORM);
	ck_assert_uint_eq(p.tensors[1].role, IMAGE_ATTN_NORM);
	ck_assert_uint_eq(p.tensors[11].role, IMAGE_ATTN_Q);
	ck_assert_uint_eq(p.tensors[11].layer, 1);
	ck_assert_uint_eq(p.tensors[11].kind, PACK_F16);
	ck_assert_uint_eq(p.tensors[10].kind, PACK_F32); /* a vector, float16 in the file */
	ck_assert_uint_eq(p.tensors[19].role, IMAGE_TOKEN_EMBD);
	ck_assert_str_eq(p.tokenizer.model, "gpt2");
	ck_assert_str_eq(p.tokenizer.pre, "smollm");
	ck_assert_ptr_eq(p.tokenizer.pre, p.tokenizer_pre);
	ck_assert_uint_eq(p.tokenizer.n_tokens, 260);
	ck_assert_uint_eq(p.tokenizer.n_merges, 1);
	ck_assert_mem_eq(p.tokenizer.tokens[2].bytes, "<|im_end|>", 10);
	ck_assert_int_eq(p.tokenizer.types[2], TOKEN_CONTROL);
	ck_assert_int_eq((int)p.tokenizer.bos, 1);
	ck_assert_int_eq((int)p.tokenizer.unk, -1);
	ck_assert(!p.tokenizer.add_bos);
	ck_assert_uint_eq(p.template_bytes, 28);
	model_plan_fini(&p);
	gguf_fini(&gguf);
	builder_fini(&b);
}
END_TEST

START_TEST(fills_in_defaults)
{
	static const char *const optional[] = {
		"general.quantization_version", "llama.rope.freq_base",
		"llama.rope.dimension_count",	"llama.vocab_size",
		"tokenizer.ggml.token_type",	"tokenizer.ggml.bos_token_id",
		"tokenizer.ggml.eos_token_id",	"tokenizer.ggml.add_bos_token",
		"tokenizer.chat_template",	"tokenizer.ggml.pre",
		"tokenizer.ggml.merges",
	};
	for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
		struct gguf_builder b;
		begin(&b);
		hide(&b, optional[i]);
		accept(&b);
	}
}
END_TEST

START_TEST(misses_required_keys)
{
	static const char *const required[] = {
		"general.architecture",	     "llama.block_count",
		"llama.context_length",	     "llama.embedding_length",
		"llama.feed_forward_length", "llama.attention.head_count",
		"tokenizer.ggml.model",	     "llama.attention.layer_norm_rms_epsilon",
		"tokenizer.ggml.tokens",
	};
	for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
		struct gguf_builder b;
		char expected[100];
		snprintf(expected, sizeof expected, "key '%s': is missing", required[i]);
		begin(&b);
		hide(&b, required[i]);
		refuse(&b, -EINVAL, expected);
	}
}
END_TEST

START_TEST(refuses_wrong_hyperparameters)
{
	static const struct {
		const char *key;
		uint32_t value;
	} wrong[] = {
		{"llama.block_count", 0},
		{"llama.block_count", 1025},
		{"llama.block_count", 1u << 31},
		{"llama.context_length", 0},
		{"llama.context_length", UINT32_MAX},
		{"llama.embedding_length", 0},
		{"llama.embedding_length", 65},
		{"llama.embedding_length", 1u << 31},
		{"llama.feed_forward_length", 0},
		{"llama.feed_forward_length", 97},
		{"llama.feed_forward_length", UINT32_MAX},
		{"llama.attention.head_count", 0},
		{"llama.attention.head_count", 3},
		{"llama.attention.head_count", 1u << 31},
		{"llama.attention.head_count_kv", 0},
		{"llama.attention.head_count_kv", 3},
		{"llama.attention.head_count_kv", UINT32_MAX},
		{"llama.rope.dimension_count", 0},
		{"llama.rope.dimension_count", 15},
		{"llama.rope.dimension_count", 18},
		{"llama.vocab_size", 0},
		{"llama.vocab_size", 261},
		{"llama.rope.freq_base", 0},
		{"llama.rope.freq_base", 0xc7c35000}, /* -100000 */
		{"llama.rope.freq_base", 0x7f800000},
		{"llama.attention.layer_norm_rms_epsilon", 0},
		{"llama.attention.layer_norm_rms_epsilon", 0x7fc00000},
		{"tokenizer.ggml.bos_token_id", 260},
		{"tokenizer.ggml.eos_token_id", UINT32_MAX},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct gguf_builder b;
		struct model_plan out;
		struct err err = {""};
		begin(&b);
		size_t at = builder_find(&b, wrong[i].key);
		builder_poke(&b, at, wrong[i].value, 4);
		int rc = plan(&b, &out, &err);
		ck_assert_msg(rc == -EINVAL, "%s = %u: %d, %s", wrong[i].key, wrong[i].value, rc, err.text);
		ck_assert_msg(strstr(err.text, "key 'llama.") || strstr(err.text, "key 'tokenizer."), "%s", err.text);
		builder_fini(&b);
	}
}
END_TEST

/* Each of these changes what a forward pass computes. */
START_TEST(refuses_what_it_does_not_compute)
{
	static const struct {
		const char *key;
		uint32_t value;
	} numbers[] = {
		{"llama.expert_count", 8},
		{"llama.rope.scaling.yarn_log_multiplier", 1},
		{"llama.rope.scaling.of_later_years", 1},
		{"llama.attention.value_length", 32},
	};
	struct gguf_builder b;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		begin(&b);
		builder_u32(&b, numbers[i].key, numbers[i].value);
		refuse(&b, -ENOTSUP, numbers[i].key);
	}
	static const struct {
		const char *key;
		float value;
	} floats[] = {
		{"llama.rope.scale_linear", 2},
		{"llama.logit_scale", 0.5f},
		{"llama.rope.scaling.yarn_ext_factor", 0.5f},
		{"llama.attn_logit_softcapping", 50},
	};
	for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
		begin(&b);
		builder_f32(&b, floats[i].key, floats[i].value);
		refuse(&b, -ENOTSUP, floats[i].key);
	}
	begin(&b);
	builder_string(&b, "llama.rope.scaling.type", "longrope");
	refuse(&b, -ENOTSUP, "key 'llama.rope.scaling.type': 'longrope' is not supported");
	static const float factors[] = {-1, 0, INFINITY, NAN};
	for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
		begin(&b);
		builder_f32(&b, "llama.rope.scaling.factor", factors[i]);
		refuse(&b, -EINVAL, "key 'llama.rope.scaling.factor': ");
	}
	begin(&b);
	builder_f32(&b, "llama.attention.scale", -0.1f);
	refuse(&b, -EINVAL, "key 'llama.attention.scale': -0.1");
	begin(&b);
	builder_scalar(&b, "llama.attention.causal", GGUF_BOOL, &(uint8_t){0}, 1);
	refuse(&b, -ENOTSUP, "llama.attention.causal");
	begin(&b);
	builder_poke(&b, builder_find(&b, "general.quantization_version"), 1, 4);
	refuse(&b, -ENOTSUP, "general.quantization_version");
	begin(&b);
	memcpy(b.bytes + builder_find(&b, "general.architecture") + 8, "gemma", 5);
	refuse(&b, -ENOTSUP, "key 'general.architecture': 'gemma' is not supported");
}
END_TEST

/* Plans a file with what `b` has and gives its hyperparameters. */
static struct image_config config_of(struct gguf_builder *b)
{
	struct model_plan out;
	struct err err = {""};
	ck_assert_msg(plan(b, &out, &err) == 0, "%s", err.text);
	struct image_config config = out.config;
	model_plan_fini(&out);
	builder_fini(b);
	return config;
}

START_TEST(reads_windows_and_scaled_positions)
{
	struct gguf_builder b;
	begin(&b);
	struct image_config c = config_of(&b);
	ck_assert_uint_eq(c.window, 0);
	ck_assert_uint_eq(c.rope_scaling, IMAGE_ROPE_UNSCALED);
	ck_assert_uint_eq(c.rope_pairing, IMAGE_ROPE_PAIRS);
	ck_assert_float_eq(c.attention_scale, 0.25f);
	ck_assert_float_eq(c.embedding_scale, 1);
	begin(&b);
	builder_u32(&b, "llama.attention.sliding_window", 128);
	builder_f32(&b, "llama.attention.scale", 0.5f);
	builder_f32(&b, "llama.rope.scaling.factor", 8); /* without a type it is a linear one */
	c = config_of(&b);
	ck_assert_uint_eq(c.window, 128);
	ck_assert_uint_eq(c.window_period, 0);
	ck_assert_float_eq(c.attention_scale, 0.5f);
	ck_assert_uint_eq(c.rope_scaling, IMAGE_ROPE_LINEAR);
	ck_assert_float_eq(c.rope_factor, 8);
	ck_assert_float_eq(c.rope_magnitude, 0);
	begin(&b);
	builder_string(&b, "llama.rope.scaling.type", "yarn");
	builder_f32(&b, "llama.rope.scaling.factor", 4);
	builder_u32(&b, "llama.rope.scaling.original_context_length", 128);
	builder_f32(&b, "llama.rope.scaling.yarn_beta_fast", 16);
	c = config_of(&b);
	ck_assert_uint_eq(c.rope_scaling, IMAGE_ROPE_YARN);
	ck_assert_float_eq(c.rope_factor, 4);
	ck_assert_uint_eq(c.rope_original, 128);
	ck_assert_float_eq(c.rope_low, 1);
	ck_assert_float_eq(c.rope_high, 16);
	ck_assert_float_eq_tol(c.rope_magnitude, 1.138629f, 1e-6f); /* 0.1 ln 4 + 1 */
}
END_TEST

START_TEST(accepts_what_is_switched_off)
{
	struct gguf_builder b;
	begin(&b);
	builder_u32(&b, "llama.expert_count", 0);
	builder_u32(&b, "llama.attention.key_length", 16);
	builder_u32(&b, "llama.attention.value_length", 16);
	builder_string(&b, "llama.rope.scaling.type", "none");
	builder_f32(&b, "llama.rope.scaling.factor", 8);
	builder_u32(&b, "llama.some.key.of.later.years", 5);
	accept(&b);
	begin(&b);
	builder_f32(&b, "llama.rope.scaling.factor", 1);
	accept(&b);
}
END_TEST

START_TEST(refuses_wrong_tensors)
{
	struct gguf_builder b;
	struct gguf_builder *const p = &b;
	begin(p);
	builder_tensor(p, "rope_freqs.weight", GGUF_TENSOR_F32, 1, (uint64_t[]){9});
	refuse(p, -EINVAL, "tensor 'rope_freqs.weight', dimensions: 9 x 1 x 1 x 1, expected 8 x 1");
	begin(p);
	builder_f32(p, "llama.rope.scaling.factor", 8);
	builder_tensor(p, "rope_freqs.weight", GGUF_TENSOR_F32, 1, (uint64_t[]){8});
	refuse(p, -ENOTSUP, "tensor 'rope_freqs.weight': scales positions");
	begin(p);
	builder_tensor(p, "rope_freqs.weight", GGUF_TENSOR_F32, 1, (uint64_t[]){8});
	ck_assert_uint_eq(config_of(p).rope_scaling, IMAGE_ROPE_DIVISORS);
	begin(p);
	builder_tensor(p, "blk.0.attn_q.bias", GGUF_TENSOR_F32, 1, (uint64_t[]){64});
	refuse(p, -ENOTSUP, "tensor 'blk.0.attn_q.bias'");
	begin(p);
	builder_tensor(p, "blk.2.attn_q.weight", GGUF_TENSOR_F32, 2, (uint64_t[]){64, 64});
	refuse(p, -ENOTSUP, "tensor 'blk.2.attn_q.weight'");
	begin(p);
	builder_tensor(p, "output.weight", GGUF_TENSOR_F32, 2, (uint64_t[]){64, 259});
	refuse(p, -EINVAL, "tensor 'output.weight', dimensions: 64 x 259 x 1 x 1, expected 64 x 260");
	begin(p);
	builder_tensor(p, "output.weight", GGUF_TENSOR_F32, 2, (uint64_t[]){64, 260});
	accept(p);
	begin(p);
	builder_poke(p, builder_find(p, "llama.block_count"), 3, 4);
	refuse(p, -EINVAL, "tensor 'blk.2.attn_norm.weight': is missing");
	begin(p);
	builder_poke(p, builder_find(p, "llama.feed_forward_length"), 128, 4);
	refuse(p, -EINVAL, "tensor 'blk.0.ffn_gate.weight', dimensions: 64 x 96 x 1 x 1, expected 64 x 128");
	builder_init(p, 3);
	builder_llama_keys(p, FFN);
	builder_data(p);
	refuse(p, -EINVAL, "tensor count: 0");
}
END_TEST

START_TEST(refuses_a_quantised_norm)
{
	struct gguf_builder b;
	begin(&b);
	builder_llama_tensors(&b, FFN);
	/* The entry of output_norm: name, dimensions (1), 64, type. Its 256 bytes of data hold 64 values of Q8_0, too.
	 */
	size_t at = builder_find(&b, "output_norm.weight") + 8;
	builder_poke(&b, at, GGUF_TENSOR_Q8_0, 4);
	refuse(&b, -ENOTSUP, "tensor 'output_norm.weight', type: Q8_0");
}
END_TEST

START_TEST(refuses_wrong_tokenizers)
{
	struct gguf_builder b;
	begin(&b);
	builder_poke(&b, builder_find(&b, "tokenizer.ggml.token_type") - 4, GGUF_ARRAY, 4);
	builder_poke(&b, builder_find(&b, "tokenizer.ggml.token_type"), GGUF_FLOAT32, 4);
	refuse(&b, -EINVAL, "key 'tokenizer.ggml.token_type', value: is an array of float32");
	begin(&b);
	hide(&b, "tokenizer.ggml.model");
	builder_u32(&b, "tokenizer.ggml.model", 1);
	refuse(&b, -EINVAL, "key 'tokenizer.ggml.model', value: is uint32, expected a string");
	begin(&b);
	hide(&b, "tokenizer.ggml.pre");
	builder_string(&b, "tokenizer.ggml.pre", "a name that is far too long for any of them");
	refuse(&b, -ENOTSUP, "key 'tokenizer.ggml.pre'");
	begin(&b);
	hide(&b, "tokenizer.ggml.token_type");
	builder_array(&b, "tokenizer.ggml.token_type", GGUF_INT32, 1);
	builder_raw(&b, "\1\0\0\0", 4, FIELD_VALUE);
	refuse(&b, -EINVAL, "1 types for 260 tokens");
	begin(&b);
	builder_array(&b, "tokenizer.ggml.scores", GGUF_FLOAT32, 1);
	builder_raw(&b, "\0\0\0\0", 4, FIELD_VALUE);
	refuse(&b, -EINVAL, "1 scores for 260 tokens");
	begin(&b);
	builder_string(&b, "tokenizer.ggml.scores", "none");
	refuse(&b, -EINVAL, "key 'tokenizer.ggml.scores', value: is string, expected an array of float");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("model_gguf");
	TCase *tcase = tcase_create("plan");
	tcase_add_test(tcase, plans_a_good_file);
	tcase_add_test(tcase, fills_in_defaults);
	tcase_add_test(tcase, misses_required_keys);
	tcase_add_test(tcase, refuses_wrong_hyperparameters);
	tcase_add_test(tcase, refuses_what_it_does_not_compute);
	tcase_add_test(tcase, reads_windows_and_scaled_positions);
	tcase_add_test(tcase, accepts_what_is_switched_off);
	tcase_add_test(tcase, refuses_wrong_tensors);
	tcase_add_test(tcase, refuses_a_quantised_norm);
	tcase_add_test(tcase, refuses_wrong_tokenizers);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
