/* Runs a Check suite: the last line of every unit test's main. */
#ifndef WEIGHTD_TESTS_SUITE_H
#define WEIGHTD_TESTS_SUITE_H

#include <check.h>

/* Takes the suite. Returns the exit status: 0 when every test passed. Verbosity is CK_VERBOSITY's. */
static inline int suite_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}

#endif
