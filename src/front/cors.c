#include "src/front/cors.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/http.h"

#define EXPOSED "Access-Control-Expose-Headers: Retry-After\r\n"

static const char any_lines[] = "Access-Control-Allow-Origin: *\r\n" EXPOSED;
static const char other_lines[] = "Vary: Origin\r\n"; /* another origin's answer has other headers */

static int add(struct cors *cors, const char *origin, size_t n)
{
	char **origins = reallocarray(cors->origins, cors->n + 1, sizeof *origins);
	if (origins)
		cors->origins = origins;
	char **lines = reallocarray(cors->lines, cors->n + 1, sizeof *lines);
	if (lines)
		cors->lines = lines;
	char *own = origins && lines ? strndup(origin, n) : NULL;
	if (!own)
		return -ENOMEM;
	for (char *c = own; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	cors->origins[cors->n] = own;
	if (asprintf(&cors->lines[cors->n], "Access-Control-Allow-Origin: %s\r\n%s%s", own, EXPOSED, other_lines) < 0) {
		free(own);
		return -ENOMEM;
	}
	cors->n++;
	return 0;
}

int cors_init(struct cors *cors, const char *origins)
{
	*cors = (struct cors){0};
	for (const char *at = origins; *(at += strspn(at, ", "));) {
		size_t n = strcspn(at, ", ");
		if (n == 1 && *at == '*')
			cors->any = any_lines;
		else if (add(cors, at, n)) {
			cors_fini(cors);
			return -ENOMEM;
		}
		at += n;
	}
	return 0;
}

void cors_fini(struct cors *cors)
{
	for (unsigned i = 0; i < cors->n; i++) {
		free(cors->origins[i]);
		free(cors->lines[i]);
	}
	free(cors->origins);
	free(cors->lines);
	*cors = (struct cors){0};
}

static bool is_on(const struct cors *cors)
{
	return cors->any || cors->n;
}

const char *cors_lines(const struct cors *cors, const char *origin)
{
	if (cors->any)
		return cors->any;
	for (unsigned i = 0; i < cors->n; i++)
		if (strcmp(cors->origins[i], origin) == 0)
			return cors->lines[i];
	return is_on(cors) ? other_lines : "";
}

bool cors_is_preflight(const struct cors *cors, const struct http_request *request)
{
	return is_on(cors) && strcmp(request->method, "OPTIONS") == 0 && request->origin[0] &&
	       request->requested_method[0];
}

bool cors_allows(const struct cors *cors, const char *origin)
{
	return is_on(cors) && cors_lines(cors, origin) != other_lines;
}

/* Names of header fields, which may be said back in a header: nothing that could end one. */
static bool are_names(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)text[i]) && !memchr("-_, ", text[i], 4))
			return false;
	return n && n <= CORS_PREFLIGHT_BYTES / 2;
}

const char *cors_preflight(const struct http_request *request, char out[CORS_PREFLIGHT_BYTES])
{
	/* Clients send fields of their own (x-stainless-...), none of which does anything here: all may be sent. */
	const char *names = request->requested_headers;
	if (!are_names(names, strlen(names)))
		names = "Authorization, Content-Type";
	snprintf(out, CORS_PREFLIGHT_BYTES,
		 "Access-Control-Allow-Methods: GET, HEAD, POST\r\nAccess-Control-Allow-Headers: %s\r\n"
		 "Access-Control-Max-Age: 600\r\nVary: Access-Control-Request-Headers\r\n",
		 names);
	return out;
}
