/* The state of one rendering, and what everything that runs in it uses: errors, limits, output. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_RENDER_H
#define WEIGHTD_ENGINE_TEMPLATE_RENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/engine/template.h"
#include "src/engine/template/ast.h"
#include "src/engine/template/heap.h"
#include "src/engine/template/value.h"
#include "src/err.h"

/* The slots of a running function; a macro keeps the one it was defined in. */
struct activation {
	struct activation *outer;
	struct value *slots; /* [n_slots of the function] */
};

/* A list of statements under way. */
struct frame {
	const struct stmt
		*owner; /* whose end needs something: FOR, SET_BLOCK, FILTER_BLOCK, what prints a macro; or NULL */
	const struct stmt *next;       /* NULL: the end */
	size_t mark;		       /* n_output when it began */
	struct loop *loop;	       /* FOR */
	bool completed, broken;	       /* FOR: some item's body has run to its end; the last one has left the loop */
	struct activation *activation; /* a macro: that of its caller */
	const struct expr *rest;       /* PRINT: what comes after the call */
};

/* Steps that one statement may take, lists within it apart: rendering can't stop within it, so this bounds how long it
 * goes on, to some milliseconds. */
enum { RENDER_STATEMENT_STEPS = 1 << 16 };

struct render {
	struct heap heap;
	struct template_limits limits;
	uint64_t steps;	    /* done so far */
	uint64_t steps_end; /* of the statement that runs */
	uint32_t depth;	    /* of nesting at this moment */
	uint32_t line;	    /* being evaluated */
	char *output;	    /* [n_output] grows with realloc; captured text is cut off its end */
	size_t n_output, output_capacity;
	struct dict *context; /* the caller's variables */
	struct activation *activation;
	struct frame *frames; /* [n_frames <= depth], the newest last */
	size_t n_frames;
	const struct text *block_text; /* what the filters of a filter or set block apply to */
	struct err *err;
};

/* -EINVAL with "line N: …". */
int render_fail(struct render *render, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* -ENOTSUP with "line N: … is not supported". */
int render_unsupported(struct render *render, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* After a failed allocation: -E2BIG if the budget is used up, else -ENOMEM. */
int render_oom(struct render *render);
/* The error of using an undefined value. */
int render_undefined(struct render *render, struct value undefined);
/* An operation between types that do not go together. */
int render_type_error(struct render *render, const char *operation, struct value a, struct value b);

/* Counts `n` steps; -E2BIG when there are too many. Work on text charges one step for 64 bytes. */
int render_charge(struct render *render, uint64_t n);
/* Enters a level of nesting; -E2BIG when it is too deep. A successful call needs a `render->depth--`. */
int render_enter(struct render *render);

int render_write(struct render *render, const char *bytes, size_t n_bytes);
int render_write_string(struct render *render, const char *string);
int render_write_char(struct render *render, uint32_t code_point);
/* Takes what was written since `mark`, an earlier n_output, off the output. */
int render_capture(struct render *render, size_t mark, const struct text **text);

/* A text value from bytes that are copied or borrowed (for as long as the heap). */
int render_text(struct render *render, const char *bytes, size_t n_bytes, struct value *value);
int render_text_view(struct render *render, const char *bytes, size_t n_bytes, struct value *value);
/* The constructors of template_text.h return NULL without memory: turns that into the error. */
int render_text_made(struct render *render, const struct text *text, struct value *value);

/* --- values to text (template_print.c) -------------------------------------------------------- */

/* str(value), written to the output or as a text. */
int render_value(struct render *render, struct value value);
int render_str(struct render *render, struct value value, const struct text **text);
/* repr(value), written to the output */
int render_repr(struct render *render, struct value value);

/* --- operations (template_operator.c) --------------------------------------------------------- */

int render_binary(struct render *render, enum operator_kind op, struct value a, struct value b, struct value *result);
int render_negate(struct render *render, struct value value, struct value *result);
int render_plus(struct render *render, struct value value, struct value *result);
/* text % arguments (template_format.c) */
int render_percent(struct render *render, const struct text *format, struct value arguments, struct value *result);

/* --- attributes and items (template_attr.c) --------------------------------------------------- */

/* object.name and object[key] as a template writes them: undefined where there is nothing. */
int render_attr(struct render *render, struct value object, const struct text *name, struct value *result);
int render_item(struct render *render, struct value object, struct value key, struct value *result);
/* The attribute without falling back to an item. */
int render_attr_only(struct render *render, struct value object, const struct text *name, struct value *result);
int render_slice(struct render *render, struct value object, struct value start, struct value stop, struct value step,
		 struct value *result);

/* --- running (template_eval.c, template_call.c, template_exec.c) ------------------------------ */

struct call_values;

int render_expr(struct render *render, const struct expr *expr, struct value *result);
int render_call(struct render *render, struct value callee, const struct call_values *arguments, struct value *result);
int render_filter(struct render *render, const struct text *name, struct value input,
		  const struct call_values *arguments, struct value *result);
int render_test(struct render *render, const struct text *name, struct value input, const struct call_values *arguments,
		bool *result);
/* Calls as render_call_expr, but only enters a macro: it is the running function then, *entered names it, and its body
 * is the caller's to run. */
int render_call_enter(struct render *render, const struct expr *expr, const struct macro *caller, struct value *result,
		      const struct function **entered);
int render_macro_enter(struct render *render, const struct macro *macro, const struct call_values *given);
int render_call_expr(struct render *render, const struct expr *expr, const struct macro *caller, struct value *result);

enum flow {
	FLOW_NEXT = 0,
	FLOW_BREAK = 1,
	FLOW_CONTINUE = 2,
};

/* Runs a list to its end. */
int render_statements(struct render *render, const struct stmt *first);
/* The same in slices: begins with a list, and goes on for about `work` steps. 1: there is more to do; 0: done. */
int render_begin(struct render *render, const struct stmt *first);
int render_advance(struct render *render, uint64_t work);
int render_scope_enter(struct render *render, const struct scope_plan *plan);
/* Stores into a name, a namespace attribute or a tuple of targets. */
int render_assign(struct render *render, const struct expr *target, struct value value);
struct value *render_slot(struct render *render, struct slot slot);

struct macro {
	const struct function *function;
	struct activation *outer;
};

#endif
