/* Decode products, level avx2: float32 by FMA.
 *
 * The shape of a sum: per span (the columns that share a scale) four chains, of the columns 4i, 4i + 1, 4i + 2 and
 * 4i + 3. The first and the third are added, the second and the fourth, then both; the span's sum is scaled once and
 * added to the row's total. Chains of neighbouring columns lie beside each other in a register (group_avx2.h). Four,
 * because a product waits four cycles for the one before it in its chain.
 *
 *   the first two rows   straight from the stored groups. Where there are more rows they leave the codes, a chunk of
 *                        groups at a time, where the first cache has them;
 *   the rows behind      three at a time are multiplied with those: twelve sums, a register of codes and three of
 *                        activations are what 16 registers hold, and seven loads serve twelve products.
 *
 * While a block row is multiplied, the next one is asked for, which doubles the speed of 16-bit rows and gives codes a
 * fifth. (The hardware's own looking ahead ends at every page.)
 *
 * Codes are exact in float32 and products and sums the same in both, so no row's arithmetic depends on its company. */
#include "src/kernel/group_avx2.h"
#include "src/kernel/levels.h"
#include "src/kernel/vector_avx2.h"

enum {
	FIRST = 2,	  /* activation rows that are multiplied with codes as they are stored */
	TILE = 3,	  /* activation rows that share the loads of expanded codes */
	CHUNK_GROUPS = 8, /* of which the codes are kept together: half of a first cache of 32 KiB */
	ROWS_MAX = 32,
};

void prepare_avx2(struct activations *a, const float *x, enum numerics numerics)
{
	size_t n = (size_t)a->n_rows * a->cols;

	(void)numerics; /* this level serves F32 only */
	for (size_t i = 0; i < n; i += PACK_GROUP) {
		__m256 half[2];

		for (size_t h = 0; h < 2; h++) {
			__m256 low = _mm256_loadu_ps(x + i + 16 * h), high = _mm256_loadu_ps(x + i + 16 * h + 8);
			_mm256_store_ps(a->f32 + i + 16 * h, low);
			_mm256_store_ps(a->f32 + i + 16 * h + 8, high);
			half[h] = _mm256_add_ps(low, high);
			a->half_sum[i / 16 + h] = sum_avx2(half[h]);
		}
		a->group_sum[i / PACK_GROUP] = sum_avx2(_mm256_add_ps(half[0], half[1]));
	}
}

/* Codes of some groups of a block row, and what scales them. What a kind lacks is not set. */
struct chunk {
	float code[CHUNK_GROUPS][2][GROUP_PAIRS][2][8]; /* [half][pair][quarter of it] */
	float scale[CHUNK_GROUPS][UNPACK_MAX_SPANS][2][HALF_ROWS];
	float minimum[CHUNK_GROUPS][UNPACK_MAX_SPANS][2][HALF_ROWS];
	uint32_t begin, end; /* which of the row's groups */
} __attribute__((aligned(64)));

/* Spans of a group; those without scales are summed as if they had one. */
ALWAYS_INLINE int spans_of(enum pack_kind kind)
{
	return layout_of(kind).span ? PACK_GROUP / layout_of(kind).span : 1;
}

/* Two neighbouring activations for the two columns of every row. */
ALWAYS_INLINE __m256 broadcast_pair(const float *values)
{
	double pair;

	__builtin_memcpy(&pair, values, sizeof pair);
	return _mm256_castpd_ps(_mm256_set1_pd(pair));
}

/* The same pointer, but not for the compiler. It would notice that both halves of the rows load the same, keep what
 * it loads, and spill other registers for that. */
ALWAYS_INLINE const float *loaded_again(const float *values)
{
	__asm__("" : "+r"(values));
	return values;
}

/* `sum` += a register of codes times a pair of activations; the first pair of a span `starts` it (a constant). */
ALWAYS_INLINE void accumulate(__m256 *sum, __m256 codes, __m256 pair, bool starts)
{
	*sum = _mm256_fmadd_ps(codes, pair, starts ? _mm256_setzero_ps() : *sum);
}

/* A span's sum, scaled, and its minimum times the sum of its activations, on top of `total`. `scales` and `minima`
 * (constants): whether there are any. */
