#include "shm/segment_map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/layout.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

int segment_map(int fd, size_t bytes, int protection, void **base)
{
	/* A huge page can map a 2 MiB part of the object only where address and offset agree modulo 2 MiB. mmap
	 * promises page alignment alone, so reserve too much and cut. */
	size_t reserved;
	if (__builtin_add_overflow(bytes, (size_t)SEGMENT_HUGE_BYTES, &reserved))
		return -EOVERFLOW;
	char *area = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return -errno;
	char *at = area + (-(uintptr_t)area & (SEGMENT_HUGE_BYTES - 1));
	/* MAP_FIXED replaces a part of our own reservation: nobody else's mapping can be there. */
	void *map = mmap(at, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0);
	if (map == MAP_FAILED) {
		int rc = -errno;
		munmap(area, reserved);
		return rc;
	}
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	size_t head = (size_t)(at - area), end = head + (bytes + page_bytes - 1) / page_bytes * page_bytes;
	if (head)
		munmap(area, head);
	if (end < reserved)
		munmap(area + end, reserved - end);
	madvise(map, bytes, MADV_DONTDUMP); /* gigabytes that the model's file has, too */
	*base = map;
	return 0;
}

int segment_total_bytes(uint64_t payload_bytes, uint64_t *out)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), total;
	if (!payload_bytes)
		return -EINVAL;
	if (__builtin_add_overflow(payload_bytes, SEGMENT_HEADER_BYTES + page_bytes - 1, &total) || total > INT64_MAX)
		return -EOVERFLOW;
	*out = total / page_bytes * page_bytes;
	return 0;
}

void segment_collapse(void *base, size_t bytes)
{
	/* At once, as every call makes all CPUs hand over what they keep of pages. */
	if (!madvise(base, bytes, MADV_COLLAPSE))
		return;
	for (size_t at = 0; bytes - at >= SEGMENT_HUGE_BYTES; at += SEGMENT_HUGE_BYTES)
		madvise((char *)base + at, SEGMENT_HUGE_BYTES, MADV_COLLAPSE);
}

int segment_populate(const void *base, size_t bytes)
{
	/* madvise takes no const; this advice does not write. Linux 5.14 and later have it. */
	if (!madvise((void *)(uintptr_t)base, bytes, MADV_POPULATE_READ))
		return 0;
	if (errno != EINVAL)
		return -errno;
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	for (size_t at = 0; at < bytes; at += page_bytes)
		(void)((const volatile char *)base)[at];
	return 0;
}

int segment_huge_bytes(const void *base, size_t bytes, uint64_t *out)
{
	uintptr_t from = (uintptr_t)base, to = from + bytes;
	uint64_t total = 0;
	int inside = 0;
	char line[512];
	FILE *smaps = fopen("/proc/self/smaps", "re");
	if (!smaps)
		return -errno;
	while (fgets(line, sizeof line, smaps)) {
		uintptr_t start, end;
		uint64_t kib;
		/* A mapping's head, "start-end rwxp …"; then its counters, "Name: n kB", none of which has a '-' there.
		 */
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) == 2)
			inside = start >= from && end <= to;
		else if (inside && sscanf(line, "ShmemPmdMapped: %" SCNu64, &kib) == 1)
			total += kib * 1024;
	}
	int rc = ferror(smaps) ? -EIO : 0;
	fclose(smaps);
	if (!rc)
		*out = total;
	return rc;
}
