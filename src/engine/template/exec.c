/* Statements.
 *
 * Lists of statements under way are frames on a stack of their own, not calls of C functions, so that rendering can
 * stop between any two statements and go on later. A macro whose call is all that is printed is such a list, too; one
 * that is called within a larger expression runs to its end, and so does every expression (RENDER_STATEMENT_STEPS). */
#include <string.h>

#include "src/engine/template/builtin.h"
#include "src/engine/template/iter.h"
#include "src/engine/template/loop.h"
#include "src/engine/template/render.h"

/* The global function of that name, if there is one; undefined if it needs what the caller has not given. */
static int load_global(struct render *r, const struct text *name, struct value *value)
{
	const struct builtin *global = builtin_global(name);
	struct value needed = {.kind = VALUE_NONE};
	if (!global)
		return 0;
	if (global->needs) {
		const struct text key = {global->needs, strlen(global->needs), strlen(global->needs), false};
		int rc = dict_get(r, r->context, value_text(&key), &needed);
		if (rc)
			return rc;
	}
	if (needed.kind == VALUE_MISSING)
		return value_undefined_hint(r, global->without, value);
	*value = (struct value){.kind = VALUE_FUNCTION, .function = global};
	return 0;
}

int render_scope_enter(struct render *r, const struct scope_plan *plan)
{
	for (uint32_t i = 0; i < plan->n_loads; i++) {
		const struct scope_load *load = &plan->loads[i];
		struct value value = {.kind = VALUE_MISSING};
		if (load->from == LOAD_OUTER) {
			value = *render_slot(r, load->outer);
		} else if (load->from == LOAD_CONTEXT) {
			int rc = dict_get(r, r->context, value_text(load->name), &value);
			if (rc)
				return rc;
			if (value.kind == VALUE_MISSING)
				rc = load_global(r, load->name, &value);
			if (rc)
				return rc;
		}
		r->activation->slots[load->slot] = value;
	}
	return 0;
}

/* --- assignment ------------------------------------------------------------------------------- */

static int assign_tuple(struct render *r, const struct expr *target, struct value value)
{
	struct iter *iter;
	struct value item;
	int rc = iter_start(r, value, &iter);
	for (const struct expr *part = target->list.first; part && !rc; part = part->next) {
		int more = iter_next(r, iter, &item);
		if (more < 0)
			return more;
		if (!more)
			return render_fail(r, "not enough values to unpack, expected %u", target->list.n);
		rc = render_assign(r, part, item);
	}
	if (rc)
		return rc;
	int more = iter_next(r, iter, &item);
	return more > 0 ? render_fail(r, "too many values to unpack, expected %u", target->list.n) : more;
}

int render_assign(struct render *r, const struct expr *target, struct value value)
{
	if (target->kind == EXPR_TUPLE)
		return assign_tuple(r, target, value);
	struct value *slot = render_slot(r, target->variable.slot);
	if (target->kind == EXPR_NAME) {
		*slot = value;
		return 0;
	}
	if (slot->kind != VALUE_NAMESPACE)
		return render_fail(r, "an attribute can be set on a namespace only");
	return dict_set(r, slot->dict, value_text(target->variable.attribute), value);
}

/* Namespace attributes on the left are checked before the right side is evaluated. */
static int check_namespaces(struct render *r, const struct expr *target)
{
	int rc = 0;
	if (target->kind == EXPR_ATTR_TARGET && render_slot(r, target->variable.slot)->kind != VALUE_NAMESPACE)
		return render_fail(r, "an attribute can be set on a namespace only");
	if (target->kind == EXPR_TUPLE)
		for (const struct expr *part = target->list.first; part && !rc; part = part->next)
			rc = check_namespaces(r, part);
	return rc;
}

static int exec_set(struct render *r, const struct stmt *stmt)
{
	struct value value;
	int rc = check_namespaces(r, stmt->set.target);
	rc = rc ? rc : render_expr(r, stmt->set.value, &value);
	return rc ? rc : render_assign(r, stmt->set.target, value);
}

/* --- lists of statements under way -------------------------------------------------------------- */

static int push(struct render *r, const struct stmt *owner, const struct stmt *first, struct frame **frame)
{
	int rc = render_enter(r);
	if (rc)
		return rc;
	*frame = &r->frames[r->n_frames++];
	**frame = (struct frame){.owner = owner, .next = first, .mark = r->n_output};
	return 0;
}

