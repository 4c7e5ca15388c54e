/* Requests to hear speech: the test is the client, the audio process and the worker. */
#include <check.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/audio/wire.h"
#include "tests/unit/front_rig.h"
#include "tests/unit/suite.h"

enum { BINS = 80 };

static struct rig rig;
static struct channel_fds fds;
static struct channel audio; /* the audio process's side */

static void audio_up(void)
{
	struct err err;
	struct message_audio_up up = {0};
	fds = (struct channel_fds){-1, -1, -1};
	ck_assert_msg(channel_create(&fds, &err) == 0, "%s", err.text);
	ck_assert_int_eq(channel_attach(&fds, CHANNEL_WORKER, &audio, &err), 0);
	int sent[3] = {fds.memory, fds.to_worker, fds.to_front};
	ck_assert_int_eq(message_send(rig.control, MESSAGE_AUDIO_UP, &up, sizeof up, sent, 3), 0);
}

/* Both models are configured, and served. */
static void tell_state(void)
{
	struct message_state state = {.n_models = 2, .n_nodes = 1};
	state.model[0] = (struct message_model){.name = "small", .standing = STANDING_SERVED};
	state.model[1] = (struct message_model){.name = "hears", .standing = STANDING_SERVED};
	ck_assert_int_eq(message_send(rig.control, MESSAGE_STATE, &state, sizeof state, NULL, 0), 0);
}

static void begin(void)
{
	rig_serve(&rig, IO_EPOLL, 8);
	tell_state();
	audio_up();
	rig_worker_up(&rig, 1, "hears");
}

static void end(void)
{
	rig_stop(&rig);
	channel_detach(&audio);
	channel_close(&fds);
}

/* --- the audio process ------------------------------------------------------------------------ */

static void audio_record(struct rig_record *out)
{
	struct channel_record record;
	int rc = 0;
	for (int i = 0; i < WAIT_S * 1000 && rc == 0; i++) {
		rc = channel_read(&audio, &record);
		if (rc == 0)
			usleep(1000);
	}
	ck_assert_msg(rc == 1, "no record for the audio process");
	out->type = record.type;
	out->call = record.call;
	out->n_bytes = record.n_bytes;
	if (record.n_bytes)
		memcpy(out->payload, record.payload, record.n_bytes);
	channel_next(&audio);
	channel_ring(&audio);
}

static void audio_write(uint32_t type, uint64_t call, const void *payload, size_t n)
{
	ck_assert_int_eq(channel_write(&audio, type, call, payload, (uint32_t)n, NULL, 0), 0);
	channel_ring(&audio);
}

/* Takes a file until its end; returns the call's id. */
static uint64_t audio_file(const char *expected)
{
	static struct rig_record record;
	char file[256] = "";
	size_t n = 0;
	audio_record(&record);
	ck_assert_uint_eq(record.type, AUDIO_BEGIN);
	uint64_t call = record.call;
	struct audio_begin head;
	memcpy(&head, record.payload, sizeof head);
	ck_assert_uint_eq(head.mel_bins, BINS);
	for (audio_record(&record); record.type == AUDIO_BYTES; audio_record(&record)) {
		ck_assert_uint_lt(n + record.n_bytes, sizeof file);
		memcpy(file + n, record.payload, record.n_bytes);
		n += record.n_bytes;
	}
	ck_assert_uint_eq(record.type, AUDIO_END);
	ck_assert_uint_eq(n, strlen(expected));
	ck_assert_mem_eq(file, expected, n);
	return call;
}

static void audio_info(uint64_t call, uint64_t n_rows)
{
	struct audio_info info = {.n_samples = (n_rows - 1) * AUDIO_HOP,
				  .n_rows = n_rows,
				  .sample_rate = 16000,
				  .channels = 1,
				  .mel_bins = BINS,
				  .format = "WAV"};
	info.duration_s = (double)info.n_samples / AUDIO_RATE;
	audio_write(AUDIO_INFO, call, &info, sizeof info);
}

/* Rows whose values say which they are. */
static void audio_rows(uint64_t call, uint32_t first, uint32_t n)
{
	static float rows[200 * BINS];
	for (uint32_t at = 0; at < n; at += 200) {
		uint32_t part = n - at < 200 ? n - at : 200;
		for (uint32_t i = 0; i < part * BINS; i++)
			rows[i] = (float)(first + at) * BINS + (float)i;
		for (int tries = 0;; tries++) {
			int rc = channel_write(&audio, AUDIO_MEL, call, rows, part * BINS * (uint32_t)sizeof(float),
					       NULL, 0);
			channel_ring(&audio);
			if (rc == 0)
				break;
			ck_assert_int_lt(tries, WAIT_S * 1000);
			usleep(1000);
		}
	}
}

