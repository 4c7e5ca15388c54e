#include "src/parent/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "Name:   123 kB" in a status file; 0 when absent. */
static uint64_t field_bytes(const char *status, const char *name)
{
	const char *at = strstr(status, name);
	return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

int memory_sample(pid_t pid, struct memory_use *use)
{
	char path[64], status[8192];
	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	ssize_t n = read(fd, status, sizeof status - 1);
	int code = -errno;
	close(fd);
	if (n < 0)
		return code;
	status[n] = '\0';
	use->table_bytes = field_bytes(status, "\nVmPTE:");
	use->private_bytes = field_bytes(status, "\nRssAnon:") + use->table_bytes;
	use->shared_bytes = field_bytes(status, "\nRssShmem:") + field_bytes(status, "\nHugetlbPages:");
	use->locked_bytes = field_bytes(status, "\nVmLck:");
	if (use->private_bytes > use->private_peak_bytes)
		use->private_peak_bytes = use->private_bytes;
	return 0;
}