static void pop(struct render *r)
{
	r->n_frames--;
	r->depth--;
}

/* A body whose end needs nothing. */
static int begin_body(struct render *r, const struct stmt *owner, const struct stmt *first)
{
	struct frame *frame;
	return push(r, owner, first, &frame);
}

/* --- text that is captured ---------------------------------------------------------------------- */

/* The text that a body wrote, through `filter` if there is one. */
static int captured(struct render *r, size_t mark, const struct expr *filter, struct value *value)
{
	const struct text *text = NULL;
	int rc = render_capture(r, mark, &text);
	if (rc)
		return rc;
	*value = value_text(text);
	if (!filter)
		return 0;
	const struct text *before = r->block_text;
	r->block_text = text;
	rc = render_expr(r, filter, value);
	r->block_text = before;
	return rc;
}

static int begin_set_block(struct render *r, const struct stmt *stmt)
{
	int rc = render_scope_enter(r, &stmt->set.scope);
	return rc ? rc : begin_body(r, stmt, stmt->set.body);
}

static int end_set_block(struct render *r, const struct stmt *stmt, size_t mark)
{
	struct value value;
	int rc = captured(r, mark, stmt->set.value, &value);
	return rc ? rc : render_assign(r, stmt->set.target, value);
}

static int begin_filter_block(struct render *r, const struct stmt *stmt)
{
	int rc = render_scope_enter(r, &stmt->filter_block.scope);
	return rc ? rc : begin_body(r, stmt, stmt->filter_block.body);
}

static int end_filter_block(struct render *r, const struct stmt *stmt, size_t mark)
{
	struct value value;
	int rc = captured(r, mark, stmt->filter_block.filter, &value);
	return rc ? rc : render_value(r, value);
}

/* --- loops ------------------------------------------------------------------------------------ */

/* The items of a loop with a test, taken one by one like a generator. */
struct tested {
	struct iter iter;
	struct iter *items;
	const struct stmt *stmt;
	struct activation *activation;
	bool entered;
};

static int next_tested(struct render *r, struct iter *iter, struct value *item)
{
	struct tested *tested = (struct tested *)iter; /* its first member */
	const struct stmt *stmt = tested->stmt;
	struct activation *before = r->activation;
	r->activation = tested->activation;
	int more = 0;
	if (!tested->entered)
		more = render_scope_enter(r, &stmt->loop.test_scope);
	tested->entered = true;
	while (more >= 0) {
		struct value value, test;
		more = iter_next(r, tested->items, &value);
		if (more <= 0)
			break;
		int rc = render_assign(r, stmt->loop.test_target, value);
		rc = rc ? rc : render_expr(r, stmt->loop.test, &test);
		if (!rc && !value_truth(test))
			continue;
		/* What the loop gets is the target again: unpacked items become tuples. */
		rc = rc ? rc : render_expr(r, stmt->loop.test_target, item);
		more = rc ? rc : 1;
		break;
	}
	r->activation = before;
	return more;
}

static int test_items(struct render *r, const struct stmt *stmt, struct value *iterable)
{
	struct tested *tested = heap_cells(&r->heap, 1, sizeof *tested);
	if (!tested)
		return render_oom(r);
	tested->iter = (struct iter){.next = next_tested};
	tested->stmt = stmt;
	tested->activation = r->activation;
	int rc = iter_start(r, *iterable, &tested->items);
	*iterable = (struct value){.kind = VALUE_ITER, .iter = &tested->iter};
	return rc;
}

/* Goes on with the next item of the newest frame's loop, or ends it. As in Jinja, the else part runs unless some item's
 * body ran to its end: `continue` and `break` do not count. */
