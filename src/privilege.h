/* Giving up what a process does not need, in the first lines of its main. */
#ifndef WEIGHTD_PRIVILEGE_H
#define WEIGHTD_PRIVILEGE_H

#include <stdint.h>

#include "src/err.h"

/* Becomes `uid`/`gid` (UINT64_MAX: stays who it is), without supplementary groups when it could, then gives up every
 * capability for good (bounding set included, no new privileges) and asks to be killed when the parent dies. The parent
 * is checked again afterwards, so that one which died in between is noticed (-ESRCH). 0 or -errno. */
int privilege_drop(uint64_t uid, uint64_t gid, struct err *err);

/* uid and gid of a user by name; -ENOENT. */
int privilege_find_user(const char *name, uint64_t *uid, uint64_t *gid, struct err *err);

#endif
