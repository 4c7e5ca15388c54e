/* Multipart bodies: parts whatever the cuts, and every fault with its part and place. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/multipart.h"
#include "tests/unit/suite.h"

static const char type[] = "multipart/form-data; boundary=XyZ";

/* What happened, as text: "[name|filename|type]data;" for each part, "." at the end, "!" and the fault. */
struct story {
	char text[65536];
	size_t n;
};

static void tell(struct story *story, const char *bytes, size_t n)
{
	ck_assert(story->n + n < sizeof story->text);
	memcpy(story->text + story->n, bytes, n);
	story->n += n;
	story->text[story->n] = '\0';
}

static void say(struct story *story, const char *text)
{
	tell(story, text, strlen(text));
}

/* Gives `n` bytes, in memory of exactly that size. False: bad. */
static bool give(struct multipart *m, const char *bytes, size_t n, struct story *story)
{
	char *exact = malloc(n ? n : 1);
	struct err err = {""};
	enum multipart_event event;
	memcpy(exact, bytes, n);
	multipart_give(m, exact, n);
	while ((event = multipart_next(m, &err)) != MULTIPART_MORE && event != MULTIPART_BAD) {
		char line[1024];
		switch (event) {
		case MULTIPART_PART:
			snprintf(line, sizeof line, "[%s|%s|%s%s]", m->name, m->filename, m->content_type,
				 m->is_file ? "|file" : "");
			say(story, line);
			break;
		case MULTIPART_DATA:
			ck_assert(m->n_data > 0);
			tell(story, m->data, m->n_data);
			break;
		case MULTIPART_PART_END:
			say(story, ";");
			break;
		default:
			say(story, ".");
		}
	}
	if (event == MULTIPART_BAD) {
		say(story, "!");
		say(story, err.text);
	}
	free(exact);
	return event != MULTIPART_BAD;
}

static void read_cut(const char *content_type, const char *body, size_t n, size_t cut, size_t second,
		     struct story *story)
{
	static struct multipart m;
	struct err err = {""};
	story->n = 0;
	story->text[0] = '\0';
	ck_assert_msg(multipart_init(&m, content_type, &err) == 0, "%s", err.text);
	if (!give(&m, body, cut, story) || !give(&m, body + cut, second - cut, story) ||
	    !give(&m, body + second, n - second, story))
		return;
	if (multipart_finish(&m, &err)) {
		say(story, "?");
		say(story, err.text);
	}
}

/* The same story wherever the body is cut, once and byte by byte. */
static void expect_of(const char *content_type, const char *body, size_t n, const char *expected)
{
	static struct story story;
	for (size_t cut = 0; cut <= n; cut++) {
		size_t second = cut + 1 + cut % 7 < n ? cut + 1 + cut % 7 : n;
		read_cut(content_type, body, n, cut, second, &story);
		ck_assert_msg(strcmp(story.text, expected) == 0, "cut at %zu and %zu: %s", cut, second, story.text);
	}
	static struct multipart m;
	struct err err = {""};
	ck_assert_int_eq(multipart_init(&m, content_type, &err), 0);
	story.n = 0;
	bool ok = true;
	for (size_t i = 0; i < n && ok; i++)
		ok = give(&m, body + i, 1, &story);
	if (ok && multipart_finish(&m, &err)) {
		say(&story, "?");
		say(&story, err.text);
	}
	ck_assert_msg(strcmp(story.text, expected) == 0, "byte by byte: %s", story.text);
}

static void expect(const char *body, const char *expected)
{
	expect_of(type, body, strlen(body), expected);
}

START_TEST(fields_and_files_come_out_whole_wherever_the_body_is_cut)
{
	expect("--XyZ\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n"
	       "--XyZ\r\ncontent-disposition: FORM-DATA; filename=\"a b.wav\"; name=file\r\n"
	       "Content-Type: audio/wav\r\nX-Other: 1\r\n\r\nRIFF\r\n\r\n--Xy\r\r\n-XyZ\r\n--XyZ--\r\n",
	       "[model||]whisper;[file|a b.wav|audio/wav|file]RIFF\r\n\r\n--Xy\r\r\n-XyZ;.");
}
END_TEST

START_TEST(empty_parts_padding_preamble_and_epilogue)
{
	expect("--XyZ \t\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n--XyZ--", "[a||];.");
	expect("\r\n--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--XyZ--\r\nwhat --XyZ\r\n follows",
	       "[a||]x;.");
	expect("hello\r\n--Xy\r\n--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--XyZ--", "[a||]x;.");
	expect("--XyZ--\r\n", ".");
}
END_TEST

START_TEST(names_are_unquoted)
{
	expect("--XyZ\r\nContent-Disposition: form-data; name=\"q\\\"uo\\\\te\"; filename*=UTF-8''%C3%A9\r\n\r\n"
	       "x\r\n--XyZ--",
	       "[q\"uo\\te|||file]x;.");
	expect_of("Multipart/Form-Data ; charset=utf-8; Boundary=\"a b'()+_,-./:=?c\"",
		  "--a b'()+_,-./:=?c\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--a b'()+_,-./:=?c--",
		  strlen("--a b'()+_,-./:=?c\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n"
			 "--a b'()+_,-./:=?c--"),
		  "[a||]x;.");
}
END_TEST

