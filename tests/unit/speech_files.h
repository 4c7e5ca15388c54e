/* Speech models in files, made in memory: a tiny one, the same in every format. Names and orders are written down here
 * and not taken from the readers. Each value is a function of its tensor and place, and exact in all types. */
#ifndef WEIGHTD_TESTS_SPEECH_FILES_H
#define WEIGHTD_TESTS_SPEECH_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/engine/image.h"
#include "src/message.h"

/* In files' terms; what kinds of values matrices and vectors have. */
enum speech_type { SPEECH_F32, SPEECH_F16, SPEECH_BF16, SPEECH_INT8 /* matrices: with a scale for each row */ };

struct speech_file {
	char name[32];
	uint32_t role; /* enum file_role */
	unsigned char *bytes;
	size_t n_bytes, room;
};

struct speech_files {
	struct speech_file files[4];
	uint32_t n;
};

extern const struct image_config speech_config; /* what all of them are */

/* 256 bytes and four words that are merged: "th", " t", "the", " th". Then the special tokens; the languages' are
 * <|en|> and <|zh|>. */
enum {
	SPEECH_WORDS = 260,
	SPEECH_EOT = SPEECH_WORDS,
	SPEECH_SOT,
	SPEECH_EN,
	SPEECH_ZH,
	SPEECH_TRANSLATE,
	SPEECH_TRANSCRIBE,
	SPEECH_SOT_LM,
	SPEECH_SOT_PREV,
	SPEECH_NO_SPEECH,
	SPEECH_NO_TIMESTAMPS,
	SPEECH_TIMESTAMPS,
	SPEECH_VOCAB = SPEECH_TIMESTAMPS + 1501,
};

void speech_files_ctranslate2(struct speech_files *out, enum speech_type type);
void speech_files_hf(struct speech_files *out, enum speech_type type); /* not int8 */
/* `q4_0`: matrices in blocks, else as `type` says, which is not int8. Its config is the order of the file. */
void speech_files_ggml(struct speech_files *out, enum speech_type type, bool q4_0);
void speech_files_free(struct speech_files *files);
struct speech_file *speech_files_get(struct speech_files *files, const char *name);

/* A row of a tensor as the image has it, in the form that pack_block_row takes, of the tensor's kind. */
void speech_expected_row(const struct image_tensor *tensor, uint32_t row, unsigned char *out);

#endif
