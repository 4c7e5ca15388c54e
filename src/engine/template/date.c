/* transformers gives templates the clock of the machine. Here what a request gets depends on the request alone, so one
 * whose template wants the date has to say it: `now`, as ISO 8601 writes a day and perhaps a time of it. Without, the
 * function is undefined, which templates can ask for and many do. */
#include "src/engine/template/date.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "src/engine/template/render.h"

static int wrong(struct render *r)
{
	return render_fail(r, "the variable 'now' must be a date such as \"2026-11-30\" or \"2026-11-30T14:05:00\"");
}

/* `n` digits at *at; -1: others. */
static int digits(const char **at, int n)
{
	int value = 0;
	for (; n; n--, ++*at) {
		if (**at < '0' || **at > '9')
			return -1;
		value = 10 * value + (**at - '0');
	}
	return value;
}

/* The next part of a date: a mark out of `marks`, then two digits. */
static int part(const char **at, const char *marks)
{
	if (!**at || !strchr(marks, **at))
		return -1;
	++*at;
	return digits(at, 2);
}

static bool parse(const char *at, struct tm *when)
{
	struct tm tm = {.tm_year = digits(&at, 4) - 1900}, given;
	tm.tm_mon = tm.tm_year < 0 ? -1 : part(&at, "-") - 1;
	tm.tm_mday = tm.tm_mon < 0 ? -1 : part(&at, "-");
	if (tm.tm_mday >= 0 && *at) {
		tm.tm_hour = part(&at, "T ");
		tm.tm_min = tm.tm_hour < 0 ? -1 : part(&at, ":");
		if (tm.tm_min >= 0 && *at)
			tm.tm_sec = part(&at, ":");
	}
	given = tm;
	/* Finds the days of the week and of the year, and changes a day that does not exist to one that does. */
	if (tm.tm_mday < 1 || tm.tm_hour < 0 || tm.tm_min < 0 || tm.tm_sec < 0 || *at || timegm(&tm) == -1)
		return false;
	*when = tm;
	return tm.tm_mon == given.tm_mon && tm.tm_mday == given.tm_mday && tm.tm_hour == given.tm_hour &&
	       tm.tm_min == given.tm_min && tm.tm_sec == given.tm_sec;
}

static int read_now(struct render *r, struct tm *when)
{
	static const struct text name = {"now", 3, 3, false};
	struct value now;
	char text[32];
	int rc = dict_get(r, r->context, value_text(&name), &now);
	if (rc)
		return rc;
	if (now.kind != VALUE_TEXT || now.text->n_bytes >= sizeof text || memchr(now.text->bytes, 0, now.text->n_bytes))
		return wrong(r);
	memcpy(text, now.text->bytes, now.text->n_bytes);
	text[now.text->n_bytes] = 0;
	return parse(text, when) ? 0 : wrong(r);
}

/* Writes what one directive stands for; *at is behind its %. The library's strftime knows those that depend on the date
 * alone; Python's time without a zone writes nothing for zones and zeros for fractions. */
static int write_directive(struct render *r, const struct tm *when, const char **at, const char *end)
{
	char directive[4] = "%", text[64];
	size_t n = 1;
	if (*at < end && **at && strchr("-_0^#", **at))
		directive[n++] = *(*at)++;
	char letter = *at < end ? *(*at)++ : 0;
	directive[n] = letter;
	if (letter == 'f')
		return render_write_string(r, "000000");
	if (letter == 'z' || letter == 'Z')
		return 0;
	if (!letter || !strchr("aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyY%", letter))
		return render_unsupported(r, "a strftime format with %%%c", letter ? letter : ' ');
	n = strftime(text, sizeof text, directive, when);
	return render_write(r, text, n);
}

int date_strftime_now(struct render *r, struct invocation *call, struct value *result)
{
	struct tm when;
	size_t mark = r->n_output;
	const struct text *text;
	if (call->arguments[0].kind != VALUE_TEXT)
		return render_fail(r, "strftime_now() takes a format, not '%s'", value_type_name(call->arguments[0]));
	const struct text *format = call->arguments[0].text;
	int rc = read_now(r, &when);
	rc = rc ? rc : render_charge(r, format->n_bytes);
	for (const char *at = format->bytes, *end = at + format->n_bytes; at < end && !rc;) {
		const char *percent = memchr(at, '%', (size_t)(end - at)), *stop = percent ? percent : end;
		rc = render_write(r, at, (size_t)(stop - at));
		at = percent ? percent + 1 : end;
		if (!rc && percent)
			rc = write_directive(r, &when, &at, end);
	}
	rc = rc ? rc : render_capture(r, mark, &text);
	return rc ? rc : render_text_made(r, text, result);
}
