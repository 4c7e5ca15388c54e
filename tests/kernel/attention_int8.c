/* Attention over int8 pages: against a plain softmax in double over the numbers that the codes stand for, with garbage
 * beside the positions that count, and bit for bit against itself with other heads, other places and other garbage.
 *
 * Tolerance. H q is rounded to half a unit of 1 / KV_QUERY_MAX of its largest number, so a score is wrong by at most
 * the sum of H k's magnitudes times that, beside some roundings of float32; its error moves a weight by e^error - 1.
 * A block's weights are rounded to half a unit of 1 / KV_WEIGHT_MAX of the largest of them, which is at most that part
 * of each position's largest product; positions of a block whose own products are zero are no part of it. */
#include <math.h>
#include <string.h>

#include "src/kernel/half.h"
#include "src/kernel/kv_int8.h"
#include "tests/kernel/kernel_test.h"

enum { MAX_DIM = 256, MAX_TOKENS = 300, MAX_PAGES = (MAX_TOKENS + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS };

/* Pages of one KV head, each in memory of its own. */
struct pages {
	unsigned char *k[MAX_PAGES], *v[MAX_PAGES];
	uint32_t head_dim;
};

static struct pages pages_new(uint32_t head_dim)
{
	struct pages pages = {.head_dim = head_dim};

