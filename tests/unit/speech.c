/* Requests to hear speech, field by field, and what was heard in every format. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "src/api/speech_answer.h"
#include "src/api/speech_language.h"
#include "tests/unit/suite.h"

static struct speech_request request;
static struct speech_answer answer;
static struct api_json out;
static struct api_error error;

/* --- requests --------------------------------------------------------------------------------- */

/* "name=value" each, NULL behind the last. 0 or -1, as said in `error`. */
static int read_fields(bool translate, const char *const *fields)
{
	speech_request_fini(&request);
	speech_request_init(&request, translate);
	memset(&error, 0, sizeof error);
	for (; *fields; fields++) {
		char name[128];
		const char *equals = strchr(*fields, '=');
		snprintf(name, sizeof name, "%.*s", (int)(equals - *fields), *fields);
		if (speech_request_field(&request, name, equals + 1, strlen(equals + 1), &error))
			return -1;
	}
	return speech_request_end(&request, true, &error);
}
#define READ(...) read_fields(false, (const char *const[]){__VA_ARGS__, NULL})
#define READ_TRANSLATION(...) read_fields(true, (const char *const[]){__VA_ARGS__, NULL})

static void expect_error(const char *param, const char *code)
{
	ck_assert_int_eq(error.status, 400);
	ck_assert_str_eq(error.param, param);
	ck_assert_str_eq(error.code, code);
}

START_TEST(without_fields_it_is_as_faster_whisper_has_it)
{
	ck_assert_int_eq(READ("model=whisper"), 0);
	ck_assert_str_eq(request.model, "whisper");
	ck_assert(request.format == SPEECH_JSON && !request.stream && request.wants_segments && !request.wants_words);
	const struct call_speech *s = &request.speech;
	ck_assert(s->beam_size == 5 && s->best_of == 5 && s->patience == 1 && s->length_penalty == 1);
	ck_assert(s->repetition_penalty == 1 && s->no_repeat_ngram_size == 0 && s->max_new_tokens == 0);
	ck_assert(s->compression_ratio_threshold == 2.4f && s->log_prob_threshold == -1);
	ck_assert(s->no_speech_threshold == 0.6f && s->prompt_reset_on_temperature == 0.5f);
	ck_assert(s->max_initial_timestamp == 1 && s->language_detection_segments == 1);
	ck_assert(s->flags == (CALL_SPEECH_CONDITION | CALL_SPEECH_SUPPRESS_BLANK | CALL_SPEECH_SUPPRESS_SYMBOLS));
	ck_assert_uint_eq(s->n_temperatures, 6);
	for (unsigned i = 0; i < 6; i++)
		ck_assert(fabsf(s->temperatures[i] - 0.2f * (float)i) < 1e-6f);
	ck_assert_str_eq(s->language, "");
}
END_TEST

