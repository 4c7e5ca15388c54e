#include "shm/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif

int memfd_open_new(const char *name, struct err *err)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags);
	return fd < 0 ? err_set(err, -errno, "memfd_create: %s", strerror(errno)) : fd;
}

int memfd_allocate(int fd, uint64_t bytes, struct err *err)
{
	while (fallocate(fd, 0, 0, (off_t)bytes)) {
		if (errno == EINTR)
			continue;
		/* It has no file system to be full: the kernel would not commit the memory. */
		int rc = errno == ENOSPC ? -ENOMEM : -errno;
		return err_set(err, rc, "%llu bytes of shared memory: %s", (unsigned long long)bytes, strerror(-rc));
	}
	return 0;
}
