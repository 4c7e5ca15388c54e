/* Reading a file of gigabytes once, at the speed of the disk, without leaving it in the page cache.
 *
 *   one mapping:   | lead, 16 MiB        | slot 0 | slot 1 | ...              | slot 11 |
 *                          ............###|########|====                  ....|.........|
 *                          copy of a tail  \__ one view across the seam
 *
 * The file is cut into chunks of 2 MiB, from where reading begins; chunk i goes to slot i mod 12. Every free slot has
 * its chunk asked for, so up to twelve reads are in flight while the caller works on what has come. A view that lies in
 * consecutive slots is handed out in place. Only one that crosses from the last slot to the first needs a copy: its
 * beginning is copied to just before slot 0, into the lead, which is as long as the longest view. That is one copy of
 * less than a view in 24 MiB of file, and it needs neither a second mapping of the same pages nor a buffer of the
 * caller's.
 *
 * A slot is free again when the caller comes for something behind its chunk: until then a view may point into it.
 *
 * O_DIRECT needs aligned buffers, offsets and lengths: chunks and slots are, and the last length is rounded up. A file
 * system that takes the flag and then refuses the reads (EINVAL) is read plainly instead. Then, as the data isn't
 * wanted twice, pages are dropped from the cache behind the caller.
 *
 * Rejected: mmap of the file (its pages are the page cache, and errors are signals), a thread (a queue does the same).
 */
#include "io/reader.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	CHUNK_BYTES = 2 << 20,
	N_SLOTS = 12,
	VIEW_MAX_BYTES = 16 << 20,
	LEAD_BYTES = VIEW_MAX_BYTES,
	BLOCK_BYTES = READER_BLOCK_BYTES,
};
static_assert((N_SLOTS - 1) * CHUNK_BYTES >= VIEW_MAX_BYTES + CHUNK_BYTES,
	      "the longest view, wherever it begins, fits");

enum slot_state { SLOT_FREE = 0, SLOT_IN_FLIGHT, SLOT_READY, SLOT_FAILED };

struct slot {
	enum slot_state state;
	uint64_t chunk;
	size_t got_bytes; /* so far */
	bool direct;	  /* the read in flight was asked for with O_DIRECT on */
	int error;	  /* SLOT_FAILED: -errno, or 0 for a file that ended */
};

struct reader {
	int fd;
	int flags;   /* of the description before O_DIRECT was added */
	bool direct; /* O_DIRECT is on */
	bool has_ring;
	struct io_uring ring;
	unsigned char *lead; /* [LEAD_BYTES][N_SLOTS * CHUNK_BYTES], owned */
	struct slot slots[N_SLOTS];
	uint64_t start; /* in the file; everything below counts from there */
	uint64_t size_bytes;
	uint64_t offset; /* of the next byte the caller gets */
	uint64_t n_chunks;
	uint64_t next_chunk; /* the first that wasn't asked for */
	uint64_t dropped;    /* chunks before this one were dropped from the page cache */
	uint64_t asked_bytes;
	unsigned in_flight;
};

static unsigned char *slot_bytes(const struct reader *reader, uint64_t chunk)
{
	return reader->lead + LEAD_BYTES + chunk % N_SLOTS * CHUNK_BYTES;
}

static struct slot *slot_of(struct reader *reader, uint64_t chunk)
{
	return &reader->slots[chunk % N_SLOTS];
}

/* Bytes of the file in a chunk. */
static size_t chunk_bytes(const struct reader *reader, uint64_t chunk)
{
	uint64_t left = reader->size_bytes - chunk * CHUNK_BYTES;
	return left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
}

/* Where the rest of a slot is in the file. */
static uint64_t file_offset(const struct reader *reader, const struct slot *slot)
{
	return reader->start + slot->chunk * CHUNK_BYTES + slot->got_bytes;
}

/* --- asking ----------------------------------------------------------------------------------- */

