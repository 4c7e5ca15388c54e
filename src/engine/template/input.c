/* The caller's JSON as values. Strings are borrowed from the parsed documents, which live as long as the rendering. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "src/engine/template/input.h"
#include "src/engine/template/render.h"

static int from_json(struct render *r, yyjson_val *json, struct value *value);

static int from_array(struct render *r, yyjson_val *json, struct value *value)
{
	struct list *list = list_new(r, yyjson_arr_size(json));
	if (!list)
		return render_oom(r);
	int rc = 0;
	size_t i, n;
	yyjson_val *item;
	yyjson_arr_foreach(json, i, n, item)
	{
		rc = rc ? rc : from_json(r, item, &list->items[list->n++]);
	}
	*value = value_list(list);
	return rc;
}

static int from_object(struct render *r, yyjson_val *json, struct value *value)
{
	struct dict *dict = dict_new(r);
	if (!dict)
		return render_oom(r);
	int rc = 0;
	size_t i, n;
	yyjson_val *key, *item;
	yyjson_obj_foreach(json, i, n, key, item)
	{
		struct value name, member;
		rc = rc ? rc : render_text_view(r, yyjson_get_str(key), yyjson_get_len(key), &name);
		rc = rc ? rc : from_json(r, item, &member);
		rc = rc ? rc : dict_set(r, dict, name, member);
	}
	*value = value_dict(dict);
	return rc;
}

/* A number that fits neither 64 bits nor a double: Python would keep a large integer and round a real to infinity. */
static int from_big_number(struct render *r, const char *digits, struct value *value)
{
	if (!strpbrk(digits, ".eE"))
		return err_set(r->err, -EINVAL, "the integer %.60s does not fit 64 bits", digits);
	*value = value_float(strtod(digits, NULL));
	return 0;
}

static int from_number(struct render *r, yyjson_val *json, struct value *value)
{
	if (yyjson_is_real(json))
		*value = value_float(yyjson_get_real(json));
	else if (yyjson_is_sint(json) || yyjson_get_uint(json) <= INT64_MAX)
		*value = value_int(yyjson_get_sint(json));
	else
		return err_set(r->err, -EINVAL, "the integer %llu does not fit 64 bits with a sign",
			       (unsigned long long)yyjson_get_uint(json));
	return 0;
}

static int from_json(struct render *r, yyjson_val *json, struct value *value)
{
	int rc = render_enter(r);
	if (rc)
		return err_set(r->err, rc, "the JSON input is nested more than %u deep", r->limits.depth);
	switch (yyjson_get_type(json)) {
	case YYJSON_TYPE_NULL:
		*value = value_none();
		break;
	case YYJSON_TYPE_BOOL:
		*value = value_bool(yyjson_get_bool(json));
		break;
	case YYJSON_TYPE_NUM:
		rc = from_number(r, json, value);
		break;
	case YYJSON_TYPE_RAW:
		rc = from_big_number(r, yyjson_get_raw(json), value);
		break;
	case YYJSON_TYPE_STR:
		rc = render_text_view(r, yyjson_get_str(json), yyjson_get_len(json), value);
		break;
	case YYJSON_TYPE_ARR:
		rc = from_array(r, json, value);
		break;
	case YYJSON_TYPE_OBJ:
		rc = from_object(r, json, value);
		break;
	default:
		rc = err_set(r->err, -EINVAL, "the JSON input has a value of an unknown type");
	}
	r->depth--;
	return rc;
}

static int parse(struct render *r, const char *what, const char *json, size_t n_bytes, yyjson_doc **doc)
{
	yyjson_read_err error;
	/* Without the INSITU flag the input is copied, not written to. */
	*doc = yyjson_read_opts((char *)json, n_bytes, YYJSON_READ_BIGNUM_AS_RAW, NULL, &error);
	if (*doc)
		return 0;
	if (error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
		return err_set(r->err, -ENOMEM, "out of memory");
	return err_set(r->err, -EINVAL, "%s is not JSON: %s at byte %zu", what, error.msg, error.pos);
}

static int set_variable(struct render *r, const char *name, struct value value)
{
	struct value key;
	int rc = render_text_view(r, name, strlen(name), &key);
	return rc ? rc : dict_set(r, r->context, key, value);
}

static int set_string(struct render *r, const char *name, const char *string)
{
	struct value value;
	const char *text = string ? string : "";
	if (!text_valid_utf8(text, strlen(text)))
		return err_set(r->err, -EINVAL, "%s is not valid UTF-8", name);
	int rc = render_text_view(r, text, strlen(text), &value);
	return rc ? rc : set_variable(r, name, value);
}

int input_open(struct render *r, const struct template_input *input, struct input_documents *documents)
{
	struct value messages, variables;
	r->context = dict_new(r);
	if (!r->context)
		return render_oom(r);
	int rc = set_string(r, "bos_token", input->bos_token);
	rc = rc ? rc : set_string(r, "eos_token", input->eos_token);
	rc = rc ? rc : set_variable(r, "add_generation_prompt", value_bool(input->add_generation_prompt));
	rc = rc ? rc : parse(r, "the messages", input->messages_json, input->messages_bytes, &documents->messages);
	rc = rc ? rc : from_json(r, yyjson_doc_get_root(documents->messages), &messages);
	if (!rc && messages.kind != VALUE_LIST)
		return err_set(r->err, -EINVAL, "the messages are not a JSON array");
	rc = rc ? rc : set_variable(r, "messages", messages);
	if (rc || !input->variables_json)
		return rc;
	rc = parse(r, "the variables", input->variables_json, input->variables_bytes, &documents->variables);
	rc = rc ? rc : from_json(r, yyjson_doc_get_root(documents->variables), &variables);
	if (!rc && variables.kind != VALUE_DICT)
		return err_set(r->err, -EINVAL, "the variables are not a JSON object");
	for (size_t i = 0; !rc && i < variables.dict->n; i++)
		rc = dict_set(r, r->context, variables.dict->entries[i].key, variables.dict->entries[i].value);
	return rc;
}

void input_close(struct input_documents *documents)
{
	yyjson_doc_free(documents->messages);
	yyjson_doc_free(documents->variables);
}
