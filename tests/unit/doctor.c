/* Each of doctor's findings, from a machine on which nothing is wrong and one file of it changed. */
#include <check.h>
#include <errno.h>
#include <numaif.h>
#include <string.h>
#include <sys/syscall.h>

#include "io/loop.h"
#include "shm/segment.h"
#include "src/ctl/doctor.h"
#include "tests/numa/tree.h"
#include "tests/unit/refuse.h"
#include "tests/unit/suite.h"

#define GIB (UINT64_C(1) << 30)

static struct config config;
static struct doctor_subject subject;
static char *root;

static void begin(void)
{
	root = tree_unfold("doctor-well");
	memset(&config, 0, sizeof config);
	config.lock_memory = true;
	subject = (struct doctor_subject){.root = root,
					  .process = "self",
					  .config = &config,
					  .model_bytes = 2 * GIB,
					  .largest_bytes = 2 * GIB,
					  .calls = {.asked = true}};
}

static void end(void)
{
	tree_remove(root);
}

/* Examines, and wants all findings but `name` to be well. */
static struct doctor_finding examine(const char *name)
{
	struct doctor_report report;
	struct doctor_finding found = {.name = NULL};
	doctor_examine(&subject, &report);
	for (unsigned i = 0; i < report.n; i++) {
		const struct doctor_finding *f = &report.findings[i];
		ck_assert_str_ne(f->found, "");
		ck_assert_msg((f->verdict == DOCTOR_OK) == !f->remedy[0], "%s: %s -> %s", f->name, f->found, f->remedy);
		if (!strcmp(f->name, name))
			found = *f;
		else
			ck_assert_msg(f->verdict == DOCTOR_OK, "%s: %s", f->name, f->found);
	}
	ck_assert_ptr_nonnull(found.name);
	ck_assert_uint_eq(report.n_wrong, found.verdict == DOCTOR_WRONG);
	return found;
}

/* The finding has this verdict and says all of `words` (separated by '|') in what was found or is to be done. */
static void expect(const char *name, enum doctor_verdict verdict, const char *words)
{
	struct doctor_finding f = examine(name);
	char all[sizeof f.found + sizeof f.remedy + 8], list[256], *save = NULL;
	snprintf(all, sizeof all, "%s -> %s", f.found, f.remedy);
	ck_assert_msg(f.verdict == verdict, "%s has verdict %d: %s", name, (int)f.verdict, all);
	snprintf(list, sizeof list, "%s", words);
	for (char *word = strtok_r(list, "|", &save); word; word = strtok_r(NULL, "|", &save))
		ck_assert_msg(strstr(all, word), "'%s' is not in: %s", word, all);
}

static void put(const char *path, const char *text)
{
	tree_write(root, path, text);
}

START_TEST(a_good_machine_has_nothing_wrong)
{
	struct doctor_report report;
	doctor_examine(&subject, &report);
	ck_assert_uint_eq(report.n, 11);
	ck_assert_uint_eq(report.n_wrong, 0);
	for (unsigned i = 0; i < report.n; i++)
		ck_assert_msg(report.findings[i].verdict == DOCTOR_OK, "%s", report.findings[i].found);
}
END_TEST

START_TEST(balancing_is_wrong_where_there_are_nodes_to_balance)
{
	put("/proc/sys/kernel/numa_balancing", "1\n");
	expect("numa_balancing", DOCTOR_WRONG, "on (1)|kernel.numa_balancing=0");
	put("/sys/devices/system/node/online", "0\n");
	put("/sys/devices/system/node/has_memory", "0\n");
	expect("numa_balancing", DOCTOR_OK, "one node");
	put("/proc/sys/kernel/numa_balancing", NULL);
	expect("numa_balancing", DOCTOR_OK, "has none");
}
END_TEST

