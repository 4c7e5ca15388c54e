/* +, -, *, /, //, %, ** and the signs on all types that have them. */
#include <string.h>

#include "src/engine/template/number.h"
#include "src/engine/template/render.h"

static const char *const spellings[] = {
	[OP_ADD] = "+",	      [OP_SUB] = "-", [OP_MUL] = "*",  [OP_DIV] = "/",
	[OP_FLOORDIV] = "//", [OP_MOD] = "%", [OP_POW] = "**",
};

static bool is_sequence(struct value value)
{
	return value.kind == VALUE_TEXT || value.kind == VALUE_LIST || value.kind == VALUE_TUPLE;
}

static int add_texts(struct render *r, const struct text *a, const struct text *b, struct value *result)
{
	if (a->markup != b->markup) { /* markup escapes the other side */
		a = text_escape(&r->heap, a);
		b = a ? text_escape(&r->heap, b) : NULL;
		if (!b)
			return render_oom(r);
	}
	int rc = render_charge(r, b->n_bytes / 64);
	return rc ? rc : render_text_made(r, text_concat(&r->heap, a, b), result);
}

static int repeat_text(struct render *r, const struct text *text, size_t times, struct value *result)
{
	size_t n_bytes;
	if (__builtin_mul_overflow(text->n_bytes, times, &n_bytes)) {
		r->heap.over_budget = true;
		return render_oom(r);
	}
	char *bytes = heap_bytes(&r->heap, n_bytes);
	if (!bytes)
		return render_oom(r);
	int rc = render_charge(r, n_bytes / 64);
	if (rc)
		return rc;
	size_t done = n_bytes ? text->n_bytes : 0;
	memcpy(bytes, text->bytes, done);
	for (size_t n; done < n_bytes;
	     done += n) { /* as much again as there is, so that single characters are no calls */
		n = done < n_bytes - done ? done : n_bytes - done;
		memcpy(bytes + done, bytes, n);
	}
	rc = render_text_view(r, bytes, n_bytes, result);
	if (!rc && text->markup)
		rc = render_text_made(r, text_marked(&r->heap, result->text, true), result);
	return rc;
}

static int repeat_list(struct render *r, struct value sequence, size_t times, struct value *result)
{
	const struct list *from = sequence.list;
	size_t n;
	if (__builtin_mul_overflow(from->n, times, &n)) {
		r->heap.over_budget = true;
		return render_oom(r);
	}
	int rc = render_charge(r, n);
	if (rc)
		return rc;
	struct list *list = list_new(r, n);
	if (!list)
		return render_oom(r);
	for (size_t i = 0; from->n && i < times; i++)
		memcpy(list->items + i * from->n, from->items, from->n * sizeof *from->items);
	list->n = n;
	*result = (struct value){.kind = sequence.kind, .list = list};
	return 0;
}

static int repeat(struct render *r, struct value sequence, int64_t times, struct value *result)
{
	size_t n = times < 0 ? 0 : (size_t)times;
	if (value_length(sequence) == 0)
		n = 0;
	return sequence.kind == VALUE_TEXT ? repeat_text(r, sequence.text, n, result)
					   : repeat_list(r, sequence, n, result);
}

int render_binary(struct render *r, enum operator_kind op, struct value a, struct value b, struct value *result)
{
	int64_t times;
	if (value_is_number(a) && value_is_number(b))
		return number_arithmetic(r, op, a, b, result);
	if (op == OP_MOD && a.kind == VALUE_TEXT)
		return render_percent(r, a.text, b, result);
	if (op == OP_ADD && a.kind == VALUE_TEXT && b.kind == VALUE_TEXT)
		return add_texts(r, a.text, b.text, result);
	if (op == OP_ADD && a.kind == b.kind && (a.kind == VALUE_LIST || a.kind == VALUE_TUPLE)) {
		*result = a;
		return list_concat(r, a.list, b.list, &result->list);
	}
	if (op == OP_MUL && is_sequence(a) && value_index(b, &times))
		return repeat(r, a, times, result);
	if (op == OP_MUL && is_sequence(b) && value_index(a, &times))
		return repeat(r, b, times, result);
	return render_type_error(r, spellings[op], a, b);
}

int render_negate(struct render *r, struct value value, struct value *result)
{
	if (value.kind == VALUE_FLOAT) {
		*result = value_float(-value.real);
		return 0;
	}
	if (!value_is_number(value))
		return render_type_error(r, "unary -", value, value);
	return number_arithmetic(r, OP_SUB, value_int(0), value, result);
}

int render_plus(struct render *r, struct value value, struct value *result)
{
	if (!value_is_number(value))
		return render_type_error(r, "unary +", value, value);
	int64_t integer;
	*result = value_index(value, &integer) ? value_int(integer) : value;
	return 0;
}
