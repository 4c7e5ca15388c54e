#include "src/api/tool_object.h"

#include <string.h>
#include <yyjson.h>

enum { HEAD_MAX = 1024 /* bytes; what takes longer to begin is read once it is whole */ };

struct cursor {
	const char *at, *end;
};

static int word(struct cursor *cursor, const char *text)
{
	struct cursor c = *cursor;
	size_t n = strlen(text);
	while (c.at < c.end && (*c.at == ' ' || *c.at == '\n' || *c.at == '\t' || *c.at == '\r'))
		c.at++;
	size_t left = (size_t)(c.end - c.at);
	if (left && memcmp(c.at, text, left < n ? left : n))
		return -1;
	if (left < n)
		return 0;
	c.at += n;
	*cursor = c;
	return 1;
}

/* One of two words. */
static int either(struct cursor *cursor, const char *a, const char *b)
{
	int first = word(cursor, a);
	if (first == 1)
		return 1;
	int second = word(cursor, b);
	return second == 1 ? 1 : first == 0 || second == 0 ? 0 : -1;
}

static int read_head(const char *bytes, size_t n, struct tool_object_head *out)
{
	struct cursor c = {bytes, bytes + n};
	static const char *const before[] = {"{", "\"name\"", ":", "\""};
	int rc;
	for (size_t i = 0; i < sizeof before / sizeof *before; i++)
		if ((rc = word(&c, before[i])) != 1)
			return rc;
	struct tool_object_head head = {.name = c.at};
	while (c.at < c.end && *c.at != '"')
		if (*c.at == '\\' || (unsigned char)*c.at++ < ' ') /* an escape: left to a real parser */
			return -1;
	head.n_name = (size_t)(c.at - head.name);
	if (c.at == c.end)
		return 0;
	if (head.n_name == 0)
		return -1;
	c.at++;
	if ((rc = word(&c, ",")) != 1 || (rc = either(&c, "\"arguments\"", "\"parameters\"")) != 1 ||
	    (rc = word(&c, ":")) != 1 || (rc = word(&c, "{")) != 1)
		return rc;
	head.length = (size_t)(c.at - bytes) - 1; /* the bracket belongs to the arguments */
	*out = head;
	return 1;
}

int tool_object_head(const char *bytes, size_t n, struct tool_object_head *out)
{
	int rc = read_head(bytes, n < HEAD_MAX ? n : HEAD_MAX, out);
	return rc == 0 && n >= HEAD_MAX ? -1 : rc;
}

bool tool_object_nest(struct api_nesting *nesting, char byte)
{
	if (nesting->in_string) {
		nesting->in_string = nesting->escaped || byte != '"';
		nesting->escaped = !nesting->escaped && byte == '\\';
		return false;
	}
	if (byte == '"')
		nesting->in_string = true;
	else if (byte == '{' || byte == '[')
		nesting->depth++;
	else if ((byte == '}' || byte == ']') && nesting->depth)
		return --nesting->depth == 0;
	return false;
}

bool tool_object_read(const char *bytes, size_t n, struct api_json *name, struct api_json *arguments)
{
	yyjson_doc *document = yyjson_read(bytes, n, 0);
	yyjson_val *root = yyjson_doc_get_root(document);
	yyjson_val *called = yyjson_obj_get(root, "name"), *given = yyjson_obj_get(root, "arguments");
	if (!given)
		given = yyjson_obj_get(root, "parameters");
	bool is_call = yyjson_is_str(called) && yyjson_get_len(called) &&
		       (!given || yyjson_is_obj(given) || yyjson_is_str(given));
	if (is_call) {
		api_json_raw(name, yyjson_get_str(called), yyjson_get_len(called));
		if (yyjson_is_obj(given))
			api_json_value(arguments, given);
		else if (yyjson_is_str(given))
			api_json_raw(arguments, yyjson_get_str(given), yyjson_get_len(given));
		else
			api_json_text(arguments, "{}");
	}
	yyjson_doc_free(document);
	return is_call;
}
