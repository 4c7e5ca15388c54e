/* Anonymous shared memory (memfd_create(2)), as segments without a name, channels and pulses are made of it. */
#ifndef WEIGHTD_SHM_MEMFD_H
#define WEIGHTD_SHM_MEMFD_H

#include <stdint.h>

#include "src/err.h"

/* Empty, close-on-exec, can be sealed, never executable where the kernel knows that (Linux 6.3). `name` shows in
 * /proc/PID/maps only. Returns the descriptor or -errno. */
int memfd_open_new(const char *name, struct err *err);

/* Makes it `bytes` large, zeroed, all of it allocated: where memory is not to be had, that is an error here (-ENOMEM),
 * and not a SIGBUS on some later store. */
int memfd_allocate(int fd, uint64_t bytes, struct err *err);

#endif
