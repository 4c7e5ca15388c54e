/* The caller's JSON as values. Strings are borrowed from the parsed documents, which live as long as the rendering. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "src/engine/template/input.h"
#include "src/engine/template/render.h"

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

/* --- values, with a stack of their own ---------------------------------------------------------- */

struct input_level {
	struct list *list; /* of an array */
	struct dict *dict; /* of an object */
	union {
		yyjson_arr_iter items;
		yyjson_obj_iter members;
	} left;
};

/* An array or object; its members come later. */
static int open_level(struct render *r, struct input *input, yyjson_val *json, struct value *value)
{
	int rc = render_enter(r);
	if (rc)
		return err_set(r->err, rc, "the JSON input is nested more than %u deep", r->limits.depth);
	struct input_level level = {0};
	if (yyjson_is_arr(json)) {
		level.list = list_new(r, yyjson_arr_size(json));
		level.left.items = yyjson_arr_iter_with(json);
		*value = value_list(level.list);
	} else {
		level.dict = dict_new(r);
		level.left.members = yyjson_obj_iter_with(json);
		*value = value_dict(level.dict);
	}
	if (!level.list && !level.dict)
		return render_oom(r);
	input->levels[input->n_levels++] = level;
	return 0;
}

static int from_json(struct render *r, struct input *input, yyjson_val *json, struct value *value)
{
	switch (yyjson_get_type(json)) {
	case YYJSON_TYPE_NULL:
		*value = value_none();
		return 0;
	case YYJSON_TYPE_BOOL:
		*value = value_bool(yyjson_get_bool(json));
		return 0;
	case YYJSON_TYPE_NUM:
		return from_number(r, json, value);
	case YYJSON_TYPE_RAW:
		return from_big_number(r, yyjson_get_raw(json), value);
	case YYJSON_TYPE_STR:
		return render_text_view(r, yyjson_get_str(json), yyjson_get_len(json), value);
	case YYJSON_TYPE_ARR:
	case YYJSON_TYPE_OBJ:
		return open_level(r, input, json, value);
	default:
		return err_set(r->err, -EINVAL, "the JSON input has a value of an unknown type");
	}
}

/* The next item or member of the newest array or object, or its end. */
static int next_value(struct render *r, struct input *input)
{
	struct input_level *level = &input->levels[input->n_levels - 1];
	yyjson_val *key = level->dict ? yyjson_obj_iter_next(&level->left.members) : NULL;
	yyjson_val *json = level->dict ? yyjson_obj_iter_get_val(key) : yyjson_arr_iter_next(&level->left.items);
	struct value name, value;
	if (!json) {
		input->n_levels--;
		r->depth--;
		return 0;
	}
	int rc = from_json(r, input, json, &value); /* the level stays where it is: the stack has room for all */
	if (rc || level->list) {
		if (!rc)
			level->list->items[level->list->n++] = value;
		return rc;
	}
	rc = render_text_view(r, yyjson_get_str(key), yyjson_get_len(key), &name);
	return rc ? rc : dict_set(r, level->dict, name, value);
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

int input_open(struct render *r, const struct template_input *from, struct input *input)
{
	input->from = from;
	input->levels = heap_cells(&r->heap, r->limits.depth, sizeof *input->levels);
	r->context = input->levels ? dict_new(r) : NULL;
	if (!r->context)
		return render_oom(r);
	int rc = set_string(r, "bos_token", from->bos_token);
	rc = rc ? rc : set_string(r, "eos_token", from->eos_token);
	rc = rc ? rc : set_variable(r, "add_generation_prompt", value_bool(from->add_generation_prompt));
	rc = rc ? rc : parse(r, "the messages", from->messages_json, from->messages_bytes, &input->messages);
	return rc ? rc : from_json(r, input, yyjson_doc_get_root(input->messages), &input->top);
}

static int end_messages(struct render *r, struct input *input)
{
	const struct template_input *from = input->from;
	if (input->top.kind != VALUE_LIST)
		return err_set(r->err, -EINVAL, "the messages are not a JSON array");
	int rc = set_variable(r, "messages", input->top);
	input->stage = from->variables_json ? INPUT_VARIABLES : INPUT_DONE;
	if (rc || !from->variables_json)
		return rc;
	rc = parse(r, "the variables", from->variables_json, from->variables_bytes, &input->variables);
	return rc ? rc : from_json(r, input, yyjson_doc_get_root(input->variables), &input->top);
}

static int end_variables(struct render *r, struct input *input)
{
	if (input->top.kind != VALUE_DICT)
		return err_set(r->err, -EINVAL, "the variables are not a JSON object");
	const struct dict *variables = input->top.dict;
	int rc = 0;
	for (size_t i = 0; !rc && i < variables->n; i++)
		rc = dict_set(r, r->context, variables->entries[i].key, variables->entries[i].value);
	input->stage = INPUT_DONE;
	return rc;
}

int input_advance(struct render *r, struct input *input, uint64_t *work)
{
	int rc = 0;
	for (; *work && input->n_levels && !rc; --*work)
		rc = next_value(r, input);
	if (!rc && !input->n_levels && input->stage == INPUT_MESSAGES)
		rc = end_messages(r, input);
	else if (!rc && !input->n_levels && input->stage == INPUT_VARIABLES)
		rc = end_variables(r, input);
	return rc ? rc : input->stage != INPUT_DONE;
}

void input_close(struct input *input)
{
	yyjson_doc_free(input->messages);
	yyjson_doc_free(input->variables);
}
