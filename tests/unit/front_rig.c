#include "tests/unit/front_rig.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/log.h"
#include "src/roles.h"

/* Told apart from the 1 of a sanitizer's exit. */
enum { STATUS_BASE = 10, STATUS_LEAK = 99 };

/* There in builds with a leak checker only. */
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

static void wait_for(int fd, const char *what)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	ck_assert_msg(poll(&poll_fd, 1, WAIT_S * 1000) == 1, "nothing came: %s", what);
}

/* --- the parent's side ------------------------------------------------------------------------ */

static void listen_on(struct rig *rig)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(rig->directory, sizeof rig->directory, "/tmp/weightd-front-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(rig->directory));
	snprintf(rig->socket, sizeof rig->socket, "%s/socket", rig->directory);
	snprintf(address.sun_path, sizeof address.sun_path, "%s", rig->socket);
	rig->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(rig->listener, (struct sockaddr *)&address, sizeof address), 0);
	ck_assert_int_eq(listen(rig->listener, 64), 0);
}

struct message_serve rig_order(enum io_backend io, uint32_t max_queue)
{
	return (struct message_serve){.io = io,
				      .max_connections = RIG_CONNECTIONS,
				      .max_request_bytes = 8 << 20,
				      .max_audio_bytes = 100000,
				      .client_buffer_bytes = 256 << 10,
				      .max_queue = max_queue,
				      .max_running = 32,
				      .max_workers = RIG_WORKERS,
				      .uid = UINT64_MAX,
				      .gid = UINT64_MAX};
}

void rig_launch(struct rig *rig, const struct message_serve *order, unsigned max_descriptors)
{
	int pair[2];
	*rig = (struct rig){0};
	for (int i = 0; i < RIG_WORKERS; i++)
		rig->fds[i] = (struct channel_fds){-1, -1, -1};
	listen_on(rig);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	rig->pid = fork();
	ck_assert_int_ge(rig->pid, 0);
	if (rig->pid == 0) {
		dup2(pair[1], MESSAGE_FD);
		close_range(MESSAGE_FD + 1, ~0u, 0);
		struct rlimit limit = {max_descriptors, max_descriptors};
		if (max_descriptors && setrlimit(RLIMIT_NOFILE, &limit))
			_exit(1);
		log_init("front", LOG_LEVEL_ERROR);
		int status = front_main();
		_exit(__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check() ? STATUS_LEAK
											     : STATUS_BASE + status);
	}
	close(pair[1]);
	rig->control = pair[0];
	int fds[2] = {-1, rig->listener};
	ck_assert_int_eq(pulse_create(&fds[0], &rig->pulse, NULL), 0);
	ck_assert_int_eq(message_send(rig->control, MESSAGE_SERVE, order, sizeof *order, fds, 2), 0);
	close(fds[0]);
}

void rig_ready(struct rig *rig)
{
	struct message message;
	rig_message(rig, &message);
	ck_assert_uint_eq(message.type, MESSAGE_READY);
}

void rig_start(struct rig *rig, const struct message_serve *order)
{
	rig_launch(rig, order, 0);
	rig_ready(rig);
}

void rig_serve(struct rig *rig, enum io_backend io, uint32_t max_queue)
{
	struct message_serve order = rig_order(io, max_queue);
	rig_start(rig, &order);
	rig_state(rig, 0, 0);
	rig_worker_up(rig, 0, "small");
}

void rig_message(struct rig *rig, struct message *out)
{
	wait_for(rig->control, "a message of the front");
	ck_assert_int_eq(message_receive(rig->control, out), 1);
}

int rig_wait(struct rig *rig)
{
	int status;
	for (int i = 0; i < WAIT_S * 100; i++) {
		pid_t pid = waitpid(rig->pid, &status, WNOHANG);
		ck_assert_int_ge(pid, 0);
		if (pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) - STATUS_BASE : 128 + WTERMSIG(status);
		usleep(10000);
	}
	kill(rig->pid, SIGKILL);
	waitpid(rig->pid, &status, 0);
	ck_abort_msg("the front does not end");
	return -1;
}

void rig_fini(struct rig *rig)
{
	for (int i = 0; i < RIG_WORKERS; i++) {
		if (rig->worker[i].memory)
			channel_detach(&rig->worker[i]);
		channel_close(&rig->fds[i]);
	}
	if (rig->control >= 0)
		close(rig->control);
	pulse_detach(rig->pulse);
	close(rig->listener);
	unlink(rig->socket);
	rmdir(rig->directory);
}

void rig_stop(struct rig *rig)
{
	close(rig->control);
	rig->control = -1;
	ck_assert_int_eq(rig_wait(rig), 1); /* its parent is gone */
	rig_fini(rig);
}

