/* /v1/responses: a chat in other words. The call is that of a chat completion; what is written here is the same choice,
 * as a response object or as its events.
 *
 *     output    [reasoning] [function_call ...] [message] [function_call ...]
 *
 * in the order in which the parts first appeared: a message stands where its first text came between calls, and text
 * after later calls goes on with it, as the content of a chat does. Without any call there is a message, be it empty.
 * Events follow that order, each part's delta events giving its text together, and what they said is said again as a
 * whole when it is done. So a stream keeps the whole answer (a chat's forgets what was sent), and remembers how far
 * each part was sent.
 *
 * Nothing is stored: `store` is always false, and there is nothing to retrieve or to go on from. */
#ifndef WEIGHTD_SRC_API_RESPONSE_H
#define WEIGHTD_SRC_API_RESPONSE_H

#include "src/api/fields.h"

struct api_answer;
struct api_error;

api_field_reader api_read_response_value, api_read_metadata, api_read_include, api_read_reasoning;
/* Once all fields are read: messages, tools and formats as a chat has them. */
int api_response_settle(struct api_request *request, struct api_error *error);

/* The members of a response that say the request again, each with a comma in front. */
void api_response_write_echo(const struct api_request *request, struct api_json *out);

/* How far a stream has come. */
struct api_response_stream {
	uint64_t sequence;			     /* of the next event */
	size_t text, logprobs, reasoning, arguments; /* bytes sent: of the message, and of the call that is open */
	uint32_t n_calls;			     /* begun */
	bool created, reasoning_open, message_open, call_open;
	bool reasoning_done;
};

void api_response_write(const struct api_answer *answer, struct api_json *out);
/* As api_stream.h has it; a response has one choice. */
void api_response_begin(struct api_answer *answer, struct api_json *out);
void api_response_news(struct api_answer *answer, struct api_json *out);
void api_response_finish(struct api_answer *answer, struct api_json *out);
void api_response_fail(struct api_answer *answer, const struct api_error *error, struct api_json *out);

#endif
