#include <check.h>
#include <errno.h>
#include <stdatomic.h>

#include "src/engine/team.h"
#include "tests/unit/suite.h"

enum { ROUNDS = 60, STEPS = 20, THREADS_MAX = 8 };

struct work {
	struct team *team;
	unsigned n;
	uint64_t cell[THREADS_MAX][8]; /* one per thread, plain memory: only barriers order its use */
	atomic_int wrong;
};

/* Each step writes the own cell and, after the barrier, reads everybody's. */
static void steps(void *arg, unsigned thread)
{
	struct work *w = arg;
	for (int s = 0; s < STEPS; s++) {
		w->cell[thread][0] += thread + 1;
		team_barrier(w->team);
		for (unsigned i = 0; i < w->n; i++)
			if (w->cell[i][0] % (i + 1) || w->cell[i][0] / (i + 1) != w->cell[0][0])
				atomic_fetch_add(&w->wrong, 1);
		team_barrier(w->team);
	}
}

static void run(unsigned n, int spin)
{
	static struct work w;
	w = (struct work){.n = n};
	ck_assert_int_eq(team_new(n, spin, NULL, NULL, &w.team, NULL), 0);
	ck_assert_uint_eq(team_n_threads(w.team), n);
	for (int r = 0; r < ROUNDS; r++)
		team_run(w.team, steps, &w);
	team_set_spin(w.team, !spin); /* and the other way round */
	for (int r = 0; r < ROUNDS; r++)
		team_run(w.team, steps, &w);
	ck_assert_int_eq(w.wrong, 0);
	ck_assert_uint_eq(w.cell[n - 1][0], (uint64_t)n * 2 * ROUNDS * STEPS);
	team_free(w.team);
}

START_TEST(barriers_order_plain_memory)
{
	static const unsigned n[] = {1, 2, 3, 8};
	run(n[_i / 2], _i % 2);
}
END_TEST

static int refuse_second(void *arg, unsigned thread)
{
	(void)arg;
	return thread == 2 ? -EPERM : 0;
}

START_TEST(a_thread_that_cannot_start_is_an_error)
{
	struct team *team = NULL;
	struct err err = {""};
	ck_assert_int_eq(team_new(4, 0, refuse_second, NULL, &team, &err), -EPERM);
	ck_assert_ptr_null(team);
	ck_assert_str_ne(err.text, "");
}
END_TEST

START_TEST(shares_cover_everything_once)
{
	for (uint32_t n = 0; n < 70; n++)
		for (unsigned threads = 1; threads < 9; threads++) {
			uint32_t at = 0, begin, end;
			for (unsigned t = 0; t < threads; t++) {
				team_share(n, t, threads, &begin, &end);
				ck_assert_uint_eq(begin, at);
				ck_assert_uint_le(end - begin, n / threads + 1);
				at = end;
			}
			ck_assert_uint_eq(at, n);
		}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("team");
	TCase *tc = tcase_create("team");
	tcase_set_timeout(tc, 120); /* many threads on few CPUs, under a sanitizer */
	tcase_add_loop_test(tc, barriers_order_plain_memory, 0, 8);
	tcase_add_test(tc, a_thread_that_cannot_start_is_an_error);
	tcase_add_test(tc, shares_cover_everything_once);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