/* --- the client and the worker ---------------------------------------------------------------- */

static const char tail[] = "\r\n--B--\r\n";
#define FIELD(name, value) "--B\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" value "\r\n"
#define FILE_HEAD "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n"

static void send_form(struct rig_client *client, const char *path, const char *form)
{
	char head[512];
	snprintf(head, sizeof head,
		 "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=B\r\n"
		 "Content-Length: %zu\r\n\r\n",
		 path, strlen(form) + strlen(tail));
	rig_send(client, head);
	rig_send(client, form);
	rig_send(client, tail);
}

static void refused(const char *form, int status, const char *text)
{
	struct rig_client client = rig_connect(&rig);
	send_form(&client, "/v1/audio/transcriptions", form);
	rig_expect(rig_answer(&client), status, text);
	rig_close(&client);
}

/* The head of a call, checked as the worker checks it. */
static uint64_t take_call(struct call_begin *head, struct call_speech *speech)
{
	static struct rig_record record;
	rig_record(&rig, 1, &record);
	ck_assert_uint_eq(record.type, CALL_BEGIN);
	ck_assert_uint_eq(record.n_bytes, sizeof *head + sizeof *speech);
	memcpy(head, record.payload, sizeof *head);
	memcpy(speech, record.payload + sizeof *head, sizeof *speech);
	return record.call;
}

static void take_bytes(uint64_t call, char *out, size_t n)
{
	static struct rig_record record;
	for (size_t at = 0; at < n; at += record.n_bytes) {
		rig_record(&rig, 1, &record);
		ck_assert_uint_eq(record.type, CALL_BYTES);
		ck_assert_uint_eq(record.call, call);
		ck_assert_uint_le(record.n_bytes, n - at);
		memcpy(out + at, record.payload, record.n_bytes);
	}
}

static void say_language(uint64_t call)
{
	struct call_language language = {"de", 0.5f, 0};
	rig_accept(&rig, 1, call);
	rig_write(&rig, 1, CALL_LANGUAGE, call, &language, sizeof language, NULL, 0);
}

static void say_segment(uint64_t call, uint32_t id, const char *text)
{
	struct call_segment head = {.start = id, .end = id + 1, .id = id, .text_bytes = (uint32_t)strlen(text)};
	rig_write(&rig, 1, CALL_SEGMENT, call, &head, sizeof head, text, strlen(text));
}

static const char form[] = FIELD("prompt", "Hm.") FILE_HEAD "RIFFxyz\r\n" FIELD("response_format", "verbose_json")
	FIELD("model", "hears") "--B\r\nContent-Disposition: form-data; name=\"language\"\r\n\r\nde";

/* The file before the model's name, as curl sends it. */
START_TEST(a_file_is_heard)
{
	begin();
	struct rig_client client = rig_connect(&rig);
	struct call_begin head;
	struct call_speech speech;
	static char bytes[3 + 101 * BINS * sizeof(float)];
	send_form(&client, "/v1/audio/transcriptions", form);
	uint64_t file = audio_file("RIFFxyz");
	audio_info(file, 101);
	uint64_t call = take_call(&head, &speech);
	ck_assert(head.kind == CALL_KIND_TRANSCRIBE && speech.n_frames == 101 && speech.mel_bins == BINS);
	ck_assert(speech.duration == 1 && head.prompt_bytes == sizeof bytes && speech.initial_prompt_bytes == 3);
	ck_assert_str_eq(speech.language, "de");
	audio_rows(file, 0, 101);
	audio_write(AUDIO_DONE, file, NULL, 0);
	take_bytes(call, bytes, sizeof bytes);
	ck_assert_mem_eq(bytes, "Hm.", 3);
	for (uint32_t i = 0; i < 101 * BINS; i++) {
		float value;
		memcpy(&value, bytes + 3 + i * sizeof value, sizeof value);
		ck_assert(value == (float)i);
	}
	say_language(call);
	say_segment(call, 0, " Ja.");
	say_segment(call, 1, " Nein.");
	rig_done(&rig, 1, call, FINISH_STOP);
	rig_expect(rig_answer(&client), 200,
		   "\"language\":\"german\",\"language_probability\":0.5,\"duration\":1.0,\"text\":\"Ja. Nein.\"");
	/* The connection goes on. */
	rig_request(&client, "GET", "/health", NULL);
	rig_expect(rig_answer(&client), 200, "");
	rig_close(&client);
	rig_metric(&rig, "weightd_requests_total{path=\"/v1/audio/transcriptions\",code=\"200\"} 1");
	end();
}
END_TEST

