#include "src/audio/decode.h"

#include <errno.h>
#include <math.h>
#include <sndfile.h>
#include <soxr.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "src/audio/container.h"
#include "src/audio/wire.h"

enum {
	BLOCK_VALUES = 1 << 16, /* samples of all channels that are decoded at a time */
	RATE_MIN = 1000,
	RATE_MAX = 768000,
	RESAMPLED = 1 << 14, /* samples that come out of the change of rate at a time */
	MP3_SLACK = 4 * 1152 /* frames that encoders pad with, and that players take off or not */
};

/* The file as libsndfile sees it. */
struct source {
	const uint8_t *bytes;
	sf_count_t n_bytes, at;
	const struct decode_sink *sink;
	int stopped; /* what the sink has said */
};

struct decoder {
	struct source source;
	enum container container;
	SNDFILE *file;
	SF_INFO info;
	soxr_t soxr;	    /* NULL: the rate is right */
	float *block;	    /* [BLOCK_VALUES] interleaved */
	float *mono;	    /* [BLOCK_VALUES] */
	float *resampled;   /* [RESAMPLED] */
	uint64_t n_frames;  /* decoded */
	uint64_t n_samples; /* given to the sink */
};

/* --- the file as libsndfile sees it ---------------------------------------------------------------- */

static sf_count_t length(void *user)
{
	return ((const struct source *)user)->n_bytes;
}

static sf_count_t seek(sf_count_t offset, int whence, void *user)
{
	struct source *source = user;
	sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? source->at : source->n_bytes;
	if ((offset < 0 && offset < -base) || (offset > 0 && offset > source->n_bytes - base))
		return -1;
	source->at = base + offset;
	return source->at;
}

/* A header can have a library read for long before it hands anything out. */
static sf_count_t get(void *to, sf_count_t n, void *user)
{
	struct source *source = user;
	if (!source->stopped && source->sink->alive)
		source->stopped = source->sink->alive(source->sink->owner);
	if (source->stopped || n <= 0)
		return 0;
	if (n > source->n_bytes - source->at)
		n = source->n_bytes - source->at;
	if (n)
		memcpy(to, source->bytes + source->at, (size_t)n);
	source->at += n;
	return n;
}

static sf_count_t put(const void *from, sf_count_t n, void *user)
{
	(void)from, (void)n, (void)user; /* it is read only */
	return 0;
}

static sf_count_t tell(void *user)
{
	return ((const struct source *)user)->at;
}

/* --- begin ------------------------------------------------------------------------------------------ */

static const char *format_name(const struct decoder *d)
{
	static const char *const name[] = {"WAV", "FLAC", "Ogg", "MP3"}; /* by enum container */
	int codec = d->info.format & SF_FORMAT_SUBMASK;
	if (d->container == CONTAINER_OGG && codec == SF_FORMAT_VORBIS)
		return "Ogg Vorbis";
	if (d->container == CONTAINER_OGG && codec == SF_FORMAT_OPUS)
		return "Ogg Opus";
	return name[d->container];
}

static int open_file(struct decoder *d, struct err *err)
{
	SF_VIRTUAL_IO io = {length, seek, get, put, tell};
	d->file = sf_open_virtual(&io, SFM_READ, &d->info, &d->source);
	if (d->source.stopped)
		return d->source.stopped;
	if (d->file)
		return 0;
	int code = sf_error(NULL);
	if (code == SF_ERR_UNSUPPORTED_ENCODING)
		return err_set(err, -ENOTSUP,
			       "the codec in this %s file is not known: send PCM, FLAC, Vorbis, Opus or MP3",
			       format_name(d));
	if (code == SF_ERR_UNRECOGNISED_FORMAT)
		return err_set(err, -EBADMSG, "this is no %s file that can be read, though it begins like one",
			       format_name(d));
	return err_set(err, -EBADMSG, "the header of this %s file is damaged: %.150s", format_name(d),
		       sf_strerror(NULL));
}