static int next_item(struct render *r, struct frame *frame)
{
	const struct stmt *stmt = frame->owner;
	r->line = stmt->line;
	int rc = frame->broken ? 0 : loop_next(r, frame->loop);
	if (rc < 0)
		return rc;
	if (rc == 0) {
		bool otherwise = !frame->completed && stmt->loop.otherwise;
		pop(r);
		rc = otherwise ? render_scope_enter(r, &stmt->loop.otherwise_scope) : 0;
		return rc || !otherwise ? rc : begin_body(r, NULL, stmt->loop.otherwise);
	}
	r->activation->slots[stmt->loop.loop_slot] = (struct value){.kind = VALUE_LOOP, .loop = frame->loop};
	rc = render_assign(r, stmt->loop.target, frame->loop->current);
	frame->next = stmt->loop.body;
	return rc ? rc : render_scope_enter(r, &stmt->loop.body_scope);
}

static int begin_for(struct render *r, const struct stmt *stmt)
{
	struct value iterable;
	struct loop *loop;
	struct frame *frame;
	int rc = render_expr(r, stmt->loop.iterable, &iterable);
	if (!rc && stmt->loop.test)
		rc = test_items(r, stmt, &iterable);
	r->line = stmt->line;
	rc = rc ? rc : loop_start(r, iterable, &loop);
	rc = rc ? rc : push(r, stmt, NULL, &frame);
	if (rc)
		return rc;
	frame->loop = loop;
	return next_item(r, frame);
}

/* --- the other statements --------------------------------------------------------------------- */

/* What a call prints. A macro's body becomes a list under way like any other. */
static int print_call(struct render *r, const struct stmt *owner, const struct expr *call, const struct macro *caller,
		      const struct expr *rest)
{
	struct value value;
	struct frame *frame;
	struct activation *before = r->activation;
	const struct function *entered = NULL;
	r->line = call->line;
	int rc = render_charge(r, 1);
	rc = rc ? rc : render_call_enter(r, call, caller, &value, &entered);
	if (rc || !entered)
		return rc ? rc : render_value(r, value);
	rc = push(r, owner, entered->body, &frame);
	if (rc)
		return rc;
	frame->activation = before;
	frame->rest = rest;
	return 0;
}

static int print_from(struct render *r, const struct stmt *stmt, const struct expr *expr)
{
	size_t n_frames = r->n_frames;
	int rc = 0;
	for (; expr && !rc && r->n_frames == n_frames; expr = expr->next) {
		struct value value;
		if (expr->kind == EXPR_CALL) {
			rc = print_call(r, stmt, expr, NULL, expr->next);
			continue;
		}
		rc = render_expr(r, expr, &value);
		rc = rc ? rc : render_value(r, value);
	}
	return rc;
}

static int exec_if(struct render *r, const struct stmt *stmt)
{
	for (const struct branch *branch = stmt->branches; branch; branch = branch->next) {
		struct value test = value_bool(true);
		int rc = branch->test ? render_expr(r, branch->test, &test) : 0;
		if (rc)
			return rc;
		if (value_truth(test))
			return begin_body(r, NULL, branch->body);
	}
	return 0;
}

static int make_macro(struct render *r, const struct stmt *stmt, const struct macro **macro)
{
	struct macro *made = heap_cells(&r->heap, 1, sizeof *made);
	if (!made)
		return render_oom(r);
	*made = (struct macro){stmt->macro.function, r->activation};
	*macro = made;
	return 0;
}

static int exec_macro(struct render *r, const struct stmt *stmt)
{
	const struct macro *macro = NULL;
	int rc = make_macro(r, stmt, &macro);
	if (!rc)
		*render_slot(r, stmt->macro.slot) = (struct value){.kind = VALUE_MACRO, .macro = macro};
	return rc;
}

static int exec_call_block(struct render *r, const struct stmt *stmt)
{
	const struct macro *caller = NULL;
	int rc = make_macro(r, stmt, &caller);
	return rc ? rc : print_call(r, stmt, stmt->macro.call, caller, NULL);
}

/* A generation block marks what a model wrote; for rendering it is a macro that is called at once. */
static int exec_generation(struct render *r, const struct stmt *stmt)
{
	const struct macro *macro = NULL;
	struct frame *frame;
	struct activation *before = r->activation;
	int rc = make_macro(r, stmt, &macro);
	rc = rc ? rc : render_macro_enter(r, macro, &(struct call_values){0});
	rc = rc ? rc : push(r, stmt, macro->function->body, &frame);
	if (!rc)
		frame->activation = before;
	return rc;
}

