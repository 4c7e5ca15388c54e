/* Looks at shared memory with nothing of weightd in between: the kernel's own calls and no library of ours, so that a
 * mistake in numa/placement.c cannot hide itself.
 *
 *   probe pages FILE NODE          maps FILE, touches every page, asks for each page's node; prints
 *                                  "pages P on N elsewhere E absent A"
 *   probe plant FILE PAGE NODE     moves one page of FILE (as root, whoever else maps it) to NODE; prints where it is
 * now probe private PID NODE         the same as pages for what PID has for itself: anonymous memory, and its own
 * versions of pages of files; before that a line for each mapping with some elsewhere probe cpus PID for each thread of
 * PID: "ALLOWED LAST", the CPUs it may use and the one it last ran on
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/mempolicy.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static volatile unsigned char *map(const char *path, int flags, int protection, size_t *pages)
{
	struct stat st;
	int fd = open(path, flags | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		die(path);
	*pages = (size_t)st.st_size / PAGE;
	void *base = mmap(NULL, *pages * PAGE, protection, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		die("mmap");
	return base;
}

/* The node of one address, or -errno of that page. */
static int node_of(volatile unsigned char *address)
{
	void *pages[1] = {(void *)(uintptr_t)address};
	int status = -1;
	if (syscall(SYS_move_pages, 0, 1UL, pages, NULL, &status, 0))
		die("move_pages");
	return status;
}

/* Where pages are. Absent: without a node, because given back since, or the page of zeros, which is nobody's. */
struct tally {
	size_t pages, on, elsewhere, absent;
};

static void count(int status, int node, struct tally *tally)
{
	tally->pages++;
	if (status < 0)
		tally->absent++;
	else if (status == node)
		tally->on++;
	else
		tally->elsewhere++;
}

static void print(const struct tally *t)
{
	printf("pages %zu on %zu elsewhere %zu absent %zu\n", t->pages, t->on, t->elsewhere, t->absent);
}

static void count_pages(const char *path, int node)
{
	struct tally tally = {0};
	size_t pages;
	volatile unsigned char *base = map(path, O_RDONLY, PROT_READ, &pages);
	for (size_t i = 0; i < pages; i++) {
		(void)base[i * PAGE];
		count(node_of(base + i * PAGE), node, &tally);
	}
	print(&tally);
}

static void plant(const char *path, size_t page, int node)
{
	size_t pages;
	volatile unsigned char *base = map(path, O_RDWR, PROT_READ | PROT_WRITE, &pages);
	if (page >= pages) {
		fprintf(stderr, "%s has %zu pages\n", path, pages);
		exit(1);
	}
	(void)base[page * PAGE];
	void *addresses[1] = {(void *)(uintptr_t)(base + page * PAGE)};
	int status = -1;
	if (syscall(SYS_move_pages, 0, 1UL, addresses, &node, &status, MPOL_MF_MOVE_ALL) < 0)
		die("move_pages");
	printf("%d\n", node_of(base + page * PAGE));
}

/* --- pages of another process ------------------------------------------------------------------ */

/* A list of pages of a process that are to be asked for. */
struct asked {
	pid_t pid;
	int node;
	size_t n;
	void *pages[512];
};

static void ask(struct asked *asked, struct tally *tally)
{
	int status[512];
	if (asked->n && syscall(SYS_move_pages, asked->pid, asked->n, asked->pages, NULL, status, 0))
		die("move_pages");
	for (size_t i = 0; i < asked->n; i++)
		count(status[i], asked->node, tally);
	asked->n = 0;
}

/* Bits of /proc/PID/pagemap: in memory; and of a file or shared. */
#define PRESENT (UINT64_C(1) << 63)
#define OF_FILE (UINT64_C(1) << 61)

static struct tally count_private(int pagemap, uintptr_t start, uintptr_t end, struct asked *asked)
{
	struct tally tally = {0};
	for (uintptr_t at = start; at < end;) {
		uint64_t entries[512];
		size_t n = (end - at) / PAGE < 512 ? (end - at) / PAGE : 512;
		ssize_t got = pread(pagemap, entries, n * sizeof entries[0], (off_t)(at / PAGE * sizeof entries[0]));
		if (got <= 0)
			die("pagemap");
		n = (size_t)got / sizeof entries[0];
		for (size_t i = 0; i < n; i++)
			if ((entries[i] & (PRESENT | OF_FILE)) == PRESENT)
				asked->pages[asked->n++] = (void *)(at + i * PAGE);
		ask(asked, &tally);
		at += n * PAGE;
	}
	return tally;
}

static void private_pages(const char *pid, int node)
{
	char path[64], line[4096];
	snprintf(path, sizeof path, "/proc/%s/pagemap", pid);
	int pagemap = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof path, "/proc/%s/maps", pid);
	FILE *maps = fopen(path, "re");
	if (pagemap < 0 || !maps)
		die(path);
	struct asked asked = {.pid = atoi(pid), .node = node};
	struct tally all = {0};
	while (fgets(line, sizeof line, maps)) {
		uintptr_t start, end;
		char mode[5];
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &start, &end, mode) != 3)
			die(line);
		/* What the kernel lends to every process: [vdso], [vvar], [vsyscall]. */
		if (mode[3] != 'p' || strstr(line, "[v"))
			continue;
		struct tally here = count_private(pagemap, start, end, &asked);
		if (here.elsewhere)
			printf("%zu elsewhere in %s", here.elsewhere, line);
		all.pages += here.pages;
		all.on += here.on;
		all.elsewhere += here.elsewhere;
		all.absent += here.absent;
	}
	fclose(maps);
	close(pagemap);
	print(&all);
}

/* --- threads ----------------------------------------------------------------------------------- */

/* One line of /proc/PID/task/TID/status, and field 39 of its stat. */
static void thread_cpus(const char *pid, const char *tid)
{
	char path[128], line[4096], allowed[256] = "?";
	snprintf(path, sizeof path, "/proc/%s/task/%s/status", pid, tid);
	FILE *status = fopen(path, "r");
	if (!status)
		die(path);
	while (fgets(line, sizeof line, status))
		sscanf(line, "Cpus_allowed_list: %255s", allowed);
	fclose(status);
	snprintf(path, sizeof path, "/proc/%s/task/%s/stat", pid, tid);
	FILE *stat_file = fopen(path, "r");
	if (!stat_file || !fgets(line, sizeof line, stat_file))
		die(path);
	fclose(stat_file);
	/* The name in parentheses may hold spaces: count from its end, which is field 2. */
	const char *at = strrchr(line, ')');
	for (int field = 2; at && field < 39; field++)
		at = strchr(at + 1, ' ');
	printf("%s %d\n", allowed, at ? atoi(at) : -1);
}

static void cpus(const char *pid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%s/task", pid);
	DIR *tasks = opendir(path);
	if (!tasks)
		die(path);
	for (const struct dirent *task; (task = readdir(tasks));)
		if (task->d_name[0] != '.')
			thread_cpus(pid, task->d_name);
	closedir(tasks);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "pages"))
		count_pages(argv[2], atoi(argv[3]));
	else if (argc == 5 && !strcmp(argv[1], "plant"))
		plant(argv[2], (size_t)atol(argv[3]), atoi(argv[4]));
	else if (argc == 4 && !strcmp(argv[1], "private"))
		private_pages(argv[2], atoi(argv[3]));
	else if (argc == 3 && !strcmp(argv[1], "cpus"))
		cpus(argv[2]);
	else {
		fprintf(stderr, "usage: probe pages FILE NODE | plant FILE PAGE NODE | private PID NODE | cpus PID\n");
		return 2;
	}
	return 0;
}
