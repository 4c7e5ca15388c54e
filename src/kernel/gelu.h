/* Constants of the tanh approximation of GELU: u = sqrt(2 / pi) (x + 0.044715 x^3), and what its levels need is 2u. */
#ifndef WEIGHTD_KERNEL_GELU_H
#define WEIGHTD_KERNEL_GELU_H

#define GELU_LINEAR 1.5957691216057308f		     /* 2 sqrt(2 / pi) */
#define GELU_CUBIC (0.044715f * 1.5957691216057308f) /* times x^3 */

#endif
