/* The answer to a request: what OpenAI's clients expect to read, and our own small objects for tokenize, detokenize and
 * apply-template. Whole (api_answer_write) or as server-sent events (api_stream.h). */
#ifndef WEIGHTD_SRC_API_ANSWER_H
#define WEIGHTD_SRC_API_ANSWER_H

#include "src/api/choice.h"
#include "src/api/request.h"
#include "src/api/response.h"

struct api_answer {
	enum api_endpoint endpoint;
	struct api_shape shape;
	bool stream, include_usage;
	bool base64;		    /* how an embedding is written */
	char id[48];		    /* "cmpl-…", "chatcmpl-…" */
	char model[128];	    /* that answers */
	uint64_t created;	    /* Unix seconds */
	uint64_t salt;		    /* random: of the ids of tool calls */
	struct api_choice *choices; /* [n_choices] one per call; owned */
	uint32_t n_choices;
	struct api_json echo; /* of a response: what it says of its request; owned */
	struct api_response_stream events;
	uint32_t n_per_prompt; /* choices that share a prompt, next to each other */
};

/* `created` is the time to say, Unix seconds. 0, -ENOMEM, or -EIO when the system has no random numbers for an id. */
int api_answer_init(struct api_answer *answer, const struct api_request *request, const char *model, uint64_t created);
void api_answer_fini(struct api_answer *answer);

/* The worker of choice `index` has taken its call. */
void api_answer_accepted(struct api_answer *answer, uint32_t index, const struct call_accepted *accepted);

/* Choice `index` has ended. */
void api_answer_done(struct api_answer *answer, uint32_t index, const struct record_done *done);

/* The whole body, once all choices are done. Out of memory shows as out->failed. */
void api_answer_write(const struct api_answer *answer, struct api_json *out);

/* Pieces that api_stream.c writes the same way. */
void api_answer_write_head(const struct api_answer *answer, const char *object, struct api_json *out);
void api_answer_write_usage(const struct api_answer *answer, struct api_json *out);
/* ,"NAME":[ids], where the client asked for ids */
void api_answer_write_ids(const struct api_answer *answer, const char *name, const struct api_json *ids,
			  struct api_json *out);

#endif
