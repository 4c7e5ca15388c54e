/* A channel's two rings.
 *
 *      consumed              produced              end
 *         v                     v                   v
 *   ......[head|payload..][head|]..................[pad]
 *                               '-- room: from produced to the end, and from the beginning to consumed
 *
 * A record is a header and its payload, rounded up to 16 bytes, and never wraps: where it would, a pad record takes
 * what is left to the end of the ring and the record starts at the beginning; both become visible with the same store
 * of `produced`. So the reader hands out plain views.
 *
 * Neither side believes the other. Each keeps its own index in private memory and never reads it back; the other's
 * index is loaded once, and must leave a distance of 0 ... ring size in multiples of 16; a header is loaded once, and
 * its record must end before both the ring and what was produced; a pad must end exactly with the ring, and a record
 * must follow it. The first contradiction kills the channel. So whatever the other process writes, and whenever, this
 * side stays within the mapping, and each call of it ends after at most two headers.
 *
 * Waking: a producer rings after a batch of records. A producer without room sets `starved`, and the consumer rings
 * back after giving room. That is a store followed by a load of the other's word on both sides, hence seq_cst: in the
 * one order of all four, either the producer sees the room or the consumer sees the flag. */
#include "shm/channel.h"
#include "shm/channel_layout.h"
#include "shm/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW, RING_MASK = CHANNEL_RING_BYTES - 1 };

/* --- making, attaching ------------------------------------------------------------------------ */

static int create_memory(struct err *err)
{
	int fd = memfd_open_new("weightd-channel", err);
	if (fd < 0)
		return fd;
	struct {
		uint64_t magic;
		uint32_t version, ring_bytes;
	} head = {CHANNEL_MAGIC, CHANNEL_VERSION, CHANNEL_RING_BYTES};
	static_assert(sizeof head == 16 && offsetof(struct channel_memory, ring_bytes) == 12, "as in channel_memory");
	int rc = memfd_allocate(fd, sizeof(struct channel_memory), err);
	if (rc) {
		close(fd);
		return rc;
	}
	/* Sealed in size, neither side can make the other's loads fault. */
	if (pwrite(fd, &head, sizeof head, 0) != sizeof head || fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) != 0) {
		int code = errno ? -errno : -EIO;
		close(fd);
		return err_set(err, code, "channel: memory of %zu bytes: %s", sizeof(struct channel_memory),
			       strerror(-code));
	}
	return fd;
}

int channel_create(struct channel_fds *out, struct err *err)
{
	struct channel_fds fds = {-1, -1, -1};
	int rc = create_memory(err);
	if (rc < 0)
		return rc;
	fds.memory = rc;
	fds.to_worker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fds.to_worker >= 0)
		fds.to_front = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fds.to_front < 0) {
		rc = err_set(err, -errno, "channel: eventfd: %s", strerror(errno));
		channel_close(&fds);
		return rc;
	}
	*out = fds;
	return 0;
}

void channel_close(struct channel_fds *fds)
{
	int *const all[] = {&fds->memory, &fds->to_worker, &fds->to_front};
	for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
		if (*all[i] >= 0)
			close(*all[i]);
		*all[i] = -1;
	}
}

static int check_memory(int fd, struct err *err)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return err_set(err, -errno, "channel: %s", strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_size != sizeof(struct channel_memory))
		return err_set(err, -EINVAL, "channel: the memory has %lld bytes, not %zu", (long long)st.st_size,
			       sizeof(struct channel_memory));
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & SEALS) != SEALS)
		return err_set(err, -EINVAL, "channel: the memory is not sealed in size");
	return 0;
}

int channel_attach(const struct channel_fds *fds, enum channel_side side, struct channel *out, struct err *err)
{
	int rc = check_memory(fds->memory, err);
	if (rc != 0)
		return rc;
	struct channel_memory *memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_SHARED, fds->memory, 0);
	if (memory == MAP_FAILED)
		return err_set(err, -errno, "channel: mmap: %s", strerror(errno));
	struct channel channel = {
		.memory = memory,
		.produced = atomic_load_explicit(&memory->ring[side].produced, memory_order_relaxed),
		.consumed = atomic_load_explicit(&memory->ring[!side].consumed, memory_order_relaxed),
		.doorbell_in = side == CHANNEL_FRONT ? fds->to_front : fds->to_worker,
		.doorbell_out = side == CHANNEL_FRONT ? fds->to_worker : fds->to_front,
		.side = side,
	};
	if (memory->magic != CHANNEL_MAGIC || memory->version != CHANNEL_VERSION ||
	    memory->ring_bytes != CHANNEL_RING_BYTES || channel.produced % sizeof(struct channel_header) != 0 ||
	    channel.consumed % sizeof(struct channel_header) != 0) {
		munmap(memory, sizeof *memory);
		return err_set(err, -EINVAL, "channel: the memory is not that of a channel of this version");
	}
	*out = channel;
	return 0;
}

