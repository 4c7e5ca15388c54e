/* The role `audio`: files of clients, decoded and made into rows of log-mel.
 *
 * Decoders are large and have a history, so they get a process that has nothing: no weights, no client, no socket but
 *the pair with the parent, no file that it could open, no memory without bound. A file that kills it costs the call
 *that brought it. It has one call at a time, and gives everything back after each: the upload and the rows are mappings
 *whose pages are dropped, whatever they came to.
 *
 *	IDLE -- AUDIO_BEGIN --> TAKING -- AUDIO_END --> decode, rows out --> IDLE
 *	                           `---- too large, AUDIO_CANCEL ---------> IDLE */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/channel.h"
#include "src/audio/decode.h"
#include "src/audio/mel.h"
#include "src/audio/sandbox.h"
#include "src/audio/wire.h"
#include "src/clock.h"
#include "src/log.h"
#include "src/message.h"
#include "src/privilege.h"
#include "src/roles.h"

enum {
	PROGRESS_MS = 500,	    /* it shows that it lives this often, also while it waits */
	SPARE_BYTES = 256 << 20,    /* of addresses, for what libraries take while they decode */
	MMAP_THRESHOLD = 128 << 10, /* malloc: larger blocks go back to the kernel when they are freed */
	CPU_S = 60,		    /* of CPU time that any call may take, and ... */
	CPU_PER_S = 10,		    /* ... a second more for so many seconds of audio */
};

struct audio {
	struct message_audio order;
	struct channel channel;
	struct channel_fds fds;
	struct worker_counters *counters;
	struct mel *mel80, *mel128;
	uint8_t *upload; /* [order.max_bytes] owned mapping */
	float *rows;	 /* [max_rows][AUDIO_MEL_BINS_MAX] owned mapping */
	uint64_t max_rows;

	bool taking, cancelled;
	uint64_t call; /* while taking, or decoding */
	uint64_t n_bytes;
	struct mel *mel; /* of the call */
};

static void count(uint64_t *counter)
{
	__atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED); /* each stands alone (shm/channel.h) */
}

static void show_progress(struct audio *a)
{
	count(&a->counters->progress);
	__atomic_store_n(&a->counters->progress_ns, clock_now_ns(), __ATOMIC_RELAXED);
}

/* --- out ----------------------------------------------------------------------------------------------- */

/* What may come while a call is being answered: that nobody waits for it, and what was still on its way. */
static int hear_cancel(struct audio *a)
{
	struct channel_record record;
	int rc;
	while ((rc = channel_read(&a->channel, &record)) == 1) {
		if (record.type == AUDIO_BEGIN)
			return -EPROTO;
		a->cancelled |= record.type == AUDIO_CANCEL && record.call == a->call;
		channel_next(&a->channel);
	}
	return rc < 0 ? rc : a->cancelled ? -ECANCELED : 0;
}

/* Waits until somebody rings, or a moment. */
static void wait_a_moment(struct audio *a)
{
	struct pollfd bell = {.fd = a->channel.doorbell_in, .events = POLLIN};
	channel_ring(&a->channel);
	poll(&bell, 1, 5); /* a reader that makes room need not ring */
	channel_quiet(&a->channel);
	show_progress(a);
}

/* A record of the call, when there is room for it. */
static int put(struct audio *a, uint32_t type, const void *head, uint32_t head_bytes, const void *body,
	       uint32_t body_bytes)
{
	int rc;
	while ((rc = channel_write(&a->channel, type, a->call, head, head_bytes, body, body_bytes)) == -EAGAIN) {
		wait_a_moment(a);
		rc = type == AUDIO_FAILED ? 0 : hear_cancel(a);
		if (rc)
			return rc;
	}
	return rc;
}

/* The call is over; its memory goes. */
static void drop_call(struct audio *a)
{
	uint64_t rows_bytes = a->max_rows * AUDIO_MEL_BINS_MAX * sizeof *a->rows;
	madvise(a->upload, a->order.max_bytes, MADV_DONTNEED);
	madvise(a->rows, rows_bytes, MADV_DONTNEED);
	malloc_trim(0);
	a->taking = a->cancelled = false;
	__atomic_store_n(&a->counters->running, 0, __ATOMIC_RELAXED);
}

static int fail_call(struct audio *a, uint32_t status, const char *code, const char *text)
{
	struct audio_failed failed = {.status = status, .text_bytes = (uint32_t)strlen(text)};
	snprintf(failed.code, sizeof failed.code, "%s", code);
	int rc = put(a, AUDIO_FAILED, &failed, sizeof failed, text, failed.text_bytes);
	count(a->cancelled ? &a->counters->cancelled : &a->counters->failed);
	count(&a->counters->calls);
	drop_call(a);
	channel_ring(&a->channel);
	return rc;
}

