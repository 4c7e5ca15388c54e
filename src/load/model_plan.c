#include "src/load/model_plan.h"

#include <stdlib.h>

#include "src/load/model_tokenizer.h"

size_t model_source_row_bytes(const struct model_source *source, const struct image_tensor *tensor)
{
	uint32_t cols = source->cols ? source->cols : tensor->cols;
	if (source->scales)
		return cols;
	/* Columns that are no whole blocks have plain numbers only. */
	return source->cols ? cols * pack_source_row_bytes(source->kind, PACK_GROUP) / PACK_GROUP
			    : pack_source_row_bytes(source->kind, cols);
}

int model_plan_tables(const struct model_plan *plan, struct image_tables *out, struct err *err)
{
	struct image_tables tables = {
		.template_bytes = plan->template_bytes,
		.speech_bytes = plan->family->encoder_layer ? speech_table_bytes(&plan->speech) : 0,
	};
	int rc = tokenizer_table_bytes(&plan->tokenizer, &tables.tokenizer_bytes, err);
	if (rc == 0)
		*out = tables;
	return rc;
}

void model_plan_fini(struct model_plan *plan)
{
	for (uint32_t i = 0; plan->sources && i < plan->n_tensors; i++)
		free(plan->sources[i].scales);
	free(plan->tensors);
	free(plan->sources);
	free(plan->pool);
	/* The lists are const to those who read them. */
	free((void *)(uintptr_t)plan->speech.languages);
	free((void *)(uintptr_t)plan->speech.suppressed);
	free((void *)(uintptr_t)plan->speech.suppressed_begin);
	free((void *)(uintptr_t)plan->speech.heads);
	if (plan->tokenizer_json.document) {
		model_tokenizer_fini(&plan->tokenizer);
		tokenizer_json_fini(&plan->tokenizer_json);
	} else {
		/* The tokenizer's view of its lists is const; the plan owns them. */
		free((void *)(uintptr_t)plan->tokenizer.tokens);
		free((void *)(uintptr_t)plan->tokenizer.types);
		free((void *)(uintptr_t)plan->tokenizer.scores);
		free((void *)(uintptr_t)plan->tokenizer.merges);
	}
	*plan = (struct model_plan){0};
}
