/* Global functions: Jinja's own and the two that transformers adds. */
#include <errno.h>

#include "src/engine/template/builtin.h"
#include "src/engine/template/date.h"
#include "src/engine/template/iter.h"
#include "src/engine/template/render.h"

enum { MAX_RANGE = 100000 }; /* the sandbox's limit */

/* What is called is known by its text alone: no prefix, this is for the client. */
static int global_raise_exception(struct render *r, struct invocation *call, struct value *result)
{
	const struct text *text;
	(void)result;
	int rc = render_str(r, call->arguments[0], &text);
	if (rc)
		return rc;
	enum { ROOM = sizeof r->err->text - 1 };
	size_t n = text->n_bytes;
	if (n > ROOM) /* cut between characters */
		for (n = ROOM; ((unsigned char)text->bytes[n] & 0xc0) == 0x80;)
			n--;
	return err_set(r->err, -EINVAL, "%.*s", (int)n, text->bytes);
}

static int range_bounds(struct render *r, const struct call_values *given, struct range *range)
{
	int64_t values[3];
	size_t n = given->n_positional;
	if (given->n_named || n < 1 || n > 3)
		return render_fail(r, "range() takes one to three integers");
	for (size_t i = 0; i < n; i++)
		if (!value_index(given->positional[i], &values[i]))
			return render_fail(r, "range() takes integers, not '%s'",
					   value_type_name(given->positional[i]));
	*range = (struct range){
		.start = n > 1 ? values[0] : 0, .stop = n > 1 ? values[1] : values[0], .step = n > 2 ? values[2] : 1};
	if (range->step == 0)
		return render_fail(r, "the step of range() cannot be zero");
	return 0;
}

static int global_range(struct render *r, struct invocation *call, struct value *result)
{
	struct range *range = heap_cells(&r->heap, 1, sizeof *range);
	if (!range)
		return render_oom(r);
	int rc = range_bounds(r, call->given, range);
	if (rc)
		return rc;
	bool up = range->step > 0, empty = up ? range->start >= range->stop : range->start <= range->stop;
	if (!empty) {
		uint64_t distance = up ? (uint64_t)range->stop - (uint64_t)range->start
				       : (uint64_t)range->start - (uint64_t)range->stop;
		uint64_t stride = up ? (uint64_t)range->step : 0 - (uint64_t)range->step;
		uint64_t n = (distance - 1) / stride + 1;
		if (n > MAX_RANGE)
			return render_fail(r, "range() of more than %d items", MAX_RANGE);
		range->n = (int64_t)n;
	}
	*result = (struct value){.kind = VALUE_RANGE, .range = range};
	return 0;
}

/* One item of dict([(key, value), …]). */
static int add_pair(struct render *r, struct dict *dict, struct value item)
{
	const struct list *pair;
	int rc = iter_list(r, item, &pair);
	if (!rc && pair->n != 2)
		return render_fail(r, "dict() needs items of two values, not %zu", pair->n);
	return rc ? rc : dict_set(r, dict, pair->items[0], pair->items[1]);
}

static int add_all(struct render *r, struct dict *dict, struct value from)
{
	struct iter *iter;
	struct value item;
	if (from.kind == VALUE_DICT)
		from.kind = VALUE_ITEMS;
	int rc = iter_start(r, from, &iter), more = 0;
	while (!rc && (more = iter_next(r, iter, &item)) > 0)
		rc = add_pair(r, dict, item);
	return rc ? rc : more;
}

/* dict(other or pairs, name=value, …) */
static int make_dict(struct render *r, const struct call_values *given, struct dict **made)
{
	struct dict *dict = dict_new(r);
	if (!dict)
		return render_oom(r);
	if (given->n_positional > 1)
		return render_fail(r, "dict() takes at most one argument without a name");
	int rc = given->n_positional ? add_all(r, dict, given->positional[0]) : 0;
	for (size_t k = 0; k < given->n_named && !rc; k++)
		rc = dict_set(r, dict, value_text(given->named[k].name), given->named[k].value);
	*made = dict;
	return rc;
}

