/* The qwen2 family, Qwen 2 and 2.5: as llama, with biases on queries, keys and values, and rotation of halves.
 * Sources: Yang et al., 2024; tensor and key names: GGUF's list of standardized names. */
#include "src/engine/family.h"

static const struct family_shape layer[] = {
	{IMAGE_ATTN_NORM, "blk.%.attn_norm.weight", "model.layers.%.input_layernorm.weight", FAMILY_ONE, FAMILY_DIM},
	{IMAGE_ATTN_Q, "blk.%.attn_q.weight", "model.layers.%.self_attn.q_proj.weight", FAMILY_QUERY, FAMILY_DIM},
	{IMAGE_ATTN_Q_BIAS, "blk.%.attn_q.bias", "model.layers.%.self_attn.q_proj.bias", FAMILY_ONE, FAMILY_QUERY},
	{IMAGE_ATTN_K, "blk.%.attn_k.weight", "model.layers.%.self_attn.k_proj.weight", FAMILY_KEY_VALUE, FAMILY_DIM},
	{IMAGE_ATTN_K_BIAS, "blk.%.attn_k.bias", "model.layers.%.self_attn.k_proj.bias", FAMILY_ONE, FAMILY_KEY_VALUE},
	{IMAGE_ATTN_V, "blk.%.attn_v.weight", "model.layers.%.self_attn.v_proj.weight", FAMILY_KEY_VALUE, FAMILY_DIM},
	{IMAGE_ATTN_V_BIAS, "blk.%.attn_v.bias", "model.layers.%.self_attn.v_proj.bias", FAMILY_ONE, FAMILY_KEY_VALUE},
	{IMAGE_ATTN_OUTPUT, "blk.%.attn_output.weight", "model.layers.%.self_attn.o_proj.weight", FAMILY_DIM,
	 FAMILY_QUERY},
	{IMAGE_FFN_NORM, "blk.%.ffn_norm.weight", "model.layers.%.post_attention_layernorm.weight", FAMILY_ONE,
	 FAMILY_DIM},
	{IMAGE_FFN_GATE, "blk.%.ffn_gate.weight", "model.layers.%.mlp.gate_proj.weight", FAMILY_FFN, FAMILY_DIM},
	{IMAGE_FFN_UP, "blk.%.ffn_up.weight", "model.layers.%.mlp.up_proj.weight", FAMILY_FFN, FAMILY_DIM},
	{IMAGE_FFN_DOWN, "blk.%.ffn_down.weight", "model.layers.%.mlp.down_proj.weight", FAMILY_DIM, FAMILY_FFN},
};

const struct family family_qwen2 = {
	.id = IMAGE_FAMILY_QWEN2,
	.name = "qwen2",
	.layer = layer,
	.n_of_layer = sizeof layer / sizeof *layer,
	.activation = IMAGE_SILU,
};