/* Books that the rest of a slot is asked for, and says how much that is: O_DIRECT takes whole blocks only. */
static size_t begin_read(struct reader *reader, struct slot *slot)
{
	size_t rest = chunk_bytes(reader, slot->chunk) - slot->got_bytes;
	slot->state = SLOT_IN_FLIGHT;
	slot->direct = reader->direct;
	reader->asked_bytes += rest;
	return slot->direct ? (rest + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES : rest;
}

/* Puts a read of the rest of a slot into the submission queue, which has an entry for every slot. */
static void prepare(struct reader *reader, struct slot *slot)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&reader->ring);
	assert(sqe);
	io_uring_prep_read(sqe, reader->fd, slot_bytes(reader, slot->chunk) + slot->got_bytes,
			   (unsigned)begin_read(reader, slot), file_offset(reader, slot));
	io_uring_sqe_set_data(sqe, slot);
	reader->in_flight++;
}

/* Back to plain reads; true if that is what the description is in now. */
static bool turn_off_direct(struct reader *reader)
{
	if (reader->direct && fcntl(reader->fd, F_SETFL, reader->flags) == 0)
		reader->direct = false;
	return !reader->direct;
}

/* Books the end of one read. True: the rest of the slot has to be asked for. */
static bool settle(struct reader *reader, struct slot *slot, ssize_t result)
{
	size_t wanted = chunk_bytes(reader, slot->chunk) - slot->got_bytes;
	size_t got = result < 0 ? 0 : (size_t)result < wanted ? (size_t)result : wanted;
	slot->got_bytes += got;
	reader->asked_bytes -= wanted - got; /* they were not read, and if they still are, they are asked for again */
	if (got == wanted) {
		slot->state = SLOT_READY;
		return false;
	}
	/* A plain read may be short for no reason. One with O_DIRECT that stops inside a block stopped at the file's
	 * end. */
	bool again = result > 0 && (!slot->direct || slot->got_bytes % BLOCK_BYTES == 0);
	again = again || result == -EINTR || result == -EAGAIN;
	again = again || (result == -EINVAL && slot->direct && turn_off_direct(reader));
	if (!again) {
		slot->error = result < 0 ? (int)result : 0;
		slot->state = SLOT_FAILED;
	}
	return again;
}

/* Waits for one completion and books it. */
static int collect(struct reader *reader)
{
	struct io_uring_cqe *cqe;
	int rc;
	do
		rc = io_uring_submit_and_wait(&reader->ring, 1);
	while (rc == -EINTR || rc == -EAGAIN || rc == -EBUSY);
	if (rc < 0)
		return rc;
	while (io_uring_peek_cqe(&reader->ring, &cqe) == 0) {
		struct slot *slot = io_uring_cqe_get_data(cqe);
		int result = cqe->res;
		io_uring_cqe_seen(&reader->ring, cqe);
		reader->in_flight--;
		if (settle(reader, slot, result))
			prepare(reader, slot);
	}
	return 0;
}

/* Advice only: where it isn't taken, nothing but memory of the cache is lost. */
static void drop_cache(const struct reader *reader, uint64_t offset, uint64_t n_bytes)
{
	(void)posix_fadvise(reader->fd, (off_t)(reader->start + offset), (off_t)n_bytes, POSIX_FADV_DONTNEED);
}

/* Frees the slots behind the caller. A chunk that was skipped while it was in flight waits for its completion. */
static void release(struct reader *reader)
{
	uint64_t first = reader->offset / CHUNK_BYTES;
	for (unsigned i = 0; i < N_SLOTS; i++) {
		struct slot *slot = &reader->slots[i];
		if (slot->chunk < first && (slot->state == SLOT_READY || slot->state == SLOT_FAILED))
			*slot = (struct slot){0};
	}
	if (reader->next_chunk < first)
		reader->next_chunk = first;
	if (!reader->direct && first > reader->dropped) {
		drop_cache(reader, reader->dropped * CHUNK_BYTES, (first - reader->dropped) * CHUNK_BYTES);
		reader->dropped = first;
	}
}

