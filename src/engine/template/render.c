#include "src/engine/template/render.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int render_fail(struct render *r, const char *format, ...)
{
	char reason[200];
	va_list args;
	va_start(args, format);
	vsnprintf(reason, sizeof reason, format, args);
	va_end(args);
	return err_set(r->err, -EINVAL, "line %u: %s", r->line, reason);
}

int render_unsupported(struct render *r, const char *format, ...)
{
	char what[200];
	va_list args;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	return err_set(r->err, -ENOTSUP, "line %u: %s is not supported", r->line, what);
}

int render_oom(struct render *r)
{
	if (!r->heap.over_budget)
		return err_set(r->err, -ENOMEM, "out of memory");
	return err_set(r->err, -E2BIG, "line %u: rendering needs more than %zu bytes of memory", r->line,
		       r->limits.memory_bytes);
}

int render_undefined(struct render *r, struct value value)
{
	const struct undefined *undefined = value.undefined;
	if (undefined->hint)
		return render_fail(r, "%s", undefined->hint);
	size_t mark = r->n_output;
	int rc = render_repr(r, undefined->name);
	const struct text *name = NULL;
	rc = rc ? rc : render_capture(r, mark, &name);
	if (rc)
		return rc;
	int n = name->n_bytes < 100 ? (int)name->n_bytes : 100;
	if (!undefined->owner)
		return render_fail(r, "%.*s is undefined", n, name->bytes);
	return render_fail(r, "'%s' has no attribute or element %.*s", undefined->owner, n, name->bytes);
}

int render_type_error(struct render *r, const char *operation, struct value a, struct value b)
{
	if (a.kind == VALUE_UNDEFINED)
		return render_undefined(r, a);
	if (b.kind == VALUE_UNDEFINED)
		return render_undefined(r, b);
	return render_fail(r, "%s does not work between '%s' and '%s'", operation, value_type_name(a),
			   value_type_name(b));
}

int render_charge(struct render *r, uint64_t n)
{
	if (n > r->limits.steps - r->steps)
		return err_set(r->err, -E2BIG, "line %u: rendering takes more than %llu steps", r->line,
			       (unsigned long long)r->limits.steps);
	if (n > r->steps_end - r->steps)
		return err_set(r->err, -E2BIG, "line %u: one statement takes more than %d steps", r->line,
			       RENDER_STATEMENT_STEPS);
	r->steps += n;
	return 0;
}

int render_enter(struct render *r)
{
	if (r->depth >= r->limits.depth)
		return err_set(r->err, -E2BIG, "line %u: nested more than %u deep", r->line, r->limits.depth);
	r->depth++;
	return 0;
}

int render_write(struct render *r, const char *bytes, size_t n_bytes)
{
	if (n_bytes > r->limits.output_bytes - r->n_output)
		return err_set(r->err, -E2BIG, "line %u: the output is longer than %zu bytes", r->line,
			       r->limits.output_bytes);
	if (r->output_capacity - r->n_output <= n_bytes) { /* one byte stays for the terminator */
		size_t capacity = r->output_capacity ? r->output_capacity : 4096;
		while (capacity - r->n_output <= n_bytes)
			capacity *= 2;
		char *output = realloc(r->output, capacity);
		if (!output)
			return err_set(r->err, -ENOMEM, "out of memory");
		r->output = output;
		r->output_capacity = capacity;
	}
	if (n_bytes)
		memcpy(r->output + r->n_output, bytes, n_bytes);
	r->n_output += n_bytes;
	return 0;
}

int render_write_string(struct render *r, const char *string)
{
	return render_write(r, string, strlen(string));
}

int render_write_char(struct render *r, uint32_t code_point)
{
	char bytes[4];
	return render_write(r, bytes, text_encode_char(code_point, bytes));
}

int render_capture(struct render *r, size_t mark, const struct text **text)
{
	/* There is no buffer yet if nothing was ever written. */
	*text = text_copy(&r->heap, r->output ? r->output + mark : "", r->n_output - mark);
	r->n_output = mark;
	return *text ? 0 : render_oom(r);
}

int render_text_made(struct render *r, const struct text *text, struct value *value)
{
	if (!text)
		return render_oom(r);
	*value = value_text(text);
	return 0;
}

int render_text(struct render *r, const char *bytes, size_t n_bytes, struct value *value)
{
	return render_text_made(r, text_copy(&r->heap, bytes, n_bytes), value);
}

int render_text_view(struct render *r, const char *bytes, size_t n_bytes, struct value *value)
{
	return render_text_made(r, text_view(&r->heap, bytes, n_bytes), value);
}
