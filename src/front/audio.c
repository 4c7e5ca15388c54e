#include "src/front/audio.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/clock.h"
#include "src/front/peer.h"
#include "src/log.h"

enum {
	RECORDS_PER_TURN = 64, /* of up to 64 KiB; then others get their turn */
	LOOK_MS = 1000,	       /* so often while calls wait and there is no process */
	PATIENCE_MS = 30000,   /* for a process to be there */
};

struct audio_process {
	struct audio_pool *pool;
	uint32_t index;
	struct peer peer;	 /* closed: not in the pool any more */
	struct audio_call *call; /* that it has; NULL */
	struct audio_process *next;
};

struct audio_call {
	struct audio_pool *pool;
	struct audio_process *process; /* that has it; NULL: it waits, or fails */
	uint64_t id;
	uint32_t bins;
	const struct audio_handler *handler; /* NULL: nobody waits any more */
	void *owner;
	uint8_t *bytes; /* [n_bytes] that came and are not sent; owned, room for `room` */
	size_t n_bytes, sent, room;
	uint64_t n_all; /* bytes that came, ever */
	bool begun, ended, end_sent, cancel_sent, paused;
	bool informed; /* audio_info has come */
	struct audio_info info;
	uint64_t n_rows;		    /* that came */
	struct api_error error;		    /* with a status: it has failed, and its owner is yet to be told */
	struct audio_call *next, *previous; /* of the pool's list */
};

/* --- lists ---------------------------------------------------------------------------------------------- */

static void append(struct audio_pool *pool, struct audio_call *call)
{
	call->next = NULL;
	call->previous = pool->last;
	*(pool->last ? &pool->last->next : &pool->first) = call;
	pool->last = call;
}

static void unlink_call(struct audio_call *call)
{
	struct audio_pool *pool = call->pool;
	*(call->previous ? &call->previous->next : &pool->first) = call->next;
	*(call->next ? &call->next->previous : &pool->last) = call->previous;
}

static void free_call(struct audio_call *call)
{
	call->pool->n_calls--;
	free(call->bytes);
	free(call);
}

/* Something is to be done in a turn of the loop. */
static void wake(struct audio_pool *pool, uint64_t after_ns)
{
	if (!after_ns)
		loop_cancel(pool->loop, &pool->tell); /* a longer wait; it begins anew from the turn */
	if (!pool->tell.in_flight)
		loop_timer(pool->loop, &pool->tell, after_ns);
	else if (!after_ns)
		pool->woken = true;
}

static void wake_process(struct audio_process *process)
{
	peer_wake(&process->peer, 0);
}

/* A call without a process: its owner hears of it in a turn of the loop. */
static void fail_later(struct audio_call *call, int status, const char *code, const char *text)
{
	struct audio_pool *pool = call->pool;
	api_error_set(&call->error, status, code, NULL, "%s", text);
	call->next = pool->failing;
	pool->failing = call;
	wake(pool, 0);
}

/* Tells the owner, and it is gone. */
static void end_failed(struct audio_call *call, const struct api_error *error)
{
	const struct audio_handler *handler = call->handler;
	struct audio_pool *pool = call->pool;
	void *owner = call->owner;
	struct api_error copy = *error;
	if (handler || !call->error.status) /* else it was counted when its owner was told */
		*(handler ? &pool->n_failed : &pool->n_cancelled) += 1;
	free_call(call);
	if (handler)
		handler->failed(owner, &copy);
}

static void fail_waiting(struct audio_pool *pool, const char *code, const char *text)
{
	while (pool->first) {
		struct audio_call *call = pool->first;
		unlink_call(call);
		fail_later(call, 503, code, text);
	}
}

static void tell_failing(struct audio_pool *pool)
{
	while (pool->failing) {
		struct audio_call *call = pool->failing;
		pool->failing = call->next;
		end_failed(call, &call->error);
	}
}

/* --- out ------------------------------------------------------------------------------------------------ */

static int send_bytes(struct channel *channel, struct audio_call *call)
{
	while (call->sent < call->n_bytes) {
		size_t n = call->n_bytes - call->sent;
		n = n > CHANNEL_RECORD_MAX ? CHANNEL_RECORD_MAX : n;
		int rc = channel_write(channel, AUDIO_BYTES, call->id, call->bytes + call->sent, (uint32_t)n, NULL, 0);
		if (rc)
			return rc;
		call->sent += n;
	}
	free(call->bytes);
	call->bytes = NULL;
	call->n_bytes = call->sent = call->room = 0;
	return 0;
}

