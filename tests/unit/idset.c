/* Sets of CPUs and nodes and their list syntax. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "numa/idset.h"
#include "tests/unit/suite.h"

START_TEST(members_come_and_go)
{
	struct idset set;
	idset_clear(&set);
	ck_assert_int_eq(idset_first(&set), -1);
	ck_assert_uint_eq(idset_count(&set), 0);
	static const unsigned ids[] = {0, 1, 63, 64, 127, 128, 2047, IDSET_MAX - 1};
	for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
		idset_add(&set, ids[i]);
	idset_add(&set, IDSET_MAX); /* past the end: nothing happens */
	idset_add(&set, UINT32_MAX);
	ck_assert_uint_eq(idset_count(&set), 8);
	int at = idset_first(&set);
	for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
		ck_assert_int_eq(at, (int)ids[i]);
		at = idset_next(&set, at);
	}
	ck_assert_int_eq(at, -1);
	ck_assert(!idset_has(&set, 2));
	ck_assert(!idset_has(&set, IDSET_MAX));
	idset_remove(&set, 63);
	idset_remove(&set, IDSET_MAX);
	ck_assert(!idset_has(&set, 63));
	ck_assert_uint_eq(idset_count(&set), 7);
	ck_assert_int_eq(idset_next(&set, 1), 64);
	ck_assert_int_eq(idset_next(&set, IDSET_MAX + 5), -1);
}
END_TEST

START_TEST(and_or_equal)
{
	struct idset a, b, c;
	ck_assert_int_eq(idset_parse("0-3,100", &a, NULL), 0);
	ck_assert_int_eq(idset_parse("2-5,100", &b, NULL), 0);
	c = a;
	ck_assert(idset_equal(&a, &c));
	ck_assert(!idset_equal(&a, &b));
	idset_and(&c, &b);
	char text[IDSET_TEXT];
	ck_assert_str_eq(idset_format(&c, text, sizeof text), "2-3,100");
	c = a;
	idset_without(&c, &b);
	ck_assert_str_eq(idset_format(&c, text, sizeof text), "0-1");
	idset_or(&a, &b);
	ck_assert_str_eq(idset_format(&a, text, sizeof text), "0-5,100");
}
END_TEST

