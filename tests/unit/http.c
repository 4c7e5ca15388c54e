/* io/http: whole, split and pipelined requests, and what must be refused. */
#include "io/http.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/err.h"
#include "tests/unit/suite.h"

enum { MAX_BODY = 1000 };

/* What a parser made of a byte stream, in words that can be compared: one line a request, "! status" for a refusal. */
struct story {
	char text[8192];
	size_t used;
};

static void tell(struct story *story, const char *what)
{
	size_t n = strlen(what);
	ck_assert_uint_lt(story->used + n, sizeof story->text);
	memcpy(story->text + story->used, what, n + 1);
	story->used += n;
}

/* How bodies are read: whole; announced, and whole; or announced, and in pieces, which are put together here. */
static enum { WHOLE, ANNOUNCED, STREAMED } mode = WHOLE;
static struct story pieces;

/* As http_feed, with bodies in pieces gone through. */
static enum http_state feed_on(struct http_parser *parser, const char *bytes, size_t n_bytes,
			       struct http_request *request, int *status, struct err *err)
{
	enum http_state state = http_feed(parser, bytes, n_bytes, request, status, err);
	while (state == HTTP_ANNOUNCED || state == HTTP_PIECE) {
		ck_assert_int_ne(mode, WHOLE);
		if (state == HTTP_ANNOUNCED) {
			ck_assert_str_eq(request->method, "POST");
			ck_assert_uint_eq(request->body_bytes, 0);
			pieces.used = 0;
			pieces.text[0] = '\0';
			if (mode == STREAMED)
				http_stream(parser, MAX_BODY);
		} else {
			ck_assert(mode == STREAMED && request->body_bytes > 0);
			tell(&pieces, request->body);
		}
		state = http_feed(parser, NULL, 0, request, status, err);
	}
	if (state == HTTP_COMPLETE && mode == STREAMED && strcmp(request->method, "POST") == 0 && pieces.used) {
		tell(&pieces, request->body);
		request->body = pieces.text;
		request->body_bytes = pieces.used;
	}
	return state;
}

/* Feeds one piece and tells every request it completes. Returns false after a refusal. */
static bool feed(struct http_parser *parser, const char *bytes, size_t n_bytes, struct story *story)
{
	char line[4096];
	/* A copy of exactly this size: the sanitizer sees a read past the piece. */
	char *copy = malloc(n_bytes ? n_bytes : 1);
	memcpy(copy, bytes, n_bytes);
	struct http_request request;
	struct err err = {""};
	int status = 0;
	enum http_state state = feed_on(parser, copy, n_bytes, &request, &status, &err);
	free(copy);
	while (state == HTTP_COMPLETE) {
		snprintf(line, sizeof line, "%s %s ?%s type=%s auth=%s keep=%d 1.0=%d body=%zu:", request.method,
			 request.path, request.query, request.content_type, request.authorization, request.keep_alive,
			 request.is_http_1_0, request.body_bytes);
		tell(story, line);
		snprintf(line, sizeof line, "%.*s\n", (int)request.body_bytes, request.body);
		tell(story, line);
		pieces.used = 0;
		http_next(parser);
		state = feed_on(parser, NULL, 0, &request, &status, &err);
	}
	if (state == HTTP_BAD) {
		ck_assert_str_ne(err.text, "");
		snprintf(line, sizeof line, "! %d\n", status);
		tell(story, line);
		return false;
	}
	return true;
}

static struct http_parser *new_parser(void)
{
	struct http_parser *parser = NULL;
	ck_assert_int_eq(http_parser_new(MAX_BODY, &parser), 0);
	if (mode != WHOLE)
		http_announce(parser);
	return parser;
}

static void read_whole(const char *bytes, size_t n_bytes, struct story *story)
{
	struct http_parser *parser = new_parser();
	feed(parser, bytes, n_bytes, story);
	http_parser_free(parser);
}

