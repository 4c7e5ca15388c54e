/* Where pages of an interleaved mapping belong, from where they are. What kernels do is made here: going round page by
 * page or huge page by huge page, from any node on; then what went wrong. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "numa/interleave.h"
#include "tests/unit/suite.h"

enum { HUGE = 16, N_MAX = 8, PAGES = 4 * N_MAX * HUGE + 5 };

static int status[PAGES], wanted[PAGES], again[PAGES];

/* Nodes 1, 4, 7, ...: numbers have holes. */
static void make_nodes(unsigned n, struct idset *nodes, int *node)
{
	idset_clear(nodes);
	for (unsigned i = 0; i < n; i++) {
		node[i] = (int)(3 * i + 1);
		idset_add(nodes, 3 * i + 1);
	}
}

static size_t moves(void)
{
	size_t n = 0;
	for (size_t i = 0; i < PAGES; i++)
		n += status[i] >= 0 && status[i] != wanted[i];
	return n;
}

START_TEST(pages_that_go_round_are_right_wherever_they_begin)
{
	struct idset nodes;
	int node[N_MAX];
	for (unsigned n = 2; n <= N_MAX; n++)
		for (unsigned first = 0; first < n; first++) {
			make_nodes(n, &nodes, node);
			for (size_t i = 0; i < PAGES; i++)
				status[i] = node[(first + i) % n];
			interleave_want(status, PAGES, HUGE, &nodes, wanted);
			ck_assert_uint_eq(moves(), 0);
			/* In huge pages, the end of the mapping in small ones. */
			for (size_t i = 0; i < PAGES; i++)
				status[i] = node[(first + (i < PAGES - 5 ? i / HUGE : i)) % n];
			interleave_want(status, PAGES, HUGE, &nodes, wanted);
			ck_assert_uint_eq(moves(), 0);
			/* Every third one could not be had. */
			for (size_t i = 0; i < PAGES; i++)
				status[i] = node[(first + (i / HUGE % 3 && i < PAGES - 5 ? i / HUGE : i)) % n];
			interleave_want(status, PAGES, HUGE, &nodes, wanted);
			ck_assert_uint_eq(moves(), 0);
		}
}
END_TEST

START_TEST(what_lies_together_is_not_interleaved)
{
	struct idset nodes;
	int node[N_MAX];
	make_nodes(4, &nodes, node);
	/* Everything on one node, and the halves on two: all but one in four huge pages has to go, or two. */
	for (size_t i = 0; i < PAGES; i++)
		status[i] = node[2];
	interleave_want(status, PAGES, HUGE, &nodes, wanted);
	ck_assert_uint_eq(moves(), (PAGES - 5) / 4 * 3 + 3); /* of the end's five, two may stay */
	for (size_t i = 0; i < PAGES; i++)
		status[i] = node[i < (PAGES - 5) / 2];
	interleave_want(status, PAGES, HUGE, &nodes, wanted);
	ck_assert_uint_eq(moves(), (PAGES - 5) / 4 * 3 + 3);
	/* Small pages by halves of a huge page's room: each node has its share there, and may. */
	for (size_t i = 0; i < PAGES; i++)
		status[i] = node[i % HUGE / 4];
	interleave_want(status, PAGES - 5, HUGE, &nodes, wanted);
	ck_assert_int_eq(memcmp(status, wanted, (PAGES - 5) * sizeof *status), 0);
}
END_TEST

START_TEST(one_wrong_page_is_one_page)
{
	struct idset nodes;
	int node[N_MAX];
	make_nodes(4, &nodes, node);
	for (size_t i = 0; i < PAGES; i++)
		status[i] = node[i % 4];
	status[17] = 0; /* none of the nodes; it was on node[1] */
	status[100] = node[3];
	interleave_want(status, PAGES, HUGE, &nodes, wanted);
	ck_assert_uint_eq(moves(), 2);
	ck_assert_int_eq(wanted[17], node[1]);
	/* A huge page that went to its neighbour's node. */
	for (size_t i = 0; i < PAGES; i++)
		status[i] = node[i / HUGE % 4];
	for (size_t i = 0; i < HUGE; i++)
		status[5 * HUGE + i] = node[2];
	interleave_want(status, PAGES, HUGE, &nodes, wanted);
	for (size_t i = 0; i < 8 * HUGE; i++)
		ck_assert_int_eq(wanted[i], i / HUGE == 6 ? node[1] : status[i]);
}
END_TEST

START_TEST(pages_that_are_not_there_are_wanted_nowhere)
{
	struct idset nodes;
	int node[N_MAX];
	make_nodes(2, &nodes, node);
	for (size_t i = 0; i < PAGES; i++)
		status[i] = i % 7 == 0 ? -2 : node[i / HUGE % 2];
	interleave_want(status, PAGES, HUGE, &nodes, wanted);
	for (size_t i = 0; i < PAGES; i++)
		ck_assert(status[i] >= 0 || wanted[i] == -1);
	for (size_t i = 0; i < PAGES - 5; i++)
		ck_assert(status[i] < 0 || wanted[i] == status[i]);
	memset(status, 0xff, sizeof status);
	interleave_want(status, PAGES, HUGE, &nodes, wanted);
	ck_assert_int_eq(memcmp(status, wanted, sizeof status), 0);
}
END_TEST

/* Whatever is found: once moved, nothing is left to move, and everything is on the nodes. */
START_TEST(a_repair_is_complete)
{
	struct idset nodes;
	int node[N_MAX];
	srand((unsigned)_i);
	for (int round = 0; round < 50; round++) {
		unsigned n = 2 + (unsigned)rand() % (N_MAX - 1);
		make_nodes(n, &nodes, node);
		for (size_t i = 0; i < PAGES; i++) {
			bool huge = round % 2 && i % HUGE && rand() % 50;
			status[i] = huge ? status[i - 1] : rand() % 9 ? node[(unsigned)rand() % n] : rand() % 3 - 1;
		}
		interleave_want(status, PAGES, HUGE, &nodes, wanted);
		for (size_t i = 0; i < PAGES; i++)
			ck_assert(status[i] < 0 ? wanted[i] == -1 : idset_has(&nodes, (unsigned)wanted[i]));
		interleave_want(wanted, PAGES, HUGE, &nodes, again);
		ck_assert_int_eq(memcmp(wanted, again, sizeof wanted), 0);
	}
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("interleave");
	tcase_add_test(tests, pages_that_go_round_are_right_wherever_they_begin);
	tcase_add_test(tests, what_lies_together_is_not_interleaved);
	tcase_add_test(tests, one_wrong_page_is_one_page);
	tcase_add_test(tests, pages_that_are_not_there_are_wanted_nowhere);
	tcase_add_loop_test(tests, a_repair_is_complete, 0, 4);
	Suite *suite = suite_create("numa/interleave");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
