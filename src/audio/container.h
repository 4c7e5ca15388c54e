/* What a file is, by its first bytes, and whether it ends where its container says. Both are looked at before a library
 * sees the file: so libraries get formats that are served here alone, and a cut file is told as such, which they pass
 * over. */
#ifndef WEIGHTD_AUDIO_CONTAINER_H
#define WEIGHTD_AUDIO_CONTAINER_H

#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

enum container { CONTAINER_WAV, CONTAINER_FLAC, CONTAINER_OGG, CONTAINER_MP3 };

/* 0; -ENOTSUP: something known that is not served; -EBADMSG: no audio file. */
int container_find(const uint8_t *bytes, size_t n_bytes, enum container *out, struct err *err);

/* WAV: bytes of samples that the header announces beyond the end of the file. Ogg: 1 if the last page is not whole.
 * Else 0. A WAV header that leaves the length open (0xffffffff, or 0, as programs do that write to a pipe) announces
 * nothing. */
uint64_t container_missing_bytes(enum container container, const uint8_t *bytes, size_t n_bytes);

#endif
