/* The service manager's file descriptor store (sd_notify(3), FDSTORE=1): descriptors that outlive this process. Where
 * systemd runs the daemon with FileDescriptorStoreMax=, it keeps one of every copy and passes all of them to the next
 * start, so that even an object without a name is found again. On `systemctl stop` systemd empties the store itself,
 * which is why nothing here is done at an orderly stop. */
#ifndef WEIGHTD_FDSTORE_H
#define WEIGHTD_FDSTORE_H

#include <stdbool.h>

/* How the names of what this program stores begin. */
#define FDSTORE_PREFIX "weightd."

enum { FDSTORE_MAX = 1024, FDSTORE_NAME_BYTES = 256 };

struct fdstore_entry {
	int fd; /* as passed at this start, owned; -1: decided about, or stored since */
	char name[FDSTORE_NAME_BYTES];
};

struct fdstore {
	struct fdstore_entry entries[FDSTORE_MAX]; /* [n]: what the service manager holds */
	unsigned n;
	unsigned room; /* descriptors that it takes; 0: none, or there is no service manager */
};

/* Asks the environment whether there is a store ($FDSTORE, $NOTIFY_SOCKET). */
void fdstore_init(struct fdstore *store);
/* Closes what is undecided; the service manager keeps its own. */
void fdstore_fini(struct fdstore *store);

/* Notes a descriptor that was passed (takes fd). One too many is closed. */
void fdstore_add(struct fdstore *store, int fd, const char *name);

/* Makes the store hold `fd` (borrows) and nothing else under `name`, and decides about entries of that name. True when
 * it does. */
bool fdstore_keep(struct fdstore *store, const char *name, int fd);

/* Removes all that is stored under `name`, if anything is. */
void fdstore_remove(struct fdstore *store, const char *name);

/* Waits, a second at most, until the service manager has done so: what was removed has no memory any more. */
void fdstore_settle(const struct fdstore *store);

#endif
