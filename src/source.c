#include "src/source.h"

#include <errno.h>
#include <string.h>

static int64_t nanoseconds(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int source_describe(const struct stat *st, const char *path, struct segment_source *out)
{
	size_t n = strlen(path);
	if (!S_ISREG(st->st_mode))
		return -EINVAL;
	if (n >= sizeof out->path)
		return -ENAMETOOLONG;
	memset(out, 0, sizeof *out);
	out->device = st->st_dev;
	out->inode = st->st_ino;
	out->size_bytes = (uint64_t)st->st_size;
	out->mtime_ns = nanoseconds(st->st_mtim);
	out->ctime_ns = nanoseconds(st->st_ctim);
	memcpy(out->path, path, n);
	return 0;
}
