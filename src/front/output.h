/* Bytes on their way out: a queue of blocks that never move, so that a send may be in flight over its front while more
 * is appended at its end. */
#ifndef WEIGHTD_SRC_FRONT_OUTPUT_H
#define WEIGHTD_SRC_FRONT_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

struct output_block;

struct output {
	struct output_block *first, *last;
	uint64_t n_bytes; /* in all blocks */
};

/* -ENOMEM: nothing was appended. */
int output_append(struct output *output, const void *bytes, size_t n_bytes);
/* The contiguous bytes at the front (view, valid until they are taken away); 0 when there are none. */
size_t output_front(const struct output *output, const void **out);
void output_take(struct output *output, size_t n_bytes); /* at most what output_front gave */
void output_fini(struct output *output);

#endif
