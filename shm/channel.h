/* A channel between the front and one worker: two single-producer single-consumer rings of records in a memfd, and two
 * eventfds as doorbells. It belongs to one worker's life: when the worker dies the channel is thrown away.
 *
 * Each side trusts nothing the other writes: indices, lengths and types are copied out, checked, and on nonsense the
 * channel is dead (-EPROTO) for good. Records never wrap inside the mapping as seen by the reader. */
#ifndef WEIGHTD_SHM_CHANNEL_H
#define WEIGHTD_SHM_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

enum {
	CHANNEL_RING_BYTES = 1 << 20, /* per direction, a power of two */
	CHANNEL_RECORD_MAX = 1 << 16, /* payload bytes of one record at most */
};

/* Counters a worker publishes for parent and front (both map the channel). Each is one aligned 64-bit word, written
 * by the worker alone with relaxed stores, read with relaxed loads; no two of them are promised to be consistent. */
struct worker_counters {
	uint64_t ready;		   /* 1 once it serves */
	uint64_t progress_ns;	   /* CLOCK_MONOTONIC of the last finished step or idle wake-up */
	uint64_t steps;		   /* forward passes */
	uint64_t running, waiting; /* calls now */
	uint64_t calls;		   /* calls ended, all reasons */
	uint64_t prompt_tokens, generated_tokens;
	uint64_t kv_pages, kv_pages_used;
	uint64_t arena_bytes, arena_peak_bytes; /* committed by the call arena now, and its high-water mark */
	uint64_t cancelled, failed;
	uint64_t locked;	  /* 1: the weights are mlocked */
	uint64_t weight_products; /* matrix products done, one per layer and matrix whatever the number of rows */
	uint64_t progress;	  /* grows with every layer of a pass, every call served and every idle wake-up */
	uint64_t evicted;	  /* calls that gave their KV pages up to others and came back */
	uint64_t replayed_tokens; /* tokens computed again for them */
	uint64_t prefix_bytes;	  /* memory of the prefix cache now */
	uint64_t prefix_tokens;	  /* prompt tokens not computed because the cache had them */
	uint64_t spare[43];
};

struct channel_memory; /* the layout of the memfd, in channel.c */

/* One side's private handle. */
struct channel {
	struct channel_memory *memory;
	uint32_t produced, consumed; /* own copies of the indices this side owns */
	int doorbell_in;	     /* eventfd this side waits on (borrowed) */
	int doorbell_out;	     /* eventfd that wakes the other side (borrowed) */
	int side;
	int dead;	 /* -EPROTO after the other side wrote nonsense */
	uint32_t peeked; /* bytes of the record handed out by channel_read, until channel_next */
	int unrung;	 /* records were written since the last channel_ring */
};

enum channel_side { CHANNEL_FRONT = 0, CHANNEL_WORKER = 1 };

/* The three descriptors of a channel: what the parent makes and passes to both sides. */
struct channel_fds {
	int memory;    /* sealed memfd (no shrinking or growing) */
	int to_worker; /* eventfd, non-blocking */
	int to_front;
};

int channel_create(struct channel_fds *out, struct err *err); /* returns owned descriptors, close-on-exec */
void channel_close(struct channel_fds *fds);		      /* takes -1s */

/* Maps one side, going on where its indices stand. The descriptors stay the caller's, but have to be open as long as
 * the channel is used. -EINVAL when the memfd is not a channel. */
int channel_attach(const struct channel_fds *fds, enum channel_side side, struct channel *out, struct err *err);
void channel_detach(struct channel *channel);

struct channel_record {
	uint32_t type;
	uint32_t n_bytes;
	uint64_t call;	     /* call id, the front's choice */
	const void *payload; /* view into the ring, 8-byte aligned, valid until channel_next; may change under a hostile
				writer, so copy before checking */
};

/* Appends one record made of two parts (either may be empty). 0, -EAGAIN: no room now (the other side rings doorbell_in
 * once it has made some), -EMSGSIZE, -EINVAL: type UINT32_MAX is taken, -EPROTO: dead. The record is visible at once;
 * the other side is woken by channel_ring, which does nothing when nothing new was written. */
int channel_write(struct channel *channel, uint32_t type, uint64_t call, const void *head, uint32_t head_bytes,
		  const void *body, uint32_t body_bytes);
/* Free payload bytes for one record right now (0 when none fits). */
uint32_t channel_room(struct channel *channel);
void channel_ring(struct channel *channel);

/* 1: *out is the oldest unread record; 0: none; -EPROTO. channel_next lets go of it and gives its room back. */
int channel_read(struct channel *channel, struct channel_record *out);
void channel_next(struct channel *channel);
void channel_quiet(
	struct channel *channel); /* resets doorbell_in (reads the eventfd); then read again before waiting */

/* The counters inside the channel's memory: the worker writes, others read (view, valid until detach). */
struct worker_counters *channel_counters(struct channel *channel);

#endif
