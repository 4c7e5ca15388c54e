#include "src/audio/mel.h"

#include <errno.h>
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

#include "src/audio/wire.h"

/* The transform of real samples needs half of the products when samples that are as far from the middle are added, for
 * the even part, or subtracted, for the odd one: cos(2 pi k f / 400) is the same for k and 400 - k, sin the opposite.
 * The window is symmetric, too, and is applied before. */
enum {
	HALF = MEL_FFT / 2,
	FREQUENCIES = HALF + 1,
	EVEN = HALF + 1,			      /* k = 0..200 */
	ODD = HALF - 1,				      /* k = 1..199 */
	SPAN = (MEL_BLOCK - 1) * AUDIO_HOP + MEL_FFT, /* samples of a block of rows */
	HEAD = HALF + 1,			      /* samples that the mirrored beginning is made of */
};

struct mel {
	uint32_t n_bins;
	float *filters;	       /* [n_bins][FREQUENCIES] */
	uint32_t *first, *end; /* [n_bins] frequencies of a filter that are not 0 */
	float *window;	       /* [MEL_FFT] */
	float *cosine;	       /* [EVEN][FREQUENCIES] */
	float *sine;	       /* [ODD][FREQUENCIES] */
	float *even, *odd;     /* [MEL_BLOCK][EVEN], [MEL_BLOCK][ODD] */
	float *re, *im;	       /* [MEL_BLOCK][FREQUENCIES] */

	/* of the file */
	float *rows; /* [max_rows][n_bins] */
	uint64_t max_rows, n_rows;
	uint64_t end_rows; /* the file has so many; UINT64_MAX: not known yet */
	uint64_t n_samples;
	float largest;	     /* value of all rows so far */
	float samples[SPAN]; /* [n_held] those that rows to come are made of; the first belongs to row n_rows */
	float last[HEAD];    /* the newest samples, a ring by number */
	uint32_t n_held;
};

/* --- tables ------------------------------------------------------------------------------------------ */

/* Slaney's mel scale (Auditory Toolbox, 1998): linear up to 1000 Hz, 15 mels; from there each 27 mels are a factor of
 * 6.4. */
static double mel_to_hz(double mel)
{
	return mel < 15 ? mel * 200 / 3 : 1000 * exp(log(6.4) / 27 * (mel - 15));
}

static double hz_to_mel(double hz)
{
	return hz < 1000 ? hz * 3 / 200 : 15 + 27 * log(hz / 1000) / log(6.4);
}

/* Triangles between neighbours of n_bins + 2 points that are evenly spaced in mel from 0 to half the rate, each of area
 * 1 over Hz. */
static void make_filters(struct mel *mel)
{
	double top = hz_to_mel(AUDIO_RATE / 2), step = top / (mel->n_bins + 1);
	for (uint32_t b = 0; b < mel->n_bins; b++) {
		double low = mel_to_hz(step * b), peak = mel_to_hz(step * (b + 1)), high = mel_to_hz(step * (b + 2));
		mel->first[b] = FREQUENCIES;
		for (uint32_t f = 0; f < FREQUENCIES; f++) {
			double hz = (double)f * AUDIO_RATE / MEL_FFT;
			double up = (hz - low) / (peak - low), down = (high - hz) / (high - peak);
			double value = (up < down ? up : down) * 2 / (high - low);
			mel->filters[b * FREQUENCIES + f] = value > 0 ? (float)value : 0;
			if (value <= 0)
				continue;
			mel->first[b] = f < mel->first[b] ? f : mel->first[b];
			mel->end[b] = f + 1;
		}
	}
}

static void make_tables(struct mel *mel)
{
	for (int k = 0; k < MEL_FFT; k++)
		mel->window[k] = (float)(0.5 - 0.5 * cos(2 * M_PI * k / MEL_FFT));
	for (int k = 0; k < EVEN; k++)
		for (int f = 0; f < FREQUENCIES; f++)
			mel->cosine[k * FREQUENCIES + f] = (float)cos(2 * M_PI * (k * f % MEL_FFT) / MEL_FFT);
	for (int k = 1; k <= ODD; k++)
		for (int f = 0; f < FREQUENCIES; f++)
			mel->sine[(k - 1) * FREQUENCIES + f] = (float)sin(2 * M_PI * (k * f % MEL_FFT) / MEL_FFT);
}

/* [MEL_BLOCK][k] times [k][FREQUENCIES]. Always of one shape: the library's code for it exists from mel_new on, and
 * what it sums in which order is fixed. */
static int multiply(const float *a, const float *b, int k, float *c)
{
	dnnl_status_t status =
		dnnl_sgemm('N', 'N', MEL_BLOCK, FREQUENCIES, k, 1, a, k, b, FREQUENCIES, 0, c, FREQUENCIES);
	return status == dnnl_success ? 0 : status == dnnl_out_of_memory ? -ENOMEM : -ENOTSUP;
}

