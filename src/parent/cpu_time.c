#include "src/parent/cpu_time.h"

#include <errno.h>
#include <time.h>

#define SECOND_NS UINT64_C(1000000000)

int cpu_time_sample(pid_t pid, struct cpu_time *use)
{
	clockid_t clock;
	struct timespec time;
	int rc = clock_getcpuclockid(pid, &clock);
	if (rc)
		return -rc;
	if (clock_gettime(clock, &time))
		return errno == EINVAL ? -ESRCH : -errno; /* a clock of nobody */
	uint64_t now_ns = (uint64_t)time.tv_sec * SECOND_NS + (uint64_t)time.tv_nsec;
	if (use->pid != pid || now_ns < use->last_ns) /* another process, perhaps with a number that was used before */
		use->last_ns = 0;
	use->total_ns += now_ns - use->last_ns;
	use->last_ns = now_ns;
	use->pid = pid;
	return 0;
}
