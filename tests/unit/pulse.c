/* A pulse counted on one side is seen on the other, and cannot be made to fault either. */
#include <check.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/pulse.h"
#include "tests/unit/suite.h"

START_TEST(beats_are_seen_on_the_other_side)
{
	int fd;
	struct pulse *parent, *front;
	ck_assert_int_eq(pulse_create(&fd, &parent, NULL), 0);
	ck_assert_int_eq(pulse_attach(fd, &front, NULL), 0);
	ck_assert_uint_eq(pulse_turns(parent), 0);
	for (uint64_t i = 1; i <= 3; i++) {
		pulse_beat(front);
		ck_assert_uint_eq(pulse_turns(parent), i);
		pulse_answer(front);
		pulse_answer(front);
		ck_assert_uint_eq(pulse_answered(parent), 2 * i);
	}
	ck_assert_int_ne(ftruncate(fd, 0), 0); /* else the next look would be the looker's SIGBUS */
	close(fd);
	pulse_detach(front);
	ck_assert_uint_eq(pulse_turns(parent), 3);
	pulse_detach(parent);
	pulse_detach(NULL);
}
END_TEST

START_TEST(what_is_no_pulse_is_refused)
{
	struct pulse *pulse;
	struct err err = {""};
	int fds[2], memory = memfd_create("other", MFD_CLOEXEC);
	ck_assert_int_eq(pipe(fds), 0);
	ck_assert_int_eq(ftruncate(memory, 4096), 0); /* the size alone does not make it one */
	ck_assert_int_eq(pulse_attach(memory, &pulse, &err), -EINVAL);
	ck_assert_str_ne(err.text, "");
	ck_assert_int_eq(pulse_attach(fds[0], &pulse, &err), -EINVAL);
	ck_assert_int_eq(pulse_attach(-1, &pulse, &err), -EINVAL);
	close(memory);
	close(fds[0]);
	close(fds[1]);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("pulse");
	tcase_add_test(tests, beats_are_seen_on_the_other_side);
	tcase_add_test(tests, what_is_no_pulse_is_refused);
	Suite *suite = suite_create("src/pulse");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
