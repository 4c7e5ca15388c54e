/* The JSON object with which a model calls a tool: {"name": "f", "arguments": {...}}, or "parameters" instead. */
#ifndef WEIGHTD_SRC_API_TOOL_OBJECT_H
#define WEIGHTD_SRC_API_TOOL_OBJECT_H

#include "src/api/split.h"

/* The beginning of an object whose members come in the usual order, up to the arguments' bracket. */
struct tool_object_head {
	const char *name; /* [n_name] view */
	size_t n_name, length;
};

/* 1: `bytes` begin with such a head; 0: they are too few to tell; -1: they don't. */
int tool_object_head(const char *bytes, size_t n, struct tool_object_head *out);

/* Takes the next byte; true: it closes the outermost bracket. */
bool tool_object_nest(struct api_nesting *nesting, char byte);

/* Reads a whole object, members in any order: appends its name and arguments. Arguments given as a string are that
 * string, missing ones {}. False: it is not a call. */
bool tool_object_read(const char *bytes, size_t n, struct api_json *name, struct api_json *arguments);

#endif
