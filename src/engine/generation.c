#include "src/engine/generation.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct generation *generation_new(uint64_t id, const struct generation_params *params, uint32_t *prompt,
				  uint32_t n_prompt, uint32_t *forced, uint32_t n_forced, const char *stop_bytes,
				  uint32_t n_stop_bytes)
{
	struct generation *g = calloc(1, sizeof *g);
	char *stops = malloc(n_stop_bytes + 1u);
	if (!g || !stops) {
		free(g);
		free(stops);
		free(prompt);
		free(forced);
		return NULL;
	}
	g->id = id;
	g->params = *params;
	g->prompt = prompt;
	g->n_prompt = n_prompt;
	g->forced = forced;
	g->n_forced = n_forced;
	g->stop_bytes = stops;
	if (n_stop_bytes)
		memcpy(stops, stop_bytes, n_stop_bytes);
	stops[n_stop_bytes] = '\0';
	for (uint32_t at = 0; at < n_stop_bytes && g->n_stops < GENERATION_STOPS_MAX;) {
		uint32_t n = (uint32_t)strlen(stops + at);
		if (n)
			g->stops[g->n_stops++] = (struct generation_stop){stops + at, n};
		at += n + 1;
	}
	sampler_init(&g->sampler, &params->sampler);
	return g;
}

void generation_free(struct generation *g)
{
	if (!g)
		return;
	sampler_fini(&g->sampler);
	matcher_free(g->matcher);
	adapter_put(g->adapter);
	free(g->pooling);
	free(g->biases);
	free(g->prompt);
	free(g->forced);
	free(g->answer);
	free(g->stop_bytes);
	free(g->held);
	free(g);
}

int generation_add_token(struct generation *g, uint32_t token)
{
	if (g->n_answer == g->answer_capacity) {
		uint32_t capacity = g->n_answer ? 2 * g->n_answer : 64; /* below 2^25: a context's length */
		uint32_t *answer = realloc(g->answer, capacity * sizeof *answer);
		if (!answer)
			return -ENOMEM;
		g->answer = answer;
		g->answer_capacity = capacity;
	}
	g->answer[g->n_answer++] = token;
	return 0;
}

uint32_t generation_token(const struct generation *g, uint32_t position)
{
	assert(position < g->n_prompt + g->n_answer);
	return position < g->n_prompt ? g->prompt[position] : g->answer[position - g->n_prompt];
}

static int reserve(struct generation *g, size_t n)
{
	if (n <= g->held_capacity)
		return 0;
	size_t capacity = n < 256 ? 256 : 2 * n;
	char *held = capacity > UINT32_MAX ? NULL : realloc(g->held, capacity);
	if (!held)
		return -ENOMEM;
	g->held = held;
	g->held_capacity = (uint32_t)capacity;
	return 0;
}

/* The first position in `held` where a stop string begins; n_held when none does. */
static uint32_t find_stop(const struct generation *g)
{
	uint32_t first = g->n_held;
	for (uint32_t i = 0; i < g->n_stops; i++) {
		const char *at = memmem(g->held, g->n_held, g->stops[i].bytes, g->stops[i].n_bytes);
		if (at && (uint32_t)(at - g->held) < first)
			first = (uint32_t)(at - g->held);
	}
	return first;
}

/* How many bytes at the end of `held` may be the beginning of a stop string. */
static uint32_t undecided(const struct generation *g)
{
	uint32_t longest = 0;
	for (uint32_t i = 0; i < g->n_stops; i++) {
		uint32_t n = g->stops[i].n_bytes - 1;
		for (n = n < g->n_held ? n : g->n_held; n > longest; n--)
			if (!memcmp(g->held + g->n_held - n, g->stops[i].bytes, n)) {
				longest = n;
				break;
			}
	}
	return longest;
}

/* What the last call handed out is still at the front of `held`; n_final of it goes now. */
static void forget(struct generation *g, uint32_t n_final)
{
	memmove(g->held, g->held + n_final, g->n_held - n_final);
	g->n_held -= n_final;
}

int generation_add_text(struct generation *g, const char *piece, uint32_t n_piece, const char **text, uint32_t *n,
			bool *stopped)
{
	/* The view handed out must survive: final text is copied behind the held part's capacity. */
	int rc = reserve(g, 2 * ((size_t)g->n_held + 3 * ((size_t)n_piece + 3)));
	if (rc)
		return rc;
	g->n_held += (uint32_t)utf8_stream_push(&g->utf8, piece, n_piece, g->held + g->n_held);
	uint32_t stop = find_stop(g), n_final = stop;
	*stopped = stop < g->n_held;
	if (!*stopped)
		n_final = g->n_held - undecided(g);
	char *out = g->held + g->held_capacity - n_final;
	memcpy(out, g->held, n_final);
	forget(g, *stopped ? g->n_held : n_final);
	*text = out;
	*n = n_final;
	return 0;
}

int generation_last_text(struct generation *g, const char **text, uint32_t *n, bool *stopped)
{
	int rc = reserve(g, (size_t)g->n_held + 16);
	if (rc)
		return rc;
	g->n_held += (uint32_t)utf8_stream_finish(&g->utf8, g->held + g->n_held);
	*text = g->held;
	*n = find_stop(g);
	*stopped = *n < g->n_held;
	g->n_held = 0;
	return 0;
}
