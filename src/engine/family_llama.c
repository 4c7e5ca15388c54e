/* The llama family: RMS norm, rotary positions, grouped-query attention, SwiGLU; no biases. Mistral and SmolLM2 are of
 * it, the former with a window in some versions.
 * Sources: Touvron et al., 2023; Jiang et al., 2023; tensor and key names: GGUF's list of standardized names. */
#include "src/engine/family.h"

static const struct family_shape layer[] = {
	{IMAGE_ATTN_NORM, "blk.%.attn_norm.weight", "model.layers.%.input_layernorm.weight", FAMILY_ONE, FAMILY_DIM},
	{IMAGE_ATTN_Q, "blk.%.attn_q.weight", "model.layers.%.self_attn.q_proj.weight", FAMILY_QUERY, FAMILY_DIM},
	{IMAGE_ATTN_K, "blk.%.attn_k.weight", "model.layers.%.self_attn.k_proj.weight", FAMILY_KEY_VALUE, FAMILY_DIM},
	{IMAGE_ATTN_V, "blk.%.attn_v.weight", "model.layers.%.self_attn.v_proj.weight", FAMILY_KEY_VALUE, FAMILY_DIM},
	{IMAGE_ATTN_OUTPUT, "blk.%.attn_output.weight", "model.layers.%.self_attn.o_proj.weight", FAMILY_DIM,
	 FAMILY_QUERY},
	{IMAGE_FFN_NORM, "blk.%.ffn_norm.weight", "model.layers.%.post_attention_layernorm.weight", FAMILY_ONE,
	 FAMILY_DIM},
	{IMAGE_FFN_GATE, "blk.%.ffn_gate.weight", "model.layers.%.mlp.gate_proj.weight", FAMILY_FFN, FAMILY_DIM},
	{IMAGE_FFN_UP, "blk.%.ffn_up.weight", "model.layers.%.mlp.up_proj.weight", FAMILY_FFN, FAMILY_DIM},
	{IMAGE_FFN_DOWN, "blk.%.ffn_down.weight", "model.layers.%.mlp.down_proj.weight", FAMILY_DIM, FAMILY_FFN},
};

const struct family family_llama = {
	.id = IMAGE_FAMILY_LLAMA,
	.name = "llama",
	.layer = layer,
	.n_of_layer = sizeof layer / sizeof *layer,
	.activation = IMAGE_SILU,
	.rope_in_pairs = true,
	.may_have_window = true,
};
