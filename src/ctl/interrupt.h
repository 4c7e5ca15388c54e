/* Interruption of weightctl's waits: SIGINT, SIGTERM and SIGHUP arrive as readable bytes of a descriptor, so that every
 * wait is a poll(2) and nothing runs in a signal handler. */
#ifndef WEIGHTD_INTERRUPT_H
#define WEIGHTD_INTERRUPT_H

#include <signal.h>
#include <stdint.h>

/* Blocks the signals and opens the descriptor (close-on-exec, returns owned); -errno. A child process must get
 * interrupt_child_mask back before it execs. */
int interrupt_open(void);
void interrupt_child_mask(sigset_t *out);

/* The signal that arrived since the last call, 0: none. */
int interrupt_take(int interrupt_fd);

/* Waits until `fd` is readable. 0; -EINTR: a signal arrived first (it is left for interrupt_take); -ETIMEDOUT after
 * `timeout_ms` (-1: no limit). `interrupt_fd` may be -1. */
int interrupt_wait(int interrupt_fd, int fd, int timeout_ms);

#endif
