/* The gemma3 family (text): embeddings scaled by sqrt(dim); an RMS norm over each query and key head; norms before and
 * after attention and feed-forward; a GELU gate; windows in all layers but every sixth, with a rotary base of their
 * own; a tied head. Source: Gemma Team, 2025. */
#include "src/engine/family.h"

static const struct family_shape layer[] = {
	{IMAGE_ATTN_NORM, "blk.%.attn_norm.weight", "model.layers.%.input_layernorm.weight", FAMILY_ONE, FAMILY_DIM},
	{IMAGE_ATTN_Q, "blk.%.attn_q.weight", "model.layers.%.self_attn.q_proj.weight", FAMILY_QUERY, FAMILY_DIM},
	{IMAGE_ATTN_Q_NORM, "blk.%.attn_q_norm.weight", "model.layers.%.self_attn.q_norm.weight", FAMILY_ONE,
	 FAMILY_HEAD},
	{IMAGE_ATTN_K, "blk.%.attn_k.weight", "model.layers.%.self_attn.k_proj.weight", FAMILY_KEY_VALUE, FAMILY_DIM},
	{IMAGE_ATTN_K_NORM, "blk.%.attn_k_norm.weight", "model.layers.%.self_attn.k_norm.weight", FAMILY_ONE,
	 FAMILY_HEAD},
	{IMAGE_ATTN_V, "blk.%.attn_v.weight", "model.layers.%.self_attn.v_proj.weight", FAMILY_KEY_VALUE, FAMILY_DIM},
	{IMAGE_ATTN_OUTPUT, "blk.%.attn_output.weight", "model.layers.%.self_attn.o_proj.weight", FAMILY_DIM,
	 FAMILY_QUERY},
	{IMAGE_ATTN_POST_NORM, "blk.%.post_attention_norm.weight", "model.layers.%.post_attention_layernorm.weight",
	 FAMILY_ONE, FAMILY_DIM},
	{IMAGE_FFN_NORM, "blk.%.ffn_norm.weight", "model.layers.%.pre_feedforward_layernorm.weight", FAMILY_ONE,
	 FAMILY_DIM},
	{IMAGE_FFN_GATE, "blk.%.ffn_gate.weight", "model.layers.%.mlp.gate_proj.weight", FAMILY_FFN, FAMILY_DIM},
	{IMAGE_FFN_UP, "blk.%.ffn_up.weight", "model.layers.%.mlp.up_proj.weight", FAMILY_FFN, FAMILY_DIM},
	{IMAGE_FFN_DOWN, "blk.%.ffn_down.weight", "model.layers.%.mlp.down_proj.weight", FAMILY_DIM, FAMILY_FFN},
	{IMAGE_FFN_POST_NORM, "blk.%.post_ffw_norm.weight", "model.layers.%.post_feedforward_layernorm.weight",
	 FAMILY_ONE, FAMILY_DIM},
};

const struct family family_gemma3 = {
	.id = IMAGE_FAMILY_GEMMA3,
	.name = "gemma3",
	.layer = layer,
	.n_of_layer = sizeof layer / sizeof *layer,
	.activation = IMAGE_GELU_TANH,
	.scales_embedding = true,
	.may_have_window = true,
	.alternates_window = true,
	.norm_offset = 1,
};
