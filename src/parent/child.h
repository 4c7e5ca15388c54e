/* A child process of the parent: this program executed again in another role, at the other end of a SOCK_SEQPACKET
 * pair. */
#ifndef WEIGHTD_CHILD_H
#define WEIGHTD_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/err.h"
#include "src/parent/watch.h"

enum child_role { CHILD_LOADER, CHILD_WORKER, CHILD_FRONT, CHILD_VERIFIER, CHILD_ADAPTER_LOADER, CHILD_AUDIO, N_CHILD_ROLES };

struct child {
	enum child_role role;
	pid_t pid; /* 0: not running */
	int fd;	   /* our end of the pair, non-blocking; -1 */
	uint64_t started_ns;
	char name[24];	    /* "worker 0" */
	struct watch watch; /* over whatever this role shows of its progress (parent_watch.c) */
	bool hung;	    /* it showed none for too long and has been told to die */
};

/* "worker" */
const char *child_role_name(enum child_role role);

/* Starts the child; `name` is what its log lines and its command line say ("worker 0"). It dies with this process, from
 * its first instruction on. 0 or -errno. */
int child_spawn(struct child *child, enum child_role role, const char *name, int log_level, struct err *err);

/* Closes our end: a child that reads from it ends. The process is reaped by the parent's SIGCHLD. */
void child_hang_up(struct child *child);

/* "killed by signal 9 (Killed)", "exited with status 1"; "killed: it made no progress" of one that hung. */
const char *child_describe(const struct child *child, int wait_status, char *text, size_t size);

#endif
