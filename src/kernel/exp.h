/* e^x for the vector levels: the constants that they share.
 *
 * x = n ln 2 + r with n the nearest integer to x / ln 2, so |r| <= ln 2 / 2 and e^x = 2^n e^r. ln 2 is subtracted in
 * two parts, the first short enough for n times it to be exact (Cody and Waite). e^r is 1 + r + r^2 q(r); q of degree 4
 * was fitted for the smallest largest relative error on that interval: 3.7e-9 with the coefficients rounded to float32,
 * a sixteenth of half a unit in the last place. What is left is the rounding of the last two additions: below one unit.
 */
#ifndef WEIGHTD_KERNEL_EXP_H
#define WEIGHTD_KERNEL_EXP_H

#define EXP_LOG2_E 0x1.715476p+0f
#define EXP_LN2_HIGH 0x1.62e4p-1f
#define EXP_LN2_LOW 0x1.7f7d1cp-20f
#define EXP_Q0 0x1.fffffcp-2f
#define EXP_Q1 0x1.555492p-3f
#define EXP_Q2 0x1.5558f4p-5f
#define EXP_Q3 0x1.123a20p-7f
#define EXP_Q4 0x1.6a23c8p-10f

/* Beyond these the result is infinite or rounds to zero; clamping there keeps n small and infinities out of r. */
#define EXP_HIGHEST 89.0f
#define EXP_LOWEST (-104.0f)

#endif
