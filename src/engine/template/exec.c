/* Statements. */
#include "src/engine/template/builtin.h"
#include "src/engine/template/iter.h"
#include "src/engine/template/loop.h"
#include "src/engine/template/render.h"

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
			const struct builtin *global = value.kind == VALUE_MISSING ? builtin_global(load->name) : NULL;
			if (global)
				value = (struct value){.kind = VALUE_FUNCTION, .function = global};
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

/* The text that `body` writes, through `filter` if there is one. A jump out of the body drops the text. */
static int exec_captured(struct render *r, const struct stmt *body, const struct expr *filter, struct value *value)
{
	size_t mark = r->n_output;
	const struct text *text = NULL;
	int rc = render_statements(r, body);
	if (rc > 0)
		r->n_output = mark;
	rc = rc ? rc : render_capture(r, mark, &text);
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

static int exec_set_block(struct render *r, const struct stmt *stmt)
{
	struct value value;
	int rc = render_scope_enter(r, &stmt->set.scope);
	rc = rc ? rc : exec_captured(r, stmt->set.body, stmt->set.value, &value);
	return rc ? rc : render_assign(r, stmt->set.target, value);
}

static int exec_filter_block(struct render *r, const struct stmt *stmt)
{
	struct value value;
	int rc = render_scope_enter(r, &stmt->filter_block.scope);
	rc = rc ? rc : exec_captured(r, stmt->filter_block.body, stmt->filter_block.filter, &value);
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

static int exec_for(struct render *r, const struct stmt *stmt)
{
	struct value iterable;
	struct loop *loop;
	int rc = render_expr(r, stmt->loop.iterable, &iterable);
	if (!rc && stmt->loop.test)
		rc = test_items(r, stmt, &iterable);
	r->line = stmt->line;
	rc = rc ? rc : loop_start(r, iterable, &loop);
	if (rc)
		return rc;
	/* As in Jinja, the else part runs unless some item's body ran to its end: `continue` and `break` do not count.
	 */
	bool completed = false;
	int more;
	while ((more = loop_next(r, loop)) > 0) {
		r->activation->slots[stmt->loop.loop_slot] = (struct value){.kind = VALUE_LOOP, .loop = loop};
		rc = render_assign(r, stmt->loop.target, loop->current);
		rc = rc ? rc : render_scope_enter(r, &stmt->loop.body_scope);
		rc = rc ? rc : render_statements(r, stmt->loop.body);
		if (rc < 0)
			return rc;
		completed |= rc == FLOW_NEXT;
		if (rc == FLOW_BREAK)
			break;
	}
	if (more < 0)
		return more;
	if (completed || !stmt->loop.otherwise)
		return 0;
	rc = render_scope_enter(r, &stmt->loop.otherwise_scope);
	return rc ? rc : render_statements(r, stmt->loop.otherwise);
}

/* --- the other statements --------------------------------------------------------------------- */

static int exec_print(struct render *r, const struct stmt *stmt)
{
	int rc = 0;
	for (const struct expr *expr = stmt->print; expr && !rc; expr = expr->next) {
		struct value value;
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
			return render_statements(r, branch->body);
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
	struct value value;
	int rc = make_macro(r, stmt, &caller);
	rc = rc ? rc : render_call_expr(r, stmt->macro.call, caller, &value);
	return rc ? rc : render_value(r, value);
}

/* A generation block marks what a model wrote; for rendering it is a macro that is called at once. */
static int exec_generation(struct render *r, const struct stmt *stmt)
{
	const struct macro *macro = NULL;
	struct value value;
	int rc = make_macro(r, stmt, &macro);
	rc = rc ? rc
		: render_call(r, (struct value){.kind = VALUE_MACRO, .macro = macro}, &(struct call_values){0}, &value);
	return rc ? rc : render_value(r, value);
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
	return rc ? rc : render_statements(r, stmt->with.body);
}

static int exec(struct render *r, const struct stmt *stmt)
{
	switch ((enum stmt_kind)stmt->kind) {
	case STMT_TEXT:
		return render_write(r, stmt->text->bytes, stmt->text->n_bytes);
	case STMT_PRINT:
		return exec_print(r, stmt);
	case STMT_FOR:
		return exec_for(r, stmt);
	case STMT_IF:
		return exec_if(r, stmt);
	case STMT_SET:
		return exec_set(r, stmt);
	case STMT_SET_BLOCK:
		return exec_set_block(r, stmt);
	case STMT_MACRO:
		return exec_macro(r, stmt);
	case STMT_CALL_BLOCK:
		return exec_call_block(r, stmt);
	case STMT_FILTER_BLOCK:
		return exec_filter_block(r, stmt);
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

int render_statements(struct render *r, const struct stmt *first)
{
	int rc = render_enter(r);
	if (rc)
		return rc;
	for (const struct stmt *stmt = first; stmt && !rc; stmt = stmt->next) {
		r->line = stmt->line;
		rc = render_charge(r, 1);
		rc = rc ? rc : exec(r, stmt);
	}
	r->depth--;
	return rc;
}
