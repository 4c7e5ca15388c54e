/* Any bytes as a model file, up to where the weights would be read: header, plan, tokenizer's table, image. What the
 * loader makes of a file is what every worker will be given, so a table that it built has to pass the worker's own
 * check. */
#include <stdlib.h>
#include <string.h>

#include "src/load/model_gguf.h"
#include "tests/fuzz/fuzz.h"

enum { TABLE_MAX_BYTES = 64 << 20 };

static void build_table(const struct tokenizer_source *source)
{
	struct err err;
	uint64_t bytes;
	struct tokenizer *tokenizer;
	if (tokenizer_table_bytes(source, &bytes, &err) != 0 || bytes > TABLE_MAX_BYTES)
		return;
	void *table = aligned_alloc(64, (bytes + 63) / 64 * 64);
	if (!table)
		abort();
	memset(table, 0, bytes);
	if (tokenizer_table_build(source, table, bytes, &err) == 0) {
		if (tokenizer_attach(table, bytes, &tokenizer, &err) != 0)
			abort();
		tokenizer_detach(tokenizer);
	}
	free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	struct gguf gguf;
	struct model_plan plan;
	struct image_header header;
	struct err err;
	uint64_t need;
	/* The weights are left out of the corpus: a file that is long enough is claimed. */
	if (gguf_parse(bytes, n_bytes, n_bytes + (1 << 20), &gguf, &need, &err) != 0)
		return 0;
	if (model_gguf_plan(&gguf, &plan, &err) == 0) {
		build_table(&plan.tokenizer);
		struct image_tables tables = {.tokenizer_bytes = 100, .template_bytes = plan.template_bytes};
		if (image_plan(&plan.config, plan.tensors, plan.n_tensors, &tables, &header, &err) != 0)
			abort();
		model_plan_fini(&plan);
	}
	gguf_fini(&gguf);
	return 0;
}
