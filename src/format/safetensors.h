/* Safetensors files: a length, a JSON header of that length, and the tensors' bytes, which tile the rest of the file.
 * Source: the format's description in the README of the safetensors repository.
 *
 *   u64 n, little-endian | n bytes of JSON, padded with blanks | data
 *   {"__metadata__": {"k": "v"}, "name": {"dtype": "BF16", "shape": [rows, cols], "data_offsets": [begin, end]}, ...}
 *
 * Like the parser of GGUF files it works on a growing prefix of the file and believes nothing: every tensor's length is
 * that of its type and shape, and the tensors lie end to end over all of the data, so that no two share a byte and none
 * reaches out of the file. No key may come twice: readers that differ in which of two they believe are how a file shows
 * one thing to a scanner and another to a program. Messages name the byte offset and the tensor. */
#ifndef WEIGHTD_FORMAT_SAFETENSORS_H
#define WEIGHTD_FORMAT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

/* Those whose data this program reads; files with others are refused. */
enum safetensors_type {
	SAFETENSORS_F32,
	SAFETENSORS_F16,
	SAFETENSORS_BF16,
};

enum {
	SAFETENSORS_LENGTH_BYTES = 8,		  /* before the header */
	SAFETENSORS_HEADER_MAX_BYTES = 100000000, /* by the format's description */
	SAFETENSORS_MAX_DIMS = 8,
	SAFETENSORS_MAX_TENSORS = 1 << 20,
	SAFETENSORS_QUOTE_BYTES = 72,
};

struct safetensors_string {
	const char *bytes; /* view into the header that struct safetensors owns, not terminated */
	uint32_t n_bytes;
};

struct safetensors_tensor {
	struct safetensors_string name;
	enum safetensors_type type;
	uint32_t n_dims;		    /* 0: a single value */
	uint64_t dim[SAFETENSORS_MAX_DIMS]; /* as in the file: the last is the fastest; those that aren't there are 1 */
	uint64_t offset;		    /* in the file */
	uint64_t bytes;
};

struct safetensors_pair {
	struct safetensors_string key, value;
};

struct safetensors {
	struct safetensors_tensor *tensors; /* [n_tensors] owned, in order of their data */
	uint32_t n_tensors;
	uint32_t *by_name;		   /* [n_tensors] owned: indices of tensors in order of their names' bytes */
	struct safetensors_pair *metadata; /* [n_metadata] owned, in order of their keys' bytes */
	uint32_t n_metadata;
	uint64_t data_offset; /* where data begins in the file */
	char *header;	      /* owned: what the strings are views into */
	void *document;	      /* owned */
};

/* Parses the first n_bytes of a file of file_bytes, which may go afterwards. 0; -EAGAIN: at least *need_bytes are
 * needed (first the length, then all of the header), call again with more; -EINVAL: malformed; -ENOTSUP: a type or
 * number of dimensions that this program does not read; -ENOMEM. *out is untouched on failure. */
int safetensors_parse(const void *bytes, uint64_t n_bytes, uint64_t file_bytes, struct safetensors *out,
		      uint64_t *need_bytes, struct err *err);
void safetensors_fini(struct safetensors *file);

/* NULL when there is none of this name. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);
/* A value of "__metadata__"; NULL when there is none. */
const struct safetensors_string *safetensors_metadata(const struct safetensors *file, const char *key);

/* "BF16", and how many bytes a value has. */
const char *safetensors_type_name(enum safetensors_type type);
uint32_t safetensors_type_bytes(enum safetensors_type type);

/* A string of the file as messages show it: cut, and with '?' for every byte that isn't printable ASCII. Returns `out`.
 */
const char *safetensors_quote(const struct safetensors_string *string, char out[SAFETENSORS_QUOTE_BYTES]);

#endif
