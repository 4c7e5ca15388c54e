/* weightctl transcribe: as many files at a time as the daemon has workers, each by a thread of its own; results come
 * out in the order of the files. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <yyjson.h>

#include "src/ctl/answer.h"
#include "src/ctl/client.h"
#include "src/ctl/progress.h"
#include "src/ctl/upload.h"

enum { THREADS_MAX = 64, STATUS_MAX = 4 << 20, LOOK_NS = 200 * 1000 * 1000 };

struct transcribe {
	const struct weightctl *ctl;
	const char *format;	/* the daemon's word */
	struct upload *uploads; /* [n] owned */
	unsigned n;
	atomic_uint next; /* the first that no thread has taken */
	atomic_ullong sent;
	unsigned running;     /* threads */
	pthread_mutex_t lock; /* of that and of all uploads' `ended` */
	pthread_cond_t changed;
};

/* --- how many at a time ----------------------------------------------------------------------- */

/* Workers of the model that are ready, by the daemon's status. 1 when it does not say. */
static unsigned count_workers(const struct weightctl *ctl)
{
	struct client *client;
	struct err err;
	char *text = NULL;
	size_t n_text;
	int status = 0;
	unsigned n = 0;
	if (client_open(ctl->socket, ctl->interrupt_fd, &client, &err) < 0)
		return 1;
	if (client_request(client, "GET", "/v1/status", NULL, 0, &status, &err) == 0 && status == 200 &&
	    client_read_all(client, STATUS_MAX, &text, &n_text, &err) == 0) {
		yyjson_doc *doc = yyjson_read(text, n_text, 0);
		yyjson_val *workers = yyjson_obj_get(yyjson_doc_get_root(doc), "workers");
		yyjson_arr_iter items = yyjson_arr_iter_with(workers);
		for (yyjson_val *worker; (worker = yyjson_arr_iter_next(&items));)
			if (yyjson_equals_str(yyjson_obj_get(worker, "state"), "ready") &&
			    (!ctl->model || yyjson_equals_str(yyjson_obj_get(worker, "model"), ctl->model)))
				n++;
		yyjson_doc_free(doc);
	}
	free(text);
	client_close(client);
	return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : n;
}

/* --- results ---------------------------------------------------------------------------------- */

/* DIR/NAME.EXTENSION, NAME without the folder and the last extension. */
static int name_output(const struct weightctl *ctl, const char *path, char *out, size_t size)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
	int n = (int)(dot && dot != name ? (size_t)(dot - name) : strlen(name));
	int length = snprintf(out, size, "%s/%.*s.%s", ctl->transcribe.output_dir, n, name, ctl->transcribe.extension);
	return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}

static int write_all(int fd, const char *bytes, size_t n)
{
	while (n) {
		ssize_t done = write(fd, bytes, n);
		if (done < 0 && errno != EINTR)
			return -errno;
		bytes += done > 0 ? done : 0;
		n -= done > 0 ? (size_t)done : 0;
	}
	return 0;
}

/* Whole or not at all: a file beside it, renamed. */
static int write_output(const struct weightctl *ctl, const struct upload *upload, struct err *err)
{
	char path[4096], beside[4096 + 16];
	int rc = name_output(ctl, upload->path, path, sizeof path);
	if (rc)
		return err_set(err, rc, "its output's name is too long");
	snprintf(beside, sizeof beside, "%s.XXXXXX", path);
	int fd = mkstemp(beside);
	if (fd < 0)
		return err_set(err, -errno, "%.180s: %s", beside, strerror(errno));
	mode_t mask = umask(0);
	umask(mask);
	rc = write_all(fd, upload->text, upload->n_text);
	if (rc == 0 && (fchmod(fd, 0666 & ~mask) < 0 || fsync(fd) < 0))
		rc = -errno;
	close(fd);
	if (rc == 0 && rename(beside, path) < 0)
		rc = -errno;
	if (rc)
		unlink(beside);
	return rc ? err_set(err, rc, "%.180s: %s", path, strerror(-rc)) : 0;
}

/* {"file":…,"transcript":…} on a line of its own, or with "error". */
static void print_json(const struct transcribe *t, const struct upload *upload)
{
	yyjson_doc *heard = upload->code == EXIT_OK ? yyjson_read(upload->text, upload->n_text, 0) : NULL;
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc);
	yyjson_mut_doc_set_root(doc, root);
	yyjson_mut_obj_add_str(doc, root, "file", upload->path);
	if (heard)
		yyjson_mut_obj_add_val(doc, root, "transcript", yyjson_val_mut_copy(doc, yyjson_doc_get_root(heard)));
	else
		yyjson_mut_obj_add_str(doc, root, "error", upload->err.text);
	weightctl_print_json(t->ctl, doc);
	yyjson_doc_free(heard);
}

static void print_text(const struct transcribe *t, const struct upload *upload)
{
	if (t->n > 1)
		printf("==> %s <==\n", upload->path);
	answer_print(upload->text, upload->n_text);
	if (upload->n_text && upload->text[upload->n_text - 1] != '\n')
		putchar('\n');
	fflush(stdout);
}

/* Shows one result; returns its exit status. */
static int deliver(struct transcribe *t, struct upload *upload)
{
	const struct weightctl *ctl = t->ctl;
	if (upload->code == EXIT_OK && ctl->transcribe.output_dir && write_output(ctl, upload, &upload->err))
		upload->code = EXIT_FAILED;
	if (upload->code == EXIT_UNREACHABLE && !ctl->json)
		weightctl_unreachable(ctl, &upload->err);
	else if (upload->code != EXIT_OK && upload->code != EXIT_INTERRUPTED)
		fprintf(stderr, "weightctl: %s: %s\n", upload->path, upload->err.text);
	if (ctl->json)
		print_json(t, upload);
	else if (upload->code == EXIT_OK && !ctl->transcribe.output_dir)
		print_text(t, upload);
	return upload->code;
}