static const char stream[] =
	"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
	"POST /v1/completions?a=b?c HTTP/1.1\r\nHost: x\r\ncontent-TYPE:  application/json \t\r\n"
	"Authorization: Bearer abc def\r\nContent-Length: 13\r\n\r\n{\"prompt\": 1}"
	"\r\n" /* an empty line between requests is allowed (RFC 9112, 2.2) */
	"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	"5\r\nhello\r\n1;name=\"value\"\r\n \r\n00a\r\nwide\nworld\r\n0\r\nContent-Type: not/a-trailer\r\n\r\n"
	"GET http://proxy.example/abs?q HTTP/1.1\r\nHost: x\r\n\r\n"
	"OPTIONS * HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n"
	"HEAD /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
	"POST /empty HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Type:\r\n\r\n"
	"DELETE /end HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

static const char stream_told[] =
	"GET /health ? type= auth= keep=1 1.0=0 body=0:\n"
	"POST /v1/completions ?a=b?c type=application/json auth=Bearer abc def keep=1 1.0=0 body=13:{\"prompt\": 1}\n"
	"POST /c ? type= auth= keep=1 1.0=0 body=16:hello wide\nworld\n"
	"GET /abs ?q type= auth= keep=1 1.0=0 body=0:\n"
	"OPTIONS * ? type= auth= keep=1 1.0=0 body=0:\n"
	"HEAD /old ? type= auth= keep=1 1.0=1 body=0:\n"
	"POST /empty ? type= auth= keep=1 1.0=0 body=0:\n"
	"DELETE /end ? type= auth= keep=0 1.0=0 body=0:\n";

START_TEST(pipelined_requests_come_one_by_one)
{
	struct story story = {.used = 0};
	read_whole(stream, sizeof stream - 1, &story);
	ck_assert_str_eq(story.text, stream_told);
}
END_TEST

START_TEST(a_split_at_any_byte_changes_nothing)
{
	mode = _i; /* each test is a process of its own, or sets it */
	for (size_t at = 0; at < sizeof stream; at++) {
		struct story story = {.used = 0};
		struct http_parser *parser = new_parser();
		ck_assert(feed(parser, stream, at, &story));
		ck_assert(feed(parser, stream + at, sizeof stream - 1 - at, &story));
		ck_assert_str_eq(story.text, stream_told);
		http_parser_free(parser);
	}
}
END_TEST

START_TEST(bytes_may_come_one_at_a_time)
{
	mode = _i;
	struct story story = {.used = 0};
	struct http_parser *parser = new_parser();
	for (size_t at = 0; at < sizeof stream - 1; at++)
		ck_assert(feed(parser, stream + at, 1, &story));
	ck_assert_str_eq(story.text, stream_told);
	http_parser_free(parser);
}
END_TEST

/* --- refusals --------------------------------------------------------------------------------- */

#define HOST "Host: x\r\n"
#define TEXT(literal) literal, sizeof(literal) - 1

