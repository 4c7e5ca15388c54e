/* Visiting every expression inside an expression. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_WALK_H
#define WEIGHTD_ENGINE_TEMPLATE_WALK_H

#include "src/engine/template/ast.h"

struct resolver;
struct scope;

struct walk {
	int (*visit)(struct walk *, struct expr *); /* called before the parts of the expression are visited */
	struct resolver *resolver;
	struct scope *scope;
	uint32_t n_conditions; /* inline ifs around the visited expression */
};

/* Stops at the first visit that does not return 0 and returns that. NULL: nothing to do. The depth is bounded by the
 * parser. */
int walk_expr(struct walk *walk, struct expr *expr);
/* The expressions linked by next. */
int walk_list(struct walk *walk, struct expr *first);

#endif
