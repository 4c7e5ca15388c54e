/* What the front and a process of the role `audio` say to each other over a channel: fixed structs, then bytes. Both
 * are this program, built together, but each checks every length and range it reads.
 *
 *   front -> audio   AUDIO_BEGIN (struct audio_begin), AUDIO_BYTES ..., AUDIO_END; at any time AUDIO_CANCEL
 *   audio -> front   AUDIO_INFO, AUDIO_MEL ..., AUDIO_DONE   or   AUDIO_FAILED
 *
 * A process has one call at a time: the next AUDIO_BEGIN follows AUDIO_DONE or AUDIO_FAILED of the one before. Both may
 * come before AUDIO_END (an upload that is too large is refused as soon as it is); records of a call that has ended are
 * passed over. A cancelled call ends with AUDIO_FAILED, too, if it has not ended already. */
#ifndef WEIGHTD_AUDIO_WIRE_H
#define WEIGHTD_AUDIO_WIRE_H

#include <assert.h>
#include <stdint.h>

enum audio_record {
	AUDIO_BEGIN = 1, /* audio_begin */
	AUDIO_BYTES,	 /* the next part of the file */
	AUDIO_END,	 /* no payload: all of it came */
	AUDIO_CANCEL,	 /* no payload */

	AUDIO_INFO = 64, /* audio_info: the file is decoded */
	AUDIO_MEL,	 /* whole rows of log-mel, float32 [n][mel_bins], in order */
	AUDIO_DONE,	 /* no payload: all rows came */
	AUDIO_FAILED,	 /* audio_failed */
};

enum {
	AUDIO_RATE = 16000,	 /* samples a second of what log-mel is made of */
	AUDIO_HOP = 160,	 /* samples from row to row: 100 rows a second */
	AUDIO_MEL_BINS_MAX = 128 /* a row has 80 or 128 */
};

struct audio_begin {
	uint32_t mel_bins; /* 80 or 128 */
	uint32_t pad;
};
static_assert(sizeof(struct audio_begin) == 8, "both sides of a channel share this");

struct audio_info {
	double duration_s;    /* n_samples / AUDIO_RATE */
	uint64_t n_samples;   /* at AUDIO_RATE, one channel */
	uint64_t n_rows;      /* of log-mel that follow: n_samples / AUDIO_HOP + 1, the last is of the padding alone */
	uint32_t sample_rate; /* of the file */
	uint32_t channels;    /* of the file */
	uint32_t mel_bins;
	char format[20]; /* "WAV", "FLAC", "Ogg Vorbis", "Ogg Opus", "MP3"; ended by NUL */
};
static_assert(sizeof(struct audio_info) == 56, "both sides of a channel share this");

/* Followed by text_bytes of a message for the client. */
struct audio_failed {
	uint32_t status; /* HTTP status: 400, 413, 415, 500 */
	uint32_t text_bytes;
	char code[32]; /* "invalid_audio" and the like, or ""; ended by NUL */
};
static_assert(sizeof(struct audio_failed) == 40, "both sides of a channel share this");

#endif
