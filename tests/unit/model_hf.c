/* config.json as real folders have it, in the spellings of several ages, and what is refused of it. The files around it
 * are tests/e2e/test_hf.py's part. */
#include "src/load/model_hf_config.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "tests/unit/suite.h"

/* Keys of every family, as a file may have them all. */
#define SHAPES                                                                                              \
	"\"num_hidden_layers\":12,\"hidden_size\":512,\"num_attention_heads\":8,\"num_key_value_heads\":4," \
	"\"intermediate_size\":1024,\"max_position_embeddings\":4096,\"vocab_size\":1000,\"rms_norm_eps\":1e-5"
#define LLAMA "\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_act\":\"silu\"," SHAPES
#define GEMMA                                                                                          \
	"\"model_type\":\"gemma3_text\",\"hidden_activation\":\"gelu_pytorch_tanh\",\"head_dim\":128," \
	"\"query_pre_attn_scalar\":256,\"sliding_window\":512," SHAPES
#define FIVE                                                                                       \
	"\"sliding_attention\",\"sliding_attention\",\"sliding_attention\",\"sliding_attention\"," \
	"\"sliding_attention\""
#define SIX FIVE ",\"full_attention\""

static int read_text(const char *text, struct image_config *config, enum model_hf_tie *tie, struct err *err)
{
	const struct family *family;
	struct hf_json json;
	int rc = hf_json_parse("config.json", text, strlen(text), &json, err);
	if (rc)
		return rc;
	rc = model_hf_config(&json, &family, config, tie, err);
	if (rc == 0)
		rc = model_hf_config_check(&json, config, err);
	hf_json_fini(&json);
	return rc;
}

static struct image_config read_good(const char *text)
{
	struct image_config config;
	enum model_hf_tie tie;
	struct err err = {""};
	ck_assert_msg(read_text(text, &config, &tie, &err) == 0, "%s", err.text);
	return config;
}

START_TEST(llama_as_the_oldest_files_have_it)
{
	struct image_config c = read_good("{" LLAMA "}");
	ck_assert_uint_eq(c.family, IMAGE_FAMILY_LLAMA);
	ck_assert_uint_eq(c.n_layers, 12);
	ck_assert_uint_eq(c.dim, 512);
	ck_assert_uint_eq(c.n_heads, 8);
	ck_assert_uint_eq(c.n_kv_heads, 4);
	ck_assert_uint_eq(c.head_dim, 64);
	ck_assert_uint_eq(c.rope_dim, 64);
	ck_assert_uint_eq(c.ffn_dim, 1024);
	ck_assert_uint_eq(c.context, 4096);
	ck_assert_uint_eq(c.vocab, 1000);
	ck_assert_float_eq(c.norm_eps, 1e-5f);
	ck_assert_float_eq(c.rope_base, 10000);
	ck_assert_float_eq(c.embedding_scale, 1);
	ck_assert_float_eq(c.attention_scale, 0.125f);
	ck_assert_uint_eq(c.rope_pairing, IMAGE_ROPE_HALVES);
	ck_assert_uint_eq(c.rope_scaling, IMAGE_ROPE_UNSCALED);
	ck_assert_uint_eq(c.window, 0);
}
END_TEST

START_TEST(llama3_scaling_in_both_spellings)
{
#define LLAMA3                                                                                      \
	"\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0," \
	"\"original_max_position_embeddings\":8192"
	static const char *const texts[] = {
		"{" LLAMA ",\"rope_theta\":500000.0,\"rope_scaling\":{" LLAMA3 "}}",
		"{" LLAMA ",\"rope_parameters\":{\"rope_theta\":500000.0," LLAMA3 "}}",
	};
	for (size_t i = 0; i < 2; i++) {
		struct image_config c = read_good(texts[i]);
		ck_assert_float_eq(c.rope_base, 500000);
		ck_assert_uint_eq(c.rope_scaling, IMAGE_ROPE_LLAMA3);
		ck_assert_float_eq(c.rope_factor, 8);
		ck_assert_float_eq(c.rope_low, 1);
		ck_assert_float_eq(c.rope_high, 4);
		ck_assert_uint_eq(c.rope_original, 8192);
		ck_assert_float_eq(c.rope_magnitude, 0);
	}
}
END_TEST

