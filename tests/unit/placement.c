/* Counting where pages are. The node of a page comes from the kernel; on a machine with one node a wrong place is made
 * by asking for another node, on one with more by really putting pages elsewhere. */
#include <check.h>
#include <errno.h>
#include <numaif.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "numa/bind.h"
#include "numa/placement.h"
#include "numa/topology.h"
#include "tests/unit/refuse.h"
#include "tests/unit/suite.h"

enum { PAGES = 1000 };
static size_t page_bytes;
static unsigned nodes[2]; /* with memory; both the same on a machine with one */

static void find_nodes(void)
{
	struct topology *t = NULL;
	ck_assert_int_eq(topology_load(NULL, &t, NULL), 0);
	unsigned n = 0;
	for (unsigned i = 0; i < topology_n_nodes(t); i++) {
		const struct topology_node *node = topology_node(t, i);
		if (node->memory_bytes && node->may_bind_memory && n < 2)
			nodes[n++] = node->os_index;
	}
	topology_free(t);
	ck_assert_uint_gt(n, 0);
	if (n == 1)
		nodes[1] = nodes[0];
	page_bytes = (size_t)sysconf(_SC_PAGESIZE);
}

static char *map_pages(size_t pages)
{
	char *map = mmap(NULL, pages * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	madvise(map, pages * page_bytes, MADV_NOHUGEPAGE);
	return map;
}

START_TEST(touched_pages_are_counted_on_their_node)
{
	char *map = map_pages(PAGES);
	struct placement found;
	struct refusals refused = {{0}};
	ck_assert_int_eq(bind_mapping(map, PAGES * page_bytes, nodes[0], &refused, NULL), 0);
	memset(map, 1, PAGES * page_bytes);
	ck_assert_int_eq(placement_check(map, PAGES * page_bytes, nodes[0], &found), 0);
	ck_assert_uint_eq(found.pages, PAGES);
	ck_assert_uint_eq(found.on_node, PAGES);
	ck_assert_uint_eq(found.misplaced + found.absent + found.unknown, 0);
	ck_assert(!refusals_any(&found.refused));
	ck_assert(placement_verified(&found));
	/* The same pages, wanted elsewhere: none is right. */
	ck_assert_int_eq(placement_check(map, PAGES * page_bytes, nodes[0] + 1, &found), 0);
	ck_assert_uint_eq(found.misplaced, PAGES);
	ck_assert_uint_eq(found.on_node, 0);
	ck_assert(!placement_verified(&found));
	ck_assert(placement_wrong(&found));
}
END_TEST

/* They are where they should be, and nothing holds them there. */
START_TEST(pages_that_could_not_be_bound_are_not_verified)
{
	char *map = map_pages(PAGES);
	struct placement found;
	struct refusals refused = {{0}};
	ck_assert_int_eq(bind_mapping(map, PAGES * page_bytes, nodes[0], &refused, NULL), 0);
	memset(map, 1, PAGES * page_bytes);
	ck_assert_int_eq(placement_check(map, PAGES * page_bytes, nodes[0], &found), 0);
	ck_assert(placement_verified(&found));
	found.refused.error[NUMA_MBIND] = EPERM;
	ck_assert(!placement_verified(&found));
}
END_TEST

START_TEST(some_pages_are_asked_about_alone)
{
	struct idset one, other;
	idset_clear(&one);
	idset_clear(&other);
	idset_add(&one, nodes[0]);
	idset_add(&other, nodes[0] + 1);
	static const uint64_t page[] = {0, 7, 8, PAGES - 1};
	char *map = map_pages(PAGES);
	struct placement found;
	struct refusals refused = {0};
	ck_assert_int_eq(bind_mapping(map, PAGES * page_bytes, nodes[0], &refused, NULL), 0);
	for (unsigned i = 0; i < 3; i++)
		map[page[i] * page_bytes] = 1;
	ck_assert_int_eq(placement_check_some(map, page, 4, &one, &found), 0);
	ck_assert_uint_eq(found.pages, 4);
	ck_assert_uint_eq(found.on_node, 3);
	ck_assert_uint_eq(found.absent, 1); /* asking makes none */
	ck_assert_int_eq(placement_check_some(map, page, 3, &other, &found), 0);
	ck_assert_uint_eq(found.misplaced, 3);
	ck_assert_int_eq(placement_check_some(map, page, PLACEMENT_SOME_MAX + 1, &one, &found), -EINVAL);
}
END_TEST

START_TEST(untouched_pages_are_absent)
{
	char *map = map_pages(PAGES);
	struct placement found;
	struct refusals refused = {{0}};
	ck_assert_int_eq(bind_mapping(map, PAGES * page_bytes, nodes[0], &refused, NULL), 0);
	memset(map, 1, PAGES * page_bytes);
	ck_assert_int_eq(madvise(map + 10 * page_bytes, 3 * page_bytes, MADV_DONTNEED), 0);
	ck_assert_int_eq(placement_check(map, PAGES * page_bytes, nodes[0], &found), 0);
	ck_assert_uint_eq(found.absent, 3);
	ck_assert_uint_eq(found.on_node, PAGES - 3);
	ck_assert(!placement_verified(&found));
}
END_TEST

/* More pages than one batch asks about, with a hole beyond the first batch. */
START_TEST(every_page_of_a_large_mapping_is_asked_about)
{
	enum { LARGE = (1 << 16) + 777 };
	char *map = map_pages(LARGE);
	struct placement found;
	for (size_t i = 0; i < LARGE; i++)
		map[i * page_bytes] = 1;
	ck_assert_int_eq(madvise(map + (LARGE - 1) * page_bytes, page_bytes, MADV_DONTNEED), 0);
	ck_assert_int_eq(placement_check(map, LARGE * page_bytes, nodes[0], &found), 0);
	ck_assert_uint_eq(found.pages, LARGE);
	ck_assert_uint_eq(found.absent, 1);
	ck_assert_uint_eq(found.on_node + found.misplaced, LARGE - 1);
}
END_TEST

START_TEST(addresses_that_are_not_mapped_are_never_on_a_node)
{
	char *map = map_pages(4);
	struct placement found;
	memset(map, 1, 4 * page_bytes);
	munmap(map + page_bytes, page_bytes);
	ck_assert_int_eq(placement_check(map, 4 * page_bytes, nodes[0], &found), 0);
	ck_assert_uint_eq(found.pages, 4);
	ck_assert_uint_eq(found.unknown + found.absent, 1);
	ck_assert(!placement_verified(&found));
}
END_TEST

static const unsigned errors[] = {EPERM, EACCES, EINVAL, ENOSYS};

START_TEST(a_refusal_is_unverified_and_not_a_claim)
{
	char *map = map_pages(PAGES);
	struct placement found;
	memset(map, 1, PAGES * page_bytes);
	ck_assert_int_eq(refuse_call(SYS_move_pages, errors[_i]), 0);
	ck_assert_int_eq(placement_check(map, PAGES * page_bytes, nodes[0], &found), 0);
	ck_assert_int_eq(found.refused.error[NUMA_MOVE_PAGES], errors[_i]);
	ck_assert(!placement_wrong(&found)); /* nothing is known */
	ck_assert_uint_eq(found.pages, PAGES);
	ck_assert_uint_eq(found.on_node, 0);
	ck_assert(!placement_verified(&found));
	ck_assert_int_eq(placement_repair(map, PAGES * page_bytes, nodes[0]), -(int)errors[_i]);
}
END_TEST

START_TEST(a_failure_that_is_no_refusal_is_passed_on)
{
	char *map = map_pages(PAGES);
	struct placement found;
	ck_assert_int_eq(refuse_call(SYS_move_pages, ENOMEM), 0);
	ck_assert_int_eq(placement_check(map, PAGES * page_bytes, nodes[0], &found), -ENOMEM);
}
END_TEST

START_TEST(nothing_is_not_verified)
{
	struct placement none = {0};
	ck_assert(!placement_verified(&none));
}
END_TEST

/* What is all on one node, wanted on two: of two huge pages' room one may stay, of what is left over half. */
START_TEST(what_lies_together_is_not_interleaved)
{
	char *map = map_pages(PAGES);
	struct placement found;
	struct refusals refused = {{0}};
	struct idset two;
	idset_clear(&two);
	idset_add(&two, nodes[0]);
	idset_add(&two, nodes[0] + 1);
	ck_assert_int_eq(bind_mapping(map, PAGES * page_bytes, nodes[0], &refused, NULL), 0);
	memset(map, 1, PAGES * page_bytes);
	ck_assert_int_eq(placement_check_spread(map, PAGES * page_bytes, &two, &found), 0);
	size_t huge = PLACEMENT_HUGE_BYTES / page_bytes, rest = PAGES % huge;
	ck_assert_uint_eq(found.pages, PAGES);
	ck_assert_uint_eq(found.on_node, PAGES / huge * huge + (rest + 1) / 2);
	ck_assert_uint_eq(found.misplaced, rest / 2);
	ck_assert(placement_wrong(&found));
	idset_clear(&two);
	ck_assert_int_eq(placement_check_spread(map, PAGES * page_bytes, &two, &found), -EINVAL);
}
END_TEST

/* These run only where there are two nodes; tests/guest brings them. */
START_TEST(interleaved_pages_are_proven_and_repaired)
{
	enum { SMALL = 3000 };
	char *map = map_pages(SMALL);
	struct placement found;
	struct refusals refused = {{0}};
	struct idset two;
	idset_clear(&two);
	idset_add(&two, nodes[0]);
	idset_add(&two, nodes[1]);
	ck_assert_int_eq(bind_mapping_spread(map, SMALL * page_bytes, &two, &refused, NULL), 0);
	memset(map, 1, SMALL * page_bytes);
	ck_assert_int_eq(placement_check_spread(map, SMALL * page_bytes, &two, &found), 0);
	ck_assert(placement_verified(&found));
	/* And half of them are on each. */
	ck_assert_int_eq(placement_check(map, SMALL * page_bytes, nodes[1], &found), 0);
	ck_assert_uint_eq(found.on_node, SMALL / 2);
	for (int i = 0; i < 20; i += 2) { /* of neighbours one is on each: ten pages change nodes */
		void *page = map + (size_t)i * page_bytes;
		int status = -1;
		ck_assert_int_eq(move_pages(0, 1, &page, NULL, &status, 0), 0);
		int target = (int)(status == (int)nodes[0] ? nodes[1] : nodes[0]);
		ck_assert_int_eq(move_pages(0, 1, &page, &target, &status, MPOL_MF_MOVE), 0);
	}
	ck_assert_int_eq(placement_check_spread(map, SMALL * page_bytes, &two, &found), 0);
	ck_assert_uint_eq(found.misplaced, 10);
	ck_assert_int_eq(placement_repair_spread(map, SMALL * page_bytes, &two), 0);
	ck_assert_int_eq(placement_check_spread(map, SMALL * page_bytes, &two, &found), 0);
	ck_assert(placement_verified(&found));
}
END_TEST

START_TEST(a_planted_page_is_counted_and_repaired)
{
	char *map = map_pages(PAGES);
	struct placement found;
	struct refusals refused = {{0}};
	ck_assert_int_eq(bind_mapping(map, PAGES * page_bytes, nodes[0], &refused, NULL), 0);
	memset(map, 1, PAGES * page_bytes);
	void *page = map + 500 * page_bytes;
	int target = (int)nodes[1], status = -1;
	ck_assert_int_eq(move_pages(0, 1, &page, &target, &status, MPOL_MF_MOVE), 0);
	ck_assert_int_eq(placement_check(map, PAGES * page_bytes, nodes[0], &found), 0);
	ck_assert_uint_eq(found.misplaced, 1);
	ck_assert_uint_eq(found.on_node, PAGES - 1);
	ck_assert(!placement_verified(&found));
	ck_assert_int_eq(placement_repair(map, PAGES * page_bytes, nodes[0]), 0);
	ck_assert_int_eq(placement_check(map, PAGES * page_bytes, nodes[0], &found), 0);
	ck_assert(placement_verified(&found));
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("placement");
	tcase_add_unchecked_fixture(tests, find_nodes, NULL);
	tcase_add_test(tests, touched_pages_are_counted_on_their_node);
	tcase_add_test(tests, some_pages_are_asked_about_alone);
	tcase_add_test(tests, untouched_pages_are_absent);
	tcase_add_test(tests, every_page_of_a_large_mapping_is_asked_about);
	tcase_add_test(tests, addresses_that_are_not_mapped_are_never_on_a_node);
	tcase_add_loop_test(tests, a_refusal_is_unverified_and_not_a_claim, 0, 4);
	tcase_add_test(tests, a_failure_that_is_no_refusal_is_passed_on);
	tcase_add_test(tests, pages_that_could_not_be_bound_are_not_verified);
	tcase_add_test(tests, nothing_is_not_verified);
	tcase_add_test(tests, what_lies_together_is_not_interleaved);
	struct topology *t = NULL;
	unsigned n = 0;
	if (!topology_load(NULL, &t, NULL)) {
		for (unsigned i = 0; i < topology_n_nodes(t); i++)
			n += topology_node(t, i)->memory_bytes && topology_node(t, i)->may_bind_memory;
		topology_free(t);
	}
	if (n > 1) {
		tcase_add_test(tests, a_planted_page_is_counted_and_repaired);
		tcase_add_test(tests, interleaved_pages_are_proven_and_repaired);
	} else {
		printf("placement: one node here, a_planted_page_is_counted_and_repaired and "
		       "interleaved_pages_are_proven_and_repaired run in the guest\n");
	}
	Suite *suite = suite_create("numa/placement");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
