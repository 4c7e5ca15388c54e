/* The memory of a channel, as both sides map it. Private to channel.c and its test.
 *
 *   field                     written by             read by              ordering
 *   magic ... ring_bytes      channel_create         both, at attach      before the descriptor is handed out
 *   counters                  worker                 front, parent        relaxed, each word for itself
 *   ring.produced             its producer           its consumer         release in channel_write / acquire in peek
 *   ring.consumed             its consumer           its producer         seq_cst in channel_next / acquire, and
 * seq_cst after `starved`, in claim ring.starved              producer sets,         both                 seq_cst: set
 * before consumed is read again; consumer clears                             read after consumed is stored ring bytes
 * producer, from         consumer, from       between the two indices produced on            consumed on
 *
 * Index and flag of each writer lie on cache lines of their own. An index counts bytes and wraps at 2^32; its place in
 * the ring is the index modulo the ring's size. */
#ifndef WEIGHTD_SHM_CHANNEL_LAYOUT_H
#define WEIGHTD_SHM_CHANNEL_LAYOUT_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/channel.h"

#define CHANNEL_MAGIC 0x314e414843544857ull /* "WHTCHAN1" */
enum { CHANNEL_VERSION = 1, CHANNEL_LINE = 64, CHANNEL_PAGE = 4096 };

struct channel_ring {
	_Alignas(CHANNEL_LINE) _Atomic uint32_t produced;
	_Alignas(CHANNEL_LINE) _Atomic uint32_t consumed;
	_Alignas(CHANNEL_LINE) _Atomic uint32_t starved; /* 1: the producer found no room and wants a ring */
};

struct channel_memory {
	uint64_t magic;
	uint32_t version;
	uint32_t ring_bytes;
	_Alignas(CHANNEL_LINE) struct worker_counters counters;
	struct channel_ring ring[2]; /* [enum channel_side of the producer] */
	_Alignas(CHANNEL_PAGE) unsigned char bytes[2][CHANNEL_RING_BYTES];
};

/* Before each payload. A record starts at a multiple of its size, so the last bytes of a ring always hold a header. */
struct channel_header {
	uint32_t type; /* CHANNEL_PAD: nothing but the way to the ring's end */
	uint32_t n_bytes;
	uint64_t call;
};
#define CHANNEL_PAD UINT32_MAX

static_assert((CHANNEL_RING_BYTES & (CHANNEL_RING_BYTES - 1)) == 0, "indices are masked");
static_assert(CHANNEL_RING_BYTES >= 4 * (CHANNEL_RECORD_MAX + 16), "an empty ring takes any record, pad included");
static_assert(sizeof(struct channel_header) == 16, "channel_header is part of the channel's layout");
static_assert(sizeof(struct worker_counters) == 512, "worker_counters is part of the channel's layout");
static_assert(sizeof(struct channel_ring) == 3 * CHANNEL_LINE, "one line for each writer's word");
static_assert(offsetof(struct channel_memory, bytes) == CHANNEL_PAGE, "all words fit the first page");
static_assert(sizeof(struct channel_memory) == CHANNEL_PAGE + 2 * CHANNEL_RING_BYTES, "no hidden padding");
static_assert(sizeof(_Atomic uint32_t) == 4 && ATOMIC_INT_LOCK_FREE == 2, "lock-free, hence usable between processes");

#endif
