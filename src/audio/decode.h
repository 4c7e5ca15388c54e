/* An audio file in memory, decoded to one channel at 16 kHz (AUDIO_RATE): WAV, FLAC, Ogg (Vorbis, Opus) and MP3, of any
 * number of channels and any rate from 1 to 768 kHz. Containers and codecs are libsndfile's, the change of rate is
 * libsoxr's (its high quality), both block by block, so memory does not grow with the file. */
#ifndef WEIGHTD_AUDIO_DECODE_H
#define WEIGHTD_AUDIO_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

struct decode_info {
	double duration_s;    /* n_samples / AUDIO_RATE */
	uint64_t n_samples;   /* at AUDIO_RATE */
	uint32_t sample_rate; /* of the file */
	uint32_t channels;    /* of the file */
	char format[20];      /* "WAV", "FLAC", "Ogg Vorbis", "Ogg Opus", "MP3" */
};

/* Who takes what is decoded. */
struct decode_sink {
	/* [n] the next samples, finite, in -1..1; view. 0, or -errno, which ends the decoding. */
	int (*samples)(void *owner, const float *samples, size_t n);
	/* A sign of life, also while a header is being read; as above. */
	int (*alive)(void *owner);
	void *owner;
};

/* Decodes all of it. Channels are averaged; samples past full scale are cut. 0, or
 *   -ENOTSUP   a file, but of a format or codec that is not known here
 *   -EBADMSG   no audio file, or a damaged one
 *   -EPIPE     cut off: it ends before its header says; the text says where
 *   -ENODATA   not one sample
 *   -EFBIG     longer than max_seconds, by its header or once so much is decoded
 *   -ENOMEM, or what the sink has returned. */
int decode_audio(const void *bytes, size_t n_bytes, uint32_t max_seconds, const struct decode_sink *sink,
		 struct decode_info *out, struct err *err);

#endif
