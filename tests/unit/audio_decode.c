/* Decoding: every format, rate and number of channels that is promised, and what is said of files that are not right.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/audio/container.h"
#include "src/audio/decode.h"
#include "src/audio/wire.h"
#include "tests/unit/audio_files.h"

struct heard {
	uint64_t n;
	double power;	       /* sum of squares, but for the first and last quarter of a second */
	double in, quadrature; /* the same, times a tone's cos and sin */
	double hz;
	uint64_t begin, end;
	uint64_t n_alive, stop_after;
	float largest;
};

static int hear(void *owner, const float *samples, size_t n)
{
	struct heard *h = owner;
	for (size_t i = 0; i < n; i++, h->n++) {
		ck_assert(isfinite(samples[i]) && samples[i] >= -1 && samples[i] <= 1);
		h->largest = fabsf(samples[i]) > h->largest ? fabsf(samples[i]) : h->largest;
		if (h->n < h->begin || h->n >= h->end)
			continue;
		h->power += samples[i] * samples[i];
		h->in += samples[i] * cos(2 * M_PI * h->hz * (double)h->n / AUDIO_RATE);
		h->quadrature += samples[i] * sin(2 * M_PI * h->hz * (double)h->n / AUDIO_RATE);
	}
	return 0;
}

static int live(void *owner)
{
	struct heard *h = owner;
	return ++h->n_alive > h->stop_after && h->stop_after ? -ECANCELED : 0;
}

static int decode(const void *bytes, size_t n, uint32_t max_seconds, struct heard *heard, struct decode_info *info,
		  struct err *err)
{
	struct decode_sink sink = {hear, live, heard};
	return decode_audio(bytes, n, max_seconds, &sink, info, err);
}

/* A tone of half of full scale comes out as such: its amplitude, and how much of the power is the tone. */
static void tone(int format, int rate, int channels, double seconds, const char *name, double amplitude_error,
		 double noise)
{
	struct audio_file file = audio_file_tone(format, rate, channels, seconds, 440, 0.5);
	struct heard h = {.hz = 440, .begin = AUDIO_RATE / 4, .end = (uint64_t)((seconds - 0.25) * AUDIO_RATE)};
	struct decode_info info;
	struct err err = {""};
	uint8_t *bytes = audio_file_part(&file, file.n);
	int rc = decode(bytes, file.n, 3600, &h, &info, &err);
	ck_assert_msg(rc == 0, "%s %d Hz: %s", name, rate, err.text);
	free(bytes);
	ck_assert_str_eq(info.format, name);
	ck_assert_uint_eq(info.sample_rate, (unsigned)rate);
	ck_assert_uint_eq(info.channels, (unsigned)channels);
	ck_assert_uint_eq(info.n_samples, h.n);
	ck_assert_double_eq(info.duration_s, (double)h.n / AUDIO_RATE);
	ck_assert_double_eq_tol(info.duration_s, seconds, 0.11); /* MP3 pads to whole frames, and begins with some */
	double n = (double)(h.end - h.begin);
	double amplitude = 2 * sqrt(h.in * h.in + h.quadrature * h.quadrature) / n;
	double power = 2 * h.power / n;
	ck_assert_msg(fabs(amplitude - 0.5) < amplitude_error, "%s %d Hz: amplitude %f", name, rate, amplitude);
	ck_assert_msg(power - amplitude * amplitude < noise * 0.25, "%s %d Hz: power %g, amplitude %f", name, rate,
		      power, amplitude);
	audio_file_free(&file);
}

