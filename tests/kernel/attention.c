/* Attention: against a plain softmax in double, with garbage beside the positions that count, and bit for bit against
 * itself with other heads, other places and other garbage.
 *
 * Tolerance. A score is a sum of head_dim products: its error moves a weight by e^error - 1. The weights are exact to a
 * few units and the output is a sum of n_tokens products that pass through at most 32 + pages additions. Level avx512
 * rounds queries, here too, and weights, each by at most 2^-9 of itself. */
#include <math.h>
#include <string.h>

#include "src/kernel/half.h"
#include "src/kernel/kv_page.h"
#include "tests/kernel/kernel_test.h"

enum { MAX_TOKENS = 200, MAX_PAGES = (MAX_TOKENS + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS };

/* Pages of one KV head, each in memory of its own. */
struct pages {
	uint16_t *k[MAX_PAGES], *v[MAX_PAGES];
	uint32_t head_dim;
};

static struct pages pages_new(uint32_t head_dim, float magnitude)
{
	struct pages pages = {.head_dim = head_dim};
	size_t n = (size_t)head_dim * KV_PAGE_TOKENS;

	for (int p = 0; p < MAX_PAGES; p++) {
		pages.k[p] = guarded_new(n * sizeof(uint16_t));
		pages.v[p] = guarded_new(n * sizeof(uint16_t));
		for (size_t i = 0; i < n; i++) {
			pages.k[p][i] = bf16_from_f32(random_float(magnitude));
			pages.v[p][i] = bf16_from_f32(random_float(1.0f));
		}
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

static float key(const struct pages *pages, uint32_t t, uint32_t d)
{
	return f32_from_bf16(pages->k[t / KV_PAGE_TOKENS][kv_key_at(t % KV_PAGE_TOKENS, d)]);
}

static float value(const struct pages *pages, uint32_t t, uint32_t d)
{
	return f32_from_bf16(pages->v[t / KV_PAGE_TOKENS][kv_value_at(t % KV_PAGE_TOKENS, d, pages->head_dim)]);
}

/* The positions a row attends. */
struct window {
	uint32_t first, end;
};

/* Fills what lies in the pages beside the window with `bits`. */
static void spoil(struct pages *pages, struct window window, uint16_t bits)
{
	for (uint32_t t = 0; t < MAX_PAGES * KV_PAGE_TOKENS; t++)
		for (uint32_t d = 0; d < pages->head_dim && (t < window.first || t >= window.end); d++) {
			uint32_t page = t / KV_PAGE_TOKENS, slot = t % KV_PAGE_TOKENS;
			pages->k[page][kv_key_at(slot, d)] = bits;
			pages->v[page][kv_value_at(slot, d, pages->head_dim)] = bits;
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
	subject->kernels->attention(&a);
}

static void check_head(const struct subject *subject, const struct pages *pages, const float *query,
		       struct window window, const float *out)
{
	bool rounds = subject->level == CPU_LEVEL_AVX512;
	float q[256];

	double weight[MAX_TOKENS], sum = 0.0, largest = -INFINITY, worst = 0.0;
	double scale = (double)(1.0f / sqrtf((float)pages->head_dim));
	double tolerance;

	for (uint32_t d = 0; d < pages->head_dim; d++)
		q[d] = rounds ? f32_round_bf16(query[d]) : query[d];
	for (uint32_t t = window.first; t < window.end; t++) {
		double score = 0.0, magnitude = 0.0;
		for (uint32_t d = 0; d < pages->head_dim; d++) {
			score += (double)q[d] * (double)key(pages, t, d);
			magnitude += fabs((double)q[d] * (double)key(pages, t, d));
		}
		weight[t] = score * scale;
		largest = fmax(largest, weight[t]);
		worst = fmax(worst, (pages->head_dim + 4) * 0x1p-24 * magnitude * scale);
	}
	for (uint32_t t = window.first; t < window.end; t++) {
		weight[t] = exp(weight[t] - largest);
		sum += weight[t];
	}
	tolerance = 2.0 * (exp(2.0 * worst) - 1.0) + (KV_PAGE_TOKENS + 3.0 * MAX_PAGES + 8.0) * 0x1p-23 +
		    (rounds ? 0x1p-8 : 0.0);
	for (uint32_t d = 0; d < pages->head_dim; d++) {
		double exact = 0.0, magnitude = 0.0;
		for (uint32_t t = window.first; t < window.end; t++) {
			exact += weight[t] / sum * (double)value(pages, t, d);
			magnitude += weight[t] / sum * fabs((double)value(pages, t, d));
		}
		expect(fabs((double)out[d] - exact) <= tolerance * magnitude + 1e-30,
		       "attention head_dim=%u of %u..%u [%u] = %a, exactly %a +- %a", pages->head_dim, window.first,
		       window.end, d, (double)out[d], exact, tolerance * magnitude);
	}
}

static void test_heads(const struct subject *subject, uint32_t head_dim, uint32_t n_q, struct window window,
		       float magnitude)
{
	static const uint16_t garbage[] = {0x7fc0, 0xff80, 0x7f7f, 0x0000}; /* NaN, -inf, large, zero */
	struct pages pages = pages_new(head_dim, magnitude);
	size_t n = (size_t)n_q * head_dim, bytes = n * sizeof(float);
	float *q = guarded_new(bytes), *out = guarded_new(bytes), *again = guarded_new(bytes + sizeof(float));

	for (size_t i = 0; i < n; i++)
		q[i] = random_float(1.0f);
	spoil(&pages, window, 0x7fc1);
	run(subject, &pages, q, n_q, window, out);
	expect(guarded_intact(out, bytes), "attention wrote beside its output");
	for (uint32_t head = 0; head < n_q; head++) {
		check_head(subject, &pages, q + (size_t)head * head_dim, window, out + (size_t)head * head_dim);
		run(subject, &pages, q + (size_t)head * head_dim, 1, window, again + 1);
		expect(same_bits(again + 1, out + (size_t)head * head_dim, head_dim),
		       "attention head_dim=%u of %u..%u: head %u of %u differs alone", head_dim, window.first,
		       window.end, head, n_q);
	}
	for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
		spoil(&pages, window, garbage[i]);
		run(subject, &pages, q, n_q, window, again);
		expect(same_bits(again, out, n), "attention of %u..%u: what lies beside them shows", window.first,
		       window.end);
	}
	pages_free(&pages);
	guarded_free(q);
	guarded_free(out);
	guarded_free(again);
}

/* NaN and infinities in a query head stay in that head and crash nothing. */
static void test_poison(const struct subject *subject)
{
	enum { HEAD_DIM = 64, N_Q = 4 };
	static const float poison[] = {NAN, INFINITY, -INFINITY, 3e38f};
	struct pages pages = pages_new(HEAD_DIM, 1.0f);
	float *q = guarded_new(N_Q * HEAD_DIM * sizeof *q), *out = guarded_new(N_Q * HEAD_DIM * sizeof *out);

	for (size_t i = 0; i < sizeof poison / sizeof poison[0]; i++) {
		for (size_t j = 0; j < N_Q * HEAD_DIM; j++)
			q[j] = random_float(1.0f);
		q[HEAD_DIM + 5] = poison[i];
		run(subject, &pages, q, N_Q, (struct window){0, 77}, out);
		for (uint32_t head = 0; head < N_Q; head++)
			if (head != 1)
				check_head(subject, &pages, q + head * HEAD_DIM, (struct window){0, 77},
					   out + head * HEAD_DIM);
	}
	pages_free(&pages);
	guarded_free(q);
	guarded_free(out);
}

void test_attention(const struct subject *subject)
{
	static const uint32_t head_dims[] = {16, 64, 80, 128, 256};
	static const uint32_t lengths[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 200};

	for (size_t i = 0; i < sizeof head_dims / sizeof head_dims[0]; i++)
		for (size_t j = 0; j < sizeof lengths / sizeof lengths[0]; j++) {
			struct window all = {0, lengths[j]};
			test_heads(subject, head_dims[i], 3, all, 1.0f);
			test_heads(subject, head_dims[i], 1 + (uint32_t)(j % 9), all, 30.0f);
			/* A window that begins anywhere: in the first page, in a later one, at the row itself. */
			struct window some = {random_bits() % lengths[j], lengths[j]},
				      own = {lengths[j] - 1, lengths[j]};
			test_heads(subject, head_dims[i], 1 + (uint32_t)(j % 9), some, 1.0f);
			test_heads(subject, head_dims[i], 3, own, 1.0f);
		}
	for (uint32_t first = 0; first < 100; first++)
		test_heads(subject, 16, 2, (struct window){first, 100}, 1.0f);
	test_heads(subject, 64, 32, (struct window){0, 100}, 1.0f);
	test_poison(subject);
}