static const struct {
	const char *bytes;
	size_t n_bytes;
	int status;
} refused[] = {
	/* Two opinions about where the body ends. */
	{TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 3, 3\r\n\r\nabc"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: +3\r\n\r\nabc"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: -3\r\n\r\nabc"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 0x3\r\n\r\nabc"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 3 3\r\n\r\nabc"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551616\r\n\r\n"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length : 3\r\n\r\nabc"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
	 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"), 501},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), 501},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n"), 501},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\tx\r\n\r\n0\r\n\r\n"), 400},
	{TEXT("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
	{TEXT("GET / HTTP/1.1\r\n" HOST " Content-Length: 3\r\n\r\nabc"), 400},
	{TEXT("GET / HTTP/1.1\r\n" HOST "X: a\r\n folded\r\n\r\n"), 400},
	/* Lines that end otherwise than with CR LF. */
	{TEXT("GET / HTTP/1.1\n" HOST "\r\n"), 400},
	{TEXT("GET / HTTP/1.1\r\nHost: x\n\r\n"), 400},
	{TEXT("GET / HTTP/1.1\r\nHost: x\r\nA: b\n\n"), 400},
	{TEXT("GET / HTTP/1.1\r\nHost: x\rA: b\r\n\r\n"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\naX0\r\n\r\n"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\n"), 400},
	/* Chunk sizes. */
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"), 413},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3e9\r\n"), 413},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n3e8\r\n"), 413},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n-1\r\n"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n\r\n"), 400},
	/* Bytes that have no place in a head. */
	{TEXT("GET /\0 HTTP/1.1\r\n" HOST "\r\n"), 400},
	{TEXT("GET /a\x80 HTTP/1.1\r\n" HOST "\r\n"), 400},
	{TEXT("GET /a#b HTTP/1.1\r\n" HOST "\r\n"), 400},
	{TEXT("GET / HTTP/1.1\r\n" HOST "A\0: b\r\n\r\n"), 400},
	{TEXT("GET / HTTP/1.1\r\n" HOST "A: b\0c\r\n\r\n"), 400},
	{TEXT("GET / HTTP/1.1\r\n" HOST "A: b\x7f"
	      "c\r\n\r\n"),
	 400},
	{TEXT("GET / HTTP/1.1\r\n" HOST ": b\r\n\r\n"), 400},
	{TEXT("GET / HTTP/1.1\r\n" HOST "no colon\r\n\r\n"), 400},
	/* Request lines. */
	{TEXT("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400}, /* TLS spoken to a plain port */
	{TEXT("BREW / HTTP/1.1\r\n" HOST "\r\n"), 400},
	{TEXT("get / HTTP/1.1\r\n" HOST "\r\n"), 400},
	{TEXT("GET  HTTP/1.1\r\n" HOST "\r\n"), 400},
	{TEXT("GET /\r\n" HOST "\r\n"), 505},
	{TEXT("GET relative HTTP/1.1\r\n" HOST "\r\n"), 400},
	{TEXT("GET / FTP/1.1\r\n" HOST "\r\n"), 400},
	{TEXT("GET / HTTP/1.2\r\n" HOST "\r\n"), 505},
	{TEXT("GET / HTTP/0.9\r\n" HOST "\r\n"), 505},
	{TEXT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505},
	{TEXT("CONNECT x:1 HTTP/1.1\r\n" HOST "\r\n"), 501},
	{TEXT("GET / HTTP/1.1\r\n\r\n"), 400}, /* no Host */
	{TEXT("GET / HTTP/1.1\r\n" HOST HOST "\r\n"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Content-Type: a/b\r\nContent-Type: c/d\r\nContent-Length: 0\r\n\r\n"), 400},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Expect: coffee\r\nContent-Length: 1\r\n\r\na"), 417},
	{TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 1001\r\n\r\n"), 413},
};

START_TEST(what_could_be_read_two_ways_is_refused)
{
	char expected[64];
	snprintf(expected, sizeof expected, "! %d\n", refused[_i].status);
	struct story whole = {.used = 0};
	read_whole(refused[_i].bytes, refused[_i].n_bytes, &whole);
	ck_assert_msg(strcmp(whole.text, expected) == 0, "%.*s\nexpected %sgot %s", (int)refused[_i].n_bytes,
		      refused[_i].bytes, expected, whole.text);
	struct story bytewise = {.used = 0};
	struct http_parser *parser = new_parser();
	for (size_t at = 0; at < refused[_i].n_bytes && feed(parser, refused[_i].bytes + at, 1, &bytewise); at++)
		;
	ck_assert_str_eq(bytewise.text, expected);
	ck_assert(!feed(parser, TEXT("GET / HTTP/1.1\r\n" HOST "\r\n"), &bytewise)); /* refused for good */
	http_parser_free(parser);
}
END_TEST

START_TEST(a_request_before_the_refused_one_is_served)
{
	struct story story = {.used = 0};
	read_whole(TEXT("GET /good HTTP/1.1\r\n" HOST "\r\nGARBAGE\r\n\r\n"), &story);
	ck_assert_str_eq(story.text, "GET /good ? type= auth= keep=1 1.0=0 body=0:\n! 400\n");
}
END_TEST

START_TEST(nothing_is_read_after_connection_close)
{
	struct story story = {.used = 0};
	read_whole(TEXT("GET /last HTTP/1.1\r\n" HOST "Connection: close\r\n\r\nGET /more HTTP/1.1\r\n" HOST "\r\n"),
		   &story);
	ck_assert_str_eq(story.text, "GET /last ? type= auth= keep=0 1.0=0 body=0:\n! 400\n");
}
END_TEST

/* --- bounds ----------------------------------------------------------------------------------- */

static void check_target(size_t n_bytes, const char *told)
{
	char bytes[HTTP_TARGET_MAX + 100], line[HTTP_TARGET_MAX + 200];
	memset(bytes, 'a', sizeof bytes);
	bytes[0] = '/';
	int n = snprintf(line, sizeof line, "GET %.*s HTTP/1.1\r\n" HOST "\r\n", (int)n_bytes, bytes);
	struct story story = {.used = 0};
	read_whole(line, (size_t)n, &story);
	ck_assert_msg(strncmp(story.text, told, strlen(told)) == 0, "%zu bytes: %s", n_bytes, story.text);
}

START_TEST(targets_are_bounded)
{
	check_target(HTTP_TARGET_MAX, "GET /aaa");
	check_target(HTTP_TARGET_MAX + 1, "! 414");
}
END_TEST

/* A request whose header fields count exactly `header_bytes` (names, values, ": " and CR LF each). */
static void check_headers(size_t header_bytes, const char *told)
{
	char *line = malloc(header_bytes + 100);
	size_t filler = header_bytes - strlen(HOST) - strlen("X: \r\n");
	int n = sprintf(line, "GET / HTTP/1.1\r\n" HOST "X: ");
	memset(line + n, 'v', filler);
	strcpy(line + n + filler, "\r\n\r\n");
	struct story story = {.used = 0};
	read_whole(line, strlen(line), &story);
	ck_assert_msg(strncmp(story.text, told, strlen(told)) == 0, "%zu bytes: %s", header_bytes, story.text);
	free(line);
}

START_TEST(headers_are_bounded)
{
	check_headers(HTTP_HEADERS_MAX, "GET /");
	check_headers(HTTP_HEADERS_MAX + 1, "! 431");
}
END_TEST

static const char *const endless[][2] = {
	{"GET / HTTP/1.1\r\n", "A: b\r\n"},
	{"GET / HTTP/1.1\r\nA", "a"},
	{"GET / HTTP/1.1\r\nA: ", "b"},
	{"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1;", "x"},
	{"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1;a=", "x"},
	{"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n", "A: b\r\n"},
};

START_TEST(an_endless_head_or_trailer_ends)
{
	struct story story = {.used = 0};
	struct http_parser *parser = new_parser();
	ck_assert(feed(parser, endless[_i][0], strlen(endless[_i][0]), &story));
	size_t fed = 0;
	while (feed(parser, endless[_i][1], strlen(endless[_i][1]), &story)) {
		fed += strlen(endless[_i][1]);
		ck_assert_uint_le(fed, HTTP_HEADERS_MAX);
	}
	ck_assert_str_eq(story.text, "! 431\n");
	http_parser_free(parser);
}
END_TEST

START_TEST(bodies_are_bounded)
{
	char bytes[2 * MAX_BODY + 400];
	struct story full = {.used = 0};
	int n = sprintf(bytes, "POST / HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n", MAX_BODY);
	memset(bytes + n, 'b', MAX_BODY);
	read_whole(bytes, (size_t)n + MAX_BODY, &full);
	ck_assert_msg(strstr(full.text, "body=1000:bbb") != NULL, "%s", full.text);

	/* The same in chunks, then one byte more. */
	struct story chunked = {.used = 0};
	struct http_parser *parser = new_parser();
	ck_assert(feed(parser, TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"), &chunked));
	for (int i = 0; i < MAX_BODY / 4; i++)
		ck_assert(feed(parser, TEXT("4\r\nbody\r\n"), &chunked));
	ck_assert(!feed(parser, TEXT("1\r\n"), &chunked)); /* said before the byte itself is there */
	ck_assert_str_eq(chunked.text, "! 413\n");
	http_parser_free(parser);
}
END_TEST

START_TEST(a_waiting_client_is_told_to_continue)
{
	static const char head[] = "POST / HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n";
	struct http_parser *parser = new_parser();
	struct http_request request;
	int status = 0;
	ck_assert_int_eq(http_feed(parser, head, sizeof head - 2, &request, &status, NULL), HTTP_NEED_MORE);
	ck_assert_int_eq(http_feed(parser, "\n", 1, &request, &status, NULL), HTTP_CONTINUE);
	ck_assert_int_eq(http_feed(parser, "a", 1, &request, &status, NULL), HTTP_NEED_MORE); /* once */
	ck_assert_int_eq(http_feed(parser, "b", 1, &request, &status, NULL), HTTP_COMPLETE);
	ck_assert_mem_eq(request.body, "ab", 2);
	http_next(parser);
	/* The body has come with the head: the client did not wait. */
	ck_assert_int_eq(http_feed(parser,
				   TEXT("POST / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: "
					"2\r\n\r\na"),
				   &request, &status, NULL),
			 HTTP_NEED_MORE);
	http_parser_free(parser);
	/* A body that is too large is refused instead. */
	parser = new_parser();
	ck_assert_int_eq(http_feed(parser,
				   TEXT("POST / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: "
					"5000\r\n\r\n"),
				   &request, &status, NULL),
			 HTTP_BAD);
	ck_assert_int_eq(status, 413);
	http_parser_free(parser);
}
END_TEST

START_TEST(a_streamed_body_has_a_bound_of_its_own)
{
	struct http_parser *parser = new_parser();
	struct http_request request;
	int status = 0;
	http_announce(parser);
	ck_assert_int_eq(http_feed(parser, TEXT("POST /a?b HTTP/1.1\r\n" HOST "Content-Length: 5000\r\n\r\nab"),
				   &request, &status, NULL),
			 HTTP_ANNOUNCED);
	ck_assert_str_eq(request.path, "/a");
	ck_assert_str_eq(request.query, "b");
	http_stream(parser, 5000);
	ck_assert_int_eq(http_feed(parser, NULL, 0, &request, &status, NULL), HTTP_PIECE);
	ck_assert(request.body_bytes == 2 && memcmp(request.body, "ab", 2) == 0);
	char piece[4998];
	memset(piece, 'x', sizeof piece);
	for (size_t i = 0; i < 4; i++) {
		ck_assert_int_eq(http_feed(parser, piece, 1000, &request, &status, NULL), HTTP_PIECE);
		ck_assert_uint_eq(request.body_bytes, 1000);
		ck_assert_int_eq(http_feed(parser, NULL, 0, &request, &status, NULL), HTTP_NEED_MORE);
	}
	ck_assert_int_eq(http_feed(parser, piece, 998, &request, &status, NULL), HTTP_COMPLETE);
	ck_assert_str_eq(request.query, "b");
	http_next(parser);
	/* Larger than its own bound, or not streamed and larger than what is collected: refused before a byte of it. */
	for (uint64_t bound = 4999; bound; bound = bound == 4999 ? 1 : 0) {
		struct http_parser *other = new_parser();
		http_announce(other);
		ck_assert_int_eq(http_feed(other, TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 5000\r\n\r\n"),
					   &request, &status, NULL),
				 HTTP_ANNOUNCED);
		if (bound == 4999)
			http_stream(other, bound);
		ck_assert_int_eq(http_feed(other, NULL, 0, &request, &status, NULL), HTTP_BAD);
		ck_assert_int_eq(status, 413);
		http_parser_free(other);
	}
	/* Chunks count together. */
	ck_assert_int_eq(http_feed(parser,
				   TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
				   &request, &status, NULL),
			 HTTP_ANNOUNCED);
	http_stream(parser, 5);
	ck_assert_int_eq(http_feed(parser, NULL, 0, &request, &status, NULL), HTTP_PIECE);
	ck_assert_int_eq(http_feed(parser, TEXT("3\r\n"), &request, &status, NULL), HTTP_BAD);
	ck_assert_int_eq(status, 413);
	http_parser_free(parser);
}
END_TEST

START_TEST(a_client_is_told_to_continue_once_its_head_was_seen)
{
	static const char head[] = "POST / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n";
	struct http_parser *parser = new_parser();
	struct http_request request;
	int status = 0;
	http_announce(parser);
	ck_assert_int_eq(http_feed(parser, head, sizeof head - 1, &request, &status, NULL), HTTP_ANNOUNCED);
	http_stream(parser, 2);
	ck_assert_int_eq(http_feed(parser, NULL, 0, &request, &status, NULL), HTTP_CONTINUE);
	ck_assert_int_eq(http_feed(parser, "a", 1, &request, &status, NULL), HTTP_PIECE);
	ck_assert_int_eq(http_feed(parser, NULL, 0, &request, &status, NULL), HTTP_NEED_MORE);
	ck_assert_int_eq(http_feed(parser, "b", 1, &request, &status, NULL), HTTP_COMPLETE);
	http_parser_free(parser);
}
END_TEST

START_TEST(midway_is_between_first_and_last_byte)
{
	struct http_parser *parser = new_parser();
	struct http_request request;
	int status = 0;
	ck_assert(!http_is_midway(parser));
	http_feed(parser, "\r\n", 2, &request, &status, NULL);
	ck_assert(!http_is_midway(parser));
	http_feed(parser, "G", 1, &request, &status, NULL);
	ck_assert(http_is_midway(parser));
	ck_assert_int_eq(http_feed(parser, TEXT("ET / HTTP/1.1\r\n" HOST "\r\nGE"), &request, &status, NULL),
			 HTTP_COMPLETE);
	http_next(parser);
	ck_assert(http_is_midway(parser)); /* "GE" is there */
	ck_assert_int_eq(http_feed(parser, NULL, 0, &request, &status, NULL), HTTP_NEED_MORE);
	ck_assert(http_is_midway(parser));
	ck_assert_int_eq(http_feed(parser, TEXT("T / HTTP/1.1\r\n" HOST "\r\n"), &request, &status, NULL),
			 HTTP_COMPLETE);
	http_next(parser);
	ck_assert(!http_is_midway(parser));
	http_parser_free(parser);
}
END_TEST

/* --- answers ---------------------------------------------------------------------------------- */

START_TEST(heads_and_chunks_are_formatted)
{
	char out[256];
	size_t n = http_format_head(out, sizeof out, 200, "text/plain", 5, true, "A: b\r\n");
	static const char plain[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n"
				    "Connection: keep-alive\r\nA: b\r\n\r\n";
	ck_assert_uint_eq(n, sizeof plain - 1);
	ck_assert_str_eq(out, plain);
	http_format_head(out, sizeof out, 404, NULL, HTTP_CHUNKED, false, "");
	ck_assert_str_eq(out, "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
	http_format_head(out, sizeof out, 503, "", HTTP_UNTIL_CLOSE, false, "");
	ck_assert_str_eq(out, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n");
	ck_assert_uint_eq(http_format_head(out, sizeof plain - 1, 200, "text/plain", 5, true, "A: b\r\n"), 0);
	ck_assert_uint_eq(http_format_head(out, sizeof plain, 200, "text/plain", 5, true, "A: b\r\n"),
			  sizeof plain - 1);
	char chunk[20];
	ck_assert_uint_eq(http_format_chunk(chunk, 255), 4);
	ck_assert_mem_eq(chunk, "ff\r\n", 4);
	ck_assert_uint_eq(http_format_chunk(chunk, SIZE_MAX), 18);
	ck_assert_mem_eq(chunk, "ffffffffffffffff\r\n", 18);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("http");
	TCase *tcase = tcase_create("http");
	tcase_add_test(tcase, pipelined_requests_come_one_by_one);
	tcase_add_loop_test(tcase, a_split_at_any_byte_changes_nothing, WHOLE, STREAMED + 1);
	tcase_add_loop_test(tcase, bytes_may_come_one_at_a_time, WHOLE, STREAMED + 1);
	tcase_add_test(tcase, a_streamed_body_has_a_bound_of_its_own);
	tcase_add_test(tcase, a_client_is_told_to_continue_once_its_head_was_seen);
	tcase_add_loop_test(tcase, what_could_be_read_two_ways_is_refused, 0, sizeof refused / sizeof refused[0]);
	tcase_add_test(tcase, a_request_before_the_refused_one_is_served);
	tcase_add_test(tcase, nothing_is_read_after_connection_close);
	tcase_add_test(tcase, targets_are_bounded);
	tcase_add_test(tcase, headers_are_bounded);
	tcase_add_loop_test(tcase, an_endless_head_or_trailer_ends, 0, sizeof endless / sizeof endless[0]);
	tcase_add_test(tcase, bodies_are_bounded);
	tcase_add_test(tcase, a_waiting_client_is_told_to_continue);
	tcase_add_test(tcase, midway_is_between_first_and_last_byte);
	tcase_add_test(tcase, heads_and_chunks_are_formatted);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
