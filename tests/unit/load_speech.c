/* Speech models in every format they come in: the same weights become the same image, tensor for tensor and bit for
 * bit; and files that are wrong are refused with what is wrong. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/layout.h"
#include "src/engine/model.h"
#include "src/engine/tokenizer.h"
#include "src/load/model_quantize.h"
#include "tests/unit/load_fixture.h"
#include "tests/unit/speech_files.h"
#include "tests/unit/suite.h"

static void no_report(void *context, uint64_t done, uint64_t total)
{
	(void)context;
	ck_assert_uint_le(done, total);
}

static int load(const struct speech_files *files, enum model_quantize quantize, struct loaded *out, struct err *err)
{
	const struct load_progress progress = {no_report, NULL};
	struct load_input inputs[4];
	struct message_load order;
	load_fixture_order(&order);
	order.n_files = files->n;
	order.quantize = quantize;
	for (uint32_t i = 0; i < files->n; i++) {
		inputs[i] = (struct load_input){
			.fd = load_fixture_memory(files->files[i].bytes, files->files[i].n_bytes),
			.role = files->files[i].role,
		};
		snprintf(inputs[i].name, sizeof inputs[i].name, "%s", files->files[i].name);
	}
	int rc = model_load(&order, inputs, &progress, out, err);
	for (uint32_t i = 0; i < files->n; i++)
		close(inputs[i].fd);
	if (rc)
		ck_assert_uint_eq(load_fixture_objects(&order), 0);
	return rc;
}

/* The image in a loaded copy, mapped. */
struct opened {
	void *mapping;
	size_t bytes;
	const struct image_header *image;
	struct model model;
};

static void open_copy(const struct loaded *loaded, struct opened *out)
{
	struct err err = {""};
	off_t end = lseek(loaded->fds[0], 0, SEEK_END);
	ck_assert_int_gt(end, 0);
	out->bytes = (size_t)end;
	out->mapping = mmap(NULL, out->bytes, PROT_READ, MAP_SHARED, loaded->fds[0], 0);
	ck_assert_ptr_ne(out->mapping, MAP_FAILED);
	const struct segment_header *header = out->mapping;
	out->image = (const void *)((const char *)out->mapping + SEGMENT_HEADER_BYTES);
	ck_assert_msg(model_open(out->image, header->payload_bytes, &out->model, &err) == 0, "%s", err.text);
}

static void close_copy(struct opened *o)
{
	model_close(&o->model);
	munmap(o->mapping, o->bytes);
}

/* Every tensor is what packing its rows makes, of the kind that is wanted. */
static void check_tensors(const struct opened *o)
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
	bool times = tokenizer_encode(tokenizer, "the the thx t2<|0.02|>", 22, true, true, SIZE_MAX, &list, &err) == 0 &&
		     list.n == 8;
	ck_assert_mem_eq(list.ids, merged, (times ? 8 : 7) * sizeof *merged);
	ck_assert_int_eq(times, names_times);
	token_list_fini(&list);
	tokenizer_detach(tokenizer);
}

static uint32_t kind_of(const struct opened *o, uint32_t role)
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
	struct opened o;
	struct err err = {""};
	speech_files_ctranslate2(&files, (enum speech_type)_i);
	ck_assert_msg(load(&files, MODEL_AS_STORED, &loaded, &err) == 0, "%s", err.text);
	open_copy(&loaded, &o);
	check_tensors(&o);
	check_speech(&o.model);
	check_tokenizer(&o.model, false);
	ck_assert_uint_eq(kind_of(&o, IMAGE_CROSS_V), kinds[_i]);
	ck_assert_uint_eq(kind_of(&o, IMAGE_OF_ENCODER | IMAGE_CONV1), _i == SPEECH_INT8 ? PACK_F32 : kinds[_i]);
	close_copy(&o);
	loaded_discard(&loaded);
	speech_files_free(&files);
}
END_TEST