static int check_header(const struct decoder *d, uint32_t max_seconds, struct err *err)
{
	const SF_INFO *info = &d->info;
	if (info->samplerate < RATE_MIN || info->samplerate > RATE_MAX)
		return err_set(err, -EBADMSG, "a rate of %d samples a second is not served; %d to %d are",
			       info->samplerate, RATE_MIN, RATE_MAX);
	if (info->channels < 1 || info->channels > 1024)
		return err_set(err, -EBADMSG, "%d channels are not served; 1 to 1024 are", info->channels);
	if (info->frames > 0 && info->frames < SF_COUNT_MAX &&
	    (uint64_t)info->frames > (uint64_t)max_seconds * (uint64_t)info->samplerate)
		return err_set(err, -EFBIG, "the audio is %.1f seconds long; at most %u are served (max_audio_seconds)",
			       (double)info->frames / info->samplerate, max_seconds);
	return 0;
}

static int begin(struct decoder *d, struct err *err)
{
	d->block = malloc(BLOCK_VALUES * sizeof *d->block);
	d->mono = malloc(BLOCK_VALUES * sizeof *d->mono);
	d->resampled = malloc(RESAMPLED * sizeof *d->resampled);
	if (!d->block || !d->mono || !d->resampled)
		return err_set(err, -ENOMEM, "no memory to decode audio");
	if (d->info.samplerate == AUDIO_RATE)
		return 0;
	soxr_error_t fault = NULL;
	soxr_io_spec_t io = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
	soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
	soxr_runtime_spec_t runtime = soxr_runtime_spec(1); /* no threads */
	d->soxr = soxr_create(d->info.samplerate, AUDIO_RATE, 1, &fault, &io, &quality, &runtime);
	return d->soxr ? 0
		       : err_set(err, -ENOMEM, "audio of %d Hz can't be resampled: %.100s", d->info.samplerate,
				 fault ? fault : "no memory");
}

static void end(struct decoder *d)
{
	if (d->file)
		sf_close(d->file);
	if (d->soxr)
		soxr_delete(d->soxr);
	free(d->block);
	free(d->mono);
	free(d->resampled);
}

/* --- samples ---------------------------------------------------------------------------------------- */

static double seconds(const struct decoder *d)
{
	return (double)d->n_frames / d->info.samplerate;
}

/* [n][channels] -> [n]. A float file may hold anything. */
static int mix(struct decoder *d, size_t n, struct err *err)
{
	size_t channels = (size_t)d->info.channels;
	for (size_t i = 0; i < n; i++) {
		float sum = 0;
		for (size_t c = 0; c < channels; c++)
			sum += d->block[i * channels + c];
		sum /= (float)channels;
		if (!isfinite(sum))
			return err_set(err, -EBADMSG, "the sample at %.3f seconds is no finite number",
				       seconds(d) + (double)i / d->info.samplerate);
		d->mono[i] = sum < -1 ? -1 : sum > 1 ? 1 : sum;
	}
	return 0;
}

static int give(struct decoder *d, const float *samples, size_t n)
{
	d->n_samples += n;
	return n ? d->source.sink->samples(d->source.sink->owner, samples, n) : 0;
}

/* Through the change of rate. n == 0: the last of it. Filters ring: what comes out is cut to full scale again. */
static int resample(struct decoder *d, const float *samples, size_t n, struct err *err)
{
	size_t taken = 0, made = 1;
	while (taken < n || made) {
		size_t used = 0;
		soxr_error_t fault = soxr_process(d->soxr, n ? samples + taken : NULL, n - taken, &used, d->resampled,
						  RESAMPLED, &made);
		if (fault)
			return err_set(err, -ENOMEM, "resampling: %.100s", fault);
		taken += used;
		for (size_t i = 0; i < made; i++)
			d->resampled[i] = d->resampled[i] < -1 ? -1 : d->resampled[i] > 1 ? 1 : d->resampled[i];
		int rc = give(d, d->resampled, made);
		if (rc)
			return rc;
	}
	return 0;
}

