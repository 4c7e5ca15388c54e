#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "src/engine/arena.h"
#include "tests/unit/suite.h"

/* Resident pages of a range, by mincore: what the kernel holds, not what a counter says. */
static size_t resident(const void *base, size_t bytes)
{
	size_t pages = bytes / 4096, n = 0;
	unsigned char *in = malloc(pages);
	ck_assert_int_eq(mincore((void *)(uintptr_t)base, bytes, in), 0);
	for (size_t i = 0; i < pages; i++)
		n += in[i] & 1;
	free(in);
	return n;
}

START_TEST(spans_are_zeroed_and_given_back_to_the_kernel)
{
	struct arena a;
	enum { BYTES = 64 * 4096 };
	ck_assert_int_eq(arena_init(&a, 1 << 30, NULL), 0);
	ck_assert_uint_eq(resident(a.base, BYTES), 0);
	char *span = arena_alloc(&a, BYTES - 5);
	ck_assert_uint_eq(a.bytes, BYTES);
	memset(span, 0xff, BYTES);
	ck_assert_uint_eq(resident(span, BYTES), 64);
	arena_release(&a, span, BYTES - 5);
	ck_assert_uint_eq(a.bytes, 0);
	ck_assert_uint_eq(a.peak_bytes, BYTES);
	ck_assert_uint_eq(resident(span, BYTES), 0);
	span = arena_alloc(&a, BYTES);
	for (int i = 0; i < BYTES; i++)
		ck_assert_int_eq(span[i], 0);
	arena_release(&a, NULL, 4096);
	arena_fini(&a);
}
END_TEST

START_TEST(random_use_never_overlaps_and_ends_in_one_hole)
{
	struct arena a;
	struct {
		char *at;
		size_t n;
	} live[200] = {{0}};
	ck_assert_int_eq(arena_init(&a, 600 * 4096, NULL), 0);
	srand(4);
	for (int round = 0; round < 20000; round++) {
		int i = rand() % 200;
		if (live[i].at) {
			for (size_t b = 0; b < live[i].n; b += 4096)
				ck_assert_int_eq(live[i].at[b], (char)i);
			arena_release(&a, live[i].at, live[i].n);
			live[i].at = NULL;
			continue;
		}
		live[i].n = (size_t)(rand() % 8 + 1) * 4096;
		live[i].at = arena_alloc(&a, live[i].n);
		for (size_t b = 0; live[i].at && b < live[i].n; b += 4096) {
			ck_assert_int_eq(live[i].at[b], 0);
			live[i].at[b] = (char)i;
		}
	}
	for (int i = 0; i < 200; i++)
		if (live[i].at)
			arena_release(&a, live[i].at, live[i].n);
	ck_assert_uint_eq(a.bytes, 0);
	ck_assert_uint_eq(a.n_holes, 1);
	ck_assert_uint_eq(a.holes[0].n_bytes, 600 * 4096);
	ck_assert_ptr_null(arena_alloc(&a, 601 * 4096));
	ck_assert_ptr_nonnull(arena_alloc(&a, 600 * 4096));
	arena_fini(&a);
}
END_TEST

START_TEST(every_other_of_many_spans_can_be_given_back)
{
	enum { N = 1000 };
	static char *span[N];
	struct arena a;
	ck_assert_int_eq(arena_init(&a, (N + 1) * 4096, NULL), 0);
	for (int i = 0; i < N; i++)
		span[i] = arena_alloc(&a, 4096);
	for (int odd = 0; odd < 2; odd++)
		for (int i = odd; i < N; i += 2)
			arena_release(&a, span[i], 4096);
	ck_assert_uint_eq(a.n_holes, 1);
	ck_assert_uint_eq(a.n_spans, 0);
	arena_fini(&a);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("arena");
	TCase *tc = tcase_create("arena");
	tcase_add_test(tc, spans_are_zeroed_and_given_back_to_the_kernel);
	tcase_add_test(tc, random_use_never_overlaps_and_ends_in_one_hole);
	tcase_add_test(tc, every_other_of_many_spans_can_be_given_back);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
