/* Names of segments, and the instance that owns them: its lock and what it left behind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/segment.h"
#include "shm/segment_name.h"

/* Where shm_open(3) puts its objects on Linux. */
#define SHM_DIRECTORY "/dev/shm"

enum { SALT_TRIES = 8 };

static const char word_characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

static int check_instance(const char *instance, struct err *err)
{
	size_t n = strlen(instance);
	if (!n || strspn(instance, word_characters) != n)
		return err_set(err, -EINVAL, "instance '%.64s': only letters, digits, '_' and '-' are allowed",
			       instance);
	if (n >= sizeof((struct segment_header *)0)->instance)
		return err_set(err, -ENAMETOOLONG, "instance '%.64s': at most 63 characters", instance);
	return 0;
}

int segment_name(const char *instance, const char *model, uint32_t generation, unsigned node,
		 char out[SEGMENT_NAME_BYTES], struct err *err)
{
	int rc = check_instance(instance, err);
	if (rc)
		return rc;
	size_t n = strlen(model), ok = 0;
	while (ok < n && (strchr(word_characters, model[ok]) || model[ok] == '.'))
		ok++;
	if (!n || ok != n)
		return err_set(err, -EINVAL, "model '%.64s': only letters, digits, '.', '_' and '-' are allowed",
			       model);
	if (n >= sizeof((struct segment_header *)0)->model)
		return err_set(err, -ENAMETOOLONG, "model '%.64s': at most 127 characters", model);
	/* 9 + 63 + 1 + 127 + 2 + 10 + 2 + 10 characters at most, and 18 more with a salt: under NAME_MAX. */
	snprintf(out, SEGMENT_NAME_BYTES, "/weightd.%s.%s.g%u.n%u", instance, model, generation, node);
	return 0;
}

/* True when something has the name and it is another user's. Nobody can exchange our object for one of theirs, nor they
 * ours: the directory is sticky. */
static bool is_anothers(const char *name)
{
	char path[sizeof SHM_DIRECTORY + SEGMENT_NAME_BYTES];
	struct stat st;
	snprintf(path, sizeof path, SHM_DIRECTORY "%s", name);
	return !lstat(path, &st) && st.st_uid != geteuid();
}

int segment_open_new(char name[SEGMENT_NAME_BYTES], int *fd)
{
	size_t n = strlen(name);
	for (unsigned tries = 0; tries < SALT_TRIES; tries++) {
		uint64_t salt;
		int made = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600); /* close-on-exec by definition */
		if (made >= 0) {
			*fd = made;
			return 0;
		}
		if (errno != EEXIST)
			return -errno;
		if (!is_anothers(name))
			return -EEXIST;
		if (getrandom(&salt, sizeof salt, 0) != sizeof salt)
			return -errno;
		snprintf(name + n, SEGMENT_NAME_BYTES - n, ".x%016llx", (unsigned long long)salt);
	}
	return -EEXIST;
}

/* Cuts the last component off `text`, which has to be `letter` and a number. */
static bool cut_number(char *text, char letter, uint32_t *out)
{
	char *dot = strrchr(text, '.');
	if (!dot || dot[1] != letter)
		return false;
	size_t n = strspn(dot + 2, "0123456789");
	if (!n || n > 10 || dot[2 + n])
		return false;
	unsigned long long value = strtoull(dot + 2, NULL, 10); /* ten digits fit */
	if (value > UINT32_MAX)
		return false;
	*dot = '\0';
	*out = (uint32_t)value;
	return true;
}

/* The same for a salt, which need not be there. */
static void cut_salt(char *text)
{
	char *dot = strrchr(text, '.');
	if (dot && dot[1] == 'x' && strspn(dot + 2, "0123456789abcdef") == 16 && !dot[18])
		*dot = '\0';
}

bool segment_parse(const char *name, const char *instance, struct segment_found *out)
{
	char prefix[96], rest[SEGMENT_NAME_BYTES];
	struct segment_found found = {.generation = 0};
	/* An instance has no dots, so the prefix of one is never the beginning of another's. A model may have some, so
	 * its end is looked for from the right. */
	size_t n = (size_t)snprintf(prefix, sizeof prefix, "weightd.%.64s.", instance);
	if (strncmp(name, prefix, n) || strlen(name) > SEGMENT_NAME_BYTES - 2)
		return false;
	snprintf(rest, sizeof rest, "%s", name + n);
	cut_salt(rest);
	if (!cut_number(rest, 'n', &found.node) || !cut_number(rest, 'g', &found.generation))
		return false;
	n = strlen(rest);
	if (!n || n >= sizeof found.model)
		return false;
	memcpy(found.model, rest, n + 1);
	snprintf(found.name, sizeof found.name, "/%s", name);
	*out = found;
	return true;
}

