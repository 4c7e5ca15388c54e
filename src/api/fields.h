/* The fields of request bodies: one table with name, endpoints, type and range of each. */
#ifndef WEIGHTD_SRC_API_FIELDS_H
#define WEIGHTD_SRC_API_FIELDS_H

#include "src/api/request.h"

struct api_field;

/* A field's reader: checks `value` and stores it in the request. -1 with a 400 that names the field. */
typedef int api_field_reader(const struct api_field *field, yyjson_val *value, struct api_request *request,
			     struct api_error *error);

struct api_field {
	const char *name;
	unsigned endpoints; /* set of enum api_endpoint */
	unsigned required;  /* where it may not be missing */
	api_field_reader *read;
	double min, max; /* a number's value, a text's bytes, a list's length */
	size_t offset;	 /* of its place in struct api_request, for the scalar readers */
	const char *off; /* for what is not supported: the values that ask for nothing, as JSON, separated by spaces */
};

/* Gives the fields their defaults, reads all members of `root`, and looks for missing ones. */
int api_fields_read(struct api_request *request, yyjson_val *root, struct api_error *error);

/* Every row, for tests that go through all of them. */
const struct api_field *api_fields(size_t *n);

/* Readers of structured fields (api_prompt.c, api_messages.c). */
api_field_reader api_read_prompt, api_read_input, api_read_content, api_read_tokens, api_read_forced_ids, api_read_stop;
api_field_reader api_read_messages;
/* api/demand.c */
api_field_reader api_read_response_format, api_read_grammar, api_read_schema, api_read_regex, api_read_choice;
api_field_reader api_read_structured_outputs, api_read_logit_bias;
/* The request's one constraint, which came from the field `name` (static). */
int api_constrain(struct api_request *request, enum call_constraint kind, const char *name, const char *bytes,
		  size_t n_bytes, struct api_error *error);

#endif