/* What decode_audio has said, as HTTP has it. */
static int fail_decoding(struct audio *a, int rc, const struct err *err)
{
	static const struct {
		int code;
		uint32_t status;
		const char *word;
	} faults[] = {{-EBADMSG, 400, "invalid_audio"},	    {-EPIPE, 400, "truncated_audio"},
		      {-ENODATA, 400, "empty_audio"},	    {-EFBIG, 413, "audio_too_long"},
		      {-ENOTSUP, 415, "unsupported_audio"}, {-ECANCELED, 400, "cancelled"},
		      {-ENOMEM, 500, "out_of_memory"}};
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		if (faults[i].code == rc)
			return fail_call(a, faults[i].status, faults[i].word, err->text);
	return fail_call(a, 500, "", *err->text ? err->text : strerror(-rc));
}

static int send_rows(struct audio *a, const struct decode_info *info, uint64_t n_rows)
{
	uint32_t bins = mel_bins(a->mel), row_bytes = bins * (uint32_t)sizeof *a->rows;
	struct audio_info about = {.duration_s = info->duration_s,
				   .n_samples = info->n_samples,
				   .n_rows = n_rows,
				   .sample_rate = info->sample_rate,
				   .channels = info->channels,
				   .mel_bins = bins};
	snprintf(about.format, sizeof about.format, "%s", info->format);
	int rc = put(a, AUDIO_INFO, &about, sizeof about, NULL, 0);
	for (uint64_t row = 0; row < n_rows && !rc;) {
		uint64_t n = CHANNEL_RECORD_MAX / row_bytes;
		n = n_rows - row < n ? n_rows - row : n;
		rc = put(a, AUDIO_MEL, a->rows + row * bins, (uint32_t)n * row_bytes, NULL, 0);
		row += n;
	}
	return rc ? rc : put(a, AUDIO_DONE, NULL, 0, NULL, 0);
}

/* --- decoding ------------------------------------------------------------------------------------------- */

static int on_samples(void *owner, const float *samples, size_t n)
{
	struct audio *a = owner;
	show_progress(a);
	int rc = hear_cancel(a);
	return rc ? rc : mel_add(a->mel, samples, n);
}

static int on_alive(void *owner)
{
	show_progress(owner);
	return hear_cancel(owner);
}

/* 0, or an error of the process. */
static int decode(struct audio *a)
{
	struct err err = {""};
	struct decode_info info;
	uint64_t n_rows = 0;
	const struct decode_sink sink = {on_samples, on_alive, a};
	int rc = sandbox_limit_cpu(CPU_S + a->order.max_seconds / CPU_PER_S, &err);
	mel_begin(a->mel, a->rows, a->max_rows);
	if (!rc)
		rc = decode_audio(a->upload, a->n_bytes, a->order.max_seconds, &sink, &info, &err);
	if (!rc)
		rc = mel_end(a->mel, &n_rows);
	if (!rc)
		rc = send_rows(a, &info, n_rows);
	if (rc == -EPROTO)
		return rc;
	if (rc)
		return fail_decoding(a, rc, &err);
	count(&a->counters->calls);
	drop_call(a);
	channel_ring(&a->channel);
	return 0;
}

/* --- in ------------------------------------------------------------------------------------------------- */

static int begin_call(struct audio *a, const struct channel_record *record)
{
	struct audio_begin begin;
	if (a->taking || record->n_bytes != sizeof begin)
		return -EPROTO;
	memcpy(&begin, record->payload, sizeof begin);
	if (begin.mel_bins != 80 && begin.mel_bins != 128)
		return -EPROTO;
	a->taking = true;
	a->call = record->call;
	a->n_bytes = 0;
	a->mel = begin.mel_bins == 80 ? a->mel80 : a->mel128;
	__atomic_store_n(&a->counters->running, 1, __ATOMIC_RELAXED);
	return 0;
}

static int take_bytes(struct audio *a, const struct channel_record *record)
{
	uint32_t n = record->n_bytes;
	if (n > a->order.max_bytes - a->n_bytes) {
		char text[160];
		snprintf(text, sizeof text,
			 "the file is larger than %llu bytes, which is the most that is served "
			 "(max_audio_bytes)",
			 (unsigned long long)a->order.max_bytes);
		return fail_call(a, 413, "audio_too_large", text);
	}
	if (n)
		memcpy(a->upload + a->n_bytes, record->payload, n);
	a->n_bytes += n;
	return 0;
}