/* Adds an entry to the list if it is a segment of this user. 0 or -ENOMEM. */
static int add_entry(int directory, const char *name, const char *instance, struct segment_found **list, unsigned *n)
{
	struct segment_found found;
	struct stat st;
	if (!segment_parse(name, instance, &found) || fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return 0;
	struct segment_found *longer = reallocarray(*list, *n + 1, sizeof found);
	if (!longer)
		return -ENOMEM;
	longer[(*n)++] = found;
	*list = longer;
	return 0;
}

int segment_find(const char *instance, struct segment_found **out, unsigned *n, struct err *err)
{
	struct segment_found *list = NULL;
	unsigned n_list = 0;
	int rc = check_instance(instance, err);
	if (rc)
		return rc;
	DIR *directory = opendir(SHM_DIRECTORY);
	if (!directory)
		return err_set(err, -errno, SHM_DIRECTORY ": %s", strerror(errno));
	for (const struct dirent *entry; !rc && (entry = readdir(directory));)
		rc = add_entry(dirfd(directory), entry->d_name, instance, &list, &n_list);
	closedir(directory);
	if (rc) {
		free(list);
		return err_set(err, rc, "listing " SHM_DIRECTORY ": %s", strerror(-rc));
	}
	*out = list;
	*n = n_list;
	return 0;
}

/* Removes the segments of one model, or with NULL all; of one generation, or with 0 all. The directory is sticky: what
 * was found to be ours cannot be exchanged for another owner's object under our hands. */
static int remove_segments(const char *instance, const char *model, uint32_t generation, struct err *err)
{
	struct segment_found *list;
	unsigned n;
	int removed = 0, rc = segment_find(instance, &list, &n, err);
	if (rc)
		return rc;
	for (unsigned i = 0; i < n; i++) {
		if ((model && strcmp(list[i].model, model)) || (generation && list[i].generation != generation))
			continue;
		if (!shm_unlink(list[i].name))
			removed++;
		else if (errno != ENOENT && !rc)
			rc = err_set(err, -errno, SHM_DIRECTORY "%.160s: %s", list[i].name, strerror(errno));
	}
	free(list);
	return rc ? rc : removed;
}

int segment_remove_instance(const char *instance, struct err *err)
{
	return remove_segments(instance, NULL, 0, err);
}

int segment_remove_model(const char *instance, const char *model, struct err *err)
{
	return remove_segments(instance, model, 0, err);
}

int segment_remove_generation(const char *instance, const char *model, uint32_t generation, struct err *err)
{
	return remove_segments(instance, model, generation, err);
}

static void lock_path(const char *instance, char path[128])
{
	snprintf(path, 128, SHM_DIRECTORY "/weightd.%.64s.lock", instance);
}

/* Opens the lock's file and locks it. -EAGAIN: the file was removed by its last owner in between. */
static int lock_once(const char *path, int *lock_fd, struct err *err)
{
	struct stat opened, named;
	int rc, fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd < 0)
		return err_set(err, -errno, "%s: %s%s", path, strerror(errno),
			       errno == EACCES ? " (another user's? choose another instance name)" : "");
	if (fstat(fd, &opened)) {
		rc = err_set(err, -errno, "%s: %s", path, strerror(errno));
		goto fail;
	}
	if (!S_ISREG(opened.st_mode) || opened.st_uid != geteuid()) {
		rc = err_set(err, -EACCES, "%s is not a regular file of this user: choose another instance name", path);
		goto fail;
	}
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		rc = errno == EWOULDBLOCK
			     ? err_set(err, -EBUSY, "another weightd runs with this instance name (%s is locked)", path)
			     : err_set(err, -errno, "%s: flock: %s", path, strerror(errno));
		goto fail;
	}
	if (stat(path, &named) || named.st_ino != opened.st_ino || named.st_dev != opened.st_dev) {
		rc = -EAGAIN;
		goto fail;
	}
	*lock_fd = fd;
	return 0;
fail:
	close(fd);
	return rc;
}

int segment_lock_instance(const char *instance, int *lock_fd, struct err *err)
{
	char path[128];
	int rc = check_instance(instance, err);
	if (rc)
		return rc;
	lock_path(instance, path);
	do
		rc = lock_once(path, lock_fd, err);
	while (rc == -EAGAIN);
	return rc;
}

void segment_unlock_instance(const char *instance, int lock_fd)
{
	char path[128];
	if (lock_fd < 0)
		return;
	lock_path(instance, path);
	/* While the lock is held nobody else may remove or replace the file. */
	unlink(path);
	close(lock_fd);
}
