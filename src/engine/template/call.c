/* Calls: evaluating arguments, and calling functions, methods, macros, filters and tests. */
#include <string.h>

#include "src/engine/template/builtin.h"
#include "src/engine/template/iter.h"
#include "src/engine/template/render.h"

enum { FEW_POSITIONAL = 6, FEW_NAMED = 4 };

/* The arguments of one call; few of them need no heap. */
struct call_frame {
	struct value positional[FEW_POSITIONAL];
	struct named_value named[FEW_NAMED];
	struct call_values values;
};

/* --- arguments -------------------------------------------------------------------------------- */

static int spread_positional(struct render *r, const struct expr *expr, struct call_frame *frame)
{
	struct value spread;
	const struct list *items;
	int rc = render_expr(r, expr, &spread);
	rc = rc ? rc : iter_list(r, spread, &items);
	if (rc)
		return rc;
	size_t n = frame->values.n_positional;
	struct value *all = heap_cells(&r->heap, n + items->n, sizeof *all);
	if (!all)
		return render_oom(r);
	if (n)
		memcpy(all, frame->values.positional, n * sizeof *all);
	if (items->n)
		memcpy(all + n, items->items, items->n * sizeof *all);
	frame->values.positional = all;
	frame->values.n_positional = n + items->n;
	return 0;
}

static int spread_named(struct render *r, const struct expr *expr, struct call_frame *frame)
{
	struct value spread;
	int rc = render_expr(r, expr, &spread);
	if (rc)
		return rc;
	if (spread.kind != VALUE_DICT)
		return render_fail(r, "the argument after ** must be a mapping, not '%s'", value_type_name(spread));
	size_t n = frame->values.n_named;
	struct named_value *all = heap_cells(&r->heap, n + spread.dict->n, sizeof *all);
	if (!all)
		return render_oom(r);
	if (n)
		memcpy(all, frame->values.named, n * sizeof *all);
	for (size_t i = 0; i < spread.dict->n; i++) {
		const struct dict_entry *entry = &spread.dict->entries[i];
		if (entry->key.kind != VALUE_TEXT)
			return render_fail(r, "the keys of a ** argument must be strings");
		for (size_t k = 0; k < frame->values.n_named; k++)
			if (text_equal(all[k].name, entry->key.text))
				return render_fail(r, "the argument '%.*s' is given twice",
						   (int)entry->key.text->n_bytes, entry->key.text->bytes);
		all[n++] = (struct named_value){entry->key.text, entry->value};
	}
	frame->values.named = all;
	frame->values.n_named = n;
	return 0;
}

static int eval_arguments(struct render *r, const struct arguments *arguments, const struct macro *caller,
			  struct call_frame *frame)
{
	static const struct text caller_name = {"caller", 6, 6, false};
	struct value *positional = frame->positional;
	struct named_value *named = frame->named;
	size_t n_named = arguments->n_named + (caller != NULL);
	if (arguments->n_positional > FEW_POSITIONAL)
		positional = heap_cells(&r->heap, arguments->n_positional, sizeof *positional);
	if (n_named > FEW_NAMED)
		named = heap_cells(&r->heap, n_named, sizeof *named);
	if (!positional || !named)
		return render_oom(r);
	frame->values = (struct call_values){positional, 0, named, 0};
	int rc = 0;
	for (const struct expr *item = arguments->positional; item && !rc; item = item->next)
		rc = render_expr(r, item, &positional[frame->values.n_positional++]);
	for (const struct keyword *k = arguments->named; k && !rc; k = k->next) {
		named[frame->values.n_named].name = k->name;
		rc = render_expr(r, k->value, &named[frame->values.n_named++].value);
	}
	if (caller)
		named[frame->values.n_named++] =
			(struct named_value){&caller_name, {.kind = VALUE_MACRO, .macro = caller}};
	if (!rc && arguments->spread)
		rc = spread_positional(r, arguments->spread, frame);
	if (!rc && arguments->named_spread)
		rc = spread_named(r, arguments->named_spread, frame);
	return rc;
}

/* --- builtins --------------------------------------------------------------------------------- */

static size_t n_parameters(const struct builtin *builtin)
{
	size_t n = 0;
	while (n < BUILTIN_MAX_PARAMETERS && builtin->parameters[n])
		n++;
	return n;
}

static int bind(struct render *r, const struct builtin *builtin, const struct call_values *given, struct value *bound)
{
	size_t n = n_parameters(builtin);
	if (given->n_positional > n)
		return render_fail(r, "%s() takes at most %zu arguments, %zu were given", builtin->name, n,
				   given->n_positional);
	for (size_t i = 0; i < given->n_positional; i++)
		bound[i] = given->positional[i];
	for (size_t k = 0; k < given->n_named; k++) {
		const struct text *name = given->named[k].name;
		size_t i = 0;
		while (i < n && !(*builtin->parameters[i] && text_is(name, builtin->parameters[i])))
			i++;
		if (i == n || bound[i].kind != VALUE_MISSING)
			return render_fail(r, "%s() does not take the argument '%.*s' here", builtin->name,
					   (int)name->n_bytes, name->bytes);
		bound[i] = given->named[k].value;
	}
	for (size_t i = 0; i < builtin->n_required; i++)
		if (bound[i].kind == VALUE_MISSING)
			return render_fail(r, "%s() lacks its argument %zu", builtin->name, i + 1);
	return 0;
}

