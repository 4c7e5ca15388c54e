/* Speech models in every format they come in: the same weights become the same image, tensor for tensor and bit for
 * bit. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/tokenizer.h"
#include "tests/unit/load_speech_rig.h"
#include "tests/unit/suite.h"

/* Every tensor is what packing its rows makes, of the kind that is wanted. */
static void check_tensors(const struct speech_opened *o)
{
	const char *base = (const char *)o->image;
	const struct image_tensor *tensors = (const void *)(base + o->image->tensors_offset);
	for (uint32_t i = 0; i < o->image->n_tensors; i++) {
		const struct image_tensor *t = &tensors[i];
		size_t row_bytes = pack_source_row_bytes(t->kind, t->cols),
		       packed_bytes = pack_block_row_bytes(t->kind, t->cols);
		unsigned char *rows = malloc(PACK_ROWS * row_bytes), *packed = malloc(packed_bytes);
		for (uint32_t first = 0; first < t->rows; first += PACK_ROWS) {
			uint32_t n = t->rows - first < PACK_ROWS ? t->rows - first : PACK_ROWS;
			for (uint32_t k = 0; k < n; k++)
				speech_expected_row(t, first + k, rows + k * row_bytes);
			pack_block_row(t->kind, packed, rows, n, t->cols);
			const char *at = base + t->offset + (t->vector ? 0 : first / PACK_ROWS * packed_bytes);
			const void *expected = t->vector ? (const void *)rows : packed;
			ck_assert_msg(memcmp(at, expected, t->vector ? row_bytes : packed_bytes) == 0,
				      "role %u of layer %u: rows from %u on differ", t->role, t->layer, first);
		}
		free(rows);
		free(packed);
	}
}

static void check_speech(const struct model *model)
{
	static const uint32_t suppressed[] = {1, 2, SPEECH_SOT}, begin[] = {32, SPEECH_EOT};
	static const struct speech_language languages[] = {{"en", SPEECH_EN}, {"zh", SPEECH_ZH}};
	static const struct speech_head heads[] = {{1, 0}, {1, 3}};
	static const struct speech_table table = {
		.eot = SPEECH_EOT,
		.sot = SPEECH_SOT,
		.translate = SPEECH_TRANSLATE,
		.transcribe = SPEECH_TRANSCRIBE,
		.sot_lm = SPEECH_SOT_LM,
		.sot_prev = SPEECH_SOT_PREV,
		.no_speech = SPEECH_NO_SPEECH,
		.no_timestamps = SPEECH_NO_TIMESTAMPS,
		.first_timestamp = SPEECH_TIMESTAMPS,
		.is_multilingual = 1,
		.n_languages = 2,
		.n_suppressed = 3,
		.n_suppressed_begin = 2,
		.n_heads = 2,
	};
	ck_assert_mem_eq(model->speech, &table, sizeof table);
	ck_assert_mem_eq(speech_languages(model->speech), languages, sizeof languages);
	ck_assert_mem_eq(speech_suppressed(model->speech), suppressed, sizeof suppressed);
	ck_assert_mem_eq(speech_suppressed_begin(model->speech), begin, sizeof begin);
	ck_assert_mem_eq(speech_heads(model->speech), heads, sizeof heads);
	ck_assert_mem_eq(&model->config, &speech_config, sizeof speech_config);
}