START_TEST(hugging_faces_becomes_what_was_written)
{
	struct speech_files files;
	struct loaded loaded;
	struct opened o;
	struct err err = {""};
	speech_files_hf(&files, (enum speech_type)_i);
	for (enum model_quantize quantize = MODEL_AS_STORED; quantize <= MODEL_BF16; quantize++) {
		ck_assert_msg(load(&files, quantize, &loaded, &err) == 0, "%s", err.text);
		open_copy(&loaded, &o);
		check_tensors(&o);
		check_speech(&o.model);
		check_tokenizer(&o.model, false);
		close_copy(&o);
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
	struct opened o[N];
	struct err err = {""};
	speech_files_ctranslate2(&files[0], (enum speech_type)_i);
	speech_files_hf(&files[1], (enum speech_type)_i);
	speech_files_ggml(&files[2], (enum speech_type)_i, false);
	for (int i = 0; i < N; i++) {
		ck_assert_msg(load(&files[i], MODEL_INT8, &loaded, &err) == 0, "%s", err.text);
		open_copy(&loaded, &o[i]);
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
		close_copy(&o[i]);
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
	struct opened o;
	struct err err = {""};
	bool q4_0 = _i == 3;
	speech_files_ggml(&files, q4_0 ? SPEECH_F16 : (enum speech_type)_i, q4_0);
	ck_assert_msg(load(&files, MODEL_AS_STORED, &loaded, &err) == 0, "%s", err.text);
	open_copy(&loaded, &o);
	check_tensors(&o);
	check_inferred(&o.model);
	check_tokenizer(&o.model, true);
	ck_assert_uint_eq(kind_of(&o, IMAGE_OF_ENCODER | IMAGE_FFN_DOWN), kinds[_i]);
	close_copy(&o);
	loaded_discard(&loaded);
	int rc = load(&files, MODEL_BF16, &loaded, &err);
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
	struct opened o;
	struct err err = {""};
	speech_files_ctranslate2(&files, (enum speech_type)_i);
	ck_assert_msg(load(&files, MODEL_BF16, &loaded, &err) == 0, "%s", err.text);
	open_copy(&loaded, &o);
	if (_i != SPEECH_INT8)
		check_tensors(&o);
	ck_assert_uint_eq(kind_of(&o, IMAGE_POSITION_EMBD), PACK_BF16);
	ck_assert_uint_eq(kind_of(&o, IMAGE_ATTN_Q), PACK_BF16);
	close_copy(&o);
	loaded_discard(&loaded);
	ck_assert_msg(load(&files, MODEL_INT8, &loaded, &err) == 0, "%s", err.text);
	open_copy(&loaded, &o);
	if (_i == SPEECH_INT8)
		check_tensors(&o);
	ck_assert_uint_eq(kind_of(&o, IMAGE_TOKEN_EMBD), PACK_Q8_0);
	ck_assert_uint_eq(kind_of(&o, IMAGE_OF_ENCODER | IMAGE_FFN_UP), PACK_Q8_0);
	ck_assert_uint_ne(kind_of(&o, IMAGE_OF_ENCODER | IMAGE_CONV2), PACK_Q8_0);
	ck_assert_uint_ne(kind_of(&o, IMAGE_OF_ENCODER | IMAGE_POSITION_EMBD), PACK_Q8_0);
	close_copy(&o);
	loaded_discard(&loaded);
	ck_assert_int_eq(load(&files, MODEL_INT4, &loaded, &err), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err.text, "int4"));
	speech_files_free(&files);
}
END_TEST

/* --- what is wrong ---------------------------------------------------------------------------- */

static void refused(const struct speech_files *files, int code, const char *what)
{
	struct loaded loaded;
	struct err err = {""};
	int rc = load(files, MODEL_AS_STORED, &loaded, &err);
	if (rc == 0)
		loaded_discard(&loaded);
	ck_assert_msg(rc == code && strstr(err.text, what), "%d '%s', expected %d '%s'", rc, err.text, code, what);
}

/* Where these bytes are, which are there once at least. */
static unsigned char *find(struct speech_file *file, const char *text)
{
	void *at = memmem(file->bytes, file->n_bytes, text, strlen(text));
	ck_assert_msg(at != NULL, "%s", text);
	return at;
}

START_TEST(ctranslate2_of_wrong_lengths)
{
	struct speech_files files;
	speech_files_ctranslate2(&files, SPEECH_F16);
	struct speech_file *file = speech_files_get(&files, "model.bin");
	size_t whole = file->n_bytes;
	/* Everything in the first header and a half, then some of the rest. */
	for (size_t n = 0; n < whole; n += n < 120 ? 1 : 9973) {
		file->n_bytes = n;
		refused(&files, -EINVAL, "model.bin: offset");
	}
	file->n_bytes = whole - 1;
	refused(&files, -EINVAL, "alias");
	file->n_bytes = whole;
	speech_files_free(&files);
}
END_TEST

START_TEST(ctranslate2_of_wrong_fields)
{
	static const char conv[] = "encoder/conv1/weight", v[] = "decoder/layer_1/ffn/linear_1/bias";
	enum { BEHIND_CONV = sizeof conv };
	static const struct {
		const char *at;
		size_t skip;
		uint32_t value, bytes;
		int code;
		const char *what;
	} wrong[] = {
		{"WhisperSpec", 0, 'T', 1, -ENOTSUP, "specification ThisperSpec"},
		{"WhisperSpec", 12, 4, 4, -ENOTSUP, "revision 4"},
		{"WhisperSpec", 16, 0xffffffff, 4, -EINVAL, "4294967295 variables"},
		{"WhisperSpec", 3, 0, 1, -EINVAL, "no part of a printable string"},
		{conv, BEHIND_CONV, 5, 1, -ENOTSUP, "5 dimensions"},
		{conv, BEHIND_CONV, 2, 1, -EINVAL, "encoder/conv1/weight"},
		{conv, BEHIND_CONV + 1, 0xffffffff, 4, -EINVAL, "are not those of its type and shape"},
		{conv, BEHIND_CONV + 5, 81, 4, -EINVAL, "are not those of its type and shape"},
		{conv, BEHIND_CONV + 13, 9, 1, -ENOTSUP, "type 9"},
		{conv, BEHIND_CONV + 13, 2, 1, -ENOTSUP, "values of its type"},
		{conv, BEHIND_CONV + 14, 0xfffffff0, 4, -EINVAL, "are not those"},
		{v, 2, 'x', 1, -EINVAL, "variable 'decoder/layer_1/ffn/linear_1/bias': is missing"},
		{"decoder/activation", 19 + 6, 1, 1, -ENOTSUP, "decoder/activation': 3 is expected"},
		{"decoder/alibi", 14 + 6, 1, 1, -ENOTSUP, "decoder/alibi': a whisper model has no use"},
		{"encoder/num_heads", 18 + 6, 8, 2, -ENOTSUP, "encoder/num_heads"},
		{"decoder/num_heads", 18 + 6, 0, 2, -EINVAL, "decoder/num_heads"},
		{"decoder/num_heads", 18 + 6, 0xffff, 2, -EINVAL, "decoder/num_heads"},
		{"decoder/projection/weight", 8, 'x', 1, -ENOTSUP, "alias 'decoder/xrojection/weight'"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct speech_files files;
		speech_files_ctranslate2(&files, SPEECH_F16);
		unsigned char *at = find(speech_files_get(&files, "model.bin"), wrong[i].at);
		memcpy(at + wrong[i].skip, &wrong[i].value, wrong[i].bytes);
		refused(&files, wrong[i].code, wrong[i].what);
		speech_files_free(&files);
	}
}
END_TEST

START_TEST(ctranslate2_whose_keys_have_a_bias)
{
	static const char *const names[] = {"decoder/layer_0/self_attention/linear_0/bias",
					    "encoder/layer_2/self_attention/linear_0/bias",
					    "decoder/layer_1/attention/linear_1/bias"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct speech_files files;
		speech_files_ctranslate2(&files, SPEECH_F16);
		unsigned char *data = find(speech_files_get(&files, "model.bin"), names[i]) + strlen(names[i]) + 11;
		data[i < 2 ? 2 * 64 : 2 * 63] = 1; /* the first of the keys', or their last */
		refused(&files, -ENOTSUP, "a bias of keys");
		speech_files_free(&files);
	}
}
END_TEST

START_TEST(ctranslate2_of_wrong_scales)
{
	static const float wrong[] = {0, -1, __builtin_inff(), __builtin_nanf(""), 1e-20f};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct speech_files files;
		speech_files_ctranslate2(&files, SPEECH_INT8);
		static const char name[] = "decoder/layer_1/attention/linear_1/weight_scale";
		memcpy(find(speech_files_get(&files, "model.bin"), name) + sizeof name + 10 + 4 * 70, &wrong[i], 4);
		refused(&files, -EINVAL, "a scale is no finite number above 0");
		speech_files_free(&files);
	}
}
END_TEST

/* A document in place of the right one. */
static void replace(struct speech_files *files, const char *name, const char *text)
{
	struct speech_file *file = speech_files_get(files, name);
	file->bytes = realloc(file->bytes, strlen(text) + 1);
	ck_assert_ptr_nonnull(file->bytes);
	file->n_bytes = file->room = strlen(text);
	memcpy(file->bytes, text, file->n_bytes);
}

START_TEST(what_lies_beside_is_checked)
{
	static const struct {
		const char *text, *what;
	} wrong[] = {
		{"", "config.json"},
		{"[]", "config.json"},
		{"{\"suppress_ids\":7}", "'suppress_ids': a list of tokens"},
		{"{\"suppress_ids\":[-1]}", "'suppress_ids': item 0"},
		{"{\"suppress_ids\":[1771]}", "suppressed: token 1771 of a vocabulary of 1771"},
		{"{\"suppress_ids_begin\":[5000000000]}", "'suppress_ids_begin': item 0"},
		{"{\"lang_ids\":[]}", "without languages"},
		{"{\"lang_ids\":[5]}", "token 5 is to be a language's"},
		{"{\"lang_ids\":[264]}", "token 264 is to be a language's"},
		{"{\"lang_ids\":[1771]}", "token 1771 is to be a language's"},
		{"{\"alignment_heads\":[[2,0]]}", "'alignment_heads': item 0"},
		{"{\"alignment_heads\":[[0,1],[0,4]]}", "'alignment_heads': item 1"},
		{"{\"alignment_heads\":[[0]]}", "'alignment_heads': item 0"},
		{"{\"alignment_heads\":{}}", "'alignment_heads': a list"},
	};
	struct speech_files files;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		speech_files_ctranslate2(&files, SPEECH_F16);
		replace(&files, "config.json", wrong[i].text);
		refused(&files, -EINVAL, wrong[i].what);
		speech_files_free(&files);
	}
	speech_files_ctranslate2(&files, SPEECH_F16);
	memcpy(find(speech_files_get(&files, "tokenizer.json"), "<|startofprev|>"), "<|startofPrev|>", 15);
	refused(&files, -EINVAL, "'<|startofprev|>' is missing");
	speech_files_free(&files);
	speech_files_ctranslate2(&files, SPEECH_F16);
	free(files.files[--files.n].bytes);
	refused(&files, -EINVAL, "the folder has no tokenizer.json");
	speech_files_free(&files);
}
END_TEST