START_TEST(segments_are_streamed)
{
	begin();
	struct rig_client client = rig_connect(&rig);
	struct call_begin head;
	struct call_speech speech;
	static char bytes[2 * BINS * sizeof(float)];
	send_form(&client, "/v1/audio/transcriptions", FIELD("stream", "true") FILE_HEAD "x");
	uint64_t file = audio_file("x");
	audio_info(file, 2);
	audio_rows(file, 0, 2);
	audio_write(AUDIO_DONE, file, NULL, 0);
	uint64_t call = take_call(&head, &speech);
	take_bytes(call, bytes, sizeof bytes);
	say_language(call);
	say_segment(call, 0, " Ja.");
	rig_see(&client, "{\"type\":\"transcript.text.delta\",\"delta\":\"Ja.\"}");
	say_segment(call, 1, " Nein.");
	rig_see(&client, "\"delta\":\" Nein.\"}");
	rig_done(&rig, 1, call, FINISH_STOP);
	rig_see(&client, "{\"type\":\"transcript.text.done\",\"text\":\"Ja. Nein.\"");
	rig_close(&client);
	end();
}
END_TEST

/* More than two windows: they come when the worker wants them. */
START_TEST(frames_wait_until_they_are_wanted)
{
	begin();
	enum { ROWS = CALL_SPEECH_AHEAD + 500 };
	struct rig_client client = rig_connect(&rig);
	struct call_begin head;
	struct call_speech speech;
	char *bytes = malloc((size_t)ROWS * BINS * sizeof(float));
	send_form(&client, "/v1/audio/translations", FILE_HEAD "x");
	uint64_t file = audio_file("x");
	audio_info(file, ROWS);
	uint64_t call = take_call(&head, &speech);
	ck_assert_uint_eq(head.kind, CALL_KIND_TRANSLATE);
	for (uint32_t at = 0; at < CALL_SPEECH_AHEAD; at += 1000) {
		audio_rows(file, at, 1000);
		take_bytes(call, bytes, 1000 * BINS * sizeof(float));
	}
	audio_rows(file, CALL_SPEECH_AHEAD, 500);
	audio_write(AUDIO_DONE, file, NULL, 0);
	rig_accept(&rig, 1, call);
	rig_no_record(&rig, 1);
	struct call_want want = {CALL_SPEECH_AHEAD + 100};
	rig_write(&rig, 1, CALL_WANT, call, &want, sizeof want, NULL, 0);
	take_bytes(call, bytes, 100 * BINS * sizeof(float));
	rig_no_record(&rig, 1);
	want.frames = UINT64_MAX;
	rig_write(&rig, 1, CALL_WANT, call, &want, sizeof want, NULL, 0);
	take_bytes(call, bytes, 400 * BINS * sizeof(float));
	float last;
	memcpy(&last, bytes + (400 * BINS - 1) * sizeof last, sizeof last);
	ck_assert(last == (float)(ROWS * BINS - 1));
	struct call_language language = {"de", 0.5f, 0};
	rig_write(&rig, 1, CALL_LANGUAGE, call, &language, sizeof language, NULL, 0);
	rig_done(&rig, 1, call, FINISH_STOP);
	rig_expect(rig_answer(&client), 200, "{\"text\":\"\",\"usage\":{\"type\":\"duration\",\"seconds\":65}}");
	rig_close(&client);
	free(bytes);
	end();
}
END_TEST

START_TEST(forms_that_are_wrong_are_refused_by_field)
{
	begin();
	refused(FIELD("nonsense", "1") FILE_HEAD "x", 400, "\"code\":\"unknown_field\"");
	refused(FIELD("temperature", "hot") FILE_HEAD "x", 400, "\"param\":\"temperature\"");
	refused(FIELD("model", "nobody") FILE_HEAD "x", 404, "\"code\":\"model_not_found\"");
	refused(FIELD("model", "small") FILE_HEAD "x", 400, "model 'small' hears no speech");
	refused("--B\r\nContent-Disposition: form-data; name=model\r\n\r\nhears", 400, "'file' is missing");
	refused("--B\r\nContent-Disposition: form-data; name=file\r\n\r\nx", 400, "'file' must be a file");
	refused("--B\r\nContent-Type: a/b\r\n\r\nx", 400, "part 1: it has no Content-Disposition");
	rig_check(&rig, "POST", "/v1/audio/transcriptions", "{}", 400, "must be multipart/form-data");
	rig_check(&rig, "GET", "/v1/audio/transcriptions", NULL, 405, "wants the method POST");
	rig_check(&rig, "POST", "/v1/completions", "{\"model\":\"hears\",\"prompt\":\"x\"}", 400,
		  "ask it at /v1/audio/transcriptions");
	end();
}
END_TEST

