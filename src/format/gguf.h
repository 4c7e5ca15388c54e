/* GGUF model files, versions 2 and 3 (little-endian): header, metadata, tensor table.
 * Source: the GGUF specification in the ggml repository (docs/gguf.md).
 *
 * The parser works on a growing prefix of the file: it says how many bytes it needs, never reads beyond what it was
 * given, and believes nothing: every count, length, offset, type and alignment is checked with overflow-safe arithmetic
 * against the file's size before use. Messages name the byte offset and the field. */
#ifndef WEIGHTD_FORMAT_GGUF_H
#define WEIGHTD_FORMAT_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

enum gguf_value_type {
	GGUF_UINT8,
	GGUF_INT8,
	GGUF_UINT16,
	GGUF_INT16,
	GGUF_UINT32,
	GGUF_INT32,
	GGUF_FLOAT32,
	GGUF_BOOL,
	GGUF_STRING,
	GGUF_ARRAY,
	GGUF_UINT64,
	GGUF_INT64,
	GGUF_FLOAT64,
};

enum gguf_tensor_type {
	GGUF_TENSOR_F32 = 0,
	GGUF_TENSOR_F16 = 1,
	GGUF_TENSOR_Q4_0 = 2,
	GGUF_TENSOR_Q4_1 = 3,
	GGUF_TENSOR_Q5_0 = 6,
	GGUF_TENSOR_Q5_1 = 7,
	GGUF_TENSOR_Q8_0 = 8,
	GGUF_TENSOR_Q2_K = 10,
	GGUF_TENSOR_Q3_K = 11,
	GGUF_TENSOR_Q4_K = 12,
	GGUF_TENSOR_Q5_K = 13,
	GGUF_TENSOR_Q6_K = 14,
	GGUF_TENSOR_IQ4_NL = 20,
	GGUF_TENSOR_BF16 = 30
};

/* Those whose data this program reads, for messages. */
#define GGUF_TENSOR_TYPES_READ "F32, F16, BF16, Q8_0, Q5_1, Q5_0, Q4_1, Q4_0, IQ4_NL, Q6_K, Q5_K, Q4_K, Q3_K and Q2_K"

enum {
	GGUF_MAX_DIMS = 4,
	GGUF_HEADER_MAX_BYTES = 512 << 20,
	GGUF_MAX_PAIRS = 1 << 16, /* real files have some dozens */
	GGUF_MAX_TENSORS = 1 << 16,
	GGUF_MAX_KEY_BYTES = 65535, /* by the specification, as the next one */
	GGUF_MAX_NAME_BYTES = 64,
	GGUF_MAX_ARRAY_DEPTH = 4,
	GGUF_QUOTE_BYTES = 72,
	GGUF_PLACE_BYTES = 128,
};

struct gguf_string {
	const char *bytes; /* view into the header bytes, not terminated */
	uint64_t n_bytes;
};

struct gguf_value {
	enum gguf_value_type type; /* of the value, or of an array's elements when is_array */
	bool is_array;
	uint64_t n;	  /* elements; 1 for scalars */
	uint64_t offset;  /* of the value in the file, for messages */
	uint64_t bytes;	  /* of data */
	const void *data; /* view: the raw little-endian elements (unaligned); strings: length-prefixed, checked */
};

struct gguf_pair {
	struct gguf_string key;
	struct gguf_value value;
};

struct gguf_tensor {
	struct gguf_string name;
	uint32_t type; /* one of enum gguf_tensor_type, checked */
	uint32_t n_dims;
	uint64_t dim[GGUF_MAX_DIMS]; /* dim[0] is the fastest: the row length; the rest are 1 */
	uint32_t part;		     /* of the files of a model the one it is in, from 0 */
	uint64_t offset;	     /* in that file */
	uint64_t bytes;
};

struct gguf {
	uint32_t version;
	uint64_t alignment;
	uint64_t data_offset;	 /* where tensor data begins: header length rounded up */
	struct gguf_pair *pairs; /* [n_pairs] owned, in order of their keys' bytes */
	uint64_t n_pairs;
	struct gguf_tensor
		*tensors; /* [n_tensors] owned, part by part, in file order of data (checked not to overlap) */
	uint64_t n_tensors;
	uint32_t *by_name;	  /* [n_tensors] owned: indices of tensors in order of their names' bytes */
	const char *const *names; /* borrows: of the files that gguf_join put together; NULL: there is one file */
};

/* Parses the first n_bytes of a file of file_bytes. 0; -EAGAIN: at least *need_bytes are needed, call again with more;
 * -EINVAL: malformed; -ENOTSUP: a version or tensor type this program does not read (named); -ENOMEM. The bytes must
 * outlive *out. */
int gguf_parse(const void *bytes, uint64_t n_bytes, uint64_t file_bytes, struct gguf *out, uint64_t *need_bytes,
	       struct err *err);
void gguf_fini(struct gguf *gguf);

/* Makes the headers of a split model's files, parsed each by itself, into one: keys of the first, tensors of all. They
 * say of themselves which part of how many they are (split.no, split.count, split.tensors.count, as llama.cpp's
 * gguf-split writes them), and that has to be so; no tensor may be there twice; what a later part says in a key that
 * the first has, too, has to be the same. One file, too, is a model only if it doesn't say that it is a part. Takes
 * parts[n] on success; borrows their files' names[n], which are in all messages. -EINVAL, -ENOMEM. */
int gguf_join(struct gguf *parts, const char *const *names, uint32_t n, struct gguf *out, struct err *err);

/* "offset 4096", or where there are several files "NAME, offset 4096". Returns `out`. */
const char *gguf_place(const struct gguf *gguf, const struct gguf_tensor *tensor, char out[GGUF_PLACE_BYTES]);

/* A string of the file as messages show it: cut, and with '?' for every byte that isn't printable ASCII. Returns `out`.
 */
const char *gguf_quote(const struct gguf_string *string, char out[GGUF_QUOTE_BYTES]);

/* "Q4_1"; "?" for a number that is no tensor type. Also names types that gguf_parse refuses. */
const char *gguf_tensor_type_name(uint32_t type);

/* NULL when there is no tensor of this name. */
const struct gguf_tensor *gguf_find_tensor(const struct gguf *gguf, const char *name);

/* Looks a key up; NULL when absent. The getters are 0, -ENOENT (absent), -EINVAL (another type, out of range); integers
 * of any width are taken if the value fits. */
const struct gguf_value *gguf_find(const struct gguf *gguf, const char *key);
int gguf_get_u32(const struct gguf *gguf, const char *key, uint32_t *out, struct err *err);
int gguf_get_f32(const struct gguf *gguf, const char *key, float *out, struct err *err);
int gguf_get_bool(const struct gguf *gguf, const char *key, bool *out, struct err *err);
int gguf_get_string(const struct gguf *gguf, const char *key, struct gguf_string *out, struct err *err);
/* All strings of an array: *out returns owned (one allocation), elements are views. */
int gguf_get_strings(const struct gguf *gguf, const char *key, struct gguf_string **out, uint64_t *n, struct err *err);
int gguf_get_i32s(const struct gguf *gguf, const char *key, int32_t **out, uint64_t *n, struct err *err);
/* All floats of an array of FLOAT32, whatever they are: *out returns owned. */
int gguf_get_f32s(const struct gguf *gguf, const char *key, float **out, uint64_t *n, struct err *err);

#endif
