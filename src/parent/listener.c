#include "src/parent/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

enum { BACKLOG = 4096 }; /* as much as net.core.somaxconn allows by default */

/* Makes the directories above `path`. */
static int make_directories(const char *path, struct err *err)
{
	char dir[sizeof((struct sockaddr_un *)0)->sun_path];
	snprintf(dir, sizeof dir, "%s", path);
	for (char *at = strchr(dir + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		if (mkdir(dir, 0755) && errno != EEXIST)
			return err_set(err, -errno, "cannot make the directory %s for the socket: %s", dir,
				       strerror(errno));
		*at = '/';
	}
	return 0;
}

/* Removes a socket file that nobody listens on. */
static int remove_stale(const struct sockaddr_un *address, struct err *err)
{
	struct stat st;
	if (lstat(address->sun_path, &st))
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, -EEXIST, "%s exists and is not a socket; remove it or set another path",
			       address->sun_path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(err, -errno, "socket: %s", strerror(errno));
	int refused = connect(fd, (const struct sockaddr *)address, sizeof *address) && errno == ECONNREFUSED;
	close(fd);
	if (!refused)
		return err_set(err, -EADDRINUSE, "%s is in use by another process; stop it or set another path",
			       address->sun_path);
	unlink(address->sun_path);
	return 0;
}

static int set_owner(const char *path, uint32_t mode, const char *group, struct err *err)
{
	if (*group) {
		errno = 0;
		const struct group *g = getgrnam(group);
		if (!g)
			return err_set(err, -ENOENT, "socket_group: no group '%s'", group);
		if (chown(path, (uid_t)-1, g->gr_gid))
			return err_set(err, -errno, "socket_group: chown %s to group '%s': %s", path, group,
				       strerror(errno));
	}
	if (chmod(path, mode))
		return err_set(err, -errno, "socket_mode: chmod %s: %s", path, strerror(errno));
	return 0;
}

int listener_unix(const char *path, uint32_t mode, const char *group, int *out, struct err *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof address.sun_path)
		return err_set(err, -ENAMETOOLONG, "socket path is longer than %zu bytes: %s",
			       sizeof address.sun_path - 1, path);
	strcpy(address.sun_path, path);
	int rc = make_directories(path, err);
	if (!rc)
		rc = remove_stale(&address, err);
	if (rc)
		return rc;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(err, -errno, "socket: %s", strerror(errno));
	mode_t before = umask(0177); /* nobody else may connect before mode and group are set */
	rc = bind(fd, (struct sockaddr *)&address, sizeof address) ? -errno : 0;
	umask(before);
	if (rc) {
		err_set(err, rc, "cannot bind %s: %s", path, strerror(-rc));
		goto fail;
	}
	rc = set_owner(path, mode, group, err);
	if (rc)
		goto fail;
	if (listen(fd, BACKLOG)) {
		rc = err_set(err, -errno, "listen on %s: %s", path, strerror(errno));
		goto fail;
	}
	*out = fd;
	return 0;
fail:
	close(fd);
	return rc;
}

/* "127.0.0.1:8080", "[::1]:8080" */
static int parse_address(const char *text, struct sockaddr_storage *out, socklen_t *n_bytes)
{
	char host[64];
	const char *colon = strrchr(text, ':');
	if (!colon || colon == text || (size_t)(colon - text) >= sizeof host)
		return -EINVAL;
	char *end;
	unsigned long port = strtoul(colon + 1, &end, 10);
	if (*end || end == colon + 1 || port > 65535)
		return -EINVAL;
	snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
	memset(out, 0, sizeof *out);
	size_t n = strlen(host);
	if (host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		*n_bytes = sizeof *v6;
		return inet_pton(AF_INET6, host + 1, &v6->sin6_addr) == 1 ? 0 : -EINVAL;
	}
	v4->sin_family = AF_INET;
	v4->sin_port = htons((uint16_t)port);
	*n_bytes = sizeof *v4;
	return inet_pton(AF_INET, strcmp(host, "localhost") ? host : "127.0.0.1", &v4->sin_addr) == 1 ? 0 : -EINVAL;
}

int listener_tcp(const char *text, int *out, struct err *err)
{
	struct sockaddr_storage address;
	socklen_t n_bytes;
	if (parse_address(text, &address, &n_bytes))
		return err_set(err, -EINVAL,
			       "listen: '%s' is not an address and port such as 127.0.0.1:8080 or [::1]:8080", text);
	int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(err, -errno, "socket: %s", strerror(errno));
	int on = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, (struct sockaddr *)&address, n_bytes) || listen(fd, BACKLOG)) {
		int rc = err_set(err, -errno, "cannot listen on %s: %s", text, strerror(errno));
		close(fd);
		return rc;
	}
	*out = fd;
	return 0;
}

/* One descriptor that systemd passed (takes it). Sockets come first: a socket unit's default name could be taken for a
 * segment's, not the other way round. */
static int sort_inherited(int fd, const char *name, int *unix_fd, int *tcp_fd, struct fdstore *store)
{
	if (*unix_fd < 0 && sd_is_socket(fd, AF_UNIX, SOCK_STREAM, 1) > 0)
		*unix_fd = fd;
	else if (*tcp_fd < 0 &&
		 (sd_is_socket(fd, AF_INET, SOCK_STREAM, 1) > 0 || sd_is_socket(fd, AF_INET6, SOCK_STREAM, 1) > 0))
		*tcp_fd = fd;
	else if (!strncmp(name, FDSTORE_PREFIX, strlen(FDSTORE_PREFIX)) && sd_is_socket(fd, 0, 0, -1) == 0)
		fdstore_add(store, fd, name);
	else {
		close(fd);
		return -EINVAL;
	}
	return 0;
}

int listener_inherit(int *unix_fd, int *tcp_fd, struct fdstore *store, struct err *err)
{
	char **names = NULL;
	int rc = 0, n = sd_listen_fds_with_names(1, &names);
	if (n < 0)
		return err_set(err, n, "LISTEN_FDS: %s", strerror(-n));
	for (int i = 0; i < n && !rc; i++) {
		int fd = SD_LISTEN_FDS_START + i;
		/* Role processes expect their orders on the first number, so it has to be moved out of the way. */
		int moved = fcntl(fd, F_DUPFD_CLOEXEC, 10);
		if (moved < 0) {
			rc = err_set(err, -errno, "LISTEN_FDS: %s", strerror(errno));
			break;
		}
		close(fd);
		rc = sort_inherited(moved, names[i], unix_fd, tcp_fd, store);
		if (rc)
			err_set(err, rc, "LISTEN_FDS: descriptor %d ('%.64s') is neither a listener nor one of ours",
				fd, names[i]);
	}
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
	return rc;
}
