/* The reference is a second forward pass over the same weights, of the widest level that takes float32, through the
 * kernels of the answer path. It keeps keys and values in bfloat16, in a pool of its own; what that costs is not seen.
 */
#include "src/worker/worker_quality.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Between two layers at most so many rows are judged, each in some 10 ms: whoever watches the progress sees some. */
enum { ROWS = 8 };

/* One way of predicting: a forward pass, a phase, and a sequence of its own. */
struct way {
	struct forward *forward;
	struct kv *kv;
	enum phase phase;
	struct kv_sequence sequence;
	const float *logits; /* of the rows that were run last */
};

struct judge {
	const struct message_quality *order;
	struct team *team;
	uint32_t vocab;
	struct way reference, prefill, decode;

	/* The rows at hand, of which each thread judges some. */
	const struct way *way;
	uint32_t begin, n;
	struct quality rows[ROWS]; /* of one position each, perplexity as a logarithm */
};

/* Logits after tokens [begin, begin + n), n at most ROWS. */
static int predict(const struct judge *j, struct way *way, uint32_t begin, uint32_t n, struct err *err)
{
	struct batch_row rows[ROWS];
	uint32_t numbers[ROWS];
	struct batch batch = {way->phase, n, rows};
	int rc = kv_extend(way->kv, &way->sequence, begin + n);
	for (uint32_t i = 0; i < n; i++) {
		rows[i] = (struct batch_row){
			.token = j->order->tokens[begin + i], .position = begin + i, .sequence = &way->sequence};
		numbers[i] = i;
	}
	if (!rc)
		rc = forward_run(way->forward, &batch);
	if (rc)
		return err_set(err, rc, "no memory for %u positions of each pass: kv_bytes is too small", begin + n);
	kv_advance(&way->sequence, n, way->phase);
	way->logits = forward_logits(way->forward, numbers, n);
	return 0;
}

static void judge_row(struct judge *j, uint32_t row)
{
	const float *p = j->reference.logits + (size_t)row * j->vocab, *q = j->way->logits + (size_t)row * j->vocab;
	double p_norm = sampler_log_sum_exp(p, j->vocab), q_norm = sampler_log_sum_exp(q, j->vocab), kl = 0;
	for (uint32_t i = 0; i < j->vocab; i++) {
		double log_p = (double)p[i] - p_norm;
		kl += exp(log_p) * (log_p - ((double)q[i] - q_norm));
	}
	j->rows[row] = (struct quality){
		.mean_kl = kl, .max_kl = kl, .perplexity = q_norm - (double)q[j->order->tokens[j->begin + row + 1]]};
}

static void judge_job(void *arg, unsigned thread)
{
	struct judge *j = arg;
	uint32_t begin, end;
	team_share(j->n, thread, team_n_threads(j->team), &begin, &end);
	for (uint32_t row = begin; row < end; row++)
		judge_row(j, row);
}

/* Sums over positions; finish makes means of them. */
static void judge_rows(struct judge *j, const struct way *way, uint32_t begin, uint32_t n, struct quality *out)
{
	j->way = way;
	j->begin = begin;
	j->n = n;
	team_run(j->team, judge_job, j);
	for (uint32_t row = 0; row < n; row++) {
		out->mean_kl += j->rows[row].mean_kl;
		out->max_kl = j->rows[row].max_kl > out->max_kl ? j->rows[row].max_kl : out->max_kl;
		out->perplexity += j->rows[row].perplexity;
	}
}

static void finish(struct quality *q, uint32_t n)
{
	q->mean_kl /= n;
	q->perplexity = exp(q->perplexity / n);
}

/* The last token has none after it that it could predict. */
static int judge_all(struct judge *j, struct message_judged *out)
{
	struct quality reference = {0};
	out->n_positions = j->order->n_tokens - 1;
	for (uint32_t at = 0, n; at < out->n_positions; at += n) {
		n = out->n_positions - at < ROWS ? out->n_positions - at : ROWS;
		int rc = predict(j, &j->reference, at, n, &out->err);
		if (!rc)
			rc = predict(j, &j->prefill, at, n, &out->err);
		if (rc)
			return rc;
		judge_rows(j, &j->reference, at, n, &reference);
		judge_rows(j, &j->prefill, at, n, &out->prefill);
		rc = predict(j, &j->decode, at, n, &out->err);
		if (rc)
			return rc;
		judge_rows(j, &j->decode, at, n, &out->decode);
	}
	finish(&reference, out->n_positions);
	finish(&out->prefill, out->n_positions);
	finish(&out->decode, out->n_positions);
	out->reference_perplexity = reference.perplexity;
	return 0;
}

static int check_order(const struct forward_setup *own, const struct message_quality *order, struct err *err)
{
	if (order->n_tokens < 2 || order->n_tokens > QUALITY_TOKENS_MAX || order->n_tokens > own->max_context)
		return err_set(err, -EINVAL, "a text has 2 to %u tokens here, this one has %u",
			       own->max_context < QUALITY_TOKENS_MAX ? own->max_context : QUALITY_TOKENS_MAX,
			       order->n_tokens);
	for (uint32_t i = 0; i < order->n_tokens; i++)
		if (order->tokens[i] >= own->model->config.vocab)
			return err_set(err, -EINVAL, "token %u of the text is %u, the model has %u", i,
				       order->tokens[i], own->model->config.vocab);
	return 0;
}

void worker_quality(const struct forward_setup *own, struct forward *forward, uint64_t *progress,
		    const struct message_quality *order, struct message_judged *out)
{
	struct judge j = {.order = order, .team = own->team, .vocab = own->model->config.vocab};
	struct forward_setup exact = *own;
	struct kv exact_kv;
	memset(out, 0, sizeof *out);
	if (check_order(own, order, &out->err))
		return;
	kv_init(&exact_kv, &own->model->config, KV_BF16, own->arena, kv_pages_for(order->n_tokens));
	exact.kv = &exact_kv;
	exact.numerics = NUMERICS_F32;
	exact.kernels = kernels_get(CPU_LEVEL_AVX2, NUMERICS_F32);
	if (!exact.kernels)
		exact.kernels = kernels_get(CPU_LEVEL_REF, NUMERICS_F32);
	if (forward_new(&exact, &j.reference.forward, &out->err))
		return;
	forward_watch(j.reference.forward, progress);
	j.reference.phase = j.decode.phase = PHASE_DECODE;
	j.prefill.phase = PHASE_PREFILL;
	j.prefill.forward = j.decode.forward = forward;
	j.reference.kv = &exact_kv;
	j.prefill.kv = j.decode.kv = own->kv;
	judge_all(&j, out);
	kv_release(&exact_kv, &j.reference.sequence);
	kv_release(own->kv, &j.prefill.sequence);
	kv_release(own->kv, &j.decode.sequence);
	forward_free(j.reference.forward);
}
