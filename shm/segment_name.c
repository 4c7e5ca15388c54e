/* Names of segments, and the instance that owns them: its lock and what it left behind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/segment.h"

/* Where shm_open(3) puts its objects on Linux. */
#define SHM_DIRECTORY "/dev/shm"

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
	/* 9 + 63 + 1 + 127 + 2 + 10 + 2 + 10 characters at most: under NAME_MAX. */
	snprintf(out, SEGMENT_NAME_BYTES, "/weightd.%s.%s.g%u.n%u", instance, model, generation, node);
	return 0;
}

/* Moves *at over `letter` and the digits after it. */
static bool skip_number(const char **at, char letter)
{
	if (**at != letter)
		return false;
	size_t n = strspn(*at + 1, "0123456789");
	*at += n + 1;
	return n > 0;
}

/* True for "<prefix><model>.g<number>.n<number>": nothing else in the directory is a segment. */
static bool is_segment_name(const char *name, const char *prefix)
{
	size_t n = strlen(prefix);
	if (strncmp(name, prefix, n))
		return false;
	/* A model's name may hold dots, so look for the suffix from the right. */
	const char *last = strrchr(name + n, '.');
	if (!last || last == name + n)
		return false;
	const char *at = last - 1;
	while (at > name + n && *at != '.')
		at--;
	if (at == name + n)
		return false;
	at++;
	return skip_number(&at, 'g') && at == last && (at++, skip_number(&at, 'n')) && !*at;
}

int segment_remove_instance(const char *instance, struct err *err)
{
	char prefix[96];
	int rc = check_instance(instance, err), removed = 0;
	if (rc)
		return rc;
	snprintf(prefix, sizeof prefix, "weightd.%s.", instance);
	DIR *directory = opendir(SHM_DIRECTORY);
	if (!directory)
		return err_set(err, -errno, SHM_DIRECTORY ": %s", strerror(errno));
	for (const struct dirent *entry; (entry = readdir(directory));) {
		struct stat st;
		if (!is_segment_name(entry->d_name, prefix))
			continue;
		/* The directory is sticky: what is ours cannot be exchanged for another owner's object under our hands.
		 */
		if (fstatat(dirfd(directory), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode) ||
		    st.st_uid != geteuid())
			continue;
		if (!unlinkat(dirfd(directory), entry->d_name, 0))
			removed++;
		else if (errno != ENOENT && !rc)
			rc = err_set(err, -errno, SHM_DIRECTORY "/%.160s: %s", entry->d_name, strerror(errno));
	}
	closedir(directory);
	return rc ? rc : removed;
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
