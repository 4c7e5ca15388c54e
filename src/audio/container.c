#include "src/audio/container.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool has(const uint8_t *bytes, size_t n_bytes, size_t at, const char *text)
{
	size_t n = strlen(text);
	return at + n <= n_bytes && !memcmp(bytes + at, text, n);
}

static uint32_t u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* A frame header of MPEG audio (ISO/IEC 11172-3, 2.4.1.3): eleven set bits, then neither a version, layer, bit rate nor
 * sampling rate that is reserved. */
static bool is_mpeg_frame(const uint8_t *bytes, size_t n_bytes)
{
	return n_bytes >= 4 && bytes[0] == 0xff && (bytes[1] & 0xe0) == 0xe0 && (bytes[1] & 0x18) != 0x08 &&
	       (bytes[1] & 0x06) != 0 && (bytes[2] & 0xf0) != 0xf0 && (bytes[2] & 0x0c) != 0x0c;
}

/* Files that people send and that are no mistake, only not served. NULL: none of those. */
static const char *known_other(const uint8_t *bytes, size_t n_bytes)
{
	static const struct {
		size_t at;
		const char *magic, *name;
	} others[] = {{4, "ftyp", "MP4 or M4A (AAC)"},
		      {0, "\x1a\x45\xdf\xa3", "WebM or Matroska"},
		      {0, "FORM", "AIFF"},
		      {0, ".snd", "AU"},
		      {0, "caff", "CAF"},
		      {0, "#!AMR", "AMR"},
		      {0, "\x30\x26\xb2\x75", "WMA or ASF"},
		      {8, "AVI ", "AVI"}};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (has(bytes, n_bytes, others[i].at, others[i].magic))
			return others[i].name;
	return NULL;
}

/* RIFF: chunks of a name, a length and that many bytes, padded to even ones. Where one is whose name and length are
 * whole; 0: nowhere. RF64 has its lengths elsewhere, and RIFX the other way round: those are left to the library. */
static uint64_t find_chunk(const uint8_t *bytes, size_t n_bytes, const char *name)
{
	uint64_t at = 12;
	while (at + 8 <= n_bytes && !has(bytes, n_bytes, at, name))
		at += 8 + (uint64_t)u32(bytes + at + 4) + (bytes[at + 4] & 1);
	return at + 8 <= n_bytes ? at : 0;
}

/* RIFF carries whatever has a number (the format's tag, RFC 2361). A library that does not know one calls the header
 * damaged. */
static int check_wav_codec(const uint8_t *bytes, size_t n_bytes, struct err *err)
{
	/* PCM, Microsoft's ADPCM, float, A-law, mu-law, IMA's ADPCM, GSM 6.10, MPEG, MP3, one told further on */
	static const uint16_t known[] = {1, 2, 3, 6, 7, 0x11, 0x31, 0x50, 0x55, 0xfffe};
	uint64_t at = has(bytes, n_bytes, 0, "RIFF") ? find_chunk(bytes, n_bytes, "fmt ") : 0;
	if (!at || at + 10 > n_bytes)
		return 0;
	uint32_t tag = bytes[at + 8] | (uint32_t)bytes[at + 9] << 8;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (tag == known[i])
			return 0;
	return err_set(err, -ENOTSUP,
		       "the codec in this WAV file (0x%04x) is not served: send PCM, or FLAC, Ogg or MP3", tag);
}

int container_find(const uint8_t *bytes, size_t n_bytes, enum container *out, struct err *err)
{
	if (!n_bytes)
		return err_set(err, -EBADMSG, "the file is empty");
	if ((has(bytes, n_bytes, 0, "RIFF") || has(bytes, n_bytes, 0, "RF64") || has(bytes, n_bytes, 0, "RIFX")) &&
	    has(bytes, n_bytes, 8, "WAVE"))
		*out = CONTAINER_WAV;
	else if (has(bytes, n_bytes, 0, "fLaC"))
		*out = CONTAINER_FLAC;
	else if (has(bytes, n_bytes, 0, "OggS"))
		*out = CONTAINER_OGG;
	else if (has(bytes, n_bytes, 0, "ID3") || is_mpeg_frame(bytes, n_bytes))
		*out = CONTAINER_MP3;
	else if (known_other(bytes, n_bytes))
		return err_set(err, -ENOTSUP, "%s is not served: send WAV, FLAC, Ogg (Vorbis, Opus) or MP3",
			       known_other(bytes, n_bytes));
	else
		return err_set(err, -EBADMSG,
			       "this is no audio file: it begins neither as WAV, FLAC, Ogg nor MP3 (%zu bytes)",
			       n_bytes);
	return *out == CONTAINER_WAV ? check_wav_codec(bytes, n_bytes, err) : 0;
}

static uint64_t missing_of_wav(const uint8_t *bytes, size_t n_bytes)
{
	uint64_t at = has(bytes, n_bytes, 0, "RIFF") ? find_chunk(bytes, n_bytes, "data") : 0;
	if (!at)
		return 0;
	uint64_t n = u32(bytes + at + 4), left = n_bytes - at - 8;
	return n > left && n < 0xffffff00u ? n - left : 0;
}

/* Ogg (RFC 3533, 6): a page is 27 bytes, a table of as many lengths as byte 26 says, and their sum. */
static uint64_t missing_of_ogg(const uint8_t *bytes, size_t n_bytes)
{
	enum { HEADER = 27, PAGE_MAX = HEADER + 255 + 255 * 255 };
	size_t first = n_bytes > PAGE_MAX ? n_bytes - PAGE_MAX : 0;
	for (size_t at = n_bytes; at-- > first;) {
		if (!has(bytes, n_bytes, at, "OggS"))
			continue;
		if (n_bytes - at < HEADER || n_bytes - at < HEADER + (size_t)bytes[at + 26])
			return 1;
		size_t page = HEADER + (size_t)bytes[at + 26];
		for (size_t i = 0; i < bytes[at + 26]; i++)
			page += bytes[at + HEADER + i];
		return n_bytes - at < page;
	}
	return 0;
}

uint64_t container_missing_bytes(enum container container, const uint8_t *bytes, size_t n_bytes)
{
	return container == CONTAINER_WAV   ? missing_of_wav(bytes, n_bytes)
	       : container == CONTAINER_OGG ? missing_of_ogg(bytes, n_bytes)
					    : 0;
}
