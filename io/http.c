/* HTTP/1.1 framing on llhttp: its callbacks collect one request at a time.
 *
 *   bytes --> llhttp --on_url-----------> target
 *                    --on_header_*------> values of the few fields that matter, one after the other in `head`
 *                    --on_body----------> body
 *                    --on_message_complete: pauses llhttp; what follows in the same bytes goes to `pending`
 *
 * Every bound is checked in the callback that would cross it, so no more is ever stored than the bound allows and the
 * refusal comes with the first byte too many (or with the Content-Length or chunk size that promises one). */
#include "io/http.h"

#include <assert.h>
#include <errno.h>
#include <llhttp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { KEPT_BYTES = 16384 /* buffers grown past this are given back between requests */ };

enum field {
	CONTENT_TYPE,
	AUTHORIZATION,
	EXPECT,
	HOST,
	TRANSFER_ENCODING,
	ORIGIN,
	IF_NONE_MATCH,
	REQUESTED_METHOD,
	REQUESTED_HEADERS,
	N_FIELDS,
	NOT_KEPT = N_FIELDS
};

static const char *const field_names[N_FIELDS] = {
	[CONTENT_TYPE] = "content-type",
	[AUTHORIZATION] = "authorization",
	[EXPECT] = "expect",
	[HOST] = "host",
	[TRANSFER_ENCODING] = "transfer-encoding",
	[ORIGIN] = "origin",
	[IF_NONE_MATCH] = "if-none-match",
	[REQUESTED_METHOD] = "access-control-request-method",
	[REQUESTED_HEADERS] = "access-control-request-headers",
};

/* Bytes that grow; always room for a terminator after `used`. */
struct text {
	char *bytes;
	size_t used, capacity;
};

struct http_parser {
	llhttp_t llhttp;
	llhttp_settings_t settings;
	uint64_t max_body_bytes; /* of a body that is collected */
	bool announce;

	char target[HTTP_TARGET_MAX + 1];
	size_t target_bytes;
	const char *query;	/* in `target` */
	struct text head;	/* the kept values, each terminated */
	size_t value[N_FIELDS]; /* where in `head`; ABSENT */
	enum field field;	/* of the value being read */
	char name[32];		/* of the field being read; longer names are none of ours */
	size_t name_bytes;
	size_t header_bytes; /* names, values and their separators so far, trailers and chunk extensions included */
	struct text body;    /* of one that is streamed: the piece at hand */
	uint64_t body_bytes, body_limit;
	struct text pending; /* received, not parsed yet */

	bool begun, version_read, headers_complete, complete, keep_alive;
	bool wants_continue;
	bool at_head, streams; /* llhttp pauses behind the header fields; the body comes in pieces */
	int status;	       /* of the refusal; 0: none */
	const char *reason;
};

static const size_t ABSENT = SIZE_MAX;

/* --- text ------------------------------------------------------------------------------------- */

static int text_append(struct text *text, const char *bytes, size_t n_bytes)
{
	size_t needed;
	if (__builtin_add_overflow(text->used, n_bytes, &needed) || __builtin_add_overflow(needed, 1, &needed))
		return -ENOMEM;
	if (needed > text->capacity) {
		size_t capacity = text->capacity ? text->capacity : 256;
		while (capacity < needed)
			if (__builtin_mul_overflow(capacity, 2, &capacity))
				return -ENOMEM;
		char *grown = realloc(text->bytes, capacity);
		if (!grown)
			return -ENOMEM;
		text->bytes = grown;
		text->capacity = capacity;
	}
	if (n_bytes)
		memcpy(text->bytes + text->used, bytes, n_bytes);
	text->used += n_bytes;
	text->bytes[text->used] = '\0';
	return 0;
}

static void text_drop_front(struct text *text, size_t n_bytes)
{
	if (n_bytes && n_bytes < text->used)
		memmove(text->bytes, text->bytes + n_bytes, text->used - n_bytes);
	text->used -= n_bytes;
	if (text->bytes)
		text->bytes[text->used] = '\0';
}

static void text_clear(struct text *text)
{
	text->used = 0;
	if (text->capacity > KEPT_BYTES) {
		free(text->bytes);
		*text = (struct text){0};
	}
}