void rig_state(struct rig *rig, uint32_t loading, enum model_standing failed)
{
	struct message_state state = {
		.loading = loading, .failed = failed == STANDING_FAILED, .text = "as told", .n_nodes = 1};
	state.weight_bytes[0] = 4096;
	state.model[state.n_models++] =
		(struct message_model){.name = "small", .standing = loading ? STANDING_COMES : STANDING_SERVED};
	if (failed)
		state.model[state.n_models++] =
			(struct message_model){.name = "broken", .standing = failed, .why = "as told"};
	ck_assert_int_eq(message_send(rig->control, MESSAGE_STATE, &state, sizeof state, NULL, 0), 0);
}

/* The front has acted on every message sent before: it answers a client only after reading them. */
static void settle(struct rig *rig, const char *model)
{
	char path[160];
	snprintf(path, sizeof path, "/v1/models/%s", model);
	for (int i = 0; i < WAIT_S * 100; i++) {
		struct rig_answer answer = rig_ask(rig, "GET", path, NULL);
		free(answer.body);
		if (answer.status == 200)
			return;
		usleep(10000);
	}
	ck_abort_msg("the front does not learn of model %s", model);
}

void rig_worker_up_unseen(struct rig *rig, unsigned worker, const char *model)
{
	struct err err;
	struct message_worker_up up = {.worker = worker, .created = 1700000000, .context_tokens = RIG_CONTEXT};
	if (rig->worker[worker].memory)
		channel_detach(&rig->worker[worker]);
	channel_close(&rig->fds[worker]);
	ck_assert_msg(channel_create(&rig->fds[worker], &err) == 0, "%s", err.text);
	ck_assert_int_eq(channel_attach(&rig->fds[worker], CHANNEL_WORKER, &rig->worker[worker], &err), 0);
	struct worker_counters *counters = channel_counters(&rig->worker[worker]);
	__atomic_store_n(&counters->progress_ns, clock_now_ns(), __ATOMIC_RELAXED);
	__atomic_store_n(&counters->ready, 1, __ATOMIC_RELAXED);
	snprintf(up.model, sizeof up.model, "%s", model);
	up.mel_bins = strcmp(model, "hears") == 0 ? 80 : 0;
	int fds[3] = {rig->fds[worker].memory, rig->fds[worker].to_worker, rig->fds[worker].to_front};
	ck_assert_int_eq(message_send(rig->control, MESSAGE_WORKER_UP, &up, sizeof up, fds, 3), 0);
}

void rig_worker_up(struct rig *rig, unsigned worker, const char *model)
{
	rig_worker_up_unseen(rig, worker, model);
	settle(rig, model);
}

void rig_worker_down(struct rig *rig, unsigned worker)
{
	struct message_worker_down down = {worker};
	ck_assert_int_eq(message_send(rig->control, MESSAGE_WORKER_DOWN, &down, sizeof down, NULL, 0), 0);
}

/* --- the worker's side ------------------------------------------------------------------------ */

static bool try_record(struct rig *rig, unsigned worker, struct rig_record *out)
{
	struct channel_record record;
	int rc = channel_read(&rig->worker[worker], &record);
	ck_assert_int_ge(rc, 0);
	if (rc == 0)
		return false;
	ck_assert_uint_le(record.n_bytes, CHANNEL_RECORD_MAX);
	out->type = record.type;
	out->call = record.call;
	out->n_bytes = record.n_bytes;
	memcpy(out->payload, record.payload, record.n_bytes);
	out->payload[record.n_bytes] = 0;
	channel_next(&rig->worker[worker]);
	return true;
}

void rig_record(struct rig *rig, unsigned worker, struct rig_record *out)
{
	while (!try_record(rig, worker, out)) {
		wait_for(rig->fds[worker].to_worker, "a record of the front");
		channel_quiet(&rig->worker[worker]);
	}
}

unsigned rig_any_record(struct rig *rig, struct rig_record *out)
{
	struct pollfd fds[RIG_WORKERS];
	for (;;) {
		for (unsigned i = 0; i < RIG_WORKERS; i++) {
			fds[i] = (struct pollfd){.fd = rig->fds[i].to_worker, .events = POLLIN};
			if (rig->worker[i].memory && try_record(rig, i, out))
				return i;
		}
		ck_assert_msg(poll(fds, RIG_WORKERS, WAIT_S * 1000) > 0, "no record came to any worker");
		for (unsigned i = 0; i < RIG_WORKERS; i++)
			if (fds[i].revents)
				channel_quiet(&rig->worker[i]);
	}
}

void rig_no_record(struct rig *rig, unsigned worker)
{
	static struct rig_record record;
	usleep(50000);
	ck_assert_msg(!try_record(rig, worker, &record), "a record of type %u", record.type);
}