/* Nothing is put around a text: prompts are made by who decodes. */
static void check_tokenizer(const struct model *model, bool names_times)
{
	struct tokenizer *tokenizer = NULL;
	struct token_list list = {0};
	struct err err = {""};
	ck_assert_msg(tokenizer_attach(model->tokenizer, model->tokenizer_bytes, &tokenizer, &err) == 0, "%s",
		      err.text);
	ck_assert_uint_eq(tokenizer_n_tokens(tokenizer), SPEECH_VOCAB);
	ck_assert_int_eq(tokenizer_encode(tokenizer, "a<|zh|>", 7, true, true, SIZE_MAX, &list, &err), 0);
	ck_assert_uint_eq(list.n, 2);
	ck_assert_uint_eq(list.ids[0], 'a');
	ck_assert_uint_eq(list.ids[1], SPEECH_ZH);
	/* Merged in the order of ranks: "th" before " t", "the" before " th". */
	static const uint32_t merged[] = {258, ' ', 258, 259, 'x', 257, '2', SPEECH_TIMESTAMPS + 1};
	list.n = 0;
	bool times =
		tokenizer_encode(tokenizer, "the the thx t2<|0.02|>", 22, true, true, SIZE_MAX, &list, &err) == 0 &&
		list.n == 8;
	ck_assert_mem_eq(list.ids, merged, (times ? 8 : 7) * sizeof *merged);
	ck_assert_int_eq(times, names_times);
	token_list_fini(&list);
	tokenizer_detach(tokenizer);
}

static uint32_t kind_of(const struct speech_opened *o, uint32_t role)
{
	const struct image_tensor *tensors = (const void *)((const char *)o->image + o->image->tensors_offset);
	for (uint32_t i = 0; i < o->image->n_tensors; i++)
		if (tensors[i].role == role)
			return tensors[i].kind;
	ck_abort_msg("no tensor of role %u", role);
}

START_TEST(ctranslate2_becomes_what_was_written)
{
	static const uint32_t kinds[] = {PACK_F32, PACK_F16, PACK_BF16, PACK_Q8_0};
	struct speech_files files;
	struct loaded loaded;
	struct speech_opened o;
	struct err err = {""};
	speech_files_ctranslate2(&files, (enum speech_type)_i);
	ck_assert_msg(speech_load(&files, MODEL_AS_STORED, &loaded, &err) == 0, "%s", err.text);
	speech_open(&loaded, &o);
	check_tensors(&o);
	check_speech(&o.model);
	check_tokenizer(&o.model, false);
	ck_assert_uint_eq(kind_of(&o, IMAGE_CROSS_V), kinds[_i]);
	ck_assert_uint_eq(kind_of(&o, IMAGE_OF_ENCODER | IMAGE_CONV1), _i == SPEECH_INT8 ? PACK_F32 : kinds[_i]);
	speech_close(&o);
	loaded_discard(&loaded);
	speech_files_free(&files);
}
END_TEST

START_TEST(hugging_faces_becomes_what_was_written)
{
	struct speech_files files;
	struct loaded loaded;
	struct speech_opened o;
	struct err err = {""};
	speech_files_hf(&files, (enum speech_type)_i);
	for (enum model_quantize quantize = MODEL_AS_STORED; quantize <= MODEL_BF16; quantize++) {
		ck_assert_msg(speech_load(&files, quantize, &loaded, &err) == 0, "%s", err.text);
		speech_open(&loaded, &o);
		check_tensors(&o);
		check_speech(&o.model);
		check_tokenizer(&o.model, false);
		speech_close(&o);
		loaded_discard(&loaded);
	}
	speech_files_free(&files);
}
END_TEST

