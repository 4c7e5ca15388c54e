/* Any bytes as the files of a Hugging Face folder: refused with a reason, or a plan whose tensors lie inside the files.
 * The input is the files one after the other, separated by zero bytes: config.json, tokenizer_config.json,
 * generation_config.json, model.safetensors.index.json, chat_template.jinja, tokenizer.json, and what is left is
 * model.safetensors. An empty one is not there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/load/model_hf.h"
#include "tests/fuzz/fuzz.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check_plan(const struct model_plan *plan, uint64_t weights_bytes)
{
	uint64_t next = 0;
	for (uint32_t i = 0; i < plan->n_tensors; i++) {
		const struct model_source *source = &plan->sources[i];
		require(source->offset >= next && source->bytes <= weights_bytes - source->offset);
		next = source->offset + source->bytes;
		require(plan->tensors[i].role != 0);
	}
	for (uint32_t i = 0; i < plan->tokenizer.n_ends; i++)
		require(plan->tokenizer.ends[i] < plan->tokenizer.n_tokens);
	require(plan->tokenizer.n_tokens == plan->config.vocab);
}

static void plan(struct model_hf_file *files, uint32_t n)
{
	struct model_hf folder;
	struct model_plan made;
	struct safetensors weights = {0};
	struct err err = {""};
	uint64_t need;
	if (model_hf_open(files, n, &folder, &err) != 0) {
		require(*err.text);
		return;
	}
	struct model_hf_file *last = &files[n - 1];
	if (safetensors_parse(last->bytes, last->n_bytes, last->n_bytes, &weights, &need, &err) == 0) {
		last->weights = &weights;
		for (enum model_quantize quantize = MODEL_AS_STORED; quantize <= MODEL_INT4; quantize++) {
			if (model_hf_plan(&folder, quantize, &made, &err) == 0) {
				check_plan(&made, last->n_bytes);
				model_plan_fini(&made);
			} else {
				require(*err.text);
			}
		}
		safetensors_fini(&weights);
	}
	model_hf_close(&folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static const char *const names[] = {"config.json",
					    "tokenizer_config.json",
					    "generation_config.json",
					    "model.safetensors.index.json",
					    "chat_template.jinja",
					    "tokenizer.json"};
	enum { N_NAMES = sizeof names / sizeof *names };
	struct model_hf_file files[N_NAMES + 1] = {0};
	uint32_t n = 0;
	for (uint32_t i = 0; i < N_NAMES; i++) {
		const uint8_t *end = n_bytes ? memchr(bytes, 0, n_bytes) : NULL;
		if (!end)
			return 0;
		if (end > bytes)
			files[n++] = (struct model_hf_file){
				.name = names[i], .bytes = bytes, .n_bytes = (size_t)(end - bytes)};
		n_bytes -= (size_t)(end - bytes) + 1;
		bytes = end + 1;
	}
	files[n++] = (struct model_hf_file){.name = "model.safetensors", .bytes = bytes, .n_bytes = n_bytes};
	plan(files, n);
	return 0;
}
