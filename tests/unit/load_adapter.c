/* Adapters from files: the same values from GGUF and PEFT are the same image, scales and modules are as the peft
 * library has them, and what is not supported is refused by name. */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/kernel/half.h"
#include "tests/unit/adapter_files.h"
#include "tests/unit/gguf_builder.h"
#include "tests/unit/suite.h"

enum { ALL = (1 << ADAPTER_N_PRODUCTS) - 1, Q_AND_DOWN = 1 << ADAPTER_Q | 1 << ADAPTER_DOWN };

static struct image_config base;

static void set_up(void)
{
	base = adapter_files_base;
}

static char *load(struct load_adapter_files files)
{
	struct err err = {""};
	char *image = adapter_files_load(&files, &base, &err);
	ck_assert_msg(image, "%s", err.text);
	adapter_files_close(&files);
	return image;
}

/* Whether loading fails, with these words in the message. */
static void refused(struct load_adapter_files files, const char *words)
{
	struct err err = {""};
	void *image = adapter_files_load(&files, &base, &err);
	adapter_files_close(&files);
	ck_assert_msg(!image, "not refused: %s", words);
	ck_assert_msg(strstr(err.text, words), "'%s' is not in: %s", words, err.text);
}

static const struct adapter_header *header_of(const char *image)
{
	return (const void *)image;
}

static const struct adapter_entry *entry_of(const char *image, uint32_t i)
{
	return (const struct adapter_entry *)(const void *)(image + header_of(image)->entries_offset) + i;
}

static float value_at(const char *image, uint32_t kind, uint64_t offset, size_t i)
{
	uint16_t half;
	float value;
	if (kind == PACK_F32) {
		memcpy(&value, image + offset + 4 * i, sizeof value);
		return value;
	}
	memcpy(&half, image + offset + 2 * i, sizeof half);
	return kind == PACK_F16 ? f32_from_f16(half) : f32_from_bf16(half);
}

static void same_images(char *a, char *b)
{
	ck_assert_uint_eq(header_of(a)->image_bytes, header_of(b)->image_bytes);
	ck_assert_int_eq(memcmp(a, b, header_of(a)->image_bytes), 0);
	free(a);
	free(b);
}

static const enum gguf_tensor_type types[] = {GGUF_TENSOR_F32, GGUF_TENSOR_F16, GGUF_TENSOR_BF16};

START_TEST(gguf_and_peft_are_the_same_image)
{
	struct adapter_spec spec = {ALL, 5, types[_i], NULL, false}, backwards = spec;
	backwards.backwards = true;
	same_images(load(adapter_files_gguf(&spec)), load(adapter_files_peft(&spec)));
	same_images(load(adapter_files_gguf(&spec)), load(adapter_files_gguf(&backwards)));
	same_images(load(adapter_files_peft(&spec)), load(adapter_files_peft(&backwards)));
	/* A base from a Hugging Face folder has halves side by side where GGUF's has pairs. */
	base.rope_pairing = IMAGE_ROPE_HALVES;
	same_images(load(adapter_files_gguf(&spec)), load(adapter_files_peft(&spec)));
}
END_TEST

/* Every value, by the image's own description. */
static void check_values(const char *image, enum gguf_tensor_type type)
{
	bool pairs = base.rope_pairing == IMAGE_ROPE_PAIRS;
	ck_assert_uint_eq(header_of(image)->n_entries, 2 * ADAPTER_N_PRODUCTS);
	for (uint32_t i = 0; i < header_of(image)->n_entries; i++) {
		const struct adapter_entry *e = entry_of(image, i);
		enum adapter_product product = (enum adapter_product)adapter_product_of(e->role);
		bool rotated = pairs && (product == ADAPTER_Q || product == ADAPTER_K);
		ck_assert_uint_eq(e->a_kind, type == GGUF_TENSOR_F16	? PACK_F16
					     : type == GGUF_TENSOR_BF16 ? PACK_BF16
									: PACK_F32);
		ck_assert_uint_eq(e->layer, i / ADAPTER_N_PRODUCTS);
		for (uint32_t r = 0; r < e->rank; r++)
			for (uint32_t k = 0; k < e->cols; k++)
				ck_assert_float_eq(value_at(image, e->a_kind, e->a_offset, (size_t)r * e->cols + k),
						   adapter_files_value(e->layer, product, 'A', r, k));
		for (uint32_t row = 0; row < e->rows; row++)
			for (uint32_t r = 0; r < e->rank; r++) {
				uint32_t at = rotated ? adapter_files_pair_row(row) : row;
				size_t place = ((size_t)(at / 16) * e->rank + r) * 16 + at % 16;
				ck_assert_float_eq(value_at(image, e->b_kind, e->b_offset, place),
						   adapter_files_value(e->layer, product, 'B', row, r));
			}
	}
}