START_TEST(yarn_and_its_magnitude)
{
#define YARN "\"type\":\"yarn\",\"factor\":4.0"
	struct image_config c = read_good("{" LLAMA ",\"rope_scaling\":{" YARN "}}");
	ck_assert_uint_eq(c.rope_scaling, IMAGE_ROPE_YARN);
	ck_assert_uint_eq(c.rope_original, 4096);
	ck_assert_float_eq(c.rope_low, 1);
	ck_assert_float_eq(c.rope_high, 32);
	ck_assert_float_eq_tol(c.rope_magnitude, 1.138629f, 1e-6f);
	c = read_good("{" LLAMA ",\"rope_scaling\":{" YARN ",\"attention_factor\":1.5,\"beta_fast\":16,\"beta_slow\":2,"
		      "\"original_max_position_embeddings\":1024}}");
	ck_assert_float_eq(c.rope_magnitude, 1.5f);
	ck_assert_float_eq(c.rope_low, 2);
	ck_assert_float_eq(c.rope_high, 16);
	ck_assert_uint_eq(c.rope_original, 1024);
	c = read_good("{" LLAMA ",\"rope_scaling\":{" YARN ",\"mscale\":2.0,\"mscale_all_dim\":1.0}}");
	ck_assert_float_eq_tol(c.rope_magnitude, 1.277259f / 1.138629f, 1e-6f);
}
END_TEST

START_TEST(windows_of_mistral_and_qwen)
{
#define MISTRAL "\"model_type\":\"mistral\",\"hidden_act\":\"silu\"," SHAPES
#define QWEN "\"model_type\":\"qwen2\",\"hidden_act\":\"silu\",\"sliding_window\":128," SHAPES
	ck_assert_uint_eq(read_good("{" MISTRAL ",\"sliding_window\":256}").window, 256);
	ck_assert_uint_eq(read_good("{" MISTRAL ",\"sliding_window\":null}").window, 0);
	ck_assert_uint_eq(read_good("{" LLAMA ",\"sliding_window\":256}").window, 0);
	ck_assert_uint_eq(read_good("{" QWEN "}").window, 0);
	ck_assert_uint_eq(read_good("{" QWEN ",\"use_sliding_window\":false}").window, 0);
	ck_assert_uint_eq(read_good("{" QWEN ",\"use_sliding_window\":true,\"max_window_layers\":12}").window, 0);
	ck_assert_uint_eq(read_good("{" QWEN ",\"use_sliding_window\":true,\"layer_types\":[\"full_attention\","
				    "\"full_attention\",\"full_attention\",\"full_attention\",\"full_attention\","
				    "\"full_attention\",\"full_attention\",\"full_attention\",\"full_attention\","
				    "\"full_attention\",\"full_attention\",\"full_attention\"]}")
				  .window,
			  0);
}
END_TEST

START_TEST(gemma_in_three_spellings)
{
	static const char *const texts[] = {
		"{" GEMMA ",\"sliding_window_pattern\":6,\"rope_local_base_freq\":20000,\"rope_theta\":500000,"
		"\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}}",
		"{" GEMMA ",\"_sliding_window_pattern\":6,\"layer_types\":[" SIX "," SIX "],\"rope_theta\":500000,"
		"\"rope_local_base_freq\":20000,\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}}",
		"{" GEMMA ",\"layer_types\":[" SIX "," SIX "],\"rope_parameters\":{\"full_attention\":{\"rope_theta\":"
		"500000,\"rope_type\":\"linear\",\"factor\":8},\"sliding_attention\":{\"rope_theta\":20000,"
		"\"rope_type\":\"default\"}}}",
	};
	for (size_t i = 0; i < 3; i++) {
		struct image_config c = read_good(texts[i]);
		ck_assert_uint_eq(c.window, 512);
		ck_assert_uint_eq(c.window_period, 6);
		ck_assert_float_eq(c.rope_base, 500000);
		ck_assert_float_eq(c.window_rope_base, 20000);
		ck_assert_uint_eq(c.rope_scaling, IMAGE_ROPE_LINEAR);
		ck_assert_float_eq(c.rope_factor, 8);
		ck_assert_float_eq(c.attention_scale, 0.0625f);
		ck_assert_float_eq(c.embedding_scale, sqrtf(512));
		ck_assert_uint_eq(c.activation, IMAGE_GELU_TANH);
	}
	ck_assert_float_eq(read_good("{" GEMMA ",\"sliding_window_pattern\":6,\"rope_local_base_freq\":1}").rope_base,
			   1000000);
}
END_TEST