/* --- llhttp's callbacks ----------------------------------------------------------------------- */

static struct http_parser *parser_of(llhttp_t *llhttp)
{
	return llhttp->data;
}

/* Refuses the request and stops llhttp. */
static int refuse(struct http_parser *parser, int status, const char *reason)
{
	parser->status = status;
	parser->reason = reason;
	return -1;
}

static int on_message_begin(llhttp_t *llhttp)
{
	parser_of(llhttp)->begun = true;
	return 0;
}

static int on_url(llhttp_t *llhttp, const char *at, size_t n_bytes)
{
	struct http_parser *parser = parser_of(llhttp);
	if (n_bytes > HTTP_TARGET_MAX - parser->target_bytes)
		return refuse(parser, 414, "the request target is too long");
	for (size_t i = 0; i < n_bytes; i++)
		if (at[i] <= ' ' || at[i] >= 0x7f || at[i] == '#')
			return refuse(parser, 400, "the request target holds a byte that is not allowed there");
	memcpy(parser->target + parser->target_bytes, at, n_bytes);
	parser->target_bytes += n_bytes;
	return 0;
}

static int on_version_complete(llhttp_t *llhttp)
{
	parser_of(llhttp)->version_read = true;
	return 0;
}

static int count_header_bytes(struct http_parser *parser, size_t n_bytes)
{
	if (n_bytes > HTTP_HEADERS_MAX - parser->header_bytes)
		return refuse(parser, 431, "the header fields are too large");
	parser->header_bytes += n_bytes;
	return 0;
}

static int on_header_field(llhttp_t *llhttp, const char *at, size_t n_bytes)
{
	struct http_parser *parser = parser_of(llhttp);
	if (count_header_bytes(parser, n_bytes) != 0)
		return -1;
	for (size_t i = 0; i < n_bytes && parser->name_bytes < sizeof parser->name; i++)
		parser->name[parser->name_bytes++] = at[i];
	return 0;
}

static int on_header_field_complete(llhttp_t *llhttp)
{
	struct http_parser *parser = parser_of(llhttp);
	parser->field = NOT_KEPT;
	for (unsigned i = 0; i < N_FIELDS && !parser->headers_complete; i++) /* a trailer decides nothing */
		if (parser->name_bytes == strlen(field_names[i]) &&
		    strncasecmp(parser->name, field_names[i], parser->name_bytes) == 0)
			parser->field = (enum field)i;
	parser->name_bytes = 0;
	if (parser->field != NOT_KEPT) {
		if (parser->value[parser->field] != ABSENT)
			return refuse(parser, 400, "a header field that must be single is there twice");
		parser->value[parser->field] = parser->head.used;
	}
	return count_header_bytes(parser, strlen(": \r\n"));
}

static int on_header_value(llhttp_t *llhttp, const char *at, size_t n_bytes)
{
	struct http_parser *parser = parser_of(llhttp);
	if (count_header_bytes(parser, n_bytes) != 0)
		return -1;
	if (parser->field != NOT_KEPT && text_append(&parser->head, at, n_bytes) != 0)
		return refuse(parser, 503, "out of memory");
	return 0;
}

static int on_header_value_complete(llhttp_t *llhttp)
{
	struct http_parser *parser = parser_of(llhttp);
	if (parser->field == NOT_KEPT)
		return 0;
	struct text *head = &parser->head;
	while (head->used > parser->value[parser->field] &&
	       (head->bytes[head->used - 1] == ' ' || head->bytes[head->used - 1] == '\t'))
		head->used--;
	return text_append(head, "", 1) == 0 ? 0 : refuse(parser, 503, "out of memory");
}

static const char *value_of(const struct http_parser *parser, enum field field)
{
	return parser->value[field] == ABSENT ? "" : parser->head.bytes + parser->value[field];
}

const char *http_origin(const struct http_parser *parser)
{
	return value_of(parser, ORIGIN);
}