START_TEST(what_is_said_becomes_the_call)
{
	ck_assert_int_eq(READ("language=German", "prompt=Käse", "hotwords=Brot", "prefix=Ein", "temperature=0.4",
			      "beam_size=2", "best_of=3", "patience=1.5", "length_penalty=-1", "seed=-1",
			      "condition_on_previous_text=False", "suppress_blank=0", "response_format=verbose_json",
			      "timestamp_granularities[]=word", "max_new_tokens=100", "vad_filter=false",
			      "suppress_tokens=-1"),
			 0);
	struct call_begin begin;
	struct call_speech speech;
	struct api_json bytes = {0};
	speech_request_call(&request, 9, 2.5, 251, 80, &begin, &speech, &bytes);
	ck_assert(!bytes.failed && bytes.n == 5 + 3 + 4 && memcmp(bytes.bytes, "KäseEinBrot", 12) == 0);
	ck_assert(speech.initial_prompt_bytes == 5 && speech.prefix_bytes == 3 && speech.hotwords_bytes == 4);
	ck_assert(begin.kind == CALL_KIND_TRANSCRIBE && begin.seed == UINT64_MAX);
	ck_assert(speech.n_temperatures == 1 && speech.temperatures[0] == 0.4f);
	ck_assert(speech.flags == (CALL_SPEECH_WORDS | CALL_SPEECH_SUPPRESS_SYMBOLS));
	ck_assert_str_eq(speech.language, "de");
	ck_assert(request.wants_words && !request.wants_segments);
	/* What the one side writes the other takes. */
	char record[sizeof begin + sizeof speech];
	struct call_begin read_begin;
	struct call_speech read_speech;
	memcpy(record, &begin, sizeof begin);
	memcpy(record + sizeof begin, &speech, sizeof speech);
	ck_assert_int_eq(record_read_speech(record, sizeof record, &read_begin, &read_speech), 0);
	api_json_fini(&bytes);
	ck_assert_int_eq(READ_TRANSLATION("language=auto"), 0);
	speech_request_call(&request, 9, 2.5, 251, 80, &begin, &speech, &bytes);
	ck_assert(begin.kind == CALL_KIND_TRANSLATE && begin.seed == 9 && bytes.n == 0);
	ck_assert_str_eq(speech.language, "");
}
END_TEST

