/* Speech models whose files are wrong are refused with what is wrong, and where. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/load_speech_rig.h"
#include "tests/unit/suite.h"

START_TEST(ctranslate2_of_wrong_lengths)
{
	struct speech_files files;
	speech_files_ctranslate2(&files, SPEECH_F16);
	struct speech_file *file = speech_files_get(&files, "model.bin");
	size_t whole = file->n_bytes;
	/* Everything in the first header and a half, then some of the rest. */
	for (size_t n = 0; n < whole; n += n < 120 ? 1 : 9973) {
		file->n_bytes = n;
		speech_refused(&files, -EINVAL, "model.bin: offset");
	}
	file->n_bytes = whole - 1;
	speech_refused(&files, -EINVAL, "alias");
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
		unsigned char *at = speech_find(speech_files_get(&files, "model.bin"), wrong[i].at);
		memcpy(at + wrong[i].skip, &wrong[i].value, wrong[i].bytes);
		speech_refused(&files, wrong[i].code, wrong[i].what);
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
		unsigned char *data =
			speech_find(speech_files_get(&files, "model.bin"), names[i]) + strlen(names[i]) + 11;
		data[i < 2 ? 2 * 64 : 2 * 63] = 1; /* the first of the keys', or their last */
		speech_refused(&files, -ENOTSUP, "a bias of keys");
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
		memcpy(speech_find(speech_files_get(&files, "model.bin"), name) + sizeof name + 10 + 4 * 70, &wrong[i],
		       4);
		speech_refused(&files, -EINVAL, "a scale is no finite number above 0");
		speech_files_free(&files);
	}
}
END_TEST

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
		speech_replace(&files, "config.json", wrong[i].text);
		speech_refused(&files, -EINVAL, wrong[i].what);
		speech_files_free(&files);
	}
	speech_files_ctranslate2(&files, SPEECH_F16);
	memcpy(speech_find(speech_files_get(&files, "tokenizer.json"), "<|startofprev|>"), "<|startofPrev|>", 15);
	speech_refused(&files, -EINVAL, "'<|startofprev|>' is missing");
	speech_files_free(&files);
	speech_files_ctranslate2(&files, SPEECH_F16);
	free(files.files[--files.n].bytes);
	speech_refused(&files, -EINVAL, "the folder has no tokenizer.json");
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
		memcpy(speech_find(speech_files_get(&files, wrong[i].file), wrong[i].from), wrong[i].to,
		       strlen(wrong[i].to));
		speech_refused(&files, wrong[i].code, wrong[i].what);
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
		speech_refused(&files, -EINVAL, "");
	}
	file->n_bytes = whole - 1;
	speech_refused(&files, -EINVAL, "ends behind the file's");
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
		unsigned char *at = wrong[i].at ? speech_find(&files.files[0], wrong[i].at) : files.files[0].bytes;
		memcpy(at + wrong[i].skip, &wrong[i].value, 4);
		speech_refused(&files, wrong[i].code, wrong[i].what);
		speech_files_free(&files);
	}
	/* Blocks of another version would be read wrongly. */
	struct speech_files files;
	speech_files_ggml(&files, SPEECH_F16, true);
	memcpy(files.files[0].bytes + 44, &(uint32_t){1002}, 4);
	speech_refused(&files, -ENOTSUP, "blocks of version 1");
	speech_files_free(&files);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("load_speech_hostile");
	TCase *tcase = tcase_create("load_speech_hostile");
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, ctranslate2_of_wrong_lengths);
	tcase_add_test(tcase, ctranslate2_of_wrong_fields);
	tcase_add_test(tcase, ctranslate2_whose_keys_have_a_bias);
	tcase_add_test(tcase, ctranslate2_of_wrong_scales);
	tcase_add_test(tcase, what_lies_beside_is_checked);
	tcase_add_test(tcase, hugging_faces_of_wrong_fields);
	tcase_add_test(tcase, whisper_cpps_of_wrong_lengths);
	tcase_add_test(tcase, whisper_cpps_of_wrong_fields);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
