/* A daemon of weightctl's own, for measuring: the installed program with its ordinary settings but for one model,
 * those that are asked for, and sockets in a private directory. It ends with us. */
#ifndef WEIGHTD_BENCH_DAEMON_H
#define WEIGHTD_BENCH_DAEMON_H

#include <stdint.h>
#include <sys/types.h>

#include "src/err.h"

struct bench_daemon {
	char directory[64]; /* "": none */
	char control[96];   /* path of its control socket */
	pid_t pid;	    /* 0: it does not run */
};

struct bench_setup {
	const char *model;	     /* path */
	uint32_t threads;	     /* 0: the daemon's choice */
	const char *const *settings; /* [n_settings] lines "KEY=VALUE" of weightd.conf's first section */
	uint32_t n_settings;
};

/* Starts it and waits until it serves the model. What it logs comes through on standard error. -EINTR: interrupted.
 * Whatever is returned, bench_daemon_stop cleans up. */
int bench_daemon_start(struct bench_daemon *daemon, const struct bench_setup *setup, int interrupt_fd, struct err *err);
void bench_daemon_stop(struct bench_daemon *daemon);

/* What it answers to `command`, a JSON object; returns owned. */
int bench_daemon_ask(const struct bench_daemon *daemon, const char *command, int interrupt_fd, char **text,
		     struct err *err);

#endif
