#include "src/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = KEYS_MAX * (KEY_BYTES_MAX + 2) };

static int check_file(int fd, const char *path, struct err *err)
{
	struct stat status;
	if (fstat(fd, &status))
		return err_set(err, -errno, "api_keys_file: %.160s: %s", path, strerror(errno));
	if (!S_ISREG(status.st_mode))
		return err_set(err, -EACCES, "api_keys_file: %.160s is not a regular file", path);
	if (status.st_uid != geteuid() && status.st_uid != 0)
		return err_set(err, -EACCES, "api_keys_file: %.160s belongs to user %u, not to the daemon's or root",
			       path, (unsigned)status.st_uid);
	if (status.st_mode & 077)
		return err_set(err, -EACCES,
			       "api_keys_file: %.160s has mode %04o; others must get nothing (chmod 0600)", path,
			       (unsigned)status.st_mode & 07777);
	return 0;
}

int keys_open(const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_set(err, -errno, "api_keys_file: %.160s: %s", path, strerror(errno));
	int rc = check_file(fd, path, err);
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

static int read_text(int fd, char *text, size_t *n, struct err *err)
{
	*n = 0;
	while (*n <= FILE_BYTES_MAX) {
		ssize_t got = pread(fd, text + *n, FILE_BYTES_MAX + 1 - *n, (off_t)*n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_set(err, -errno, "api_keys_file: %s", strerror(errno));
		if (got == 0)
			return 0;
		*n += (size_t)got;
	}
	return err_set(err, -EINVAL, "api_keys_file: longer than %d bytes", FILE_BYTES_MAX);
}

static int add_key(struct keys *keys, char *line, unsigned number, struct err *err)
{
	size_t n = strlen(line);
	while (n && strchr(" \t\r", line[n - 1]))
		line[--n] = '\0';
	if (n == 0 || line[0] == '#')
		return 0;
	if (n < KEY_BYTES_MIN || n > KEY_BYTES_MAX)
		return err_set(err, -EINVAL, "api_keys_file: line %u: a key has %d to %d characters, this one %zu",
			       number, KEY_BYTES_MIN, KEY_BYTES_MAX, n);
	for (size_t i = 0; i < n; i++)
		if (line[i] <= ' ' || line[i] > '~')
			return err_set(err, -EINVAL,
				       "api_keys_file: line %u: a key consists of visible ASCII characters", number);
	if (keys->n == KEYS_MAX)
		return err_set(err, -EINVAL, "api_keys_file: more than %d keys", KEYS_MAX);
	keys->keys[keys->n++] = line;
	return 0;
}

int keys_read(int fd, struct keys *out, struct err *err)
{
	struct keys keys = {.text = malloc(FILE_BYTES_MAX + 2), .keys = calloc(KEYS_MAX, sizeof(char *))};
	size_t n = 0;
	int rc = keys.text && keys.keys ? read_text(fd, keys.text, &n, err)
					: err_set(err, -ENOMEM, "no memory for the keys");
	if (!rc && memchr(keys.text, 0, n))
		rc = err_set(err, -EINVAL, "api_keys_file: has a NUL character");
	if (rc)
		goto fail;
	keys.text[n] = '\0';
	char *rest = keys.text;
	for (unsigned number = 1; !rc && rest; number++)
		rc = add_key(&keys, strsep(&rest, "\n"), number, err);
	if (!rc && keys.n == 0)
		rc = err_set(err, -EINVAL, "api_keys_file: no key in it; without the setting no key is asked for");
	if (rc)
		goto fail;
	*out = keys;
	return 0;
fail:
	keys_free(&keys);
	return rc;
}

void keys_free(struct keys *keys)
{
	free(keys->text);
	free(keys->keys);
	*keys = (struct keys){0};
}

/* Every byte of both counts, wherever they first differ. */
static unsigned difference(const char *key, const char *shown, size_t n_shown)
{
	size_t n = strlen(key);
	unsigned differs = n != n_shown;
	for (size_t i = 0; i < n_shown; i++)
		differs |= (unsigned char)(key[i % n] ^ shown[i]);
	return differs;
}

bool keys_admit(const struct keys *keys, const char *authorization)
{
	static const char scheme[] = "Bearer ";
	unsigned admitted = 0;
	if (strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
		return false;
	const char *shown = authorization + sizeof scheme - 1;
	shown += strspn(shown, " ");
	size_t n = strlen(shown);
	if (n > KEY_BYTES_MAX)
		return false;
	for (unsigned i = 0; i < keys->n; i++) /* all of them, also behind the right one */
		admitted |= difference(keys->keys[i], shown, n) == 0;
	return admitted;
}
