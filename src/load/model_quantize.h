/* What the matrices of a folder are made to be while they are loaded: the key quantize of a model. */
#ifndef WEIGHTD_MODEL_QUANTIZE_H
#define WEIGHTD_MODEL_QUANTIZE_H

enum model_quantize { /* written to segments: never renumber */
		      MODEL_AS_STORED = 0,
		      MODEL_BF16 = 1,
		      MODEL_INT8 = 2, /* q8_0 */
		      MODEL_INT4 = 3, /* q4_0; embeddings and output matrix q8_0: small models need these most */
};

#endif
