/* What a client is told when a request cannot be served: OpenAI's error object and its HTTP status. */
#ifndef WEIGHTD_SRC_API_ERROR_H
#define WEIGHTD_SRC_API_ERROR_H

#include <stddef.h>

#include "src/api/json.h"

struct api_error {
	int status;	   /* HTTP */
	char code[40];	   /* "context_length_exceeded"; "": null */
	char param[72];	   /* the field at fault; "": null */
	char message[320]; /* for a person; any bytes */
};

/* Fills in an error and returns -1, so that a failing line reads `return api_error_set(…)`. `code` and `param` may be
 * NULL; long texts are cut. */
__attribute__((format(printf, 5, 6))) int api_error_set(struct api_error *error, int status, const char *code,
							const char *param, const char *format, ...);

/* Where in a request a fault is: "messages[3].content[0]". */
struct api_place {
	char text[sizeof(((struct api_error *)0)->param)];
};
__attribute__((format(printf, 1, 2))) struct api_place api_place(const char *format, ...);
/* 400: what stands there is of a wrong type. Returns -1. */
int api_error_type(struct api_error *error, struct api_place place, const char *wanted);

/* {"error":{"message","type","param","code"}}; the type follows from the status. */
void api_error_write(const struct api_error *error, struct api_json *out);

#endif
