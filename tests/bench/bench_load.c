/* Loading, part by part, without a daemon.
 *
 *   bench_load pack [KIND]          GB/s of a file's bytes that one thread packs, for each kind and level (of its CPU
 *                                   time)
 *   bench_load load FILE [ROUNDS]   a GGUF file into segments of this machine's first node, thrown away again
 *   bench_load memory [MIB]         segments of this size: copied by threads of their node, beside a plain copy and a
 *                                   plain read of the same memory; hashed; attached by a reader, also with every page's
 *                                   place asked, and with its digest computed again
 *
 * `load` and `memory` print JSON objects, which tests/bench/load reads. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "numa/bind.h"
#include "src/clock.h"
#include "src/kernel/kernel.h"
#include "src/load/load.h"

enum { COLS = 4096, REPEATS = 5 };
static const size_t SOURCE_BYTES = (size_t)64 << 20;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "bench_load: %s: %s\n", what, why);
	exit(1);
}

static double gb_per_s(uint64_t bytes, uint64_t ns)
{
	return ns ? (double)bytes / (double)ns : 0;
}

/* --- packing ---------------------------------------------------------------------------------- */

/* What this thread had of a CPU: other programs of a busy machine do not count. */
static uint64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* GB/s of the best of several runs. */
static double pack_rate(const struct kernels *kernels, enum pack_kind kind, const unsigned char *source,
			unsigned char *packed)
{
	size_t row_bytes = pack_source_row_bytes(kind, COLS), block_row_bytes = pack_block_row_bytes(kind, COLS);
	size_t n = SOURCE_BYTES / (PACK_ROWS * row_bytes);
	uint64_t best_ns = UINT64_MAX;
	for (int repeat = 0; repeat < REPEATS; repeat++) {
		uint64_t begin_ns = cpu_ns();
		for (size_t i = 0; i < n; i++)
			kernels->pack_block_row(kind, packed + i * block_row_bytes, source + i * PACK_ROWS * row_bytes,
						PACK_ROWS, COLS);
		uint64_t took_ns = cpu_ns() - begin_ns;
		best_ns = took_ns < best_ns ? took_ns : best_ns;
	}
	return gb_per_s(n * PACK_ROWS * row_bytes, best_ns);
}

static void *room(size_t bytes)
{
	void *memory = aligned_alloc(64, bytes);
	if (!memory)
		die("memory", strerror(errno));
	memset(memory, 0x35, bytes); /* its pages exist */
	return memory;
}

static void bench_pack(const char *only)
{
	unsigned char *source = room(SOURCE_BYTES), *packed = room(2 * SOURCE_BYTES);
	for (int k = 0; k < PACK_N_KINDS; k++) {
		enum pack_kind kind = (enum pack_kind)k;
		if (only && strcmp(only, pack_kind_name(kind)) != 0)
			continue;
		printf("%-7s", pack_kind_name(kind));
		for (int level = CPU_LEVEL_REF; level <= CPU_LEVEL_AVX512; level++) {
			const struct kernels *kernels = kernels_get(level, kernels_numerics(level));
			if (kernels)
				printf("  %s %6.2f GB/s", cpu_level_name(level),
				       pack_rate(kernels, kind, source, packed));
		}
		printf("\n");
		fflush(stdout);
	}
	free(source);
	free(packed);
}

/* --- loading ---------------------------------------------------------------------------------- */

static void no_progress(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
	(void)context;
	(void)done_bytes;
	(void)total_bytes;
}

static void make_order(const char *path, struct message_load *out)
{
	struct topology *topology;
	struct err err = {""};
	if (topology_load(NULL, &topology, &err))
		die("topology", err.text);
	memset(out, 0, sizeof *out);
	snprintf(out->path, sizeof out->path, "%s", path);
	snprintf(out->instance, sizeof out->instance, "bench-%d", getpid());
	snprintf(out->model, sizeof out->model, "bench");
	out->generation = 1;
	out->n_files = 1;
	out->group = UINT32_MAX;
	for (unsigned i = 0; i < topology_n_nodes(topology) && out->n_nodes == 0; i++)
		if (topology_node(topology, i)->may_bind_memory && topology_node(topology, i)->memory_bytes)
			out->node[out->n_nodes++] = (uint16_t)topology_node(topology, i)->os_index;
	topology_free(topology);
}

static void bench_load(const char *path, int rounds)
{
	static struct message_load order;
	const struct load_progress progress = {no_progress, NULL};
	make_order(path, &order);
	for (int i = 0; i < rounds; i++) {
		struct loaded loaded;
		struct err err = {""};
		struct load_input input = {.fd = open(path, O_RDONLY | O_CLOEXEC), .role = FILE_WEIGHTS};
		if (input.fd < 0)
			die(path, strerror(errno));
		if (model_load(&order, &input, &progress, &loaded, &err))
			die("load", err.text);
		const struct load_pace *pace = &loaded.pace;
		printf("{\"file_bytes\": %" PRIu64 ", \"threads\": %u, \"total_ns\": %" PRIu64 ", \"room_ns\": %" PRIu64
		       ", \"fill_ns\": %" PRIu64 ", \"wait_ns\": %" PRIu64 ", \"publish_ns\": %" PRIu64 "}\n",
		       pace->file_bytes, pace->n_threads, pace->total_ns, pace->room_ns, pace->fill_ns, pace->wait_ns,
		       pace->publish_ns);
		fflush(stdout);
		loaded_discard(&loaded);
		close(input.fd);
	}
}

