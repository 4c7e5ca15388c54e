/* A model as the engine sees it: pointers into the shared, read-only image, made once at attach. Nothing of it is
 * private to a call, and nothing in it is ever written. */
#ifndef WEIGHTD_ENGINE_MODEL_H
#define WEIGHTD_ENGINE_MODEL_H

#include "src/engine/image.h"
#include "src/engine/speech_table.h"
#include "src/kernel/gemm.h"
#include "src/kernel/pack.h"

/* What a family's layers don't have is NULL, or a matrix without rows, and skipped. */
struct model_layer {
	const float *attn_norm;	       /* [dim] */
	const float *attn_norm_bias;   /* [dim] or NULL: a layer norm has one */
	struct matrix attn_q;	       /* [n_heads * head_dim][dim] */
	struct matrix attn_k;	       /* [n_kv_heads * head_dim][dim] */
	struct matrix attn_v;	       /* [n_kv_heads * head_dim][dim] */
	struct matrix attn_output;     /* [dim][n_heads * head_dim] */
	const float *attn_q_bias;      /* [n_heads * head_dim] or NULL */
	const float *attn_k_bias;      /* [n_kv_heads * head_dim] or NULL */
	const float *attn_v_bias;      /* [n_kv_heads * head_dim] or NULL */
	const float *attn_q_norm;      /* [head_dim] or NULL */
	const float *attn_k_norm;      /* [head_dim] or NULL */
	const float *attn_output_bias; /* [dim] or NULL */
	const float *attn_post_norm;   /* [dim] or NULL */
	uint32_t window;	       /* positions it attends, the row's own included; 0: all */
	/* Attention to the encoder's positions: of a speech model's decoder. */
	const float *cross_norm;	/* [dim] or NULL */
	const float *cross_norm_bias;	/* [dim] or NULL */
	struct matrix cross_q;		/* [n_heads * head_dim][dim] */
	struct matrix cross_k;		/* [n_kv_heads * head_dim][dim] */
	struct matrix cross_v;		/* [n_kv_heads * head_dim][dim] */
	struct matrix cross_output;	/* [dim][n_heads * head_dim] */
	const float *cross_q_bias;	/* [n_heads * head_dim] or NULL */
	const float *cross_v_bias;	/* [n_kv_heads * head_dim] or NULL */
	const float *cross_output_bias; /* [dim] or NULL */
	const float *ffn_norm;		/* [dim] */
	const float *ffn_norm_bias;	/* [dim] or NULL */
	struct matrix ffn_gate;		/* [ffn_dim][dim] */
	struct matrix ffn_up;		/* [ffn_dim][dim] */
	struct matrix ffn_down;		/* [dim][ffn_dim] */
	const float *ffn_up_bias;	/* [ffn_dim] or NULL */
	const float *ffn_down_bias;	/* [dim] or NULL */
	const float *ffn_post_norm;	/* [dim] or NULL */
};

/* The tower of a speech model that hears. Convolutions are over three frames laid side by side. */
struct model_encoder {
	struct matrix conv1;	     /* [dim][3 * mel_bins, padded to a multiple of 32]: column tap * mel_bins + bin */
	const float *conv1_bias;     /* [dim] */
	struct matrix conv2;	     /* [dim][3 * dim]: column tap * dim + channel */
	const float *conv2_bias;     /* [dim] */
	struct matrix position_embd; /* [encoder_context][dim] */
	struct model_layer *layers;  /* [encoder_layers] owned; NULL: the model has no encoder */
	const float *output_norm, *output_norm_bias; /* [dim] */
};

struct model {
	struct image_config config;
	struct model_layer *layers;    /* [n_layers] owned */
	struct matrix token_embd;      /* [vocab][dim] */
	struct matrix head;	       /* [vocab][dim]; the same object as token_embd when tied */
	const float *output_norm;      /* [dim] */
	const float *output_norm_bias; /* [dim] or NULL */
	struct matrix position_embd;   /* [context][dim], where positions are learned */
	struct model_encoder encoder;
	const struct speech_table *speech; /* view; NULL: not a speech model */
	const float *rope_divisors;	   /* [rope_dim / 2] or NULL */
	const void *tokenizer;		   /* table of tokenizer_bytes, view */
	uint64_t tokenizer_bytes;
	const char *chat_template; /* Jinja source of template_bytes, view; 0 bytes: none */
	uint64_t template_bytes;
};

/* Checks the image (image_check) and points into it; the image must outlive the model. -EINVAL, -ENOMEM. */
int model_open(const void *image, uint64_t bytes, struct model *out, struct err *err);
void model_close(struct model *model);

/* All matrices of the model that rows are multiplied by: writes up to `max`, returns how many there are. */
uint32_t model_matrices(const struct model *model, struct matrix *out, uint32_t max);
/* gemm_new for all of them; freed with gemm_free. `numerics` are the worker's. 0, -ENOMEM, or what gemm_new says. */
int model_gemm(const struct model *model, enum cpu_level level, enum numerics numerics, struct gemm **out,
	       struct err *err);

#endif