/* One record; it is let go of before the call is answered, which may read others. */
static int hear_record(struct audio *a, const struct channel_record *record)
{
	bool own = a->taking && record->call == a->call;
	uint32_t type = record->type;
	int rc = 0;
	if (type == AUDIO_BEGIN)
		rc = begin_call(a, record);
	else if (type == AUDIO_BYTES && own)
		rc = take_bytes(a, record);
	else if (type < AUDIO_BEGIN || type > AUDIO_CANCEL)
		rc = -EPROTO;
	channel_next(&a->channel);
	if (rc || !own)
		return rc;
	if (type == AUDIO_END)
		return decode(a);
	a->cancelled = type == AUDIO_CANCEL;
	return a->cancelled ? fail_call(a, 400, "cancelled", "cancelled") : 0;
}

static int hear_records(struct audio *a)
{
	struct channel_record record;
	int rc;
	while ((rc = channel_read(&a->channel, &record)) == 1) {
		rc = hear_record(a, &record);
		show_progress(a);
		if (rc)
			return rc;
	}
	return rc;
}

/* --- life ----------------------------------------------------------------------------------------------- */

/* Addresses alone: pages come as they are written. */
static int reserve(uint64_t bytes, void **out, struct err *err)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return err_set(err, -errno, "%llu bytes of addresses: %s", (unsigned long long)bytes, strerror(errno));
	*out = at;
	return 0;
}

static int receive_order(struct audio *a, struct err *err)
{
	static struct message message; /* large */
	int rc = message_receive(MESSAGE_FD, &message);
	if (rc != 1)
		return err_set(err, rc ? rc : -EPIPE, "no order from the parent");
	const struct message_audio *order = message_payload(&message, sizeof *order, 3);
	if (message.type != MESSAGE_AUDIO || !order || !order->max_bytes || !order->max_seconds)
		return err_set(err, -EPROTO, "the parent's first message (type %u) is no order to decode audio",
			       message.type);
	a->order = *order;
	a->fds = (struct channel_fds){message.fds[0], message.fds[1], message.fds[2]};
	return 0;
}

/* Everything that takes privileges, files, or code made at run time: all of it before a client's first byte. */
static int start(struct audio *a, struct err *err)
{
	void *upload = NULL, *rows = NULL;
	mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
	int rc = receive_order(a, err);
	if (!rc)
		rc = privilege_drop(a->order.uid, a->order.gid, err);
	if (!rc)
		rc = channel_attach(&a->fds, CHANNEL_WORKER, &a->channel, err);
	if (rc)
		return rc;
	a->counters = channel_counters(&a->channel);
	a->max_rows = mel_rows((uint64_t)a->order.max_seconds * AUDIO_RATE) + 1; /* resampling may add a sample */
	rc = mel_new(80, &a->mel80, err);
	if (!rc)
		rc = mel_new(128, &a->mel128, err);
	if (!rc)
		rc = reserve(a->order.max_bytes, &upload, err);
	if (!rc)
		rc = reserve(a->max_rows * AUDIO_MEL_BINS_MAX * sizeof *a->rows, &rows, err);
	if (rc)
		return rc;
	a->upload = upload;
	a->rows = rows;
	/* Decoders write there what they think of damaged files; the log is written past it. */
	FILE *nowhere = fopen("/dev/null", "w");
	stderr = nowhere ? nowhere : stderr;
	rc = sandbox_limit(SPARE_BYTES, err);
	if (!rc && a->order.seccomp)
		rc = sandbox_enter(MESSAGE_FD, err);
	return rc;
}

static int run(struct audio *a)
{
	struct pollfd fds[2] = {{.fd = MESSAGE_FD, .events = POLLIN}, {.fd = a->channel.doorbell_in, .events = POLLIN}};
	static struct message message; /* large */
	for (;;) {
		int rc = poll(fds, 2, PROGRESS_MS);
		show_progress(a);
		if (rc < 0 && errno != EINTR)
			return -errno;
		channel_quiet(&a->channel);
		if (rc > 0 && fds[0].revents) { /* the front is gone before anybody is told to end */
			rc = message_receive(MESSAGE_FD, &message);
			return rc == 1 && message.type == MESSAGE_DRAIN ? 0 : rc < 0 ? rc : -EPIPE;
		}
		rc = hear_records(a);
		channel_ring(&a->channel); /* there is room again */
		if (rc)
			return rc;
	}
}

int audio_main(void)
{
	static struct audio audio; /* zeroed; one per process */
	struct err err = {""};
	int rc = start(&audio, &err);
	if (!rc)
		rc = message_send(MESSAGE_FD, MESSAGE_READY, NULL, 0, NULL, 0);
	if (!rc) {
		rc = run(&audio);
		if (rc == -EPIPE)
			return 1; /* the parent is gone */
		if (rc)
			err_set(&err, rc, "%s", rc == -EPROTO ? "the front breaks the protocol" : strerror(-rc));
	}
	if (!rc)
		return 0;
	struct message_failed failed = {.err = err, .code = rc};
	log_error("%s", err.text);
	message_send(MESSAGE_FD, MESSAGE_FAILED, &failed, sizeof failed, NULL, 0);
	return 1;
}