uint64_t rig_call(struct rig *rig, unsigned worker, struct call_begin *begin, char **bytes)
{
	static struct rig_record record;
	rig_record(rig, worker, &record);
	ck_assert_uint_eq(record.type, CALL_BEGIN);
	ck_assert_uint_eq(record.n_bytes, sizeof *begin);
	memcpy(begin, record.payload, sizeof *begin);
	uint64_t call = record.call;
	uint64_t n = begin->prompt_bytes + begin->stop_bytes + 4ull * begin->forced_ids + begin->variables_bytes,
		 at = 0;
	*bytes = malloc(n + 1);
	ck_assert_ptr_nonnull(*bytes);
	while (at < n) {
		rig_record(rig, worker, &record);
		ck_assert_uint_eq(record.type, CALL_BYTES);
		ck_assert_uint_eq(record.call, call);
		ck_assert_uint_le(record.n_bytes, n - at);
		memcpy(*bytes + at, record.payload, record.n_bytes);
		at += record.n_bytes;
	}
	(*bytes)[n] = 0;
	return call;
}

/* 0, or -EAGAIN when there is no room for so long. */
static int write_within(struct rig *rig, unsigned worker, const struct rig_record *head, const void *body,
			size_t body_bytes, int ms)
{
	int rc = -EAGAIN;
	for (int i = 0; i <= ms && rc == -EAGAIN; i++) {
		rc = channel_write(&rig->worker[worker], head->type, head->call, head->payload, head->n_bytes, body,
				   (uint32_t)body_bytes);
		channel_ring(&rig->worker[worker]);
		if (rc == -EAGAIN)
			usleep(1000);
	}
	return rc;
}

void rig_write(struct rig *rig, unsigned worker, uint32_t type, uint64_t call, const void *head, size_t head_bytes,
	       const void *body, size_t body_bytes)
{
	static struct rig_record record;
	record.type = type;
	record.call = call;
	record.n_bytes = (uint32_t)head_bytes;
	if (head_bytes)
		memcpy(record.payload, head, head_bytes);
	ck_assert_int_eq(write_within(rig, worker, &record, body, body_bytes, WAIT_S * 1000), 0);
}

bool rig_try_write(struct rig *rig, unsigned worker, uint32_t type, uint64_t call, const void *body, size_t body_bytes)
{
	static struct rig_record record;
	record.type = type;
	record.call = call;
	return write_within(rig, worker, &record, body, body_bytes, 1000) == 0;
}

void rig_accept(struct rig *rig, unsigned worker, uint64_t call)
{
	struct call_accepted accepted = {.prompt_tokens = 3};
	rig_write(rig, worker, CALL_ACCEPTED, call, &accepted, sizeof accepted, NULL, 0);
}

void rig_token(struct rig *rig, unsigned worker, uint64_t call, uint32_t id, const char *text)
{
	struct call_token token = {.id = id, .text_bytes = (uint32_t)strlen(text)};
	rig_write(rig, worker, CALL_TOKEN, call, &token, sizeof token, text, strlen(text));
}

void rig_done(struct rig *rig, unsigned worker, uint64_t call, uint32_t finish)
{
	struct call_done done = {.finish = finish, .prompt_tokens = 3, .generated_tokens = 2};
	rig_write(rig, worker, CALL_DONE, call, &done, sizeof done, NULL, 0);
}

void rig_wait_cancel(struct rig *rig, unsigned worker, uint64_t call)
{
	static struct rig_record record;
	rig_record(rig, worker, &record);
	ck_assert_uint_eq(record.type, CALL_CANCEL);
	ck_assert_uint_eq(record.call, call);
	ck_assert_uint_eq(record.n_bytes, 0);
}

/* --- the client's side ------------------------------------------------------------------------ */

struct rig_client rig_connect(struct rig *rig)
{
	struct rig_client client = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof address.sun_path, "%s", rig->socket);
	ck_assert_int_eq(connect(client.fd, (struct sockaddr *)&address, sizeof address), 0);
	return client;
}

void rig_close(struct rig_client *client)
{
	close(client->fd);
	free(client->bytes);
	*client = (struct rig_client){.fd = -1};
}

static void send_bytes(struct rig_client *client, const char *bytes, size_t n)
{
	while (n) {
		ssize_t sent = send(client->fd, bytes, n, MSG_NOSIGNAL);
		ck_assert_int_gt(sent, 0);
		bytes += sent;
		n -= (size_t)sent;
	}
}

void rig_send(struct rig_client *client, const char *text)
{
	send_bytes(client, text, strlen(text));
}