START_TEST(whether_the_head_is_tied)
{
	static const struct {
		const char *text;
		enum model_hf_tie tie;
	} cases[] = {
		{"{" LLAMA "}", MODEL_HF_TIE_UNSAID},
		{"{" LLAMA ",\"tie_word_embeddings\":null}", MODEL_HF_TIE_UNSAID},
		{"{" LLAMA ",\"tie_word_embeddings\":true}", MODEL_HF_TIED},
		{"{" LLAMA ",\"tie_word_embeddings\":false}", MODEL_HF_UNTIED},
		{"{" GEMMA ",\"sliding_window_pattern\":6,\"rope_local_base_freq\":1}", MODEL_HF_TIED},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct image_config config;
		enum model_hf_tie tie;
		struct err err = {""};
		ck_assert_msg(read_text(cases[i].text, &config, &tie, &err) == 0, "%s", err.text);
		ck_assert_int_eq(tie, cases[i].tie);
	}
}
END_TEST

static const struct {
	const char *text;
	int code;
	const char *says;
} refused[] = {
	{"", -EINVAL, "config.json: "},
	{"[]", -EINVAL, "an object is expected"},
	{"{}", -EINVAL, "key 'model_type': is missing"},
	{"{\"model_type\":7}", -EINVAL, "key 'model_type': a string"},
	{"{\"model_type\":\"llam\"}", -ENOTSUP, "'llam' is not supported"},
	{"{\"model_type\":\"llama\\u0000\"}", -ENOTSUP, "'llama?' is not supported"},
	{"{" LLAMA ",\"head_dim\":\"64\"}", -EINVAL, "key 'head_dim': a whole number"},
	{"{" LLAMA ",\"head_dim\":4294967296}", -EINVAL, "key 'head_dim': a whole number"},
	{"{" LLAMA ",\"head_dim\":24}", -EINVAL, "key 'head_dim': 24, allowed are"},
	{"{" LLAMA ",\"rope_theta\":1e39}", -EINVAL, "key 'rope_theta': a number"},
	{"{" LLAMA ",\"rope_theta\":-1}", -EINVAL, "key 'rope_theta': -1"},
	{"{" LLAMA ",\"rope_theta\":0}", -EINVAL, "key 'rope_theta': 0"},
	{"{" LLAMA ",\"mlp_bias\":true}", -ENOTSUP, "key 'mlp_bias'"},
	{"{" LLAMA ",\"mlp_bias\":1}", -EINVAL, "key 'mlp_bias': true or false"},
	{"{" LLAMA ",\"final_logit_softcapping\":30.0}", -ENOTSUP, "key 'final_logit_softcapping': 30"},
	{"{" LLAMA ",\"partial_rotary_factor\":0.5}", -ENOTSUP, "key 'partial_rotary_factor': 0.5"},
	{"{" LLAMA ",\"quantization_config\":{}}", -ENOTSUP, "key 'quantization_config'"},
	{"{" LLAMA ",\"rope_scaling\":[]}", -EINVAL, "key 'rope_scaling': an object"},
	{"{" LLAMA ",\"rope_scaling\":{\"rope_type\":\"longrope\"}}", -ENOTSUP, "'longrope' is not supported"},
	{"{" LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2,\"truncate\":false}}", -ENOTSUP,
	 "'truncate'"},
	{"{" LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2,\"beta_slow\":40}}", -EINVAL, "beta_fast'"},
	{"{" LLAMA ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":2}}", -EINVAL,
	 "key 'rope_scaling.original_max_position_embeddings': is missing"},
	{"{" LLAMA ",\"rope_parameters\":{\"mrope_section\":[1]}}", -ENOTSUP, "'mrope_section'"},
	{"{\"model_type\":\"qwen3\",\"hidden_act\":\"silu\"," SHAPES "}", -EINVAL, "key 'head_dim': is missing"},
	{"{\"model_type\":\"mistral\",\"hidden_act\":\"silu\",\"sliding_window\":1,\"layer_types\":[\"full_attention\"]"
	 "," SHAPES "}",
	 -EINVAL, "key 'layer_types': a list of 12"},
	{"{" GEMMA "}", -EINVAL, "key 'layer_types': is missing"},
	{"{" GEMMA ",\"sliding_window_pattern\":6}", -EINVAL, "key 'rope_local_base_freq': is missing"},
	{"{" GEMMA ",\"layer_types\":[" SIX "," FIVE ",\"sliding_attention\"]}", -ENOTSUP, "layer 11 breaks the order"},
	{"{" GEMMA ",\"layer_types\":[" SIX "," FIVE ",\"chunked_attention\"]}", -ENOTSUP,
	 "'chunked_attention' is not"},
	{"{" GEMMA ",\"layer_types\":[" SIX "," FIVE ",7]}", -ENOTSUP, "key 'layer_types'"},
};

