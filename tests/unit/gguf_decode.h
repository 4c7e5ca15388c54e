/* One row of a tensor in its file form as float32, written from the format's description and from nothing else: what
 * the loader's packing and the kernels' unpacking are held against. */
#ifndef WEIGHTD_TESTS_GGUF_DECODE_H
#define WEIGHTD_TESTS_GGUF_DECODE_H

#include <stdint.h>

/* `type`: enum gguf_tensor_type. `row`: the row's blocks. `out`: [cols] */
void gguf_decode_row(uint32_t type, const uint8_t *row, uint32_t cols, float *out);

#endif
