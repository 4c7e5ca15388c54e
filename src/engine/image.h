/* The model image: everything a worker needs of a model, packed and position independent, so that attaching is mapping
 * and checking. The loader writes it into a segment behind the segment's header page (shm/layout.h); the engine reads
 * it there. Offsets count from the image's first byte and are multiples of 64.
 *
 *   image_header | image_tensor[n_tensors] | packed matrices and float32 vectors ... | tokenizer table | chat template
 *   | speech table
 *
 * A speech model has two towers, an encoder over sound and a decoder over tokens. Its hyperparameters and roles are the
 * decoder's, as in every other model; IMAGE_OF_ENCODER beside a role makes it the encoder's. */
#ifndef WEIGHTD_ENGINE_IMAGE_H
#define WEIGHTD_ENGINE_IMAGE_H

#include <assert.h>
#include <stdint.h>

#include "src/err.h"
#include "src/kernel/pack.h"

#define IMAGE_MAGIC 0x31474d4944544857ull /* "WHTDIMG1" */
enum { IMAGE_VERSION = 4, IMAGE_ALIGN = 64 };

/* All enums here are written to segments: never renumber. */
enum image_family {
	IMAGE_FAMILY_LLAMA = 1,
	IMAGE_FAMILY_QWEN2 = 2,
	IMAGE_FAMILY_QWEN3 = 3,
	IMAGE_FAMILY_GEMMA3 = 4,
	IMAGE_FAMILY_WHISPER = 5,
};

enum image_activation {
	IMAGE_SILU = 0,
	IMAGE_GELU_TANH = 1,
	IMAGE_GELU = 2, /* exact, with erf */
};

/* Which values of a head are rotated together. */
enum image_rope_pairing {
	IMAGE_ROPE_PAIRS = 0,  /* (2i, 2i + 1): llama in GGUF files */
	IMAGE_ROPE_HALVES = 1, /* (i, i + rope_dim / 2): all others, and llama in Hugging Face files */
};

/* What is done to rotary frequencies for contexts beyond those of the training (src/engine/rope.h). */
enum image_rope_scaling {
	IMAGE_ROPE_UNSCALED = 0,
	IMAGE_ROPE_LINEAR = 1,	/* factor */
	IMAGE_ROPE_YARN = 2,	/* factor, original_context, low, high, magnitude */
	IMAGE_ROPE_LLAMA3 = 3,	/* factor, original_context, low, high */
	IMAGE_ROPE_DIVISORS = 4 /* the vector IMAGE_ROPE_FREQS: what each frequency is divided by */
};

/* Hyperparameters, checked by the family (family_check) before they are written here. What a model has no use for is 0.
 */
struct image_config {
	uint32_t family; /* enum image_family */
	uint32_t n_layers;
	uint32_t dim;
	uint32_t n_heads;
	uint32_t n_kv_heads;
	uint32_t head_dim;
	uint32_t ffn_dim;
	uint32_t vocab;
	uint32_t context; /* positions the model was trained for */
	uint32_t rope_dim;
	float rope_base;
	float norm_eps;
	uint32_t tied_head;	   /* 1: the head is the embedding matrix */
	uint32_t activation;	   /* enum image_activation: of the gate */
	float embedding_scale;	   /* embeddings are multiplied by it */
	float attention_scale;	   /* so are the products of queries and keys; mostly 1 / sqrt(head_dim) */
	uint32_t window;	   /* positions that a layer attends, its own included; 0: all */
	uint32_t window_period;	   /* every n-th layer attends all positions in spite of the window; 0: none does */
	float window_rope_base;	   /* rotary base of the layers with a window, unscaled; 0: as in the others */
	uint32_t rope_pairing;	   /* enum image_rope_pairing */
	uint32_t rope_scaling;	   /* enum image_rope_scaling, which says which of the rest are used */
	float rope_factor;	   /* positions are this much closer to each other than in the training */
	uint32_t rope_original;	   /* positions of the training before it was extended */
	float rope_low, rope_high; /* turns within rope_original: below low a frequency is scaled, above high kept */
	float rope_magnitude;	   /* cosines and sines are multiplied by it */
	/* Of speech models; the encoder's dim, heads and ffn_dim are the decoder's. */
	uint32_t encoder_layers;
	uint32_t encoder_context; /* positions of a window of sound, behind the second convolution */
	uint32_t mel_bins;	  /* of a frame of sound, two of which make a position */
	uint32_t pad[3];
};
static_assert(sizeof(struct image_config) == 128, "image_config is part of the segment layout");

