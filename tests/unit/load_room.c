/* Whether copies fit, and what is said when they do not: which nodes are short, by how much, and what would fit. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "src/load/load_room.h"
#include "tests/numa/tree.h"
#include "tests/unit/suite.h"

#define MIB(n) ((uint64_t)(n) << 20)

/* A node that computes has its free MiB, one that does not the negative of them. Copies are on the nodes of `order`,
 * one each, or with `spread` one over all. */
static const struct {
	int free_mib[6]; /* 0 at the end */
	unsigned group_mib;
	unsigned order[6], n;
	bool spread;
	unsigned copy_mib;
	const char *words; /* NULL: it fits */
} cases[] = {
	{{1000, 1000}, 0, {0, 1}, 2, false, 968, NULL},
	{{1000, 1000},
	 0,
	 {0, 1},
	 2,
	 false,
	 969,
	 "1001 MiB free are needed on a node: node 0 has 1000 MiB, node 1 has 1000 "
	 "MiB; placement = interleave would fit"},
	{{1000, 600},
	 0,
	 {0, 1},
	 2,
	 false,
	 900,
	 "932 MiB free are needed on a node: node 1 has 600 MiB; placement = 0 would "
	 "fit"},
	{{1000, 300, 1000}, 0, {0, 1, 2}, 3, false, 900, "node 1 has 300 MiB; placement = 0,2 would fit"},
	{{1000, 1000}, 0, {0, 1}, 2, false, 3000, "no placement would fit"},
	/* Memory that nobody computes beside is no advice, but may be asked for. */
	{{500, -9000}, 0, {0}, 1, false, 900, "node 0 has 500 MiB; no placement would fit"},
	{{500, -9000}, 0, {1}, 1, false, 900, NULL},
	/* Each node has its part of a spread copy. */
	{{500, 500, 500}, 0, {0, 1, 2}, 3, true, 1400, NULL},
	{{500, 500, 300},
	 0,
	 {0, 1, 2},
	 3,
	 true,
	 1400,
	 "498 MiB free are needed on a node: node 2 has 300 MiB; no "
	 "placement would fit"},
	{{500, 1500, 300}, 0, {0, 1, 2}, 3, true, 1400, "node 2 has 300 MiB; placement = 1 would fit"},
	/* The control group counts all copies. */
	{{4000, 4000}, 2032, {0, 1}, 2, false, 1000, NULL},
	{{4000, 4000},
	 2031,
	 {0, 1},
	 2,
	 false,
	 1000,
	 "2 x 1000 MiB are needed, the control group has 2031 MiB left "
	 "(MemoryMax=); placement = 0 would fit"},
	{{4000, 4000},
	 900,
	 {0, 1},
	 2,
	 false,
	 1000,
	 "control group has 900 MiB left (MemoryMax=); no placement would fit"},
	{{4000, 4000}, 20, {0}, 1, false, 1, "control group has 20 MiB left"},
	{{10, 20, 30, 40, 50},
	 0,
	 {0, 1, 2, 3, 4},
	 5,
	 false,
	 100,
	 "node 0 has 10 MiB, node 1 has 20 MiB, node 2 has 30 MiB, "
	 "and 2 more have too little; no placement"},
};

START_TEST(what_does_not_fit_is_refused_with_figures)
{
	struct load_room room = {.group_bytes = cases[_i].group_mib ? MIB(cases[_i].group_mib) : UINT64_MAX};
	struct message_load order = {.n_nodes = cases[_i].spread ? 1 : cases[_i].n};
	struct err err = {""};
	for (unsigned i = 0; cases[_i].free_mib[i]; i++) {
		int mib = cases[_i].free_mib[i];
		room.nodes[room.n++] = (struct load_room_node){i, MIB(mib < 0 ? -mib : mib), mib > 0};
	}
	for (unsigned i = 0; i < cases[_i].n; i++)
		if (cases[_i].spread && i)
			order.more[order.n_more[0]++] = (uint16_t)cases[_i].order[i];
		else
			order.node[i] = (uint16_t)cases[_i].order[i];
	int rc = load_room_check(&room, &order, MIB(cases[_i].copy_mib), &err);
	ck_assert_int_eq(rc, cases[_i].words ? -ENOMEM : 0);
	ck_assert_msg(!cases[_i].words || strstr(err.text, cases[_i].words), "%s", err.text);
}
END_TEST

/* One copy of `copy_mib` on each of two nodes, in place of those that are served. */
static const struct {
	unsigned free_mib[2], group_mib, served_mib, copy_mib;
	int rc;
	const char *words;
} turns[] = {
	{{1000, 1000}, 0, 900, 900, 0, NULL}, /* beside */
	{{1000, 300}, 0, 900, 900, -EXFULL, "932 MiB free are needed on a node: node 1 has 300 MiB"},
	{{300, 300}, 0, 900, 900, -EXFULL, "node 0 has 300 MiB, node 1 has 300 MiB"},
	{{32, 32}, 0, 900, 900, -EXFULL, "node 0 has 32 MiB"}, /* what a node keeps free stays */
	{{1000, 31}, 0, 900, 900, -ENOMEM, "node 1 has 31 MiB; placement = 0 would fit"},
	{{300, 300}, 0, 900, 1168, -EXFULL, "1200 MiB free"}, /* what comes may be larger than what goes */
	{{300, 300}, 0, 900, 1169, -ENOMEM, "1201 MiB free"},
	{{300, 300}, 0, 0, 900, -ENOMEM, "no placement would fit"}, /* nothing would go */
	{{9000, 9000}, 1832, 900, 900, 0, NULL},
	{{9000, 9000}, 1831, 900, 900, -EXFULL, "2 x 900 MiB are needed, the control group has 1831 MiB left"},
	{{9000, 9000}, 32, 900, 900, -EXFULL, "(MemoryMax=)"},
	{{9000, 9000}, 31, 900, 900, -ENOMEM, "no placement would fit"},
	{{300, 300}, 31, 900, 900, -ENOMEM, "node 0 has 300 MiB"}, /* both are short */
};