START_TEST(shared_memory_has_to_hold_a_copy_for_each_node)
{
	expect("dev_shm", DOCTOR_OK, "8.6 GB|4.3 GB on 2 nodes");
	subject.model_bytes = 5 * GIB;
	expect("dev_shm", DOCTOR_WRONG, "10.7 GB on 2 nodes|size=12G|backing = memfd");
	config.backing = SEGMENT_MEMFD;
	expect("dev_shm", DOCTOR_OK, "memfd");
}
END_TEST

START_TEST(shared_memory_may_have_no_size_or_not_be_there)
{
	put("/proc/self/mountinfo", "25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw\n");
	expect("dev_shm", DOCTOR_OK, "8.6 GB"); /* half of MemTotal */
	put("/proc/self/mountinfo", "25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw\n"
				    "26 25 0:24 / /dev/shm rw - tmpfs tmpfs rw,size=65536k\n");
	expect("dev_shm", DOCTOR_WRONG, "67.1 MB"); /* the last mount hides the first */
	put("/proc/self/mountinfo", "24 1 0:22 / / rw,relatime - ext4 /dev/sda1 rw\n");
	expect("dev_shm", DOCTOR_WRONG, "nothing is mounted");
}
END_TEST

START_TEST(locking_needs_a_limit_above_the_largest_model)
{
	static const char limit[] = "Max locked memory         8388608              8388608              bytes\n";
	put("/proc/self/limits", limit);
	expect("memlock", DOCTOR_WRONG, "may lock 8.4 MB|2.1 GB|LimitMEMLOCK=infinity");
	subject.largest_bytes = 0;
	expect("memlock", DOCTOR_NOTE, "8.4 MB");
	put("/proc/self/status",
	    "Name:\tx\nCapEff:\t0000000000004000\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0-1\n");
	expect("memlock", DOCTOR_OK, "CAP_IPC_LOCK");
	put("/proc/self/limits", NULL);
	put("/proc/self/status",
	    "Name:\tx\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0-1\n");
	expect("memlock", DOCTOR_NOTE, "cannot be read");
	config.lock_memory = false;
	expect("memlock", DOCTOR_OK, "not wanted");
}
END_TEST

START_TEST(a_daemon_tells_whether_it_could_lock)
{
	subject.daemon = (struct doctor_daemon){.runs = true, .n_workers = 4, .n_unlocked = 1};
	expect("memlock", DOCTOR_WRONG, "1 of 4 workers");
	subject.daemon.n_unlocked = 0;
	put("/proc/self/limits", "Max locked memory         65536              65536              bytes\n");
	expect("memlock", DOCTOR_OK, "all weights are locked");
}
END_TEST

START_TEST(a_control_group_may_be_too_small)
{
	put("/sys/fs/cgroup/memory.max", "3221225472\n");
	put("/sys/fs/cgroup/memory.current", "0\n");
	expect("memory_limit", DOCTOR_WRONG, "room for 3.2 GB|4.3 GB|MemoryMax=");
	subject.daemon.n_copies = 2; /* they are there already */
	expect("memory_limit", DOCTOR_OK, "3.2 GB");
	put("/sys/fs/cgroup/memory.max", "9223372036854771712\n");
	expect("memory_limit", DOCTOR_OK, "no control group");
}
END_TEST

START_TEST(huge_pages_may_be_denied_or_not_be_had)
{
	static const char path[] = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
	put(path, "always within_size advise never [deny] force\n");
	expect("huge_pages", DOCTOR_WRONG, "'deny'");
	put(path, NULL);
	expect("huge_pages", DOCTOR_NOTE, "this kernel has no");
	config.huge_pages = SEGMENT_HUGE_ON;
	expect("huge_pages", DOCTOR_WRONG, "this kernel has no");
	config.huge_pages = SEGMENT_HUGE_OFF;
	expect("huge_pages", DOCTOR_OK, "off");
	config.huge_pages = SEGMENT_HUGE_TRY;
	put(path, "always within_size advise [never] deny force\n");
	subject.daemon = (struct doctor_daemon){.runs = true, .copy_bytes = 1000000000, .huge_bytes = 500000000};
	expect("huge_pages", DOCTOR_NOTE, "500 MB of the copies' 1.0 GB|compact_memory");
}
END_TEST

