#include "src/front/output.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 4096 - 40 /* with its head and malloc's: a page */ };

struct output_block {
	struct output_block *next;
	size_t capacity;
	size_t begin, end; /* of the bytes not taken yet */
	char bytes[];
};

static struct output_block *block_new(size_t n_bytes)
{
	size_t capacity = n_bytes < BLOCK_BYTES ? BLOCK_BYTES : n_bytes, size;
	if (__builtin_add_overflow(sizeof(struct output_block), capacity, &size))
		return NULL;
	struct output_block *block = malloc(size);
	if (block)
		*block = (struct output_block){.capacity = capacity};
	return block;
}

int output_append(struct output *output, const void *bytes, size_t n_bytes)
{
	struct output_block *last = output->last;
	size_t here = last ? last->capacity - last->end : 0;
	if (here > n_bytes)
		here = n_bytes;
	struct output_block *more = NULL;
	if (here < n_bytes) { /* before anything is copied: all or nothing */
		more = block_new(n_bytes - here);
		if (!more)
			return -ENOMEM;
	}
	if (here) {
		memcpy(last->bytes + last->end, bytes, here);
		last->end += here;
	}
	if (more) {
		memcpy(more->bytes, (const char *)bytes + here, n_bytes - here);
		more->end = n_bytes - here;
		if (last)
			last->next = more;
		else
			output->first = more;
		output->last = more;
	}
	output->n_bytes += n_bytes;
	return 0;
}

size_t output_front(const struct output *output, const void **out)
{
	const struct output_block *block = output->first;
	if (!block || block->begin == block->end)
		return 0;
	*out = block->bytes + block->begin;
	return block->end - block->begin;
}

void output_take(struct output *output, size_t n_bytes)
{
	struct output_block *block = output->first;
	if (!block)
		return;
	assert(n_bytes <= block->end - block->begin);
	block->begin += n_bytes;
	output->n_bytes -= n_bytes;
	if (block->begin < block->end)
		return;
	if (block == output->last && block->capacity == BLOCK_BYTES) {
		block->begin = block->end = 0; /* a stream of small events goes through one block */
		return;
	}
	output->first = block->next;
	if (!output->first)
		output->last = NULL;
	free(block);
}

void output_fini(struct output *output)
{
	while (output->first) {
		struct output_block *block = output->first;
		output->first = block->next;
		free(block);
	}
	*output = (struct output){0};
}
