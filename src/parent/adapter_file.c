#include "src/parent/adapter_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const folder_names[ADAPTER_FILES_MAX] = {"adapter_config.json", "adapter_model.safetensors"};

/* Where to open, and what may be found there. */
struct place {
	int directory;	  /* AT_FDCWD: any path will do */
	uint64_t resolve; /* RESOLVE_* */
	bool checks_owner;
	uid_t owner;
};

/* Not blocking: a FIFO's other end, or a device, is nobody to wait for. */
static int open_one(const struct place *place, const char *path, struct stat *st, struct err *err)
{
	const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, .resolve = place->resolve};
	int fd = (int)syscall(SYS_openat2, place->directory, path, &how, sizeof how);
	if (fd < 0 && errno == EXDEV)
		return err_set(err, -EACCES, "%.160s leads out of adapter_dir", path);
	if (fd < 0)
		return err_set(err, -errno, "cannot open %.160s: %s", path, strerror(errno));
	int rc = fstat(fd, st) ? err_set(err, -errno, "%.160s: %s", path, strerror(errno)) : 0;
	if (!rc && !S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
		rc = err_set(err, -EINVAL, "%.160s is neither a file nor a folder", path);
	if (!rc && place->checks_owner && st->st_uid != 0 && st->st_uid != geteuid() && st->st_uid != place->owner)
		rc = err_set(err, -EACCES, "%.160s belongs to another user (uid %u)", path, (unsigned)st->st_uid);
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

/* Each by its whole path from the same place: what a link in the folder points to is under the same rule. */
static int open_folder(const struct place *place, const char *path, struct adapter_files *out, struct err *err)
{
	char name[1200];
	struct stat st;
	for (uint32_t i = 0; i < ADAPTER_FILES_MAX; i++) {
		int n = snprintf(name, sizeof name, "%s/%s", path, folder_names[i]);
		if (n < 0 || (size_t)n >= sizeof name)
			return err_set(err, -ENAMETOOLONG, "the path is longer than %zu characters", sizeof name);
		int fd = open_one(place, name, &st, err);
		if (fd < 0)
			return fd;
		out->fds[out->n++] = fd;
		if (!S_ISREG(st.st_mode))
			return err_set(err, -EINVAL, "%.160s is not a file", name);
	}
	return 0;
}

static int open_files(const struct place *place, const char *path, struct adapter_files *out, struct err *err)
{
	struct adapter_files files = {.n = 0};
	struct stat st;
	int rc = 0, fd = open_one(place, path, &st, err);
	if (fd < 0)
		return fd;
	if (S_ISDIR(st.st_mode)) {
		close(fd);
		rc = open_folder(place, path, &files, err);
	} else {
		files.fds[files.n++] = fd;
	}
	if (rc)
		adapter_files_close(&files);
	else
		*out = files;
	return rc;
}

int adapter_files_open(const char *path, struct adapter_files *out, struct err *err)
{
	const struct place place = {.directory = AT_FDCWD};
	return open_files(&place, path, out, err);
}

/* The part of an absolute path behind `directory`; NULL: it is not beneath it. */
static const char *relative(const char *directory, const char *path)
{
	size_t n = strlen(directory);
	while (n && directory[n - 1] == '/')
		n--;
	if (strncmp(path, directory, n) || path[n] != '/')
		return NULL;
	return path + n + strspn(path + n, "/");
}

int adapter_files_open_beneath(const char *directory, const char *path, uid_t owner, struct adapter_files *out,
			       struct err *err)
{
	const char *rest = path[0] == '/' ? relative(directory, path) : path;
	if (!rest || !*rest)
		return err_set(err, -EACCES, "%.160s is not beneath adapter_dir", path);
	struct place place = {.directory = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC),
			      .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
			      .checks_owner = true,
			      .owner = owner};
	if (place.directory < 0)
		return err_set(err, -EIO, "adapter_dir: %s", strerror(errno));
	int rc = open_files(&place, rest, out, err);
	close(place.directory);
	return rc;
}

void adapter_files_close(struct adapter_files *files)
{
	for (uint32_t i = 0; i < files->n; i++)
		close(files->fds[i]);
	files->n = 0;
}
