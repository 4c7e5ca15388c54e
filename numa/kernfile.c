#include "numa/kernfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

int kernfile_read(const char *root, const char *path, char *text, size_t size)
{
	char full[PATH_MAX];
	if (snprintf(full, sizeof full, "%s%s", root ? root : "", path) >= (int)sizeof full)
		return -ENAMETOOLONG;
	int fd = open(full, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	size_t used = 0;
	int rc = 0;
	for (;;) {
		ssize_t n = read(fd, text + used, size - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = -errno;
		if (n <= 0)
			break;
		used += (size_t)n;
		if (used == size) {
			rc = -EFBIG;
			break;
		}
	}
	close(fd);
	if (rc)
		return rc;
	text[used] = '\0';
	return (int)used;
}