START_TEST(values_lie_as_the_image_says)
{
	static const enum gguf_tensor_type all[] = {GGUF_TENSOR_F32, GGUF_TENSOR_F16, GGUF_TENSOR_BF16,
						    GGUF_TENSOR_Q8_0};
	struct adapter_spec spec = {ALL, 5, all[_i % 4], NULL, false};
	base.rope_pairing = _i < 4 ? IMAGE_ROPE_PAIRS : IMAGE_ROPE_HALVES;
	char *image = load(adapter_files_gguf(&spec));
	check_values(image, spec.type);
	ck_assert_float_eq(entry_of(image, 0)->scale, 8.0f / 5);
	free(image);
}
END_TEST

/* --- adapter_config.json ---------------------------------------------------------------------- */

START_TEST(scales_are_as_peft_has_them)
{
	static const struct {
		const char *config;
		double q, down; /* of layers 0 and 1 each */
		double q1, down1;
	} cases[] = {
		{"\"use_rslora\":false", 2, 2, 2, 2},
		{"\"use_rslora\":true", 4, 4, 4, 4},
		{"\"alpha_pattern\":{\"q_proj\":12}", 3, 2, 3, 2},
		{"\"alpha_pattern\":{\"layers.1.mlp.down_proj\":-2}", 2, 2, 2, -0.5},
		{"\"alpha_pattern\":{\"model.layers.0.self_attn.q_proj\":0.5,\"q_proj\":4}", 0.125, 2, 1, 2},
		{"\"alpha_pattern\":{\"q_proj\":4,\"model.layers.0.self_attn.q_proj\":0.5}", 1, 2, 1, 2},
		{"\"alpha_pattern\":{\".*\\\\.[01]\\\\.mlp\\\\.(up|down)_proj\":4}", 2, 1, 2, 1},
		{"\"alpha_pattern\":{\"down_pro\":4, \"roj\":4}", 2, 2, 2, 2},
		{"\"use_rslora\":true,\"alpha_pattern\":{\"q_proj|x\":1}", 0.5, 4, 0.5, 4},
		{"\"rank_pattern\":{\"layers.[0-9].self_attn.q_proj\":4}", 2, 2, 2, 2},
	};
	struct adapter_spec spec = {Q_AND_DOWN, 4, GGUF_TENSOR_F32, cases[_i].config, false};
	char *image = load(adapter_files_peft(&spec));
	ck_assert_uint_eq(header_of(image)->n_entries, 4);
	ck_assert_float_eq(entry_of(image, 0)->scale, (float)cases[_i].q);
	ck_assert_float_eq(entry_of(image, 1)->scale, (float)cases[_i].down);
	ck_assert_float_eq(entry_of(image, 2)->scale, (float)cases[_i].q1);
	ck_assert_float_eq(entry_of(image, 3)->scale, (float)cases[_i].down1);
	free(image);
}
END_TEST
enum { N_SCALES = 10 };