ALWAYS_INLINE __m256 scaled(bool scales, bool minima, __m256 sum, __m256 scale, __m256 minimum, const float *span_sum,
			    __m256 total)
{
	total = scales ? _mm256_fmadd_ps(sum, scale, total) : _mm256_add_ps(sum, total);
	return minima ? _mm256_fmadd_ps(_mm256_set1_ps(*span_sum), minimum, total) : total;
}

/* --- the first rows ------------------------------------------------------------------------------ */

/* The sums of 8 rows over a span; `codes` at that half of the rows. `keep`, if any: where the codes are for others. */
ALWAYS_INLINE void multiply_half(enum pack_kind kind, int n_rows, const uint8_t *codes,
				 const struct code_table_avx2 *table, int span, const float *const *values,
				 float (*keep)[2][8], __m256 sums[FIRST])
{
	const int span_pairs = GROUP_PAIRS / spans_of(kind), step = shared_pairs_avx2(kind);
	__m256 sum[2][2][FIRST]; /* [pair % 2][quarter][row] */

	UNROLL
	for (int begin = 0; begin < span_pairs; begin += step) {
		UNROLL
		for (int chain = 0; chain < 2; chain++) {
			UNROLL
			for (int pair = begin + chain; pair < begin + step; pair += 2) {
				UNROLL
				for (int quarter = 0; quarter < 2; quarter++) {
					__m256 numbers =
						group_pair_avx2(kind, codes, table, span * span_pairs + pair, quarter);
					if (keep)
						_mm256_store_ps(keep[pair][quarter], numbers);
					UNROLL
					for (int r = 0; r < n_rows; r++)
						accumulate(&sum[chain][quarter][r], numbers,
							   broadcast_pair(values[r] + 2 * pair), pair < 2);
				}
			}
		}
	}
	UNROLL
	for (int r = 0; r < n_rows; r++)
		sums[r] = row_sums_avx2(_mm256_add_ps(sum[0][0][r], sum[1][0][r]),
					_mm256_add_ps(sum[0][1][r], sum[1][1][r]));
}

/* Groups [begin, end) of a block row times the first `n_rows` (a constant, at most FIRST) activation rows, on top of
 * `total`. `next` is the block row that will be read after this one, or NULL. `keep`: NULL (a constant), or where what
 * follows from the stored bits is left for the rows behind. */
ALWAYS_INLINE void multiply_first(enum pack_kind kind, int n_rows, const uint8_t *block_row, const uint8_t *next,
				  uint32_t begin, uint32_t end, const struct code_table_avx2 *table,
				  const struct activations *x, struct chunk *keep, __m256 (*total)[2])
{
	const struct layout l = layout_of(kind);
	const int n_spans = spans_of(kind);
	const size_t sum_stride = x->cols / PACK_GROUP * (size_t)n_spans;
	const float *values[FIRST]; /* each row's, at the current span */
	const float *span_sum = (n_spans == 2 ? x->half_sum : x->group_sum) + begin * (size_t)n_spans;

	UNROLL
	for (int r = 0; r < n_rows; r++)
		values[r] = x->f32 + (size_t)r * x->cols + begin * (size_t)PACK_GROUP;
	for (uint32_t g = begin; g < end; g++) {
		const struct group group = layout_group(kind, block_row, g);

		if (next && (kind != PACK_F32 || keep))
			layout_prefetch(kind, next, g);
		UNROLL
		for (int span = 0; span < n_spans; span++, span_sum++) {
			const int first_pair = GROUP_PAIRS / n_spans * span;

			UNROLL
			for (int half = 0; half < 2; half++) {
				float(*code)[2][8] = keep ? keep->code[g - begin][half] + first_pair : NULL;
				__m256 sum[FIRST], scale = _mm256_setzero_ps(), minimum = scale;

				UNROLL
				for (int r = 0; r < n_rows; r++)
					values[r] = loaded_again(values[r]);
				multiply_half(kind, n_rows, group.codes + HALF_BYTES * half, table, span, values, code,
					      sum);
				if (l.span)
					scale = group_scale_avx2(kind, &group, (uint32_t)span, half);
				if (l.minimum)
					minimum = group_minimum_avx2(kind, &group, (uint32_t)span, half);
				if (keep && l.span)
					_mm256_store_ps(keep->scale[g - begin][span][half], scale);
				if (keep && l.minimum)
					_mm256_store_ps(keep->minimum[g - begin][span][half], minimum);
				UNROLL
				for (int r = 0; r < n_rows; r++)
					total[r][half] = scaled(l.span, l.minimum, sum[r], scale, minimum,
								span_sum + (size_t)r * sum_stride, total[r][half]);
			}
			UNROLL
			for (int r = 0; r < n_rows; r++)
				values[r] += PACK_GROUP / n_spans;
		}
	}
}