/* --- threads ---------------------------------------------------------------------------------- */

static void *work(void *arg)
{
	struct transcribe *t = arg;
	for (unsigned i; (i = atomic_fetch_add(&t->next, 1)) < t->n;) {
		upload_run(t->ctl, t->format, &t->uploads[i], &t->sent);
		bool stop = t->uploads[i].code == EXIT_INTERRUPTED || t->uploads[i].code == EXIT_UNREACHABLE;
		pthread_mutex_lock(&t->lock);
		t->uploads[i].ended = true;
		pthread_cond_signal(&t->changed);
		pthread_mutex_unlock(&t->lock);
		if (stop)
			break;
	}
	pthread_mutex_lock(&t->lock);
	t->running--;
	pthread_cond_signal(&t->changed);
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* Waits until that one has ended. False: nobody will do it any more. */
static bool wait_for(struct transcribe *t, unsigned i, struct progress *progress, uint64_t total)
{
	char label[64];
	snprintf(label, sizeof label, "%u of %u heard, sent", i, t->n);
	pthread_mutex_lock(&t->lock);
	while (!t->uploads[i].ended && t->running) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += LOOK_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&t->changed, &t->lock, &until);
		progress_show(progress, label, atomic_load(&t->sent), total);
	}
	bool ended = t->uploads[i].ended;
	pthread_mutex_unlock(&t->lock);
	return ended;
}

static uint64_t total_bytes(const struct transcribe *t)
{
	uint64_t total = 0;
	struct stat st;
	for (unsigned i = 0; i < t->n; i++)
		if (stat(t->uploads[i].path, &st) == 0)
			total += (uint64_t)st.st_size;
	return total;
}

/* Starts threads, delivers what they bring in the order of the files, and returns the first failure's exit status. */
static int run(struct transcribe *t)
{
	pthread_t threads[THREADS_MAX];
	struct progress progress;
	unsigned wanted = count_workers(t->ctl), n = 0;
	uint64_t total = total_bytes(t);
	int code = EXIT_OK;
	progress_init(&progress);
	if (wanted > t->n)
		wanted = t->n;
	t->running = wanted;
	while (n < wanted && pthread_create(&threads[n], NULL, work, t) == 0)
		n++;
	pthread_mutex_lock(&t->lock);
	t->running -= wanted - n;
	pthread_mutex_unlock(&t->lock);
	if (n == 0)
		return weightctl_fail(t->ctl, EXIT_FAILED, "no thread can be started");
	for (unsigned i = 0; i < t->n && wait_for(t, i, &progress, total); i++) {
		progress_clear(&progress);
		int rc = deliver(t, &t->uploads[i]);
		code = code == EXIT_OK ? rc : code;
		if (rc == EXIT_INTERRUPTED || rc == EXIT_UNREACHABLE) {
			code = rc;
			break;
		}
	}
	progress_clear(&progress);
	atomic_store(&t->next, t->n);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return code;
}

/* Two files must not become the same one. */
static int check_outputs(const struct weightctl *ctl)
{
	char one[4096], other[4096];
	struct stat st;
	if (stat(ctl->transcribe.output_dir, &st) < 0 || !S_ISDIR(st.st_mode))
		return weightctl_fail(ctl, EXIT_USAGE, "--output-dir %s: not a directory", ctl->transcribe.output_dir);
	for (int i = 0; i < ctl->n_arguments; i++) {
		if (name_output(ctl, ctl->arguments[i], one, sizeof one))
			return weightctl_fail(ctl, EXIT_USAGE, "%s: its output's name is too long", ctl->arguments[i]);
		for (int k = 0; k < i; k++)
			if (name_output(ctl, ctl->arguments[k], other, sizeof other) == 0 && strcmp(one, other) == 0)
				return weightctl_fail(ctl, EXIT_USAGE, "%s and %s would both become %s",
						      ctl->arguments[k], ctl->arguments[i], one);
	}
	return EXIT_OK;
}

int weightctl_transcribe(struct weightctl *ctl)
{
	const struct weightctl_transcribe *wanted = &ctl->transcribe;
	bool is_json = strcmp(wanted->extension, "json") == 0;
	if (ctl->json && wanted->output_dir)
		return weightctl_fail(ctl, EXIT_USAGE, "--json and --output-dir exclude each other");
	if (wanted->words && !is_json && !ctl->json)
		return weightctl_fail(ctl, EXIT_USAGE, "--word-timestamps wants --format json or --json");
	if (ctl->n_arguments > 1 && !wanted->output_dir && !ctl->json && strcmp(wanted->extension, "txt") != 0)
		return weightctl_fail(ctl, EXIT_USAGE, "several files as %s want --output-dir", wanted->extension);
	if (wanted->output_dir && check_outputs(ctl) != EXIT_OK)
		return EXIT_USAGE;
	struct transcribe t = {.ctl = ctl,
			       .format = ctl->json ? "verbose_json" : wanted->format,
			       .n = (unsigned)ctl->n_arguments,
			       .uploads = calloc((size_t)ctl->n_arguments, sizeof *t.uploads),
			       .lock = PTHREAD_MUTEX_INITIALIZER,
			       .changed = PTHREAD_COND_INITIALIZER};
	if (!t.uploads)
		return weightctl_fail(ctl, EXIT_FAILED, "out of memory");
	for (unsigned i = 0; i < t.n; i++)
		t.uploads[i].path = ctl->arguments[i];
	int code = run(&t);
	for (unsigned i = 0; i < t.n; i++)
		upload_fini(&t.uploads[i]);
	free(t.uploads);
	return code;
}
