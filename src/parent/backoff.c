#include "src/parent/backoff.h"

#include "src/clock.h"

void backoff_served(struct backoff *backoff, uint64_t now_ns)
{
	*backoff = (struct backoff){.due_ns = now_ns + 1}; /* never 0 */
}

void backoff_failed(struct backoff *backoff, uint64_t now_ns)
{
	uint64_t wait_ms = 0;
	backoff->failures++;
	if (backoff_is_failing(backoff))
		wait_ms = BACKOFF_MAX_MS;
	else if (backoff->failures > 1)
		wait_ms = (uint64_t)BACKOFF_FIRST_MS << (backoff->failures - 2);
	backoff->due_ns = now_ns + wait_ms * CLOCK_MS_NS + 1;
}

bool backoff_take(struct backoff *backoff, uint64_t now_ns)
{
	if (!backoff->due_ns || backoff->due_ns > now_ns)
		return false;
	backoff->due_ns = 0;
	return true;
}

bool backoff_is_failing(const struct backoff *backoff)
{
	return backoff->failures >= BACKOFF_FAILING;
}
