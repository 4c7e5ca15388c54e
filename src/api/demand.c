/* The fields that say what an answer has to look like: response_format and its relatives at other servers, logit_bias.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/api/fields.h"

static int wrong(const struct api_field *field, const char *wanted, struct api_error *error)
{
	return api_error_set(error, 400, "invalid_type", field->name, "'%s' must be %s", field->name, wanted);
}

int api_constrain(struct api_request *request, enum call_constraint kind, const char *name, const char *bytes,
		  size_t n_bytes, struct api_error *error)
{
	if (request->constraint)
		return api_error_set(error, 400, "invalid_value", name,
				     "'%s' and '%s' both constrain the answer; give one of them", name,
				     request->constraint_field);
	if (n_bytes > CALL_CONSTRAINT_BYTES_MAX)
		return api_error_set(error, 400, "out_of_range", name, "'%s' has more than %d bytes", name,
				     CALL_CONSTRAINT_BYTES_MAX);
	request->constraint = kind;
	request->constraint_field = name;
	api_json_raw(&request->constraint_source, bytes, n_bytes);
	return 0;
}

static int set(const struct api_field *field, enum call_constraint kind, const char *bytes, size_t n_bytes,
	       struct api_request *request, struct api_error *error)
{
	return api_constrain(request, kind, field->name, bytes, n_bytes, error);
}

static int set_text(const struct api_field *field, enum call_constraint kind, yyjson_val *value,
		    struct api_request *request, struct api_error *error)
{
	if (!yyjson_is_str(value) || !yyjson_get_len(value))
		return wrong(field, "a text", error);
	return set(field, kind, yyjson_get_str(value), yyjson_get_len(value), request, error);
}

static int set_json(const struct api_field *field, enum call_constraint kind, yyjson_val *value,
		    struct api_request *request, struct api_error *error)
{
	size_t n;
	char *text = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, &n);
	if (!text)
		return api_error_set(error, 500, NULL, NULL, "out of memory");
	int rc = set(field, kind, text, n, request, error);
	free(text);
	return rc;
}

/* A schema as it is, or as the text of one. */
static int set_schema(const struct api_field *field, yyjson_val *value, struct api_request *request,
		      struct api_error *error)
{
	if (yyjson_is_str(value))
		return set_text(field, CALL_CONSTRAINT_SCHEMA, value, request, error);
	if (!yyjson_is_obj(value) && !yyjson_is_bool(value))
		return wrong(field, "a JSON Schema", error);
	return set_json(field, CALL_CONSTRAINT_SCHEMA, value, request, error);
}

static int set_choice(const struct api_field *field, yyjson_val *value, struct api_request *request,
		      struct api_error *error)
{
	yyjson_arr_iter items = yyjson_arr_iter_with(value);
	if (!yyjson_arr_size(value))
		return wrong(field, "a list of texts, one at least", error);
	for (yyjson_val *item; (item = yyjson_arr_iter_next(&items));)
		if (!yyjson_is_str(item) || !yyjson_get_len(item))
			return wrong(field, "a list of texts, none of them empty", error);
	return set_json(field, CALL_CONSTRAINT_CHOICE, value, request, error);
}

/* Every member is one of these. */
static int check_members(const struct api_field *field, yyjson_val *object, const char *const names[],
			 struct api_error *error)
{
	yyjson_obj_iter members = yyjson_obj_iter_with(object);
	for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));) {
		const char *const *name = names;
		while (*name && !yyjson_equals_str(key, *name))
			name++;
		if (!*name)
			return api_error_set(error, 400, "unknown_field", field->name,
					     "'%s' has a member '%.64s', which is not supported", field->name,
					     yyjson_get_str(key));
	}
	return 0;
}

int api_read_response_format(const struct api_field *field, yyjson_val *value, struct api_request *request,
			     struct api_error *error)
{
	static const char *const outer[] = {"type", "json_schema", "schema", NULL};
	static const char *const inner[] = {"name", "description", "schema", "strict", NULL};
	yyjson_val *type = yyjson_obj_get(value, "type"), *named = yyjson_obj_get(value, "json_schema"),
		   *schema = yyjson_obj_get(value, "schema");
	if (!yyjson_is_obj(value) || !yyjson_is_str(type))
		return wrong(field, "an object with a 'type'", error);
	if (check_members(field, value, outer, error) || (named && check_members(field, named, inner, error)))
		return -1;
	if (yyjson_equals_str(type, "text") && !named && !schema)
		return 0;
	if (yyjson_equals_str(type, "json_object") && !named)
		return schema ? set_schema(field, schema, request, error)
			      : set(field, CALL_CONSTRAINT_OBJECT, "", 0, request, error);
	if (!yyjson_equals_str(type, "json_schema"))
		return wrong(field, "of type 'text', 'json_object' or 'json_schema'", error);
	if (named)
		schema = yyjson_obj_get(named, "schema");
	if (!schema)
		return wrong(field, "an object with a schema at 'json_schema.schema'", error);
	return set_schema(field, schema, request, error);
}