/* --- memory ----------------------------------------------------------------------------------- */

struct read {
	const uint64_t *at; /* [n] */
	size_t n;
	struct idset cpus;
	uint64_t sink;
};

static void *read_some(void *argument)
{
	struct read *read = argument;
	uint64_t sum[8] = {0};
	(void)bind_thread(&read->cpus, NULL);
	for (size_t i = 0; i + 8 <= read->n; i += 8)
		for (int j = 0; j < 8; j++)
			sum[j] ^= read->at[i + j];
	for (int j = 0; j < 8; j++)
		read->sink ^= sum[j];
	return NULL;
}

/* Plain reads by a thread on every CPU of the node, as far as there is room for them here. */
static uint64_t read_ns(const void *from, uint64_t bytes, const struct idset *cpus)
{
	enum { MOST = 64 };
	static struct read reads[MOST];
	pthread_t threads[MOST];
	unsigned n = idset_count(cpus) < MOST ? idset_count(cpus) : MOST, i = 0;
	uint64_t begin_ns = clock_now_ns();
	for (int cpu = idset_first(cpus); cpu >= 0 && i < n; cpu = idset_next(cpus, cpu), i++) {
		reads[i] = (struct read){.at = (const uint64_t *)from + bytes / 8 / n * i, .n = bytes / 8 / n};
		idset_add(&reads[i].cpus, (unsigned)cpu);
		if (pthread_create(&threads[i], NULL, read_some, &reads[i]))
			die("memory", "no thread");
	}
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return clock_now_ns() - begin_ns;
}

static void tell_rate(const char *name, uint64_t bytes, uint64_t ns)
{
	printf("\"%s_gb_per_s\": %.2f, ", name, gb_per_s(bytes, ns));
}

/* Attached and detached; the parts of it that a worker does, and those that only adopting and checking do. */
static void bench_attach(int fd, unsigned node)
{
	struct segment_view view;
	struct segment_report report;
	struct err err = {""};
	uint8_t digest[SEGMENT_DIGEST_BYTES];
	uint64_t begin_ns = clock_now_ns();
	if (segment_attach(fd, &view, &err))
		die("attach", err.text);
	uint64_t attached_ns = clock_now_ns();
	if (segment_check(&view, node, &report, &err))
		die("check", err.text);
	uint64_t checked_ns = clock_now_ns();
	segment_digest(view.base, view.total_bytes, digest);
	uint64_t hashed_ns = clock_now_ns();
	tell_rate("digest", view.total_bytes, hashed_ns - checked_ns);
	printf("\"huge_bytes\": %" PRIu64 ", \"attach_us\": %.1f, \"check_us\": %.1f, \"digest_us\": %.1f}\n",
	       report.huge_bytes, (double)(attached_ns - begin_ns) / 1e3, (double)(checked_ns - attached_ns) / 1e3,
	       (double)(hashed_ns - checked_ns) / 1e3);
	segment_detach(&view);
}

static void bench_memory(uint64_t bytes)
{
	static struct message_load order;
	struct segment segments[2];
	struct segment_report report;
	struct topology *topology;
	struct err err = {""};
	int fd = -1;
	make_order("memory", &order);
	if (topology_load(NULL, &topology, &err))
		die("topology", err.text);
	for (int i = 0; i < 2; i++) {
		struct segment_spec spec = {.instance = order.instance,
					    .model = order.model,
					    .node = order.node[0],
					    .payload_bytes = bytes,
					    .backing = SEGMENT_MEMFD,
					    .group = (gid_t)-1};
		if (segment_create(&spec, &segments[i], &err))
			die("segment", err.text);
		memset(segment_payload(&segments[i]), 'a' + i, bytes);
	}
	const struct idset *cpus = &topology_find(topology, order.node[0])->cpus;
	printf("{\"bytes\": %" PRIu64 ", ", bytes);
	tell_rate("read", bytes, read_ns(segment_payload(&segments[0]), bytes, cpus));
	uint64_t begin_ns = clock_now_ns();
	memcpy(segment_payload(&segments[1]), segment_payload(&segments[0]), bytes);
	tell_rate("memcpy", bytes, clock_now_ns() - begin_ns);
	begin_ns = clock_now_ns();
	if (segment_copy(&segments[1], segments[0].base, segments[0].total_bytes, cpus, &err))
		die("copy", err.text);
	tell_rate("copy", bytes, clock_now_ns() - begin_ns);
	segment_destroy(&segments[1]);
	if (segment_publish(&segments[0], &fd, &report, &err))
		die("publish", err.text);
	bench_attach(fd, order.node[0]);
	close(fd);
	topology_free(topology);
}

int main(int argc, char **argv)
{
	if (argc >= 2 && argc <= 3 && !strcmp(argv[1], "pack"))
		bench_pack(argc > 2 ? argv[2] : NULL);
	else if (argc >= 3 && argc <= 4 && !strcmp(argv[1], "load"))
		bench_load(argv[2], argc > 3 ? atoi(argv[3]) : 1);
	else if (argc >= 2 && argc <= 3 && !strcmp(argv[1], "memory"))
		bench_memory((uint64_t)(argc > 2 ? atoi(argv[2]) : 1024) << 20);
	else
		die("usage", "see the head of tests/bench/bench_load.c");
	return 0;
}