	for (int p = 0; p < MAX_PAGES; p++) {
		pages.k[p] = guarded_new(kv_int8_bytes(head_dim));
		pages.v[p] = guarded_new(kv_int8_bytes(head_dim));
	}
	return pages;
}

static void pages_free(struct pages *pages)
{
	for (int p = 0; p < MAX_PAGES; p++) {
		guarded_free(pages->k[p]);
		guarded_free(pages->v[p]);
	}
}

static void set_scales(struct pages *pages, uint32_t t, float key, float value)
{
	kv_int8_scales(pages->k[t / KV_PAGE_TOKENS], pages->head_dim)[t % KV_PAGE_TOKENS] = bf16_from_f32(key);
	kv_int8_scales(pages->v[t / KV_PAGE_TOKENS], pages->head_dim)[t % KV_PAGE_TOKENS] = bf16_from_f32(value);
}

static void set_codes(struct pages *pages, uint32_t t, uint32_t d, int key, int value)
{
	uint32_t page = t / KV_PAGE_TOKENS, slot = t % KV_PAGE_TOKENS;
	pages->k[page][kv_int8_key_at(slot, d)] = (unsigned char)(key + KV_KEY_OFFSET);
	pages->v[page][kv_int8_value_at(slot, d, pages->head_dim)] = (unsigned char)value;
}

/* Every position's codes random, or all of them ±KV_CODE_MAX; values' scales over several powers of ten. */
static void fill(struct pages *pages, float magnitude, bool extreme)
{
	for (uint32_t t = 0; t < MAX_PAGES * KV_PAGE_TOKENS; t++) {
		set_scales(pages, t, (0.5f + fabsf(random_float(0.5f))) * magnitude / KV_CODE_MAX,
			   exp2f(random_float(12.0f)));
		for (uint32_t d = 0; d < pages->head_dim; d++) {
			int key = (int)(random_bits() % (2 * KV_CODE_MAX + 1)) - KV_CODE_MAX,
			    value = (int)(random_bits() % (2 * KV_CODE_MAX + 1)) - KV_CODE_MAX;
			if (extreme) {
				key = key > 0 ? KV_CODE_MAX : -KV_CODE_MAX;
				value = value > 0 ? KV_CODE_MAX : -KV_CODE_MAX;
			}
			set_codes(pages, t, d, key, value);
		}
	}
}

static double value_scale(const struct pages *pages, uint32_t t)
{
	const unsigned char *v = pages->v[t / KV_PAGE_TOKENS];
	return (double)f32_from_bf16(kv_int8_scales(v, pages->head_dim)[t % KV_PAGE_TOKENS]);
}

/* H k and H v: what codes and scales stand for. */
static double key(const struct pages *pages, uint32_t t, uint32_t d)
{
	const unsigned char *k = pages->k[t / KV_PAGE_TOKENS];
	float scale = f32_from_bf16(kv_int8_scales(k, pages->head_dim)[t % KV_PAGE_TOKENS]);
	return (double)scale * (k[kv_int8_key_at(t % KV_PAGE_TOKENS, d)] - KV_KEY_OFFSET);
}

static double value(const struct pages *pages, uint32_t t, uint32_t d)
{
	const unsigned char *v = pages->v[t / KV_PAGE_TOKENS];
	return value_scale(pages, t) * (int8_t)v[kv_int8_value_at(t % KV_PAGE_TOKENS, d, pages->head_dim)];
}

/* H[i][j] of Walsh and Hadamard: -1 where i and j have an odd number of ones in common. */
static double entry(uint32_t block, uint32_t i, uint32_t j)
{
	return i / block != j / block ? 0.0 : __builtin_parity(i & j & (block - 1)) ? -1.0 : 1.0;
}

/* y = H x as the definition says; `magnitude`, if asked for: the same of magnitudes. */
static void spread(double *y, const double *x, uint32_t n, double *magnitude)
{
	uint32_t block = kv_spread_block(n);
	for (uint32_t i = 0; i < n; i++) {
		double sum = 0.0, sum_magnitude = 0.0;
		for (uint32_t j = i / block * block; j < (i / block + 1) * block; j++) {
			sum += entry(block, i, j) * x[j];
			sum_magnitude += fabs(x[j]);
		}
		y[i] = sum;
		if (magnitude)
			magnitude[i] = sum_magnitude;
	}
}

/* The positions a row attends. */
struct window {
	uint32_t first, end;
};

/* Fills what lies in the pages beside the window: codes with `byte`, scales with `scale`. */
static void spoil(struct pages *pages, struct window window, int byte, float scale)
{
	for (uint32_t t = 0; t < MAX_PAGES * KV_PAGE_TOKENS; t++)
		if (t < window.first || t >= window.end) {
			set_scales(pages, t, scale, scale);
			for (uint32_t d = 0; d < pages->head_dim; d++)
				set_codes(pages, t, d, byte, byte);
		}
}

/* Pages outside the window are not even pointed to. */
static void run(const struct subject *subject, const struct pages *pages, const float *q, uint32_t n_q,
		struct window window, float *out)
{
	const void *k[MAX_PAGES] = {NULL}, *v[MAX_PAGES] = {NULL};
	for (uint32_t p = window.first / KV_PAGE_TOKENS; p * KV_PAGE_TOKENS < window.end; p++) {
		k[p] = pages->k[p];
		v[p] = pages->v[p];
	}
	struct attention a = {
		.q = q,
		.out = out,
		.k = k,
		.v = v,
		.n_q = n_q,
		.head_dim = pages->head_dim,
		.first_token = window.first,
		.n_tokens = window.end,
		.scale = 1.0f / sqrtf((float)pages->head_dim),
	};
	subject->kernels->attention_int8(&a);
}

/* The largest weight times value scale of the block of position t. */
static double block_largest(const struct pages *pages, const double *weight, struct window window, uint32_t t)
{
	uint32_t begin = t / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
	double largest = 0.0;
	for (uint32_t i = begin; i < begin + KV_BLOCK_TOKENS && i < window.end; i++)
		if (i >= window.first)
			largest = fmax(largest, weight[i] * value_scale(pages, i));
	return largest;
}

static void check_head(const struct pages *pages, const float *query, struct window window, const float *out)
{
	uint32_t n = pages->head_dim, block = kv_spread_block(n);
	double weight[MAX_TOKENS], sum = 0.0, largest = -INFINITY, worst = 0.0, unit = 0.0, tolerance;
	double scale = (double)(1.0f / sqrtf((float)n)), q[MAX_DIM], q_magnitude[MAX_DIM], exact[MAX_DIM] = {0.0},
	       bound[MAX_DIM];

	for (uint32_t d = 0; d < n; d++)
		exact[d] = (double)query[d];
	spread(q, exact, n, q_magnitude);
	for (uint32_t d = 0; d < n; d++)
		unit = fmax(unit, fabs(q[d]) / KV_QUERY_MAX);
	for (uint32_t t = window.first; t < window.end; t++) {
		double score = 0.0, error = 0.0;
		for (uint32_t d = 0; d < n; d++) {
			score += q[d] * key(pages, t, d) / block;
			error += fabs(key(pages, t, d)) / block * (0.51 * unit + 16 * 0x1p-24 * q_magnitude[d]);
		}
		weight[t] = score * scale;
		largest = fmax(largest, weight[t]);
		worst = fmax(worst, error * scale);
	}
	for (uint32_t t = window.first; t < window.end; t++) {
		weight[t] = exp(weight[t] - largest);
		sum += weight[t];
	}
	tolerance = exp(2.0 * worst) * (1.0 + (KV_BLOCK_TOKENS + 3.0 * MAX_PAGES) * 0x1p-23) - 1.0;
	double spread_out[MAX_DIM] = {0.0}, spread_bound[MAX_DIM] = {0.0};
	for (uint32_t t = window.first; t < window.end; t++) {
		double most = block_largest(pages, weight, window, t);
		for (uint32_t d = 0; d < n; d++) {
			double v = value(pages, t, d);
			spread_out[d] += weight[t] / sum * v;
			spread_bound[d] += 2.0 * tolerance * weight[t] / sum * fabs(v);
			spread_bound[d] += (1.0 + 2.0 * tolerance) * 0.51 / KV_WEIGHT_MAX * fabs(v) /
					   value_scale(pages, t) * most / sum;
		}
	}
	spread(exact, spread_out, n, NULL);
	spread(q, spread_bound, n, bound); /* errors add up, whatever the signs */
	for (uint32_t d = 0; d < n; d++)
		expect(fabs((double)out[d] - exact[d] / block) <= bound[d] / block + 1e-30,
		       "attention_int8 head_dim=%u of %u..%u [%u] = %a, exactly %a +- %a", n, window.first, window.end,
		       d, (double)out[d], exact[d] / block, bound[d] / block);
}

static void test_heads(const struct subject *subject, struct pages *pages, uint32_t n_q, struct window window,
		       float query)
{
	static const struct {
		int byte;
		float scale;
	} garbage[] = {{-128, NAN}, {127, INFINITY}, {0, 3e38f}, {-128, -1.0f}, {0, 0.0f}};
	uint32_t head_dim = pages->head_dim;
	size_t n = (size_t)n_q * head_dim, bytes = n * sizeof(float);
	float *q = guarded_new(bytes), *out = guarded_new(bytes), *again = guarded_new(bytes + sizeof(float));

	for (size_t i = 0; i < n; i++)
		q[i] = random_float(query);
	spoil(pages, window, 5, NAN);
	run(subject, pages, q, n_q, window, out);
	expect(guarded_intact(out, bytes), "attention_int8 wrote beside its output");
	for (uint32_t head = 0; head < n_q; head++) {
		check_head(pages, q + (size_t)head * head_dim, window, out + (size_t)head * head_dim);
		run(subject, pages, q + (size_t)head * head_dim, 1, window, again + 1);
		expect(same_bits(again + 1, out + (size_t)head * head_dim, head_dim),
		       "attention_int8 head_dim=%u of %u..%u: head %u of %u differs alone", head_dim, window.first,
		       window.end, head, n_q);
	}
	for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
		spoil(pages, window, garbage[i].byte, garbage[i].scale);
		run(subject, pages, q, n_q, window, again);
		expect(same_bits(again, out, n), "attention_int8 of %u..%u: what lies beside them shows", window.first,
		       window.end);
	}
	guarded_free(q);
	guarded_free(out);
	guarded_free(again);
}