START_TEST(wrong_values_are_refused_by_name)
{
	static const struct {
		const char *field, *param, *code;
	} wrong[] = {
		{"nonsense=1", "nonsense", "unknown_field"},
		{"file=x", "file", "invalid_type"},
		{"model=", "model", "out_of_range"},
		{"language=klingon", "language", "invalid_value"},
		{"response_format=xml", "response_format", "invalid_value"},
		{"response_format=", "response_format", "invalid_value"},
		{"temperature=1.5", "temperature", "out_of_range"},
		{"temperature=-0.1", "temperature", "out_of_range"},
		{"temperature=", "temperature", "invalid_value"},
		{"temperature=0x1", "temperature", "invalid_value"},
		{"temperature=nan", "temperature", "invalid_value"},
		{"temperature= 0", "temperature", "invalid_value"},
		{"temperature=0.5 ", "temperature", "invalid_value"},
		{"temperature=1e999", "temperature", "invalid_value"},
		{"beam_size=0", "beam_size", "out_of_range"},
		{"beam_size=17", "beam_size", "out_of_range"},
		{"beam_size=1.5", "beam_size", "invalid_value"},
		{"stream=yes", "stream", "invalid_value"},
		{"seed=1.0", "seed", "invalid_value"},
		{"seed=18446744073709551616", "seed", "invalid_value"},
		{"seed=-9223372036854775809", "seed", "invalid_value"},
		{"prompt=\xff", "prompt", "invalid_value"},
		{"timestamp_granularities[]=letter", "timestamp_granularities[]", "invalid_value"},
		{"include[]=logprobs", "include[]", "unsupported_field"},
		{"vad_filter=true", "vad_filter", "unsupported_field"},
		{"chunking_strategy=auto", "chunking_strategy", "unsupported_field"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		ck_assert_msg(READ(wrong[i].field) == -1, "%s", wrong[i].field);
		ck_assert_str_eq(error.param, wrong[i].param);
		ck_assert_str_eq(error.code, wrong[i].code);
		ck_assert_int_eq(error.status, 400);
		ck_assert_ptr_nonnull(strstr(error.message, wrong[i].param));
	}
	ck_assert_int_eq(READ("model=a", "model=b"), -1);
	expect_error("model", "duplicate_field");
	ck_assert_int_eq(READ_TRANSLATION("stream=true"), -1);
	expect_error("stream", "unknown_field");
}
END_TEST

START_TEST(texts_have_a_bound)
{
	static char field[SPEECH_VALUE_MAX + 16] = "prompt=";
	memset(field + 7, 'x', SPEECH_VALUE_MAX);
	ck_assert_int_eq(READ(field), 0);
	field[7 + SPEECH_VALUE_MAX] = 'x';
	ck_assert_int_eq(READ(field), -1);
	expect_error("prompt", "out_of_range");
}
END_TEST

START_TEST(rules_between_fields)
{
	ck_assert_int_eq(READ("timestamp_granularities[]=word"), -1);
	expect_error("timestamp_granularities[]", "invalid_value");
	ck_assert_int_eq(READ("timestamp_granularities[]=segment", "response_format=srt"), -1);
	expect_error("timestamp_granularities[]", "invalid_value");
	ck_assert_int_eq(READ("timestamp_granularities[]=word", "timestamp_granularities[]=segment",
			      "response_format=verbose_json"),
			 0);
	ck_assert(request.wants_words && request.wants_segments);
	ck_assert_int_eq(READ("stream=true", "response_format=verbose_json"), -1);
	expect_error("response_format", "invalid_value");
	ck_assert_int_eq(READ("stream=true", "response_format=json"), 0);
	ck_assert_int_eq(READ("without_timestamps=true", "word_timestamps=true"), -1);
	expect_error("without_timestamps", "invalid_value");
	ck_assert_int_eq(READ("hallucination_silence_threshold=2"), -1);
	expect_error("hallucination_silence_threshold", "invalid_value");
	speech_request_fini(&request);
	speech_request_init(&request, false);
	ck_assert_int_eq(speech_request_end(&request, false, &error), -1);
	expect_error("file", "missing_field");
}
END_TEST

/* Numbers of every row at both ends of its range make a call that the worker's check takes. */
START_TEST(every_row_is_known_and_checked)
{
	size_t n = 0;
	for (const char *name; (name = speech_request_row(n)); n++) {
		for (size_t i = 0; i < n; i++)
			ck_assert_str_ne(name, speech_request_row(i));
		speech_request_fini(&request);
		speech_request_init(&request, false);
		ck_assert_int_le(speech_request_field(&request, name, "\xfe", 1, &error), 0);
	}
	ck_assert_uint_ge(n, 30);
	static const char *const values[] = {"0",  "1",	 "-1", "16",  "0.01", "0.1",	 "2",
					     "10", "30", "64", "448", "-10",  "1000000", "-1000000"};
	unsigned taken = 0;
	for (size_t i = 0; i < n; i++) {
		for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
			speech_request_fini(&request);
			speech_request_init(&request, false);
			if (speech_request_field(&request, speech_request_row(i), values[v], strlen(values[v]),
						 &error) ||
			    speech_request_end(&request, true, &error))
				continue;
			struct call_begin begin;
			struct call_speech speech;
			struct api_json bytes = {0};
			speech_request_call(&request, 1, 1, 101, 80, &begin, &speech, &bytes);
			char record[sizeof begin + sizeof speech];
			memcpy(record, &begin, sizeof begin);
			memcpy(record + sizeof begin, &speech, sizeof speech);
			ck_assert_msg(record_read_speech(record, sizeof record, &begin, &speech) == 0, "%s=%s",
				      speech_request_row(i), values[v]);
			api_json_fini(&bytes);
			taken++;
		}
	}
	ck_assert_uint_ge(taken, 60);
}
END_TEST

START_TEST(languages)
{
	ck_assert_str_eq(speech_language_code("EN", 2), "en");
	ck_assert_str_eq(speech_language_code("Haitian Creole", 14), "ht");
	ck_assert_ptr_null(speech_language_code("e", 1));
	ck_assert_ptr_null(speech_language_code("", 0));
	ck_assert_str_eq(speech_language_name("yue"), "cantonese");
	ck_assert_str_eq(speech_language_name("xx"), "xx");
}
END_TEST

/* --- answers ---------------------------------------------------------------------------------- */