START_TEST(a_file_that_is_too_large_is_refused_while_it_comes)
{
	static char large[150000] = FILE_HEAD;
	size_t n = strlen(large);
	begin();
	memset(large + n, 'x', sizeof large - n - 1);
	refused(large, 413, "\"param\":\"file\"");
	struct rig_client client = rig_connect(&rig); /* and what promises to be, before a byte of it */
	rig_send(&client, "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\n"
			  "Content-Type: multipart/form-data; boundary=B\r\nContent-Length: 90000000\r\n\r\n");
	rig_expect(rig_answer(&client), 413, "too large");
	rig_close(&client);
	end();
}
END_TEST

START_TEST(what_the_audio_process_refuses_the_client_is_told)
{
	begin();
	struct rig_client client = rig_connect(&rig);
	send_form(&client, "/v1/audio/transcriptions", FILE_HEAD "x");
	uint64_t file = audio_file("x");
	struct {
		struct audio_failed head;
		char text[8];
	} failed = {{.status = 415, .text_bytes = 8, .code = "unknown_format"},
		    {'n', 'o', ' ', 'a', 'u', 'd', 'i', 'o'}};
	audio_write(AUDIO_FAILED, file, &failed, sizeof failed);
	struct rig_answer answer = rig_answer(&client);
	ck_assert_ptr_nonnull(strstr(answer.body, "\"param\":\"file\""));
	rig_expect(answer, 415, "no audio");
	rig_close(&client);
	end();
}
END_TEST

START_TEST(a_client_that_leaves_takes_everything_with_it)
{
	static struct rig_record record;
	begin();
	struct rig_client client = rig_connect(&rig);
	struct call_begin head;
	struct call_speech speech;
	send_form(&client, "/v1/audio/transcriptions", FILE_HEAD "x");
	uint64_t file = audio_file("x");
	audio_info(file, 9000);
	uint64_t call = take_call(&head, &speech);
	rig_close(&client);
	rig_wait_cancel(&rig, 1, call);
	audio_record(&record);
	ck_assert_uint_eq(record.type, AUDIO_CANCEL);
	rig_done(&rig, 1, call, FINISH_CANCELLED);
	/* In the middle of the file, too. */
	client = rig_connect(&rig);
	rig_send(&client,
		 "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\n"
		 "Content-Type: multipart/form-data; boundary=B\r\nContent-Length: 90000\r\n\r\n" FILE_HEAD "x");
	struct audio_failed failed = {.status = 500};
	audio_write(AUDIO_FAILED, file, &failed, sizeof failed); /* the first has ended */
	audio_record(&record);
	ck_assert_uint_eq(record.type, AUDIO_BEGIN);
	rig_close(&client);
	do
		audio_record(&record);
	while (record.type == AUDIO_BYTES);
	ck_assert_uint_eq(record.type, AUDIO_CANCEL);
	end();
}
END_TEST

/* A worker that speaks out of turn is given up, and its call fails. */
START_TEST(segments_out_of_turn_are_no_segments)
{
	for (int how = 0; how < 3; how++) {
		begin();
		struct rig_client client = rig_connect(&rig);
		struct call_begin head;
		struct call_speech speech;
		struct message message;
		send_form(&client, "/v1/audio/transcriptions", FILE_HEAD "x");
		uint64_t file = audio_file("x");
		audio_info(file, 2);
		uint64_t call = take_call(&head, &speech);
		struct call_want want = {CALL_SPEECH_AHEAD};
		if (how == 0) { /* no language before it */
			rig_accept(&rig, 1, call);
			say_segment(call, 0, " a");
		} else if (how == 1) { /* one left out */
			say_language(call);
			say_segment(call, 1, " a");
		} else { /* wants no more than it had */
			rig_accept(&rig, 1, call);
			rig_write(&rig, 1, CALL_WANT, call, &want, sizeof want, NULL, 0);
		}
		rig_expect(rig_answer(&client), 502, "");
		rig_message(&rig, &message);
		ck_assert_uint_eq(message.type, MESSAGE_WORKER_DOWN);
		rig_close(&client);
		end();
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("front_speech");
	TCase *tests = tcase_create("all");
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, a_file_is_heard);
	tcase_add_test(tests, segments_are_streamed);
	tcase_add_test(tests, frames_wait_until_they_are_wanted);
	tcase_add_test(tests, forms_that_are_wrong_are_refused_by_field);
	tcase_add_test(tests, a_file_that_is_too_large_is_refused_while_it_comes);
	tcase_add_test(tests, what_the_audio_process_refuses_the_client_is_told);
	tcase_add_test(tests, a_client_that_leaves_takes_everything_with_it);
	tcase_add_test(tests, segments_out_of_turn_are_no_segments);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