void channel_detach(struct channel *channel)
{
	if (channel && channel->memory)
		munmap(channel->memory, sizeof *channel->memory);
	if (channel)
		channel->memory = NULL;
}

struct worker_counters *channel_counters(struct channel *channel)
{
	return &channel->memory->counters;
}

/* --- writing ---------------------------------------------------------------------------------- */

static int die(struct channel *channel)
{
	channel->dead = -EPROTO;
	return -EPROTO;
}

static struct channel_ring *ring_out(const struct channel *channel)
{
	return &channel->memory->ring[channel->side];
}

static struct channel_ring *ring_in(const struct channel *channel)
{
	return &channel->memory->ring[!channel->side];
}

static uint32_t record_bytes(uint32_t payload_bytes) /* at most CHANNEL_RECORD_MAX: no overflow */
{
	uint32_t header = sizeof(struct channel_header);
	return header + (payload_bytes + header - 1) / header * header;
}

static uint32_t bytes_to_end(uint32_t index)
{
	return CHANNEL_RING_BYTES - (index & RING_MASK);
}

/* Bytes that may be written, given the consumer's index. Dead when that index is nonsense. */
static int room_bytes(struct channel *channel, uint32_t consumed, uint32_t *out)
{
	uint32_t used = channel->produced - consumed;
	if (used > CHANNEL_RING_BYTES || used % sizeof(struct channel_header) != 0)
		return die(channel);
	*out = CHANNEL_RING_BYTES - used;
	return 0;
}

/* Makes sure that `n_bytes` may be written. */
static int claim(struct channel *channel, uint32_t n_bytes)
{
	struct channel_ring *ring = ring_out(channel);
	uint32_t room;
	/* acquire: the consumer's loads from these bytes are over; partner: channel_next */
	int rc = room_bytes(channel, atomic_load_explicit(&ring->consumed, memory_order_acquire), &room);
	if (rc != 0 || room >= n_bytes)
		return rc;
	/* seq_cst, both: the flag is up before the index is looked at again; partner: channel_next */
	atomic_store_explicit(&ring->starved, 1, memory_order_seq_cst);
	rc = room_bytes(channel, atomic_load_explicit(&ring->consumed, memory_order_seq_cst), &room);
	if (rc != 0 || room < n_bytes)
		return rc ? rc : -EAGAIN;
	return 0;
}

static unsigned char *place_header(struct channel *channel, uint32_t index, struct channel_header header)
{
	unsigned char *place = channel->memory->bytes[channel->side] + (index & RING_MASK);
	memcpy(place, &header, sizeof header);
	return place + sizeof header;
}

int channel_write(struct channel *channel, uint32_t type, uint64_t call, const void *head, uint32_t head_bytes,
		  const void *body, uint32_t body_bytes)
{
	if (channel->dead)
		return channel->dead;
	if (type == CHANNEL_PAD)
		return -EINVAL;
	if (head_bytes > CHANNEL_RECORD_MAX || body_bytes > CHANNEL_RECORD_MAX - head_bytes)
		return -EMSGSIZE;
	uint32_t n_bytes = record_bytes(head_bytes + body_bytes);
	uint32_t to_end = bytes_to_end(channel->produced);
	uint32_t pad = n_bytes > to_end ? to_end : 0;
	int rc = claim(channel, pad + n_bytes);
	if (rc != 0)
		return rc;
	uint32_t index = channel->produced;
	if (pad) {
		place_header(channel, index, (struct channel_header){.type = CHANNEL_PAD, .n_bytes = pad - 16});
		index += pad;
	}
	unsigned char *payload =
		place_header(channel, index,
			     (struct channel_header){.type = type, .n_bytes = head_bytes + body_bytes, .call = call});
	if (head_bytes)
		memcpy(payload, head, head_bytes);
	if (body_bytes)
		memcpy(payload + head_bytes, body, body_bytes);
	channel->produced = index + n_bytes;
	channel->unrung = 1;
	/* release: the record's bytes first; partner: the acquire in peek */
	atomic_store_explicit(&ring_out(channel)->produced, channel->produced, memory_order_release);
	return 0;
}