/* Of queries and down projections in two layers. */
START_TEST(modules_are_those_that_are_meant)
{
	static const char *const all[] = {
		"\"target_modules\":null",
		"\"target_modules\":[\"q_proj\",\"down_proj\",\"k_proj\"]",
		"\"target_modules\":[\"self_attn.q_proj\",\"model.layers.0.mlp.down_proj\",\"layers.1.mlp.down_proj\"]",
		"\"target_modules\":\"all-linear\"",
		"\"target_modules\":\".*_proj\"",
		"\"target_modules\":\"model.layers.[01].(self_attn.q|mlp.down)_proj\"",
		"\"target_modules\":\"all-linear\",\"layers_to_transform\":[1,0],\"layers_pattern\":\"layers\"",
		"\"target_modules\":\"all-linear\",\"exclude_modules\":[\"k_proj\",\"proj\"]",
	};
	static const struct {
		const char *config, *left;
	} some[] = {
		{"\"target_modules\":[\"q_proj\"]", "'base_model.model.model.layers.0.mlp.down_proj.lora_A.weight'"},
		{"\"target_modules\":[\"proj\",\"down_proj\"]", "layers.0.self_attn.q_proj.lora_A.weight"},
		{"\"target_modules\":\"q_proj\"", "layers.0.self_attn.q_proj.lora_A.weight"},
		{"\"target_modules\":\".*q_proj|model\\\\.layers\\\\.0.*\"", "layers.1.mlp.down_proj.lora_A.weight"},
		{"\"layers_to_transform\":[0]", "layers.1.self_attn.q_proj.lora_A.weight"},
		{"\"layers_to_transform\":0", "layers.1.self_attn.q_proj.lora_A.weight"},
		{"\"exclude_modules\":\".*0.*q_proj\"", "layers.0.self_attn.q_proj.lora_A.weight"},
		{"\"exclude_modules\":[\"down_proj\"]", "and 2 more"},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct adapter_spec spec = {Q_AND_DOWN, 4, GGUF_TENSOR_F32, all[i], false};
		char *image = load(adapter_files_peft(&spec));
		ck_assert_uint_eq(header_of(image)->n_entries, 4);
		free(image);
	}
	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		struct adapter_spec spec = {Q_AND_DOWN, 4, GGUF_TENSOR_F32, some[i].config, false};
		refused(adapter_files_peft(&spec), some[i].left);
	}
}
END_TEST

START_TEST(what_changes_the_arithmetic_is_refused_by_name)
{
	static const struct {
		const char *config, *words;
	} cases[] = {
		{"\"use_dora\":true", "key 'use_dora': is not supported"},
		{"\"modules_to_save\":[\"lm_head\"]", "key 'modules_to_save'"},
		{"\"bias\":\"all\"", "key 'bias': only \"none\""},
		{"\"bias\":\"lora_only\"", "key 'bias'"},
		{"\"fan_in_fan_out\":true", "key 'fan_in_fan_out'"},
		{"\"lora_bias\":true", "key 'lora_bias'"},
		{"\"layer_replication\":[[0,1]]", "key 'layer_replication'"},
		{"\"megatron_config\":{\"a\":1}", "key 'megatron_config'"},
		{"\"trainable_token_indices\":[1]", "key 'trainable_token_indices'"},
		{"\"target_parameters\":[\"x\"]", "key 'target_parameters'"},
		{"\"use_qalora\":true", "key 'use_qalora'"},
		{"\"alora_invocation_tokens\":[3]", "key 'alora_invocation_tokens'"},
		{"\"something_new\":1", "key 'something_new': is not supported"},
		{"\"some\\nthing\":1", "key 'some?thing'"},
		{"\"layers_pattern\":\"h\"", "key 'layers_pattern'"},
		{"\"init_lora_weights\":\"pissa\"", "key 'init_lora_weights'"},
		{"\"init_lora_weights\":\"loftq\"", "key 'init_lora_weights'"},
		{"\"init_lora_weights\":\"olora\"", "path_initial_model_for_weight_conversion"},
		{"\"r\":4", "key 'r': is there twice"},
		{"\"target_modules\":{}", "key 'target_modules'"},
		{"\"target_modules\":[1]", "key 'target_modules'"},
		{"\"target_modules\":\"(\"", "key 'target_modules': '(' is no expression"},
		{"\"rank_pattern\":[1]", "key 'rank_pattern'"},
		{"\"rank_pattern\":{\"q_proj\":\"4\"}", "'q_proj': a number"},
		{"\"rank_pattern\":{\"q_proj\":8}", "q_proj.lora_A.weight': a rank of 4, adapter_config.json says 8"},
		{"\"rank_pattern\":{\"q_proj\":0}", "has a rank of 0"},
		{"\"rank_pattern\":{\"q_proj\":1.5}", "has a rank of 1.5"},
		{"\"rank_pattern\":{\"q_proj\":1e9}", "has a rank of 1e+09"},
		{"\"alpha_pattern\":{\"q_proj\":1e300}", "its scale of 2.5e+299 is out of range"},
		{"\"alpha_pattern\":{\"(.*)(.*)(.*)(.*)(.*)(.*)[0-9]\":1}", "takes too long"},
		{"\"layers_to_transform\":\"all\"", "key 'layers_to_transform'"},
		{"\"layers_to_transform\":[-1]", "key 'layers_to_transform'"},
		{"\"use_rslora\":\"yes\"", "key 'use_rslora'"},
	};
	/* What is off, or says nothing about the arithmetic, is as good as absent. */
	struct adapter_spec harmless = {
		Q_AND_DOWN, 4, GGUF_TENSOR_F32,
		"\"use_dora\":false,\"modules_to_save\":null,\"bias\":\"none\",\"lora_bias\":false,"
		"\"layer_replication\":null,\"target_parameters\":[],\"loftq_config\":{},"
		"\"init_lora_weights\":\"gaussian\",\"task_type\":\"CAUSAL_LM\",\"lora_dropout\":"
		"0.05,\"peft_version\":\"0.18.0\",\"base_model_name_or_path\":\"x\",\"revision\":null,"
		"\"megatron_core\":\"megatron.core\",\"something_new\":null,\"fan_in_fan_out\":false",
		false};
	free(load(adapter_files_peft(&harmless)));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct adapter_spec spec = {Q_AND_DOWN, 4, GGUF_TENSOR_F32, cases[i].config, false};
		refused(adapter_files_peft(&spec), cases[i].words);
	}
}
END_TEST

