#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "src/engine/lane.h"
#include "tests/unit/suite.h"

enum { ROWS = 64, WIDE = 8192, NARROW = 1000, FIXED = 4 * 4096 };

struct rig {
	struct arena arena;
	struct lane lane;
	char *wide, *narrow, *fixed;
};

static void place(struct rig *r)
{
	lane_clear(&r->lane);
	r->wide = lane_place(&r->lane, ROWS, WIDE);
	r->narrow = lane_place(&r->lane, ROWS, NARROW);
	r->fixed = lane_place_fixed(&r->lane, FIXED);
}

static struct rig set_up(void)
{
	struct rig r = {0};
	ck_assert_int_eq(arena_init(&r.arena, 1 << 30, NULL), 0);
	place(&r);
	ck_assert_ptr_null(r.wide);
	ck_assert_int_eq(lane_wake(&r.lane, &r.arena), 0);
	place(&r);
	memset(r.fixed, 3, FIXED);
	return r;
}

static void run(struct rig *r, uint32_t n_rows)
{
	lane_use(&r->lane, n_rows);
	memset(r->wide, 1, (size_t)n_rows * WIDE);
	memset(r->narrow, 2, (size_t)n_rows * NARROW);
}

/* Pages of the arena's first megabyte that the kernel holds. */
static size_t resident(const struct rig *r)
{
	static unsigned char in[256];
	size_t n = 0;
	ck_assert_int_eq(mincore(r->arena.base, sizeof in * 4096, in), 0);
	for (size_t i = 0; i < sizeof in; i++)
		n += in[i] & 1;
	return n;
}

START_TEST(arrays_do_not_overlap_and_are_aligned)
{
	struct rig r = set_up();
	ck_assert_ptr_eq(r.narrow, r.wide + ROWS * WIDE);
	ck_assert_uint_eq((uintptr_t)r.fixed % 4096, 0);
	ck_assert_uint_ge((uintptr_t)(r.fixed - r.narrow), ROWS * NARROW);
	ck_assert_uint_ge(r.lane.n_bytes, (size_t)ROWS * (WIDE + NARROW) + FIXED);
	ck_assert_uint_eq(r.arena.bytes, (r.lane.n_bytes + 4095) / 4096 * 4096);
	lane_release(&r.lane, &r.arena);
	arena_fini(&r.arena);
}
END_TEST

START_TEST(a_burst_is_forgotten_after_two_trims)
{
	struct rig r = set_up();
	run(&r, ROWS);
	size_t wide = resident(&r);
	lane_trim(&r.lane, &r.arena, 0); /* there was a wide pass since the last one */
	ck_assert_uint_eq(resident(&r), wide);
	run(&r, 3);
	run(&r, 2);
	lane_trim(&r.lane, &r.arena, 0);
	ck_assert_uint_le(resident(&r), wide - (ROWS - 3) * (WIDE + NARROW) / 4096 + 2);
	for (int i = 0; i < 3 * WIDE; i++)
		ck_assert_int_eq(r.wide[i], 1);
	for (int i = 0; i < 3 * NARROW; i++)
		ck_assert_int_eq(r.narrow[i], 2);
	for (int i = 0; i < FIXED; i++)
		ck_assert_int_eq(r.fixed[i], 3);
	run(&r, ROWS);
	ck_assert_uint_eq(resident(&r), wide);
	lane_release(&r.lane, &r.arena);
	arena_fini(&r.arena);
}
END_TEST

START_TEST(rows_of_a_pass_that_stands_still_stay)
{
	struct rig r = set_up();
	run(&r, 10);
	for (int i = 0; i < 3; i++)
		lane_trim(&r.lane, &r.arena, 10);
	for (int i = 0; i < 10 * WIDE; i++)
		ck_assert_int_eq(r.wide[i], 1);
	lane_trim(&r.lane, &r.arena, 0);
	ck_assert_ptr_null(r.lane.span);
	ck_assert_uint_eq(r.arena.bytes, 0);
	ck_assert_uint_eq(resident(&r), 0);
	arena_fini(&r.arena);
}
END_TEST

START_TEST(a_lane_that_was_woken_in_vain_goes_too)
{
	struct rig r = set_up();
	lane_trim(&r.lane, &r.arena, 0);
	ck_assert_ptr_null(r.lane.span);
	lane_trim(&r.lane, &r.arena, 0);
	lane_release(&r.lane, &r.arena);
	ck_assert_uint_eq(r.arena.bytes, 0);
	r.lane.n_bytes = (size_t)2 << 30;
	ck_assert_int_eq(lane_wake(&r.lane, &r.arena), -ENOMEM);
	ck_assert_ptr_null(r.lane.span);
	arena_fini(&r.arena);
}
END_TEST

START_TEST(what_passes_leave_is_told)
{
	struct rig r = set_up();
	ck_assert_uint_eq(lane_bytes(&r.lane, 0), FIXED);
	ck_assert_uint_eq(lane_bytes(&r.lane, 1), FIXED + WIDE + 4096);
	ck_assert_uint_eq(lane_bytes(&r.lane, 5), FIXED + 5 * WIDE + 2 * 4096);
	ck_assert_uint_eq(lane_bytes(&r.lane, ROWS), FIXED + ROWS * WIDE + 16 * 4096);
	lane_release(&r.lane, &r.arena);
	ck_assert_uint_eq(lane_bytes(&r.lane, 5), FIXED + 5 * WIDE + 2 * 4096); /* what it would be */
	arena_fini(&r.arena);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lane");
	TCase *tc = tcase_create("lane");
	tcase_add_test(tc, arrays_do_not_overlap_and_are_aligned);
	tcase_add_test(tc, a_burst_is_forgotten_after_two_trims);
	tcase_add_test(tc, rows_of_a_pass_that_stands_still_stay);
	tcase_add_test(tc, a_lane_that_was_woken_in_vain_goes_too);
	tcase_add_test(tc, what_passes_leave_is_told);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
