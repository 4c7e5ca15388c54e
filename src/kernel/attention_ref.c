/* Attention, level ref: the definition. One pass over the pages with a running maximum (Milakov and Gimelshein, 2018):
 *
 *   after each page   m = max of all scores so far
 *                     l = sum of exp(score - m)
 *                     out = sum of exp(score - m) * v
 *
 * When a page raises m, l and out are scaled by exp(old m - new m). At the end out / l is the softmax-weighted sum. The
 * first page starts from m = -inf, whose factor is 0. Pages before a window are no part of the sum: a row's result
 * depends on where its window begins, which its position says, and on nothing else. */
#include <math.h>

#include "src/kernel/half.h"
#include "src/kernel/kv_page.h"
#include "src/kernel/levels.h"
#include "src/kernel/page_span.h"

/* scores[t] = scale * q . k[.][t] for positions begin .. end - 1 of the page; returns the largest. */
static float page_scores(const struct attention *a, const float *q, const uint16_t *k, uint32_t begin, uint32_t end,
			 float *scores)
{
	float largest = -INFINITY;

	for (uint32_t t = begin; t < end; t++) {
		float sum = 0.0f;
		for (uint32_t d = 0; d < a->head_dim; d++)
			sum += q[d] * f32_from_bf16(k[kv_key_at(t, d)]);
		scores[t] = a->scale * sum;
		if (scores[t] > largest)
			largest = scores[t];
	}
	return largest;
}

static void attend(const struct attention *a, const float *q, float *out)
{
	float maximum = -INFINITY, sum = 0.0f;

	for (uint32_t d = 0; d < a->head_dim; d++)
		out[d] = 0.0f;
	for (uint32_t page = a->first_token / KV_PAGE_TOKENS; page * KV_PAGE_TOKENS < a->n_tokens; page++) {
		float scores[KV_PAGE_TOKENS];
		struct page_span span = page_span(a, page);
		const uint16_t *v = a->v[page];
		float page_maximum = page_scores(a, q, a->k[page], span.begin, span.end, scores);
		float new_maximum = page_maximum > maximum ? page_maximum : maximum;
		float correction = expf(maximum - new_maximum);

		maximum = new_maximum;
		sum *= correction;
		for (uint32_t d = 0; d < a->head_dim; d++)
			out[d] *= correction;
		for (uint32_t t = span.begin; t < span.end; t++) {
			float p = expf(scores[t] - maximum);
			sum += p;
			for (uint32_t d = 0; d < a->head_dim; d++)
				out[d] += p * f32_from_bf16(v[kv_value_at(t, d, a->head_dim)]);
		}
	}
	for (uint32_t d = 0; d < a->head_dim; d++)
		out[d] /= sum;
}

void attention_ref(const struct attention *a)
{
	for (uint32_t head = 0; head < a->n_q; head++)
		attend(a, a->q + (size_t)head * a->head_dim, a->out + (size_t)head * a->head_dim);
}