static void refuse_config(const char *config, const char *words)
{
	struct adapter_spec spec = {Q_AND_DOWN, 4, GGUF_TENSOR_F32, NULL, false};
	struct load_adapter_files files = adapter_files_peft(&spec);
	close(files.config);
	files.config = adapter_files_put(config, strlen(config));
	refused(files, words);
}

START_TEST(what_is_no_lora_config_is_refused)
{
	refuse_config("", "adapter_config.json");
	refuse_config("[]", "adapter_config.json");
	refuse_config("{\"r\":4", "adapter_config.json");
	refuse_config("{}", "key 'peft_type': only \"LORA\"");
	refuse_config("{\"peft_type\":\"IA3\",\"r\":4}", "key 'peft_type': only \"LORA\"");
	refuse_config("{\"peft_type\":\"LORA\",\"r\":-4}", "key 'r'");
	refuse_config("{\"peft_type\":\"LORA\",\"r\":0}", "has a rank of 0");
	refuse_config("{\"peft_type\":\"LORA\",\"lora_alpha\":\"x\"}", "key 'lora_alpha'");
	refuse_config("{\"peft_type\":\"LORA\"}",
		      "a rank of 4, adapter_config.json says 8"); /* the library's default */
}
END_TEST

/* --- GGUF ------------------------------------------------------------------------------------- */

struct gguf_case {
	const char *type, *adapter_type, *architecture; /* NULL: the key is missing */
	bool alpha;
	const char *extra_key;
	struct {
		const char *name;
		uint32_t type;
		uint64_t cols, rows;
	} tensors[3];
	const char *words;
};

#define PAIR                                                         \
	{"blk.0.attn_q.weight.lora_a", GGUF_TENSOR_F32, 64, 4},      \
	{                                                            \
		"blk.0.attn_q.weight.lora_b", GGUF_TENSOR_F32, 4, 64 \
	}