static int decode_block(struct decoder *d, size_t n, uint32_t max_seconds, struct err *err)
{
	int rc = mix(d, n, err);
	if (rc)
		return rc;
	d->n_frames += n;
	if (d->n_frames > (uint64_t)max_seconds * (uint64_t)d->info.samplerate)
		return err_set(err, -EFBIG,
			       "the audio is longer than %u seconds, which is the most that is served "
			       "(max_audio_seconds)",
			       max_seconds);
	return d->soxr ? resample(d, d->mono, n, err) : give(d, d->mono, n);
}

/* Whether all came that the file's header promised. */
static int check_end(const struct decoder *d, struct err *err)
{
	const SF_INFO *info = &d->info;
	const char *name = format_name(d);
	bool knows = info->frames > 0 && info->frames < SF_COUNT_MAX;
	uint64_t missing = container_missing_bytes(d->container, d->source.bytes, (size_t)d->source.n_bytes);
	uint64_t slack = d->container == CONTAINER_MP3 ? MP3_SLACK : 0;
	if (knows && d->n_frames + slack < (uint64_t)info->frames)
		return err_set(err, -EPIPE, "the %s file is cut off or damaged: %.2f of %.2f seconds could be decoded",
			       name, seconds(d), (double)info->frames / info->samplerate);
	if (missing && d->container == CONTAINER_WAV)
		return err_set(err, -EPIPE,
			       "the %s file is cut off after %.2f seconds: %llu bytes of samples are missing", name,
			       seconds(d), (unsigned long long)missing);
	if (missing)
		return err_set(err, -EPIPE, "the %s file is cut off after %.2f seconds: its last page is not whole",
			       name, seconds(d));
	if (sf_error(d->file))
		return err_set(err, -EBADMSG, "the %s file is damaged after %.2f seconds: %.120s", name, seconds(d),
			       sf_strerror(d->file));
	if (!d->n_frames)
		return err_set(err, -ENODATA, "the %s file has no samples", name);
	return 0;
}

static int decode_all(struct decoder *d, uint32_t max_seconds, struct err *err)
{
	sf_count_t n, per_block = BLOCK_VALUES / d->info.channels;
	while ((n = sf_readf_float(d->file, d->block, per_block)) > 0) {
		if (d->source.stopped)
			return d->source.stopped;
		int rc = decode_block(d, (size_t)n, max_seconds, err);
		if (rc)
			return rc;
	}
	if (d->source.stopped)
		return d->source.stopped;
	int rc = check_end(d, err);
	if (rc || !d->soxr)
		return rc;
	rc = resample(d, NULL, 0, err);
	return rc || d->n_samples ? rc
				  : err_set(err, -ENODATA, "%.6f seconds are less than one sample at %d Hz", seconds(d),
					    AUDIO_RATE);
}

int decode_audio(const void *bytes, size_t n_bytes, uint32_t max_seconds, const struct decode_sink *sink,
		 struct decode_info *out, struct err *err)
{
	struct decoder d = {.source = {.bytes = bytes, .n_bytes = (sf_count_t)n_bytes, .sink = sink}};
	err_set(err, 0, "the decoding was stopped");
	int rc = container_find(bytes, n_bytes, &d.container, err);
	if (!rc)
		rc = open_file(&d, err);
	if (!rc)
		rc = check_header(&d, max_seconds, err);
	if (!rc)
		rc = begin(&d, err);
	if (!rc)
		rc = decode_all(&d, max_seconds, err);
	if (!rc) {
		*out = (struct decode_info){.duration_s = (double)d.n_samples / AUDIO_RATE,
					    .n_samples = d.n_samples,
					    .sample_rate = (uint32_t)d.info.samplerate,
					    .channels = (uint32_t)d.info.channels};
		snprintf(out->format, sizeof out->format, "%s", format_name(&d));
	}
	end(&d);
	return rc;
}
