/* The state of everything as one JSON object: what `weightctl status` shows. */
#ifndef WEIGHTD_STATUS_H
#define WEIGHTD_STATUS_H

#include <stddef.h>

struct parent;
struct parent_change;
struct parent_worker;

/* Samples memory, then writes the object and a newline. Returns owned (free), NULL: out of memory. */
char *status_json(struct parent *parent, size_t *n_bytes);

/* How one stands, in the words of the object. Views of constants. */
const char *status_change_word(const struct parent_change *change); /* "": there is none */
const char *status_worker_word(const struct parent_worker *worker);

#endif