START_TEST(pools_have_to_be_alike)
{
	put("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "512\n");
	put("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "500\n");
	expect("hugetlb_pools", DOCTOR_WRONG, "node 0: 512 of 2048 kB, 500 free; node 1: 0 of 2048 kB, 0 free|alike");
	put("/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", "512\n");
	expect("hugetlb_pools", DOCTOR_OK, "node 1: 512 of 2048 kB");
}
END_TEST

START_TEST(rings_may_be_for_some_or_for_nobody)
{
	put("/proc/sys/kernel/io_uring_disabled", "2\n");
	expect("io_uring", DOCTOR_WRONG, "nobody|io_uring_disabled=0");
	put("/proc/sys/kernel/io_uring_disabled", "1\n");
	expect("io_uring", DOCTOR_NOTE, "io_uring_group"); /* who asks may */
	subject.calls.io_uring_setup = -EPERM;
	expect("io_uring", DOCTOR_WRONG, "io_uring_group");
	put("/proc/sys/kernel/io_uring_disabled", NULL); /* older than Linux 6.6 */
	expect("io_uring", DOCTOR_WRONG, "io_uring_setup: Operation not permitted|seccomp");
	config.io = IO_EPOLL;
	expect("io_uring", DOCTOR_NOTE, "io_uring_setup");
}
END_TEST

START_TEST(refused_calls_are_named)
{
	subject.calls.numa.error[NUMA_MBIND] = EPERM;
	subject.calls.numa.error[NUMA_MOVE_PAGES] = ENOSYS;
	expect("numa_calls", DOCTOR_WRONG, "the kernel refuses mbind (EPERM), move_pages (ENOSYS)|seccomp");
	/* What is refused to us need not be to the daemon, and the other way round. */
	subject.daemon = (struct doctor_daemon){.runs = true, .n_copies = 2};
	expect("numa_calls", DOCTOR_OK, "every page of the daemon's 2 copies");
	subject.daemon.refused.error[NUMA_GET_MEMPOLICY] = EPERM;
	subject.daemon.refused.error[NUMA_MIGRATE_PAGES] = ENOSYS;
	subject.daemon.n_unverified = 2;
	expect("numa_calls", DOCTOR_WRONG,
	       "the kernel refuses the daemon get_mempolicy (EPERM), migrate_pages (ENOSYS)|seccomp");
}
END_TEST

START_TEST(a_daemon_tells_whether_its_pages_are_in_their_place)
{
	subject.daemon = (struct doctor_daemon){.runs = true, .n_copies = 2};
	expect("numa_calls", DOCTOR_OK, "every page of the daemon's 2 copies");
	subject.daemon.n_unverified = 1;
	expect("numa_calls", DOCTOR_WRONG, "placement of 1 of the daemon's 2 copies is not verified");
	subject.daemon.n_misplaced = 2;
	expect("numa_calls", DOCTOR_WRONG, "2 of the daemon's 2 copies have pages on another node");
}
END_TEST

START_TEST(a_cpuset_may_leave_cpus_without_their_memory)
{
	put("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0\n");
	expect("cpuset", DOCTOR_WRONG, "CPUs 0-3, memory of nodes 0|node 1 may be used, but not its memory");
	put("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-1\nMems_allowed_list:\t0-1\n");
	expect("cpuset", DOCTOR_NOTE, "node 1 has no worker");
	put("/sys/devices/system/node/node1/cpulist", "\n"); /* memory alone: nothing is missing */
	expect("cpuset", DOCTOR_OK, "CPUs 0-1, memory of nodes 0-1");
}
END_TEST

START_TEST(another_process_may_be_meant)
{
	subject.process = "4711";
	put("/proc/4711/limits", "Max locked memory         65536                65536                bytes\n");
	put("/proc/4711/status", "Name:\tx\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0-1\n");
	expect("memlock", DOCTOR_WRONG, "65.5 kB");
}
END_TEST

START_TEST(threads_and_frequencies)
{
	put("/sys/devices/system/cpu/smt/active", "1\n");
	expect("smt", DOCTOR_OK, "on");
	put("/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "schedutil\n");
	put("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave\n");
	expect("governor", DOCTOR_WRONG, "'schedutil' on CPUs 2-3|cpupower");
	put("/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "performance\n");
	put("/sys/devices/system/cpu/cpu3/cpufreq/energy_performance_preference", "performance\n");
	expect("governor", DOCTOR_OK, "performance");
	put("/sys/devices/system/cpu/cpu3/cpufreq/energy_performance_preference", "balance_power\n");
	expect("governor", DOCTOR_WRONG, "'powersave' on CPUs 3");
	for (char path[] = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"; path[27] < '4'; path[27]++)
		put(path, NULL);
	expect("governor", DOCTOR_OK, "does not steer");
}
END_TEST

START_TEST(calls_are_tried_without_a_trace)
{
	struct doctor_calls calls;
	unsigned long node = 1, mask[IDSET_WORDS] = {0};
	int mode;
	ck_assert_int_eq(set_mempolicy(MPOL_PREFERRED, &node, 8 * sizeof node), 0);
	doctor_try_calls(&calls);
	ck_assert(calls.asked);
	ck_assert(!refusals_any(&calls.numa));
	ck_assert_int_eq(get_mempolicy(&mode, mask, IDSET_MAX + 1, NULL, 0), 0);
	ck_assert_int_eq(mode, MPOL_PREFERRED);
	ck_assert_uint_eq(mask[0], 1);
}
END_TEST

START_TEST(what_a_filter_refuses_is_seen)
{
	struct doctor_calls calls;
	ck_assert_int_eq(refuse_call(SYS_mbind, EPERM), 0);
	ck_assert_int_eq(refuse_call(SYS_move_pages, ENOSYS), 0);
	ck_assert_int_eq(refuse_call(SYS_io_uring_setup, EPERM), 0);
	doctor_try_calls(&calls);
	ck_assert_int_eq(calls.numa.error[NUMA_MBIND], EPERM);
	ck_assert_int_eq(calls.numa.error[NUMA_MOVE_PAGES], ENOSYS);
	ck_assert_int_eq(calls.io_uring_setup, -EPERM);
	ck_assert_int_eq(calls.numa.error[NUMA_SET_MEMPOLICY], 0);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("doctor");
	tcase_add_checked_fixture(tests, begin, end);
	tcase_add_test(tests, a_good_machine_has_nothing_wrong);
	tcase_add_test(tests, balancing_is_wrong_where_there_are_nodes_to_balance);
	tcase_add_test(tests, shared_memory_has_to_hold_a_copy_for_each_node);
	tcase_add_test(tests, shared_memory_may_have_no_size_or_not_be_there);
	tcase_add_test(tests, locking_needs_a_limit_above_the_largest_model);
	tcase_add_test(tests, a_daemon_tells_whether_it_could_lock);
	tcase_add_test(tests, a_control_group_may_be_too_small);
	tcase_add_test(tests, huge_pages_may_be_denied_or_not_be_had);
	tcase_add_test(tests, pools_have_to_be_alike);
	tcase_add_test(tests, rings_may_be_for_some_or_for_nobody);
	tcase_add_test(tests, refused_calls_are_named);
	tcase_add_test(tests, a_daemon_tells_whether_its_pages_are_in_their_place);
	tcase_add_test(tests, a_cpuset_may_leave_cpus_without_their_memory);
	tcase_add_test(tests, another_process_may_be_meant);
	tcase_add_test(tests, threads_and_frequencies);
	tcase_add_test(tests, calls_are_tried_without_a_trace);
	tcase_add_test(tests, what_a_filter_refuses_is_seen);
	Suite *suite = suite_create("src/ctl/doctor");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