/* 0: all that there is was written; -EAGAIN: no room; -EPROTO. */
static int send_call(struct channel *channel, struct audio_call *call)
{
	const struct audio_begin begin = {.mel_bins = call->bins};
	int rc = 0;
	if (!call->begun) {
		rc = channel_write(channel, AUDIO_BEGIN, call->id, &begin, sizeof begin, NULL, 0);
		call->begun = rc == 0;
	}
	if (!rc && !call->handler) {
		if (!call->cancel_sent)
			rc = channel_write(channel, AUDIO_CANCEL, call->id, NULL, 0, NULL, 0);
		call->cancel_sent = rc == 0;
		return rc;
	}
	if (!rc)
		rc = send_bytes(channel, call);
	if (!rc && call->ended && !call->end_sent) {
		rc = channel_write(channel, AUDIO_END, call->id, NULL, 0, NULL, 0);
		call->end_sent = rc == 0;
	}
	return rc;
}

/* --- processes ------------------------------------------------------------------------------------------ */

static struct audio_process *process_of(struct peer *peer)
{
	return peer_owner(peer, struct audio_process, peer);
}

static void free_process(struct peer *peer)
{
	free(process_of(peer));
}

static void close_process(struct audio_process *process, const char *why)
{
	struct audio_pool *pool = process->pool;
	struct audio_call *call = process->call;
	struct audio_process **link = &pool->processes;
	while (*link != process)
		link = &(*link)->next;
	*link = process->next;
	process->call = NULL;
	if (call) {
		call->process = NULL;
		fail_later(call, 502, "audio_process_died", why);
	}
	peer_close(&process->peer);
	wake(pool, 0);
}

static void give_up(struct peer *peer, const char *why)
{
	struct audio_process *process = process_of(peer);
	void (*broken)(uint32_t) = process->pool->broken;
	uint32_t index = process->index;
	log_error("audio process %u breaks the protocol (%s): its call fails and it is to be replaced", index, why);
	close_process(process, "the process that decoded the audio failed; send it again");
	broken(index);
}

/* --- in ------------------------------------------------------------------------------------------------- */

static int read_info(struct audio_call *call, const void *payload, uint32_t n_bytes)
{
	struct audio_info info;
	if (n_bytes != sizeof info || call->informed)
		return -EPROTO;
	memcpy(&info, payload, sizeof info);
	if (info.mel_bins != call->bins || !memchr(info.format, 0, sizeof info.format) ||
	    info.n_rows != info.n_samples / AUDIO_HOP + 1 ||
	    !(info.duration_s >= 0 && info.duration_s <= (double)UINT32_MAX))
		return -EPROTO;
	call->info = info;
	call->informed = true;
	if (call->handler)
		call->handler->info(call->owner, &call->info);
	return 0;
}

static int read_mel(struct audio_call *call, const void *payload, uint32_t n_bytes)
{
	uint32_t row_bytes = call->bins * (uint32_t)sizeof(float), n = n_bytes / row_bytes;
	if (!call->informed || n_bytes % row_bytes || !n || n > call->info.n_rows - call->n_rows)
		return -EPROTO;
	uint64_t first = call->n_rows;
	call->n_rows += n;
	if (call->handler)
		call->handler->mel(call->owner, payload, first, n);
	return 0;
}

/* The process is free from here on. */
static void detach(struct audio_call *call)
{
	call->process->call = NULL;
	call->process = NULL;
	wake(call->pool, 0);
}

static int read_done(struct audio_call *call, uint32_t n_bytes)
{
	struct audio_pool *pool = call->pool;
	const struct audio_handler *handler = call->handler;
	void *owner = call->owner;
	if (n_bytes || !call->informed || call->n_rows != call->info.n_rows)
		return -EPROTO;
	*(handler ? &pool->n_done : &pool->n_cancelled) += 1;
	pool->n_samples += handler ? call->info.n_samples : 0;
	detach(call);
	free_call(call);
	if (handler)
		handler->done(owner);
	return 0;
}

