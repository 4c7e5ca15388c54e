/* Packing for kinds with planes: four rows of a group at a time, each row's 32 codes in one register, a byte a code.
 *
 * Planes want the fields of even columns in the lower half of each word and those of odd columns in the upper one. So
 * a shuffle brings the even columns of each 8 (for 2 bits: 16) before the odd ones, and neighbouring fields grow
 * together by multiplications with 1 and 2^bits that add pairs: bytes to 16 bits, for 2 bits on to 32. Packing those
 * to bytes again puts four rows beside each other: words of 4 rows, as planes have them.
 *
 * Kinds without planes are moved by the definition, whose copies the compiler makes as wide as they can be. */
#include <immintrin.h>
#include <string.h>

#include "src/kernel/levels.h"
#include "src/kernel/pack_super.h"

enum { ROWS_AT_ONCE = 4 };

ALWAYS_INLINE __m256i load_32(const uint8_t *from)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)from);
}

/* The low `n_bits` of every byte, after a shift. */
ALWAYS_INLINE __m256i field(__m256i bytes, uint32_t shift, uint32_t n_bits)
{
	return _mm256_and_si256(_mm256_srli_epi16(bytes, (int)shift), _mm256_set1_epi8((char)((1u << n_bits) - 1)));
}

/* Of a row's group `g`: the bits of its codes that the first plane has. `source`: the row's block in the file. */
ALWAYS_INLINE __m256i low_codes(enum pack_kind kind, const uint8_t *source, uint32_t g)
{
	const struct super_fields at = super_fields(kind);
	__m128i nibbles;

	switch (kind) {
	case PACK_Q2_K:
	case PACK_Q3_K:
		return field(load_32(source + at.low + g / 4 * 32), g % 4 * 2, 2);
	case PACK_Q4_K:
	case PACK_Q5_K:
		return field(load_32(source + at.low + g / 2 * 32), g % 2 * 4, 4);
	case PACK_Q6_K:
		return field(load_32(source + at.low + g / 4 * 64 + g % 2 * 32), g % 4 / 2 * 4, 4);
	default: /* 16 bytes, behind scales and fifth bits: columns 0..15 in the low halves */
		source += (layout_of(kind).minimum ? 4 : 2) + (layout_of(kind).high_bits ? 4 : 0);
		nibbles = _mm_loadu_si128((const __m128i *)(const void *)source);
		return field(_mm256_set_m128i(_mm_srli_epi16(nibbles, 4), nibbles), 0, 4);
	}
}

/* Stores the words of four rows: lane 0 of `words` has their words `j`, lane 1 those `lane_words` further on. */
ALWAYS_INLINE void put_words(uint8_t *plane, uint32_t row, uint32_t j, uint32_t lane_words, __m256i words)
{
	uint8_t *to = plane + j * (size_t)LAYOUT_PLANE_BYTES + 4 * (size_t)row;

	_mm_storeu_si128((__m128i *)(void *)to, _mm256_castsi256_si128(words));
	_mm_storeu_si128((__m128i *)(void *)(to + lane_words * (size_t)LAYOUT_PLANE_BYTES),
			 _mm256_extracti128_si256(words, 1));
}

/* A plane of 4 bits, rows `row` to `row` + 3. */
ALWAYS_INLINE void put_nibbles(uint8_t *plane, uint32_t row, const __m256i codes[ROWS_AT_ONCE])
{
	const __m256i order =
		_mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
	const __m256i weights = _mm256_set1_epi16(0x1001);
	__m256i pairs[ROWS_AT_ONCE];

	for (int i = 0; i < ROWS_AT_ONCE; i++)
		pairs[i] = _mm256_maddubs_epi16(_mm256_shuffle_epi8(codes[i], order), weights);
	/* Each lane: two words of one row, two of the next. */
	__m256 first = _mm256_castsi256_ps(_mm256_packus_epi16(pairs[0], pairs[1]));
	__m256 second = _mm256_castsi256_ps(_mm256_packus_epi16(pairs[2], pairs[3]));
	put_words(plane, row, 0, 2, _mm256_castps_si256(_mm256_shuffle_ps(first, second, 0x88)));
	put_words(plane, row, 1, 2, _mm256_castps_si256(_mm256_shuffle_ps(first, second, 0xdd)));
}

/* A plane of 2 bits. */
ALWAYS_INLINE void put_pairs(uint8_t *plane, uint32_t row, const __m256i codes[ROWS_AT_ONCE])
{
	const __m256i order =
		_mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
	const __m256i two = _mm256_set1_epi16(0x0401), four = _mm256_set1_epi32(0x00100001);
	__m256i fours[ROWS_AT_ONCE];

	for (int i = 0; i < ROWS_AT_ONCE; i++)
		fours[i] = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_shuffle_epi8(codes[i], order), two), four);
	put_words(
		plane, row, 0, 1,
		_mm256_packus_epi16(_mm256_packus_epi32(fours[0], fours[1]), _mm256_packus_epi32(fours[2], fours[3])));
}

/* Of a row's group: the bit of each code that a second plane of one bit has, in the order of columns. */
ALWAYS_INLINE uint32_t high_bit(enum pack_kind kind, const uint8_t *source, uint32_t g)
{
	uint32_t bits;

	if (layout_of(kind).super)
		return (uint32_t)_mm256_movemask_epi8(
			_mm256_slli_epi16(load_32(source + super_fields(kind).high), 7 - (int)g));
	memcpy(&bits, source + (layout_of(kind).minimum ? 4 : 2), sizeof bits);
	return bits;
}