static int exec_with(struct render *r, const struct stmt *stmt)
{
	const struct expr *target = stmt->with.targets;
	int rc = render_scope_enter(r, &stmt->with.scope);
	for (const struct expr *expr = stmt->with.values; expr && !rc; expr = expr->next, target = target->next) {
		struct value value;
		rc = render_expr(r, expr, &value);
		rc = rc ? rc : render_assign(r, target, value);
	}
	return rc ? rc : begin_body(r, NULL, stmt->with.body);
}

/* --- running ---------------------------------------------------------------------------------- */

static int exec(struct render *r, const struct stmt *stmt)
{
	switch ((enum stmt_kind)stmt->kind) {
	case STMT_TEXT:
		return render_write(r, stmt->text->bytes, stmt->text->n_bytes);
	case STMT_PRINT:
		return print_from(r, stmt, stmt->print);
	case STMT_FOR:
		return begin_for(r, stmt);
	case STMT_IF:
		return exec_if(r, stmt);
	case STMT_SET:
		return exec_set(r, stmt);
	case STMT_SET_BLOCK:
		return begin_set_block(r, stmt);
	case STMT_MACRO:
		return exec_macro(r, stmt);
	case STMT_CALL_BLOCK:
		return exec_call_block(r, stmt);
	case STMT_FILTER_BLOCK:
		return begin_filter_block(r, stmt);
	case STMT_WITH:
		return exec_with(r, stmt);
	case STMT_GENERATION:
		return exec_generation(r, stmt);
	case STMT_BREAK:
		return FLOW_BREAK;
	case STMT_CONTINUE:
		return FLOW_CONTINUE;
	}
	return 0;
}

/* The newest list has come to its end, or a jump leaves it. Returns the jump if it goes on. */
static int leave(struct render *r, enum flow flow)
{
	struct frame *newest = &r->frames[r->n_frames - 1], frame = *newest;
	enum stmt_kind kind = frame.owner ? (enum stmt_kind)frame.owner->kind : STMT_IF;
	if (kind == STMT_FOR) {
		newest->completed |= flow == FLOW_NEXT;
		newest->broken = flow == FLOW_BREAK;
		return next_item(r, newest);
	}
	pop(r);
	if (kind == STMT_PRINT || kind == STMT_CALL_BLOCK || kind == STMT_GENERATION) {
		r->activation = frame.activation;
		return kind == STMT_PRINT ? print_from(r, frame.owner, frame.rest) : 0;
	}
	if (flow == FLOW_NEXT && kind == STMT_SET_BLOCK)
		return end_set_block(r, frame.owner, frame.mark);
	if (flow == FLOW_NEXT && kind == STMT_FILTER_BLOCK)
		return end_filter_block(r, frame.owner, frame.mark);
	if (kind == STMT_SET_BLOCK || kind == STMT_FILTER_BLOCK)
		r->n_output = frame.mark; /* a jump drops the text */
	return flow;
}

/* One statement of the newest list, and whatever lists end with it. */
static int run_one(struct render *r)
{
	struct frame *frame = &r->frames[r->n_frames - 1];
	const struct stmt *stmt = frame->next;
	if (!stmt)
		return leave(r, FLOW_NEXT);
	frame->next = stmt->next;
	r->line = stmt->line;
	int rc = render_charge(r, 1);
	rc = rc ? rc : exec(r, stmt);
	while (rc > 0) /* a jump, which has a loop to go to */
		rc = leave(r, (enum flow)rc);
	return rc;
}

int render_statements(struct render *r, const struct stmt *first)
{
	size_t below = r->n_frames;
	int rc = begin_body(r, NULL, first);
	while (!rc && r->n_frames > below)
		rc = run_one(r);
	return rc;
}

int render_begin(struct render *r, const struct stmt *first)
{
	r->frames = heap_cells(&r->heap, r->limits.depth, sizeof *r->frames);
	return r->frames ? begin_body(r, NULL, first) : render_oom(r);
}

int render_advance(struct render *r, uint64_t work)
{
	uint64_t until = work > UINT64_MAX - r->steps ? UINT64_MAX : r->steps + work;
	int rc = 0;
	while (!rc && r->n_frames && r->steps < until) {
		r->steps_end = r->steps + RENDER_STATEMENT_STEPS;
		rc = run_one(r);
	}
	return rc ? rc : r->n_frames > 0;
}
