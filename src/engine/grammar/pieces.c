#include "src/engine/grammar/pieces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b, void *arg)
{
	const uint32_t *x = a, *y = b;
	uint32_t n, m;
	const char *p = tokenizer_piece(arg, *x, false, &n), *q = tokenizer_piece(arg, *y, false, &m);
	int order = memcmp(p, q, n < m ? n : m);
	if (order)
		return order;
	return n != m ? (n > m) - (n < m) : (*x > *y) - (*x < *y);
}

static uint16_t n_shared(const struct tokenizer *tokenizer, uint32_t a, uint32_t b)
{
	uint32_t n, m, i = 0;
	const char *p = tokenizer_piece(tokenizer, a, false, &n), *q = tokenizer_piece(tokenizer, b, false, &m);
	while (i < n && i < m && p[i] == q[i])
		i++;
	return (uint16_t)i;
}

int pieces_init(struct pieces *pieces, const struct tokenizer *tokenizer)
{
	uint32_t n_tokens = tokenizer_n_tokens(tokenizer), n;
	*pieces = (struct pieces){.tokenizer = tokenizer};
	pieces->ids = malloc((n_tokens + 1u) * sizeof *pieces->ids);
	pieces->shared = malloc((n_tokens + 1u) * sizeof *pieces->shared);
	if (!pieces->ids || !pieces->shared) {
		pieces_fini(pieces);
		return -ENOMEM;
	}
	for (uint32_t id = 0; id < n_tokens; id++) {
		tokenizer_piece(tokenizer, id, false, &n);
		bool ends = tokenizer_is_end(tokenizer, id);
		if (ends && pieces->n_ends < PIECES_ENDS_MAX)
			pieces->ends[pieces->n_ends++] = id;
		else if (!ends && n && n <= PIECE_BYTES_MAX)
			pieces->ids[pieces->n++] = id;
	}
	/* glibc's own qsort_r wants memory; it has it, or sorts in place. The argument is not written to. */
	qsort_r(pieces->ids, pieces->n, sizeof *pieces->ids, compare, (void *)(uintptr_t)tokenizer);
	for (uint32_t i = 0; i < pieces->n; i++)
		pieces->shared[i] = i ? n_shared(tokenizer, pieces->ids[i - 1], pieces->ids[i]) : 0;
	return 0;
}

void pieces_fini(struct pieces *pieces)
{
	free(pieces->ids);
	free(pieces->shared);
	*pieces = (struct pieces){0};
}
