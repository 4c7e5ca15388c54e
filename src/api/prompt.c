/* The fields that hold texts and token ids: prompt, input, content, tokens, forced_token_ids, stop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/api/fields.h"

enum { TOKEN_ID_MAX = INT32_MAX }; /* the vocabulary's size is checked where it is known: in the worker */

static int wrong(const struct api_field *field, const char *wanted, struct api_error *error)
{
	return api_error_set(error, 400, "invalid_type", field->name, "'%s' must be %s", field->name, wanted);
}

/* `place`: of the list, for errors. */
static int read_ids(struct api_place place, yyjson_val *value, struct api_ids *out, struct api_error *error)
{
	if (!yyjson_is_arr(value))
		return api_error_type(error, place, "a list of token ids");
	yyjson_arr_iter items = yyjson_arr_iter_with(value);
	size_t i = 0;
	for (yyjson_val *item; (item = yyjson_arr_iter_next(&items)); i++) {
		struct api_place at = place;
		if (yyjson_is_uint(item) && yyjson_get_uint(item) <= TOKEN_ID_MAX)
			continue;
		snprintf(at.text + strlen(at.text), sizeof at.text - strlen(at.text), "[%zu]", i);
		if (!yyjson_is_num(item))
			return api_error_type(error, at, "a token id");
		return api_error_set(error, 400, "out_of_range", at.text,
				     "'%s' is not a token id, an integer from 0 to %d", at.text, TOKEN_ID_MAX);
	}
	/* The length fits: a document of UINT32_MAX values would be larger than any body that is let in. */
	*out = (struct api_ids){value, (uint32_t)yyjson_arr_size(value)};
	return 0;
}

static int new_prompts(struct api_request *request, size_t n, struct api_error *error)
{
	request->prompts = calloc(n, sizeof *request->prompts);
	if (!request->prompts)
		return api_error_set(error, 500, NULL, NULL, "out of memory");
	request->n_prompts = (uint32_t)n;
	return 0;
}

static struct api_text text_of(yyjson_val *value)
{
	return (struct api_text){yyjson_get_str(value), yyjson_get_len(value)};
}

/* One of several prompts: text, or a list of ids; all of the same kind as the first. */
static int read_item(struct api_place place, yyjson_val *item, yyjson_val *first, struct api_prompt *out,
		     struct api_error *error)
{
	if (yyjson_get_type(item) != yyjson_get_type(first))
		return api_error_type(error, place, "of one kind with the first: a text, or a list of token ids");
	if (yyjson_is_str(item)) {
		out->text = text_of(item);
		return 0;
	}
	if (yyjson_is_arr(item) && yyjson_arr_size(item) == 0)
		return api_error_set(error, 400, "out_of_range", place.text, "'%s' is an empty list of token ids",
				     place.text);
	return read_ids(place, item, &out->ids, error);
}

int api_read_prompt(const struct api_field *field, yyjson_val *value, struct api_request *request,
		    struct api_error *error)
{
	yyjson_val *first = yyjson_arr_get_first(value); /* NULL when it is not a list, too */
	bool several = yyjson_is_str(first) || yyjson_is_arr(first);
	size_t n = several ? yyjson_arr_size(value) : 1;
	if (!yyjson_is_str(value) && !several && !yyjson_is_num(first)) {
		if (yyjson_is_arr(value) && !first)
			return api_error_set(error, 400, "out_of_range", field->name, "'%s' is an empty list",
					     field->name);
		return wrong(field, "a text, a list of texts, a list of token ids, or a list of such lists", error);
	}
	if ((double)n > field->max)
		return api_error_set(error, 400, "out_of_range", field->name,
				     "'%s' has %zu texts; at most %.0f are allowed", field->name, n, field->max);
	if (new_prompts(request, n, error))
		return -1;
	if (yyjson_is_str(value)) {
		request->prompts[0].text = text_of(value);
		return 0;
	}
	if (!several)
		return read_ids(api_place("%s", field->name), value, &request->prompts[0].ids, error);
	yyjson_arr_iter items = yyjson_arr_iter_with(value);
	for (size_t i = 0; i < n; i++) {
		struct api_place place = api_place("%s[%zu]", field->name, i);
		if (read_item(place, yyjson_arr_iter_next(&items), first, &request->prompts[i], error))
			return -1;
	}
	return 0;
}

/* What is to be embedded: as a prompt, but an empty text has no vector. */
int api_read_input(const struct api_field *field, yyjson_val *value, struct api_request *request,
		   struct api_error *error)
{
	if (api_read_prompt(field, value, request, error))
		return -1;
	for (uint32_t i = 0; i < request->n_prompts; i++) {
		const struct api_prompt *prompt = &request->prompts[i];
		struct api_place place = api_place(yyjson_is_arr(value) ? "%s[%u]" : "%s", field->name, i);
		if (!prompt->ids.list && !prompt->text.n_bytes)
			return api_error_set(error, 400, "out_of_range", place.text, "'%s' is an empty text",
					     place.text);
	}
	return 0;
}

int api_read_content(const struct api_field *field, yyjson_val *value, struct api_request *request,
		     struct api_error *error)
{
	if (!yyjson_is_str(value))
		return wrong(field, "a string", error);
	if (new_prompts(request, 1, error))
		return -1;
	request->prompts[0].text = text_of(value);
	return 0;
}

int api_read_tokens(const struct api_field *field, yyjson_val *value, struct api_request *request,
		    struct api_error *error)
{
	if (new_prompts(request, 1, error))
		return -1;
	return read_ids(api_place("%s", field->name), value, &request->prompts[0].ids, error);
}

int api_read_forced_ids(const struct api_field *field, yyjson_val *value, struct api_request *request,
			struct api_error *error)
{
	return read_ids(api_place("%s", field->name), value, &request->forced, error);
}

static int read_one_stop(const struct api_field *field, yyjson_val *value, struct api_request *request,
			 struct api_error *error)
{
	if (!yyjson_is_str(value))
		return wrong(field, "a string or a list of strings", error);
	size_t n = yyjson_get_len(value);
	if (n < 1 || n > CALL_STOP_BYTES_MAX)
		return api_error_set(error, 400, "out_of_range", field->name,
				     "'%s': each must have 1 to %d bytes, one has %zu", field->name,
				     CALL_STOP_BYTES_MAX, n);
	if (memchr(yyjson_get_str(value), 0, n)) /* it ends each of them on the way to the worker */
		return api_error_set(error, 400, "invalid_value", field->name, "'%s' has a NUL character", field->name);
	request->stops[request->n_stops++] = text_of(value);
	return 0;
}

int api_read_stop(const struct api_field *field, yyjson_val *value, struct api_request *request,
		  struct api_error *error)
{
	if (!yyjson_is_arr(value))
		return read_one_stop(field, value, request, error);
	if ((double)yyjson_arr_size(value) > field->max)
		return api_error_set(error, 400, "out_of_range", field->name, "'%s' has more than %.0f strings",
				     field->name, field->max);
	yyjson_arr_iter items = yyjson_arr_iter_with(value);
	for (yyjson_val *item; (item = yyjson_arr_iter_next(&items));)
		if (read_one_stop(field, item, request, error))
			return -1;
	return 0;
}