/* NaN and infinities in a query head stay in that head and crash nothing; a position that counts and whose key or value
 * had some, which is then of zeros with an infinite scale, shows in all heads. */
static void test_poison(const struct subject *subject)
{
	enum { HEAD_DIM = 64, N_Q = 4, N = N_Q * HEAD_DIM };
	static const float poison[] = {NAN, INFINITY, -INFINITY, 3e38f, 1e-44f};
	const struct window window = {0, 77};
	struct pages pages = pages_new(HEAD_DIM);
	float *q = guarded_new(N * sizeof *q), *out = guarded_new(N * sizeof *out);

	fill(&pages, 1.0f, false);
	for (size_t i = 0; i < sizeof poison / sizeof poison[0]; i++) {
		for (size_t j = 0; j < N; j++)
			q[j] = random_float(1.0f);
		q[HEAD_DIM + 5] = poison[i];
		run(subject, &pages, q, N_Q, window, out);
		for (uint32_t head = 0; head < N_Q; head++)
			if (head != 1)
				check_head(&pages, q + head * HEAD_DIM, window, out + head * HEAD_DIM);
		expect(isfinite(poison[i]) || isnan(out[HEAD_DIM]), "attention_int8: %a in a query makes %a",
		       (double)poison[i], (double)out[HEAD_DIM]);
	}
	for (int keys = 0; keys < 2; keys++) {
		for (size_t j = 0; j < N; j++)
			q[j] = random_float(1.0f);
		set_scales(&pages, 40, keys ? INFINITY : 0.01f, keys ? 1.0f : INFINITY);
		for (uint32_t d = 0; d < HEAD_DIM; d++)
			set_codes(&pages, 40, d, 0, 0);
		run(subject, &pages, q, N_Q, window, out);
		for (size_t j = 0; j < N; j++)
			expect(!isfinite(out[j]), "attention_int8: an infinite scale makes %a", (double)out[j]);
	}
	pages_free(&pages);
	guarded_free(q);
	guarded_free(out);
}

