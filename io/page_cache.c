#include "io/page_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux 6.5, the same number everywhere; the C library's headers may be older than the kernel. */
enum { CACHESTAT_CALL = 451 };
struct cache_range {
	uint64_t offset, n_bytes; /* n_bytes 0: to the end */
};
struct cache_counts {
	uint64_t cached, dirty, writeback, evicted, recently_evicted; /* pages */
};

void page_cache_drop(int fd)
{
	(void)fdatasync(fd);
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* To others mincore() does not refuse the answer: it says that every page is there. */
static int check_may_ask(int fd)
{
	struct stat st;
	char path[32];
	if (fstat(fd, &st))
		return -errno;
	if (st.st_uid == geteuid())
		return 0;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) ? -EPERM : 0;
}

/* A window after the other, none of which is ever touched: a file that became shorter meanwhile can't hurt. */
static int ask_mincore(int fd, uint64_t size_bytes, uint64_t *out)
{
	enum { WINDOW_PAGES = 1 << 14 };
	unsigned char resident[WINDOW_PAGES];
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), found = 0;
	int rc = check_may_ask(fd);
	for (uint64_t at = 0; at < size_bytes && !rc;) {
		uint64_t left = size_bytes - at, step = WINDOW_PAGES * page_bytes;
		size_t n = (size_t)(left < step ? left : step), pages = (n + page_bytes - 1) / page_bytes;
		void *window = mmap(NULL, n, PROT_NONE, MAP_SHARED, fd, (off_t)at);
		if (window == MAP_FAILED)
			return -errno;
		if (mincore(window, n, resident))
			rc = -errno;
		munmap(window, n);
		for (size_t i = 0; i < pages && !rc; i++)
			found += resident[i] & 1;
		at += n;
	}
	if (!rc)
		*out = found * page_bytes;
	return rc;
}

int page_cache_bytes(int fd, uint64_t size_bytes, uint64_t *out)
{
	struct cache_range range = {0, size_bytes};
	struct cache_counts counts;
	if (syscall(CACHESTAT_CALL, fd, &range, &counts, 0))
		return ask_mincore(fd, size_bytes, out);
	*out = counts.cached * (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}
