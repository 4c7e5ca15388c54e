/* Everything read here ends up in a command line, a path or a digest comparison, so each value is held to the
 * characters that its use needs: a package cannot be an option or a URL, a member cannot leave the archive. */
#include "src/catalogue.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "src/inifile.h"

static bool plain(const char *text, const char *extra)
{
	if (!isalnum((unsigned char)text[0]))
		return false;
	for (const char *p = text; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr(extra, *p))
			return false;
	return true;
}

static int set_word(char *dst, size_t size, const char *value, const char *extra, struct err *err)
{
	if (!plain(value, extra) || strlen(value) >= size)
		return err_set(
			err, -EINVAL,
			"must be 1 to %zu letters, digits or characters of '%s', beginning with a letter or digit",
			size - 1, extra);
	strcpy(dst, value);
	return 0;
}

static int set_source(struct catalogue_model *model, const char *value, struct err *err)
{
	if (strcmp(value, "pypi"))
		return err_set(err, -EINVAL, "unknown kind '%.40s'; known: pypi", value);
	model->source = CATALOGUE_PYPI;
	return 0;
}

/* Whether every brace of a pattern is one of a "{digits}". */
static bool braces_count(const char *pattern)
{
	for (const char *p = pattern; (p = strpbrk(p, "{}")); p++) {
		size_t digits = *p == '{' ? strspn(p + 1, "0123456789") : 0;
		if (digits < 1 || digits > 3 || p[1 + digits] != '}')
			return false;
		p += 1 + digits;
	}
	return true;
}

static int set_package(struct catalogue_model *model, const char *value, struct err *err)
{
	int rc = set_word(model->package, sizeof model->package, value, "._-{}", err);
	return rc || braces_count(value) ? rc : err_set(err, -EINVAL, "braces may only hold the first part's number");
}

static int set_parts(struct catalogue_model *model, const char *value, struct err *err)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);
	if (!isdigit((unsigned char)value[0]) || *end || n < 1 || n > CATALOGUE_PARTS_MAX)
		return err_set(err, -EINVAL, "must be a number from 1 to %d", CATALOGUE_PARTS_MAX);
	model->n_parts = (uint32_t)n;
	return 0;
}

static int set_file(struct catalogue_model *model, const char *value, struct err *err)
{
	return set_word(model->own_file, sizeof model->own_file, value, "._-+", err);
}

static int set_version(struct catalogue_model *model, const char *value, struct err *err)
{
	return set_word(model->version, sizeof model->version, value, "._-+!", err);
}

static int set_member(struct catalogue_model *model, const char *value, struct err *err)
{
	int rc = set_word(model->member, sizeof model->member, value, "._-+/{}", err);
	if (rc < 0)
		return rc;
	const char *slash = strrchr(model->member, '/');
	model->file = slash ? slash + 1 : model->member;
	if (strstr(model->member, "..") || !isalnum((unsigned char)model->file[0]))
		return err_set(err, -EINVAL, "must be a path to a file inside the archive, without '..'");
	return braces_count(value) ? 0 : err_set(err, -EINVAL, "braces may only hold the first part's number");
}