/* Swaps the fields of `n_bits` in the middle of every four. */
ALWAYS_INLINE uint32_t swap_middle(uint32_t x, uint32_t mask, unsigned n_bits)
{
	uint32_t moved = (x ^ x >> n_bits) & mask;
	return x ^ moved ^ moved << n_bits;
}

/* A plane of one bit: even columns to the lower half, odd ones to the upper. */
ALWAYS_INLINE void put_bits(uint8_t *plane, uint32_t bits[PACK_ROWS])
{
	for (uint32_t row = 0; row < PACK_ROWS; row++) {
		uint32_t x = swap_middle(bits[row], 0x22222222, 1);
		x = swap_middle(x, 0x0c0c0c0c, 2);
		x = swap_middle(x, 0x00f000f0, 4);
		bits[row] = swap_middle(x, 0x0000ff00, 8);
	}
	memcpy(plane, bits, PACK_ROWS * sizeof *bits);
}

/* Group `g` of 16 rows: their planes. */
ALWAYS_INLINE void put_planes(enum pack_kind kind, uint8_t *planes, const uint8_t *source, size_t row_bytes, uint32_t g)
{
	const struct layout l = layout_of(kind);
	uint8_t *high = planes + l.low_bits * (size_t)LAYOUT_PLANE_BYTES;
	uint32_t bits[PACK_ROWS];
	__m256i codes[ROWS_AT_ONCE];

	for (uint32_t row = 0; row < PACK_ROWS; row += ROWS_AT_ONCE) {
		const uint8_t *rows = source + row * row_bytes;
		for (uint32_t i = 0; i < ROWS_AT_ONCE; i++)
			codes[i] = low_codes(kind, rows + i * row_bytes, g);
		if (l.low_bits == 4)
			put_nibbles(planes, row, codes);
		else
			put_pairs(planes, row, codes);
		if (l.high_bits == 2) { /* q6_k */
			for (uint32_t i = 0; i < ROWS_AT_ONCE; i++)
				codes[i] = field(load_32(rows + i * row_bytes + super_fields(kind).high + g / 4 * 32),
						 g % 4 * 2, 2);
			put_pairs(high, row, codes);
		}
	}
	if (l.high_bits != 1)
		return;
	for (uint32_t row = 0; row < PACK_ROWS; row++)
		bits[row] = high_bit(kind, source + row * row_bytes, g);
	put_bits(high, bits);
}

/* A block of 16 rows in the file to a group or a super-block. */
ALWAYS_INLINE void pack_block(enum pack_kind kind, uint8_t *block, const uint8_t *source, size_t row_bytes)
{
	const struct layout l = layout_of(kind);
	uint8_t *scales = block + (l.super ? 0 : layout_code_bytes(kind));

	if (l.super && !l.minimum)
		memset(block + LAYOUT_HALVES_BYTES, 0, LAYOUT_HALVES_BYTES);
	for (uint32_t row = 0; row < PACK_ROWS; row++) {
		const uint8_t *from = source + row * row_bytes;
		if (l.super) {
			super_put_scales(kind, block, row, from);
			continue;
		}
		memcpy(scales + 2 * (size_t)row, from, 2);
		if (l.minimum)
			memcpy(scales + LAYOUT_HALVES_BYTES + 2 * (size_t)row, from + 2, 2);
	}
	if (!l.super)
		put_planes(kind, block, source, row_bytes, 0);
	for (uint32_t g = 0; l.super && g < LAYOUT_SUPER_GROUPS; g++)
		put_planes(kind, block + LAYOUT_HEAD_BYTES + g * (size_t)l.group_bytes, source, row_bytes, g);
}

ALWAYS_INLINE void pack_blocks(enum pack_kind kind, uint8_t *block_row, const uint8_t *source, uint32_t cols)
{
	size_t row_bytes = pack_source_row_bytes(kind, cols), block_cols = pack_block_cols(kind);
	size_t source_bytes = pack_source_row_bytes(kind, (uint32_t)block_cols);

	for (size_t i = 0; i < cols / block_cols; i++)
		pack_block(kind, block_row + i * layout_block_bytes(kind), source + i * source_bytes, row_bytes);
}

#define PACK_BLOCKS(kind_constant)                                   \
	case kind_constant:                                          \
		pack_blocks(kind_constant, block_row, source, cols); \
		return;

void pack_block_row_avx2(enum pack_kind kind, void *block_row, const void *source, uint32_t n_rows, uint32_t cols)
{
	if (n_rows == PACK_ROWS)
		switch (kind) {
			PACK_BLOCKS(PACK_Q4_0)
			PACK_BLOCKS(PACK_Q4_1)
			PACK_BLOCKS(PACK_Q5_0)
			PACK_BLOCKS(PACK_Q5_1)
			PACK_BLOCKS(PACK_Q2_K)
			PACK_BLOCKS(PACK_Q3_K)
			PACK_BLOCKS(PACK_Q4_K)
			PACK_BLOCKS(PACK_Q5_K)
			PACK_BLOCKS(PACK_Q6_K)
			PACK_BLOCKS(PACK_IQ4_NL)
		default:
			break;
		}
	pack_block_row(kind, block_row, source, n_rows, cols); /* no planes, or the last rows of a matrix */
}