/* --- the rows behind ----------------------------------------------------------------------------- */

/* What the tiles of a chunk have in common, beside constants. */
struct tiles {
	const struct chunk *chunk;
	const struct activations *x;
	__m256 (*total)[2]; /* [ROWS_MAX] */
};

/* A chunk times `n_rows` (a constant, at most TILE) activation rows. */
ALWAYS_INLINE void multiply_tile(int n_spans, bool scales, bool minima, int n_rows, const struct tiles *t,
				 uint32_t first)
{
	const int span_pairs = GROUP_PAIRS / n_spans;
	const struct chunk *chunk = t->chunk;
	const size_t sum_stride = t->x->cols / PACK_GROUP * (size_t)n_spans;
	const float *span_sum = (n_spans == 2 ? t->x->half_sum : t->x->group_sum) + first * sum_stride +
				(size_t)chunk->begin * (size_t)n_spans;
	const float *values[TILE];
	__m256(*total)[2] = t->total + first;

	UNROLL
	for (int r = 0; r < n_rows; r++)
		values[r] = t->x->f32 + (size_t)(first + (uint32_t)r) * t->x->cols + chunk->begin * PACK_GROUP;
	for (uint32_t g = 0; g < chunk->end - chunk->begin; g++) {
		UNROLL
		for (int span = 0; span < n_spans; span++, span_sum++) {
			__m256 sum[2][GROUP_QUARTERS][TILE]; /* [pair % 2][quarter][row] */

			UNROLL
			for (int chain = 0; chain < 2; chain++) {
				UNROLL
				for (int pair = chain; pair < span_pairs; pair += 2) {
					__m256 x[TILE];

					UNROLL
					for (int r = 0; r < n_rows; r++)
						x[r] = broadcast_pair(values[r] + 2 * pair);
					UNROLL
					for (int q = 0; q < GROUP_QUARTERS; q++) {
						__m256 numbers = _mm256_load_ps(
							chunk->code[g][q / 2][span * span_pairs + pair][q % 2]);
						UNROLL
						for (int r = 0; r < n_rows; r++)
							accumulate(&sum[chain][q][r], numbers, x[r], pair < 2);
					}
				}
			}
			UNROLL
			for (int r = 0; r < n_rows; r++) {
				UNROLL
				for (int half = 0; half < 2; half++) {
					__m256 now = row_sums_avx2(
						_mm256_add_ps(sum[0][2 * half][r], sum[1][2 * half][r]),
						_mm256_add_ps(sum[0][2 * half + 1][r], sum[1][2 * half + 1][r]));
					total[r][half] =
						scaled(scales, minima, now, _mm256_load_ps(chunk->scale[g][span][half]),
						       _mm256_load_ps(chunk->minimum[g][span][half]),
						       span_sum + (size_t)r * sum_stride, total[r][half]);
				}
				values[r] += 2 * span_pairs;
			}
		}
	}
}

/* A chunk times all rows behind the first: in threes, and in twos where that leaves one less alone. */
ALWAYS_INLINE void multiply_chunk(int n_spans, bool scales, bool minima, const struct tiles *t)
{
	uint32_t first = FIRST, left = t->x->n_rows - FIRST;

	for (; left >= 3 && left != 4; left -= 3, first += 3)
		multiply_tile(n_spans, scales, minima, 3, t, first);
	for (; left >= 2; left -= 2, first += 2)
		multiply_tile(n_spans, scales, minima, 2, t, first);
	if (left)
		multiply_tile(n_spans, scales, minima, 1, t, first);
}