static int read_failed(struct audio_call *call, const unsigned char *payload, uint32_t n_bytes)
{
	struct audio_failed failed;
	struct api_error error;
	if (n_bytes < sizeof failed)
		return -EPROTO;
	memcpy(&failed, payload, sizeof failed);
	if (failed.text_bytes != n_bytes - sizeof failed || failed.status < 400 || failed.status > 599 ||
	    !memchr(failed.code, 0, sizeof failed.code))
		return -EPROTO;
	api_error_set(&error, (int)failed.status, failed.code, "file", "%.*s", (int)failed.text_bytes,
		      (const char *)payload + sizeof failed);
	detach(call);
	end_failed(call, &error);
	return 0;
}

static int handle(struct peer *peer, const struct channel_record *record)
{
	struct audio_call *call = process_of(peer)->call;
	if (!call || call->id != record->call || !call->begun)
		return -EPROTO;
	switch (record->type) {
	case AUDIO_INFO:
		return read_info(call, record->payload, record->n_bytes);
	case AUDIO_MEL:
		return read_mel(call, record->payload, record->n_bytes);
	case AUDIO_DONE:
		return read_done(call, record->n_bytes);
	case AUDIO_FAILED:
		return read_failed(call, record->payload, record->n_bytes);
	default:
		return -EPROTO;
	}
}

/* What a paused call's process has made waits there. */
static bool may_read(struct peer *peer)
{
	const struct audio_call *call = process_of(peer)->call;
	return !(call && call->handler && call->paused);
}

/* A call that has failed here: from now on the process works for nobody, until it has taken notice. */
static void tell_failed(struct audio_call *call)
{
	const struct audio_handler *handler = call->handler;
	if (!handler || !call->error.status)
		return;
	call->handler = NULL;
	call->pool->n_failed++;
	handler->failed(call->owner, &call->error);
}

/* An owner may do as it likes while it is told something, but for closing the pool. */
static void turn(struct peer *peer)
{
	struct audio_process *process = process_of(peer);
	if (process->call)
		tell_failed(process->call);
	if (!peer_receive(peer))
		return;
	int rc = process->call ? send_call(&peer->channel, process->call) : 0;
	channel_ring(&peer->channel);
	peer_sent(peer, rc);
}

static const struct peer_kind kind = {
	.records_per_turn = RECORDS_PER_TURN,
	.may_read = may_read,
	.handle = handle,
	.turn = turn,
	.give_up = give_up,
	.free = free_process,
};

/* --- turns ---------------------------------------------------------------------------------------------- */

static void assign(struct audio_pool *pool)
{
	for (struct audio_process *process = pool->processes; process && pool->first; process = process->next) {
		if (process->call)
			continue;
		struct audio_call *call = pool->first;
		unlink_call(call);
		process->call = call;
		call->process = process;
		wake_process(process);
	}
}

/* Without a process for long, nobody is made to wait any longer. */
static void look_for_processes(struct audio_pool *pool)
{
	uint64_t now = clock_now_ns();
	if (pool->processes || !pool->first) {
		pool->alone_since_ns = 0;
		return;
	}
	if (!pool->alone_since_ns)
		pool->alone_since_ns = now;
	if (now - pool->alone_since_ns < PATIENCE_MS * CLOCK_MS_NS) {
		wake(pool, LOOK_MS * CLOCK_MS_NS);
		return;
	}
	pool->alone_since_ns = 0;
	fail_waiting(pool, "audio_unavailable", "no process is there that decodes audio; try again later");
}

static void on_turn(struct loop_op *op, int result)
{
	struct audio_pool *pool = (struct audio_pool *)((char *)op - offsetof(struct audio_pool, tell));
	if (pool->closed || (result < 0 && !pool->woken))
		return;
	pool->woken = false;
	tell_failing(pool);
	assign(pool);
	look_for_processes(pool);
}

/* --- life ----------------------------------------------------------------------------------------------- */

void audio_pool_init(struct audio_pool *pool, struct loop *loop, uint32_t calls_max, uint64_t max_bytes,
		     void (*broken)(uint32_t index))
{
	*pool = (struct audio_pool){.loop = loop, .calls_max = calls_max, .max_bytes = max_bytes, .broken = broken};
	pool->tell.done = on_turn;
}

