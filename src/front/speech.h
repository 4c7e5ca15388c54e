/* One request to hear speech, from its head to the end of its answer.
 *
 *      client ── form, piece by piece ──▶ fields: src/api/speech_request
 *                                         file ──▶ an audio process (src/front/audio.h)
 *      worker ◀── a call, rows of log-mel as it wants them ── speech ◀── rows of log-mel
 *             ── language, segments ──▶ src/api/speech_answer ──▶ client
 *
 * Nothing of the file is kept here, and of its rows only what the worker is about to be sent: an audio process that is
 * ahead of it is paused. Whatever ends first, the client, the audio process or the worker, takes the others with it. */
#ifndef WEIGHTD_SRC_FRONT_SPEECH_H
#define WEIGHTD_SRC_FRONT_SPEECH_H

#include <stddef.h>
#include <stdint.h>

#include "src/api/error.h"
#include "src/front/call.h"
#include "src/front/metrics.h"
#include "src/record.h"

struct connection;
struct front;
struct http_request;
struct speech;

enum { SPEECH_FORM_BYTES = 1 << 20 /* of a form beside its file: fields and heads of parts */ };

/* Within the connection's `head`, of a request that may be made: streams its body. */
void speech_start(struct front *front, struct connection *connection, enum front_route route,
		  const struct http_request *http);
/* The connection's `body` and `body_end`, and `refused` while its answerer is still set. */
void speech_body(struct connection *connection, const char *bytes, size_t n_bytes);
void speech_body_end(struct connection *connection);
void speech_refused(struct connection *connection, const struct api_error *error);
/* At the end: lets go of all. */
void speech_fini(struct front *front);

/* What workers say of a call that still has its speech. After these, but not after the first three, the speech may be
 * gone; _language and _segment return -EPROTO where they come out of turn. */
int speech_language(struct front_call *call, const struct call_language *language);
int speech_segment(struct front_call *call, const struct record_segment *segment);
void speech_want(struct front_call *call);
void speech_done(struct front_call *call, const struct record_done *done);
void speech_failed(struct front_call *call, const struct api_error *error);

#endif
