/* shm/channel: records through both rings, a full ring, two threads at once, and a peer that writes nonsense. */
#include "shm/channel.h"
#include "shm/channel_layout.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/err.h"
#include "tests/unit/suite.h"

struct pair {
	struct channel_fds fds;
	struct channel front, worker;
};

static void pair_init(struct pair *pair)
{
	struct err err = {""};
	ck_assert_msg(channel_create(&pair->fds, &err) == 0, "%s", err.text);
	ck_assert_msg(channel_attach(&pair->fds, CHANNEL_FRONT, &pair->front, &err) == 0, "%s", err.text);
	ck_assert_msg(channel_attach(&pair->fds, CHANNEL_WORKER, &pair->worker, &err) == 0, "%s", err.text);
}

static void pair_fini(struct pair *pair)
{
	channel_detach(&pair->front);
	channel_detach(&pair->worker);
	channel_close(&pair->fds);
	ck_assert_int_eq(pair->fds.memory, -1);
}

/* ck_assert tells the runner where it is, each time: too slow for the inner loops. */
static void expect(bool holds, const char *what)
{
	if (!holds)
		ck_abort_msg("%s", what);
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

static bool rings(int doorbell)
{
	struct pollfd entry = {.fd = doorbell, .events = POLLIN};
	return poll(&entry, 1, 0) == 1;
}

START_TEST(records_come_out_as_they_went_in)
{
	struct pair pair;
	pair_init(&pair);
	struct channel_record record;
	ck_assert_int_eq(channel_read(&pair.worker, &record), 0);
	ck_assert_int_eq(channel_write(&pair.front, 7, 99, "head", 4, "body!", 5), 0);
	ck_assert_int_eq(channel_write(&pair.front, 8, UINT64_MAX, NULL, 0, NULL, 0), 0);
	ck_assert_int_eq(channel_write(&pair.worker, 9, 1, "up", 2, NULL, 0), 0);
	for (int again = 0; again < 2; again++) { /* until channel_next it is the same record */
		ck_assert_int_eq(channel_read(&pair.worker, &record), 1);
		ck_assert_uint_eq(record.type, 7);
		ck_assert_uint_eq(record.call, 99);
		ck_assert_uint_eq(record.n_bytes, 9);
		ck_assert_mem_eq(record.payload, "headbody!", 9);
		ck_assert_uint_eq((uintptr_t)record.payload % 8, 0);
	}
	channel_next(&pair.worker);
	ck_assert_int_eq(channel_read(&pair.worker, &record), 1);
	ck_assert_uint_eq(record.type, 8);
	ck_assert_uint_eq(record.call, UINT64_MAX);
	ck_assert_uint_eq(record.n_bytes, 0);
	channel_next(&pair.worker);
	channel_next(&pair.worker); /* nothing is held: nothing happens */
	ck_assert_int_eq(channel_read(&pair.worker, &record), 0);
	ck_assert_int_eq(channel_read(&pair.front, &record), 1);
	ck_assert_uint_eq(record.type, 9);
	ck_assert_mem_eq(record.payload, "up", 2);
	channel_next(&pair.front);
	ck_assert_int_eq(channel_read(&pair.front, &record), 0);
	pair_fini(&pair);
}
END_TEST

START_TEST(sizes_and_types_out_of_range_are_refused)
{
	struct pair pair;
	pair_init(&pair);
	char *bytes = calloc(1, CHANNEL_RECORD_MAX + 1);
	ck_assert_int_eq(channel_write(&pair.front, 1, 1, bytes, CHANNEL_RECORD_MAX + 1, NULL, 0), -EMSGSIZE);
	ck_assert_int_eq(channel_write(&pair.front, 1, 1, bytes, CHANNEL_RECORD_MAX, bytes, 1), -EMSGSIZE);
	ck_assert_int_eq(channel_write(&pair.front, 1, 1, bytes, UINT32_MAX, bytes, 1), -EMSGSIZE);
	ck_assert_int_eq(channel_write(&pair.front, UINT32_MAX, 1, bytes, 1, NULL, 0), -EINVAL);
	ck_assert_int_eq(channel_write(&pair.front, 1, 1, bytes, CHANNEL_RECORD_MAX, NULL, 0), 0);
	struct channel_record record;
	ck_assert_int_eq(channel_read(&pair.worker, &record), 1);
	ck_assert_uint_eq(record.n_bytes, CHANNEL_RECORD_MAX);
	free(bytes);
	pair_fini(&pair);
}
END_TEST

START_TEST(a_full_ring_takes_again_what_was_read)
{
	struct pair pair;
	pair_init(&pair);
	static unsigned char bytes[CHANNEL_RECORD_MAX];
	uint32_t seed = (uint32_t)_i + 1;
	uint64_t written = 0, was_read = 0;
	for (int round = 0; round < 60; round++) {
		/* What channel_room promises fits; one byte more does not (when that is below a record's bound). */
		for (;;) {
			uint32_t n = next_random(&seed) % (_i ? CHANNEL_RECORD_MAX : 200);
			uint32_t room = channel_room(&pair.front);
			memset(bytes, (int)(written & 0xff), n);
			int rc = channel_write(&pair.front, 1, written, bytes, n / 2, bytes, n - n / 2);
			expect(rc == (n <= room ? 0 : -EAGAIN), "channel_room and channel_write disagree");
			if (rc != 0)
				break;
			written++;
		}
		ck_assert_uint_gt(written, was_read);
		uint64_t stop_at = was_read + 1 + next_random(&seed) % (written - was_read);
		while (was_read < stop_at) {
			struct channel_record record;
			expect(channel_read(&pair.worker, &record) == 1 && record.call == was_read,
			       "not the next record");
			memset(bytes, (int)(was_read & 0xff), record.n_bytes);
			expect(memcmp(record.payload, bytes, record.n_bytes) == 0, "a record was changed");
			channel_next(&pair.worker);
			was_read++;
		}
	}
	ck_assert_uint_gt(pair.front.produced, 2 * CHANNEL_RING_BYTES); /* around more than once */
	pair_fini(&pair);
}
END_TEST

START_TEST(indices_wrap_at_32_bits)
{
	struct pair pair;
	pair_init(&pair);
	struct channel_record record;
	static const char bytes[CHANNEL_RECORD_MAX] = "x";
	uint32_t before = 0;
	bool wrapped = false;
	for (uint64_t i = 0; i < 66000; i++) {
		expect(channel_write(&pair.front, 1, i, bytes, sizeof bytes, NULL, 0) == 0, "no room in an empty ring");
		expect(channel_read(&pair.worker, &record) == 1 && record.call == i, "not the record just written");
		channel_next(&pair.worker);
		wrapped |= pair.front.produced < before;
		before = pair.front.produced;
	}
	ck_assert(wrapped);
	pair_fini(&pair);
}
END_TEST

START_TEST(doorbells_ring_once_for_a_batch_and_for_room)
{
	struct pair pair;
	pair_init(&pair);
	struct channel_record record;
	ck_assert_int_eq(channel_write(&pair.front, 1, 1, "a", 1, NULL, 0), 0);
	ck_assert(!rings(pair.fds.to_worker));
	channel_ring(&pair.front);
	ck_assert(rings(pair.fds.to_worker));
	channel_quiet(&pair.worker);
	ck_assert(!rings(pair.fds.to_worker));
	channel_ring(&pair.front); /* nothing new */
	ck_assert(!rings(pair.fds.to_worker));
	channel_quiet(&pair.worker); /* quiet already: does not wait */

	static const char bytes[CHANNEL_RECORD_MAX] = "x";
	while (channel_write(&pair.front, 1, 1, bytes, sizeof bytes, NULL, 0) == 0)
		;
	ck_assert(!rings(pair.fds.to_front));
	ck_assert_int_eq(channel_read(&pair.worker, &record), 1);
	channel_next(&pair.worker);
	ck_assert(rings(pair.fds.to_front)); /* the writer that was turned away is told */
	channel_quiet(&pair.front);
	ck_assert_int_eq(channel_read(&pair.worker, &record), 1);
	channel_next(&pair.worker);
	ck_assert(!rings(pair.fds.to_front)); /* once */
	pair_fini(&pair);
}
END_TEST

START_TEST(a_side_attached_again_goes_on_where_it_stood)
{
	struct pair pair;
	pair_init(&pair);
	struct channel_record record;
	ck_assert_int_eq(channel_write(&pair.front, 1, 1, "a", 1, NULL, 0), 0);
	ck_assert_int_eq(channel_write(&pair.worker, 2, 2, "b", 1, NULL, 0), 0);
	channel_detach(&pair.front);
	ck_assert_int_eq(channel_attach(&pair.fds, CHANNEL_FRONT, &pair.front, NULL), 0);
	ck_assert_int_eq(channel_write(&pair.front, 3, 3, "c", 1, NULL, 0), 0);
	for (uint32_t type = 1; type <= 3; type += 2) {
		ck_assert_int_eq(channel_read(&pair.worker, &record), 1);
		ck_assert_uint_eq(record.type, type);
		channel_next(&pair.worker);
	}
	ck_assert_int_eq(channel_read(&pair.front, &record), 1);
	ck_assert_uint_eq(record.type, 2);
	pair_fini(&pair);
}
END_TEST

START_TEST(the_counters_are_shared)
{
	struct pair pair;
	pair_init(&pair);
	__atomic_store_n(&channel_counters(&pair.worker)->generated_tokens, 1234, __ATOMIC_RELAXED);
	ck_assert_uint_eq(__atomic_load_n(&channel_counters(&pair.front)->generated_tokens, __ATOMIC_RELAXED), 1234);
	pair_fini(&pair);
}
END_TEST

/* --- two threads ------------------------------------------------------------------------------ */

enum { STRESS_RECORDS = 20000 };

static uint32_t size_of_record(uint32_t *seed) /* mostly small, some as large as can be */
{
	uint32_t kind = next_random(seed) % 50;
	return next_random(seed) % (kind == 0 ? CHANNEL_RECORD_MAX + 1 : kind < 5 ? 8000 : 120);
}

static uint32_t checksum(const unsigned char *bytes, uint32_t n_bytes)
{
	uint32_t sum = n_bytes;
	for (uint32_t i = 0; i < n_bytes; i++)
		sum = (sum ^ bytes[i]) * 16777619;
	return sum;
}

/* Sleeps until the other side rings. Without a ring within 20 s one was lost. */
static void wait_for_ring(struct channel *channel)
{
	struct pollfd entry = {.fd = channel->doorbell_in, .events = POLLIN};
	channel_ring(channel);
	expect(poll(&entry, 1, 20000) == 1, "a ring was lost");
	channel_quiet(channel);
}

static void *echo_all(void *arg)
{
	struct channel *channel = arg;
	for (uint64_t n = 0; n < STRESS_RECORDS;) {
		struct channel_record record;
		int rc = channel_read(channel, &record);
		expect(rc >= 0, "the echoing side found nonsense");
		if (rc == 1 && channel_write(channel, record.type, record.call, record.payload, record.n_bytes / 2,
					     (const char *)record.payload + record.n_bytes / 2,
					     record.n_bytes - record.n_bytes / 2) == 0) {
			channel_next(channel);
			n++;
		} else { /* nothing to read, or no room for the echo: then the record is read again */
			wait_for_ring(channel);
		}
	}
	channel_ring(channel);
	return NULL;
}

START_TEST(two_threads_exchange_every_byte)
{
	struct pair pair;
	pair_init(&pair);
	channel_detach(&pair.worker);
	pair.worker.memory = pair.front.memory; /* one mapping, so that a thread sanitizer sees both sides meet */
	pthread_t thread;
	ck_assert_int_eq(pthread_create(&thread, NULL, echo_all, &pair.worker), 0);
	static unsigned char bytes[CHANNEL_RECORD_MAX];
	uint32_t write_seed = 1;
	uint64_t written = 0, was_read = 0;
	uint32_t n_bytes = size_of_record(&write_seed);
	uint32_t *sums = calloc(STRESS_RECORDS, sizeof *sums);
	while (was_read < STRESS_RECORDS) {
		bool moved = false;
		while (written < STRESS_RECORDS) {
			for (uint32_t i = 0; i < n_bytes; i++)
				bytes[i] = (unsigned char)(written + i * 7);
			if (channel_write(&pair.front, 5, written, bytes, n_bytes, NULL, 0) != 0)
				break;
			sums[written++] = checksum(bytes, n_bytes);
			n_bytes = size_of_record(&write_seed);
			moved = true;
		}
		struct channel_record record;
		while (channel_read(&pair.front, &record) == 1) {
			expect(record.call == was_read, "a record is out of order");
			expect(checksum(record.payload, record.n_bytes) == sums[was_read], "a record was changed");
			channel_next(&pair.front);
			was_read++;
			moved = true;
		}
		expect(pair.front.dead == 0, "the writing side found nonsense");
		if (!moved)
			wait_for_ring(&pair.front);
	}
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	free(sums);
	pair.worker.memory = NULL;
	pair_fini(&pair);
}
END_TEST

/* --- a hostile peer --------------------------------------------------------------------------- */

static struct channel_header *header_at(struct pair *pair, uint32_t index)
{
	return (struct channel_header *)(void *)(pair->front.memory->bytes[CHANNEL_FRONT] + index % CHANNEL_RING_BYTES);
}

static void produce(struct pair *pair, uint32_t index)
{
	atomic_store(&pair->front.memory->ring[CHANNEL_FRONT].produced, index);
}

/* The worker has to call the channel dead, and to stay with that. */
static void expect_death(struct pair *pair)
{
	struct channel_record record;
	ck_assert_int_eq(channel_read(&pair->worker, &record), -EPROTO);
	ck_assert_int_eq(pair->worker.dead, -EPROTO);
	produce(pair, 0);
	ck_assert_int_eq(channel_read(&pair->worker, &record), -EPROTO);
	ck_assert_int_eq(channel_write(&pair->worker, 1, 1, "a", 1, NULL, 0), -EPROTO);
	ck_assert_uint_eq(channel_room(&pair->worker), 0);
	channel_next(&pair->worker);
}

static const struct {
	uint32_t start;	   /* where both indices stand before */
	uint32_t produced; /* more bytes announced */
	struct channel_header header;
} lies[] = {
	{0, 1, {1, 0, 0}}, /* no multiple of 16 */
	{0, 24, {1, 0, 0}},
	{0, CHANNEL_RING_BYTES + 16, {1, 0, 0}}, /* more than the ring holds */
	{0, UINT32_MAX - 15, {1, 0, 0}},	 /* backwards */
	{0, 16, {1, 1, 0}},			 /* a record longer than announced */
	{0, 32, {1, 17, 0}},
	{0, CHANNEL_RING_BYTES, {1, CHANNEL_RECORD_MAX + 1, 0}}, /* too long */
	{0, CHANNEL_RING_BYTES, {1, UINT32_MAX, 0}},
	{0, CHANNEL_RING_BYTES, {1, UINT32_MAX - 15, 0}},
	{0, CHANNEL_RING_BYTES, {1, 0x7fffffff, 0}},
	{CHANNEL_RING_BYTES - 32, 64, {1, 32, 0}}, /* across the end of the ring */
	{CHANNEL_RING_BYTES - 16, 32, {1, 1, 0}},
	{0, 32, {CHANNEL_PAD, 16, 0}},					    /* a pad that stops early */
	{0, CHANNEL_RING_BYTES, {CHANNEL_PAD, CHANNEL_RING_BYTES - 16, 0}}, /* a pad that is the whole ring */
	{CHANNEL_RING_BYTES - 32, 64, {CHANNEL_PAD, 32, 0}},		    /* a pad past the end */
	{CHANNEL_RING_BYTES - 32, 16, {CHANNEL_PAD, 16, 0}},		    /* a pad longer than announced */
	{CHANNEL_RING_BYTES - 32, 32, {CHANNEL_PAD, 16, 0}},		    /* a pad with nothing behind it */
	{CHANNEL_RING_BYTES - 32, 64, {CHANNEL_PAD, UINT32_MAX, 0}},
};

START_TEST(a_lie_kills_the_channel)
{
	struct pair pair;
	pair_init(&pair);
	pair.worker.consumed = lies[_i].start;
	*header_at(&pair, lies[_i].start) = lies[_i].header;
	produce(&pair, lies[_i].start + lies[_i].produced);
	expect_death(&pair);
	pair_fini(&pair);
}
END_TEST

START_TEST(a_pad_after_a_pad_kills_the_channel)
{
	struct pair pair;
	pair_init(&pair);
	pair.worker.consumed = CHANNEL_RING_BYTES - 16;
	*header_at(&pair, CHANNEL_RING_BYTES - 16) = (struct channel_header){CHANNEL_PAD, 0, 0};
	*header_at(&pair, 0) = (struct channel_header){CHANNEL_PAD, CHANNEL_RING_BYTES - 16, 0};
	produce(&pair, CHANNEL_RING_BYTES - 16 + CHANNEL_RING_BYTES);
	expect_death(&pair);
	pair_fini(&pair);
}
END_TEST

static const uint32_t bad_consumed[] = {1, 8, 48, 64, 0u - CHANNEL_RING_BYTES, 1u << 31};

START_TEST(a_reader_that_claims_the_future_kills_the_channel)
{
	struct pair pair;
	pair_init(&pair);
	ck_assert_int_eq(channel_write(&pair.front, 1, 1, "a", 1, NULL, 0), 0); /* 32 bytes */
	atomic_store(&pair.front.memory->ring[CHANNEL_FRONT].consumed, bad_consumed[_i]);
	ck_assert_uint_eq(channel_room(&pair.front), 0);
	ck_assert_int_eq(channel_write(&pair.front, 1, 1, "a", 1, NULL, 0), -EPROTO);
	struct channel_record record;
	ck_assert_int_eq(channel_read(&pair.front, &record), -EPROTO);
	pair_fini(&pair);
}
END_TEST

START_TEST(random_words_never_lead_out_of_the_ring)
{
	/* The rings end where the mapping ends: a step past the end faults. */
	uint32_t seed = (uint32_t)_i;
	for (int round = 0; round < 200; round++) {
		struct pair pair;
		pair_init(&pair);
		const unsigned char *begin = pair.worker.memory->bytes[CHANNEL_FRONT];
		for (int i = 0; i < CHANNEL_RING_BYTES / 4; i += 1 + (int)(next_random(&seed) % 64)) {
			static const uint32_t likely[] = {0, 1, 16, CHANNEL_PAD, CHANNEL_RECORD_MAX, 4080, 48, 32};
			uint32_t pick = next_random(&seed);
			((uint32_t *)(void *)pair.front.memory->bytes[CHANNEL_FRONT])[i] =
				pick % 4 ? likely[pick / 4 % 8] : pick;
		}
		pair.worker.consumed = (next_random(&seed) % CHANNEL_RING_BYTES) & ~15u;
		produce(&pair, pair.worker.consumed + ((next_random(&seed) % CHANNEL_RING_BYTES) & ~15u));
		struct channel_record record;
		int reads = 0;
		while (channel_read(&pair.worker, &record) == 1) {
			const unsigned char *payload = record.payload;
			expect(payload >= begin && payload + record.n_bytes <= begin + CHANNEL_RING_BYTES, "outside");
			volatile unsigned char last = record.n_bytes ? payload[record.n_bytes - 1] : 0;
			(void)last;
			channel_next(&pair.worker);
			expect(++reads <= CHANNEL_RING_BYTES / 16, "more records than fit");
		}
		pair_fini(&pair);
	}
}
END_TEST

/* Writes over the shared memory until it is killed: not in steps with the other side, as a thread of a broken process
 * would. A process, not a thread: what it does is a data race by intention. */
static pid_t start_scribbler(struct channel_memory *memory, uint32_t seed)
{
	static const uint32_t likely[] = {0,	      1, 16, 32, 48, 64, 4080, CHANNEL_RECORD_MAX, CHANNEL_RING_BYTES,
					  CHANNEL_PAD};
	pid_t pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	for (volatile uint32_t *words = (volatile uint32_t *)memory;;) {
		uint32_t place = next_random(&seed), pick = next_random(&seed);
		uint32_t value = pick % 4 ? likely[pick / 4 % (sizeof likely / sizeof *likely)] : next_random(&seed);
		size_t first = offsetof(struct channel_memory, counters) / 4;
		/* Half of it hits the first page: indices, flags, counters. */
		size_t n = (place % 2 ? CHANNEL_PAGE : sizeof *memory) / 4 - first;
		words[first + next_random(&seed) % n] = value;
	}
}

START_TEST(a_scribbling_peer_never_leads_out_of_the_ring)
{
	static unsigned char copy[CHANNEL_RECORD_MAX], payload[300];
	uint32_t seed = 77 + (uint32_t)_i;
	unsigned deaths = 0;
	for (int round = 0; round < 30; round++) {
		struct pair pair;
		pair_init(&pair);
		pid_t scribbler = start_scribbler(pair.worker.memory, seed + (uint32_t)round);
		struct channel *channel = _i % 2 ? &pair.front : &pair.worker;
		const unsigned char *begin = channel->memory->bytes[!channel->side];
		int rc = 0;
		for (int i = 0; i < 20000 && rc != -EPROTO; i++) {
			struct channel_record record;
			rc = channel_write(channel, 1, (uint64_t)i, payload, next_random(&seed) % sizeof payload, NULL,
					   0);
			expect(rc == 0 || rc == -EAGAIN || rc == -EPROTO, "a write's result");
			expect(channel_room(channel) <= CHANNEL_RECORD_MAX, "more room than a record may take");
			channel_ring(channel);
			if (rc == -EPROTO || (rc = channel_read(channel, &record)) != 1)
				continue;
			expect(record.n_bytes <= CHANNEL_RECORD_MAX, "a record that is too long");
			const unsigned char *at = record.payload;
			expect(at >= begin && at + record.n_bytes <= begin + CHANNEL_RING_BYTES, "outside");
			memcpy(copy, at, record.n_bytes);
			channel_next(channel);
		}
		deaths += rc == -EPROTO;
		kill(scribbler, SIGKILL);
		waitpid(scribbler, NULL, 0);
		pair_fini(&pair);
	}
	ck_assert_uint_gt(deaths, 0); /* nonsense is noticed, if the scribbler got a processor to itself */
}
END_TEST

START_TEST(the_memory_cannot_be_cut_or_exchanged)
{
	struct pair pair;
	pair_init(&pair);
	ck_assert_int_eq(ftruncate(pair.fds.memory, 0), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_eq(ftruncate(pair.fds.memory, 1 << 24), -1);
	struct channel channel;
	struct err err = {""};
	/* As large, with the right words, but not sealed. */
	struct channel_fds unsealed = pair.fds;
	unsealed.memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(unsealed.memory, sizeof(struct channel_memory)), 0);
	ck_assert_int_eq(pwrite(unsealed.memory, pair.front.memory, 16, 0), 16);
	ck_assert_int_eq(channel_attach(&unsealed, CHANNEL_WORKER, &channel, &err), -EINVAL);
	ck_assert_int_eq(fcntl(unsealed.memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	ck_assert_int_eq(channel_attach(&unsealed, CHANNEL_WORKER, &channel, &err), 0);
	channel_detach(&channel);
	ck_assert_int_eq(pwrite(unsealed.memory, "other", 5, 0), 5); /* the magic is gone */
	ck_assert_int_eq(channel_attach(&unsealed, CHANNEL_WORKER, &channel, &err), -EINVAL);
	close(unsealed.memory);
	/* Sealed, but too small; and no memory at all. */
	unsealed.memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(unsealed.memory, 4096), 0);
	ck_assert_int_eq(fcntl(unsealed.memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	ck_assert_int_eq(channel_attach(&unsealed, CHANNEL_WORKER, &channel, &err), -EINVAL);
	close(unsealed.memory);
	unsealed.memory = pair.fds.to_front;
	ck_assert_int_eq(channel_attach(&unsealed, CHANNEL_WORKER, &channel, &err), -EINVAL);
	ck_assert_str_ne(err.text, "");
	pair_fini(&pair);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("channel");
	TCase *tcase = tcase_create("channel");
	tcase_add_test(tcase, records_come_out_as_they_went_in);
	tcase_add_test(tcase, sizes_and_types_out_of_range_are_refused);
	tcase_add_loop_test(tcase, a_full_ring_takes_again_what_was_read, 0, 2);
	tcase_add_test(tcase, indices_wrap_at_32_bits);
	tcase_add_test(tcase, doorbells_ring_once_for_a_batch_and_for_room);
	tcase_add_test(tcase, a_side_attached_again_goes_on_where_it_stood);
	tcase_add_test(tcase, the_counters_are_shared);
	tcase_add_test(tcase, two_threads_exchange_every_byte);
	tcase_add_loop_test(tcase, a_lie_kills_the_channel, 0, sizeof lies / sizeof lies[0]);
	tcase_add_test(tcase, a_pad_after_a_pad_kills_the_channel);
	tcase_add_loop_test(tcase, a_reader_that_claims_the_future_kills_the_channel, 0,
			    sizeof bad_consumed / sizeof bad_consumed[0]);
	tcase_add_loop_test(tcase, random_words_never_lead_out_of_the_ring, 0, 4);
	tcase_add_loop_test(tcase, a_scribbling_peer_never_leads_out_of_the_ring, 0, 4);
	tcase_add_test(tcase, the_memory_cannot_be_cut_or_exchanged);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
