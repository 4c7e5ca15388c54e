/* The first byte says which endpoint's body follows, or a worker's record. A body is refused with a 4xx, or makes calls
 * that keep every range src/call.h promises; whatever tokens a record reports, the answer is valid JSON. */
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "src/api/stream.h"
#include "tests/fuzz/fuzz.h"

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void check_json(const char *text, size_t n_bytes)
{
	yyjson_doc *document = yyjson_read(text, n_bytes, 0);
	must(document);
	yyjson_doc_free(document);
}

static void check_call(const struct call_begin *b, const struct api_json *bytes)
{
	must(b->kind >= CALL_KIND_CHAT && b->kind <= CALL_KIND_TEMPLATE);
	must(bytes->n == b->prompt_bytes + b->stop_bytes + 4ull * b->forced_ids + b->variables_bytes);
	must(b->n_logprobs <= CALL_LOGPROBS_MAX && b->n_stops <= CALL_STOPS_MAX);
	must(b->temperature >= 0 && b->temperature <= 2 && b->top_p > 0 && b->top_p <= 1);
	must(b->min_p >= 0 && b->min_p < 1 && b->repeat_penalty >= 0.1f && b->repeat_penalty <= 10);
	must(b->presence_penalty >= -2 && b->presence_penalty <= 2);
	must(b->frequency_penalty >= -2 && b->frequency_penalty <= 2);
	must(b->forced_ids <= b->max_tokens);
	const char *stop = bytes->bytes + b->prompt_bytes;
	for (uint32_t i = 0; i < b->n_stops; i++) {
		size_t n = strnlen(stop, (size_t)(bytes->bytes + b->prompt_bytes + b->stop_bytes - stop));
		must(n >= 1 && n <= CALL_STOP_BYTES_MAX);
		stop += n + 1;
	}
	must(stop == bytes->bytes + b->prompt_bytes + b->stop_bytes);
	if (b->kind == CALL_KIND_CHAT || b->kind == CALL_KIND_TEMPLATE)
		check_json(bytes->bytes, b->prompt_bytes);
	if (b->variables_bytes)
		check_json(bytes->bytes + bytes->n - b->variables_bytes, b->variables_bytes);
}

static void fuzz_body(enum api_endpoint endpoint, const char *body, size_t n_bytes)
{
	struct api_request request;
	struct api_error error = {0};
	if (api_request_read(&request, endpoint, body, n_bytes, &error)) {
		struct api_json out = {0};
		must(error.status == 400 && error.message[0]);
		api_error_write(&error, &out);
		check_json(out.bytes, out.n);
		api_json_fini(&out);
	} else {
		for (uint32_t i = 0; i < api_request_n_calls(&request); i++) {
			struct call_begin begin;
			struct api_json bytes = {0};
			api_request_call(&request, i, &begin, &bytes);
			api_json_raw(&bytes, "", 1); /* never an empty buffer */
			bytes.n--;
			check_call(&begin, &bytes);
			api_json_fini(&bytes);
		}
	}
	api_request_fini(&request);
}

static void fuzz_record(const char *payload, size_t n_bytes)
{
	static const char *const bodies[] = {
		"{\"prompt\":\"x\",\"logprobs\":20,\"echo\":true,\"return_token_ids\":true}",
		"{\"messages\":[{\"role\":\"u\",\"content\":\"\"}],\"logprobs\":true,\"top_logprobs\":20,\"return_"
		"token_ids\":true}",
	};
	struct record_token token;
	struct record_done done;
	struct record_failed failed;
	record_read_failed(payload, n_bytes, &failed);
	if (record_read_token(payload, n_bytes, &token))
		return;
	for (int chat = 0; chat < 2; chat++) {
		struct api_request request;
		struct api_answer answer;
		struct api_error error;
		struct api_json out = {0};
		must(!api_request_read(&request, chat ? API_CHAT : API_COMPLETION, bodies[chat], strlen(bodies[chat]),
				       &error));
		must(!api_answer_init(&answer, &request, "m", 0));
		api_choice_token(&answer.choices[0], &answer.shape, &token);
		api_choice_token(&answer.choices[0], &answer.shape, &token);
		if (!record_read_done(payload, n_bytes, &done))
			api_choice_done(&answer.choices[0], &done);
		api_answer_write(&answer, &out);
		check_json(out.bytes, out.n);
		api_json_reset(&out);
		api_stream_news(&answer, 0, &out);
		const char *event = out.n ? memchr(out.bytes, '{', out.n) : NULL;
		while (event) { /* each line of the stream is one document */
			const char *end = memchr(event, '\n', (size_t)(out.bytes + out.n - event));
			check_json(event, (size_t)(end - event));
			event = memchr(end, '{', (size_t)(out.bytes + out.n - end));
		}
		api_json_fini(&out);
		api_answer_fini(&answer);
		api_request_fini(&request);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static const enum api_endpoint endpoints[] = {API_CHAT, API_COMPLETION, API_TOKENIZE, API_DETOKENIZE,
						      API_TEMPLATE};
	enum { N = sizeof endpoints / sizeof *endpoints };
	if (n_bytes < 1)
		return 0;
	unsigned which = bytes[0] % (N + 1);
	if (which < N)
		fuzz_body(endpoints[which], (const char *)bytes + 1, n_bytes - 1);
	else
		fuzz_record((const char *)bytes + 1, n_bytes - 1);
	return 0;
}
