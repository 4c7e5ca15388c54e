#include "src/load/model_plan.h"

#include <stdlib.h>

#include "src/load/model_tokenizer.h"

void model_plan_fini(struct model_plan *plan)
{
	free(plan->tensors);
	free(plan->sources);
	free(plan->pool);
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
