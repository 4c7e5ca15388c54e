/* Keys: what a file may hold, and that nothing but a whole key opens. Files and their modes:
 * tests/e2e/test_api_keys.py. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/keys.h"
#include "tests/unit/suite.h"

static int read_keys(const char *text, size_t n, struct keys *keys)
{
	struct err err;
	int fd = memfd_create("keys", MFD_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, n), (ssize_t)n);
	int rc = keys_read(fd, keys, &err);
	if (rc)
		ck_assert_ptr_nonnull(strstr(err.text, "api_keys_file: "));
	close(fd);
	return rc;
}

START_TEST(only_whole_keys_open)
{
	static const char text[] = "#no\n0123456789abcdef\n\n  \t\nZZZZ456789abcdef0\t \r\n#0123456789abcde#";
	struct keys keys = {0};
	ck_assert(!keys_admit(&keys, "Bearer 0123456789abcdef"));
	ck_assert_int_eq(read_keys(text, sizeof text - 1, &keys), 0);
	ck_assert_uint_eq(keys.n, 2);
	ck_assert(keys_admit(&keys, "Bearer 0123456789abcdef"));
	ck_assert(keys_admit(&keys, "BEARER   ZZZZ456789abcdef0"));
	char one[64] = "Bearer 0123456789abcdef";
	for (size_t i = 0; i < strlen(one); i++) { /* one bit of one byte */
		char kept = one[i];
		one[i] ^= 1; /* not the bit that makes letters of the scheme small */
		ck_assert(!keys_admit(&keys, one));
		one[i] = kept;
	}
	for (size_t n = 0; n < strlen(one); n++) { /* cut */
		char cut[64];
		memcpy(cut, one, n);
		cut[n] = '\0';
		ck_assert(!keys_admit(&keys, cut));
	}
	ck_assert(!keys_admit(&keys, "Bearer #0123456789abcde#"));
	ck_assert(!keys_admit(&keys, "Bearer 0123456789abcdef0123456789abcdef"));
	ck_assert(!keys_admit(&keys, "Bearer 0123456789abcdef "));
	keys_free(&keys);
}
END_TEST

START_TEST(files_that_hold_no_keys)
{
	struct keys keys = {0};
	char line[KEY_BYTES_MAX + 2];
	memset(line, 'k', sizeof line);
	ck_assert_int_eq(read_keys("", 0, &keys), -EINVAL);
	ck_assert_int_eq(read_keys("\n#\n", 3, &keys), -EINVAL);
	ck_assert_int_eq(read_keys(line, KEY_BYTES_MIN - 1, &keys), -EINVAL);
	ck_assert_int_eq(read_keys(line, KEY_BYTES_MAX + 1, &keys), -EINVAL);
	ck_assert_int_eq(read_keys("0123456789 abcdef", 17, &keys), -EINVAL);
	ck_assert_int_eq(read_keys("0123456789\x7f"
				   "abcdef",
				   17, &keys),
			 -EINVAL);
	ck_assert_int_eq(read_keys("0123456789abcdef\0", 17, &keys), -EINVAL);
	ck_assert_ptr_null(keys.text); /* untouched */
	ck_assert_int_eq(read_keys(line, KEY_BYTES_MAX, &keys), 0);
	keys_free(&keys);
	ck_assert_int_eq(read_keys(line, KEY_BYTES_MIN, &keys), 0);
	keys_free(&keys);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("keys");
	TCase *tests = tcase_create("all");
	tcase_add_test(tests, only_whole_keys_open);
	tcase_add_test(tests, files_that_hold_no_keys);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