static int global_dict(struct render *r, struct invocation *call, struct value *result)
{
	struct dict *dict = NULL;
	int rc = make_dict(r, call->given, &dict);
	*result = value_dict(dict);
	return rc;
}

static int global_namespace(struct render *r, struct invocation *call, struct value *result)
{
	int rc = global_dict(r, call, result);
	result->kind = VALUE_NAMESPACE;
	return rc;
}

/* --- cycler and joiner ------------------------------------------------------------------------ */

struct cycler {
	const struct list *items;
	size_t position;
};

struct joiner {
	struct value separator;
	bool used;
};

static int global_cycler(struct render *r, struct invocation *call, struct value *result)
{
	struct cycler *cycler = heap_cells(&r->heap, 1, sizeof *cycler);
	struct list *items = list_new(r, call->given->n_positional);
	if (!cycler || !items)
		return render_oom(r);
	if (!call->given->n_positional || call->given->n_named)
		return render_fail(r, "cycler() takes one or more items");
	int rc = 0;
	for (size_t i = 0; i < call->given->n_positional && !rc; i++)
		rc = list_append(r, items, call->given->positional[i]);
	cycler->items = items;
	*result = (struct value){.kind = VALUE_CYCLER, .cycler = cycler};
	return rc;
}

struct value cycler_current(const struct cycler *cycler)
{
	return cycler->items->items[cycler->position];
}

static int cycler_next(struct render *r, struct invocation *call, struct value *result)
{
	struct cycler *cycler = call->self.cycler;
	(void)r;
	*result = cycler_current(cycler);
	cycler->position = (cycler->position + 1) % cycler->items->n;
	return 0;
}

static int cycler_reset(struct render *r, struct invocation *call, struct value *result)
{
	(void)r;
	call->self.cycler->position = 0;
	*result = value_none();
	return 0;
}

static int global_joiner(struct render *r, struct invocation *call, struct value *result)
{
	static const struct text comma = {", ", 2, 2, false};
	struct joiner *joiner = heap_cells(&r->heap, 1, sizeof *joiner);
	if (!joiner)
		return render_oom(r);
	joiner->separator = call->arguments[0].kind == VALUE_MISSING ? value_text(&comma) : call->arguments[0];
	*result = (struct value){.kind = VALUE_JOINER, .joiner = joiner};
	return 0;
}

int joiner_call(struct render *r, struct joiner *joiner, struct value *result)
{
	static const struct text empty = {"", 0, 0, false};
	(void)r;
	*result = joiner->used ? joiner->separator : value_text(&empty);
	joiner->used = true;
	return 0;
}

static const struct builtin cycler_table[] = {
	{.name = "next", .run = cycler_next},
	{.name = "reset", .run = cycler_reset},
};

const struct builtin_table methods_cycler = BUILTIN_TABLE(cycler_table);

static const struct builtin table[] = {
	{.name = "raise_exception", .run = global_raise_exception, .n_required = 1, .parameters = {"message"}},
	{.name = "range", .run = global_range, .variadic = true},
	{.name = "dict", .run = global_dict, .variadic = true},
	{.name = "namespace", .run = global_namespace, .variadic = true},
	{.name = "cycler", .run = global_cycler, .variadic = true},
	{.name = "joiner", .run = global_joiner, .parameters = {"sep"}},
	{.name = "strftime_now",
	 .run = date_strftime_now,
	 .n_required = 1,
	 .parameters = {"format"},
	 .needs = "now",
	 .without = "'strftime_now' is undefined, because the request does not say the date (chat_template_kwargs: "
		    "{\"now\": \"2026-11-30\"})"},
	{.name = "lipsum"},
};

const struct builtin_table globals = BUILTIN_TABLE(table);
