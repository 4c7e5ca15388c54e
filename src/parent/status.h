/* The state of everything as one JSON object: what `weightctl status` shows. */
#ifndef WEIGHTD_STATUS_H
#define WEIGHTD_STATUS_H

#include <stddef.h>

struct parent;

/* Samples memory, then writes the object and a newline. Returns owned (free), NULL: out of memory. */
char *status_json(struct parent *parent, size_t *n_bytes);

#endif