uint32_t channel_room(struct channel *channel)
{
	uint32_t room, header = sizeof(struct channel_header);
	/* acquire: as in claim */
	uint32_t consumed = atomic_load_explicit(&ring_out(channel)->consumed, memory_order_acquire);
	if (channel->dead || room_bytes(channel, consumed, &room) != 0)
		return 0;
	uint32_t to_end = bytes_to_end(channel->produced);
	uint32_t here = room < to_end ? room : to_end;	     /* without a pad */
	uint32_t around = room > to_end ? room - to_end : 0; /* after one */
	uint32_t best = here > around ? here : around;
	if (best < header)
		return 0;
	return best - header < CHANNEL_RECORD_MAX ? best - header : CHANNEL_RECORD_MAX;
}

static void ring_doorbell(const struct channel *channel)
{
	static const uint64_t one = 1;
	/* Fails only when the counter is full, and then the other side is awake already. */
	if (write(channel->doorbell_out, &one, sizeof one) < 0)
		return;
}

void channel_ring(struct channel *channel)
{
	if (!channel->unrung)
		return;
	channel->unrung = 0;
	ring_doorbell(channel);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Copies the header at `index`, each word loaded once, so that what is checked is what is used. */
static struct channel_header load_header(const struct channel *channel, uint32_t index)
{
	const struct channel_header *place =
		(const void *)(channel->memory->bytes[!channel->side] + (index & RING_MASK)); /* 16-byte aligned */
	return (struct channel_header){
		.type = __atomic_load_n(&place->type, __ATOMIC_RELAXED),
		.n_bytes = __atomic_load_n(&place->n_bytes, __ATOMIC_RELAXED),
		.call = __atomic_load_n(&place->call, __ATOMIC_RELAXED),
	};
}

/* 1: a header of a record that lies whole within `available` bytes and the ring; 0: nothing there; -EPROTO. */
static int peek(struct channel *channel, uint32_t available, struct channel_header *out)
{
	if (available == 0)
		return 0;
	struct channel_header header = load_header(channel, channel->consumed);
	uint32_t to_end = bytes_to_end(channel->consumed);
	if (header.type == CHANNEL_PAD) {
		if (header.n_bytes != to_end - sizeof header || available < to_end)
			return die(channel);
	} else if (header.n_bytes > CHANNEL_RECORD_MAX || record_bytes(header.n_bytes) > available ||
		   record_bytes(header.n_bytes) > to_end)
		return die(channel);
	*out = header;
	return 1;
}

int channel_read(struct channel *channel, struct channel_record *out)
{
	if (channel->dead)
		return channel->dead;
	/* acquire: then the records' bytes; partner: the release in channel_write */
	uint32_t produced = atomic_load_explicit(&ring_in(channel)->produced, memory_order_acquire);
	uint32_t available = produced - channel->consumed;
	if (available > CHANNEL_RING_BYTES || available % sizeof(struct channel_header) != 0)
		return die(channel);
	struct channel_header header;
	int rc = peek(channel, available, &header);
	if (rc == 1 && header.type == CHANNEL_PAD) {
		uint32_t pad = bytes_to_end(channel->consumed);
		channel->consumed += pad; /* its room is given back with the record's */
		rc = peek(channel, available - pad, &header);
		if (rc == 0 || (rc == 1 && header.type == CHANNEL_PAD)) /* they come together, and alone */
			return die(channel);
	}
	if (rc != 1)
		return rc;
	channel->peeked = record_bytes(header.n_bytes);
	*out = (struct channel_record){
		.type = header.type,
		.n_bytes = header.n_bytes,
		.call = header.call,
		.payload = channel->memory->bytes[!channel->side] + (channel->consumed & RING_MASK) + sizeof header,
	};
	return 1;
}

void channel_next(struct channel *channel)
{
	if (channel->peeked == 0)
		return;
	channel->consumed += channel->peeked;
	channel->peeked = 0;
	struct channel_ring *ring = ring_in(channel);
	/* seq_cst (and thereby release: our loads from the record first), then the flag; partner: claim */
	atomic_store_explicit(&ring->consumed, channel->consumed, memory_order_seq_cst);
	if (atomic_load_explicit(&ring->starved, memory_order_seq_cst)) {
		/* Down before the ring: the producer this wakes may raise it again. */
		atomic_store_explicit(&ring->starved, 0, memory_order_seq_cst);
		ring_doorbell(channel);
	}
}

void channel_quiet(struct channel *channel)
{
	uint64_t rings;
	if (read(channel->doorbell_in, &rings, sizeof rings) < 0)
		return; /* -EAGAIN: it was quiet */
}
