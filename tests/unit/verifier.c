/* The verifier role as the parent sees it: a child with one end of a socket pair as descriptor MESSAGE_FD. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "numa/topology.h"
#include "src/message.h"
#include "src/roles.h"
#include "tests/unit/suite.h"

enum { PAYLOAD = 3 << 20 };
static unsigned node;

static void find_node(void)
{
	struct topology *t = NULL;
	ck_assert_int_eq(topology_load(NULL, &t, NULL), 0);
	for (unsigned i = topology_n_nodes(t); i-- > 0;)
		if (topology_node(t, i)->memory_bytes && topology_node(t, i)->may_bind_memory)
			node = topology_node(t, i)->os_index;
	topology_free(t);
}

static int published(struct segment_report *report)
{
	struct segment_spec spec = {.instance = "unit",
				    .model = "m",
				    .node = node,
				    .payload_bytes = PAYLOAD,
				    .backing = SEGMENT_MEMFD,
				    .group = (gid_t)-1};
	struct segment segment;
	struct err err = {""};
	int fd;
	ck_assert_msg(!segment_create(&spec, &segment, &err), "%s", err.text);
	ck_assert_msg(!segment_publish(&segment, &fd, report, &err), "%s", err.text);
	return fd;
}

/* Starts a verifier; returns its socket. */
static int start(pid_t *child)
{
	int pair[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	*child = fork();
	ck_assert_int_ge(*child, 0);
	if (!*child) {
		/* As after an exec: no other end of its own socket is left in the child. */
		if (dup2(pair[1], MESSAGE_FD) < 0 || close_range(MESSAGE_FD + 1, ~0u, 0))
			_exit(99);
		_exit(verifier_main());
	}
	close(pair[1]);
	return pair[0];
}

static int exit_status(pid_t child)
{
	int status;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

START_TEST(every_segment_is_counted)
{
	static struct message reply;
	struct segment_report made;
	pid_t child;
	/* Descriptors well above MESSAGE_FD, which the child takes over. */
	int fd = published(&made), fds[2] = {dup(fd), dup(fd)}, socket_fd = start(&child);
	/* The second is asked about a node its pages are not on. */
	struct message_verify order = {.n = 2, .node = {node, node + 1}};
	ck_assert_int_eq(message_send(socket_fd, MESSAGE_VERIFY, &order, sizeof order, fds, 2), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(message_receive(socket_fd, &reply), 1);
		ck_assert_uint_eq(reply.type, MESSAGE_VERIFIED);
		const struct message_verified *verified = message_payload(&reply, sizeof *verified, 0);
		ck_assert_ptr_nonnull(verified);
		ck_assert_uint_eq(verified->node, order.node[i]);
		ck_assert_uint_eq(verified->report.total_bytes, made.total_bytes);
		ck_assert_uint_eq(verified->report.placement.pages, made.total_bytes / 4096);
		ck_assert(placement_verified(&verified->report.placement) == (i == 0));
		ck_assert_uint_eq(verified->report.placement.misplaced, i ? made.total_bytes / 4096 : 0);
		ck_assert_mem_eq(verified->report.digest, made.digest, SEGMENT_DIGEST_BYTES);
	}
	ck_assert_int_eq(message_receive(socket_fd, &reply), 0);
	ck_assert_int_eq(exit_status(child), 0);
}
END_TEST

START_TEST(a_sample_asks_for_as_many_pages_as_ordered)
{
	static struct message reply;
	struct segment_report made;
	pid_t child;
	int fd = published(&made), fds[2] = {dup(fd), dup(fd)}, socket_fd = start(&child);
	struct message_verify order = {.n = 2, .sample_pages = 50, .turn = 3, .node = {node + 1, node}};
	ck_assert_int_eq(message_send(socket_fd, MESSAGE_VERIFY, &order, sizeof order, fds, 2), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(message_receive(socket_fd, &reply), 1);
		ck_assert_uint_eq(reply.type, MESSAGE_SAMPLED);
		const struct message_sampled *sampled = message_payload(&reply, sizeof *sampled, 0);
		ck_assert_ptr_nonnull(sampled);
		ck_assert_uint_eq(sampled->node, order.node[i]);
		ck_assert_uint_eq(sampled->placement.pages, 50);
		ck_assert_uint_eq(sampled->placement.misplaced, i ? 0 : 50);
		ck_assert_uint_eq(sampled->placement.on_node, i ? 50 : 0);
	}
	ck_assert_int_eq(message_receive(socket_fd, &reply), 0);
	ck_assert_int_eq(exit_status(child), 0);
}
END_TEST

static void expect_failure(int socket_fd, pid_t child, const char *words)
{
	static struct message reply;
	ck_assert_int_eq(message_receive(socket_fd, &reply), 1);
	ck_assert_uint_eq(reply.type, MESSAGE_FAILED);
	const struct message_failed *failed = message_payload(&reply, sizeof *failed, 0);
	ck_assert_ptr_nonnull(failed);
	ck_assert_msg(strstr(failed->err.text, words) != NULL, "%s", failed->err.text);
	ck_assert_int_eq(exit_status(child), 1);
}

START_TEST(a_segment_that_is_none_is_said_so)
{
	pid_t child;
	int pipe_fds[2], socket_fd = start(&child);
	struct message_verify order = {.n = 1, .node = {node}};
	ck_assert_int_eq(pipe(pipe_fds), 0);
	ck_assert_int_eq(message_send(socket_fd, MESSAGE_VERIFY, &order, sizeof order, pipe_fds, 1), 0);
	expect_failure(socket_fd, child, "regular");
}
END_TEST

START_TEST(an_order_that_does_not_add_up_is_refused)
{
	pid_t child;
	int socket_fd = start(&child);
	struct message_verify order = {.n = 3, .node = {node}};
	ck_assert_int_eq(message_send(socket_fd, MESSAGE_VERIFY, &order, sizeof order, NULL, 0), 0);
	expect_failure(socket_fd, child, "order");
	socket_fd = start(&child);
	ck_assert_int_eq(message_send(socket_fd, MESSAGE_DRAIN, NULL, 0, NULL, 0), 0);
	expect_failure(socket_fd, child, "order");
}
END_TEST

START_TEST(without_a_parent_it_ends)
{
	pid_t child;
	close(start(&child));
	ck_assert_int_eq(exit_status(child), 0);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("verifier");
	tcase_add_unchecked_fixture(tests, find_node, NULL);
	tcase_add_test(tests, every_segment_is_counted);
	tcase_add_test(tests, a_sample_asks_for_as_many_pages_as_ordered);
	tcase_add_test(tests, a_segment_that_is_none_is_said_so);
	tcase_add_test(tests, an_order_that_does_not_add_up_is_refused);
	tcase_add_test(tests, without_a_parent_it_ends);
	Suite *suite = suite_create("src/verifier");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
