/* Binding threads and mappings, and what is said when it cannot be done. */
#include <check.h>
#include <errno.h>
#include <numaif.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "numa/bind.h"
#include "numa/placement.h"
#include "numa/topology.h"
#include "tests/unit/refuse.h"
#include "tests/unit/suite.h"

static unsigned a_node_with_memory(void)
{
	struct topology *t = NULL;
	unsigned node = 0;
	ck_assert_int_eq(topology_load(NULL, &t, NULL), 0);
	for (unsigned i = topology_n_nodes(t); i-- > 0;)
		if (topology_node(t, i)->memory_bytes && topology_node(t, i)->may_bind_memory)
			node = topology_node(t, i)->os_index;
	topology_free(t);
	return node;
}

START_TEST(a_thread_runs_where_it_was_bound)
{
	struct idset inherited, one, now;
	struct err err = {""};
	ck_assert_int_eq(bind_thread_read(&inherited, &err), 0);
	idset_clear(&one);
	idset_add(&one, (unsigned)idset_first(&inherited));
	ck_assert_msg(!bind_thread(&one, &err), "%s", err.text);
	ck_assert_int_eq(bind_thread_read(&now, &err), 0);
	ck_assert(idset_equal(&now, &one));
	ck_assert_int_eq(sched_getcpu(), idset_first(&one));
}
END_TEST

START_TEST(cpus_outside_the_inherited_set_are_refused)
{
	struct idset inherited, wanted, now;
	struct err err = {""};
	ck_assert_int_eq(bind_thread_read(&inherited, &err), 0);
	wanted = inherited;
	idset_add(&wanted, IDSET_MAX - 1);
	ck_assert_int_eq(bind_thread(&wanted, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "4095"));
	ck_assert_ptr_nonnull(strstr(err.text, "inherited"));
	idset_clear(&wanted);
	ck_assert_int_eq(bind_thread(&wanted, &err), -EINVAL);
	ck_assert_int_eq(bind_thread_read(&now, &err), 0);
	ck_assert(idset_equal(&now, &inherited));
}
END_TEST

START_TEST(where_another_process_may_run_is_read)
{
	struct idset inherited, one, found;
	int held[2];
	char byte;
	ck_assert_int_eq(pipe(held), 0);
	ck_assert_int_eq(bind_thread_read(&inherited, NULL), 0);
	idset_clear(&one);
	idset_add(&one, (unsigned)idset_first(&inherited));
	pid_t child = fork();
	if (child == 0) { /* lives until the pipe's other end is closed */
		close(held[1]);
		_exit(read(held[0], &byte, 1) != 0);
	}
	ck_assert_int_gt(child, 0);
	ck_assert_int_eq(bind_process_read(child, &found), 0);
	ck_assert(idset_equal(&found, &inherited));
	ck_assert_int_eq(sched_setaffinity(child, sizeof one, (const cpu_set_t *)&one), 0);
	ck_assert_int_eq(bind_process_read(child, &found), 0);
	ck_assert(idset_equal(&found, &one));
	close(held[0]);
	close(held[1]);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	ck_assert_int_eq(bind_process_read(child, &found), -ESRCH);
	ck_assert(idset_equal(&found, &one)); /* untouched */
}
END_TEST

START_TEST(process_memory_prefers_a_node)
{
	unsigned node = a_node_with_memory();
	struct err err = {""};
	struct refusals refused = {0};
	ck_assert_msg(!bind_process_memory(node, &refused, &err), "%s", err.text);
	ck_assert(!refusals_any(&refused));
	int mode = -1;
	struct idset nodes;
	idset_clear(&nodes);
	ck_assert_int_eq(get_mempolicy(&mode, (unsigned long *)nodes.word, IDSET_MAX + 1, NULL, 0), 0);
	ck_assert_int_eq(mode, MPOL_PREFERRED);
	ck_assert_uint_eq(idset_count(&nodes), 1);
	ck_assert(idset_has(&nodes, node));
	ck_assert_int_eq(bind_process_memory(IDSET_MAX, &refused, &err), -EINVAL);
	ck_assert(!refusals_any(&refused));
	ck_assert_int_eq(bind_process_memory(1023, &refused, &err), 0);
	ck_assert_int_eq(refused.error[NUMA_SET_MEMPOLICY], EINVAL);
}
END_TEST

