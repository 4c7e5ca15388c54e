#include "src/model_plan.h"

#include <stdlib.h>

void model_plan_fini(struct model_plan *plan)
{
	free(plan->tensors);
	free(plan->sources);
	/* The tokenizer's view of its lists is const; the plan owns them. */
	free((void *)(uintptr_t)plan->tokenizer.tokens);
	free((void *)(uintptr_t)plan->tokenizer.types);
	free((void *)(uintptr_t)plan->tokenizer.scores);
	free((void *)(uintptr_t)plan->tokenizer.merges);
	*plan = (struct model_plan){0};
}
