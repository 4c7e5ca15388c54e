#include "src/parent/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <yyjson.h>

#include "src/clock.h"
#include "src/log.h"
#include "src/parent/parent_internal.h"
#include "src/parent/status.h"

enum {
	LINE_MAX_BYTES = 16384,
	PATIENCE_MS = 10000, /* a client that says nothing, or reads nothing, is dropped */
	DEAF_MS = 100,	     /* after an accept that found no descriptor; what it did not take stays readable */
};

enum control_wait { WAIT_NONE, WAIT_CHECK, WAIT_VERIFY, WAIT_BENCH, WAIT_WISH };

struct control_client {
	int fd; /* -1: free */
	enum control_wait waits_for;
	uint64_t ticket; /* of what he wished for */
	uint64_t since_ns;
	char *line; /* [LINE_MAX_BYTES] owned; NULL before it has said something */
	size_t n_line;
	char *answer; /* owned; NULL while there is none */
	size_t n_answer, n_sent;
};

struct control {
	struct parent *parent;
	int listener;
	uint64_t deaf_until_ns; /* the listener is not looked at before */
	uint64_t last_ticket;
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
	free(client->line);
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
			if (client->waits_for == WAIT_CHECK) { /* it takes too long: say what is known */
				client->since_ns = now;
				client->waits_for = WAIT_NONE;
				client->answer = status_json(c->parent, &client->n_answer);
			}
			if (!client->answer && client->waits_for == WAIT_NONE)
				drop(client);
		}
		short events = client->answer ? POLLOUT : client->waits_for ? 0 : POLLIN;
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

static void answer_error(struct control_client *client, const struct err *err)
{
	char text[sizeof err->text + 32];
	snprintf(text, sizeof text, "{\"error\":\"%s\"}\n", err->text); /* our own words: nothing to escape */
	answer_text(client, text);
}

static void begin_bench(struct control *c, struct control_client *client)
{
	struct message_bench order;
	struct err err = {""};
	int end = 0;
	if (sscanf(client->line, "bench %u %u %u %u%n", &order.prompt_tokens, &order.generated_tokens, &order.streams,
		   &order.depth, &end) != 4 ||
	    client->line[end])
		err_set(&err, -EINVAL, "usage: bench PROMPT GENERATE STREAMS DEPTH");
	else if (!parent_bench(c->parent, &order, &err))
		client->waits_for = WAIT_BENCH;
	if (!client->waits_for)
		answer_error(client, &err);
}

static void begin_quality(struct control *c, struct control_client *client)
{
	static struct message_quality order; /* large; one thread */
	struct err err = {""};
	char *at = client->line + strlen("quality");
	memset(&order, 0, sizeof order);
	while (*at == ' ' && order.n_tokens < QUALITY_TOKENS_MAX)
		order.tokens[order.n_tokens++] = (uint32_t)strtoul(at + 1, &at, 10);
	if (*at)
		err_set(&err, -EINVAL, "usage: quality TOKEN TOKEN ..., at most %d", QUALITY_TOKENS_MAX);
	else if (!parent_quality(c->parent, &order, &err))
		client->waits_for = WAIT_BENCH;
	if (!client->waits_for)
		answer_error(client, &err);
}

/* The next word of a line, which begins at *at; false: there is none, or it is too long. */
static bool take_word(const char **at, char *out, size_t size)
{
	size_t n = strcspn(*at, " ");
	if (!n || n >= size)
		return false;
	memcpy(out, *at, n);
	out[n] = '\0';
	*at += n + ((*at)[n] == ' ');
	return true;
}

/* An operator may load from anywhere, and put one adapter in another's place. */
static void begin_adapter(struct control *c, struct control_client *client)
{
	struct message_adapter_request wish;
	char verb[8];
	const char *at = client->line + strlen("adapter ");
	memset(&wish, 0, sizeof wish);
	bool ok = take_word(&at, verb, sizeof verb) && take_word(&at, wish.name, sizeof wish.name);
	if (ok && !strcmp(verb, "load")) {
		wish.wish = ADAPTER_LOAD;
		wish.replace = 1;
		ok = take_word(&at, wish.model, sizeof wish.model) && *at && strlen(at) < sizeof wish.path;
		if (ok)
			memcpy(wish.path, at, strlen(at));
		if (!strcmp(wish.model, "-"))
			wish.model[0] = '\0';
	} else if (ok && !strcmp(verb, "unload") && !*at) {
		wish.wish = ADAPTER_UNLOAD;
	} else {
		ok = false;
	}
	if (!ok) {
		answer_text(client, "{\"error\":\"usage: adapter load NAME MODEL PATH, or adapter unload NAME\"}\n");
		return;
	}
	client->waits_for = WAIT_WISH;
	client->ticket = ++c->last_ticket;
	adapters_wish(c->parent, &wish, (struct adapter_asker){ASKER_CONTROL, client->ticket}, NULL);
}

