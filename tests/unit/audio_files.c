#include "tests/unit/audio_files.h"

#include <math.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void give_up(const char *what)
{
	fprintf(stderr, "audio_files: %s: %s\n", what, sf_strerror(NULL));
	abort();
}

struct audio_file audio_file_tone(int format, int sample_rate, int channels, double seconds, double hz, double level)
{
	SF_INFO info = {.samplerate = sample_rate, .channels = channels, .format = format};
	FILE *temporary = tmpfile();
	SNDFILE *out = temporary ? sf_open_fd(dup(fileno(temporary)), SFM_WRITE, &info, 1) : NULL;
	if (!out)
		give_up("cannot be made");
	uint64_t n = (uint64_t)llround(seconds * sample_rate);
	float *frame = calloc((size_t)channels * 4096, sizeof *frame);
	for (uint64_t i = 0; i < n; i += 4096) {
		sf_count_t part = n - i < 4096 ? (sf_count_t)(n - i) : 4096;
		for (sf_count_t k = 0; k < part; k++)
			for (int c = 0; c < channels; c++)
				frame[k * channels + c] =
					(float)(level * sin(2 * M_PI * hz * (double)(i + (uint64_t)k) / sample_rate));
		if (sf_writef_float(out, frame, part) != part)
			give_up("cannot be written");
	}
	free(frame);
	sf_close(out);
	struct audio_file file = {0};
	off_t size = lseek(fileno(temporary), 0, SEEK_END);
	file.n = (size_t)size;
	file.bytes = malloc(file.n + 1);
	if (!file.bytes || pread(fileno(temporary), file.bytes, file.n, 0) != size)
		give_up("cannot be read");
	fclose(temporary);
	return file;
}

void audio_file_free(struct audio_file *file)
{
	free(file->bytes);
	*file = (struct audio_file){0};
}

uint8_t *audio_file_part(const struct audio_file *file, size_t n)
{
	uint8_t *part = malloc(n ? n : 1);
	if (!part)
		abort();
	memcpy(part, file->bytes, n < file->n ? n : file->n);
	return part;
}
