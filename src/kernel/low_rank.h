/* What low_rank_avx2.c and low_rank_avx512.c share: the constants that their functions are written once for. */
#ifndef WEIGHTD_KERNEL_LOW_RANK_H
#define WEIGHTD_KERNEL_LOW_RANK_H

#include "src/kernel/kernel.h"

/* A kind of values and a number of rows as one number, to switch by. */
#define LOW_RANK_CASE(kind, n_rows) ((kind) * (LOW_RANK_ROWS + 1) + (n_rows))

/* X(kind, n_rows) for each. */
#define LOW_RANK_EACH_NUMBER(X, kind) X(kind, 1) X(kind, 2) X(kind, 3) X(kind, 4)
#define LOW_RANK_EACH(X)                  \
	LOW_RANK_EACH_NUMBER(X, PACK_F32) \
	LOW_RANK_EACH_NUMBER(X, PACK_F16) \
	LOW_RANK_EACH_NUMBER(X, PACK_BF16)

#endif
