#include "src/ctl/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yyjson.h>

#include "src/ctl/client.h"

enum { PIECE = 65536, HEAD_MAX = 8192, TEXT_MAX = 256 << 20 };

struct head {
	char text[HEAD_MAX];
	size_t n;
	bool full;
	char boundary[48];
};

__attribute__((format(printf, 2, 3))) static void add(struct head *head, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int n = vsnprintf(head->text + head->n, sizeof head->text - head->n, format, args);
	va_end(args);
	head->full |= n < 0 || (size_t)n >= sizeof head->text - head->n;
	head->n += head->full ? 0 : (size_t)n;
}

static void add_field(struct head *head, const char *name, const char *value)
{
	if (value)
		add(head, "--%s\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n%s\r\n", head->boundary, name,
		    value);
}

/* The last part of a path; what would end a quoted string, or a line, is left out: it is for people. */
static void add_filename(struct head *head, const char *path)
{
	const char *slash = strrchr(path, '/');
	char name[200];
	size_t n = 0;
	for (const char *c = slash ? slash + 1 : path; *c && n + 1 < sizeof name; c++)
		if ((unsigned char)*c >= ' ' && *c != '"' && *c != '\\' && *c != 0x7f)
			name[n++] = *c;
	name[n] = '\0';
	add(head,
	    "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%s\"\r\n"
	    "Content-Type: application/octet-stream\r\n\r\n",
	    head->boundary, name);
}

/* All that comes before the file's bytes. */
static int make_head(const struct weightctl *ctl, const char *format, const char *path, struct head *head,
		     struct err *err)
{
	unsigned long long number[2];
	if (getrandom(number, sizeof number, 0) != sizeof number)
		return err_set(err, -EIO, "no random numbers");
	snprintf(head->boundary, sizeof head->boundary, "weightctl-%016llx%016llx", number[0], number[1]);
	add_field(head, "model", ctl->model);
	add_field(head, "language", ctl->transcribe.language);
	add_field(head, "response_format", format);
	if (ctl->transcribe.words)
		add_field(head, "word_timestamps", "true");
	add_filename(head, path);
	return head->full ? err_set(err, -EINVAL, "the names are too long") : 0;
}

static int send_file(struct client *client, int fd, uint64_t n_bytes, atomic_ullong *sent, struct err *err)
{
	char piece[PIECE];
	for (uint64_t left = n_bytes; left;) {
		ssize_t n = read(fd, piece, left < sizeof piece ? (size_t)left : sizeof piece);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(err, n ? -errno : -EIO, "%s", n ? strerror(errno) : "it has become shorter");
		int rc = client_put(client, piece, (size_t)n, err);
		if (rc)
			return rc;
		left -= (uint64_t)n;
		atomic_fetch_add_explicit(sent, (unsigned long long)n, memory_order_relaxed); /* for people to see */
	}
	return 0;
}

/* Why the daemon refuses, in its own words. */
static void read_error(struct upload *upload, int status)
{
	yyjson_doc *doc = yyjson_read(upload->text, upload->n_text, 0);
	const char *message =
		yyjson_get_str(yyjson_obj_get(yyjson_obj_get(yyjson_doc_get_root(doc), "error"), "message"));
	if (message)
		err_set(&upload->err, 0, "%s", message);
	else
		err_set(&upload->err, 0, "HTTP status %d", status);
	yyjson_doc_free(doc);
	upload->code = EXIT_REFUSED;
}

static int exchange(const struct weightctl *ctl, const char *format, struct upload *upload, int fd, uint64_t n_bytes,
		    atomic_ullong *sent)
{
	struct head head = {.n = 0};
	struct client *client;
	char tail[64], type[96];
	int status = 0, rc = make_head(ctl, format, upload->path, &head, &upload->err);
	if (rc < 0)
		return rc;
	rc = client_open(ctl->socket, ctl->interrupt_fd, &client, &upload->err);
	if (rc < 0) {
		upload->code = EXIT_UNREACHABLE;
		return rc;
	}
	int n_tail = snprintf(tail, sizeof tail, "\r\n--%s--\r\n", head.boundary);
	snprintf(type, sizeof type, "multipart/form-data; boundary=%s", head.boundary);
	rc = client_begin(client, "POST",
			  ctl->transcribe.translate ? "/v1/audio/translations" : "/v1/audio/transcriptions", type,
			  head.n + n_bytes + (uint64_t)n_tail, &upload->err);
	if (rc == 0)
		rc = client_put(client, head.text, head.n, &upload->err);
	if (rc == 0)
		rc = send_file(client, fd, n_bytes, sent, &upload->err);
	if (rc == 0)
		rc = client_put(client, tail, (size_t)n_tail, &upload->err);
	if (rc >= 0) /* 1: it has answered before it had read all */
		rc = client_finish(client, &status, &upload->err);
	if (rc == 0)
		rc = client_read_all(client, TEXT_MAX, &upload->text, &upload->n_text, &upload->err);
	client_close(client);
	if (rc == 0 && status != 200)
		read_error(upload, status);
	else if (rc == 0)
		upload->code = EXIT_OK;
	return rc;
}

void upload_run(const struct weightctl *ctl, const char *format, struct upload *upload, atomic_ullong *sent)
{
	struct stat st;
	upload->code = EXIT_FAILED;
	int fd = open(upload->path, O_RDONLY | O_CLOEXEC), rc;
	if (fd < 0 || fstat(fd, &st) < 0)
		rc = err_set(&upload->err, -errno, "%s", strerror(errno));
	else if (!S_ISREG(st.st_mode))
		rc = err_set(&upload->err, -EINVAL, "not a regular file");
	else
		rc = exchange(ctl, format, upload, fd, (uint64_t)st.st_size, sent);
	if (rc == -EINTR)
		upload->code = EXIT_INTERRUPTED;
	if (fd >= 0)
		close(fd);
}

void upload_fini(struct upload *upload)
{
	free(upload->text);
	upload->text = NULL;
}