/* Codes and scale are the same at every level, and no number of H x is further from its code than half a step. */
static void test_to_int8(const struct subject *subject, uint32_t n, enum filling filling)
{
	float *x = guarded_new(n * sizeof *x), largest = 0.0f;
	int8_t *y = guarded_new(n), *same = guarded_new(n);
	double exact[MAX_DIM] = {0.0}, all[MAX_DIM], magnitude[MAX_DIM];
	bool finite = true, fits = true;

	fill_values(x, n, filling);
	uint16_t scale = subject->kernels->to_int8(y, x, n);
	double step = (double)f32_from_bf16(scale);
	expect(guarded_intact(y, n), "to_int8 n=%u wrote beside y", n);
	expect(subject->ref->to_int8(same, x, n) == scale && !memcmp(y, same, n), "to_int8 n=%u of %s differs from ref",
	       n, filling_name(filling));
	for (uint32_t i = 0; i < n; i++) {
		finite &= isfinite(x[i]);
		exact[i] = (double)x[i];
	}
	expect(finite || !isfinite(step), "to_int8: an infinity or NaN went");
	spread(all, exact, n, magnitude);
	for (uint32_t i = 0; i < n; i++) {
		fits &= finite && magnitude[i] < 3e38;
		largest = fmaxf(largest, (float)fabs(all[i]));
	}
	expect(!fits || isfinite(step), "to_int8: an infinity came");
	for (uint32_t i = 0; i < n && fits && largest >= 0x1p-90f; i++) {
		expect(y[i] >= -KV_CODE_MAX, "to_int8(%a) is %d", all[i], y[i]);
		expect(fabs(all[i] - step * y[i]) <= 0.5001 * step + 8 * 0x1p-24 * magnitude[i],
		       "to_int8(%a) is %d of %a", all[i], y[i], step);
		expect(step <= (double)largest / KV_CODE_MAX * 1.008 + 0x1p-24 * magnitude[i],
		       "to_int8: scale %a is too large for %a", step, (double)largest);
	}
	guarded_free(x);
	guarded_free(y);
	guarded_free(same);
}

void test_attention_int8(const struct subject *subject)
{
	static const uint32_t head_dims[] = {16, 64, 80, 128, 256};
	static const uint32_t lengths[] = {1, 2, 3, 4, 15, 17, 31, 32, 33, 65, 97, 127, 128, 129, 200, 300};

	for (int filling = 0; filling < N_FILLINGS; filling++)
		for (uint32_t n = 16; n <= 256; n += 16)
			test_to_int8(subject, n, (enum filling)filling);
	for (size_t i = 0; i < sizeof head_dims / sizeof head_dims[0]; i++)
		for (size_t j = 0; j < sizeof lengths / sizeof lengths[0]; j++) {
			struct window all = {0, lengths[j]}, own = {lengths[j] - 1, lengths[j]};
			/* A window that begins anywhere: in the first page, in a later one, at the row itself. */
			struct window some = {random_bits() % lengths[j], lengths[j]};
			struct pages pages = pages_new(head_dims[i]);
			fill(&pages, j % 3 ? 1.0f : 30.0f, j % 4 == 1);
			test_heads(subject, &pages, 3, own, 1.0f);
			fill(&pages, j % 3 ? 1.0f : 30.0f, j % 4 == 1);
			test_heads(subject, &pages, 1 + (uint32_t)(j % 9), some, 1.0f);
			fill(&pages, j % 3 ? 1.0f : 30.0f, j % 4 == 1);
			test_heads(subject, &pages, 3, all, 1e-3f);
			pages_free(&pages);
		}
	struct pages pages = pages_new(16);
	for (uint32_t first = 0; first < 100; first++) {
		fill(&pages, 1.0f, false);
		test_heads(subject, &pages, 2, (struct window){first, 100}, 1.0f);
	}
	pages_free(&pages);
	test_poison(subject);
}
