#include "src/worker/worker_outbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct waiting_record {
	uint32_t type;
	uint32_t n_bytes;
};

static struct outbox *find(struct outbox *list, uint64_t call)
{
	while (list && list->call != call)
		list = list->next;
	return list;
}

static int append(struct outbox *box, const void *bytes, size_t n)
{
	if (!n)
		return 0;
	if (box->n_bytes + n > box->capacity) {
		size_t capacity = 2 * (box->n_bytes + n) + 1024;
		char *more = realloc(box->bytes, capacity);
		if (!more)
			return -ENOMEM;
		box->bytes = more;
		box->capacity = capacity;
	}
	memcpy(box->bytes + box->n_bytes, bytes, n);
	box->n_bytes += n;
	return 0;
}

bool outbox_send(struct outbox **list, struct channel *channel, uint32_t type, uint64_t call, const void *head,
		 uint32_t head_bytes, const void *body, uint32_t body_bytes)
{
	struct outbox *box = find(*list, call);
	if (!box) {
		if (channel_write(channel, type, call, head, head_bytes, body, body_bytes) != -EAGAIN)
			return true; /* written, or the channel is dead and the worker about to end */
		box = calloc(1, sizeof *box);
		if (!box) {
			channel->dead = -ENOMEM;
			return false;
		}
		box->call = call;
		box->next = *list;
		*list = box;
	}
	struct waiting_record record = {type, head_bytes + body_bytes};
	if (append(box, &record, sizeof record) || append(box, head, head_bytes) || append(box, body, body_bytes))
		channel->dead = -ENOMEM;
	return false;
}

bool outbox_flush(struct outbox **list, struct channel *channel, void (*emptied)(void *arg, uint64_t call), void *arg)
{
	for (struct outbox **at = list; *at;) {
		struct outbox *box = *at;
		while (box->sent < box->n_bytes) {
			struct waiting_record record;
			memcpy(&record, box->bytes + box->sent, sizeof record);
			const char *payload = box->bytes + box->sent + sizeof record;
			if (channel_write(channel, record.type, box->call, payload, record.n_bytes, NULL, 0) == -EAGAIN)
				return true;
			box->sent += sizeof record + record.n_bytes;
		}
		*at = box->next;
		emptied(arg, box->call);
		free(box->bytes);
		free(box);
	}
	return false;
}

void outbox_free(struct outbox **list)
{
	while (*list) {
		struct outbox *box = *list;
		*list = box->next;
		free(box->bytes);
		free(box);
	}
}
