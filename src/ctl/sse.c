#include "src/ctl/sse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void sse_init(struct sse *sse)
{
	memset(sse, 0, sizeof *sse);
}

void sse_fini(struct sse *sse)
{
	free(sse->line);
	free(sse->data);
	sse_init(sse);
}

void sse_feed(struct sse *sse, const char *bytes, size_t n_bytes)
{
	sse->pending = bytes;
	sse->n_pending = n_bytes;
}

/* Appends and keeps room for a terminator. */
static int append(char **text, size_t *n, size_t *capacity, const char *bytes, size_t n_bytes)
{
	if (n_bytes > SSE_EVENT_MAX - *n)
		return -EMSGSIZE;
	if (*n + n_bytes + 1 > *capacity) {
		size_t larger = 2 * (*n + n_bytes + 1);
		char *grown = realloc(*text, larger);
		if (!grown)
			return -ENOMEM;
		*text = grown;
		*capacity = larger;
	}
	if (n_bytes)
		memcpy(*text + *n, bytes, n_bytes);
	*n += n_bytes;
	return 0;
}

/* A whole line: data is collected, an empty line ends the event. 1: an event is complete. */
static int take_line(struct sse *sse)
{
	size_t n = sse->n_line;
	sse->n_line = 0;
	if (n == 0)
		return sse->has_data;
	if (n < 5 || memcmp(sse->line, "data:", 5))
		return 0;
	size_t skip = n > 5 && sse->line[5] == ' ' ? 6 : 5;
	int rc = sse->has_data ? append(&sse->data, &sse->n_data, &sse->data_capacity, "\n", 1) : 0;
	if (rc == 0)
		rc = append(&sse->data, &sse->n_data, &sse->data_capacity, sse->line + skip, n - skip);
	sse->has_data = true;
	return rc;
}

/* One line more from the pending bytes: lines end with LF, CR or CR LF, which may be cut in two. 1: a line is complete.
 */
static int collect_line(struct sse *sse)
{
	if (sse->after_cr && sse->n_pending && sse->pending[0] == '\n') {
		sse->pending++;
		sse->n_pending--;
	}
	if (sse->n_pending)
		sse->after_cr = false;
	size_t n = 0;
	while (n < sse->n_pending && sse->pending[n] != '\n' && sse->pending[n] != '\r')
		n++;
	int rc = append(&sse->line, &sse->n_line, &sse->line_capacity, sse->pending, n);
	if (rc < 0)
		return rc;
	bool ended = n < sse->n_pending;
	sse->after_cr = ended ? sse->pending[n] == '\r' : sse->after_cr;
	sse->pending += n + ended;
	sse->n_pending -= n + ended;
	return ended;
}

int sse_next(struct sse *sse, const char **data, size_t *n_bytes)
{
	while (sse->n_pending) {
		int rc = collect_line(sse);
		if (rc > 0)
			rc = take_line(sse);
		if (rc < 0)
			return rc;
		if (rc == 0)
			continue;
		sse->data[sse->n_data] = '\0';
		*data = sse->data;
		*n_bytes = sse->n_data;
		sse->n_data = 0;
		sse->has_data = false;
		return 1;
	}
	return 0;
}