static int transform(struct mel *mel)
{
	int rc = multiply(mel->even, mel->cosine, EVEN, mel->re);
	return rc ? rc : multiply(mel->odd, mel->sine, ODD, mel->im);
}

static int allocate(struct mel *mel)
{
	const struct {
		float **to;
		size_t n;
	} parts[] = {{&mel->filters, (size_t)mel->n_bins * FREQUENCIES},
		     {&mel->window, MEL_FFT},
		     {&mel->cosine, EVEN * FREQUENCIES},
		     {&mel->sine, ODD * FREQUENCIES},
		     {&mel->even, MEL_BLOCK * EVEN},
		     {&mel->odd, MEL_BLOCK * ODD},
		     {&mel->re, MEL_BLOCK * FREQUENCIES},
		     {&mel->im, MEL_BLOCK * FREQUENCIES}};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		*parts[i].to = aligned_alloc(64, (parts[i].n * sizeof(float) + 63) & ~(size_t)63);
		if (!*parts[i].to)
			return -ENOMEM;
		memset(*parts[i].to, 0, parts[i].n * sizeof(float));
	}
	mel->first = calloc(mel->n_bins, sizeof *mel->first);
	mel->end = calloc(mel->n_bins, sizeof *mel->end);
	return mel->first && mel->end ? 0 : -ENOMEM;
}

int mel_new(uint32_t n_bins, struct mel **out, struct err *err)
{
	if (n_bins != 80 && n_bins != 128)
		return err_set(err, -EINVAL, "%u mel bins: 80 or 128 are served", n_bins);
	struct mel *mel = calloc(1, sizeof *mel);
	if (!mel)
		return err_set(err, -ENOMEM, "no memory for mel filters");
	mel->n_bins = n_bins;
	int rc = allocate(mel);
	if (!rc) {
		make_filters(mel);
		make_tables(mel);
		rc = transform(mel);
	}
	if (rc) {
		mel_free(mel);
		return err_set(err, rc, rc == -ENOMEM ? "no memory for mel filters" : "oneDNN has no product for them");
	}
	*out = mel;
	return 0;
}

void mel_free(struct mel *mel)
{
	if (!mel)
		return;
	float *parts[] = {mel->filters, mel->window, mel->cosine, mel->sine, mel->even, mel->odd, mel->re, mel->im};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		free(parts[i]);
	free(mel->first);
	free(mel->end);
	free(mel);
}

uint32_t mel_bins(const struct mel *mel)
{
	return mel->n_bins;
}

const float *mel_filters(const struct mel *mel)
{
	return mel->filters;
}

/* --- rows --------------------------------------------------------------------------------------------- */

uint64_t mel_rows(uint64_t n_samples)
{
	return n_samples / AUDIO_HOP + 1;
}

void mel_begin(struct mel *mel, float *rows, uint64_t max_rows)
{
	mel->rows = rows;
	mel->max_rows = max_rows;
	mel->end_rows = UINT64_MAX;
	mel->n_rows = mel->n_samples = 0;
	mel->largest = -INFINITY;
	mel->n_held = 0;
}

/* Under the window, and folded in the middle. */
static void fold(const struct mel *mel, const float *x, float *even, float *odd)
{
	even[0] = x[0] * mel->window[0];
	even[HALF] = x[HALF] * mel->window[HALF];
	for (int k = 1; k < HALF; k++) {
		float a = x[k] * mel->window[k], b = x[MEL_FFT - k] * mel->window[MEL_FFT - k];
		even[k] = a + b;
		odd[k - 1] = a - b;
	}
}

/* [n_bins] log10 of what the filters gather of [FREQUENCIES] powers. */
static void gather(struct mel *mel, const float *re, const float *im, float *row)
{
	float power[FREQUENCIES];
	for (int f = 0; f < FREQUENCIES; f++)
		power[f] = re[f] * re[f] + im[f] * im[f];
	for (uint32_t b = 0; b < mel->n_bins; b++) {
		const float *filter = mel->filters + (size_t)b * FREQUENCIES;
		float sum = 0;
		for (uint32_t f = mel->first[b]; f < mel->end[b]; f++)
			sum += filter[f] * power[f];
		row[b] = log10f(sum > 1e-10f ? sum : 1e-10f);
		if (row[b] > mel->largest)
			mel->largest = row[b];
	}
}

