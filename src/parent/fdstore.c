#include "src/parent/fdstore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "src/log.h"

void fdstore_init(struct fdstore *store)
{
	/* systemd 254 and later say how many it takes; the unit says it for those before. Without that a descriptor
	 * might be thrown away, and status would promise what no restart can keep. */
	const char *room = getenv("FDSTORE");
	store->n = store->room = 0;
	if (room && getenv("NOTIFY_SOCKET")) {
		unsigned long n = strtoul(room, NULL, 10);
		store->room = n < FDSTORE_MAX ? (unsigned)n : FDSTORE_MAX;
	}
}

static void close_entry(struct fdstore_entry *entry)
{
	if (entry->fd >= 0)
		close(entry->fd);
	entry->fd = -1;
}

void fdstore_fini(struct fdstore *store)
{
	for (unsigned i = 0; i < store->n; i++)
		close_entry(&store->entries[i]);
	store->n = 0;
}

static void add(struct fdstore *store, int fd, const char *name)
{
	struct fdstore_entry *entry = &store->entries[store->n++];
	entry->fd = fd;
	snprintf(entry->name, sizeof entry->name, "%s", name);
}

void fdstore_add(struct fdstore *store, int fd, const char *name)
{
	if (store->n < FDSTORE_MAX)
		add(store, fd, name);
	else
		close(fd);
}

static bool same_object(int a, int b)
{
	struct stat st[2];
	return !fstat(a, &st[0]) && !fstat(b, &st[1]) && st[0].st_dev == st[1].st_dev && st[0].st_ino == st[1].st_ino;
}

bool fdstore_keep(struct fdstore *store, const char *name, int fd)
{
	char state[FDSTORE_NAME_BYTES + 32];
	bool found = false, others = false;
	for (unsigned i = 0; i < store->n; i++) {
		struct fdstore_entry *entry = &store->entries[i];
		if (strcmp(entry->name, name))
			continue;
		bool same = same_object(entry->fd, fd);
		found |= same;
		others |= !same;
		close_entry(entry);
	}
	if (found && !others && store->room)
		return true;
	fdstore_remove(store, name); /* by name is the only way to remove */
	if (store->n >= store->room)
		return false;
	snprintf(state, sizeof state, "FDSTORE=1\nFDNAME=%s", name);
	int rc = sd_pid_notify_with_fds(0, 0, state, &fd, 1);
	if (rc <= 0) {
		log_warning("the service manager does not take %s: %s", name,
			    rc ? strerror(-rc) : "it does not listen");
		return false;
	}
	add(store, -1, name);
	return true;
}

void fdstore_remove(struct fdstore *store, const char *name)
{
	unsigned left = 0;
	for (unsigned i = 0; i < store->n; i++) {
		if (!strcmp(store->entries[i].name, name))
			close_entry(&store->entries[i]);
		else
			store->entries[left++] = store->entries[i];
	}
	if (left < store->n)
		sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
	store->n = left;
}

void fdstore_settle(const struct fdstore *store)
{
	enum { PATIENCE_US = 1000000 };
	int rc = store->room ? sd_notify_barrier(0, PATIENCE_US) : 0;
	if (rc < 0)
		log_warning("the service manager has not said that it let go of stored copies: %s", strerror(-rc));
}