void rig_request(struct rig_client *client, const char *method, const char *path, const char *body)
{
	char head[512];
	snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: x\r\n", method, path);
	rig_send(client, head);
	if (body) {
		snprintf(head, sizeof head, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
		rig_send(client, head);
	}
	rig_send(client, "\r\n");
	if (body)
		rig_send(client, body);
}

/* Receives some more; false at the end. */
static bool receive(struct rig_client *client)
{
	if (client->capacity - client->n < 65537) {
		client->capacity = 2 * client->capacity + 131072;
		client->bytes = realloc(client->bytes, client->capacity);
		ck_assert_ptr_nonnull(client->bytes);
	}
	wait_for(client->fd, "an answer of the front");
	ssize_t n = recv(client->fd, client->bytes + client->n, 65536, 0);
	if (n <= 0)
		return false;
	client->n += (size_t)n;
	client->bytes[client->n] = 0;
	return true;
}

static void drop(struct rig_client *client, size_t n)
{
	client->n -= n;
	memmove(client->bytes, client->bytes + n, client->n + 1);
}

void rig_see(struct rig_client *client, const char *text)
{
	while (!client->n || !strstr(client->bytes, text))
		ck_assert_msg(receive(client), "the connection ended before '%s'", text);
}

bool rig_at_end(struct rig_client *client)
{
	return client->n == 0 && !receive(client);
}

static bool have(struct rig_client *client, size_t n)
{
	while (client->n < n)
		if (!receive(client))
			return false;
	return true;
}

static void append(struct rig_answer *answer, const char *bytes, size_t n)
{
	answer->body = realloc(answer->body, answer->n_body + n + 1);
	ck_assert_ptr_nonnull(answer->body);
	memcpy(answer->body + answer->n_body, bytes, n);
	answer->n_body += n;
	answer->body[answer->n_body] = 0;
}

static void read_chunks(struct rig_client *client, struct rig_answer *answer)
{
	for (;;) {
		char *line;
		while (!client->n || !(line = strstr(client->bytes, "\r\n"))) {
			if (!receive(client)) {
				answer->cut = true;
				return;
			}
		}
		size_t n = strtoul(client->bytes, NULL, 16), head = (size_t)(line - client->bytes) + 2;
		if (!have(client, head + n + 2)) {
			answer->cut = true;
			return;
		}
		ck_assert_mem_eq(client->bytes + head + n, "\r\n", 2);
		append(answer, client->bytes + head, n);
		drop(client, head + n + 2);
		if (n == 0)
			return;
	}
}

struct rig_answer rig_answer(struct rig_client *client)
{
	struct rig_answer answer = {0};
	append(&answer, "", 0);
	rig_see(client, "\r\n\r\n");
	size_t n_head = (size_t)(strstr(client->bytes, "\r\n\r\n") - client->bytes) + 4;
	ck_assert_uint_lt(n_head, sizeof answer.head);
	memcpy(answer.head, client->bytes, n_head);
	drop(client, n_head);
	ck_assert_int_eq(sscanf(answer.head, "HTTP/1.1 %d", &answer.status), 1);
	const char *length = strcasestr(answer.head, "\r\nContent-Length:");
	if (!length && answer.status == 304)
		return answer;
	if (!length) {
		ck_assert_ptr_nonnull(strcasestr(answer.head, "\r\nTransfer-Encoding: chunked"));
		read_chunks(client, &answer);
		return answer;
	}
	size_t n = strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
	if (!have(client, n))
		answer.cut = true;
	else if (n) {
		append(&answer, client->bytes, n);
		drop(client, n);
	}
	return answer;
}

struct rig_answer rig_ask(struct rig *rig, const char *method, const char *path, const char *body)
{
	struct rig_client client = rig_connect(rig);
	rig_request(&client, method, path, body);
	struct rig_answer answer = rig_answer(&client);
	rig_close(&client);
	return answer;
}

void rig_expect(struct rig_answer answer, int status, const char *text)
{
	ck_assert_int_eq(answer.status, status);
	ck_assert_msg(strstr(answer.body, text) != NULL, "'%s' is not in: %s", text, answer.body);
	ck_assert(!answer.cut);
	free(answer.body);
}

void rig_check(struct rig *rig, const char *method, const char *path, const char *body, int status, const char *text)
{
	rig_expect(rig_ask(rig, method, path, body), status, text);
}

void rig_metric(struct rig *rig, const char *line)
{
	rig_check(rig, "GET", "/metrics", NULL, 200, line);
}

uint64_t rig_begin(struct rig *rig, struct rig_client *client, const char *body, unsigned worker)
{
	struct call_begin head;
	char *bytes;
	rig_request(client, "POST", "/v1/completions", body);
	uint64_t call = rig_call(rig, worker, &head, &bytes);
	free(bytes);
	return call;
}