START_TEST(any_bytes_may_be_data)
{
	static char body[4096];
	static char expected[4096];
	int head = snprintf(body, sizeof body, "--XyZ\r\nContent-Disposition: form-data; name=f; filename=x\r\n\r\n");
	size_t n = (size_t)head;
	for (unsigned i = 0; i < 600; i++) /* no zero, so that the story stays a text */
		body[n++] = (char)(i % 3 == 0 ? '\r' : i % 3 == 1 ? '\n' : 1 + i % 255);
	int length = snprintf(expected, sizeof expected, "[f|x||file]%.*s;.", (int)n - head, body + head);
	ck_assert_int_eq(length, 11 + 600 + 2);
	memcpy(body + n, "\r\n--XyZ--", 9);
	expect_of(type, body, n + 9, expected);
}
END_TEST

START_TEST(faults_name_the_part_and_the_place)
{
	expect("--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--XyZ",
	       "[a||]x;?the body ends at byte 57 "
	       "within part 1 ('a'), before its last "
	       "boundary");
	expect("--XyZ\r\nContent-Type: text/plain\r\n\r\n",
	       "!byte 35 of the body, part 1: it has no Content-Disposition");
	expect("--XyZ\r\n\r\nx", "!byte 9 of the body, part 1: it has no Content-Disposition");
	expect("--XyZ\r\nContent-Disposition: form-data\r\n\r\n",
	       "!byte 41 of the body, part 1: its Content-Disposition has no name");
	expect("--XyZ\r\nContent-Disposition: attachment; name=a\r\n\r\n",
	       "!byte 50 of the body, part 1: its Content-Disposition is not form-data");
	expect("--XyZ\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\n",
	       "!part 1 ('a') at byte 57 of the body: it has two names");
	expect("--XyZ\r\nContent-Disposition: form-data; name=\"a\r\n\r\n",
	       "!byte 50 of the body, part 1: its Content-Disposition can't be read, or is longer than 255 bytes");
	expect("--XyZ\r\nno colon\r\n\r\n", "!byte 19 of the body, part 1: a header line without a name");
	expect("--XyZ\r\nContent-Disposition: form-data; name=a\r\nContent-Type: multipart/mixed\r\n\r\n",
	       "!part 1 ('a') at byte 80 of the body: a multipart within a multipart");
	expect("--XyZ\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64\r\n\r\n",
	       "!part 1 ('a') at byte 84 of the body: its Content-Transfer-Encoding 'base64' is not served");
	expect("--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--XyZab\r\n",
	       "[a||]x;!part 1 ('a') at byte 58 of the body: the line of a boundary goes on behind it");
	expect("--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--XyZ-\r\n",
	       "[a||]x;!part 1 ('a') at byte 59 of the body: the line of a boundary goes on behind it");
}
END_TEST

START_TEST(everything_has_a_bound)
{
	static char body[MULTIPART_PARTS_MAX * 64 + 8192];
	static struct story story;
	size_t n = 0;
	memset(body, 'x', 2000);
	read_cut(type, body, 2000, 100, 1500, &story);
	ck_assert_str_eq(story.text,
			 "!byte 1500 of the body, part 0: no part begins (the Content-Type's boundary is 'XyZ')");
	n = (size_t)snprintf(body, sizeof body, "--XyZ\r\nX: ");
	memset(body + n, 'x', 5000);
	read_cut(type, body, n + 5000, 1, 2, &story);
	ck_assert_ptr_nonnull(strstr(story.text, "its header has more than 4094 bytes"));
	n = 0;
	for (unsigned i = 0; i <= MULTIPART_PARTS_MAX; i++)
		n += (size_t)snprintf(body + n, sizeof body - n,
				      "\r\n--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\n");
	read_cut(type, body, n, 1, 2, &story);
	ck_assert_ptr_nonnull(strstr(story.text, "more than 128 parts"));
}
END_TEST

START_TEST(content_types_that_are_none_are_refused)
{
	static const char *const wrong[] = {
		"",
		"application/json",
		"multipart/form-data",
		"multipart/form-data; boundary=",
		"multipart/form-data; boundary=a\x01",
		"multipart/form-data; boundary=\"a",
		"multipart/form-data; boundary=\"a \"",
		"multipart/form-data; boundary",
		"multipart/form-data boundary=a",
		"multipart/form-data; boundary=a; boundary=b",
		"multipart/form-data; boundary=12345678901234567890123456789012345678901234567890123456789012345678901",
	};
	static struct multipart m;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct err err = {""};
		ck_assert_msg(multipart_init(&m, wrong[i], &err) == -EINVAL, "%s", wrong[i]);
		ck_assert_ptr_nonnull(strstr(err.text, "Content-Type"));
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("multipart");
	TCase *tests = tcase_create("all");
	tcase_set_timeout(tests, 30);
	tcase_add_test(tests, fields_and_files_come_out_whole_wherever_the_body_is_cut);
	tcase_add_test(tests, empty_parts_padding_preamble_and_epilogue);
	tcase_add_test(tests, names_are_unquoted);
	tcase_add_test(tests, any_bytes_may_be_data);
	tcase_add_test(tests, faults_name_the_part_and_the_place);
	tcase_add_test(tests, everything_has_a_bound);
	tcase_add_test(tests, content_types_that_are_none_are_refused);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
