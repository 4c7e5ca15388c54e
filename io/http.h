/* HTTP/1.1 framing of one server connection, on llhttp: bytes in, whole requests out, response heads and chunks
 * formatted. No sockets here. Keep-alive and pipelined requests: bytes after a complete request are kept for the next
 * one. */
#ifndef WEIGHTD_IO_HTTP_H
#define WEIGHTD_IO_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

enum { HTTP_TARGET_MAX = 1024, HTTP_HEADERS_MAX = 16384 };

struct http_request {		   /* views into the parser, valid until http_next */
	const char *method;	   /* "GET" */
	const char *path;	   /* decoded of nothing, without the query, terminated */
	const char *query;	   /* after '?', "" */
	const char *content_type;  /* "" when absent */
	const char *authorization; /* "" when absent, as are all below */
	const char *origin;
	const char *if_none_match;
	const char *requested_method, *requested_headers; /* Access-Control-Request-... */
	const char *body;
	size_t body_bytes;
	bool keep_alive;
	bool is_http_1_0;
};

struct http_parser;

/* Bounds: a target past HTTP_TARGET_MAX is 414, headers past HTTP_HEADERS_MAX 431, a body past `max_body_bytes` 413
 * (said as soon as Content-Length or the received bytes tell). Returns owned. */
int http_parser_new(uint64_t max_body_bytes, struct http_parser **out);
void http_parser_free(struct http_parser *parser);

enum http_state {
	HTTP_NEED_MORE,
	HTTP_COMPLETE,
	HTTP_CONTINUE, /* client waits for "100 Continue" */
	HTTP_BAD,
	HTTP_ANNOUNCED, /* see http_announce */
	HTTP_PIECE	/* see http_stream */
};

/* From now on http_feed says HTTP_ANNOUNCED, once, of each request that has a body, when all but its body is there:
 * *out is the request without it. Go on with http_feed(…, NULL, 0, …), perhaps after http_stream. */
void http_announce(struct http_parser *parser);
/* After HTTP_ANNOUNCED: this request's body is not collected, but handed out in pieces as it comes, and may have so
 * many bytes in place of max_body_bytes. Each HTTP_PIECE has the next piece as *out's body; go on with http_feed(…,
 * NULL, 0, …). HTTP_COMPLETE has the last one, which may be empty. */
void http_stream(struct http_parser *parser, uint64_t max_body_bytes);

/* Takes received bytes (n_bytes may be 0: looks at what is left over from before). HTTP_COMPLETE: *out is a whole
 * request; nothing more may be fed until http_next. HTTP_BAD: *status is the HTTP status to answer with before closing,
 * err->text the reason; the parser stays in that state.
 *
 * Strict on purpose (RFC 9112), since a proxy in front may read a lenient request differently: no bare LF, no folded or
 * doubled framing header, Content-Length or Transfer-Encoding but never both, "chunked" as the only coding, one Host.
 */
enum http_state http_feed(struct http_parser *parser, const char *bytes, size_t n_bytes, struct http_request *out,
			  int *status, struct err *err);
/* The Origin of the request that is being read, also of one that is refused; "" when absent. View, as those. */
const char *http_origin(const struct http_parser *parser);
/* Lets go of the request handed out; call http_feed(…, NULL, 0, …) next. Gives a large body's memory back. */
void http_next(struct http_parser *parser);
/* Bytes of a request have come that is not complete yet (an idle connection and a slow one are not the same). */
bool http_is_midway(const struct http_parser *parser);

/* "HTTP/1.1 200 OK\r\n…\r\n\r\n" into `out` [size]; returns its length, or 0 when it does not fit. `n_body` of
 * HTTP_CHUNKED announces a chunked body, HTTP_UNTIL_CLOSE one that ends with the connection (for HTTP/1.0). `extra`:
 * further header lines, each ending with \r\n, or "". */
#define HTTP_CHUNKED UINT64_MAX
#define HTTP_UNTIL_CLOSE (UINT64_MAX - 1)
size_t http_format_head(char *out, size_t size, int status, const char *content_type, uint64_t n_body, bool keep_alive,
			const char *extra);
/* "<hex>\r\n" before a chunk's bytes; "\r\n" follows them; "0\r\n\r\n" ends the body. Returns the length. */
size_t http_format_chunk(char out[20], size_t n_bytes);
const char *http_reason(int status);

#endif
