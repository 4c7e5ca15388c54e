/* The walk over a file of whisper.cpp on any bytes: it goes forward or ends, what it accepts lies in the file, in order
 * and without overlaps, and its words become a tokenizer or are refused. */
#include <stdlib.h>
#include <string.h>

#include "src/load/model_whisper_ggml.h"
#include "tests/fuzz/fuzz.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check(const struct whisper_ggml *file, uint64_t file_bytes)
{
	uint64_t next = 0;
	require(file->offset == file_bytes && file->n_words == file->n_expected_words);
	for (uint32_t i = 0; i < file->n_words; i++)
		require(file->words[i].begin + file->words[i].n_bytes <= file->n_pool);
	for (uint32_t i = 0; i < file->n_tensors; i++) {
		const struct whisper_ggml_tensor *t = &file->tensors[i];
		require(t->offset > next && t->bytes <= file_bytes - t->offset);
		require(memchr(t->name, '\0', sizeof t->name) && whisper_ggml_find(file, t->name) == t);
		next = t->offset + t->bytes;
	}
}

/* A vocabulary that has just the right length, whatever the file says of it. */
static void make_tokens(const struct whisper_ggml *file)
{
	struct model_plan plan = {.family = &family_whisper,
				  .config = {.n_layers = 2, .n_heads = 4, .vocab = file->n_words + 1509 + 2}};
	struct err err = {""};
	int rc = model_whisper_ggml_tokens(file, &plan, &err);
	require(rc == 0 || *err.text);
	for (uint32_t i = 0; i < plan.tokenizer.n_tokens; i++)
		require(plan.tokenizer.tokens[i].n_bytes <= 2 * WHISPER_GGML_WORD_BYTES);
	model_plan_fini(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	struct whisper_ggml file = {.n_words = 0};
	struct err err = {""};
	int rc = 0;
	while (rc == 0 && file.part != WHISPER_GGML_END) {
		uint64_t before = file.offset;
		size_t n = n_bytes - before < WHISPER_GGML_LOOK_BYTES ? n_bytes - before : WHISPER_GGML_LOOK_BYTES;
		rc = whisper_ggml_step(&file, n_bytes, bytes + before, n, &err);
		require(rc || file.offset > before || file.part == WHISPER_GGML_END);
		require(rc == 0 ? file.offset <= n_bytes : *err.text != '\0');
	}
	if (rc == 0)
		check(&file, n_bytes);
	if (file.part >= WHISPER_GGML_TENSOR)
		make_tokens(&file);
	whisper_ggml_fini(&file);
	return 0;
}
