#include "src/parent/watch.h"

#include "src/clock.h"

void watch_begin(struct watch *watch, uint64_t count, uint64_t now_ns)
{
	*watch = (struct watch){.count = count, .looked_ns = now_ns};
}

uint64_t watch_look(struct watch *watch, uint64_t count, uint64_t now_ns)
{
	uint64_t passed = now_ns - watch->looked_ns;
	if (count != watch->count)
		watch->still_ns = 0;
	else
		watch->still_ns += passed < WATCH_LOOK_MS * CLOCK_MS_NS ? passed : WATCH_LOOK_MS * CLOCK_MS_NS;
	watch->count = count;
	watch->looked_ns = now_ns;
	return watch->still_ns;
}
