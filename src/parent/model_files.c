/* A split model's parts are found by their names, as llama.cpp's gguf-split writes them, because the parent reads no
 * byte of a model; what the parts say of themselves is the loader's to compare (src/format/gguf_join.c). */
#include "src/parent/model_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "src/message.h"
#include "src/source.h"

static const char part_form[] = "-00000-of-00000.gguf"; /* 0: a digit */
enum { PART_FORM_BYTES = sizeof part_form - 1, PART_NO_AT = 1, PART_COUNT_AT = 10, PART_DIGITS = 5 };
enum { PARTS_MAX = SEGMENT_FILES_MAX - 1 /* and a chat template */ };

/* A number of PART_DIGITS digits. */
static uint32_t number_at(const char *digits)
{
	uint32_t number = 0;
	for (unsigned i = 0; i < PART_DIGITS; i++)
		number = number * 10 + (uint32_t)(digits[i] - '0');
	return number;
}

/* The end of a path that has the form of a part's; NULL if it has not. */
static const char *part_of(const char *path)
{
	size_t n = strlen(path);
	if (n < PART_FORM_BYTES)
		return NULL;
	const char *end = path + n - PART_FORM_BYTES;
	for (size_t i = 0; i < PART_FORM_BYTES; i++)
		if (part_form[i] == '0' ? end[i] < '0' || end[i] > '9' : end[i] != part_form[i])
			return NULL;
	return end;
}

static int count_parts(const char *path, uint32_t *out, struct err *err)
{
	const char *end = part_of(path);
	if (!end) {
		*out = 1;
		return 0;
	}
	uint32_t no = number_at(end + PART_NO_AT), count = number_at(end + PART_COUNT_AT);
	if (no < 1 || no > count)
		return err_set(err, -EINVAL, "path: by its name %.160s is part %u of %u", path, no, count);
	if (no > 1)
		return err_set(
			err, -EINVAL,
			"path: by its name %.120s is part %u of %u; it has to name the first, ...-00001-of-%05u.gguf",
			path, no, count, count);
	if (count > PARTS_MAX)
		return err_set(err, -EINVAL, "path: by its name %.160s is one of %u parts, at most %d are possible",
			       path, count, PARTS_MAX);
	*out = count;
	return 0;
}

static int add(struct model_files *files, uint32_t role, const char *path, struct err *err)
{
	struct model_file *file = &files->files[files->n];
	size_t n = strlen(path);
	if (n >= sizeof file->path)
		return err_set(err, -ENAMETOOLONG, "%.160s: longer than %zu characters", path, sizeof file->path - 1);
	memcpy(file->path, path, n + 1);
	const char *slash = strrchr(file->path, '/');
	file->name = slash ? slash + 1 : file->path;
	if (strlen(file->name) >= sizeof(((struct message_file *)0)->name))
		return err_set(err, -ENAMETOOLONG, "%.160s: its name is too long", path);
	file->role = role;
	files->n++;
	return 0;
}

static int add_parts(struct model_files *files, const char *path, uint32_t n_parts, struct err *err)
{
	char part[CONFIG_PATH];
	int rc = add(files, FILE_WEIGHTS, path, err);
	for (uint32_t i = 1; i < n_parts && rc == 0; i++) {
		int kept = (int)(strlen(path) - PART_FORM_BYTES);
		snprintf(part, sizeof part, "%.*s-%05u-of-%05u.gguf", kept, path, i + 1, n_parts);
		rc = add(files, FILE_WEIGHTS, part, err);
	}
	return rc;
}

/* --- folders ---------------------------------------------------------------------------------- */

