/* The loader as a process: an order over its socket, progress and segments back, or the reason why not. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/message.h"
#include "src/roles.h"
#include "tests/unit/gguf_builder.h"
#include "tests/unit/load_fixture.h"
#include "tests/unit/suite.h"

struct loader {
	pid_t pid;
	int fd;
};

/* A child that has nothing but descriptor MESSAGE_FD of us. */
static struct loader start(void)
{
	int pair[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	pid_t pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		int fd = fcntl(pair[1], F_DUPFD, MESSAGE_FD + 1);
		dup2(fd, MESSAGE_FD);
		for (int i = MESSAGE_FD + 1; i < 64; i++)
			close(i);
		_exit(loader_main());
	}
	close(pair[1]);
	return (struct loader){pid, pair[0]};
}

static int finish(struct loader *loader)
{
	int status;
	close(loader->fd);
	ck_assert_int_eq(waitpid(loader->pid, &status, 0), loader->pid);
	ck_assert_msg(WIFEXITED(status), "status %x", (unsigned)status);
	return WEXITSTATUS(status);
}

static int model_file(uint32_t ffn)
{
	struct gguf_builder b;
	builder_init(&b, 3);
	builder_llama_keys(&b, ffn);
	builder_llama_tensors(&b, ffn);
	int fd = load_fixture_file(b.bytes, b.n);
	builder_fini(&b);
	return fd;
}

START_TEST(loads_and_hands_over)
{
	struct message_load order;
	struct message message;
	struct loader loader = start();
	unsigned n_progress = 0;
	uint64_t done = 0, total = 1;
	struct loaded loaded = {0};
	int fd = model_file(8192);
	load_fixture_order(&order);
	order.backing = _i;
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_LOAD, &order, sizeof order, &fd, 1), 0);
	while (message_receive(loader.fd, &message) == 1) {
		const struct message_progress *progress = message_payload(&message, sizeof *progress, 0);
		const struct message_segment *segment = message_payload(&message, sizeof *segment, 1);
		if (message.type == MESSAGE_PROGRESS) {
			ck_assert_ptr_nonnull(progress);
			ck_assert_uint_ge(progress->done_bytes, done);
			done = progress->done_bytes;
			total = progress->total_bytes;
			n_progress++;
		} else {
			ck_assert_uint_eq(message.type, MESSAGE_SEGMENT);
			ck_assert_ptr_nonnull(segment);
			ck_assert_uint_eq(loaded.n, 0);
			loaded.segments[0] = *segment;
			loaded.fds[loaded.n++] = message.fds[0];
		}
	}
	ck_assert_int_eq(finish(&loader), 0);
	ck_assert_uint_ge(n_progress, 1);
	ck_assert_uint_eq(done, total);
	ck_assert_uint_eq(loaded.n, 1);
	ck_assert_uint_eq(loaded.segments[0].node, order.node[0]);
	ck_assert_uint_eq(loaded.segments[0].context, 512);
	ck_assert_int_eq(fcntl(loaded.fds[0], F_GETFL) & O_ACCMODE, O_RDONLY);
	ck_assert_uint_gt(load_fixture_compare(&loaded, fd), 8192); /* the maker is gone, its copy is not */
	loaded_discard(&loaded);
	ck_assert_uint_eq(load_fixture_objects(&order), 0);
	close(fd);
}
END_TEST

/* The one message that says why, and the exit status. */
static void expect_failure(struct loader *loader, const char *part)
{
	struct message message;
	ck_assert_int_eq(message_receive(loader->fd, &message), 1);
	ck_assert_uint_eq(message.type, MESSAGE_FAILED);
	const struct message_failed *failed = message_payload(&message, sizeof *failed, 0);
	ck_assert_ptr_nonnull(failed);
	ck_assert_msg(strstr(failed->err.text, part) != NULL, "'%s' isn't in: %s", part, failed->err.text);
	ck_assert_int_eq(message_receive(loader->fd, &message), 0);
	ck_assert_int_eq(finish(loader), 1);
}

START_TEST(says_why_it_failed)
{
	struct message_load order;
	struct loader loader = start();
	int fd = load_fixture_file("GGUF\3\0\0\0garbage, and more of it than a header has", 50);
	load_fixture_order(&order);
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_LOAD, &order, sizeof order, &fd, 1), 0);
	expect_failure(&loader, "made for tests.gguf: offset 8: header, tensor count");
	ck_assert_uint_eq(load_fixture_objects(&order), 0);
	close(fd);

	loader = start();
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_LOAD, &order, sizeof order, NULL, 0), 0);
	expect_failure(&loader, "no order to load");

	loader = start();
	ck_assert_int_eq(message_send(loader.fd, MESSAGE_DRAIN, NULL, 0, NULL, 0), 0);
	expect_failure(&loader, "no order to load");
}
END_TEST

START_TEST(ends_without_an_order)
{
	struct loader loader = start();
	ck_assert_int_eq(shutdown(loader.fd, SHUT_RDWR), 0);
	ck_assert_int_eq(finish(&loader), 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("loader");
	TCase *tcase = tcase_create("process");
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, loads_and_hands_over, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_test(tcase, says_why_it_failed);
	tcase_add_test(tcase, ends_without_an_order);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