void audio_pool_fini(struct audio_pool *pool)
{
	if (!pool->loop)
		return;
	while (pool->processes)
		close_process(pool->processes, "the server is stopping");
	fail_waiting(pool, "stopping", "the server is stopping");
	tell_failing(pool);
	pool->closed = true;
	loop_cancel(pool->loop, &pool->tell);
}

int audio_pool_up(struct audio_pool *pool, uint32_t index, const struct channel_fds *fds, struct err *err)
{
	struct channel_fds taken = *fds;
	struct audio_process *process = NULL;
	int rc = 0;
	for (struct audio_process *other = pool->processes; other && !rc; other = other->next)
		rc = other->index == index ? -EEXIST : 0;
	if (rc)
		err_set(err, rc, "audio process %u is there already", index);
	else if (!(process = calloc(1, sizeof *process)))
		rc = err_set(err, -ENOMEM, "no memory for an audio process");
	if (rc) {
		channel_close(&taken);
		return rc;
	}
	rc = peer_open(&process->peer, &kind, pool->loop, fds, err);
	if (rc) {
		free(process);
		return rc;
	}
	process->pool = pool;
	process->index = index;
	process->next = pool->processes;
	pool->processes = process;
	wake(pool, 0);
	return 0;
}

void audio_pool_down(struct audio_pool *pool, uint32_t index)
{
	for (struct audio_process *process = pool->processes; process; process = process->next)
		if (process->index == index) {
			close_process(process, "the process that decoded the audio died; send it again");
			return;
		}
}

struct audio_call *audio_call_new(struct audio_pool *pool, uint32_t mel_bins, const struct audio_handler *handler,
				  void *owner)
{
	struct audio_call *call = pool->n_calls < pool->calls_max ? calloc(1, sizeof *call) : NULL;
	if (!call)
		return NULL;
	call->pool = pool;
	call->id = ++pool->last_id;
	call->bins = mel_bins;
	call->handler = handler;
	call->owner = owner;
	pool->n_calls++;
	append(pool, call);
	wake(pool, 0);
	return call;
}

/* Its owner hears of it in a turn of the loop. A process that has it is told to stop. */
static void fail_here(struct audio_call *call, int status, const char *code, const char *text)
{
	if (!call->process) {
		unlink_call(call);
		fail_later(call, status, code, text);
		return;
	}
	api_error_set(&call->error, status, code, NULL, "%s", text);
	wake_process(call->process);
}

void audio_call_bytes(struct audio_call *call, const void *bytes, size_t n_bytes)
{
	struct audio_pool *pool = call->pool;
	if (call->error.status || !n_bytes)
		return;
	if (n_bytes > pool->max_bytes - call->n_all) {
		char text[160];
		snprintf(text, sizeof text,
			 "the file is larger than %llu bytes, which is the most that is served (max_audio_bytes)",
			 (unsigned long long)pool->max_bytes);
		fail_here(call, 413, "audio_too_large", text);
		return;
	}
	if (call->sent) {
		memmove(call->bytes, call->bytes + call->sent, call->n_bytes - call->sent);
		call->n_bytes -= call->sent;
		call->sent = 0;
	}
	if (n_bytes > call->room - call->n_bytes) {
		size_t room = call->n_bytes + n_bytes + (call->n_bytes >> 1);
		uint8_t *larger = realloc(call->bytes, room);
		if (!larger) {
			fail_here(call, 500, "out_of_memory", "no memory to take the file in");
			return;
		}
		call->bytes = larger;
		call->room = room;
	}
	memcpy(call->bytes + call->n_bytes, bytes, n_bytes);
	call->n_bytes += n_bytes;
	call->n_all += n_bytes;
	if (call->process)
		wake_process(call->process);
}

void audio_call_end(struct audio_call *call)
{
	call->ended = true;
	if (call->process)
		wake_process(call->process);
}

void audio_call_cancel(struct audio_call *call)
{
	call->handler = NULL;
	if (call->error.status && !call->process)
		return; /* the turn to come frees it */
	if (call->process && call->begun) {
		wake_process(call->process);
		return;
	}
	if (call->process)
		detach(call);
	else
		unlink_call(call);
	call->pool->n_cancelled++;
	free_call(call);
}

void audio_call_pause(struct audio_call *call)
{
	call->paused = true;
}

void audio_call_resume(struct audio_call *call)
{
	call->paused = false;
	if (call->process)
		wake_process(call->process);
}
