/* Server-sent events (WHATWG HTML, section 9.2.6), the part that matters here: the data of each event, however the
 * bytes were cut on their way. Fields other than data are passed over. */
#ifndef WEIGHTD_SSE_H
#define WEIGHTD_SSE_H

#include <stdbool.h>
#include <stddef.h>

enum { SSE_EVENT_MAX = 16 * 1024 * 1024 }; /* bytes of one event's data, and of a line */

struct sse {
	char *line, *data; /* owned, grown as needed; not terminated */
	size_t n_line, n_data, line_capacity, data_capacity;
	bool has_data, after_cr;
	const char *pending; /* borrowed from sse_feed: bytes not looked at yet */
	size_t n_pending;
};

void sse_init(struct sse *sse);
void sse_fini(struct sse *sse);

/* Hands in received bytes, which must stay until sse_next has returned 0. */
void sse_feed(struct sse *sse, const char *bytes, size_t n_bytes);

/* 1: the next event's data, a view valid until the next call, terminated (the terminator is not counted in *n_bytes).
 * 0: more bytes are needed. -ENOMEM; -EMSGSIZE: an event past SSE_EVENT_MAX. */
int sse_next(struct sse *sse, const char **data, size_t *n_bytes);

#endif
