/* For how long a process has shown no progress. Pure arithmetic over a counter that the process raises.
 *
 * Not "how old is its last sign of life": a time written by the watched process says nothing when its clock, or the
 * watcher, stood still. The watcher looks at the counter again and again and adds up the time between looks that found
 * it unchanged. A look counts for WATCH_LOOK_MS at most: where the watcher itself was stopped (a frozen control group,
 * a debugger, a suspended machine), the watched processes were probably stopped with it, and get their time anew. */
#ifndef WEIGHTD_WATCH_H
#define WEIGHTD_WATCH_H

#include <stdint.h>

enum { WATCH_LOOK_MS = 1000 };

struct watch {
	uint64_t count;	    /* as seen last */
	uint64_t looked_ns; /* when */
	uint64_t still_ns;  /* unchanged for so long */
};

/* A process, or a new counter of it, is watched from here on. */
void watch_begin(struct watch *watch, uint64_t count, uint64_t now_ns);

/* Returns for how long the counter has not changed. */
uint64_t watch_look(struct watch *watch, uint64_t count, uint64_t now_ns);

#endif