static void begin_answer(const char *const *fields, double duration)
{
	ck_assert_msg(read_fields(false, fields) == 0, "%s", error.message);
	speech_answer_fini(&answer);
	speech_answer_init(&answer, &request, duration);
	struct call_language language = {"en", 0.9451f, 0};
	speech_answer_language(&answer, &language);
}
#define BEGIN(duration, ...) begin_answer((const char *const[]){__VA_ARGS__, NULL}, duration)

static void end(void)
{
	speech_answer_fini(&answer);
	speech_request_fini(&request);
	api_json_fini(&out);
}

static void hear(uint32_t id, double start, double stop, const char *text)
{
	static struct record_segment s;
	s.head = (struct call_segment){.start = start, .end = stop, .id = id, .text_bytes = (uint32_t)strlen(text)};
	s.text = text;
	speech_answer_segment(&answer, &s);
}

static void expect(const char *text)
{
	api_json_raw(&out, "", 1);
	ck_assert(!out.failed);
	ck_assert_str_eq(out.bytes, text);
	api_json_reset(&out);
}

static void expect_body(const char *text)
{
	speech_answer_write(&answer, &out);
	expect(text);
}

/* The segments that faster-whisper heard; *n words and all. */
static void hear_golden(const char *run)
{
	char path[512];
	const char *srcdir = getenv("srcdir");
	snprintf(path, sizeof path, "%s/tests/golden/whisper-base-jfk.json", srcdir ? srcdir : ".");
	yyjson_doc *doc = yyjson_read_file(path, 0, NULL, NULL);
	ck_assert_msg(doc, "%s", path);
	yyjson_val *segments = yyjson_obj_get(yyjson_obj_get(yyjson_doc_get_root(doc), run), "segments");
	static struct record_segment s;
	size_t i, j, max, n;
	yyjson_val *segment, *item;
	yyjson_arr_foreach(segments, i, max, segment)
	{
		yyjson_val *text = yyjson_obj_get(segment, "text");
		s.head = (struct call_segment){
			.start = yyjson_get_num(yyjson_obj_get(segment, "start")),
			.end = yyjson_get_num(yyjson_obj_get(segment, "end")),
			.id = (uint32_t)i,
			.avg_logprob = (float)yyjson_get_num(yyjson_obj_get(segment, "avg_logprob")),
			.no_speech_prob = (float)yyjson_get_num(yyjson_obj_get(segment, "no_speech_prob")),
			.compression_ratio = 1.5f,
			.text_bytes = (uint32_t)yyjson_get_len(text)};
		s.text = yyjson_get_str(text);
		yyjson_arr_foreach(yyjson_obj_get(segment, "tokens"), j, n, item)
		{
			s.tokens[s.head.n_tokens++] = (uint32_t)yyjson_get_uint(item);
		}
		yyjson_arr_foreach(yyjson_obj_get(segment, "words"), j, n, item)
		{
			yyjson_val *word = yyjson_obj_get(item, "word");
			s.words[s.head.n_words++] =
				(struct record_word){yyjson_get_num(yyjson_obj_get(item, "start")),
						     yyjson_get_num(yyjson_obj_get(item, "end")),
						     (float)yyjson_get_num(yyjson_obj_get(item, "p")),
						     yyjson_get_str(word), (uint32_t)yyjson_get_len(word)};
		}
		speech_answer_segment(&answer, &s);
	}
	yyjson_doc_free(doc);
}

static const char heard[] =
	"And so, my fellow Americans, ask not what your country can do for you, ask what you can do for your country.";

START_TEST(golden_segments_as_json_and_text)
{
	char body[512];
	BEGIN(11, "model=w");
	hear_golden("beam5");
	snprintf(body, sizeof body, "{\"text\":\"%s\",\"usage\":{\"type\":\"duration\",\"seconds\":11}}", heard);
	expect_body(body);
	ck_assert_str_eq(speech_answer_type(&answer), "application/json");
	BEGIN(11, "response_format=text");
	hear_golden("beam5");
	snprintf(body, sizeof body, "%s\n", heard);
	expect_body(body);
	ck_assert_str_eq(speech_answer_type(&answer), "text/plain; charset=utf-8");
	end();
}
END_TEST