START_TEST(gguf_files_that_are_no_such_adapter_are_refused)
{
	static const struct gguf_case cases[] = {
		{NULL, "lora", "llama", true, NULL, {PAIR}, "key 'general.type': is missing"},
		{"model", "lora", "llama", true, NULL, {PAIR}, "'model', 'adapter' is needed"},
		{"adapter", NULL, "llama", true, NULL, {PAIR}, "key 'adapter.type'"},
		{"adapter", "control", "llama", true, NULL, {PAIR}, "'control', 'lora' is needed"},
		{"adapter", "lora", "qwen2", true, NULL, {PAIR}, "'qwen2', 'llama' is needed"},
		{"adapter", "lora", "llama", false, NULL, {PAIR}, "key 'adapter.lora.alpha': is missing"},
		{"adapter",
		 "lora",
		 "llama",
		 true,
		 "adapter.alora.invocation_tokens",
		 {PAIR},
		 "key 'adapter.alora.invocation_tokens': is not supported"},
		{"adapter",
		 "lora",
		 "llama",
		 true,
		 NULL,
		 {{"blk.0.attn_q.weight.lora_a", GGUF_TENSOR_F32, 64, 4}},
		 "tensor 'blk.0.attn_q.weight.lora_b': is missing"},
		{"adapter",
		 "lora",
		 "llama",
		 true,
		 NULL,
		 {PAIR, {"token_embd.weight.lora_a", GGUF_TENSOR_F32, 4, 4}},
		 "tensors 'token_embd.weight.lora_a': not for"},
		{"adapter",
		 "lora",
		 "llama",
		 true,
		 NULL,
		 {PAIR, {"blk.2.attn_q.weight.lora_a", GGUF_TENSOR_F32, 64, 4}},
		 "'blk.2.attn_q.weight.lora_a'"},
		{"adapter",
		 "lora",
		 "llama",
		 true,
		 NULL,
		 {PAIR, {"blk.0.attn_norm.weight", GGUF_TENSOR_F32, 64, 1}},
		 "'blk.0.attn_norm.weight'"},
		{"adapter",
		 "lora",
		 "llama",
		 true,
		 NULL,
		 {{"blk.0.attn_q.weight.lora_a", GGUF_TENSOR_F32, 64, 5},
		  {"blk.0.attn_q.weight.lora_b", GGUF_TENSOR_F32, 4, 64}},
		 "A has a rank of 5, B one of 4"},
		{"adapter",
		 "lora",
		 "llama",
		 true,
		 NULL,
		 {{"blk.0.attn_q.weight.lora_a", GGUF_TENSOR_F32, 32, 4},
		  {"blk.0.attn_q.weight.lora_b", GGUF_TENSOR_F32, 4, 64}},
		 "the base has one of 64 x 64"},
		{"adapter",
		 "lora",
		 "llama",
		 true,
		 NULL,
		 {{"blk.0.attn_k.weight.lora_a", GGUF_TENSOR_F32, 64, 4},
		  {"blk.0.attn_k.weight.lora_b", GGUF_TENSOR_F32, 4, 64}},
		 "the base has one of 32 x 64"},
		{"adapter",
		 "lora",
		 "llama",
		 true,
		 NULL,
		 {{"blk.0.attn_q.weight.lora_a", GGUF_TENSOR_F32, 64, 513},
		  {"blk.0.attn_q.weight.lora_b", GGUF_TENSOR_F32, 513, 64}},
		 "rank 513, allowed are 1 to 512"},
	};
	static struct gguf_builder b;
	const struct gguf_case *c = &cases[_i];
	builder_init(&b, 3);
	if (c->type)
		builder_string(&b, "general.type", c->type);
	if (c->adapter_type)
		builder_string(&b, "adapter.type", c->adapter_type);
	builder_string(&b, "general.architecture", c->architecture);
	if (c->alpha)
		builder_f32(&b, "adapter.lora.alpha", 8);
	if (c->extra_key)
		builder_u32(&b, c->extra_key, 1);
	for (int i = 0; i < 3 && c->tensors[i].name; i++)
		builder_tensor(&b, c->tensors[i].name, c->tensors[i].type, 2,
			       (uint64_t[]){c->tensors[i].cols, c->tensors[i].rows});
	builder_data(&b);
	refused((struct load_adapter_files){adapter_files_put(b.bytes, b.n), -1, -1}, c->words);
	builder_fini(&b);
}
END_TEST
enum { N_GGUF_CASES = 15 };

