/* When to start a process again that keeps dying. Pure arithmetic; the times are its caller's.
 *
 * What counts is whether a process had proven itself: one that has served and then dies (someone's kill -9, the OOM
 * killer) is replaced at once, however often it happens. One that dies before it has served is a crash loop in the
 * making: the second start is at once, too, further ones wait longer and longer, and after BACKOFF_FAILING deaths in a
 * row it is called failing and tried at the longest interval, for ever: what is missing may come back. */
#ifndef WEIGHTD_BACKOFF_H
#define WEIGHTD_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

enum {
	BACKOFF_FIRST_MS = 100, /* before the third start in a row, doubled for each further one */
	BACKOFF_MAX_MS = 10000,
	BACKOFF_FAILING = 5, /* deaths in a row without having served */
};

struct backoff {
	uint32_t failures; /* in a row, without having served */
	uint64_t due_ns;   /* when to start again; 0: not planned */
};

/* A process ended that had served: it may start again from now_ns on. */
void backoff_served(struct backoff *backoff, uint64_t now_ns);
/* One ended, or could not even be started, without having served. */
void backoff_failed(struct backoff *backoff, uint64_t now_ns);

/* It is time: the start is no longer planned. False: not planned, or not yet. */
bool backoff_take(struct backoff *backoff, uint64_t now_ns);
bool backoff_is_failing(const struct backoff *backoff);

#endif
