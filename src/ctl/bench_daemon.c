#include "src/ctl/bench_daemon.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yyjson.h>

#include "src/ctl/control_client.h"
#include "src/ctl/daemon_program.h"
#include "src/ctl/interrupt.h"
#include "src/ctl/progress.h"

enum {
	LOOK_MS = 50,	      /* how often its state is asked for while it loads */
	PATIENCE_MS = 600000, /* the longest measurement */
};

/* --- start ------------------------------------------------------------------------------------ */

static int write_config(const struct bench_daemon *d, const struct bench_setup *setup, struct err *err)
{
	char path[sizeof d->directory + 16];
	snprintf(path, sizeof path, "%s/weightd.conf", d->directory);
	FILE *file = fopen(path, "we");
	if (!file)
		return err_set(err, -errno, "%s: %s", path, strerror(errno));
	fprintf(file,
		"[weightd]\ninstance = bench-%d\nsocket = %s/weightd.sock\ncontrol_socket = %s\nbacking = memfd\n"
		"log_level = warning\n",
		(int)getpid(), d->directory, d->control);
	if (setup->threads)
		fprintf(file, "threads = %u\n", setup->threads);
	for (uint32_t i = 0; i < setup->n_settings; i++)
		fprintf(file, "%s\n", setup->settings[i]);
	fprintf(file, "[model bench]\npath = %s\n", setup->model);
	bool failed = ferror(file);
	if (fclose(file) || failed)
		return err_set(err, -EIO, "%s: cannot be written: %s", path, strerror(errno));
	return 0;
}

/* Becomes the daemon. Only what is allowed between fork and exec. */
static void become_daemon(const char *program, const char *config, pid_t parent)
{
	sigset_t mask;
	interrupt_child_mask(&mask);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
		_exit(126);
	if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(126);
	execl(program, program, "--config", config, (char *)NULL);
	_exit(127);
}

/* Its state: 1 ready, 0 not yet, -errno. A socket that nobody listens on yet is "not yet". */
static int look(struct bench_daemon *d, int interrupt_fd, struct progress *progress, struct err *err)
{
	struct err unreachable;
	char *text = NULL;
	int status;
	if (waitpid(d->pid, &status, WNOHANG) == d->pid) {
		d->pid = 0;
		return err_set(err, -ECHILD, "the daemon ended before it was ready; its lines above say why");
	}
	if (access(d->control, F_OK) || bench_daemon_ask(d, "status", interrupt_fd, &text, &unreachable))
		return 0;
	yyjson_doc *doc = yyjson_read(text, strlen(text), 0);
	yyjson_val *root = yyjson_doc_get_root(doc), *model = yyjson_arr_get_first(yyjson_obj_get(root, "models"));
	const char *state = yyjson_get_str(yyjson_obj_get(root, "state"));
	uint64_t total = yyjson_get_uint(yyjson_obj_get(model, "file_bytes"));
	if (total)
		progress_show(progress, "loading", yyjson_get_uint(yyjson_obj_get(model, "loaded_bytes")), total);
	int rc = state && !strcmp(state, "ready");
	yyjson_doc_free(doc);
	free(text);
	return rc;
}

static int wait_ready(struct bench_daemon *d, int interrupt_fd, struct err *err)
{
	struct progress progress;
	int rc = 0;
	progress_init(&progress);
	while (!rc) {
		rc = look(d, interrupt_fd, &progress, err);
		if (!rc && poll(&(struct pollfd){.fd = interrupt_fd, .events = POLLIN}, 1, LOOK_MS) > 0)
			rc = err_set(err, -EINTR, "interrupted");
	}
	progress_clear(&progress);
	return rc < 0 ? rc : 0;
}

int bench_daemon_start(struct bench_daemon *d, const struct bench_setup *setup, int interrupt_fd, struct err *err)
{
	char program[PATH_MAX], config[sizeof d->directory + 16];
	*d = (struct bench_daemon){.directory = "/tmp/weightctl-bench-XXXXXX"};
	if (!mkdtemp(d->directory)) {
		d->directory[0] = '\0';
		return err_set(err, -errno, "no temporary directory: %s", strerror(errno));
	}
	snprintf(d->control, sizeof d->control, "%s/control.sock", d->directory);
	snprintf(config, sizeof config, "%s/weightd.conf", d->directory);
	int rc = write_config(d, setup, err);
	if (rc)
		return rc;
	daemon_program_find(program);
	pid_t parent = getpid();
	d->pid = fork();
	if (d->pid == 0)
		become_daemon(program, config, parent);
	if (d->pid < 0) {
		d->pid = 0;
		return err_set(err, -errno, "fork: %s", strerror(errno));
	}
	return wait_ready(d, interrupt_fd, err);
}

/* --- use and end ------------------------------------------------------------------------------ */

int bench_daemon_ask(const struct bench_daemon *d, const char *command, int interrupt_fd, char **text, struct err *err)
{
	pid_t pid;
	size_t n;
	int fd = control_connect(d->control, &pid, err);
	if (fd < 0)
		return fd;
	int rc = control_ask(fd, interrupt_fd, command, PATIENCE_MS, text, &n, err);
	close(fd);
	return rc;
}

void bench_daemon_stop(struct bench_daemon *d)
{
	static const char *const files[] = {"weightd.conf", "weightd.sock", "control.sock", "weightd.sock.lock"};
	char path[sizeof d->directory + 32];
	if (d->pid) {
		kill(d->pid, SIGTERM);
		waitpid(d->pid, NULL, 0);
		d->pid = 0;
	}
	for (size_t i = 0; i < sizeof files / sizeof *files && d->directory[0]; i++) {
		snprintf(path, sizeof path, "%s/%s", d->directory, files[i]);
		unlink(path);
	}
	if (d->directory[0])
		rmdir(d->directory);
}
