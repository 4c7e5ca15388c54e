/* llhttp parses what one recv brought at a time. Body bytes are never more than the bytes they came in, so they are
 * collected in a buffer of the same size and handed out together; nothing is paused or kept across calls but the
 * parser's state. */
#include "src/ctl/client.h"

#include <errno.h>
#include <llhttp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/ctl/interrupt.h"

enum { CLIENT_BUFFER = 16384 };

struct client {
	int fd, interrupt_fd;
	llhttp_t parser;
	llhttp_settings_t settings;
	bool head_complete, complete;
	char received[CLIENT_BUFFER];
	char body[CLIENT_BUFFER]; /* of the last receive */
	size_t n_body;
};

static int on_body(llhttp_t *parser, const char *at, size_t n)
{
	struct client *client = parser->data;
	memcpy(client->body + client->n_body, at, n);
	client->n_body += n;
	return 0;
}

static int on_headers_complete(llhttp_t *parser)
{
	struct client *client = parser->data;
	client->head_complete = parser->status_code >= 200; /* not "100 Continue" */
	return 0;
}

static int on_message_complete(llhttp_t *parser)
{
	struct client *client = parser->data;
	client->complete = client->head_complete;
	return 0;
}

int client_connect(const char *socket_path, struct err *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(socket_path) >= sizeof address.sun_path)
		return err_set(err, -ENAMETOOLONG, "%.120s...: longer than %zu characters", socket_path,
			       sizeof address.sun_path - 1);
	strcpy(address.sun_path, socket_path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
		int code = -errno;
		if (fd >= 0)
			close(fd);
		return err_set(err, code, "%s: %s", socket_path, strerror(-code));
	}
	return fd;
}

int client_send(int fd, const char *bytes, size_t n_bytes)
{
	while (n_bytes > 0) {
		ssize_t n = send(fd, bytes, n_bytes, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		bytes += n;
		n_bytes -= (size_t)n;
	}
	return 0;
}

int client_open(const char *socket_path, int interrupt_fd, struct client **out, struct err *err)
{
	struct client *client = calloc(1, sizeof *client);
	if (!client)
		return err_set(err, -ENOMEM, "out of memory");
	client->interrupt_fd = interrupt_fd;
	client->fd = client_connect(socket_path, err);
	if (client->fd < 0) {
		int code = client->fd;
		free(client);
		return code;
	}
	llhttp_settings_init(&client->settings);
	client->settings.on_body = on_body;
	client->settings.on_headers_complete = on_headers_complete;
	client->settings.on_message_complete = on_message_complete;
	llhttp_init(&client->parser, HTTP_RESPONSE, &client->settings);
	client->parser.data = client;
	*out = client;
	return 0;
}

void client_close(struct client *client)
{
	if (!client)
		return;
	close(client->fd);
	free(client);
}

/* Receives once and parses. 0; -EPROTO when the server closed or sent something else than HTTP. */
static int receive(struct client *client, struct err *err)
{
	int rc = interrupt_wait(client->interrupt_fd, client->fd, -1);
	if (rc < 0)
		return err_set(err, rc, "%s", rc == -EINTR ? "interrupted" : strerror(-rc));
	ssize_t n = recv(client->fd, client->received, sizeof client->received, 0);
	if (n < 0 && errno == ECONNRESET) /* it went without having read all that we sent: no more than an end */
		n = 0;
	if (n < 0)
		return err_set(err, -errno, "the server's answer: %s", strerror(errno));
	client->n_body = 0;
	llhttp_errno_t parsed =
		n ? llhttp_execute(&client->parser, client->received, (size_t)n) : llhttp_finish(&client->parser);
	/* After "Connection: close" anything that follows is an error to llhttp; it no longer matters here. */
	if (client->complete)
		return 0;
	if (n == 0)
		return err_set(err, -EPROTO, "the server closed the connection in the middle of its answer");
	if (parsed != HPE_OK)
		return err_set(err, -EPROTO, "the server's answer is not HTTP: %s",
			       llhttp_get_error_reason(&client->parser));
	return 0;
}

int client_put(struct client *client, const char *bytes, size_t n_bytes, struct err *err)
{
	while (n_bytes > 0) {
		struct pollfd wait[2] = {{.fd = client->fd, .events = POLLOUT},
					 {.fd = client->interrupt_fd, .events = POLLIN}};
		if (poll(wait, client->interrupt_fd < 0 ? 1 : 2, -1) < 0 && errno != EINTR)
			return err_set(err, -errno, "sending the request: %s", strerror(errno));
		if (client->interrupt_fd >= 0 && wait[1].revents)
			return err_set(err, -EINTR, "interrupted");
		ssize_t n = send(client->fd, bytes, n_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		/* A server that refuses early closes its receiving side before it has read all: its answer is still
		 * there to read. */
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			return 1;
		if (n < 0)
			return err_set(err, -errno, "sending the request: %s", strerror(errno));
		bytes += n;
		n_bytes -= (size_t)n;
	}
	return 0;
}

int client_begin(struct client *client, const char *method, const char *target, const char *content_type,
		 uint64_t n_body, struct err *err)
{
	char head[512];
	int n = snprintf(head, sizeof head,
			 "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: %s\r\n"
			 "Content-Length: %llu\r\n\r\n",
			 method, target, content_type, (unsigned long long)n_body);
	if (n < 0 || (size_t)n >= sizeof head)
		return err_set(err, -EINVAL, "the request's target is too long");
	return client_put(client, head, (size_t)n, err);
}

int client_finish(struct client *client, int *status, struct err *err)
{
	while (!client->head_complete) {
		int rc = receive(client, err);
		if (rc < 0)
			return rc;
	}
	*status = client->parser.status_code;
	return 0;
}

int client_request(struct client *client, const char *method, const char *target, const char *body, size_t n_body,
		   int *status, struct err *err)
{
	int rc = client_begin(client, method, target, "application/json", n_body, err);
	if (rc == 0 && n_body)
		rc = client_put(client, body, n_body, err);
	return rc < 0 ? rc : client_finish(client, status, err);
}

int client_read(struct client *client, const char **bytes, size_t *n_bytes, struct err *err)
{
	while (client->n_body == 0 && !client->complete) {
		int rc = receive(client, err);
		if (rc < 0)
			return rc;
	}
	*bytes = client->body;
	*n_bytes = client->n_body;
	client->n_body = 0;
	return *n_bytes > 0;
}

int client_read_all(struct client *client, size_t max_bytes, char **text, size_t *n_bytes, struct err *err)
{
	char *whole = NULL;
	size_t n = 0, n_part;
	const char *part;
	int rc;
	while ((rc = client_read(client, &part, &n_part, err)) > 0) {
		char *grown = n + n_part <= max_bytes ? realloc(whole, n + n_part + 1) : NULL;
		if (!grown) {
			free(whole);
			return err_set(err, -EFBIG, "the server's answer is longer than %zu bytes", max_bytes);
		}
		whole = grown;
		memcpy(whole + n, part, n_part);
		n += n_part;
	}
	if (rc == 0 && !whole)
		whole = calloc(1, 1);
	if (rc < 0 || !whole) {
		free(whole);
		return rc < 0 ? rc : err_set(err, -ENOMEM, "out of memory");
	}
	whole[n] = '\0';
	*text = whole;
	*n_bytes = n;
	return 0;
}