START_TEST(a_processs_memory_is_held_to_nodes)
{
	struct idset nodes, now;
	struct err err = {""};
	int mode = -1;
	idset_clear(&nodes);
	idset_add(&nodes, a_node_with_memory());
	ck_assert_msg(!bind_process_nodes(&nodes, &err), "%s", err.text);
	idset_clear(&now);
	ck_assert_int_eq(get_mempolicy(&mode, (unsigned long *)now.word, IDSET_MAX + 1, NULL, 0), 0);
	ck_assert_int_eq(mode, MPOL_BIND);
	ck_assert(idset_equal(&now, &nodes));
	idset_clear(&nodes);
	idset_add(&nodes, 1023);
	ck_assert_int_eq(bind_process_nodes(&nodes, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "1023"));
}
END_TEST

/* From another node, on machines that have one: the guests of tests/guest run this. */
START_TEST(process_memory_moves_along)
{
	enum { PAGES = 64 };
	struct topology *t = NULL;
	struct err err = {""};
	unsigned node = a_node_with_memory();
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	ck_assert_int_eq(topology_load(NULL, &t, NULL), 0);
	for (unsigned i = 0; i < topology_n_nodes(t); i++) {
		const struct topology_node *from = topology_node(t, i);
		if (!from->memory_bytes || !from->may_bind_memory)
			continue;
		char *memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ck_assert_ptr_ne(memory, MAP_FAILED);
		struct refusals refused = {0};
		ck_assert_msg(!bind_mapping(memory, PAGES * page, from->os_index, &refused, &err), "%s", err.text);
		memset(memory, 1, PAGES * page);
		struct placement placement;
		ck_assert_int_eq(placement_check(memory, PAGES * page, from->os_index, &placement), 0);
		ck_assert(placement_verified(&placement));
		ck_assert_msg(!bind_process_memory(node, &refused, &err), "%s", err.text);
		ck_assert(!refusals_any(&refused));
		ck_assert_int_eq(placement_check(memory, PAGES * page, node, &placement), 0);
		ck_assert(placement_verified(&placement));
		munmap(memory, PAGES * page);
	}
	topology_free(t);
}
END_TEST

START_TEST(a_mapping_is_bound_and_the_policy_read_back)
{
	enum { BYTES = 1 << 20 };
	unsigned node = a_node_with_memory();
	struct err err = {""};
	char *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	struct refusals refused = {{0}};
	ck_assert_msg(!bind_mapping(map, BYTES, node, &refused, &err), "%s", err.text);
	ck_assert(!refusals_any(&refused));
	int mode = -1;
	ck_assert_int_eq(get_mempolicy(&mode, NULL, 0, map + BYTES / 2, MPOL_F_ADDR), 0);
	ck_assert_int_eq(mode, MPOL_BIND);
	ck_assert_int_eq(bind_mapping(map, BYTES, 1023, &refused, &err), 0);
	ck_assert_int_eq(refused.error[NUMA_MBIND], EINVAL);
	ck_assert_int_eq(bind_mapping(map, BYTES, IDSET_MAX, &refused, &err), -EINVAL);
	ck_assert_int_eq(bind_mapping(map, 0, node, &refused, &err), -EINVAL);
	munmap(map, BYTES);
}
END_TEST

