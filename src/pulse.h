/* The front's pulse: one page that it counts in and that the parent looks at. (Workers have their channel's counters.)
 *
 *	field     writer  readers  ordering
 *	turns     front   parent   relaxed: only that it changes says something
 *	answered  front   parent   relaxed
 *
 * The memory cannot be shrunk, so that a front gone bad can't make the parent fault. */
#ifndef WEIGHTD_PULSE_H
#define WEIGHTD_PULSE_H

#include <stdint.h>

#include "src/err.h"

enum { PULSE_TURN_MS = 250 /* the front counts at least this often */ };

struct pulse {
	uint64_t turns;	   /* of the event loop's clock */
	uint64_t answered; /* requests */
};

/* Returns an owned descriptor, close-on-exec, and an owned mapping of it. 0 or -errno. */
int pulse_create(int *fd, struct pulse **out, struct err *err);
/* The other side's mapping, owned; the descriptor stays the caller's. -EINVAL when it is no pulse. */
int pulse_attach(int fd, struct pulse **out, struct err *err);
void pulse_detach(struct pulse *pulse); /* takes NULL */

/* For the one writer, and for readers. */
void pulse_beat(struct pulse *pulse);	/* a turn */
void pulse_answer(struct pulse *pulse); /* one more request; at once, so that a death right after it is not one of a
					 * front that never served */
uint64_t pulse_turns(const struct pulse *pulse);
uint64_t pulse_answered(const struct pulse *pulse);

#endif