/* The next n rows, of the samples held, or as many as the file has. */
static int make_rows(struct mel *mel, uint64_t n)
{
	n = n < mel->end_rows - mel->n_rows ? n : mel->end_rows - mel->n_rows;
	if (n > mel->max_rows - mel->n_rows)
		return -ENOSPC;
	for (uint32_t i = 0; i < MEL_BLOCK; i++) {
		float *even = mel->even + (size_t)i * EVEN, *odd = mel->odd + (size_t)i * ODD;
		if (i < n) {
			fold(mel, mel->samples + (size_t)i * AUDIO_HOP, even, odd);
		} else {
			memset(even, 0, EVEN * sizeof *even);
			memset(odd, 0, ODD * sizeof *odd);
		}
	}
	int rc = transform(mel);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < n; i++)
		gather(mel, mel->re + (size_t)i * FREQUENCIES, mel->im + (size_t)i * FREQUENCIES,
		       mel->rows + (mel->n_rows + i) * mel->n_bins);
	mel->n_rows += n;
	return 0;
}

/* Samples of the padded file; a block of rows as soon as there are enough for it. */
static int push(struct mel *mel, const float *samples, size_t n)
{
	while (n) {
		size_t part = SPAN - mel->n_held;
		part = n < part ? n : part;
		memcpy(mel->samples + mel->n_held, samples, part * sizeof *samples);
		mel->n_held += (uint32_t)part;
		samples += part;
		n -= part;
		if (mel->n_held < SPAN)
			break;
		int rc = make_rows(mel, MEL_BLOCK);
		if (rc)
			return rc;
		mel->n_held -= MEL_BLOCK * AUDIO_HOP;
		memmove(mel->samples, mel->samples + MEL_BLOCK * AUDIO_HOP, mel->n_held * sizeof *mel->samples);
	}
	return 0;
}

/* The newest HEAD samples stay in the ring; sample i is at i % HEAD. */
static void remember(struct mel *mel, const float *samples, size_t n)
{
	for (size_t i = n > HEAD ? n - HEAD : 0; i < n; i++)
		mel->last[(mel->n_samples + i) % HEAD] = samples[i];
	mel->n_samples += n;
}

/* The first samples are held back until the mirrored ones that go before them are there: sample 200, ..., sample 1. */
int mel_add(struct mel *mel, const float *samples, size_t n)
{
	if (mel->n_samples >= HEAD) {
		remember(mel, samples, n);
		return push(mel, samples, n);
	}
	size_t part = HEAD - mel->n_samples;
	part = n < part ? n : part;
	remember(mel, samples, part);
	if (mel->n_samples < HEAD)
		return 0;
	float mirrored[HALF];
	for (int i = 0; i < HALF; i++)
		mirrored[i] = mel->last[HALF - i];
	int rc = push(mel, mirrored, HALF);
	if (!rc)
		rc = push(mel, mel->last, HEAD);
	return rc || part == n ? rc : mel_add(mel, samples + part, n - part);
}

/* Mirroring a file that is shorter than what is mirrored goes back and forth. */
static int mirror(int64_t i, int64_t n)
{
	int64_t period = 2 * (n - 1);
	i = ((i % period) + period) % period;
	return (int)(i < n ? i : period - i);
}

/* One that was held back whole, with the zeros that follow it. */
static int push_short(struct mel *mel)
{
	float padded[HEAD + AUDIO_HOP] = {0}, sample;
	int n = (int)mel->n_samples, rc = 0;
	memcpy(padded, mel->last, (size_t)n * sizeof *padded);
	for (int i = -HALF; i < n + AUDIO_HOP + HALF && !rc; i++) {
		sample = padded[mirror(i, n + AUDIO_HOP)];
		rc = push(mel, &sample, 1);
	}
	return rc;
}

/* The zeros, and what is mirrored of the end. */
static int push_end(struct mel *mel)
{
	float zeros[AUDIO_HOP] = {0}, mirrored[HALF];
	remember(mel, zeros, AUDIO_HOP);
	for (uint32_t i = 0; i < HALF; i++)
		mirrored[i] = mel->last[(mel->n_samples - 2 - i) % HEAD];
	int rc = push(mel, zeros, AUDIO_HOP);
	return rc ? rc : push(mel, mirrored, HALF);
}

int mel_end(struct mel *mel, uint64_t *n_rows)
{
	uint64_t n = mel_rows(mel->n_samples);
	if (!mel->n_samples)
		return -ENODATA;
	mel->end_rows = n;
	int rc = mel->n_samples < HEAD ? push_short(mel) : push_end(mel);
	if (!rc && n > mel->n_rows)
		rc = make_rows(mel, MEL_BLOCK);
	if (rc)
		return rc;
	float least = mel->largest - 8;
	for (uint64_t i = 0; i < n * mel->n_bins; i++)
		mel->rows[i] = ((mel->rows[i] > least ? mel->rows[i] : least) + 4) / 4;
	*n_rows = n;
	return 0;
}