/* load NAME PATH, reload NAME, repair NAME, unload NAME */
static void begin_model(struct control *c, struct control_client *client)
{
	char verb[8], name[128];
	const char *at = client->line;
	bool ok = take_word(&at, verb, sizeof verb) && take_word(&at, name, sizeof name);
	bool loads = ok && !strcmp(verb, "load");
	if (!ok || loads != (*at != '\0')) {
		answer_text(client,
			    "{\"error\":\"usage: load NAME PATH, reload NAME, repair NAME, or unload NAME\"}\n");
		return;
	}
	client->waits_for = WAIT_WISH;
	client->ticket = ++c->last_ticket;
	if (loads)
		wish_load_model(c->parent, name, at, client->ticket);
	else if (!strcmp(verb, "reload"))
		wish_reload_model(c->parent, name, client->ticket);
	else if (!strcmp(verb, "repair"))
		wish_repair(c->parent, name, client->ticket);
	else
		wish_unload_model(c->parent, name, client->ticket);
}

static bool begins(const char *line, const char *word)
{
	return !strncmp(line, word, strlen(word));
}

/* Status is wanted after all pages were counted: WAIT_CHECK if that does not take too long, WAIT_VERIFY in any case. */
static void begin_check(struct control *c, struct control_client *client, enum control_wait wait)
{
	struct err err = {""};
	int rc = parent_verify(c->parent, &err);
	if (!rc) {
		client->waits_for = wait;
	} else if (wait == WAIT_VERIFY && rc != -ENOENT) {
		answer_error(client, &err);
	} else {
		if (rc != -ENOENT)
			log_warning("no fresh placement check: %s", err.text);
		client->answer = status_json(c->parent, &client->n_answer);
		if (!client->answer)
			drop(client);
	}
}

static void obey(struct control *c, struct control_client *client)
{
	if (!strcmp(client->line, "status")) {
		begin_check(c, client, WAIT_CHECK);
	} else if (!strcmp(client->line, "verify")) {
		begin_check(c, client, WAIT_VERIFY);
	} else if (!strcmp(client->line, "overview")) {
		client->answer = status_json(c->parent, &client->n_answer);
		if (!client->answer)
			drop(client);
	} else if (!strcmp(client->line, "stop")) {
		log_info("stop requested over the control socket");
		parent_stop(c->parent);
		answer_text(client, "{\"state\":\"stopping\"}\n");
	} else if (!strncmp(client->line, "bench ", strlen("bench "))) {
		begin_bench(c, client);
	} else if (!strncmp(client->line, "quality", strlen("quality"))) {
		begin_quality(c, client);
	} else if (!strncmp(client->line, "adapter ", strlen("adapter "))) {
		begin_adapter(c, client);
	} else if (begins(client->line, "load ") || begins(client->line, "reload ") ||
		   begins(client->line, "repair ") || begins(client->line, "unload ")) {
		begin_model(c, client);
	} else {
		answer_text(client, "{\"error\":\"unknown command; known are: status, verify, overview, stop, bench, "
				    "quality, adapter, load, reload, repair, unload\"}\n");
	}
}

static void hear(struct control *c, struct control_client *client)
{
	if (!client->line && !(client->line = malloc(LINE_MAX_BYTES))) {
		drop(client);
		return;
	}
	ssize_t n = recv(client->fd, client->line + client->n_line, LINE_MAX_BYTES - 1 - client->n_line, 0);
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
	} else if (client->n_line == LINE_MAX_BYTES - 1) {
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
		else if (client->waits_for || !(fds[i].revents & POLLIN))
			drop(client); /* it hung up */
		else
			hear(c, client);
	}
	if (fds[0].revents)
		take_client(c);
}

/* Gives an answer, which is owned or NULL, to one who waited for it. */
static void answer_wait(struct control_client *client, char *text, size_t n)
{
	client->waits_for = WAIT_NONE;
	client->since_ns = clock_now_ns();
	client->answer = text;
	client->n_answer = n;
	if (!text)
		drop(client);
}

void control_verified(struct control *c)
{
	for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		struct control_client *client = &c->clients[i];
		size_t n = 0;
		if (client->fd < 0 || (client->waits_for != WAIT_CHECK && client->waits_for != WAIT_VERIFY))
			continue;
		char *text = status_json(c->parent, &n);
		answer_wait(client, text, n);
	}
}

void control_benched(struct control *c, char *text, size_t n)
{
	for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		struct control_client *client = &c->clients[i];
		if (client->fd >= 0 && client->waits_for == WAIT_BENCH) {
			answer_wait(client, text, n);
			return;
		}
	}
	free(text); /* whoever asked has hung up */
}

/* {key: text}, which may have anything in it. */
static char *object(const char *key, const char *text, size_t *n)
{
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc);
	yyjson_mut_doc_set_root(doc, root);
	yyjson_mut_obj_add_str(doc, root, key, text);
	char *json = yyjson_mut_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE | YYJSON_WRITE_NEWLINE_AT_END, n);
	yyjson_mut_doc_free(doc);
	return json;
}

void control_wish_done(struct control *c, uint64_t ticket, bool well, const char *text)
{
	for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		struct control_client *client = &c->clients[i];
		size_t n = 0;
		if (client->fd < 0 || client->waits_for != WAIT_WISH || client->ticket != ticket)
			continue;
		char *json = object(well ? "text" : "error", text, &n);
		answer_wait(client, json, n);
		return;
	}
}
