/* One byte stream, fed whole and in pieces (of as many bytes as the first byte says), and once more with bodies that
 * are streamed: all have to make the same requests and refusals of it. */
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
	unsigned body_sum;
	size_t streamed; /* bytes of the body at hand that came in pieces before its last */
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
		events->body_sum = add(events->body_sum, request->body, request->body_bytes);
		event.body_bytes += events->streamed;
		event.sum += request->keep_alive + 31 * events->body_sum;
		if (event.body_bytes > MAX_BODY || (*request->path != '/' && *request->path != '*'))
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
	while (state == HTTP_COMPLETE || state == HTTP_ANNOUNCED || state == HTTP_PIECE) {
		if (state == HTTP_ANNOUNCED) {
			http_stream(parser, MAX_BODY);
		} else if (state == HTTP_PIECE) {
			events->body_sum = add(events->body_sum, request.body, request.body_bytes);
			events->streamed += request.body_bytes;
		} else {
			note(events, 0, &request);
			events->streamed = events->body_sum = 0;
			http_next(parser);
		}
		state = http_feed(parser, NULL, 0, &request, &status, &err);
	}
	if (state != HTTP_BAD)
		return 1;
	if (status < 400 || !*http_reason(status))
		abort();
	note(events, status, NULL);
	return 0;
}

static void run(const uint8_t *bytes, size_t n_bytes, size_t piece, bool streamed, struct events *events)
{
	struct http_parser *parser;
	if (http_parser_new(MAX_BODY, &parser) != 0)
		return;
	if (streamed)
		http_announce(parser);
	for (size_t at = 0; at < n_bytes; at += piece)
		if (!feed(parser, bytes + at, n_bytes - at < piece ? n_bytes - at : piece, events))
			break;
	http_parser_free(parser);
}

static void compare(const struct events *a, const struct events *b)
{
	if (a->n != b->n || memcmp(a->event, b->event, a->n * sizeof a->event[0]) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	if (n_bytes < 2)
		return 0;
	struct events whole = {.n = 0}, pieces = {.n = 0}, streamed = {.n = 0};
	run(bytes + 1, n_bytes - 1, n_bytes - 1, false, &whole);
	run(bytes + 1, n_bytes - 1, bytes[0] ? bytes[0] : 1, false, &pieces);
	run(bytes + 1, n_bytes - 1, bytes[0] ? bytes[0] : 1, true, &streamed);
	compare(&whole, &pieces);
	compare(&whole, &streamed);
	return 0;
}
