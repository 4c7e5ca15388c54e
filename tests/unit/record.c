/* Records of speech, taken apart: what is right comes out as it was, every other length and every value out of its
 * range is refused. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/record.h"
#include "tests/unit/suite.h"

/* In memory of exactly that size, so that the sanitizer sees one byte too many. */
static int read_segment(const char *payload, size_t n, struct record_segment *out)
{
	char *exact = malloc(n ? n : 1);
	memcpy(exact, payload, n);
	int rc = record_read_segment(exact, n, out);
	free(exact);
	return rc;
}

static const struct call_segment good_segment = {.start = 1.5,
						 .end = 2.25,
						 .id = 3,
						 .seek = 3000,
						 .temperature = 0.5f,
						 .avg_logprob = -0.25f,
						 .compression_ratio = 1.5f,
						 .no_speech_prob = 0.125f,
						 .n_tokens = 3,
						 .n_words = 2,
						 .text_bytes = 6};
static const struct call_word good_words[2] = {{1.5, 2, 0.5f, 2}, {2, 2.25, 1, 4}};

struct packed {
	struct call_segment head;
	uint32_t tokens[3];
	char rest[2 * sizeof(struct call_word) + 6 + 6];
} __attribute__((packed));

static struct packed pack(const struct call_segment *head, const struct call_word words[2])
{
	struct packed p = {*head, {50364, 7, 50400}, {0}};
	memcpy(p.rest, words, 2 * sizeof *words);
	memcpy(p.rest + 2 * sizeof *words, " a bc. a bc.", 12);
	return p;
}

START_TEST(a_segment_comes_out_as_it_was)
{
	static struct record_segment s;
	struct packed p = pack(&good_segment, good_words);
	ck_assert_int_eq(record_read_segment(&p, sizeof p, &s), 0);
	ck_assert_mem_eq(&s.head, &good_segment, sizeof s.head);
	ck_assert(s.tokens[0] == 50364 && s.tokens[1] == 7 && s.tokens[2] == 50400);
	ck_assert(s.words[0].start == 1.5 && s.words[0].end == 2 && s.words[0].probability == 0.5f);
	ck_assert(s.words[0].text_bytes == 2 && memcmp(s.words[0].text, " a", 2) == 0);
	ck_assert(s.words[1].text_bytes == 4 && memcmp(s.words[1].text, " bc.", 4) == 0);
	ck_assert_mem_eq(s.text, " a bc.", 6);
}
END_TEST

START_TEST(a_segment_of_another_length_is_refused)
{
	static struct record_segment s;
	struct packed p = pack(&good_segment, good_words);
	char longer[sizeof p + 1] = {0};
	for (size_t n = 0; n < sizeof p; n++)
		ck_assert_int_eq(read_segment((const char *)&p, n, &s), -EPROTO);
	memcpy(longer, &p, sizeof p);
	ck_assert_int_eq(read_segment(longer, sizeof longer, &s), -EPROTO);
}
END_TEST

START_TEST(a_segment_with_a_wrong_value_is_refused)
{
	static struct record_segment s;
	struct call_segment head[12];
	for (unsigned i = 0; i < 12; i++)
		head[i] = good_segment;
	head[0].start = NAN;
	head[1].end = 1;
	head[2].end = INFINITY;
	head[3].start = -1;
	head[4].temperature = 3;
	head[5].avg_logprob = NAN;
	head[6].compression_ratio = NAN;
	head[7].no_speech_prob = 1.5f;
	head[8].n_tokens = UINT32_MAX;
	head[9].n_words = CALL_SEGMENT_TOKENS_MAX + 1;
	head[10].text_bytes = UINT32_MAX;
	head[11].n_words = 3; /* what follows would be a word, of too many bytes */
	for (unsigned i = 0; i < 12; i++) {
		struct packed p = pack(&head[i], good_words);
		ck_assert_msg(read_segment((const char *)&p, sizeof p, &s) == -EPROTO, "%u", i);
	}
	struct call_word words[5][2];
	for (unsigned i = 0; i < 5; i++)
		memcpy(words[i], good_words, sizeof good_words);
	words[0][0].end = 1;
	words[1][1].start = NAN;
	words[2][0].probability = 2;
	words[3][1].text_bytes = 5;
	words[4][0].text_bytes = UINT32_MAX;
	for (unsigned i = 0; i < 5; i++) {
		struct packed p = pack(&good_segment, words[i]);
		ck_assert_msg(read_segment((const char *)&p, sizeof p, &s) == -EPROTO, "%u", i);
	}
}
END_TEST

START_TEST(languages)
{
	struct call_language out, good = {"haw", 0.75f, 0};
	struct call_language bad[6];
	ck_assert_int_eq(record_read_language(&good, sizeof good, &out), 0);
	ck_assert_str_eq(out.language, "haw");
	ck_assert(out.probability == 0.75f);
	ck_assert_int_eq(record_read_language(&good, sizeof good - 1, &out), -EPROTO);
	for (unsigned i = 0; i < 6; i++)
		bad[i] = good;
	memset(bad[0].language, 0, 8);
	memset(bad[1].language, 'a', 8);
	bad[2].language[1] = '"';
	bad[3].language[7] = 'x';
	bad[4].probability = NAN;
	bad[5].probability = -0.5f;
	for (unsigned i = 0; i < 6; i++)
		ck_assert_msg(record_read_language(&bad[i], sizeof bad[i], &out) == -EPROTO, "%u", i);
}
END_TEST