/* Asks for the next chunks as long as their slots are free. */
static int ask_ahead(struct reader *reader)
{
	while (reader->next_chunk < reader->n_chunks && slot_of(reader, reader->next_chunk)->state == SLOT_FREE) {
		struct slot *slot = slot_of(reader, reader->next_chunk);
		*slot = (struct slot){.chunk = reader->next_chunk++};
		prepare(reader, slot);
	}
	int rc = io_uring_submit(&reader->ring);
	return rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY ? rc
								       : 0; /* those: submitted with the next wait */
}

/* The twin without io_uring: the chunk is read when it is needed. */
static void read_now(struct reader *reader, uint64_t chunk)
{
	struct slot *slot = slot_of(reader, chunk);
	*slot = (struct slot){.chunk = chunk};
	reader->next_chunk = chunk + 1;
	ssize_t n;
	do {
		size_t n_bytes = begin_read(reader, slot);
		n = pread(reader->fd, slot_bytes(reader, chunk) + slot->got_bytes, n_bytes,
			  (off_t)file_offset(reader, slot));
	} while (settle(reader, slot, n < 0 ? -errno : n));
}

static int fail(const struct reader *reader, const struct slot *slot, struct err *err)
{
	uint64_t at = file_offset(reader, slot);
	if (slot->error)
		return err_set(err, -EIO, "offset %" PRIu64 ": reading: %s", at, strerror(-slot->error));
	return err_set(err, -EIO, "offset %" PRIu64 ": the file ends here, it had %" PRIu64 " bytes when it was opened",
		       at, reader_size(reader));
}

/* Makes sure that a chunk is there. */
static int await(struct reader *reader, uint64_t chunk, struct err *err)
{
	struct slot *slot = slot_of(reader, chunk);
	while (slot->chunk != chunk || slot->state == SLOT_FREE || slot->state == SLOT_IN_FLIGHT) {
		int rc = 0;
		if (!reader->has_ring) {
			read_now(reader, chunk);
			continue;
		}
		release(reader);
		rc = ask_ahead(reader);
		if (rc == 0 && (slot->chunk != chunk || slot->state == SLOT_IN_FLIGHT))
			rc = collect(reader);
		if (rc)
			return err_set(err, rc, "io_uring: %s", strerror(-rc));
	}
	return slot->state == SLOT_READY ? 0 : fail(reader, slot, err);
}

/* --- the interface ---------------------------------------------------------------------------- */

uint64_t reader_offset(const struct reader *reader)
{
	return reader->start + reader->offset;
}

uint64_t reader_size(const struct reader *reader)
{
	return reader->start + reader->size_bytes;
}

uint64_t reader_bytes_read(const struct reader *reader)
{
	return reader->asked_bytes;
}

static int check_room(const struct reader *reader, uint64_t n_bytes, struct err *err)
{
	if (n_bytes <= reader->size_bytes - reader->offset)
		return 0;
	return err_set(err, -EINVAL, "offset %" PRIu64 ": %" PRIu64 " bytes wanted, the file has %" PRIu64,
		       reader_offset(reader), n_bytes, reader_size(reader));
}

int reader_take(struct reader *reader, size_t n_bytes, const void **out, struct err *err)
{
	int rc = check_room(reader, n_bytes, err);
	if (rc)
		return rc;
	if (n_bytes > VIEW_MAX_BYTES)
		return err_set(err, -EINVAL, "offset %" PRIu64 ": %zu bytes wanted at once, at most %d are possible",
			       reader_offset(reader), n_bytes, VIEW_MAX_BYTES);
	release(reader);
	if (reader->has_ring && (rc = ask_ahead(reader)))
		return err_set(err, rc, "io_uring: %s", strerror(-rc));
	uint64_t first = reader->offset / CHUNK_BYTES;
	size_t inside = reader->offset % CHUNK_BYTES;
	for (uint64_t chunk = first; n_bytes && chunk * CHUNK_BYTES < reader->offset + n_bytes; chunk++) {
		rc = await(reader, chunk, err);
		if (rc)
			return rc;
	}
	unsigned char *view = slot_bytes(reader, first) + inside;
	size_t to_seam = (size_t)(slot_bytes(reader, N_SLOTS - 1) + CHUNK_BYTES - view);
	if (n_bytes > to_seam) {
		unsigned char *copy = slot_bytes(reader, 0) - to_seam;
		memcpy(copy, view, to_seam);
		view = copy;
	}
	reader->offset += n_bytes;
	*out = view;
	return 0;
}