START_TEST(every_format_is_decoded)
{
	tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, 2, "WAV", 1e-4, 1e-7);
	tone(SF_FORMAT_WAV | SF_FORMAT_PCM_U8, 16000, 1, 2, "WAV", 1e-2, 1e-3);
	tone(SF_FORMAT_WAV | SF_FORMAT_PCM_24, 44100, 2, 2, "WAV", 1e-4, 1e-7);
	tone(SF_FORMAT_WAV | SF_FORMAT_FLOAT, 48000, 2, 2, "WAV", 1e-4, 1e-7);
	tone(SF_FORMAT_WAV | SF_FORMAT_ULAW, 8000, 1, 2, "WAV", 1e-2, 1e-2);
	tone(SF_FORMAT_WAVEX | SF_FORMAT_PCM_32, 22050, 1, 2, "WAV", 1e-4, 1e-7);
	tone(SF_FORMAT_RF64 | SF_FORMAT_PCM_16, 16000, 1, 2, "WAV", 1e-4, 1e-7);
	tone(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 44100, 2, 2, "FLAC", 1e-4, 1e-7);
	tone(SF_FORMAT_FLAC | SF_FORMAT_PCM_24, 96000, 1, 2, "FLAC", 1e-4, 1e-7);
	tone(SF_FORMAT_OGG | SF_FORMAT_VORBIS, 44100, 2, 2, "Ogg Vorbis", 2e-2, 1e-3);
	tone(SF_FORMAT_OGG | SF_FORMAT_OPUS, 48000, 1, 2, "Ogg Opus", 2e-2, 1e-2);
	tone(SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, 44100, 2, 2, "MP3", 2e-2, 1e-3);
	tone(SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, 16000, 1, 2, "MP3", 2e-2, 1e-3);
}
END_TEST

START_TEST(many_channels_and_high_rates)
{
	tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 48000, 8, 1.5, "WAV", 1e-4, 1e-7);
	tone(SF_FORMAT_WAV | SF_FORMAT_PCM_24, 192000, 2, 1.5, "WAV", 1e-4, 1e-7);
	tone(SF_FORMAT_FLAC | SF_FORMAT_PCM_24, 192000, 8, 1, "FLAC", 1e-4, 1e-7);
	tone(SF_FORMAT_WAV | SF_FORMAT_FLOAT, 768000, 1, 1, "WAV", 1e-4, 1e-7);
	tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 4000, 1, 2, "WAV", 1e-3, 1e-6);
}
END_TEST

/* What the rate of 16 kHz can't hold must not come back as something else. */
START_TEST(resampling_does_not_alias)
{
	struct audio_file file = audio_file_tone(SF_FORMAT_WAV | SF_FORMAT_FLOAT, 48000, 1, 2, 11000, 0.5);
	struct heard h = {.hz = 5000, .begin = 4000, .end = 28000};
	struct decode_info info;
	struct err err = {""};
	ck_assert_int_eq(decode(file.bytes, file.n, 10, &h, &info, &err), 0);
	ck_assert_double_lt(2 * h.power / 24000, 1e-8);
	audio_file_free(&file);
}
END_TEST

START_TEST(a_tenth_of_a_second_is_decoded_whole)
{
	struct audio_file file = audio_file_tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, 0.1, 440, 0.5);
	struct heard h = {0};
	struct decode_info info;
	struct err err = {""};
	ck_assert_int_eq(decode(file.bytes, file.n, 10, &h, &info, &err), 0);
	ck_assert_uint_eq(h.n, 1600);
	audio_file_free(&file);
	file = audio_file_tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 48000, 1, 0.1, 440, 0.5);
	h = (struct heard){0};
	ck_assert_int_eq(decode(file.bytes, file.n, 10, &h, &info, &err), 0);
	ck_assert_uint_eq(h.n, 1600);
	audio_file_free(&file);
}
END_TEST

static void refused(const void *bytes, size_t n, uint32_t max_seconds, int code, const char *text)
{
	struct heard h = {0};
	struct decode_info info = {.channels = 77};
	struct err err = {""};
	int rc = decode(bytes, n, max_seconds, &h, &info, &err);
	ck_assert_msg(rc == code && strstr(err.text, text), "%d (%s) instead of %d (%s)", rc, err.text, code, text);
	ck_assert_uint_eq(info.channels, 77); /* untouched */
}

START_TEST(no_samples_are_told)
{
	struct audio_file file = audio_file_tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, 0, 440, 0.5);
	refused(file.bytes, file.n, 10, -ENODATA, "has no samples");
	audio_file_free(&file);
}
END_TEST