START_TEST(what_fits_in_place_of_what_is_served_is_told_from_what_does_not_fit)
{
	struct load_room room = {.group_bytes = turns[_i].group_mib ? MIB(turns[_i].group_mib) : UINT64_MAX, .n = 2};
	struct message_load order = {.n_nodes = 2, .node = {0, 1}, .served_bytes = MIB(turns[_i].served_mib)};
	struct err err = {""};
	for (unsigned i = 0; i < 2; i++)
		room.nodes[i] = (struct load_room_node){i, MIB(turns[_i].free_mib[i]), true};
	ck_assert_int_eq(load_room_check(&room, &order, MIB(turns[_i].copy_mib), &err), turns[_i].rc);
	ck_assert_msg(!turns[_i].words || strstr(err.text, turns[_i].words), "%s", err.text);
	/* Another placement is no advice for what is to be done in turn. */
	ck_assert_msg(turns[_i].rc != -EXFULL || !strstr(err.text, "placement"), "%s", err.text);
}
END_TEST

/* Each node of a spread copy gets back its part alone. */
START_TEST(a_spread_copy_makes_room_for_its_parts)
{
	struct load_room room = {.group_bytes = UINT64_MAX, .n = 2};
	struct message_load order = {.n_nodes = 1, .node = {0}, .n_more = {1}, .more = {1}, .served_bytes = MIB(800)};
	struct err err;
	for (unsigned i = 0; i < 2; i++)
		room.nodes[i] = (struct load_room_node){i, MIB(32), true};
	ck_assert_int_eq(load_room_check(&room, &order, MIB(800), &err), -EXFULL);
	room.nodes[1].free_bytes--;
	ck_assert_int_eq(load_room_check(&room, &order, MIB(800), &err), -ENOMEM);
}
END_TEST

START_TEST(a_node_that_is_not_known_is_not_judged)
{
	struct load_room room = {.group_bytes = UINT64_MAX};
	struct message_load order = {.n_nodes = 1, .node = {7}};
	ck_assert_int_eq(load_room_check(&room, &order, MIB(1 << 20), NULL), 0);
}
END_TEST

/* With membind = 0, the other node is no place for a copy, whatever is free there. */
START_TEST(what_the_settings_leave_out_is_no_advice)
{
	struct topology *topology = NULL;
	struct load_room room;
	struct message_load order = {.n_nodes = 1};
	struct err err;
	char *root = tree_unfold("2n8c-ht");
	ck_assert_int_eq(topology_load(root, &topology, NULL), 0);
	for (unsigned membind = 0; membind < 2; membind++) {
		if (membind)
			idset_add(&order.memory, 0);
		load_room_read(topology, &order.memory, &room);
		ck_assert_uint_eq(room.n, 2);
		room.group_bytes = UINT64_MAX;
		room.nodes[0].free_bytes = MIB(500);
		room.nodes[1].free_bytes = MIB(5000);
		ck_assert_int_eq(load_room_check(&room, &order, MIB(1000), &err), -ENOMEM);
		ck_assert_msg(strstr(err.text, membind ? "no placement would fit" : "placement = 1 would fit"), "%s",
			      err.text);
		room.nodes[1].free_bytes = MIB(600); /* for a half on each */
		ck_assert_int_eq(load_room_check(&room, &order, MIB(900), &err), -ENOMEM);
		ck_assert_msg(strstr(err.text, membind ? "no placement would fit" : "placement = interleave would fit"),
			      "%s", err.text);
	}
	topology_free(topology);
	tree_remove(root);
}
END_TEST

START_TEST(this_machines_figures_are_read)
{
	struct topology *topology = NULL;
	struct load_room room;
	struct message_load order = {.n_nodes = 1};
	ck_assert_int_eq(topology_load(NULL, &topology, NULL), 0);
	load_room_read(topology, &order.memory, &room);
	ck_assert_uint_ge(room.n, 1);
	ck_assert_uint_gt(room.nodes[0].free_bytes, 0);
	order.node[0] = (uint16_t)room.nodes[0].node;
	ck_assert_int_eq(load_room_check(&room, &order, 4096, NULL), 0);
	ck_assert_int_eq(load_room_check(&room, &order, UINT64_C(1) << 60, NULL), -ENOMEM);
	topology_free(topology);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("load_room");
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, what_does_not_fit_is_refused_with_figures, 0, (int)(sizeof cases / sizeof *cases));
	tcase_add_loop_test(tests, what_fits_in_place_of_what_is_served_is_told_from_what_does_not_fit, 0,
			    (int)(sizeof turns / sizeof *turns));
	tcase_add_test(tests, a_spread_copy_makes_room_for_its_parts);
	tcase_add_test(tests, a_node_that_is_not_known_is_not_judged);
	tcase_add_test(tests, what_the_settings_leave_out_is_no_advice);
	tcase_add_test(tests, this_machines_figures_are_read);
	Suite *suite = suite_create("load_room");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
