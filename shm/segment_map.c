#include "shm/segment_map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/layout.h"
#include "shm/segment_pool.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

int segment_map(int fd, size_t bytes, int protection, void **base)
{
	/* A huge page can map a 2 MiB part of the object only where address and offset agree modulo 2 MiB. mmap
	 * promises page alignment alone, so reserve too much and cut. */
	size_t reserved, alignment = SEGMENT_HUGE_BYTES;
	uint64_t pool_page_bytes = 0;
	int code = segment_pool_object_page_bytes(fd, &pool_page_bytes);
	if (code)
		return code;
	if (pool_page_bytes > alignment)
		alignment = (size_t)pool_page_bytes;
	if (__builtin_add_overflow(bytes, alignment, &reserved))
		return -EOVERFLOW;
	char *area = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return -errno;
	char *at = area + (-(uintptr_t)area & (alignment - 1));
	/* MAP_FIXED replaces a part of our own reservation: nobody else's mapping can be there. */
	int flags = MAP_SHARED | MAP_FIXED | (pool_page_bytes ? MAP_NORESERVE : 0); /* segment_pool.c says why */
	void *map = mmap(at, bytes, protection, flags, fd, 0);
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

int segment_total_bytes(uint64_t payload_bytes, uint64_t page_bytes, uint64_t *out)
{
	uint64_t total;
	if (!page_bytes)
		page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
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

/* What smaps says of one mapping, in bytes. */
struct map_counters {
	uint64_t resident, pmd_mapped; /* ordinary pages; those of them that are 2 MiB large and mapped as such */
	uint64_t pool, page;	       /* pages of a pool, which are in neither, and their size */
};

/* One line of a mapping's entry, "Name: n kB". */
static void count_line(const char *line, struct map_counters *counters)
{
	const struct {
		const char *name;
		uint64_t *sum;
	} fields[] = {{"Rss:", &counters->resident},
		      {"ShmemPmdMapped:", &counters->pmd_mapped},
		      {"Shared_Hugetlb:", &counters->pool},
		      {"Private_Hugetlb:", &counters->pool},
		      {"KernelPageSize:", &counters->page}};
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		size_t n = strlen(fields[i].name);
		if (!strncmp(line, fields[i].name, n))
			*fields[i].sum += strtoull(line + n, NULL, 10) * 1024;
	}
}

static void add_counters(const struct map_counters *counters, struct segment_report *out)
{
	out->huge_bytes += counters->pmd_mapped;
	out->small_bytes += counters->resident - counters->pmd_mapped;
	*(counters->page > SEGMENT_HUGE_BYTES ? &out->giant_bytes : &out->huge_bytes) += counters->pool;
}

int segment_count_bytes(const void *base, size_t bytes, struct segment_report *out)
{
	uintptr_t from = (uintptr_t)base, to = from + bytes;
	struct segment_report sum = {0};
	struct map_counters counters = {0};
	bool inside = false;
	char line[512];
	FILE *smaps = fopen("/proc/self/smaps", "re");
	if (!smaps)
		return -errno;
	while (fgets(line, sizeof line, smaps)) {
		uintptr_t start, end;
		/* A mapping's head, "start-end rwxp …"; then its counters, none of which has a '-' there. */
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) == 2) {
			add_counters(&counters, &sum);
			counters = (struct map_counters){0};
			inside = start >= from && end <= to;
		} else if (inside) {
			count_line(line, &counters);
		}
	}
	add_counters(&counters, &sum);
	int rc = ferror(smaps) ? -EIO : 0;
	fclose(smaps);
	if (rc)
		return rc;
	out->huge_bytes = sum.huge_bytes;
	out->giant_bytes = sum.giant_bytes;
	out->small_bytes = sum.small_bytes;
	return 0;
}