/* The call "succeeds" and does nothing, as a filter that returns 0 makes it. */
START_TEST(an_mbind_that_did_nothing_is_noticed)
{
	enum { BYTES = 1 << 20 };
	unsigned node = a_node_with_memory();
	struct err err = {""};
	char *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_int_eq(refuse_call(SYS_mbind, 0), 0);
	struct refusals refused = {{0}};
	ck_assert_int_eq(bind_mapping(map, BYTES, node, &refused, &err), -EIO);
	ck_assert_ptr_nonnull(strstr(err.text, "policy"));
}
END_TEST

enum { N_CALLS = 2, N_ERRORS = 4 };
static const unsigned calls[N_CALLS] = {SYS_mbind, SYS_get_mempolicy};
static const unsigned refusing[N_ERRORS] = {EPERM, EACCES, EINVAL, ENOSYS};

/* What binding says when `call` fails with `error`. */
static int bind_without(unsigned call, unsigned error, struct refusals *refused, struct err *err)
{
	unsigned node = a_node_with_memory();
	char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_int_eq(refuse_call(call, error), 0);
	return bind_mapping(map, 4096, node, refused, err);
}

START_TEST(a_refused_call_is_noted_by_its_name)
{
	const unsigned call = calls[_i % N_CALLS], error = refusing[_i / N_CALLS];
	struct refusals refused = {{0}};
	struct err err = {""};
	char text[REFUSALS_TEXT];
	ck_assert_msg(!bind_without(call, error, &refused, &err), "%s", err.text);
	ck_assert_int_eq(refused.error[call == SYS_mbind ? NUMA_MBIND : NUMA_GET_MEMPOLICY], error);
	refusals_format(&refused, text, sizeof text);
	ck_assert_ptr_nonnull(strstr(text, call == SYS_mbind ? "mbind (E" : "get_mempolicy (E"));
	ck_assert_ptr_nonnull(strstr(text, strerrorname_np((int)error)));
	ck_assert_ptr_null(strchr(text, ',')); /* nothing else */
}
END_TEST

START_TEST(all_calls_refused_fit_into_their_text)
{
	struct refusals refused = {{0}};
	char text[REFUSALS_TEXT];
	for (unsigned call = 0; call < N_NUMA_CALLS; call++)
		refused.error[call] = ENOSYS; /* the longest name of those that are refusals */
	refusals_format(&refused, text, sizeof text);
	for (unsigned call = 0; call < N_NUMA_CALLS; call++) {
		char wanted[64];
		snprintf(wanted, sizeof wanted, "%s (ENOSYS)", numa_call_name((enum numa_call)call));
		ck_assert_msg(strstr(text, wanted), "'%s' lacks '%s'", text, wanted);
	}
}
END_TEST

START_TEST(a_failure_that_is_no_refusal_is_passed_on)
{
	struct refusals refused = {{0}};
	struct err err = {""};
	ck_assert_int_eq(bind_without(calls[_i], ENOMEM, &refused, &err), -ENOMEM);
	ck_assert_str_ne(err.text, "");
	ck_assert(!refusals_any(&refused));
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("bind");
	tcase_add_test(tests, a_thread_runs_where_it_was_bound);
	tcase_add_test(tests, cpus_outside_the_inherited_set_are_refused);
	tcase_add_test(tests, where_another_process_may_run_is_read);
	tcase_add_test(tests, process_memory_prefers_a_node);
	tcase_add_test(tests, a_processs_memory_is_held_to_nodes);
	tcase_add_test(tests, process_memory_moves_along);
	tcase_add_test(tests, a_mapping_is_bound_and_the_policy_read_back);
	tcase_add_test(tests, an_mbind_that_did_nothing_is_noticed);
	tcase_add_test(tests, all_calls_refused_fit_into_their_text);
	tcase_add_loop_test(tests, a_refused_call_is_noted_by_its_name, 0, N_CALLS * N_ERRORS);
	tcase_add_loop_test(tests, a_failure_that_is_no_refusal_is_passed_on, 0, N_CALLS);
	Suite *suite = suite_create("numa/bind");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