/* The same weights in three formats are the same image but for the order of its tensors: made 8 bits, too. */
START_TEST(formats_agree)
{
	enum { N = 3 };
	struct speech_files files[N];
	struct loaded loaded;
	struct speech_opened o[N];
	struct err err = {""};
	speech_files_ctranslate2(&files[0], (enum speech_type)_i);
	speech_files_hf(&files[1], (enum speech_type)_i);
	speech_files_ggml(&files[2], (enum speech_type)_i, false);
	for (int i = 0; i < N; i++) {
		ck_assert_msg(speech_load(&files[i], MODEL_INT8, &loaded, &err) == 0, "%s", err.text);
		speech_open(&loaded, &o[i]);
		loaded_discard(&loaded); /* its name is the next one's; the mapping stays */
	}
	const char *base = (const char *)o[0].image;
	const struct image_tensor *a = (const void *)(base + o[0].image->tensors_offset);
	for (int other = 1; other < N; other++) {
		const char *base_b = (const char *)o[other].image;
		const struct image_tensor *b = (const void *)(base_b + o[other].image->tensors_offset);
		ck_assert_uint_eq(o[0].image->n_tensors, o[other].image->n_tensors);
		for (uint32_t i = 0; i < o[0].image->n_tensors; i++) {
			uint32_t k = 0, role = a[i].role & ~(uint32_t)IMAGE_OF_ENCODER;
			while (b[k].role != a[i].role || b[k].layer != a[i].layer)
				k++;
			/* whisper.cpp's positions are float32, whatever the rest is. */
			if (role == IMAGE_POSITION_EMBD && b[k].kind == PACK_F32)
				continue;
			ck_assert_uint_eq(a[i].kind, b[k].kind);
			ck_assert_uint_eq(a[i].bytes, b[k].bytes);
			ck_assert_mem_eq(base + a[i].offset, base_b + b[k].offset, a[i].bytes);
		}
	}
	for (int i = 0; i < N; i++) {
		speech_close(&o[i]);
		speech_files_free(&files[i]);
	}
}
END_TEST

/* What a file of whisper.cpp leaves to be inferred: signs and notes by their words, the upper half's heads. */
static void check_inferred(const struct model *model)
{
	static const uint32_t suppressed[] = {32,
					      34,
					      35,
					      40,
					      41,
					      42,
					      43,
					      47,
					      58,
					      59,
					      60,
					      61,
					      62,
					      64,
					      91,
					      92,
					      93,
					      94,
					      95,
					      96,
					      123,
					      124,
					      125,
					      126,
					      226,
					      SPEECH_SOT,
					      SPEECH_TRANSLATE,
					      SPEECH_TRANSCRIBE,
					      SPEECH_SOT_LM,
					      SPEECH_SOT_PREV,
					      SPEECH_NO_SPEECH};
	static const uint32_t begin[] = {32, SPEECH_EOT};
	const struct speech_table *t = model->speech;
	ck_assert_uint_eq(t->n_suppressed, sizeof suppressed / sizeof *suppressed);
	ck_assert_mem_eq(speech_suppressed(t), suppressed, sizeof suppressed);
	ck_assert_uint_eq(t->n_suppressed_begin, 2);
	ck_assert_mem_eq(speech_suppressed_begin(t), begin, sizeof begin);
	ck_assert_uint_eq(t->eot, SPEECH_EOT);
	ck_assert_uint_eq(t->no_timestamps, SPEECH_NO_TIMESTAMPS);
	ck_assert_uint_eq(t->first_timestamp, SPEECH_TIMESTAMPS);
	ck_assert_uint_eq(t->n_languages, 2);
	ck_assert_str_eq(speech_languages(t)[1].code, "zh");
	ck_assert_uint_eq(speech_languages(t)[1].token, SPEECH_ZH);
	ck_assert_uint_eq(t->n_heads, 4);
	ck_assert_uint_eq(t->is_multilingual, 1);
	ck_assert_mem_eq(&model->config, &speech_config, sizeof speech_config);
}

START_TEST(whisper_cpps_becomes_what_was_written)
{
	static const uint32_t kinds[] = {PACK_F32, PACK_F16, PACK_BF16, PACK_Q4_0};
	struct speech_files files;
	struct loaded loaded;
	struct speech_opened o;
	struct err err = {""};
	bool q4_0 = _i == 3;
	speech_files_ggml(&files, q4_0 ? SPEECH_F16 : (enum speech_type)_i, q4_0);
	ck_assert_msg(speech_load(&files, MODEL_AS_STORED, &loaded, &err) == 0, "%s", err.text);
	speech_open(&loaded, &o);
	check_tensors(&o);
	check_inferred(&o.model);
	check_tokenizer(&o.model, true);
	ck_assert_uint_eq(kind_of(&o, IMAGE_OF_ENCODER | IMAGE_FFN_DOWN), kinds[_i]);
	speech_close(&o);
	loaded_discard(&loaded);
	int rc = speech_load(&files, MODEL_BF16, &loaded, &err);
	ck_assert_int_eq(rc, q4_0 ? -ENOTSUP : 0);
	if (rc == 0)
		loaded_discard(&loaded);
	else
		ck_assert_ptr_nonnull(strstr(err.text, "q4_0 already"));
	speech_files_free(&files);
}
END_TEST

