/* Loading a model: from its files to one published segment on each node asked for. The loader role is this and
 * messages; tests call it without a process. */
#ifndef WEIGHTD_LOAD_H
#define WEIGHTD_LOAD_H

#include "numa/topology.h"
#include "src/load/load_files.h"
#include "src/message.h"

struct load_progress {
	void (*report)(void *context, uint64_t done_bytes,
		       uint64_t total_bytes); /* often: the callee limits its rate */
	void *context;
};

enum { LOAD_NODES_MAX = sizeof(((struct message_load *)0)->node) / sizeof(uint16_t) };

struct loaded {
	uint32_t n;
	struct message_segment segments[LOAD_NODES_MAX]; /* [n], in the order's order of nodes */
	int fds[LOAD_NODES_MAX];			 /* [n] read-only, owned */
	uint64_t bytes_read;   /* asked of the files: never more than their size, but for headers between data */
	struct load_pace pace; /* of a model that was loaded */
};

/* Loads the model in the files `inputs` [order->n_files], borrowed. Binds the calling thread to the first node's CPUs.
 * On failure nothing stays in shared memory, and `err` is one line naming the file, the offset and the field. Codes:
 * -EINVAL (the order or a file), -ENOTSUP (the files need what this program lacks), -EIO, -ESTALE (a file was changed
 * meanwhile), -ENOMEM and -ENOSPC (room on a node), and what segment_create and segment_publish say. */
int model_load(const struct message_load *order, const struct load_input *inputs, const struct load_progress *progress,
	       struct loaded *out, struct err *err);

/* What a load would make, without the weights: an image of the right size whose header, tables, tokenizer and template
 * are there and whose matrices and vectors are zeros that have no memory. Reads the files' headers alone. */
struct model_outline {
	void *image; /* shared anonymous mapping of `bytes`, owned: munmap */
	uint64_t bytes;
	char architecture[32];
};
int model_outline(const struct message_load *order, const struct load_input *inputs, struct model_outline *out,
		  struct err *err);

/* Closes the descriptors; the segments stay. */
void loaded_close(struct loaded *loaded);
/* Removes the segments, too. */
void loaded_discard(struct loaded *loaded);

#endif
