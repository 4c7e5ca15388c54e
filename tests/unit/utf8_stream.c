/* Streaming text in pieces: every way to cut sequences out of well-formed and malformed parts gives the same, and what
 * it gives is what tables 3-7 and 3-8 of the Unicode standard say, read here from table 3-7 row by row. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/tokenizer.h"
#include "tests/unit/suite.h"

/* Table 3-7: a range for each byte of a sequence. */
static const struct row {
	size_t n_bytes;
	uint8_t range[4][2];
} table_3_7[] = {
	{1, {{0x00, 0x7f}}},
	{2, {{0xc2, 0xdf}, {0x80, 0xbf}}},
	{3, {{0xe0, 0xe0}, {0xa0, 0xbf}, {0x80, 0xbf}}},
	{3, {{0xe1, 0xec}, {0x80, 0xbf}, {0x80, 0xbf}}},
	{3, {{0xed, 0xed}, {0x80, 0x9f}, {0x80, 0xbf}}},
	{3, {{0xee, 0xef}, {0x80, 0xbf}, {0x80, 0xbf}}},
	{4, {{0xf0, 0xf0}, {0x90, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
	{4, {{0xf1, 0xf3}, {0x80, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
	{4, {{0xf4, 0xf4}, {0x80, 0x8f}, {0x80, 0xbf}, {0x80, 0xbf}}},
};

static size_t matched(const struct row *row, const uint8_t *p, size_t n)
{
	size_t i = 0;
	while (i < row->n_bytes && i < n && p[i] >= row->range[i][0] && p[i] <= row->range[i][1])
		i++;
	return i;
}

/* The whole text at once: well-formed sequences as they are, U+FFFD for each maximal part of any other. */
static size_t expected(const uint8_t *p, size_t n, char *out)
{
	size_t n_out = 0;
	for (size_t at = 0; at < n;) {
		size_t longest = 0;
		bool whole = false;
		for (size_t i = 0; i < sizeof table_3_7 / sizeof table_3_7[0]; i++) {
			size_t length = matched(&table_3_7[i], p + at, n - at);
			if (length > longest)
				longest = length;
			whole |= length == table_3_7[i].n_bytes;
		}
		if (whole) {
			memcpy(out + n_out, p + at, longest);
			n_out += longest;
		} else {
			memcpy(out + n_out, "\xef\xbf\xbd", 3);
			n_out += 3;
		}
		at += longest ? longest : 1;
	}
	return n_out;
}

/* No ck_assert in loops: Check writes a record to a file for each.
 *
 * Pushes text in the pieces that `cuts` names: bit i set means a cut after byte i. */
static size_t streamed(const uint8_t *p, size_t n, unsigned cuts, char *out)
{
	struct utf8_stream stream = {0};
	size_t n_out = 0, start = 0;
	for (size_t i = 0; i < n; i++) {
		if (i + 1 < n && !(cuts & 1u << i))
			continue;
		/* Memory of exactly the promised size, so that a sanitizer sees a byte too many. */
		size_t n_piece = i + 1 - start;
		char *piece = malloc(3 * (n_piece + 3));
		if (!piece)
			abort();
		size_t n_new = utf8_stream_push(&stream, (const char *)p + start, n_piece, piece);
		if (n_new > 3 * (n_piece + 3) || stream.n_held > 3)
			ck_abort_msg("%zu bytes from %zu, %u held", n_new, n_piece, stream.n_held);
		memcpy(out + n_out, piece, n_new);
		free(piece);
		n_out += n_new;
		start = i + 1;
	}
	size_t n_last = utf8_stream_finish(&stream, out + n_out);
	if (stream.n_held)
		ck_abort_msg("%u bytes held at the end", stream.n_held);
	return n_out + n_last;
}

static void check_all_cuts(const uint8_t *p, size_t n)
{
	char want[64], got[64];
	size_t n_want = expected(p, n, want);
	for (unsigned cuts = 0; cuts < 1u << (n ? n - 1 : 0); cuts++) {
		size_t n_got = streamed(p, n, cuts, got);
		if (n_got != n_want || memcmp(got, want, n_want) != 0)
			ck_abort_msg("%zu bytes from %02x %02x %02x %02x, cuts %x", n, p[0], n > 1 ? p[1] : 0,
				     n > 2 ? p[2] : 0, n > 3 ? p[3] : 0, cuts);
	}
}

START_TEST(every_pair_of_bytes)
{
	for (unsigned a = 0; a < 256; a++)
		for (unsigned b = 0; b < 256; b++)
			check_all_cuts((uint8_t[]){(uint8_t)a, (uint8_t)b}, 2);
}
END_TEST

/* The bytes at both sides of every boundary that table 3-7 knows, and those of them that matter after a lead byte. */
static const uint8_t edges[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf,
				0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};
static const uint8_t trails[] = {0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc2};
enum { N_EDGES = sizeof edges, N_TRAILS = sizeof trails };

START_TEST(every_four_edges)
{
	for (unsigned lead = 0; lead < N_EDGES; lead++)
		for (unsigned i = 0; i < N_TRAILS * N_TRAILS * N_TRAILS; i++) {
			uint8_t p[4] = {edges[lead], trails[i % N_TRAILS], trails[i / N_TRAILS % N_TRAILS],
					trails[i / N_TRAILS / N_TRAILS]};
			check_all_cuts(p, 4);
		}
}
END_TEST

START_TEST(longer_random_sequences)
{
	srand(7);
	for (unsigned i = 0; i < 300; i++) {
		uint8_t p[9];
		for (size_t k = 0; k < sizeof p; k++)
			p[k] = edges[(unsigned)rand() % N_EDGES];
		check_all_cuts(p, sizeof p);
	}
}
END_TEST

START_TEST(examples_of_the_standard)
{
	static const struct {
		const char *bytes, *text;
	} examples[] = {
		/* Tables 3-8 to 3-11. */
		{"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdA"},
		{"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdA"},
		{"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", "\ufffd\ufffd\ufffd\ufffd\ufffdA\ufffd\ufffdB"},
		{"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", "\ufffd\ufffd\ufffd\ufffdA"},
		{"na\u00efve \u8a9e \U0001f469", "na\u00efve \u8a9e \U0001f469"},
	};
	for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
		char got[128];
		const uint8_t *p = (const uint8_t *)examples[i].bytes;
		size_t n = strlen(examples[i].bytes), n_text = strlen(examples[i].text);
		for (unsigned cuts = 0; cuts < 1u << (n - 1); cuts++) {
			ck_assert_uint_eq(streamed(p, n, cuts, got), n_text);
			ck_assert_mem_eq(got, examples[i].text, n_text);
		}
	}
}
END_TEST

START_TEST(holds_back_only_what_can_still_become_a_character)
{
	struct utf8_stream stream = {0};
	char out[16];
	ck_assert_uint_eq(utf8_stream_push(&stream, "a\xf0\x9f", 3, out), 1);
	ck_assert_uint_eq(stream.n_held, 2);
	ck_assert_uint_eq(utf8_stream_push(&stream, "", 0, out), 0);
	ck_assert_uint_eq(utf8_stream_push(&stream, "\x91", 1, out), 0);
	ck_assert_uint_eq(utf8_stream_push(&stream, "\xa9", 1, out), 4);
	ck_assert_mem_eq(out, "\U0001f469", 4);
	/* ED A0 begins a surrogate: known to be malformed at once. */
	ck_assert_uint_eq(utf8_stream_push(&stream, "\xed", 1, out), 0);
	ck_assert_uint_eq(utf8_stream_push(&stream, "\xa0", 1, out), 6);
	ck_assert_uint_eq(stream.n_held, 0);
	ck_assert_uint_eq(utf8_stream_finish(&stream, out), 0);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("utf8_stream");
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, every_pair_of_bytes);
	tcase_add_test(tcase, every_four_edges);
	tcase_add_test(tcase, longer_random_sequences);
	tcase_add_test(tcase, examples_of_the_standard);
	tcase_add_test(tcase, holds_back_only_what_can_still_become_a_character);
	Suite *suite = suite_create("utf8_stream");
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
