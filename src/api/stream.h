/* An answer as server-sent events ("data: {…}\n\n"), as OpenAI's API streams: chunks of the choices as they grow, a
 * last chunk with the reason for the end of each, the usage if asked for, and "data: [DONE]". After an error event
 * nothing more comes, so that a cut answer never looks complete. Responses have events of their own (response.h). */
#ifndef WEIGHTD_SRC_API_STREAM_H
#define WEIGHTD_SRC_API_STREAM_H

#include "src/api/answer.h"

#define API_STREAM_TYPE "text/event-stream"

/* A choice begins: a chat's first delta says the role. Writes nothing for completions. */
void api_stream_begin(struct api_answer *answer, uint32_t index, struct api_json *out);
/* What came for a choice since the last time, as one event; nothing if nothing did. */
void api_stream_news(struct api_answer *answer, uint32_t index, struct api_json *out);
/* The choice is done: its news, then an event with its finish_reason. */
void api_stream_finish(struct api_answer *answer, uint32_t index, struct api_json *out);
/* All choices are done. */
void api_stream_end(const struct api_answer *answer, struct api_json *out);
void api_stream_error(struct api_answer *answer, const struct api_error *error, struct api_json *out);

#endif