static int check_target(struct http_parser *parser)
{
	char *target = parser->target;
	target[parser->target_bytes] = '\0';
	if (strncasecmp(target, "http://", 7) == 0) { /* absolute form, as sent to proxies: the path is what counts */
		size_t authority = strcspn(target + 7, "/?");
		const char *rest = target + 7 + authority;
		size_t slash = *rest != '/'; /* "http://host?query" has the path "/" */
		memmove(target + slash, rest, strlen(rest) + 1);
		if (slash)
			target[0] = '/';
	}
	if (target[0] != '/' && strcmp(target, "*") != 0)
		return refuse(parser, 400, "the request target is not a path");
	char *query = strchr(target, '?');
	parser->query = query ? query + 1 : "";
	if (query)
		*query = '\0';
	return 0;
}

/* `promised`: bytes that are to come beside those that came. */
static int check_size(struct http_parser *parser, uint64_t promised)
{
	if (promised > parser->body_limit - parser->body_bytes)
		return refuse(parser, 413, "the request body is too large");
	return 0;
}

static int on_headers_complete(llhttp_t *llhttp)
{
	struct http_parser *parser = parser_of(llhttp);
	parser->headers_complete = true;
	bool is_1_1 = llhttp_get_http_major(llhttp) == 1 && llhttp_get_http_minor(llhttp) == 1;
	bool is_1_0 = llhttp_get_http_major(llhttp) == 1 && llhttp_get_http_minor(llhttp) == 0;
	if (!is_1_1 && !is_1_0)
		return refuse(parser, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
	if (llhttp_get_method(llhttp) == HTTP_CONNECT)
		return refuse(parser, 501, "CONNECT is not served");
	if (is_1_1 && parser->value[HOST] == ABSENT)
		return refuse(parser, 400, "an HTTP/1.1 request needs a Host field");
	if (check_target(parser) != 0)
		return -1;
	if (parser->value[TRANSFER_ENCODING] != ABSENT) {
		if (is_1_0)
			return refuse(parser, 400, "HTTP/1.0 has no Transfer-Encoding");
		if (strcasecmp(value_of(parser, TRANSFER_ENCODING), "chunked") != 0)
			return refuse(parser, 501, "the only transfer coding served is chunked");
	}
	if (parser->value[EXPECT] != ABSENT) {
		if (strcasecmp(value_of(parser, EXPECT), "100-continue") != 0)
			return refuse(parser, 417, "the only expectation known is 100-continue");
		parser->wants_continue = is_1_1;
	}
	llhttp->upgrade = 0; /* an offer to change the protocol may be ignored (RFC 9110, 7.8), and is */
	parser->keep_alive = llhttp_should_keep_alive(llhttp) != 0;
	parser->at_head = parser->announce && (llhttp->content_length || parser->value[TRANSFER_ENCODING] != ABSENT);
	return parser->at_head ? HPE_PAUSED : check_size(parser, llhttp->content_length);
}

static int on_chunk_header(llhttp_t *llhttp)
{
	return check_size(parser_of(llhttp), llhttp->content_length); /* here: the size of this chunk */
}

static int on_chunk_extension(llhttp_t *llhttp, const char *at, size_t n_bytes)
{
	(void)at;
	return count_header_bytes(parser_of(llhttp), n_bytes);
}

static int on_body(llhttp_t *llhttp, const char *at, size_t n_bytes)
{
	struct http_parser *parser = parser_of(llhttp);
	if (check_size(parser, n_bytes) != 0)
		return -1;
	if (text_append(&parser->body, at, n_bytes) != 0)
		return refuse(parser, 503, "out of memory");
	parser->body_bytes += n_bytes;
	return 0;
}

static int on_message_complete(llhttp_t *llhttp)
{
	struct http_parser *parser = parser_of(llhttp);
	parser->complete = true;
	parser->keep_alive = llhttp_should_keep_alive(llhttp) != 0;
	return HPE_PAUSED;
}

/* --- the parser ------------------------------------------------------------------------------- */

static void begin_request(struct http_parser *parser)
{
	parser->target_bytes = parser->name_bytes = parser->header_bytes = 0;
	for (unsigned i = 0; i < N_FIELDS; i++)
		parser->value[i] = ABSENT;
	parser->field = NOT_KEPT;
	parser->begun = parser->version_read = parser->headers_complete = parser->complete = parser->wants_continue =
		false;
	parser->at_head = parser->streams = false;
	parser->query = "";
	parser->body_bytes = 0;
	parser->body_limit = parser->max_body_bytes;
	text_clear(&parser->head);
	text_clear(&parser->body);
}

int http_parser_new(uint64_t max_body_bytes, struct http_parser **out)
{
	struct http_parser *parser = calloc(1, sizeof *parser);
	if (!parser)
		return -ENOMEM;
	parser->max_body_bytes = max_body_bytes;
	llhttp_settings_init(&parser->settings);
	parser->settings.on_message_begin = on_message_begin;
	parser->settings.on_url = on_url;
	parser->settings.on_version_complete = on_version_complete;
	parser->settings.on_header_field = on_header_field;
	parser->settings.on_header_field_complete = on_header_field_complete;
	parser->settings.on_header_value = on_header_value;
	parser->settings.on_header_value_complete = on_header_value_complete;
	parser->settings.on_headers_complete = on_headers_complete;
	parser->settings.on_chunk_header = on_chunk_header;
	parser->settings.on_chunk_extension_name = on_chunk_extension;
	parser->settings.on_chunk_extension_value = on_chunk_extension;
	parser->settings.on_body = on_body;
	parser->settings.on_message_complete = on_message_complete;
	llhttp_init(&parser->llhttp, HTTP_REQUEST, &parser->settings);
	parser->llhttp.data = parser;
	begin_request(parser);
	*out = parser;
	return 0;
}

void http_parser_free(struct http_parser *parser)
{
	if (!parser)
		return;
	free(parser->head.bytes);
	free(parser->body.bytes);
	free(parser->pending.bytes);
	free(parser);
}

/* Gives bytes to llhttp until it has a whole request; *consumed is what that took. */
static void execute(struct http_parser *parser, const char *bytes, size_t n_bytes, size_t *consumed)
{
	llhttp_errno_t code = llhttp_execute(&parser->llhttp, bytes, n_bytes);
	*consumed = n_bytes;
	if (code == HPE_OK)
		return;
	if (code == HPE_PAUSED && (parser->complete || parser->at_head))
		*consumed = (size_t)(llhttp_get_error_pos(&parser->llhttp) - bytes);
	else if (parser->status == 0) {
		/* llhttp calls a line that does not end after a known version an invalid version, too. */
		bool other_version =
			(code == HPE_INVALID_VERSION && !parser->version_read) || code == HPE_PAUSED_H2_UPGRADE;
		refuse(parser, other_version ? 505 : 400, llhttp_get_error_reason(&parser->llhttp));
	}
}

static void consume(struct http_parser *parser, const char *bytes, size_t n_bytes)
{
	size_t consumed = 0;
	int rc = 0;
	if (parser->pending.used == 0) {
		if (n_bytes)
			execute(parser, bytes, n_bytes, &consumed);
		if (consumed < n_bytes)
			rc = text_append(&parser->pending, bytes + consumed, n_bytes - consumed);
	} else {
		rc = text_append(&parser->pending, bytes, n_bytes);
		if (rc == 0)
			execute(parser, parser->pending.bytes, parser->pending.used, &consumed);
		text_drop_front(&parser->pending, consumed);
		if (parser->pending.used == 0)
			text_clear(&parser->pending);
	}
	if (rc != 0)
		refuse(parser, 503, "out of memory");
}

static void hand_out(struct http_parser *parser, struct http_request *out)
{
	*out = (struct http_request){
		.method = llhttp_method_name((llhttp_method_t)llhttp_get_method(&parser->llhttp)),
		.path = parser->target,
		.query = parser->query,
		.content_type = value_of(parser, CONTENT_TYPE),
		.authorization = value_of(parser, AUTHORIZATION),
		.origin = value_of(parser, ORIGIN),
		.if_none_match = value_of(parser, IF_NONE_MATCH),
		.requested_method = value_of(parser, REQUESTED_METHOD),
		.requested_headers = value_of(parser, REQUESTED_HEADERS),
		.body = parser->body.bytes ? parser->body.bytes : "",
		.body_bytes = parser->body.used,
		.keep_alive = parser->keep_alive,
		.is_http_1_0 = llhttp_get_http_minor(&parser->llhttp) == 0,
	};
}

void http_announce(struct http_parser *parser)
{
	parser->announce = true;
}

void http_stream(struct http_parser *parser, uint64_t max_body_bytes)
{
	assert(parser->at_head);
	parser->streams = true;
	parser->body_limit = max_body_bytes;
}

/* On behind a head that was handed out: now its body's bound is known. */
static void leave_head(struct http_parser *parser)
{
	parser->at_head = false;
	if (check_size(parser, parser->llhttp.content_length) == 0)
		llhttp_resume(&parser->llhttp);
}

enum http_state http_feed(struct http_parser *parser, const char *bytes, size_t n_bytes, struct http_request *out,
			  int *status, struct err *err)
{
	assert(!parser->complete || parser->status != 0);
	if (parser->at_head && parser->status == 0)
		leave_head(parser);
	if (parser->streams && parser->body.bytes)
		text_drop_front(&parser->body, parser->body.used); /* the piece has been taken */
	if (parser->status == 0)
		consume(parser, bytes, n_bytes);
	if (parser->status != 0) {
		*status = parser->status;
		err_set(err, 0, "%s", parser->reason);
		return HTTP_BAD;
	}
	if (parser->complete || parser->at_head || (parser->streams && parser->body.used)) {
		hand_out(parser, out);
		return parser->complete ? HTTP_COMPLETE : parser->at_head ? HTTP_ANNOUNCED : HTTP_PIECE;
	}
	if (parser->wants_continue) {
		parser->wants_continue = false;
		if (parser->body_bytes == 0) /* a body that has begun needs no invitation */
			return HTTP_CONTINUE;
	}
	return HTTP_NEED_MORE;
}

void http_next(struct http_parser *parser)
{
	if (!parser->complete)
		return;
	begin_request(parser);
	llhttp_resume(&parser->llhttp);
}

bool http_is_midway(const struct http_parser *parser)
{
	return (parser->begun && !parser->complete) || parser->pending.used > 0;
}

/* --- answers ---------------------------------------------------------------------------------- */

size_t http_format_head(char *out, size_t size, int status, const char *content_type, uint64_t n_body, bool keep_alive,
			const char *extra)
{
	char length[64] = "";
	if (n_body == HTTP_CHUNKED)
		snprintf(length, sizeof length, "Transfer-Encoding: chunked\r\n");
	else if (n_body != HTTP_UNTIL_CLOSE && status != 204 && status != 304) /* which have no body, nor its length */
		snprintf(length, sizeof length, "Content-Length: %llu\r\n", (unsigned long long)n_body);
	bool typed = content_type && *content_type;
	int n = snprintf(out, size, "HTTP/1.1 %03d %s\r\n%s%s%s%sConnection: %s\r\n%s\r\n", status, http_reason(status),
			 typed ? "Content-Type: " : "", typed ? content_type : "", typed ? "\r\n" : "", length,
			 keep_alive ? "keep-alive" : "close", extra ? extra : "");
	return n < 0 || (size_t)n >= size ? 0 : (size_t)n;
}

size_t http_format_chunk(char out[20], size_t n_bytes)
{
	return (size_t)snprintf(out, 20, "%zx\r\n", n_bytes); /* 16 digits at most */
}

const char *http_reason(int status)
{
	static const struct {
		int status;
		const char *reason;
	} reasons[] = {
		{100, "Continue"},
		{200, "OK"},
		{204, "No Content"},
		{304, "Not Modified"},
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{408, "Request Timeout"},
		{413, "Content Too Large"},
		{414, "URI Too Long"},
		{415, "Unsupported Media Type"},
		{417, "Expectation Failed"},
		{422, "Unprocessable Content"},
		{429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"},
		{500, "Internal Server Error"},
		{501, "Not Implemented"},
		{502, "Bad Gateway"},
		{503, "Service Unavailable"},
		{504, "Gateway Timeout"},
		{505, "HTTP Version Not Supported"},
	};
	for (unsigned i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Unknown";
}