START_TEST(what_is_no_audio_is_told)
{
	static const char text[] = "This is a text that somebody has named speech.wav, and it is no speech at all.\n";
	refused(text, sizeof text - 1, 10, -EBADMSG, "no audio file");
	refused("", 0, 10, -EBADMSG, "empty");
	refused("RIFF", 4, 10, -EBADMSG, "no audio file");
	refused("RIFF\x24\0\0\0WAVE", 12, 10, -EBADMSG, "WAV");
	refused("\0\0\0\x20"
		"ftypM4A ",
		12, 10, -ENOTSUP, "MP4 or M4A");
	refused("\x1a\x45\xdf\xa3....", 8, 10, -ENOTSUP, "WebM");
	refused("FORM....AIFF", 12, 10, -ENOTSUP, "AIFF");
	refused("fLaC but then nothing of it", 27, 10, -EBADMSG, "FLAC");
	refused("OggS but then nothing of it", 27, 10, -EBADMSG, "Ogg");
	refused("ID3 but then nothing of it.", 27, 10, -EBADMSG, "MP3");
}
END_TEST

/* RIFF files may carry whatever has a number. */
START_TEST(an_unknown_codec_is_told)
{
	struct audio_file file = audio_file_tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, 1, 440, 0.5);
	file.bytes[20] = 0x00; /* the format's tag: AC-3 */
	file.bytes[21] = 0x20;
	refused(file.bytes, file.n, 10, -ENOTSUP, "codec");
	audio_file_free(&file);
}
END_TEST

START_TEST(a_cut_file_says_how_far_it_got)
{
	static const struct {
		int format, rate;
		const char *text;
	} cases[] = {{SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 44100, "of 4.00 seconds could be decoded"},
		     {SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, "of 4.00 seconds could be decoded"},
		     {SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, "cut off after"},
		     {SF_FORMAT_OGG | SF_FORMAT_VORBIS, 44100, "cut off after"},
		     {SF_FORMAT_OGG | SF_FORMAT_OPUS, 48000, "cut off after"}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct audio_file file = audio_file_tone(cases[i].format, cases[i].rate, 1, 4, 440, 0.5);
		for (size_t k = 3; k <= 5; k++) {
			size_t n = file.n * k / 6 + 1;
			uint8_t *part = audio_file_part(&file, n);
			refused(part, n, 10, -EPIPE, cases[i].text);
			free(part);
		}
		audio_file_free(&file);
	}
	/* Half of it is half of the time. */
	struct audio_file file = audio_file_tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, 4, 440, 0.5);
	refused(file.bytes, 44 + 64000, 10, -EPIPE, "cut off after 2.00 seconds: 64000 bytes");
	audio_file_free(&file);
}
END_TEST

START_TEST(too_long_is_told_by_the_header_or_while_decoding)
{
	struct audio_file file = audio_file_tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, 3.5, 440, 0.5);
	refused(file.bytes, file.n, 3, -EFBIG, "3.5 seconds long; at most 3");
	struct heard h = {0};
	struct decode_info info;
	struct err err = {""};
	ck_assert_int_eq(decode(file.bytes, file.n, 4, &h, &info, &err), 0);
	audio_file_free(&file);
	/* A header that does not know its length: what was decoded until then is no more than the cap. */
	file = audio_file_tone(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1, 30, 440, 0.5);
	memset(file.bytes + 22, 0, 4); /* the lower half of STREAMINFO's number of samples: 0 is "unknown" */
	file.bytes[21] &= 0xf0;
	h = (struct heard){0};
	int rc = decode(file.bytes, file.n, 10, &h, &info, &err);
	ck_assert_msg(rc == -EFBIG && strstr(err.text, "longer than 10 seconds"), "%d %s", rc, err.text);
	ck_assert_uint_le(h.n, 10 * AUDIO_RATE);
	audio_file_free(&file);
}
END_TEST

START_TEST(an_hour_is_just_served_and_a_second_more_is_not)
{
	struct audio_file file = audio_file_tone(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1, 3600, 440, 0.5);
	struct heard h = {0};
	struct decode_info info;
	struct err err = {""};
	ck_assert_int_eq(decode(file.bytes, file.n, 3600, &h, &info, &err), 0);
	ck_assert_uint_eq(h.n, 3600ull * AUDIO_RATE);
	refused(file.bytes, file.n, 3599, -EFBIG, "3600.0 seconds");
	audio_file_free(&file);
}
END_TEST

