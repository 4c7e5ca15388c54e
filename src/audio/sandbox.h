/* What a process that decodes audio gives up before it sees a byte of a client: memory and descriptors without bound,
 * and every system call that decoding does not need. */
#ifndef WEIGHTD_AUDIO_SANDBOX_H
#define WEIGHTD_AUDIO_SANDBOX_H

#include <stdint.h>

#include "src/err.h"

/* Limits that it can't lift again: `more_bytes` of addresses beyond those it has now, no descriptor beyond those it has
 * now, no core file. 0 or -errno. */
int sandbox_limit(uint64_t more_bytes, struct err *err);

/* So many seconds of CPU time from now on; then SIGXCPU ends it. 0 or -errno. */
int sandbox_limit_cpu(uint64_t seconds, struct err *err);

/* From here on only calls that decoding needs succeed: reading and writing what is open, messages on `message_fd`,
 * memory (none of it executable from now on), clocks, the end. Sockets, programs and other processes end it (SIGSYS);
 * anything else, such as opening a file, fails with EPERM. For all threads. 0 or -errno, with words where the kernel
 * has no such filters. Needs no_new_privs (privilege_drop). */
int sandbox_enter(int message_fd, struct err *err);

#endif