/* --- both ------------------------------------------------------------------------------------- */

START_TEST(values_that_are_no_numbers_are_refused)
{
	static const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7fc00000};
	struct adapter_spec spec = {Q_AND_DOWN, 4, GGUF_TENSOR_F32, NULL, false};
	struct load_adapter_files files = _i % 2 ? adapter_files_gguf(&spec) : adapter_files_peft(&spec);
	int fd = _i % 2 ? files.gguf : files.weights;
	off_t end = lseek(fd, 0, SEEK_END);
	ck_assert_int_eq(pwrite(fd, &bad[_i / 2], 4, end - 400), 4);
	refused(files, "is no finite number");
}
END_TEST

START_TEST(a_file_that_changes_is_refused)
{
	struct adapter_spec spec = {Q_AND_DOWN, 4, GGUF_TENSOR_F32, NULL, false};
	struct load_adapter_files files = adapter_files_gguf(&spec);
	struct load_adapter *adapter;
	struct err err = {""};
	ck_assert_int_eq(load_adapter_open(&files, &base, IO_AUTO, &adapter, &err), 0);
	void *image = aligned_alloc(64, load_adapter_bytes(adapter));
	ck_assert_int_eq(write(files.gguf, "more", 4), 4);
	ck_assert_int_lt(load_adapter_write(adapter, image, &err), 0);
	ck_assert_msg(strstr(err.text, "changed"), "%s", err.text);
	free(image);
	load_adapter_close(adapter);
	adapter_files_close(&files);
}
END_TEST

START_TEST(what_is_not_there_is_refused)
{
	struct adapter_spec spec = {Q_AND_DOWN, 4, GGUF_TENSOR_F32, NULL, false};
	struct load_adapter_files files = adapter_files_gguf(&spec);
	off_t end = lseek(files.gguf, 0, SEEK_END);
	ck_assert_int_eq(ftruncate(files.gguf, end - 100), 0);
	refused(files, "offset");
	files = adapter_files_peft(&spec);
	ck_assert_int_eq(ftruncate(files.weights, 100), 0);
	refused(files, "adapter_model.safetensors: ");
	files = adapter_files_peft(&spec);
	close(files.config);
	files.config = open("/dev/null", O_RDONLY | O_CLOEXEC);
	refused(files, "adapter_config.json: not a regular file");
	files = (struct load_adapter_files){adapter_files_put("GGUF", 4), -1, -1};
	refused(files, "");
}
END_TEST

START_TEST(an_alpha_of_0_is_a_scale_of_0)
{
	struct adapter_spec spec = {Q_AND_DOWN, 4, GGUF_TENSOR_F32, "\"alpha_pattern\":{\"q_proj\":0}", false};
	char *image = load(adapter_files_peft(&spec));
	ck_assert_float_eq(entry_of(image, 0)->scale, 0);
	ck_assert_float_eq(entry_of(image, 1)->scale, 2);
	free(image);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("load_adapter");
	TCase *tc = tcase_create("all");
	tcase_add_checked_fixture(tc, set_up, NULL);
	tcase_add_loop_test(tc, gguf_and_peft_are_the_same_image, 0, 3);
	tcase_add_loop_test(tc, values_lie_as_the_image_says, 0, 8);
	tcase_add_loop_test(tc, scales_are_as_peft_has_them, 0, N_SCALES);
	tcase_add_test(tc, modules_are_those_that_are_meant);
	tcase_add_test(tc, what_changes_the_arithmetic_is_refused_by_name);
	tcase_add_test(tc, what_is_no_lora_config_is_refused);
	tcase_add_loop_test(tc, gguf_files_that_are_no_such_adapter_are_refused, 0, N_GGUF_CASES);
	tcase_add_loop_test(tc, values_that_are_no_numbers_are_refused, 0, 6);
	tcase_add_test(tc, a_file_that_changes_is_refused);
	tcase_add_test(tc, what_is_not_there_is_refused);
	tcase_add_test(tc, an_alpha_of_0_is_a_scale_of_0);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
