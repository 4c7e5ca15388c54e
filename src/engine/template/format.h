/* Formatting: text % values and "…".format(…). */
#ifndef WEIGHTD_ENGINE_TEMPLATE_FORMAT_H
#define WEIGHTD_ENGINE_TEMPLATE_FORMAT_H

#include "src/engine/template/builtin.h"

/* The methods format() and format_map(). */
builtin_fn format_method, format_map_method;

/* Python's format specification: [[fill]align][sign][#][0][width][grouping][.precision][type]. */
struct format_spec {
	uint32_t fill;
	char align; /* '<', '>', '=', '^', 0: by type */
	char sign;  /* '+', '-', ' ' */
	bool alternate, zero;
	char grouping;	   /* ',', '_' or 0 */
	int64_t width;	   /* -1: none */
	int64_t precision; /* -1: none */
	char type;	   /* 0: none */
};

/* format(value, spec), written to the output; `spec` is its text. */
int format_value(struct render *render, struct value value, const struct text *spec);

/* A number in three parts, padded: sign, prefix (such as 0x) and digits. */
struct format_number {
	const char *sign, *prefix, *digits;
};

int format_write_number(struct render *render, const struct format_number *number, const struct format_spec *spec);

#endif
