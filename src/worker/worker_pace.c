#include "src/worker/worker_pace.h"

void pace_init(struct pace *pace, uint32_t share, uint32_t max_rows)
{
	*pace = (struct pace){.share = share, .max_rows = max_rows, .alone = true};
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t fastest_decode(const struct pace *pace)
{
	uint64_t fastest = UINT64_MAX;
	for (uint32_t i = 0; i < PACE_DECODES && i < pace->n_decodes; i++)
		fastest = smaller(fastest, pace->decode_ns[i]);
	return fastest;
}

/* What layers may take beside a decode pass: its time s / (1 - s) times for the first prompt, a quarter of that more
 * for each further one, PACE_TIMES_MAX times at most unless the first one's is more. */
static uint64_t budget(const struct pace *pace, uint32_t n_prompts)
{
	uint64_t share = pace->share, rest = 100 - share, quarters = share * (n_prompts + UINT64_C(3));
	if (!rest)
		return UINT64_MAX;
	quarters = smaller(quarters, 4 * PACE_TIMES_MAX * rest);
	return fastest_decode(pace) * (quarters < 4 * share ? 4 * share : quarters) / (4 * rest);
}

void pace_decoded(struct pace *pace, uint32_t n_rows, uint64_t ns, uint32_t n_prompts)
{
	pace->spent_ns = 0;
	pace->alone = !n_rows;
	if (pace->alone) {
		pace->n_decodes = 0;
		pace->budget_ns = PACE_ALONE_NS;
		return;
	}
	pace->decode_ns[pace->n_decodes++ % PACE_DECODES] = ns;
	pace->budget_ns = budget(pace, n_prompts);
}

uint32_t pace_rows(const struct pace *pace)
{
	uint64_t rows = pace->max_rows;
	if (!pace->alone && pace->share < 100) {
		rows = pace->known_ns ? pace->budget_ns / 8 * 7 * pace->known_rows / pace->known_ns : PACE_ROWS_MIN;
		rows = smaller(rows, 2 * (uint64_t)pace->known_rows) & ~3ull; /* gemm's heights are multiples of 4 */
		rows = rows < PACE_ROWS_MIN ? PACE_ROWS_MIN : rows;
	}
	return (uint32_t)smaller(rows, pace->max_rows);
}

void pace_began(struct pace *pace, uint32_t n_rows)
{
	if (pace->pass_rows >= PACE_ROWS_MIN && pace->layer_ns) {
		pace->known_rows = pace->pass_rows;
		pace->known_ns = pace->layer_ns;
	}
	pace->pass_rows = n_rows;
	pace->layer_ns = 0;
}

bool pace_spend(struct pace *pace, uint64_t ns)
{
	pace->spent_ns += ns;
	return pace->spent_ns < pace->budget_ns;
}

bool pace_layer(struct pace *pace, uint64_t ns)
{
	pace->layer_ns = pace->layer_ns ? smaller(pace->layer_ns, ns) : ns;
	return pace_spend(pace, ns) && pace->layer_ns <= pace->budget_ns - pace->spent_ns;
}
