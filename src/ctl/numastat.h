/* Whose memory lies on which node, in numastat's terms, but with the copies of weights told apart: numastat counts
 * shared pages once for each process that maps them, so its totals grow with the workers although the memory does not.
 */
#ifndef WEIGHTD_NUMASTAT_H
#define WEIGHTD_NUMASTAT_H

#include <sys/types.h>

#include "numa/idset.h"

enum { NUMASTAT_NODES_MAX = 64, NUMASTAT_COPIES_MAX = 64 };

/* The columns: node numbers may have holes. */
struct numastat_nodes {
	unsigned n;
	unsigned number[NUMASTAT_NODES_MAX];
};

/* numastat -p's rows, and those mappings that are copies of weights. */
enum numastat_kind {
	NUMASTAT_HUGE,
	NUMASTAT_HEAP,
	NUMASTAT_STACK,
	NUMASTAT_PRIVATE,
	NUMASTAT_COPIES,
	N_NUMASTAT_KINDS
};

struct numastat_process {
	uint64_t bytes[N_NUMASTAT_KINDS][NUMASTAT_NODES_MAX];
};

struct numastat_copy {
	const char *name; /* of the segment: "/weightd.default.m.g1.n0"; borrowed */
	unsigned n_mappings;
	uint64_t bytes[NUMASTAT_NODES_MAX]; /* as the process has it that has most of it in its page tables */
};

/* -ERANGE: more nodes than columns. */
int numastat_nodes(const char *root, struct numastat_nodes *out, struct err *err);

/* Adds up /proc/PID/numa_maps, and what it has of the copies [n_copies] to these. -ESRCH: the process is gone; -EACCES;
 * -ENOSYS: this kernel does not count pages by node. */
int numastat_process(const char *root, pid_t pid, const struct numastat_nodes *nodes, struct numastat_copy *copies,
		     unsigned n_copies, struct numastat_process *out, struct err *err);

/* The same of the text of such a file. */
void numastat_add(char *text, const struct numastat_nodes *nodes, struct numastat_copy *copies, unsigned n_copies,
		  struct numastat_process *out);

#endif