/* Values are exact in bfloat16, so they are what was written, but for those that 8 bits and a scale were. */
START_TEST(weights_are_made_smaller)
{
	struct speech_files files;
	struct loaded loaded;
	struct speech_opened o;
	struct err err = {""};
	speech_files_ctranslate2(&files, (enum speech_type)_i);
	ck_assert_msg(speech_load(&files, MODEL_BF16, &loaded, &err) == 0, "%s", err.text);
	speech_open(&loaded, &o);
	if (_i != SPEECH_INT8)
		check_tensors(&o);
	ck_assert_uint_eq(kind_of(&o, IMAGE_POSITION_EMBD), PACK_BF16);
	ck_assert_uint_eq(kind_of(&o, IMAGE_ATTN_Q), PACK_BF16);
	speech_close(&o);
	loaded_discard(&loaded);
	ck_assert_msg(speech_load(&files, MODEL_INT8, &loaded, &err) == 0, "%s", err.text);
	speech_open(&loaded, &o);
	if (_i == SPEECH_INT8)
		check_tensors(&o);
	ck_assert_uint_eq(kind_of(&o, IMAGE_TOKEN_EMBD), PACK_Q8_0);
	ck_assert_uint_eq(kind_of(&o, IMAGE_OF_ENCODER | IMAGE_FFN_UP), PACK_Q8_0);
	ck_assert_uint_ne(kind_of(&o, IMAGE_OF_ENCODER | IMAGE_CONV2), PACK_Q8_0);
	ck_assert_uint_ne(kind_of(&o, IMAGE_OF_ENCODER | IMAGE_POSITION_EMBD), PACK_Q8_0);
	speech_close(&o);
	loaded_discard(&loaded);
	ck_assert_int_eq(speech_load(&files, MODEL_INT4, &loaded, &err), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err.text, "int4"));
	speech_files_free(&files);
}
END_TEST

/* Heads and languages that nobody names are the upper layers' and those between two tokens. */
START_TEST(what_is_not_said_is_inferred)
{
	struct speech_files files;
	struct loaded loaded;
	struct speech_opened o;
	struct err err = {""};
	speech_files_ctranslate2(&files, SPEECH_F16);
	speech_replace(&files, "config.json", "{\"alignment_heads\":null}");
	ck_assert_msg(speech_load(&files, MODEL_AS_STORED, &loaded, &err) == 0, "%s", err.text);
	speech_open(&loaded, &o);
	ck_assert_uint_eq(o.model.speech->n_heads, 4);
	for (uint32_t i = 0; i < 4; i++) {
		ck_assert_uint_eq(speech_heads(o.model.speech)[i].layer, 1);
		ck_assert_uint_eq(speech_heads(o.model.speech)[i].head, i);
	}
	ck_assert_uint_eq(o.model.speech->n_languages, 2);
	ck_assert_str_eq(speech_languages(o.model.speech)[1].code, "zh");
	ck_assert_uint_eq(o.model.speech->n_suppressed, 0);
	speech_close(&o);
	loaded_discard(&loaded);
	speech_files_free(&files);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("load_speech");
	TCase *tcase = tcase_create("load_speech");
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, ctranslate2_becomes_what_was_written, 0, 4);
	tcase_add_loop_test(tcase, weights_are_made_smaller, 0, 4);
	tcase_add_loop_test(tcase, hugging_faces_becomes_what_was_written, 0, 3);
	tcase_add_loop_test(tcase, formats_agree, 0, 3);
	tcase_add_loop_test(tcase, whisper_cpps_becomes_what_was_written, 0, 4);
	tcase_add_test(tcase, what_is_not_said_is_inferred);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
