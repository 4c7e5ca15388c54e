/* The keys that clients must show, if the administrator wants any: a file with one on each line.
 *
 * The parent opens the file, once, because only its user and root may read it; each front reads it from the descriptor.
 * Keys are compared in a time that depends on their number and lengths, not on their bytes. */
#ifndef WEIGHTD_KEYS_H
#define WEIGHTD_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "src/err.h"

enum { KEYS_MAX = 1024, KEY_BYTES_MIN = 16, KEY_BYTES_MAX = 256 };

struct keys {
	char *text;	   /* owned */
	const char **keys; /* [n] views into text; owned list */
	unsigned n;	   /* 0: none are wanted */
};

/* Opens a file that is ours or root's, and readable or writable for nobody else. -EACCES when it is not. Returns a
 * descriptor. */
int keys_open(const char *path, struct err *err);
/* Reads a file from its beginning: empty lines and those that begin with '#' do not count. -EINVAL names the line: a
 * key too short or too long, a byte that is no visible ASCII, no key at all. */
int keys_read(int fd, struct keys *out, struct err *err);
void keys_free(struct keys *keys);

/* Is this the value of an Authorization field that shows one of the keys ("Bearer KEY")? */
bool keys_admit(const struct keys *keys, const char *authorization);

#endif