START_TEST(hugging_faces_of_wrong_fields)
{
	static const struct {
		const char *file, *from, *to;
		int code;
		const char *what;
	} wrong[] = {
		{"config.json", "\"gelu\"", "\"relu\"", -ENOTSUP, "'activation_function': 'relu'"},
		{"config.json", "ForConditionalGeneration", "ForAudioClassification_x", -ENOTSUP, "'architectures.0'"},
		{"config.json", "embedding\":false", "embedding\":true ", -ENOTSUP, "'scale_embedding': true"},
		{"config.json", "\"d_model\":64", "\"d_modal\":64", -EINVAL, "'d_model': is missing"},
		{"config.json", "\"encoder_attention_heads\":4", "\"encoder_attention_heads\":2", -ENOTSUP,
		 "'encoder_attention_heads': 2"},
		{"config.json", "\"encoder_ffn_dim\":96", "\"encoder_ffn_dim\":64", -ENOTSUP, "'encoder_ffn_dim': 64"},
		{"config.json", "\"encoder_layers\":3", "\"encoder_layers\":4", -EINVAL, "encoder.layers.3"},
		{"config.json", "\"encoder_layers\":3", "\"encoder_layers\":2", -ENOTSUP,
		 "encoder.layers.2.fc1.weight': a whisper model has no use"},
		{"config.json", "\"encoder_layers\":3", "\"encoder_layers\":0", -EINVAL, "encoder.block_count: 0"},
		{"config.json", "\"num_mel_bins\":80", "\"num_mel_bins\":96", -EINVAL, "conv1.weight': shape"},
		{"config.json", "\"vocab_size\":1771", "\"vocab_size\":1770", -EINVAL, "embed_tokens.weight': shape"},
		{"generation_config.json", "[1,3]", "[2,3]", -EINVAL, "'alignment_heads': item 1"},
		{"model.safetensors", "layers.1.fc2.bias", "layers.1.fc2.bios", -EINVAL, "fc2.bias': is missing"},
		{"model.safetensors", "\"shape\":[64,80,3]", "\"shape\":[64,3,80]", -EINVAL, "conv1.weight': shape"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct speech_files files;
		speech_files_hf(&files, SPEECH_F16);
		memcpy(find(speech_files_get(&files, wrong[i].file), wrong[i].from), wrong[i].to, strlen(wrong[i].to));
		refused(&files, wrong[i].code, wrong[i].what);
		speech_files_free(&files);
	}
}
END_TEST

START_TEST(whisper_cpps_of_wrong_lengths)
{
	struct speech_files files;
	speech_files_ggml(&files, SPEECH_F16, false);
	struct speech_file *file = &files.files[0];
	size_t whole = file->n_bytes;
	for (size_t n = 4; n < whole; n += n < 120 ? 1 : 7919) {
		file->n_bytes = n;
		refused(&files, -EINVAL, "");
	}
	file->n_bytes = whole - 1;
	refused(&files, -EINVAL, "ends behind the file's");
	file->n_bytes = whole;
	speech_files_free(&files);
}
END_TEST

START_TEST(whisper_cpps_of_wrong_fields)
{
	static const char conv[] = "encoder.conv1.weight", v[] = "decoder.blocks.1.mlp.2.bias";
	enum { WORDS = 56 + 4 * 80 * 201 };
	static const struct {
		const char *at; /* NULL: the file's beginning */
		int skip;
		uint32_t value;
		int code;
		const char *what;
	} wrong[] = {
		{NULL, 4, 1772, -EINVAL, "embedding"},
		{NULL, 4, 1769, -EINVAL, "n_vocab"},
		{NULL, 4, 0xffffffff, -EINVAL, "vocab"},
		{NULL, 12, 128, -ENOTSUP, "n_audio_state"},
		{NULL, 16, 2, -ENOTSUP, "n_audio_state, n_audio_head"},
		{NULL, 20, 4, -EINVAL, "encoder.blocks.3"},
		{NULL, 20, 2, -ENOTSUP, "encoder.blocks.2"},
		{NULL, 32, 0, -ENOTSUP, "n_audio_head"},
		{NULL, 40, 81, -EINVAL, "mel_bins"},
		{NULL, 48, 0xffffffff, -EINVAL, "mel filters"},
		{NULL, 52, 0x7fffffff, -EINVAL, "mel filters"},
		{NULL, WORDS, 0xffffffff, -EINVAL, "4294967295 words"},
		{NULL, WORDS, 0x10000, -EINVAL, "word"},
		{NULL, WORDS + 4, 0xffffffff, -EINVAL, "word 0: 4294967295 bytes"},
		{NULL, WORDS + 4, 65, -EINVAL, "word 0: 65 bytes"},
		{conv, -24, 0, -EINVAL, "0 dimensions"},
		{conv, -24, 5, -EINVAL, "5 dimensions"},
		{conv, -20, 0, -EINVAL, "name of a tensor: 0 bytes"},
		{conv, -20, 64, -EINVAL, "name of a tensor: 64 bytes"},
		{conv, -16, 77, -ENOTSUP, "type 77"},
		{conv, -16, 2, -EINVAL, "rows of 3 numbers in blocks of 32"},
		{conv, -16, 9, -ENOTSUP, "type 9 (Q8_1)"},
		{conv, -12, 0xffffffff, -EINVAL, "ends behind"},
		{conv, -8, 81, -EINVAL, "offset"},
		{v, 0, 0x78656463, -EINVAL, "tensor 'decoder.blocks.1.mlp.2.bias': is missing"},
		{v, -4, 0xffffffff, -EINVAL, "ends behind"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct speech_files files;
		speech_files_ggml(&files, SPEECH_F16, false);
		unsigned char *at = wrong[i].at ? find(&files.files[0], wrong[i].at) : files.files[0].bytes;
		memcpy(at + wrong[i].skip, &wrong[i].value, 4);
		refused(&files, wrong[i].code, wrong[i].what);
		speech_files_free(&files);
	}
	/* Blocks of another version would be read wrongly. */
	struct speech_files files;
	speech_files_ggml(&files, SPEECH_F16, true);
	memcpy(files.files[0].bytes + 44, &(uint32_t){1002}, 4);
	refused(&files, -ENOTSUP, "blocks of version 1");
	speech_files_free(&files);
}
END_TEST

/* Heads and languages that nobody names are the upper layers' and those between two tokens. */
START_TEST(what_is_not_said_is_inferred)
{
	struct speech_files files;
	struct loaded loaded;
	struct opened o;
	struct err err = {""};
	speech_files_ctranslate2(&files, SPEECH_F16);
	replace(&files, "config.json", "{\"alignment_heads\":null}");
	ck_assert_msg(load(&files, MODEL_AS_STORED, &loaded, &err) == 0, "%s", err.text);
	open_copy(&loaded, &o);
	ck_assert_uint_eq(o.model.speech->n_heads, 4);
	for (uint32_t i = 0; i < 4; i++) {
		ck_assert_uint_eq(speech_heads(o.model.speech)[i].layer, 1);
		ck_assert_uint_eq(speech_heads(o.model.speech)[i].head, i);
	}
	ck_assert_uint_eq(o.model.speech->n_languages, 2);
	ck_assert_str_eq(speech_languages(o.model.speech)[1].code, "zh");
	ck_assert_uint_eq(o.model.speech->n_suppressed, 0);
	close_copy(&o);
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
	tcase_add_test(tcase, ctranslate2_of_wrong_lengths);
	tcase_add_test(tcase, ctranslate2_of_wrong_fields);
	tcase_add_test(tcase, ctranslate2_whose_keys_have_a_bias);
	tcase_add_test(tcase, ctranslate2_of_wrong_scales);
	tcase_add_test(tcase, what_lies_beside_is_checked);
	tcase_add_loop_test(tcase, hugging_faces_becomes_what_was_written, 0, 3);
	tcase_add_loop_test(tcase, formats_agree, 0, 3);
	tcase_add_test(tcase, hugging_faces_of_wrong_fields);
	tcase_add_loop_test(tcase, whisper_cpps_becomes_what_was_written, 0, 4);
	tcase_add_test(tcase, whisper_cpps_of_wrong_lengths);
	tcase_add_test(tcase, whisper_cpps_of_wrong_fields);
	tcase_add_test(tcase, what_is_not_said_is_inferred);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
