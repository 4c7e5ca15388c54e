/* Strings: length, pattern, format. */
#include <string.h>

#include "src/engine/grammar/regex.h"
#include "src/engine/grammar/schema.h"

#define YEAR "[1-9]\\d{3}"
/* No 29th of February: whether there is one takes arithmetic. */
#define DATE                                                                                        \
	YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|" \
	     "02-(?:0[1-9]|1\\d|2[0-8]))"
#define TIME "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"

static const struct {
	const char *name, *pattern;
} formats[] = {
	{"date", "^" DATE "$"},
	{"time", "^" TIME "$"},
	{"date-time", "^" DATE "T" TIME "$"},
	{"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
	{"ipv4", "^" OCTET "\\." OCTET "\\." OCTET "\\." OCTET "$"},
};

static int pattern_of(struct schema *s, yyjson_val *value, const char **pattern, size_t *n)
{
	yyjson_val *given = yyjson_obj_get(value, "pattern"), *format = yyjson_obj_get(value, "format");
	bool length = yyjson_obj_get(value, "minLength") || yyjson_obj_get(value, "maxLength");
	*pattern = NULL;
	if ((given != NULL) + (format != NULL) + length > 1)
		return schema_fault(s, "more than one of 'pattern', 'format' and a length can't be enforced together");
	if (given) {
		if (!yyjson_is_str(given))
			return schema_fault(s, "'pattern' must be a string");
		*pattern = yyjson_get_str(given);
		*n = yyjson_get_len(given);
	}
	for (size_t i = 0; format && i < sizeof formats / sizeof *formats; i++)
		if (yyjson_equals_str(format, formats[i].name)) {
			*pattern = formats[i].pattern;
			*n = strlen(*pattern);
		}
	if (format && !*pattern)
		return schema_fault(s, "this 'format' can't be enforced; date, time, date-time, uuid and ipv4 can");
	return 0;
}

int schema_string(struct schema *s, yyjson_val *value, uint32_t *node)
{
	struct grammar *g = s->grammar;
	const char *pattern;
	size_t n = 0;
	uint32_t min, max, inner;
	int rc = pattern_of(s, value, &pattern, &n);
	if (!rc)
		rc = schema_count(s, value, "minLength", 0, &min);
	if (!rc)
		rc = schema_count(s, value, "maxLength", GRAMMAR_UNBOUNDED, &max);
	if (rc)
		return rc;
	if (pattern) {
		struct err err = {""};
		rc = regex_read(pattern, n, REGEX_JSON, REGEX_PART, g, &inner, &err);
		if (rc)
			return schema_fault(s, "'pattern': %s", err.text);
	} else if (max < min) {
		return schema_fault(s, "'maxLength' is less than 'minLength'");
	} else {
		inner = grammar_repeat(g, grammar_reference(g, s->character), min, max);
	}
	*node = grammar_sequence(g);
	grammar_append(g, *node, grammar_text(g, "\""));
	grammar_append(g, *node, inner);
	grammar_append(g, *node, grammar_text(g, "\""));
	return 0;
}
