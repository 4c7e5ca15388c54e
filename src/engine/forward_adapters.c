/* Adapters in a pass. Rows with the same adapter form a group, whose rows share the loads of its values four at a time;
 * rows with none are in no group and see nothing of all this.
 *
 *   t = A x       with the products of the operand: both read it, neither waits for the other
 *   barrier       the products' own
 *   y += scale B t
 *   barrier       the one that adapters cost, once for all products of an operand
 *
 * The threads divide work items over all products and groups together: one row of A for four rows of x, or one block of
 * B for four rows of y. An item's sums are its own, so neither the division nor the company can be seen in a result.
 * (Rejected: threads that divide rows alone, as for norms. It would need no barrier, and one thread would do all of an
 * answer's work.) */
#include "src/engine/forward_private.h"

static struct adapter_group *group_of(struct pass *p, const struct adapter *adapter)
{
	/* Rows of a call follow each other, so its group is most often the last. */
	for (uint32_t i = p->n_groups; i-- > 0;)
		if (p->groups[i].adapter == adapter)
			return &p->groups[i];
	p->groups[p->n_groups] = (struct adapter_group){.adapter = adapter};
	return &p->groups[p->n_groups++];
}

void adapters_group(struct pass *p)
{
	const struct batch_row *rows = p->batch.rows;
	uint32_t first = 0;
	p->n_groups = 0;
	for (uint32_t r = 0; r < p->batch.n_rows; r++)
		if (rows[r].adapter)
			group_of(p, rows[r].adapter)->n++;
	for (uint32_t i = 0; i < p->n_groups; i++) {
		p->groups[i].first = first;
		first += p->groups[i].n;
		p->groups[i].n = 0;
	}
	for (uint32_t r = 0; r < p->batch.n_rows; r++)
		if (rows[r].adapter) {
			struct adapter_group *g = group_of(p, rows[r].adapter);
			p->adapted[g->first + g->n++] = r;
		}
}

/* --- sharing ---------------------------------------------------------------------------------- */

/* What one adapter does to one product. */
struct part {
	const struct products *products;
	const struct product *product;
	const struct adapter_group *group;
	const struct low_rank *m;
	uint32_t t_col; /* its columns of t begin here */
};

/* A direction: how many items one quad of rows has, and what an item range of a quad is. */
struct direction {
	uint32_t (*width)(const struct low_rank *m);
	void (*run)(struct forward *f, const struct part *part, uint32_t quad, uint32_t begin, uint32_t end);
};

/* The part number `*at` of products times groups or the next one after it that there is; false: no more. */
static bool next_part(const struct pass *p, const struct products *products, uint32_t *at, struct part *part)
{
	for (; *at < products->n * p->n_groups; ++*at) {
		uint32_t i = *at / p->n_groups;
		const struct adapter_group *group = &p->groups[*at % p->n_groups];
		const struct product *product = &products->each[i];
		const struct low_rank *m = &group->adapter->layers[products->layer].products[product->of];
		if (!m->rank)
			continue;
		*part = (struct part){products, product, group, m, i * ADAPTER_RANK_MAX};
		++*at;
		return true;
	}
	return false;
}

static uint32_t n_items(const struct direction *direction, const struct part *part)
{
	return (part->group->n + LOW_RANK_ROWS - 1) / LOW_RANK_ROWS * direction->width(part->m);
}

/* Items [begin, end) of a part, quad by quad. */
static void run_part(struct forward *f, const struct direction *direction, const struct part *part, uint32_t begin,
		     uint32_t end)
{
	uint32_t width = direction->width(part->m);
	while (begin < end) {
		uint32_t first = begin % width, left = end - begin, n = width - first < left ? width - first : left;
		direction->run(f, part, begin / width, first, first + n);
		begin += n;
	}
}

static uint32_t within(uint32_t x, uint32_t from, uint32_t n)
{
	return x < from ? 0 : x - from < n ? x - from : n;
}

static void share_items(struct forward *f, unsigned thread, const struct products *products,
			const struct direction *direction)
{
	const struct pass *p = f->pass;
	struct part part;
	uint32_t total = 0, from = 0, begin, end;
	for (uint32_t at = 0; next_part(p, products, &at, &part);)
		total += n_items(direction, &part);
	team_share(total, thread, team_n_threads(f->setup.team), &begin, &end);
	for (uint32_t at = 0; from < end && next_part(p, products, &at, &part);) {
		uint32_t n = n_items(direction, &part);
		run_part(f, direction, &part, within(begin, from, n), within(end, from, n));
		from += n;
	}
}

/* --- the two directions ----------------------------------------------------------------------- */

/* The batch's rows in a quad of a group; returns how many. */
static uint32_t quad_rows(const struct pass *p, const struct adapter_group *group, uint32_t quad, const uint32_t **rows)
{
	uint32_t first = quad * LOW_RANK_ROWS, left = group->n - first;
	*rows = p->adapted + group->first + first;
	return left < LOW_RANK_ROWS ? left : LOW_RANK_ROWS;
}

static float *t_of(const struct pass *p, uint32_t row, uint32_t col)
{
	return p->t + (size_t)row * FORWARD_T_COLS + col;
}

static uint32_t width_in(const struct low_rank *m)
{
	return m->rank;
}

static void run_in(struct forward *f, const struct part *part, uint32_t quad, uint32_t begin, uint32_t end)
{
	const uint32_t *rows;
	uint32_t n = quad_rows(f->pass, part->group, quad, &rows);
	const float *x[LOW_RANK_ROWS];
	float *t[LOW_RANK_ROWS];
	for (uint32_t i = 0; i < n; i++) {
		x[i] = part->products->x + (size_t)rows[i] * part->m->cols;
		t[i] = t_of(f->pass, rows[i], part->t_col);
	}
	f->setup.kernels->low_rank_in(part->m, begin, end, x, t, n);
}

static uint32_t width_out(const struct low_rank *m)
{
	return (m->rows + PACK_ROWS - 1) / PACK_ROWS;
}

static void run_out(struct forward *f, const struct part *part, uint32_t quad, uint32_t begin, uint32_t end)
{
	const uint32_t *rows;
	uint32_t n = quad_rows(f->pass, part->group, quad, &rows);
	const float *t[LOW_RANK_ROWS];
	float *y[LOW_RANK_ROWS];
	for (uint32_t i = 0; i < n; i++) {
		t[i] = t_of(f->pass, rows[i], part->t_col);
		y[i] = part->product->y + (size_t)rows[i] * part->m->rows;
	}
	f->setup.kernels->low_rank_out(part->m, begin, end, t, y, n);
}

void adapters_in(struct forward *f, unsigned thread, const struct products *products)
{
	share_items(f, thread, products, &(const struct direction){width_in, run_in});
}

void adapters_out(struct forward *f, unsigned thread, const struct products *products)
{
	share_items(f, thread, products, &(const struct direction){width_out, run_out});
}
