/* audio_mel BINS < FILE > ROWS: decodes an audio file and writes its log-mel rows, float32 [n][BINS], to standard
 * output and its samples at 16 kHz, float32, to descriptor 3 if there is one. For tests/e2e/test_mel.py. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/audio/decode.h"
#include "src/audio/mel.h"

enum { SECONDS_MAX = 7200, FILE_MAX = 256 << 20 };

struct output {
	struct mel *mel;
	FILE *file;
};

static int add(void *owner, const float *samples, size_t n)
{
	struct output *output = owner;
	if (fwrite(samples, sizeof *samples, n, output->file) != n)
		return -EIO;
	return mel_add(output->mel, samples, n);
}

int main(int argc, char **argv)
{
	struct err err = {""};
	struct output output = {NULL, argc == 3 ? fopen(argv[2], "wb") : NULL};
	struct decode_info info;
	uint32_t bins = argc == 3 ? (uint32_t)atoi(argv[1]) : 0;
	char *bytes = malloc(FILE_MAX);
	float *rows = malloc(sizeof *rows * bins * SECONDS_MAX * 100);
	size_t n = bytes ? fread(bytes, 1, FILE_MAX, stdin) : 0;
	uint64_t n_rows = 0;
	int rc = rows && output.file ? mel_new(bins, &output.mel, &err) : -ENOMEM;
	if (!rc) {
		struct decode_sink sink = {add, NULL, &output};
		mel_begin(output.mel, rows, SECONDS_MAX * 100);
		rc = decode_audio(bytes, n, SECONDS_MAX, &sink, &info, &err);
	}
	if (!rc)
		rc = mel_end(output.mel, &n_rows);
	if (!rc && fclose(output.file))
		rc = -EIO;
	if (rc)
		fprintf(stderr, "audio_mel: %s (%s)\n", err.text, strerror(-rc));
	else if (fwrite(rows, sizeof *rows * bins, n_rows, stdout) != n_rows || fflush(stdout))
		rc = -EIO;
	mel_free(output.mel);
	free(rows);
	free(bytes);
	return rc != 0;
}
