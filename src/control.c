#include "src/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/log.h"
#include "src/parent.h"
#include "src/status.h"

enum {
	LINE_MAX_BYTES = 256,
	PATIENCE_MS = 10000, /* a client that says nothing, or reads nothing, is dropped */
	DEAF_MS = 100,	     /* after an accept that found no descriptor; what it did not take stays readable */
};

struct control_client {
	int fd; /* -1: free */
	bool waits_for_check;
	uint64_t since_ns;
	char line[LINE_MAX_BYTES];
	size_t n_line;
	char *answer; /* owned; NULL while there is none */
	size_t n_answer, n_sent;
};

struct control {
	struct parent *parent;
	int listener;
	uint64_t deaf_until_ns; /* the listener is not looked at before */
	struct control_client clients[CONTROL_CLIENTS_MAX];
};

int control_new(struct parent *parent, int listener, struct control **out, struct err *err)
{
	struct control *c = calloc(1, sizeof *c);
	if (!c)
		return err_set(err, -ENOMEM, "no memory for the control socket");
	c->parent = parent;
	c->listener = listener;
	for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++)
		c->clients[i].fd = -1;
	*out = c;
	return 0;
}

static void drop(struct control_client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	free(client->answer);
	*client = (struct control_client){.fd = -1};
}

void control_free(struct control *c)
{
	if (!c)
		return;
	for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++)
		drop(&c->clients[i]);
	close(c->listener);
	free(c);
}

unsigned control_poll_fds(struct control *c, struct pollfd *out)
{
	uint64_t now = clock_now_ns();
	out[0] = (struct pollfd){.fd = now < c->deaf_until_ns ? -1 : c->listener, .events = POLLIN};
	for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		struct control_client *client = &c->clients[i];
		if (client->fd >= 0 && now - client->since_ns > PATIENCE_MS * CLOCK_MS_NS) {
			if (client->waits_for_check) { /* the check takes too long: say what is known */
				client->since_ns = now;
				client->waits_for_check = false;
				client->answer = status_json(c->parent, &client->n_answer);
			}
			if (!client->answer)
				drop(client);
		}
		short events = client->answer ? POLLOUT : client->waits_for_check ? 0 : POLLIN;
		out[i + 1] = (struct pollfd){.fd = client->fd, .events = events};
	}
	return CONTROL_CLIENTS_MAX + 1;
}

static void take_client(struct control *c)
{
	int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
		c->deaf_until_ns = clock_now_ns() + DEAF_MS * CLOCK_MS_NS;
	if (fd < 0)
		return;
	struct ucred peer;
	socklen_t n = sizeof peer;
	unsigned i = 0;
	while (i < CONTROL_CLIENTS_MAX && c->clients[i].fd >= 0)
		i++;
	if (i == CONTROL_CLIENTS_MAX || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) ||
	    (peer.uid != 0 && peer.uid != geteuid())) {
		close(fd);
		return;
	}
	c->clients[i] = (struct control_client){.fd = fd, .since_ns = clock_now_ns()};
}

static void answer_text(struct control_client *client, const char *text)
{
	client->answer = strdup(text);
	client->n_answer = client->answer ? strlen(text) : 0;
	if (!client->answer)
		drop(client);
}

static void obey(struct control *c, struct control_client *client)
{
	struct err err = {""};
	if (!strcmp(client->line, "status")) {
		int rc = parent_verify(c->parent, &err);
		if (rc && rc != -ENOENT)
			log_warning("no fresh placement check: %s", err.text);
		client->waits_for_check = !rc;
		if (rc)
			client->answer = status_json(c->parent, &client->n_answer);
		if (rc && !client->answer)
			drop(client);
	} else if (!strcmp(client->line, "stop")) {
		log_info("stop requested over the control socket");
		parent_stop(c->parent);
		answer_text(client, "{\"state\":\"stopping\"}\n");
	} else {
		answer_text(client, "{\"error\":\"unknown command; known are: status, stop\"}\n");
	}
}

static void hear(struct control *c, struct control_client *client)
{
	ssize_t n = recv(client->fd, client->line + client->n_line, sizeof client->line - 1 - client->n_line, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop(client);
		return;
	}
	client->n_line += (size_t)n;
	char *end = memchr(client->line, '\n', client->n_line);
	if (end) {
		*end = '\0';
		obey(c, client);
	} else if (client->n_line == sizeof client->line - 1) {
		drop(client);
	}
}

static void speak(struct control_client *client)
{
	ssize_t n = send(client->fd, client->answer + client->n_sent, client->n_answer - client->n_sent, MSG_NOSIGNAL);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		client->n_sent += (size_t)n;
	if (n < 0 || client->n_sent == client->n_answer)
		drop(client);
}

void control_serve(struct control *c, const struct pollfd *fds, unsigned n)
{
	for (unsigned i = 1; i < n; i++) {
		struct control_client *client = &c->clients[i - 1];
		if (!fds[i].revents || client->fd != fds[i].fd)
			continue;
		if (fds[i].revents & POLLOUT)
			speak(client);
		else if (client->waits_for_check || !(fds[i].revents & POLLIN))
			drop(client); /* it hung up */
		else
			hear(c, client);
	}
	if (fds[0].revents)
		take_client(c);
}

void control_verified(struct control *c)
{
	for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		struct control_client *client = &c->clients[i];
		if (client->fd < 0 || !client->waits_for_check)
			continue;
		client->waits_for_check = false;
		client->answer = status_json(c->parent, &client->n_answer);
		if (!client->answer)
			drop(client);
	}
}
