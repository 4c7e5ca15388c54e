#include "src/format/gguf_type.h"
#include "src/format/gguf.h"

#include <stddef.h>

static const struct gguf_type types[] = {
	[GGUF_TENSOR_F32] = {"F32", 1, 4},
	[GGUF_TENSOR_F16] = {"F16", 1, 2},
	[GGUF_TENSOR_Q4_0] = {"Q4_0", 32, 18},
	[GGUF_TENSOR_Q4_1] = {"Q4_1", 32, 20},
	[GGUF_TENSOR_Q5_0] = {"Q5_0", 32, 22},
	[GGUF_TENSOR_Q5_1] = {"Q5_1", 32, 24},
	[GGUF_TENSOR_Q8_0] = {"Q8_0", 32, 34},
	[9] = {"Q8_1", 0, 0},
	[GGUF_TENSOR_Q2_K] = {"Q2_K", 256, 84},
	[GGUF_TENSOR_Q3_K] = {"Q3_K", 256, 110},
	[GGUF_TENSOR_Q4_K] = {"Q4_K", 256, 144},
	[GGUF_TENSOR_Q5_K] = {"Q5_K", 256, 176},
	[GGUF_TENSOR_Q6_K] = {"Q6_K", 256, 210},
	[15] = {"Q8_K", 0, 0},
	[16] = {"IQ2_XXS", 0, 0},
	[17] = {"IQ2_XS", 0, 0},
	[18] = {"IQ3_XXS", 0, 0},
	[19] = {"IQ1_S", 0, 0},
	[GGUF_TENSOR_IQ4_NL] = {"IQ4_NL", 32, 18},
	[21] = {"IQ3_S", 0, 0},
	[22] = {"IQ2_S", 0, 0},
	[23] = {"IQ4_XS", 0, 0},
	[24] = {"I8", 0, 0},
	[25] = {"I16", 0, 0},
	[26] = {"I32", 0, 0},
	[27] = {"I64", 0, 0},
	[28] = {"F64", 0, 0},
	[29] = {"IQ1_M", 0, 0},
	[GGUF_TENSOR_BF16] = {"BF16", 1, 2},
	[34] = {"TQ1_0", 0, 0},
	[35] = {"TQ2_0", 0, 0},
	[39] = {"MXFP4", 0, 0},
	[40] = {"NVFP4", 0, 0},
};

const struct gguf_type *gguf_type(uint32_t type)
{
	return type < sizeof types / sizeof *types && types[type].name ? &types[type] : NULL;
}

const char *gguf_tensor_type_name(uint32_t type)
{
	return gguf_type(type) ? gguf_type(type)->name : "?";
}
