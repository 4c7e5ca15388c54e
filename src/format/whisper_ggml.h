/* Whisper models in whisper.cpp's own files ("ggml-base.bin"). Source: what its converters write, documented in code.
 *
 *   "lmgg" | 11 x i32 hyperparameters | i32 bins, i32 columns, float32 mel filters [bins][columns]
 *   i32 n words | n x: u32 length, bytes
 *   to the end of the file: i32 n_dims | i32 length of the name | i32 type | i32 extent[n_dims] | name | data
 *
 * Everything is little-endian; extents begin with the fastest. Words are the bytes of tokens in the order of their ids,
 * which is the order of merges, too. Tensors' headers lie between their data, so this is a walk as in ctranslate2.h:
 * the caller gives it the bytes where it stands. It believes nothing: lengths are those of types and shapes, all lies
 * in the file, no name comes twice. Messages name offset and field or tensor. */
#ifndef WEIGHTD_FORMAT_WHISPER_GGML_H
#define WEIGHTD_FORMAT_WHISPER_GGML_H

#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

enum {
	WHISPER_GGML_MAGIC = 0x67676d6c,
	WHISPER_GGML_NAME_BYTES = 64, /* of a tensor, terminator included */
	WHISPER_GGML_MAX_DIMS = 4,
	WHISPER_GGML_MAX_TENSORS = 8192,
	WHISPER_GGML_MAX_WORDS = 1 << 17,
	WHISPER_GGML_WORD_BYTES = 64,	    /* at most; the longest of the known ones has 33 */
	WHISPER_GGML_WORDS_BYTES = 2 << 20, /* of all together */
	WHISPER_GGML_LOOK_BYTES = 4096,	    /* no header is longer, and words come many at a time */
};

/* In the file's order. */
struct whisper_ggml_config {
	uint32_t vocab, encoder_context, encoder_dim, encoder_heads, encoder_layers;
	uint32_t context, dim, heads, layers, mel_bins;
	uint32_t type; /* 1000 * version of quantized blocks + number of the type of most weights */
};

struct whisper_ggml_word {
	uint32_t begin, n_bytes; /* in the pool */
};

struct whisper_ggml_tensor {
	char name[WHISPER_GGML_NAME_BYTES];
	uint32_t type; /* of enum gguf_tensor_type, which has the same numbers */
	uint32_t n_dims;
	uint32_t dim[WHISPER_GGML_MAX_DIMS]; /* the first is the fastest; those that aren't there are 1 */
	uint64_t offset, bytes;		     /* of its data in the file */
};

struct whisper_ggml {
	struct whisper_ggml_config config;
	struct whisper_ggml_word *words; /* [n_words] owned */
	uint32_t n_words;
	char *pool; /* [n_pool] owned */
	uint32_t n_pool;
	struct whisper_ggml_tensor *tensors; /* [n_tensors] owned, in the file's order */
	uint32_t n_tensors;
	/* The walk: where it stands, and what it expects. */
	uint64_t offset;
	uint32_t n_expected_words;
	enum whisper_ggml_part {
		WHISPER_GGML_HEAD,
		WHISPER_GGML_WORD_COUNT,
		WHISPER_GGML_WORDS,
		WHISPER_GGML_TENSOR,
		WHISPER_GGML_END
	} part;
};

/* One step of a file of file_bytes, from a zeroed struct to part WHISPER_GGML_END: `bytes` [n_bytes] are those from
 * file->offset on, WHISPER_GGML_LOOK_BYTES or up to the end. 0; -EINVAL: malformed; -ENOTSUP: a type that this program
 * does not read; -ENOMEM. On failure, too, the struct is the caller's to fini. */
int whisper_ggml_step(struct whisper_ggml *file, uint64_t file_bytes, const void *bytes, size_t n_bytes,
		      struct err *err);
void whisper_ggml_fini(struct whisper_ggml *file);

/* NULL when there is none of this name. */
const struct whisper_ggml_tensor *whisper_ggml_find(const struct whisper_ggml *file, const char *name);

#endif
