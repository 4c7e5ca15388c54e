#include "src/engine/grammar/pieces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *pieces_bytes(const struct pieces *pieces, uint32_t id, uint32_t *n_bytes)
{
	if (id != pieces->mark)
		return tokenizer_piece(pieces->tokenizer, id, false, n_bytes);
	*n_bytes = sizeof PIECES_MARK - 1;
	return PIECES_MARK;
}

static int compare(const void *a, const void *b, void *pieces)
{
	const uint32_t *x = a, *y = b;
	uint32_t n, m;
	const char *p = pieces_bytes(pieces, *x, &n), *q = pieces_bytes(pieces, *y, &m);
	int order = memcmp(p, q, n < m ? n : m);
	if (order)
		return order;
	return n != m ? (n > m) - (n < m) : (*x > *y) - (*x < *y);
}

static uint16_t n_shared(const struct pieces *pieces, uint32_t a, uint32_t b)
{
	uint32_t n, m, i = 0;
	const char *p = pieces_bytes(pieces, a, &n), *q = pieces_bytes(pieces, b, &m);
	while (i < n && i < m && p[i] == q[i])
		i++;
	return (uint16_t)i;
}

/* Whether a grammar may ever want it. */
static bool is_usable(const struct pieces *pieces, uint32_t id)
{
	uint32_t n;
	const char *bytes = pieces_bytes(pieces, id, &n);
	return n && n <= PIECE_BYTES_MAX && (id == pieces->mark || !memchr(bytes, *PIECES_MARK, n));
}

int pieces_init(struct pieces *pieces, const struct tokenizer *tokenizer, int64_t mark)
{
	uint32_t n_tokens = tokenizer_n_tokens(tokenizer);
	*pieces = (struct pieces){.tokenizer = tokenizer, .mark = mark};
	pieces->ids = malloc((n_tokens + 1u) * sizeof *pieces->ids);
	pieces->shared = malloc((n_tokens + 1u) * sizeof *pieces->shared);
	if (!pieces->ids || !pieces->shared) {
		pieces_fini(pieces);
		return -ENOMEM;
	}
	for (uint32_t id = 0; id < n_tokens; id++) {
		bool ends = tokenizer_is_end(tokenizer, id);
		if (ends && pieces->n_ends < PIECES_ENDS_MAX)
			pieces->ends[pieces->n_ends++] = id;
		else if (!ends && is_usable(pieces, id))
			pieces->ids[pieces->n++] = id;
	}
	/* glibc's own qsort_r wants memory; it has it, or sorts in place. */
	qsort_r(pieces->ids, pieces->n, sizeof *pieces->ids, compare, pieces);
	for (uint32_t i = 0; i < pieces->n; i++)
		pieces->shared[i] = i ? n_shared(pieces, pieces->ids[i - 1], pieces->ids[i]) : 0;
	return 0;
}

void pieces_fini(struct pieces *pieces)
{
	free(pieces->ids);
	free(pieces->shared);
	*pieces = (struct pieces){0};
}
