/* Strings of files as messages show them. Private to src/format. */
#ifndef WEIGHTD_FORMAT_QUOTE_H
#define WEIGHTD_FORMAT_QUOTE_H

#include <stddef.h>
#include <string.h>

/* Writes at most `size` bytes (above 4), terminator included: cut, and with '?' for every byte that isn't printable
 * ASCII. Returns `out`. */
static inline const char *quote(const char *bytes, size_t n_bytes, char *out, size_t size)
{
	size_t n = n_bytes < size - 4 ? n_bytes : size - 4;
	for (size_t i = 0; i < n; i++)
		out[i] = bytes[i] >= ' ' && bytes[i] <= '~' ? bytes[i] : '?';
	strcpy(out + n, n < n_bytes ? "..." : "");
	return out;
}

#endif