enum image_role {
	IMAGE_TOKEN_EMBD = 1, /* matrix [vocab][dim] */
	IMAGE_OUTPUT_NORM,    /* vector [dim] */
	IMAGE_OUTPUT,	      /* matrix [vocab][dim], absent when tied */
	IMAGE_ATTN_NORM,      /* vector [dim], per layer, as all below */
	IMAGE_ATTN_Q,	      /* matrix [n_heads * head_dim][dim] */
	IMAGE_ATTN_K,	      /* matrix [n_kv_heads * head_dim][dim] */
	IMAGE_ATTN_V,	      /* matrix [n_kv_heads * head_dim][dim] */
	IMAGE_ATTN_OUTPUT,    /* matrix [dim][n_heads * head_dim] */
	IMAGE_FFN_NORM,	      /* vector [dim] */
	IMAGE_FFN_GATE,	      /* matrix [ffn_dim][dim] */
	IMAGE_FFN_UP,	      /* matrix [ffn_dim][dim] */
	IMAGE_FFN_DOWN,	      /* matrix [dim][ffn_dim] */
	IMAGE_ATTN_Q_BIAS,    /* vector [n_heads * head_dim] */
	IMAGE_ATTN_K_BIAS,    /* vector [n_kv_heads * head_dim] */
	IMAGE_ATTN_V_BIAS,    /* vector [n_kv_heads * head_dim] */
	IMAGE_ATTN_Q_NORM,    /* vector [head_dim], over each query head */
	IMAGE_ATTN_K_NORM,    /* vector [head_dim], over each key head */
	IMAGE_ATTN_POST_NORM, /* vector [dim], over attention's output before it is added */
	IMAGE_FFN_POST_NORM,  /* vector [dim] */
	IMAGE_ROPE_FREQS,     /* vector [rope_dim / 2], the model's own; with IMAGE_ROPE_DIVISORS */

	/* Of families with layer norms, whose norms have biases, and with positions that were learned. */
	IMAGE_OUTPUT_NORM_BIAS,	 /* vector [dim], the model's own */
	IMAGE_POSITION_EMBD,	 /* matrix [context][dim], the model's own; the encoder's [encoder_context][dim] */
	IMAGE_ATTN_NORM_BIAS,	 /* vector [dim], per layer, as all below */
	IMAGE_ATTN_OUTPUT_BIAS,	 /* vector [dim] */
	IMAGE_FFN_NORM_BIAS,	 /* vector [dim] */
	IMAGE_FFN_UP_BIAS,	 /* vector [ffn_dim] */
	IMAGE_FFN_DOWN_BIAS,	 /* vector [dim] */
	IMAGE_CROSS_NORM,	 /* vector [dim]; what is called cross attends to the encoder's positions */
	IMAGE_CROSS_NORM_BIAS,	 /* vector [dim] */
	IMAGE_CROSS_Q,		 /* matrix [n_heads * head_dim][dim] */
	IMAGE_CROSS_Q_BIAS,	 /* vector [n_heads * head_dim] */
	IMAGE_CROSS_K,		 /* matrix [n_kv_heads * head_dim][dim] */
	IMAGE_CROSS_V,		 /* matrix [n_kv_heads * head_dim][dim] */
	IMAGE_CROSS_V_BIAS,	 /* vector [n_kv_heads * head_dim] */
	IMAGE_CROSS_OUTPUT,	 /* matrix [dim][n_heads * head_dim] */
	IMAGE_CROSS_OUTPUT_BIAS, /* vector [dim] */

	/* The encoder's own. A convolution over three frames is a matrix over them laid side by side: column tap *
	 * channels + channel, then zeros up to a multiple of 32. */
	IMAGE_CONV1,	  /* matrix [dim][3 * mel_bins, rounded up to a multiple of 32] */
	IMAGE_CONV1_BIAS, /* vector [dim] */
	IMAGE_CONV2,	  /* matrix [dim][3 * dim] */
	IMAGE_CONV2_BIAS, /* vector [dim] */

	IMAGE_OF_ENCODER = 1 << 8, /* a bit beside a role */
};

struct image_tensor {
	uint32_t role;	 /* enum image_role */
	uint32_t layer;	 /* 0 for the model's own tensors */
	uint32_t kind;	 /* enum pack_kind; vectors are PACK_F32 with vector = 1 */
	uint32_t vector; /* 1: plain float32 [cols], rows = 1 */
	uint32_t rows;
	uint32_t cols;
	uint64_t offset; /* from the image's first byte, 64-byte aligned */
	uint64_t bytes;
};
static_assert(sizeof(struct image_tensor) == 40, "image_tensor is part of the segment layout");

struct image_header {
	uint64_t magic;
	uint32_t version;
	uint32_t n_tensors;
	uint64_t image_bytes;
	uint64_t tensors_offset;
	uint64_t tokenizer_offset, tokenizer_bytes;
	uint64_t template_offset, template_bytes; /* Jinja source, not terminated; 0 bytes: the model has none */
	uint64_t speech_offset, speech_bytes;	  /* struct speech_table; 0 bytes: not a speech model */
	struct image_config config;
};
static_assert(sizeof(struct image_header) == 208, "image_header is part of the segment layout");

/* Lengths of what an image has behind its tensors. */
struct image_tables {
	uint64_t tokenizer_bytes, template_bytes, speech_bytes;
};

/* Lays out `tensors` [n] (role, layer, kind, vector, rows, cols set by the caller): fills offset and bytes of each, in
 * the given order, and the header. Returns 0, -EOVERFLOW. */
int image_plan(const struct image_config *config, struct image_tensor *tensors, uint32_t n,
	       const struct image_tables *tables, struct image_header *out, struct err *err);

/* Checks a whole image at `image` of `bytes` readable bytes: magic, version, every offset, size, alignment and
 * hyperparameter. Trusts nothing. Returns 0 or -EINVAL. */
int image_check(const void *image, uint64_t bytes, struct err *err);

#endif
