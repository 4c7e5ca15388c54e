#include "src/message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

struct message_head {
	uint32_t type;
	uint32_t n_bytes;
};

/* Room for the descriptors of one message, aligned for cmsghdr. */
union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * MESSAGE_MAX_FDS)];
};

static_assert(sizeof(struct message_load) <= MESSAGE_MAX_BYTES, "every message fits one packet");
static_assert(sizeof(struct message_files) <= MESSAGE_MAX_BYTES, "every message fits one packet");
static_assert(sizeof(struct message_adopt) <= MESSAGE_MAX_BYTES, "every message fits one packet");
static_assert(sizeof(struct message_work) <= MESSAGE_MAX_BYTES, "every message fits one packet");
static_assert(sizeof(struct message_part) <= MESSAGE_MAX_BYTES, "every message fits one packet");
static_assert(sizeof(struct message_segment) <= MESSAGE_MAX_BYTES, "every message fits one packet");
static_assert(sizeof(struct message_quality) <= MESSAGE_MAX_BYTES, "every message fits one packet");
static_assert(sizeof(struct message_state) <= MESSAGE_MAX_BYTES, "every message fits one packet");

int message_send(int fd, uint32_t type, const void *payload, size_t n_bytes, const int *fds, uint32_t n_fds)
{
	if (n_bytes > MESSAGE_MAX_BYTES || n_fds > MESSAGE_MAX_FDS)
		return -EMSGSIZE;
	struct message_head head = {type, (uint32_t)n_bytes};
	/* sendmsg takes iovecs without const; it does not write through them. */
	struct iovec parts[2] = {{&head, sizeof head}, {(void *)(uintptr_t)payload, n_bytes}};
	struct msghdr packet = {.msg_iov = parts, .msg_iovlen = n_bytes ? 2 : 1};
	union control control;
	if (n_fds) {
		memset(&control, 0, sizeof control);
		packet.msg_control = control.bytes;
		packet.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		struct cmsghdr *c = CMSG_FIRSTHDR(&packet);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	for (;;) {
		if (sendmsg(fd, &packet, MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

/* Takes the descriptors out of the ancillary data; more than `out` holds are closed and make the message malformed. */
static int take_fds(struct msghdr *packet, struct message *out)
{
	int bad = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(packet); c; c = CMSG_NXTHDR(packet, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
			if (out->n_fds < MESSAGE_MAX_FDS) {
				out->fds[out->n_fds++] = fd;
			} else {
				close(fd);
				bad = 1;
			}
		}
	}
	return bad;
}

int message_receive(int fd, struct message *out)
{
	struct message_head head;
	struct iovec parts[2] = {{&head, sizeof head}, {out->payload, sizeof out->payload}};
	union control control;
	struct msghdr packet = {.msg_iov = parts,
				.msg_iovlen = 2,
				.msg_control = control.bytes,
				.msg_controllen = sizeof control.bytes};
	ssize_t n;
	do
		n = recvmsg(fd, &packet, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	out->n_fds = 0;
	int bad = take_fds(&packet, out);
	if (n == 0 && !out->n_fds)
		return 0;
	if (bad || (packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || n < (ssize_t)sizeof head ||
	    (size_t)n != sizeof head + head.n_bytes) {
		for (uint32_t i = 0; i < out->n_fds; i++)
			close(out->fds[i]);
		out->n_fds = 0;
		return -EPROTO;
	}
	out->type = head.type;
	out->n_bytes = head.n_bytes;
	return 1;
}

const void *message_payload(const struct message *message, size_t n_bytes, uint32_t n_fds)
{
	return message->n_bytes == n_bytes && message->n_fds == n_fds ? message->payload : NULL;
}
