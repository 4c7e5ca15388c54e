/* Audio files that clients send, made into rows of log-mel by processes of their own (src/audio/): the front's side.
 *
 *      call = audio_call_new(&front->audio, 80, &handler, owner);
 *      audio_call_bytes(call, part, n_bytes);  ...  audio_call_end(call);
 *                              handler.info, handler.mel ..., then handler.done or handler.failed
 *
 * Each process has one call at a time. Calls wait for a free one in the order in which they were made, and so do their
 * bytes, here; what a process has taken is not held here any more. A process that dies, or that breaks the protocol,
 * fails the call that it had, and no other. Everything happens in callbacks of the loop; no handler is called from
 * within one of the functions below, except that audio_pool_fini ends what there still is. */
#ifndef WEIGHTD_SRC_FRONT_AUDIO_H
#define WEIGHTD_SRC_FRONT_AUDIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/loop.h"
#include "shm/channel.h"
#include "src/api/error.h"
#include "src/audio/wire.h"

struct audio_call;
struct audio_process;

/* What a call says to its owner. After done or failed the call is gone. */
struct audio_handler {
	void (*info)(void *owner, const struct audio_info *info);
	/* rows: [n_rows][mel_bins] float32, view, for this call of it alone; first_row: how many came before */
	void (*mel)(void *owner, const float *rows, uint64_t first_row, uint32_t n_rows);
	void (*done)(void *owner);
	/* 400 the file, 413 too large or too long, 415 a format that is not known, 502 the process died, 503 there is
	 * none, 500 */
	void (*failed)(void *owner, const struct api_error *error);
};

struct audio_pool {
	struct loop *loop;
	struct audio_process *processes; /* list, owned */
	struct audio_call *first, *last; /* calls that wait for a process, oldest first */
	struct audio_call *failing;	 /* list: calls that have failed and are yet to be told */
	struct loop_op tell;		 /* a turn: they are told, and processes are given calls */
	bool woken, closed;
	uint64_t last_id;
	uint64_t alone_since_ns;		/* calls wait and there is no process; 0: it is not so */
	uint32_t n_calls, calls_max;		/* of all, and at most */
	uint64_t max_bytes;			/* of one file */
	void (*broken)(uint32_t index);		/* a process broke the protocol: the parent is to replace it */
	uint64_t n_done, n_failed, n_cancelled; /* calls ended, so far */
	uint64_t n_samples;			/* of audio, at AUDIO_RATE, of those that were done */
};

/* `calls_max`: at a time, waiting ones and all; `max_bytes`: of one file. */
void audio_pool_init(struct audio_pool *pool, struct loop *loop, uint32_t calls_max, uint64_t max_bytes,
		     void (*broken)(uint32_t index));
/* Fails all calls (503). The loop may still have operations of this pool, which end with it. */
void audio_pool_fini(struct audio_pool *pool);

/* A process is there, or gone. Takes the descriptors, also on failure. 0 or -errno; -EEXIST: there is one of this
 * index.
 */
int audio_pool_up(struct audio_pool *pool, uint32_t index, const struct channel_fds *fds, struct err *err);
void audio_pool_down(struct audio_pool *pool, uint32_t index);

/* A new call, of a file of which no byte has come yet; NULL: there are calls_max already (429), or no memory. `handler`
 * and `owner` are borrowed until done, failed or audio_call_cancel. */
struct audio_call *audio_call_new(struct audio_pool *pool, uint32_t mel_bins, const struct audio_handler *handler,
				  void *owner);
/* The next bytes of the file; copied. One that becomes too large fails (413), and later bytes are passed over. */
void audio_call_bytes(struct audio_call *call, const void *bytes, size_t n_bytes);
/* All bytes came. */
void audio_call_end(struct audio_call *call);
/* Nobody waits any more: no handler is called from here on, and the call is gone. */
void audio_call_cancel(struct audio_call *call);
/* No rows for a while: what the process has made waits there. */
void audio_call_pause(struct audio_call *call);
void audio_call_resume(struct audio_call *call);

#endif
