/* The front when there are more clients than places, or than descriptors, over both io backends. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "src/clock.h"
#include "tests/unit/front_rig.h"
#include "tests/unit/suite.h"

static const enum io_backend backends[] = {IO_URING, IO_EPOLL};
enum { N_BACKENDS = sizeof backends / sizeof *backends, CROWD = 64, DESCRIPTORS = 48 };

static struct rig rig;

static bool hears_nothing(const struct rig_client *client)
{
	char byte;
	return recv(client->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0;
}

/* It is accepted then. */
static void ask_models(struct rig_client *client)
{
	rig_request(client, "GET", "/v1/models", NULL);
	rig_expect(rig_answer(client), 200, "small");
}

START_TEST(the_connection_idle_for_longest_makes_room)
{
	struct rig_client client[RIG_CONNECTIONS], late = {.fd = -1};
	rig_serve(&rig, backends[_i], 8);
	for (int i = 0; i < RIG_CONNECTIONS; i++) {
		client[i] = rig_connect(&rig);
		ask_models(&client[i]);
	}
	uint64_t begin = clock_now_ns();
	ask_models(&client[0]); /* now the second one has been idle for longest */
	late = rig_connect(&rig);
	rig_request(&late, "GET", "/metrics", NULL);
	rig_expect(rig_answer(&late), 200, "weightd_connections_ended_total{reason=\"made_room\"} 1\n");
	ck_assert_uint_ge(clock_now_ns() - begin, 900000000u); /* not before they were idle for a moment */
	ck_assert(rig_at_end(&client[1]));
	for (int i = 0; i < RIG_CONNECTIONS; i++)
		ck_assert(i == 1 || hears_nothing(&client[i]));
	ask_models(&client[0]);
	for (int i = 0; i < RIG_CONNECTIONS; i++)
		rig_close(&client[i]);
	rig_close(&late);
	rig_stop(&rig);
}
END_TEST

START_TEST(slow_requests_hold_their_places_until_their_time_is_up)
{
	struct rig_client client[RIG_CONNECTIONS], late;
	struct message_serve order = rig_order(backends[_i], 8);
	order.request_seconds = 2;
	rig_start(&rig, &order);
	rig_state(&rig, 0, 0);
	rig_worker_up(&rig, 0, "small");
	uint64_t begin = clock_now_ns();
	for (int i = 0; i < RIG_CONNECTIONS; i++) {
		client[i] = rig_connect(&rig);
		rig_send(&client[i], "G");
	}
	late = rig_connect(&rig);
	rig_request(&late, "GET", "/v1/models", NULL);
	rig_expect(rig_answer(&late), 200, "small");
	ck_assert_uint_ge(clock_now_ns() - begin, 1900000000u);
	ck_assert_uint_lt(clock_now_ns() - begin, 15000000000u); /* it is not the 30 of the default */
	struct rig_answer answer = rig_answer(&client[0]);
	rig_expect(answer, 408, "did not arrive in time");
	rig_close(&late);
	for (int i = 0; i < RIG_CONNECTIONS; i++)
		rig_close(&client[i]);
	rig_stop(&rig);
}
END_TEST

/* Processor time a process has taken, in nanoseconds. */
static uint64_t cpu_ns(pid_t pid)
{
	clockid_t clock;
	struct timespec used;
	ck_assert_int_eq(clock_getcpuclockid(pid, &clock), 0);
	ck_assert_int_eq(clock_gettime(clock, &used), 0);
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

START_TEST(without_descriptors_clients_wait_and_nothing_spins)
{
	struct rig_client client[CROWD];
	struct message_serve order = rig_order(backends[_i], 8);
	order.max_connections = 1000;
	rig_launch(&rig, &order, DESCRIPTORS);
	rig_ready(&rig);
	rig_state(&rig, 0, 0);
	for (unsigned i = 0; i < RIG_WORKERS; i++)
		rig_worker_up(&rig, i, "small"); /* their channels have room, whatever clients do */
	unsigned places = DESCRIPTORS - 16 - 6 * RIG_WORKERS;
	for (unsigned i = 0; i < CROWD; i++) {
		client[i] = rig_connect(&rig);
		rig_send(&client[i], "GET /v1/models HTTP/1.1\r\n"); /* not idle */
	}
	uint64_t before = cpu_ns(rig.pid);
	sleep(1);
	ck_assert_uint_lt(cpu_ns(rig.pid) - before, 300000000u);
	rig_worker_down(&rig, 1);
	rig_worker_up_unseen(&rig, 1, "small"); /* a successor, in the middle of it */
	for (unsigned i = 0; i < places; i++) {
		rig_send(&client[i], "Host: x\r\n\r\n");
		rig_expect(rig_answer(&client[i]), 200, "small");
		rig_close(&client[i]);
	}
	for (unsigned i = places; i < CROWD; i++) { /* they come in as the others leave */
		rig_send(&client[i], "Host: x\r\n\r\n");
		rig_expect(rig_answer(&client[i]), 200, "small");
		rig_close(&client[i]);
	}
	char line[64];
	snprintf(line, sizeof line, "weightd_connections_max %u\n", places);
	rig_metric(&rig, line);
	rig_metric(&rig, "weightd_worker_ready{worker=\"1\"");
	rig_stop(&rig);
}
END_TEST

START_TEST(too_few_descriptors_for_the_workers_are_said_at_start)
{
	struct message message;
	struct message_serve order = rig_order(backends[_i], 8);
	rig_launch(&rig, &order, 40);
	rig_message(&rig, &message);
	ck_assert_uint_eq(message.type, MESSAGE_FAILED);
	const struct message_failed *failed = message_payload(&message, sizeof *failed, 0);
	ck_assert_ptr_nonnull(strstr(failed->err.text, "RLIMIT_NOFILE"));
	ck_assert_ptr_nonnull(strstr(failed->err.text, "channels of 4 workers"));
	ck_assert_int_eq(rig_wait(&rig), 1);
	rig_fini(&rig);
}
END_TEST

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	Suite *suite = suite_create("front_crowd");
	TCase *tests = tcase_create("all");
	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, the_connection_idle_for_longest_makes_room, 0, N_BACKENDS);
	tcase_add_loop_test(tests, slow_requests_hold_their_places_until_their_time_is_up, 0, N_BACKENDS);
	tcase_add_loop_test(tests, without_descriptors_clients_wait_and_nothing_spins, 0, N_BACKENDS);
	tcase_add_loop_test(tests, too_few_descriptors_for_the_workers_are_said_at_start, 0, N_BACKENDS);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