START_TEST(samples_that_are_no_numbers_are_refused_and_loud_ones_are_cut)
{
	struct audio_file file = audio_file_tone(SF_FORMAT_WAV | SF_FORMAT_FLOAT, 16000, 1, 1, 440, 30);
	struct heard h = {0};
	struct decode_info info;
	struct err err = {""};
	ck_assert_int_eq(decode(file.bytes, file.n, 10, &h, &info, &err), 0);
	ck_assert_float_eq(h.largest, 1);
	const float nan = NAN;
	memcpy(file.bytes + file.n - 4 * 8000, &nan, sizeof nan);
	refused(file.bytes, file.n, 10, -EBADMSG, "no finite number");
	audio_file_free(&file);
}
END_TEST

/* libvorbis leaves some kilobytes behind for a stream whose second or third header is damaged. It is out of our hands,
 * and a process of its own that a limit ends is why it costs nobody else anything. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:vorbis_info_init\n";
}

/* Whatever byte is wrong, it ends well or with words. */
START_TEST(damaged_files_end_well)
{
	static const int formats[] = {SF_FORMAT_WAV | SF_FORMAT_PCM_16, SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
				      SF_FORMAT_OGG | SF_FORMAT_VORBIS, SF_FORMAT_OGG | SF_FORMAT_OPUS,
				      SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III};
	srand(7);
	for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
		struct audio_file file = audio_file_tone(formats[f], 48000, 1, 0.3, 440, 0.5);
		for (int round = 0; round < 150; round++) {
			uint8_t *bytes = audio_file_part(&file, file.n);
			struct heard h = {0};
			struct decode_info info;
			struct err err = {""};
			for (int k = 0; k < 1 + round % 8; k++)
				bytes[(size_t)rand() % (round % 2 ? file.n : 64)] = (uint8_t)rand();
			int rc = decode(bytes, file.n, 60, &h, &info, &err);
			ck_assert(rc == 0 || *err.text);
			free(bytes);
		}
		audio_file_free(&file);
	}
}
END_TEST

START_TEST(decoding_stops_when_it_is_told_to)
{
	struct audio_file file = audio_file_tone(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1, 20, 440, 0.5);
	struct heard h = {.stop_after = 3};
	struct decode_info info;
	struct err err = {""};
	ck_assert_int_eq(decode(file.bytes, file.n, 60, &h, &info, &err), -ECANCELED);
	ck_assert_uint_lt(h.n, 20 * AUDIO_RATE);
	audio_file_free(&file);
}
END_TEST

int main(void)
{
	stderr = fopen("/dev/null", "w"); /* libmpg123 tells there what it thinks of damaged files */
	Suite *suite = suite_create("audio_decode");
	TCase *good = tcase_create("good files");
	tcase_set_timeout(good, 60);
	tcase_add_test(good, every_format_is_decoded);
	tcase_add_test(good, many_channels_and_high_rates);
	tcase_add_test(good, resampling_does_not_alias);
	tcase_add_test(good, a_tenth_of_a_second_is_decoded_whole);
	tcase_add_test(good, an_hour_is_just_served_and_a_second_more_is_not);
	suite_add_tcase(suite, good);
	TCase *bad = tcase_create("bad files");
	tcase_set_timeout(bad, 60);
	tcase_add_test(bad, no_samples_are_told);
	tcase_add_test(bad, what_is_no_audio_is_told);
	tcase_add_test(bad, an_unknown_codec_is_told);
	tcase_add_test(bad, a_cut_file_says_how_far_it_got);
	tcase_add_test(bad, too_long_is_told_by_the_header_or_while_decoding);
	tcase_add_test(bad, samples_that_are_no_numbers_are_refused_and_loud_ones_are_cut);
	tcase_add_test(bad, damaged_files_end_well);
	tcase_add_test(bad, decoding_stops_when_it_is_told_to);
	suite_add_tcase(suite, bad);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