static int is_weights(const struct dirent *entry)
{
	static const char suffix[] = ".safetensors";
	size_t n = strlen(entry->d_name), n_suffix = sizeof suffix - 1;
	return n > n_suffix && strcmp(entry->d_name + n - n_suffix, suffix) == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_in(struct model_files *files, uint32_t role, const char *name, struct err *err)
{
	char path[CONFIG_PATH];
	if (files->n == SEGMENT_FILES_MAX)
		return err_set(err, -E2BIG, "path: %.160s: more than %d files", files->path, SEGMENT_FILES_MAX);
	if (snprintf(path, sizeof path, "%s/%s", files->path, name) >= (int)sizeof path)
		return err_set(err, -ENAMETOOLONG, "path: %.120s/%.60s: longer than %zu characters", files->path, name,
			       sizeof path - 1);
	return add(files, role, path, err);
}

/* Of a CTranslate2 folder only the first and the tokenizer are there. */
static int add_beside(struct model_files *files, struct err *err)
{
	static const char *const names[] = {"config.json",    "generation_config.json", "model.safetensors.index.json",
					    "tokenizer.json", "tokenizer_config.json",	"chat_template.jinja"};
	struct stat st;
	int rc = 0;
	for (size_t i = 0; i < sizeof names / sizeof *names && rc == 0; i++) {
		rc = add_in(files, FILE_BESIDE, names[i], err);
		if (rc == 0 && stat(files->files[files->n - 1].path, &st) && errno == ENOENT)
			files->n--;
	}
	return rc;
}

/* CTranslate2's one file with weights. */
static int add_model_bin(struct model_files *files, struct err *err)
{
	struct stat st;
	int rc = add_in(files, FILE_WEIGHTS, "model.bin", err);
	if (rc == 0 && stat(files->files[0].path, &st) && errno == ENOENT)
		rc = err_set(err, -EINVAL, "path: the folder %.160s has no .safetensors file and no model.bin",
			     files->path);
	return rc;
}

static int add_folder(struct model_files *files, struct err *err)
{
	struct dirent **entries = NULL;
	int n = scandir(files->path, &entries, is_weights, by_name), rc = 0;
	if (n < 0)
		return err_set(err, -errno, "path: cannot read the folder %.160s: %s", files->path, strerror(errno));
	for (int i = 0; i < n; i++) {
		if (rc == 0)
			rc = add_in(files, FILE_WEIGHTS, entries[i]->d_name, err);
		free(entries[i]);
	}
	free(entries);
	if (rc == 0 && n == 0)
		rc = add_model_bin(files, err);
	if (rc == 0)
		rc = add_beside(files, err);
	if (rc == 0 && files->files[files->n - 1].role == FILE_WEIGHTS)
		rc = err_set(err, -EINVAL, "path: the folder %.160s has no config.json", files->path);
	return rc;
}

/* --- all -------------------------------------------------------------------------------------- */

int model_files_find(const struct config_model *model, struct model_files *out, struct err *err)
{
	struct model_files files = {.path = model->path, .quantize = model->quantize};
	struct stat st;
	uint32_t n_parts = 0;
	bool is_folder = stat(model->path, &st) == 0 && S_ISDIR(st.st_mode);
	int rc = is_folder ? 0 : count_parts(model->path, &n_parts, err);
	if (rc)
		return rc;
	files.files = calloc((is_folder ? SEGMENT_FILES_MAX : n_parts) + 1, sizeof *files.files);
	if (!files.files)
		return err_set(err, -ENOMEM, "no memory for the names of files");
	rc = is_folder ? add_folder(&files, err) : add_parts(&files, model->path, n_parts, err);
	if (!rc && model->chat_template[0])
		rc = add(&files, FILE_TEMPLATE, model->chat_template, err);
	if (rc) {
		model_files_free(&files);
		return rc;
	}
	*out = files;
	return 0;
}

void model_files_free(struct model_files *files)
{
	free(files->files);
	*files = (struct model_files){.n = 0};
}

static int refuse(const struct model_file *file, const char *what, int code, struct err *err)
{
	size_t n = strlen(file->path); /* its end says which part it is */
	return err_set(err, code, "%s %s: %s", what, file->path + (n > 180 ? n - 180 : 0),
		       code == -EINVAL ? "not a regular file" : strerror(-code));
}

int model_file_open(const struct model_file *file, int *fd, struct err *err)
{
	int opened = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (opened < 0)
		return refuse(file, "cannot open", -errno, err);
	*fd = opened;
	return 0;
}

int model_files_describe(const struct model_files *files, struct segment_source *out, struct err *err)
{
	struct segment_source source;
	struct stat st;
	int rc = source_begin(files->path, &source);
	for (uint32_t i = 0; i < files->n && rc == 0; i++) {
		const struct model_file *file = &files->files[i];
		rc = stat(file->path, &st) ? -errno : source_add(&source, file->name, file->role, &st);
		if (rc)
			return refuse(file, "cannot use", rc, err);
	}
	if (rc)
		return err_set(err, rc, "%.180s: %s", files->path, strerror(-rc));
	source.quantize = files->quantize;
	*out = source;
	return 0;
}
