/* Pages of other origins that may call from a browser (Fetch standard, section 3.2, "CORS protocol").
 *
 * Which ones is the key cors_origins. A page proves nothing by its origin but to the browser it is in, which asks on
 * its user's behalf; so this opens the API to users of those pages, and keeps nobody out. Answers never allow
 * credentials: there are no cookies here, and a key in Authorization is a header that pages set by themselves. */
#ifndef WEIGHTD_SRC_FRONT_CORS_H
#define WEIGHTD_SRC_FRONT_CORS_H

#include <stdbool.h>

struct http_request;

struct cors {
	char **lines;	 /* [n] header lines of an answer to a page of an origin; owned, both */
	char **origins;	 /* [n] in lower case, as browsers send them */
	unsigned n;	 /* 0: none are allowed, and nothing is said of it */
	const char *any; /* the lines for whatever origin; NULL: only for those above */
};

/* Reads the key's value, which was checked. -ENOMEM. */
int cors_init(struct cors *cors, const char *origins);
void cors_fini(struct cors *cors);

/* The header lines of an answer to a page of `origin` ("": it did not come from one). Returns view into cors. */
const char *cors_lines(const struct cors *cors, const char *origin);

/* Does the browser ask whether it may ask? */
bool cors_is_preflight(const struct cors *cors, const struct http_request *request);
/* May it? */
bool cors_allows(const struct cors *cors, const char *origin);
/* Further header lines of the yes. Returns `out`. */
enum { CORS_PREFLIGHT_BYTES = 1024 };
const char *cors_preflight(const struct http_request *request, char out[CORS_PREFLIGHT_BYTES]);

#endif