int reader_skip(struct reader *reader, uint64_t n_bytes, struct err *err)
{
	int rc = check_room(reader, n_bytes, err);
	if (rc == 0)
		reader->offset += n_bytes;
	return rc;
}

/* A pipe or a terminal could keep a read waiting for ever. */
static int check_descriptor(struct reader *reader, struct err *err)
{
	struct stat st;
	reader->flags = fcntl(reader->fd, F_GETFL);
	if (reader->flags < 0 || fstat(reader->fd, &st) != 0)
		return err_set(err, -errno, "the file's descriptor: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "not a regular file");
	return 0;
}

static int open_ring(struct reader *reader, enum io_backend backend, struct err *err)
{
	if (backend == IO_EPOLL)
		return 0;
	int rc = io_uring_queue_init(N_SLOTS, &reader->ring, 0);
	reader->has_ring = rc == 0;
	if (rc && backend == IO_URING)
		return err_set(err, rc, "io_uring: setup failed: %s (io = auto would read without it)", strerror(-rc));
	return 0;
}

int reader_open(int fd, uint64_t offset, uint64_t size_bytes, enum io_backend backend, struct reader **out,
		struct err *err)
{
	if (size_bytes > INT64_MAX - CHUNK_BYTES)
		return err_set(err, -EINVAL, "a file of %" PRIu64 " bytes", size_bytes);
	if (offset > size_bytes || offset % BLOCK_BYTES)
		return err_set(err, -EINVAL, "offset %" PRIu64 ": reading of %" PRIu64 " bytes can't begin here",
			       offset, size_bytes);
	struct reader *reader = calloc(1, sizeof *reader);
	if (!reader)
		return err_set(err, -ENOMEM, "no memory for a reader");
	reader->fd = fd;
	reader->start = offset;
	reader->size_bytes = size_bytes - offset;
	reader->n_chunks = reader->size_bytes / CHUNK_BYTES + (reader->size_bytes % CHUNK_BYTES != 0);
	int rc = check_descriptor(reader, err);
	if (rc == 0)
		rc = open_ring(reader, backend, err);
	if (rc)
		goto fail;
	void *window = mmap(NULL, LEAD_BYTES + N_SLOTS * CHUNK_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (window == MAP_FAILED) {
		rc = err_set(err, -errno, "%d bytes for reading: %s", LEAD_BYTES + N_SLOTS * CHUNK_BYTES,
			     strerror(errno));
		goto fail;
	}
	reader->lead = window;
	reader->direct = fcntl(fd, F_SETFL, reader->flags | O_DIRECT) == 0;
	if (!reader->direct)
		posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	*out = reader;
	return 0;
fail:
	reader_close(reader);
	return rc;
}

void reader_close(struct reader *reader)
{
	if (!reader)
		return;
	/* The kernel writes into the slots until the last read is done. */
	while (reader->in_flight && collect(reader) == 0)
		;
	if (reader->has_ring)
		io_uring_queue_exit(&reader->ring);
	if (reader->lead)
		munmap(reader->lead, LEAD_BYTES + N_SLOTS * CHUNK_BYTES);
	if (!reader->direct)
		drop_cache(reader, 0, 0); /* 0: to the end */
	turn_off_direct(reader);
	free(reader);
}
