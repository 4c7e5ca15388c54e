/* Little-endian fields of a header that is looked at piece by piece. Private to src/format. */
#ifndef WEIGHTD_FORMAT_LOOK_H
#define WEIGHTD_FORMAT_LOOK_H

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

/* A header at hand. What lies behind the last byte that was looked at is as good as behind the file. */
struct look {
	const unsigned char *bytes;
	size_t n, at;
	uint64_t offset; /* of the first byte in the file */
	struct err *err;
};

static inline int look_cut(const struct look *look, const char *field)
{
	return err_set(look->err, -EINVAL, "offset %" PRIu64 ": %s: the file ends here", look->offset + look->at,
		       field);
}

/* A number of 1 to 4 bytes. 0 or -EINVAL. */
static inline int look_take(struct look *look, unsigned n_bytes, const char *field, uint32_t *out)
{
	uint32_t value = 0;
	if (look->n - look->at < n_bytes)
		return look_cut(look, field);
	for (unsigned i = 0; i < n_bytes; i++)
		value |= (uint32_t)look->bytes[look->at + i] << 8 * i;
	look->at += n_bytes;
	*out = value;
	return 0;
}

#endif
