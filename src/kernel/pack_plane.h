/* Codes of a group on their way from a file's block to planes (pack.h): one code a byte in between. */
#ifndef WEIGHTD_KERNEL_PACK_PLANE_H
#define WEIGHTD_KERNEL_PACK_PLANE_H

#include <stdint.h>
#include <string.h>

#include "src/kernel/layout.h"
#include "src/kernel/pack.h"

struct codes {
	uint8_t at[PACK_GROUP];
};

/* Adds bits `lowest` .. `lowest` + n_bits - 1 of `bytes` [n] to the codes from `first` on, as their bits from `to` on.
 */
ALWAYS_INLINE void codes_add(struct codes *codes, uint32_t first, uint32_t n, const uint8_t *bytes, unsigned lowest,
			     unsigned n_bits, unsigned to)
{
	for (uint32_t i = 0; i < n; i++)
		codes->at[first + i] |= (uint8_t)((bytes[i] >> lowest & ((1u << n_bits) - 1)) << to);
}

/* The `n_bits` low bits of eight bytes (the first in the lowest): those of the even ones beside each other in the lower
 * 16 bits, those of the odd ones in the upper. */
ALWAYS_INLINE uint32_t plane_octet(uint64_t eight, unsigned n_bits)
{
	const uint64_t field = (1u << n_bits) - 1, mask = field * 0x0001000100010001;
	const unsigned closer = 16 - n_bits;
	uint64_t even = eight & mask, odd = eight >> 8 & mask;

	even |= even >> closer | even >> 2 * closer | even >> 3 * closer;
	odd |= odd >> closer | odd >> 2 * closer | odd >> 3 * closer;
	even &= (1u << 4 * n_bits) - 1;
	odd &= (1u << 4 * n_bits) - 1;
	return (uint32_t)(even | odd << 16);
}

/* Bits `lowest` .. `lowest` + n_bits - 1 of each code to `row` of a plane. */
ALWAYS_INLINE void plane_put(uint8_t *plane, uint32_t row, const struct codes *codes, unsigned lowest, unsigned n_bits)
{
	uint32_t words[4] = {0};

	for (unsigned octet = 0; octet < PACK_GROUP / 8; octet++) {
		uint64_t eight;
		memcpy(&eight, codes->at + 8 * (size_t)octet, sizeof eight);
		words[octet * n_bits / 4] |= plane_octet(eight >> lowest, n_bits) << 4 * n_bits * octet % 16;
	}
	for (unsigned j = 0; j < n_bits; j++)
		memcpy(plane + 4 * (size_t)(j * PACK_ROWS + row), &words[j], sizeof words[j]);
}

/* A row's codes to the planes of its kind. */
ALWAYS_INLINE void planes_put(enum pack_kind kind, uint8_t *planes, uint32_t row, const struct codes *codes)
{
	const struct layout l = layout_of(kind);

	plane_put(planes, row, codes, 0, l.low_bits);
	if (l.high_bits)
		plane_put(planes + (size_t)l.low_bits * LAYOUT_PLANE_BYTES, row, codes, l.low_bits, l.high_bits);
}

#endif