int builtin_call(struct render *r, const struct builtin *builtin, struct value self, const struct call_values *given,
		 struct value *result)
{
	struct invocation call = {.builtin = builtin, .self = self, .given = given};
	if (!builtin->run)
		return render_unsupported(r, "'%s'", builtin->name);
	int rc = builtin->variadic ? 0 : bind(r, builtin, given, call.arguments);
	return rc ? rc : builtin->run(r, &call, result);
}

const struct builtin *builtin_in(struct builtin_table table, const struct text *name)
{
	for (size_t i = 0; i < table.n; i++)
		if (text_is(name, table.builtins[i].name))
			return &table.builtins[i];
	return NULL;
}

const struct builtin *builtin_filter(const struct text *name)
{
	const struct builtin *builtin = builtin_in(filters_text, name);
	builtin = builtin ? builtin : builtin_in(filters_sequence, name);
	builtin = builtin ? builtin : builtin_in(filters_lazy, name);
	return builtin ? builtin : builtin_in(filters_number, name);
}

const struct builtin *builtin_test(const struct text *name)
{
	return builtin_in(tests, name);
}

const struct builtin *builtin_global(const struct text *name)
{
	return builtin_in(globals, name);
}

static int unknown(struct render *r, const char *what, const struct text *name)
{
	return render_fail(r, "there is no %s named '%.*s'", what, (int)name->n_bytes, name->bytes);
}

int render_filter(struct render *r, const struct text *name, struct value input, const struct call_values *arguments,
		  struct value *result)
{
	const struct builtin *builtin = builtin_filter(name);
	return builtin ? builtin_call(r, builtin, input, arguments, result) : unknown(r, "filter", name);
}

int render_test(struct render *r, const struct text *name, struct value input, const struct call_values *arguments,
		bool *result)
{
	const struct builtin *builtin = builtin_test(name);
	struct value value;
	int rc = builtin ? builtin_call(r, builtin, input, arguments, &value) : unknown(r, "test", name);
	if (!rc)
		*result = value_truth(value);
	return rc;
}

/* --- macros ----------------------------------------------------------------------------------- */

/* What is given for one parameter: by position, by name, or VALUE_MISSING. `taken` marks the named ones. */
static struct value given_for(const struct call_values *given, size_t index, const struct text *name, size_t *n_taken)
{
	if (index < given->n_positional)
		return given->positional[index];
	for (size_t k = 0; k < given->n_named; k++) {
		if (text_equal(given->named[k].name, name)) {
			++*n_taken;
			return given->named[k].value;
		}
	}
	return (struct value){.kind = VALUE_MISSING};
}

static bool is_parameter(const struct function *function, const struct text *name, size_t first)
{
	size_t i = 0;
	for (const struct expr *p = function->parameters; p; p = p->next, i++)
		if (i >= first && text_equal(p->variable.name, name))
			return true;
	return false;
}

static int bind_caller(struct render *r, const struct function *function, const struct call_values *given,
		       size_t *n_taken)
{
	static const struct text caller_name = {"caller", 6, 6, false};
	struct value *slot = &r->activation->slots[function->caller_slot];
	*slot = given_for(given, SIZE_MAX, &caller_name, n_taken);
	if (slot->kind == VALUE_MISSING || slot->kind == VALUE_NONE)
		return value_undefined_hint(r, "no caller defined", slot);
	return 0;
}

static int bind_kwargs(struct render *r, const struct function *function, const struct call_values *given)
{
	struct dict *kwargs = dict_new(r);
	if (!kwargs)
		return render_oom(r);
	bool own_caller = function->uses_caller && !function->has_caller_parameter;
	int rc = 0;
	for (size_t k = 0; k < given->n_named && !rc; k++) {
		const struct text *name = given->named[k].name;
		if (is_parameter(function, name, given->n_positional) || (own_caller && text_is(name, "caller")))
			continue;
		rc = dict_set(r, kwargs, value_text(name), given->named[k].value);
	}
	r->activation->slots[function->kwargs_slot] = value_dict(kwargs);
	return rc;
}

static int bind_varargs(struct render *r, const struct function *function, const struct call_values *given)
{
	struct list *varargs = list_new(r, 0);
	if (!varargs)
		return render_oom(r);
	int rc = 0;
	for (size_t i = function->n_parameters; i < given->n_positional && !rc; i++)
		rc = list_append(r, varargs, given->positional[i]);
	r->activation->slots[function->varargs_slot] = value_tuple(varargs);
	return rc;
}

