/* The listening sockets, made and held by the parent, so that connects are not refused while a front restarts. */
#ifndef WEIGHTD_LISTENER_H
#define WEIGHTD_LISTENER_H

#include <stdint.h>

#include "src/err.h"
#include "src/parent/fdstore.h"

/* A Unix stream socket at `path` with `mode` and `group` ("" leaves it). A stale socket file (nobody listens) is
 * replaced; a live one is -EADDRINUSE. Missing directories are made (0755). Returns owned in *out. */
int listener_unix(const char *path, uint32_t mode, const char *group, int *out, struct err *err);

/* A TCP listener at "127.0.0.1:8080" or "[::1]:8080"; config has checked that it is loopback. */
int listener_tcp(const char *address, int *out, struct err *err);

/* What systemd passed (LISTEN_FDS): *unix_fd and *tcp_fd are set where a listener came, else left alone; descriptors
 * from its store are noted in `store`. */
int listener_inherit(int *unix_fd, int *tcp_fd, struct fdstore *store, struct err *err);

#endif
