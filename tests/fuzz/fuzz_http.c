/* One byte stream, fed whole and in pieces (of as many bytes as the first byte says): both have to make the same
 * requests and refusals of it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/http.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_BODY = 4096, MAX_EVENTS = 64 };

struct event { /* without padding: compared as bytes */
	size_t body_bytes;
	int status;   /* 0: a request */
	unsigned sum; /* of everything in the request */
};

struct events {
	struct event event[MAX_EVENTS];
	unsigned n;
};

static unsigned add(unsigned sum, const char *bytes, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes; i++)
		sum = sum * 31 + (unsigned char)bytes[i];
	return sum;
}

static void note(struct events *events, int status, const struct http_request *request)
{
	struct event event = {.status = status};
	if (request) {
		event.body_bytes = request->body_bytes;
		event.sum = add(1, request->method, strlen(request->method));
		event.sum = add(event.sum, request->path, strlen(request->path));
		event.sum = add(event.sum, request->query, strlen(request->query));
		event.sum = add(event.sum, request->content_type, strlen(request->content_type));
		event.sum = add(event.sum, request->authorization, strlen(request->authorization));
		event.sum = add(event.sum, request->body, request->body_bytes);
		event.sum += request->keep_alive;
		if (request->body_bytes > MAX_BODY || (*request->path != '/' && *request->path != '*'))
			abort();
	}
	if (events->n < MAX_EVENTS)
		events->event[events->n++] = event;
}

/* Returns 0 after a refusal. */
static int feed(struct http_parser *parser, const uint8_t *bytes, size_t n_bytes, struct events *events)
{
	struct http_request request;
	struct err err;
	int status = 0;
	enum http_state state = http_feed(parser, (const char *)bytes, n_bytes, &request, &status, &err);
	while (state == HTTP_COMPLETE) {
		note(events, 0, &request);
		http_next(parser);
		state = http_feed(parser, NULL, 0, &request, &status, &err);
	}
	if (state != HTTP_BAD)
		return 1;
	if (status < 400 || !*http_reason(status))
		abort();
	note(events, status, NULL);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	if (n_bytes < 1)
		return 0;
	size_t piece = bytes[0] ? bytes[0] : 1;
	bytes++;
	n_bytes--;
	struct events whole = {.n = 0}, pieces = {.n = 0};
	struct http_parser *parser;
	if (http_parser_new(MAX_BODY, &parser) != 0)
		return 0;
	feed(parser, bytes, n_bytes, &whole);
	http_parser_free(parser);
	if (http_parser_new(MAX_BODY, &parser) != 0)
		return 0;
	for (size_t at = 0; at < n_bytes; at += piece)
		if (!feed(parser, bytes + at, n_bytes - at < piece ? n_bytes - at : piece, &pieces))
			break;
	http_parser_free(parser);
	if (whole.n != pieces.n || memcmp(whole.event, pieces.event, whole.n * sizeof whole.event[0]) != 0)
		abort();
	return 0;
}