START_TEST(golden_segments_as_subtitles)
{
	BEGIN(11, "response_format=srt");
	hear_golden("beam5");
	expect_body("1\n00:00:00,000 --> 00:00:08,000\n"
		    "And so, my fellow Americans, ask not what your country can do for you,\n\n"
		    "2\n00:00:08,000 --> 00:00:11,000\nask what you can do for your country.\n\n");
	BEGIN(11, "response_format=vtt");
	hear_golden("beam1");
	expect_body("WEBVTT\n\n00:00:00.000 --> 00:00:07.420\n"
		    "And so my fellow Americans ask not what your country can do for you,\n\n"
		    "00:00:07.420 --> 00:00:10.360\nask what you can do for your country.\n\n");
	ck_assert_str_eq(speech_answer_type(&answer), "text/vtt; charset=utf-8");
	end();
}
END_TEST

START_TEST(golden_segments_as_verbose_json)
{
	char body[2048];
	BEGIN(11, "response_format=verbose_json");
	hear_golden("beam5");
	snprintf(body, sizeof body,
		 "{\"task\":\"transcribe\",\"language\":\"english\",\"language_probability\":0.9451,"
		 "\"duration\":11.0,\"text\":\"%s\",\"segments\":["
		 "{\"id\":0,\"seek\":0,\"start\":0.0,\"end\":8.0,"
		 "\"text\":\" And so, my fellow Americans, ask not what your country can do for you,\",\"tokens\":["
		 "50364,400,370,11,452,7177,6280,11,1029,406,437,428,1941,393,360,337,291,11,50764],"
		 "\"temperature\":0,\"avg_logprob\":-0.2865,\"compression_ratio\":1.5,\"no_speech_prob\":0.0922},"
		 "{\"id\":1,\"seek\":0,\"start\":8.0,\"end\":11.0,"
		 "\"text\":\" ask what you can do for your country.\",\"tokens\":["
		 "50764,1029,437,291,393,360,337,428,1941,13,50914],"
		 "\"temperature\":0,\"avg_logprob\":-0.2865,\"compression_ratio\":1.5,\"no_speech_prob\":0.0922}],"
		 "\"usage\":{\"type\":\"duration\",\"seconds\":11}}",
		 heard);
	expect_body(body);
	end();
}
END_TEST

START_TEST(golden_words)
{
	BEGIN(11, "response_format=verbose_json", "timestamp_granularities[]=word");
	hear_golden("beam1");
	speech_answer_write(&answer, &out);
	ck_assert(!out.failed);
	yyjson_doc *doc = yyjson_read(out.bytes, out.n, 0);
	ck_assert_ptr_nonnull(doc);
	yyjson_val *words = yyjson_obj_get(yyjson_doc_get_root(doc), "words");
	ck_assert_uint_eq(yyjson_arr_size(words), 22);
	ck_assert_ptr_null(yyjson_obj_get(yyjson_doc_get_root(doc), "segments"));
	yyjson_val *first = yyjson_arr_get_first(words), *last = yyjson_arr_get_last(words);
	ck_assert_str_eq(yyjson_get_str(yyjson_obj_get(first, "word")), "And");
	ck_assert(yyjson_get_num(yyjson_obj_get(first, "end")) == 0.52);
	ck_assert_str_eq(yyjson_get_str(yyjson_obj_get(last, "word")), "country.");
	ck_assert(yyjson_get_num(yyjson_obj_get(last, "start")) == 9.94);
	ck_assert(yyjson_get_num(yyjson_obj_get(last, "end")) == 10.36);
	yyjson_doc_free(doc);
	end();
}
END_TEST