int api_read_grammar(const struct api_field *field, yyjson_val *value, struct api_request *request,
		     struct api_error *error)
{
	if (yyjson_is_str(value) && !yyjson_get_len(value))
		return 0;
	return set_text(field, CALL_CONSTRAINT_GBNF, value, request, error);
}

int api_read_schema(const struct api_field *field, yyjson_val *value, struct api_request *request,
		    struct api_error *error)
{
	return set_schema(field, value, request, error);
}

int api_read_regex(const struct api_field *field, yyjson_val *value, struct api_request *request,
		   struct api_error *error)
{
	return set_text(field, CALL_CONSTRAINT_REGEX, value, request, error);
}

int api_read_choice(const struct api_field *field, yyjson_val *value, struct api_request *request,
		    struct api_error *error)
{
	return set_choice(field, value, request, error);
}

int api_read_structured_outputs(const struct api_field *field, yyjson_val *value, struct api_request *request,
				struct api_error *error)
{
	static const char *const names[] = {"json", "regex", "choice", "grammar", "json_object", NULL};
	yyjson_val *member;
	if (!yyjson_is_obj(value))
		return wrong(field, "an object", error);
	if (check_members(field, value, names, error))
		return -1;
	if ((member = yyjson_obj_get(value, "json")) && !yyjson_is_null(member) &&
	    set_schema(field, member, request, error))
		return -1;
	if ((member = yyjson_obj_get(value, "regex")) && !yyjson_is_null(member) &&
	    set_text(field, CALL_CONSTRAINT_REGEX, member, request, error))
		return -1;
	if ((member = yyjson_obj_get(value, "choice")) && !yyjson_is_null(member) &&
	    set_choice(field, member, request, error))
		return -1;
	if ((member = yyjson_obj_get(value, "grammar")) && !yyjson_is_null(member) &&
	    set_text(field, CALL_CONSTRAINT_GBNF, member, request, error))
		return -1;
	member = yyjson_obj_get(value, "json_object");
	if (member && !yyjson_is_null(member) && !yyjson_is_bool(member))
		return wrong(field, "an object whose 'json_object' is true or false", error);
	return yyjson_is_true(member) ? set(field, CALL_CONSTRAINT_OBJECT, "", 0, request, error) : 0;
}

/* A token's id as the key of an object: decimal digits, so that equal ids are equal keys. */
static bool read_id(const char *text, size_t n, uint32_t *out)
{
	uint64_t id = 0;
	if (!n || n > 10 || (n > 1 && text[0] == '0'))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		id = id * 10 + (uint64_t)(text[i] - '0');
	}
	*out = (uint32_t)id;
	return id <= INT32_MAX;
}

int api_read_logit_bias(const struct api_field *field, yyjson_val *value, struct api_request *request,
			struct api_error *error)
{
	if (!yyjson_is_obj(value))
		return wrong(field, "an object of token ids and numbers", error);
	if ((double)yyjson_obj_size(value) > field->max)
		return api_error_set(error, 400, "out_of_range", field->name, "'%s' has more than %.0f tokens",
				     field->name, field->max);
	yyjson_obj_iter members = yyjson_obj_iter_with(value);
	for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));) {
		yyjson_val *number = yyjson_obj_iter_get_val(key);
		struct call_bias bias;
		if (!read_id(yyjson_get_str(key), yyjson_get_len(key), &bias.token))
			return api_error_set(error, 400, "invalid_value", field->name,
					     "'%s' has a key '%.32s', which is not a token id", field->name,
					     yyjson_get_str(key));
		if (!yyjson_is_num(number) || !(fabs(yyjson_get_num(number)) <= 100))
			return api_error_set(error, 400, "out_of_range", field->name,
					     "'%s' of token %u must be a number from -100 to 100", field->name,
					     bias.token);
		bias.value = (float)yyjson_get_num(number);
		api_json_raw(&request->biases, &bias, sizeof bias);
		request->n_biases++;
	}
	return 0;
}
