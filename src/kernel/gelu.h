/* Constants of the tanh approximation of GELU: u = sqrt(2 / pi) (x + 0.044715 x^3), and what its levels need is 2u. */
#ifndef WEIGHTD_KERNEL_GELU_H
#define WEIGHTD_KERNEL_GELU_H

#define GELU_LINEAR 1.5957691216057308f		     /* 2 sqrt(2 / pi) */
#define GELU_CUBIC (0.044715f * 1.5957691216057308f) /* times x^3 */

/* The exact one, for the vector levels. The share below -a, a >= 0, is e^(-a^2 / 2) r(a), and r falls so slowly that a
 * polynomial in t = 1 / (1 + GELU_T a) without a constant term (Hastings' form, 1955) follows it to where the float32
 * exponential ends: fitted for the smallest largest relative error on 0 <= a <= 15, 3.4e-8 with the coefficients
 * rounded to float32, of t, t^2, ... t^9. Evaluated in float32 it is 6 units of 2^-24 from r. */
#define GELU_T 0.26f
#define GELU_R1 0x1.a8fb24p-4f
#define GELU_R2 0x1.a63a66p-4f
#define GELU_R3 0x1.a415f2p-4f
#define GELU_R4 0x1.b1073ep-5f
#define GELU_R5 0x1.40d2b4p-3f
#define GELU_R6 (-0x1.28675ep-3f)
#define GELU_R7 0x1.f7e714p-3f
#define GELU_R8 (-0x1.3395d6p-3f)
#define GELU_R9 0x1.eadee2p-6f

#endif
