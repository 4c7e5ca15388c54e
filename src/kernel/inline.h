/* Functions written once for several constants: kinds of packing, numbers of rows. Inlined with the constant as
 * argument, loops over it unrolled, so that arrays of vectors become registers. */
#ifndef WEIGHTD_KERNEL_INLINE_H
#define WEIGHTD_KERNEL_INLINE_H

#define ALWAYS_INLINE __attribute__((always_inline)) static inline

/* Before a loop of at most 16 rounds whose number is known once inlined. clang takes a number that is larger than the
 * loop's for a wish to unroll late, when arrays have gone to memory already. */
#ifdef __clang__
#if __has_feature(address_sanitizer)
#define UNROLL /* a checked load is a branch: a hundred unrolled ones take a minute to compile */
#else
#define UNROLL _Pragma("clang loop unroll(full)")
#endif
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