START_TEST(cues_are_single_lines_without_marks)
{
	BEGIN(1, "response_format=vtt");
	hear(0, 0, 1, " a < b &amp; c --> d\n\nNOTE x ");
	expect_body("WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n"
		    "a &lt; b &amp;amp; c --&gt; d  NOTE x\n\n");
	BEGIN(1, "response_format=srt");
	hear(0, 0, 1, " a < b --> c\r\n7\n");
	hear(1, 1, 1.0004, "  \n");
	hear(2, 359999.9996, 360000.5, "x");
	expect_body("1\n00:00:00,000 --> 00:00:01,000\na < b -> c  7\n\n"
		    "2\n100:00:00,000 --> 100:00:00,500\nx\n\n");
	end();
}
END_TEST

START_TEST(silence_is_an_answer)
{
	BEGIN(0.25, "model=w");
	expect_body("{\"text\":\"\",\"usage\":{\"type\":\"duration\",\"seconds\":1}}");
	BEGIN(0.25, "response_format=text");
	expect_body("\n");
	BEGIN(0.25, "response_format=srt");
	expect_body("");
	BEGIN(0.25, "response_format=vtt");
	expect_body("WEBVTT\n\n");
	BEGIN(0.25, "response_format=verbose_json", "word_timestamps=true");
	expect_body("{\"task\":\"transcribe\",\"language\":\"english\",\"language_probability\":0.9451,"
		    "\"duration\":0.25,\"text\":\"\",\"segments\":[],\"words\":[],"
		    "\"usage\":{\"type\":\"duration\",\"seconds\":1}}");
	end();
}
END_TEST

START_TEST(texts_without_blanks_are_joined_without)
{
	BEGIN(2, "response_format=text");
	hear(0, 0, 1, "你好。");
	hear(1, 1, 2, "再见。");
	expect_body("你好。再见。\n");
	end();
}
END_TEST

START_TEST(events_add_up_to_the_text)
{
	BEGIN(3.2, "stream=true");
	size_t before = answer.text.n;
	hear(0, 0, 1, " One \"two\"");
	speech_answer_write_delta(&answer, before, &out);
	expect("data: {\"type\":\"transcript.text.delta\",\"delta\":\"One \\\"two\\\"\"}\n\n");
	before = answer.text.n;
	hear(1, 1, 2, " ");
	speech_answer_write_delta(&answer, before, &out);
	expect("");
	hear(2, 2, 3, " three.");
	speech_answer_write_delta(&answer, before, &out);
	expect("data: {\"type\":\"transcript.text.delta\",\"delta\":\" three.\"}\n\n");
	speech_answer_write_end(&answer, &out);
	expect("data: {\"type\":\"transcript.text.done\",\"text\":\"One \\\"two\\\" three.\","
	       "\"usage\":{\"type\":\"duration\",\"seconds\":4}}\n\n");
	end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("speech");
	TCase *tests = tcase_create("all");
	tcase_set_timeout(tests, 30);
	tcase_add_test(tests, without_fields_it_is_as_faster_whisper_has_it);
	tcase_add_test(tests, what_is_said_becomes_the_call);
	tcase_add_test(tests, wrong_values_are_refused_by_name);
	tcase_add_test(tests, texts_have_a_bound);
	tcase_add_test(tests, rules_between_fields);
	tcase_add_test(tests, every_row_is_known_and_checked);
	tcase_add_test(tests, languages);
	tcase_add_test(tests, golden_segments_as_json_and_text);
	tcase_add_test(tests, golden_segments_as_subtitles);
	tcase_add_test(tests, golden_segments_as_verbose_json);
	tcase_add_test(tests, golden_words);
	tcase_add_test(tests, cues_are_single_lines_without_marks);
	tcase_add_test(tests, silence_is_an_answer);
	tcase_add_test(tests, texts_without_blanks_are_joined_without);
	tcase_add_test(tests, events_add_up_to_the_text);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
