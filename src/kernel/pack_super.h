/* Packing of k-quants, private to pack.c. */
#ifndef WEIGHTD_KERNEL_PACK_SUPER_H
#define WEIGHTD_KERNEL_PACK_SUPER_H

#include <stddef.h>
#include <stdint.h>

#include "src/kernel/pack.h"

/* One super-block of `n_rows` (1..16) rows: `source` is the first row's block in the file, the next rows' are
 * `row_bytes` apart. Missing rows are left alone. Nothing happens for other kinds. */
void pack_super_block(enum pack_kind kind, uint8_t *block, const uint8_t *source, size_t row_bytes, uint32_t n_rows);

#endif