/* One function for all kinds of one shape of sums: the kinds differ in how they are expanded. */
#define CHUNK_FUNCTION(name, n_spans, scales, minima)                     \
	static __attribute__((noinline)) void name(const struct tiles *t) \
	{                                                                 \
		multiply_chunk(n_spans, scales, minima, t);               \
	}
CHUNK_FUNCTION(multiply_plain, 1, false, false)
CHUNK_FUNCTION(multiply_scaled, 1, true, false)
CHUNK_FUNCTION(multiply_scaled_minimum, 1, true, true)
CHUNK_FUNCTION(multiply_halves, 2, true, false)
CHUNK_FUNCTION(multiply_halves_minimum, 2, true, true)
#undef CHUNK_FUNCTION

ALWAYS_INLINE void multiply_many(enum pack_kind kind, const uint8_t *block_row, const uint8_t *next,
				 const struct code_table_avx2 *table, const struct activations *x, __m256 (*total)[2])
{
	const struct layout l = layout_of(kind);
	const uint32_t n_groups = x->cols / PACK_GROUP;
	struct chunk chunk;
	struct tiles tiles = {&chunk, x, total};

	for (uint32_t begin = 0; begin < n_groups; begin += CHUNK_GROUPS) {
		chunk.begin = begin;
		chunk.end = n_groups - begin < CHUNK_GROUPS ? n_groups : begin + CHUNK_GROUPS;
		multiply_first(kind, FIRST, block_row, next, chunk.begin, chunk.end, table, x, &chunk, total);
		if (!l.span)
			multiply_plain(&tiles);
		else if (l.span == PACK_GROUP)
			(l.minimum ? multiply_scaled_minimum : multiply_scaled)(&tiles);
		else
			(l.minimum ? multiply_halves_minimum : multiply_halves)(&tiles);
	}
}

/* ------------------------------------------------------------------------------------------------- */

/* `rows`: from this block row to the end of the matrix. */
static void store_totals(const __m256 (*total)[2], uint32_t n_rows, uint32_t rows, float *y, size_t y_stride)
{
	for (uint32_t r = 0; r < n_rows; r++)
		for (uint32_t half = 0; half < 2 && rows > half * HALF_ROWS; half++)
			_mm256_maskstore_ps(y + r * y_stride + half * HALF_ROWS, lanes_avx2(rows - half * HALF_ROWS),
					    total[r][half]);
}

ALWAYS_INLINE void product(enum pack_kind kind, const struct matrix *w, uint32_t begin, uint32_t end,
			   const struct activations *x, float *y, size_t y_stride)
{
	const size_t block_row_bytes = layout_block_row_bytes(kind, x->cols);
	const struct code_table_avx2 table = code_table_avx2(kind);
	const uint32_t n_groups = x->cols / PACK_GROUP;
	__m256 total[ROWS_MAX][2];

	for (uint32_t block = begin; block < end; block++) {
		const uint8_t *block_row = (const uint8_t *)w->data + block * block_row_bytes;
		const uint8_t *next = block + 1 < end ? block_row + block_row_bytes : NULL;

		for (uint32_t r = 0; r < x->n_rows; r++)
			total[r][0] = total[r][1] = _mm256_setzero_ps();
		if (x->n_rows == 1)
			multiply_first(kind, 1, block_row, next, 0, n_groups, &table, x, NULL, total);
		else if (x->n_rows == FIRST)
			multiply_first(kind, FIRST, block_row, next, 0, n_groups, &table, x, NULL, total);
		else
			multiply_many(kind, block_row, next, &table, x, total);
		store_totals(total, x->n_rows, w->rows - block * PACK_ROWS, y + block * PACK_ROWS, y_stride);
	}
}

void decode_product_avx2(const struct matrix *w, uint32_t begin, uint32_t end, const struct activations *x, float *y,
			 size_t y_stride, enum numerics numerics)
{
	(void)numerics; /* this level serves F32 only */
	switch (w->kind) {
#define CASE(kind)                                            \
	case kind:                                            \
		product(kind, w, begin, end, x, y, y_stride); \
		break;
		PACK_EACH_KIND(CASE)
#undef CASE
	case PACK_N_KINDS:
		break;
	}
}