START_TEST(lists_are_read_and_written)
{
	static const char *const cases[][2] = {
		{"", ""},
		{"\n", ""},
		{"0", "0"},
		{"0-3,8", "0-3,8"},
		{"8,3,2,1,0\n", "0-3,8"},
		{"4-4", "4"},
		{"0,1", "0-1"},
		{"1-2,2-5", "1-5"},
		{"4095", "4095"},
		{"007", "7"},
		{"0-4095", "0-4095"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct idset set;
		char text[IDSET_TEXT];
		struct err err = {""};
		ck_assert_msg(!idset_parse(cases[i][0], &set, &err), "%s", err.text);
		ck_assert_str_eq(idset_format(&set, text, sizeof text), cases[i][1]);
	}
}
END_TEST

START_TEST(nonsense_is_refused_with_its_column)
{
	static const struct {
		const char *text;
		int rc;
		const char *column;
	} cases[] = {
		{"a", -EINVAL, "column 1"},    {"0-", -EINVAL, "column 3"},
		{"-3", -EINVAL, "column 1"},   {"3-1", -EINVAL, "column 1"},
		{"1,,2", -EINVAL, "column 3"}, {"1,", -EINVAL, "column 2"},
		{"0-3 ", -EINVAL, "column 4"}, {"0-3-5", -EINVAL, "column 4"},
		{"4096", -ERANGE, "column 1"}, {"0-99999999999999999999", -ERANGE, "column 3"},
		{"1\n2", -EINVAL, "line"},     {"1,\n", -EINVAL, "column 2"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct idset set, before;
		struct err err = {""};
		memset(&set, 0x5a, sizeof set);
		before = set;
		ck_assert_msg(idset_parse(cases[i].text, &set, &err) == cases[i].rc, "'%s': %s", cases[i].text,
			      err.text);
		ck_assert_msg(strstr(err.text, cases[i].column) != NULL, "'%s': %s", cases[i].text, err.text);
		ck_assert_msg(idset_equal(&set, &before), "'%s': result touched", cases[i].text);
	}
}
END_TEST

START_TEST(a_list_that_does_not_fit_is_cut_with_dots)
{
	struct idset set;
	idset_clear(&set);
	for (unsigned id = 0; id < 100; id += 2)
		idset_add(&set, id);
	for (size_t size = 1; size < 200; size++) {
		char text[256];
		memset(text, '#', sizeof text);
		idset_format(&set, text, size);
		ck_assert_uint_lt(strlen(text), size);
		ck_assert_int_eq(text[size], '#');
		if (size >= 8 && strlen(text) < 100)
			ck_assert_str_eq(text + strlen(text) - 3, "...");
	}
	char text[8];
	ck_assert_str_eq(idset_format(&set, text, sizeof text), "0,2...");
}
END_TEST

/* Whatever is written can be read back. */
START_TEST(round_trip_of_random_sets)
{
	unsigned state = 12345;
	for (int round = 0; round < 200; round++) {
		struct idset set, back;
		static char text[32768];
		idset_clear(&set);
		for (int i = 0; i < round * 4; i++) {
			state = state * 1103515245 + 12345;
			idset_add(&set, state >> 12 & (IDSET_MAX - 1));
		}
		idset_format(&set, text, sizeof text);
		ck_assert_int_eq(idset_parse(text, &back, NULL), 0);
		ck_assert(idset_equal(&set, &back));
	}
}
END_TEST

/* Of CPUs or nodes 2, 3, 8 and 9. */
START_TEST(numactls_lists_are_resolved_against_what_is_allowed)
{
	static const char *const cases[][2] = {
		{"2-3,9", "2-3,9"}, {"all", "2-3,8-9"}, {"+0", "2"},	  {"+1-2", "3,8"},
		{"+0,3", "2,9"},    {"!3", "2,8-9"},	{"!+0", "3,8-9"}, {"!2-3", "8-9"},
	};
	struct idset allowed, set;
	idset_parse("2-3,8-9", &allowed, NULL);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[IDSET_TEXT];
		struct err err = {""};
		ck_assert_msg(!idset_resolve(cases[i][0], &allowed, &set, &err), "%s", err.text);
		ck_assert_str_eq(idset_format(&set, text, sizeof text), cases[i][1]);
	}
	set = allowed; /* the result may be what is chosen from */
	ck_assert_int_eq(idset_resolve("!+1", &set, &set, NULL), 0);
	ck_assert_uint_eq(idset_count(&set), 3);
}
END_TEST

START_TEST(a_list_of_what_is_not_allowed_is_refused)
{
	static const struct {
		const char *text;
		int rc;
		const char *words;
	} cases[] = {
		{"4", -ERANGE, "4 is not there or not allowed; possible: 2-3,8-9"},
		{"2-4", -ERANGE, "4 is not"},
		{"!4", -ERANGE, "4 is not"},
		{"+4", -ERANGE, "there are 4 to choose from"},
		{"!all", -ERANGE, "leaves none of 2-3,8-9"},
		{"!2-3,8-9", -ERANGE, "leaves none"},
		{"", -EINVAL, "expected a list"},
		{"+", -EINVAL, "expected a list"},
		{"!", -EINVAL, "expected a list"},
		{"+!0", -EINVAL, "column 1"},
		{"+all", -EINVAL, "column 1"},
		{"a", -EINVAL, "column 1"},
	};
	struct idset allowed;
	idset_parse("2-3,8-9", &allowed, NULL);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct idset set = allowed;
		struct err err = {""};
		ck_assert_msg(idset_resolve(cases[i].text, &allowed, &set, &err) == cases[i].rc, "'%s': %s",
			      cases[i].text, err.text);
		ck_assert_msg(strstr(err.text, cases[i].words) != NULL, "'%s': %s", cases[i].text, err.text);
		ck_assert_msg(idset_equal(&set, &allowed), "'%s': result touched", cases[i].text);
	}
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("idset");
	tcase_add_test(tests, members_come_and_go);
	tcase_add_test(tests, and_or_equal);
	tcase_add_test(tests, lists_are_read_and_written);
	tcase_add_test(tests, nonsense_is_refused_with_its_column);
	tcase_add_test(tests, a_list_that_does_not_fit_is_cut_with_dots);
	tcase_add_test(tests, round_trip_of_random_sets);
	tcase_add_test(tests, numactls_lists_are_resolved_against_what_is_allowed);
	tcase_add_test(tests, a_list_of_what_is_not_allowed_is_refused);
	Suite *suite = suite_create("numa/idset");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