static int bind_parameters(struct render *r, const struct function *function, const struct call_values *given)
{
	size_t n_taken = 0, index = 0;
	for (const struct expr *p = function->parameters; p; p = p->next, index++)
		r->activation->slots[p->variable.slot.index] = given_for(given, index, p->variable.name, &n_taken);
	int rc = 0;
	if (function->uses_caller && !function->has_caller_parameter)
		rc = bind_caller(r, function, given, &n_taken);
	if (!rc && function->uses_kwargs)
		rc = bind_kwargs(r, function, given);
	else if (!rc && n_taken < given->n_named)
		return render_fail(r, "the macro does not take all of these named arguments");
	if (!rc && function->uses_varargs)
		rc = bind_varargs(r, function, given);
	else if (!rc && given->n_positional > function->n_parameters)
		return render_fail(r, "the macro takes not more than %u arguments", function->n_parameters);
	return rc;
}

/* Defaults are evaluated in the macro, in order, and see the parameters before them. */
static int fill_defaults(struct render *r, const struct function *function)
{
	const struct expr *value = function->defaults;
	uint32_t without = function->n_parameters - function->n_defaults, index = 0;
	int rc = 0;
	for (const struct expr *p = function->parameters; p && !rc; p = p->next, index++) {
		struct value *slot = &r->activation->slots[p->variable.slot.index];
		if (slot->kind == VALUE_MISSING)
			rc = index < without ? value_undefined_hint(r, "a macro's parameter was not provided", slot)
					     : render_expr(r, value, slot);
		if (index >= without)
			value = value->next;
	}
	return rc;
}

int render_macro_enter(struct render *r, const struct macro *macro, const struct call_values *given)
{
	const struct function *function = macro->function;
	struct activation *activation = heap_cells(&r->heap, 1, sizeof *activation);
	if (!activation)
		return render_oom(r);
	activation->outer = macro->outer;
	activation->slots = heap_cells(&r->heap, function->n_slots, sizeof *activation->slots);
	if (!activation->slots)
		return render_oom(r);
	r->activation = activation;
	int rc = render_scope_enter(r, &function->scope);
	rc = rc ? rc : bind_parameters(r, function, given);
	return rc ? rc : fill_defaults(r, function);
}

static int call_macro(struct render *r, const struct macro *macro, const struct call_values *given,
		      struct value *result)
{
	struct activation *before = r->activation;
	size_t mark = r->n_output;
	int rc = render_macro_enter(r, macro, given);
	rc = rc ? rc : render_statements(r, macro->function->body);
	const struct text *text = NULL;
	rc = rc ? rc : render_capture(r, mark, &text);
	r->activation = before;
	return rc ? rc : render_text_made(r, text, result);
}

/* --- any call --------------------------------------------------------------------------------- */

int render_call(struct render *r, struct value callee, const struct call_values *arguments, struct value *result)
{
	switch (callee.kind) {
	case VALUE_UNDEFINED:
		return render_undefined(r, callee);
	case VALUE_FUNCTION:
		return builtin_call(r, callee.function, (struct value){.kind = VALUE_MISSING}, arguments, result);
	case VALUE_METHOD:
		return builtin_call(r, callee.method->builtin, callee.method->self, arguments, result);
	case VALUE_MACRO:
		return call_macro(r, callee.macro, arguments, result);
	case VALUE_JOINER:
		if (arguments->n_positional || arguments->n_named)
			return render_fail(r, "a joiner takes no arguments");
		return joiner_call(r, callee.joiner, result);
	case VALUE_LOOP:
		return render_fail(r, "the loop is not recursive");
	default:
		return render_fail(r, "'%s' object is not callable", value_type_name(callee));
	}
}

static int eval_call(struct render *r, const struct expr *expr, const struct macro *caller, struct value *target,
		     struct call_frame *frame)
{
	int rc = expr->call.target ? render_expr(r, expr->call.target, target) : 0;
	if (!expr->call.target)
		*target = value_text(r->block_text);
	rc = rc ? rc : eval_arguments(r, &expr->call.arguments, caller, frame);
	r->line = expr->line;
	return rc;
}

int render_call_enter(struct render *r, const struct expr *expr, const struct macro *caller, struct value *result,
		      const struct function **entered)
{
	struct value target;
	struct call_frame frame;
	int rc = eval_call(r, expr, caller, &target, &frame);
	if (rc)
		return rc;
	if (target.kind != VALUE_MACRO)
		return render_call(r, target, &frame.values, result);
	*entered = target.macro->function;
	return render_macro_enter(r, target.macro, &frame.values);
}

int render_call_expr(struct render *r, const struct expr *expr, const struct macro *caller, struct value *result)
{
	struct value target;
	struct call_frame frame;
	int rc = eval_call(r, expr, caller, &target, &frame);
	if (rc)
		return rc;
	if (expr->kind == EXPR_CALL)
		return render_call(r, target, &frame.values, result);
	if (!expr->call.builtin)
		return unknown(r, expr->kind == EXPR_FILTER ? "filter" : "test", expr->call.name);
	return builtin_call(r, expr->call.builtin, target, &frame.values, result);
}