START_TEST(refuses)
{
	struct image_config config;
	enum model_hf_tie tie;
	struct err err = {""};
	int rc = read_text(refused[_i].text, &config, &tie, &err);
	ck_assert_msg(rc == refused[_i].code, "%s: %d: %s", refused[_i].text, rc, err.text);
	ck_assert_msg(strncmp(err.text, "config.json: ", 13) == 0, "%s", err.text);
	ck_assert_msg(strstr(err.text, refused[_i].says), "%s: %s", refused[_i].text, err.text);
}
END_TEST

/* A level of brackets costs a parser that calls itself some stack, and so does looking for keys that are twice. */
START_TEST(keys_twice_and_depth)
{
	static char deep[2 << 20];
	struct hf_json json;
	struct err err = {""};
	static const char twice[] = "{\"a\":[{\"b\":{\"c\":1,\"d\":2,\"\\u0063\":3}}]}";
	ck_assert_int_eq(hf_json_parse("x.json", twice, strlen(twice), &json, &err), -EINVAL);
	ck_assert_str_eq(err.text, "x.json: key 'c': is there twice");
	memset(deep, '[', sizeof deep);
	memcpy(deep, "{\"a\":", 5);
	memset(deep + sizeof deep / 2, ']', sizeof deep / 2);
	deep[sizeof deep / 2 + sizeof deep / 2 - 1] = '}';
	memset(deep + sizeof deep - 6, ' ', 5);
	ck_assert_int_eq(hf_json_parse("x.json", deep, sizeof deep, &json, &err), -EINVAL);
	ck_assert_msg(strstr(err.text, "x.json: "), "%s", err.text);
}
END_TEST

START_TEST(paths_and_absent_keys)
{
	static const char text[] = "{\"a\":{\"b\":[1,2.5,null]},\"n\":null,\"s\":\"x\"}";
	struct hf_json json, none = {.file = "none"};
	struct err err = {""};
	uint32_t u = 9;
	float f = 9;
	ck_assert_int_eq(hf_json_parse("x.json", text, strlen(text), &json, &err), 0);
	ck_assert_int_eq(hf_json_u32(&json, "a.b.0", &u, &err), 0);
	ck_assert_uint_eq(u, 1);
	ck_assert_int_eq(hf_json_f32(&json, "a.b.1", &f, &err), 0);
	ck_assert_float_eq(f, 2.5f);
	ck_assert_int_eq(hf_json_u32(&json, "a.b.1", &u, &err), -EINVAL);
	ck_assert_str_eq(err.text, "x.json: key 'a.b.1': a whole number up to 4294967295 is expected");
	static const char *const absent[] = {"a.b.2", "a.b.3", "a.c", "n", "n.x", "s.x", "b", ""};
	for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
		ck_assert_int_eq(hf_json_u32(&json, absent[i], &u, &err), -ENOENT);
		ck_assert_int_eq(hf_json_u32(&none, absent[i], &u, &err), -ENOENT);
	}
	ck_assert_uint_eq(u, 1);
	hf_json_fini(&json);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("model_hf");
	TCase *tcase = tcase_create("model_hf");
	tcase_add_test(tcase, llama_as_the_oldest_files_have_it);
	tcase_add_test(tcase, llama3_scaling_in_both_spellings);
	tcase_add_test(tcase, yarn_and_its_magnitude);
	tcase_add_test(tcase, windows_of_mistral_and_qwen);
	tcase_add_test(tcase, gemma_in_three_spellings);
	tcase_add_test(tcase, whether_the_head_is_tied);
	tcase_add_loop_test(tcase, refuses, 0, sizeof refused / sizeof *refused);
	tcase_add_test(tcase, keys_twice_and_depth);
	tcase_add_test(tcase, paths_and_absent_keys);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