static int read_sha256(const char *value, uint8_t out[CATALOGUE_SHA256_BYTES], struct err *err)
{
	if (strlen(value) != 2 * CATALOGUE_SHA256_BYTES || strspn(value, "0123456789abcdefABCDEF") != strlen(value))
		return err_set(err, -EINVAL, "must be 64 hexadecimal digits");
	for (unsigned i = 0; i < CATALOGUE_SHA256_BYTES; i++) {
		const char digits[3] = {value[2 * i], value[2 * i + 1]};
		out[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return 0;
}

static int set_sha256(struct catalogue_model *model, const char *value, struct err *err)
{
	return read_sha256(value, model->sha256, err);
}

static int set_folder(struct catalogue_model *model, const char *value, struct err *err)
{
	return set_word(model->folder, sizeof model->folder, value, "._-+", err);
}

/* "MEMBER SHA256" */
static int add_beside(struct catalogue_model *model, const char *entry, struct err *err)
{
	char member[sizeof model->beside->member], digest[2 * CATALOGUE_SHA256_BYTES + 2];
	if (model->n_beside == CATALOGUE_BESIDE_MAX)
		return err_set(err, -EINVAL, "more than %d files", CATALOGUE_BESIDE_MAX);
	if (sscanf(entry, "%255s %65s", member, digest) != 2)
		return err_set(err, -EINVAL, "must be MEMBER SHA256, and so on");
	struct catalogue_beside *beside = &model->beside[model->n_beside];
	int rc = set_word(beside->member, sizeof beside->member, member, "._-+/", err);
	const char *file = catalogue_beside_file(beside);
	if (rc == 0 && (strstr(member, "..") || !isalnum((unsigned char)file[0])))
		rc = err_set(err, -EINVAL, "must be a path to a file inside the archive, without '..'");
	for (uint32_t i = 0; i < model->n_beside && rc == 0; i++)
		if (strcmp(file, catalogue_beside_file(&model->beside[i])) == 0)
			rc = err_set(err, -EINVAL, "two files are called %.60s", file);
	if (rc == 0)
		rc = read_sha256(digest, beside->sha256, err);
	model->n_beside += rc == 0;
	return rc;
}

static int set_beside(struct catalogue_model *model, const char *value, struct err *err)
{
	int rc = 0;
	for (const char *at = value; rc == 0; at++) {
		char entry[400];
		size_t n = strcspn(at, ",");
		if (n >= sizeof entry)
			return err_set(err, -EINVAL, "must be MEMBER SHA256, and so on");
		memcpy(entry, at, n);
		entry[n] = '\0';
		rc = add_beside(model, entry, err);
		at += n;
		if (!*at)
			break;
	}
	return rc;
}

static int set_bytes(struct catalogue_model *model, const char *value, struct err *err)
{
	char *end;
	errno = 0;
	model->bytes = strtoumax(value, &end, 10);
	if (!isdigit((unsigned char)value[0]) || *end || errno || model->bytes == 0 || model->bytes > UINT64_C(1) << 46)
		return err_set(err, -EINVAL, "must be the file's size in bytes");
	return 0;
}

static int set_licence(struct catalogue_model *model, const char *value, struct err *err)
{
	return set_word(model->licence, sizeof model->licence, value, "._-+ ()", err);
}

static int set_terms(struct catalogue_model *model, const char *value, struct err *err)
{
	if (strlen(value) >= sizeof model->terms)
		return err_set(err, -EINVAL, "longer than %zu characters", sizeof model->terms - 1);
	strcpy(model->terms, value);
	return 0;
}

static int set_about(struct catalogue_model *model, const char *value, struct err *err)
{
	if (strlen(value) >= sizeof model->about)
		return err_set(err, -EINVAL, "longer than %zu characters", sizeof model->about - 1);
	strcpy(model->about, value);
	return 0;
}

static const struct catalogue_key {
	const char *name;
	int (*set)(struct catalogue_model *model, const char *value, struct err *err);
	bool optional;
} keys[] = {
	{"source", set_source, false},	 {"package", set_package, false}, {"version", set_version, false},
	{"member", set_member, false},	 {"sha256", set_sha256, false},	  {"bytes", set_bytes, false},
	{"licence", set_licence, false}, {"about", set_about, true},	  {"terms", set_terms, true},
	{"parts", set_parts, true},	 {"file", set_file, true},	  {"folder", set_folder, true},
	{"beside", set_beside, true},
};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

struct reading {
	struct catalogue *catalogue;
	bool seen[N_KEYS]; /* in the last section */
};

/* The section read last must be complete before the next one begins or the file ends. */
static int section_complete(const struct reading *reading, struct err *err)
{
	if (reading->catalogue->n_models == 0)
		return 0;
	struct catalogue_model *model = &reading->catalogue->models[reading->catalogue->n_models - 1];
	for (unsigned i = 0; i < N_KEYS; i++)
		if (!reading->seen[i] && !keys[i].optional)
			return err_set(err, -EINVAL, "the key '%s' is missing in section [%s]", keys[i].name,
				       model->name);
	if (model->own_file[0])
		model->file = model->own_file;
	if (model->n_beside && !model->folder[0])
		return err_set(err, -EINVAL, "section [%s] has files beside the first: it needs the key 'folder'",
			       model->name);
	for (uint32_t i = 0; i < model->n_beside; i++)
		if (!strcmp(model->file, catalogue_beside_file(&model->beside[i])))
			return err_set(err, -EINVAL, "section [%s] has two files that are called %s", model->name,
				       model->file);
	if (model->n_parts < 2 && (strchr(model->package, '{') || strchr(model->member, '{')))
		return err_set(err, -EINVAL, "section [%s] has braces for parts, but no key 'parts'", model->name);
	if (model->n_parts > 1 && (!strchr(model->package, '{') || !model->own_file[0]))
		return err_set(err, -EINVAL,
			       "section [%s] has parts: it needs the key 'file' and braces in 'package', such as {1}",
			       model->name);
	return 0;
}

static int catalogue_entry(void *user, const struct inifile_entry *entry, struct err *err)
{
	struct reading *reading = user;
	struct catalogue *catalogue = reading->catalogue;
	if (!entry->key) {
		int rc = section_complete(reading, err);
		if (rc < 0)
			return rc;
		memset(reading->seen, 0, sizeof reading->seen);
		catalogue->models[catalogue->n_models].n_parts = 1;
		return set_word(catalogue->models[catalogue->n_models++].name, sizeof catalogue->models[0].name,
				entry->section, "._-", err);
	}
	if (catalogue->n_models == 0)
		return err_set(err, -EINVAL, "%s: must stand in a section named for the model", entry->key);
	for (unsigned i = 0; i < N_KEYS; i++) {
		if (strcmp(keys[i].name, entry->key))
			continue;
		struct err why;
		reading->seen[i] = true;
		int rc = keys[i].set(&catalogue->models[catalogue->n_models - 1], entry->value, &why);
		return rc < 0 ? err_set(err, rc, "%s: %s", entry->key, why.text) : 0;
	}
	return err_set(err, -EINVAL, "unknown key '%s'", entry->key);
}

int catalogue_load(const char *path, struct catalogue **out, struct err *err)
{
	static_assert((int)CATALOGUE_MODELS_MAX >= (int)INIFILE_SECTIONS_MAX, "a section is a model");
	FILE *file = fopen(path, "re");
	if (!file)
		return err_set(err, -errno, "%.160s: %s", path, strerror(errno));
	struct reading reading = {.catalogue = calloc(1, sizeof *reading.catalogue)};
	int rc = reading.catalogue ? inifile_read(file, path, catalogue_entry, &reading, err) : -ENOMEM;
	fclose(file);
	if (rc == 0) {
		struct err why;
		rc = section_complete(&reading, &why);
		if (rc < 0)
			err_set(err, rc, "%.120s: %s", path, why.text);
	}
	if (rc < 0) {
		catalogue_free(reading.catalogue);
		return rc;
	}
	*out = reading.catalogue;
	return 0;
}

const char *catalogue_place(const struct catalogue_model *model)
{
	return model->folder[0] ? model->folder : model->file;
}

const char *catalogue_beside_file(const struct catalogue_beside *beside)
{
	const char *slash = strrchr(beside->member, '/');
	return slash ? slash + 1 : beside->member;
}

int catalogue_part(const char *pattern, uint32_t part, char *out, size_t size)
{
	size_t n = 0;
	for (const char *p = pattern; *p;) {
		int written, digits = 0;
		unsigned first;
		if (*p == '{') { /* braces_count has looked */
			sscanf(p + 1, "%u%n", &first, &digits);
			written = snprintf(out + n, size - n, "%0*u", digits, first + part);
			p += digits + 2;
		} else {
			written = snprintf(out + n, size - n, "%c", *p++);
		}
		n += (size_t)written;
		if (n >= size)
			return -ENAMETOOLONG;
	}
	out[n] = '\0';
	return 0;
}

void catalogue_free(struct catalogue *catalogue)
{
	free(catalogue);
}

const struct catalogue_model *catalogue_find(const struct catalogue *catalogue, const char *name, struct err *err)
{
	char known[160] = "";
	for (unsigned i = 0; i < catalogue->n_models; i++) {
		const char *candidate = catalogue->models[i].name;
		if (!strcmp(candidate, name))
			return &catalogue->models[i];
		size_t used = strlen(known);
		if (used + strlen(candidate) + 3 < sizeof known)
			snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", candidate);
	}
	err_set(err, -ENOENT, "'%.48s' is not in the catalogue; known: %s", name, known[0] ? known : "none");
	return NULL;
}
