/* Audio files in memory, written by libsndfile, for tests of what reads them. */
#ifndef WEIGHTD_TESTS_AUDIO_FILES_H
#define WEIGHTD_TESTS_AUDIO_FILES_H

#include <stddef.h>
#include <stdint.h>

struct audio_file {
	uint8_t *bytes; /* [n] owned */
	size_t n;
};

/* `seconds` of a tone of `hz`, of amplitude `level` in every channel. `format`: libsndfile's SF_FORMAT_*. Ends the test
 * where it can't be written. */
struct audio_file audio_file_tone(int format, int sample_rate, int channels, double seconds, double hz, double level);
void audio_file_free(struct audio_file *file);

/* [n] bytes of `file`, alone in their memory, so that a sanitizer sees a step past them. Owned. */
uint8_t *audio_file_part(const struct audio_file *file, size_t n);

#endif