START_TEST(wants)
{
	struct call_want out = {0}, want = {9000};
	ck_assert_int_eq(record_read_want(&want, sizeof want, &out), 0);
	ck_assert_uint_eq(out.frames, 9000);
	ck_assert_int_eq(record_read_want(&want, sizeof want - 1, &out), -EPROTO);
}
END_TEST

/* --- what a front says ------------------------------------------------------------------------ */

struct begin {
	struct call_begin head;
	struct call_speech speech;
};

static struct begin good_begin(void)
{
	struct begin b = {.head = {.kind = CALL_KIND_TRANSCRIBE, .seed = 7},
			  .speech = {.duration = 11,
				     .n_frames = 1100,
				     .mel_bins = 80,
				     .flags = CALL_SPEECH_CONDITION,
				     .language = "en",
				     .beam_size = 5,
				     .best_of = 5,
				     .n_temperatures = 2,
				     .patience = 1,
				     .length_penalty = 1,
				     .repetition_penalty = 1,
				     .temperatures = {0, 0.2f},
				     .compression_ratio_threshold = 2.4f,
				     .log_prob_threshold = -1,
				     .no_speech_threshold = 0.6f,
				     .prompt_reset_on_temperature = 0.5f,
				     .max_initial_timestamp = 1,
				     .language_detection_threshold = 0.5f,
				     .language_detection_segments = 1,
				     .initial_prompt_bytes = 10,
				     .hotwords_bytes = 3}};
	b.head.prompt_bytes = record_speech_bytes(&b.speech);
	return b;
}

START_TEST(a_begin_comes_out_as_it_was)
{
	struct begin b = good_begin();
	struct call_begin head;
	struct call_speech speech;
	ck_assert_uint_eq(b.head.prompt_bytes, 13 + 1100 * 80 * 4);
	ck_assert_int_eq(record_read_speech(&b, sizeof b, &head, &speech), 0);
	ck_assert_mem_eq(&head, &b.head, sizeof head);
	ck_assert_mem_eq(&speech, &b.speech, sizeof speech);
	ck_assert_int_eq(record_read_speech(&b, sizeof b - 1, &head, &speech), -EPROTO);
	b.speech.log_prob_threshold = -INFINITY;
	b.speech.language[0] = b.speech.language[1] = '\0';
	ck_assert_int_eq(record_read_speech(&b, sizeof b, &head, &speech), 0);
	b.head.prompt_bytes++;
	ck_assert_int_eq(record_read_speech(&b, sizeof b, &head, &speech), -EPROTO);
	b = good_begin();
	b.head.kind = CALL_KIND_EMBED_IDS;
	ck_assert_int_eq(record_read_speech(&b, sizeof b, &head, &speech), -EPROTO);
}
END_TEST

START_TEST(a_begin_out_of_range_is_refused)
{
	struct begin b;
	struct call_begin head;
	struct call_speech speech;
	unsigned n = 0;
#define WRONG(member, value)                                                                                    \
	do {                                                                                                    \
		b = good_begin();                                                                               \
		b.speech.member = (value);                                                                      \
		b.head.prompt_bytes = record_speech_bytes(&b.speech);                                           \
		ck_assert_msg(record_read_speech(&b, sizeof b, &head, &speech) == -EPROTO, #member " " #value); \
		n++;                                                                                            \
	} while (0)
	WRONG(duration, NAN);
	WRONG(n_frames, UINT64_C(1) << 32);
	WRONG(mel_bins, 0);
	WRONG(mel_bins, 129);
	WRONG(flags, CALL_SPEECH_FLAGS + 1);
	WRONG(language[0], 'E');
	WRONG(beam_size, 0);
	WRONG(beam_size, 17);
	WRONG(best_of, 0);
	WRONG(best_of, 17);
	WRONG(n_temperatures, 0);
	WRONG(n_temperatures, 9);
	WRONG(temperatures[1], 2.5f);
	WRONG(patience, 0);
	WRONG(patience, NAN);
	WRONG(length_penalty, -11);
	WRONG(repetition_penalty, 0);
	WRONG(compression_ratio_threshold, -1);
	WRONG(log_prob_threshold, 0.5f);
	WRONG(log_prob_threshold, NAN);
	WRONG(no_speech_threshold, 1.5f);
	WRONG(prompt_reset_on_temperature, NAN);
	WRONG(max_initial_timestamp, 31);
	WRONG(hallucination_silence_threshold, -1);
	WRONG(language_detection_threshold, 2);
	WRONG(language_detection_segments, 0);
	WRONG(max_new_tokens, CALL_SEGMENT_TOKENS_MAX + 1);
	WRONG(no_repeat_ngram_size, CALL_SEGMENT_TOKENS_MAX + 1);
	WRONG(initial_prompt_bytes, CALL_SPEECH_TEXT_MAX + 1);
	WRONG(prefix_bytes, CALL_SPEECH_TEXT_MAX + 1);
	WRONG(hotwords_bytes, CALL_SPEECH_TEXT_MAX + 1);
#undef WRONG
	ck_assert_uint_eq(n, 31);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("record");
	TCase *tests = tcase_create("all");
	tcase_set_timeout(tests, 30);
	tcase_add_test(tests, a_segment_comes_out_as_it_was);
	tcase_add_test(tests, a_segment_of_another_length_is_refused);
	tcase_add_test(tests, a_segment_with_a_wrong_value_is_refused);
	tcase_add_test(tests, languages);
	tcase_add_test(tests, wants);
	tcase_add_test(tests, a_begin_comes_out_as_it_was);
	tcase_add_test(tests, a_begin_out_of_range_is_refused);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
