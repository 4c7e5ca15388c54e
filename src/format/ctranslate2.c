#include "src/format/ctranslate2.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/format/look.h"

static const struct {
	const char *name;
	uint32_t bytes;
} types[CTRANSLATE2_N_TYPES] = {
	[CTRANSLATE2_F32] = {"float32", 4}, [CTRANSLATE2_I8] = {"int8", 1},	[CTRANSLATE2_I16] = {"int16", 2},
	[CTRANSLATE2_I32] = {"int32", 4},   [CTRANSLATE2_F16] = {"float16", 2}, [CTRANSLATE2_BF16] = {"bfloat16", 2},
};

const char *ctranslate2_type_name(enum ctranslate2_type type)
{
	return types[type].name;
}

uint32_t ctranslate2_type_bytes(enum ctranslate2_type type)
{
	return types[type].bytes;
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* Printable and without a zero but the one at its end. */
static int take_string(struct look *look, const char *field, char out[CTRANSLATE2_NAME_BYTES])
{
	uint32_t n = 0;
	uint64_t begin = look->offset + look->at;
	int rc = look_take(look, 2, field, &n);
	if (rc)
		return rc;
	if (n < 2 || n > CTRANSLATE2_NAME_BYTES)
		return err_set(look->err, -EINVAL, "offset %" PRIu64 ": %s: a string of %u bytes, possible are 2 to %d",
			       begin, field, n, CTRANSLATE2_NAME_BYTES);
	if (look->n - look->at < n)
		return look_cut(look, field);
	const unsigned char *string = look->bytes + look->at;
	for (uint32_t i = 0; i < n; i++)
		if (i + 1 < n ? string[i] < ' ' || string[i] > '~' : string[i] != 0)
			return err_set(look->err, -EINVAL,
				       "offset %" PRIu64 ": %s: byte %u of %u is no part of a printable string", begin,
				       field, i, n);
	memcpy(out, string, n);
	look->at += n;
	return 0;
}

/* --- the parts -------------------------------------------------------------------------------- */

static int step_head(struct ctranslate2 *file, uint64_t file_bytes, struct look *look)
{
	uint32_t version = 0;
	int rc = look_take(look, 4, "binary version", &version);
	if (rc)
		return rc;
	if (version != CTRANSLATE2_VERSION)
		return err_set(look->err, -ENOTSUP,
			       "offset 0: binary version %u is not supported, %d is (is this a CTranslate2 model?)",
			       version, CTRANSLATE2_VERSION);
	rc = take_string(look, "specification", file->specification);
	if (rc == 0)
		rc = look_take(look, 4, "revision", &file->revision);
	if (rc == 0)
		rc = look_take(look, 4, "number of variables", &file->n_expected);
	if (rc)
		return rc;
	/* A variable takes ten bytes at least, so a short file claims no large table. */
	if (file->n_expected > CTRANSLATE2_MAX_VARIABLES || file->n_expected > file_bytes / 10)
		return err_set(look->err, -EINVAL, "offset %" PRIu64 ": %u variables in a file of %" PRIu64 " bytes",
			       look->at - 4, file->n_expected, file_bytes);
	file->variables = calloc(file->n_expected + 1u, sizeof *file->variables);
	if (!file->variables)
		return err_set(look->err, -ENOMEM, "no memory for %u variables", file->n_expected);
	file->part = file->n_expected ? CTRANSLATE2_VARIABLE : CTRANSLATE2_ALIAS_COUNT;
	return 0;
}

static int read_shape(struct look *look, struct ctranslate2_variable *v, uint64_t *n_values)
{
	int rc = look_take(look, 1, "number of dimensions", &v->n_dims);
	if (rc)
		return rc;
	if (v->n_dims > CTRANSLATE2_MAX_DIMS)
		return err_set(look->err, -ENOTSUP,
			       "offset %" PRIu64 ": variable '%s': %u dimensions, at most %d are supported",
			       look->offset, v->name, v->n_dims, CTRANSLATE2_MAX_DIMS);
	*n_values = 1;
	for (uint32_t i = 0; i < CTRANSLATE2_MAX_DIMS; i++) {
		v->dim[i] = 1;
		if (i < v->n_dims)
			rc = look_take(look, 4, "shape", &v->dim[i]);
		if (rc)
			return rc;
		if (__builtin_mul_overflow(*n_values, (uint64_t)v->dim[i], n_values))
			return err_set(look->err, -EINVAL, "offset %" PRIu64 ": variable '%s': its shape overflows",
				       look->offset, v->name);
	}
	return 0;
}

static int read_length(struct look *look, struct ctranslate2_variable *v, uint64_t n_values, uint64_t file_bytes)
{
	uint32_t type = 0, n_bytes = 0;
	uint64_t expected;
	int rc = look_take(look, 1, "type", &type);
	if (rc)
		return rc;
	if (type >= CTRANSLATE2_N_TYPES)
		return err_set(look->err, -ENOTSUP, "offset %" PRIu64 ": variable '%s': type %u is not supported",
			       look->offset, v->name, type);
	rc = look_take(look, 4, "length", &n_bytes);
	if (rc)
		return rc;
	v->type = (enum ctranslate2_type)type;
	v->bytes = n_bytes;
	v->offset = look->offset + look->at;
	if (__builtin_mul_overflow(n_values, (uint64_t)types[type].bytes, &expected) || n_bytes != expected)
		return err_set(look->err, -EINVAL,
			       "offset %" PRIu64 ": variable '%s': %u bytes are not those of its type and shape",
			       look->offset, v->name, n_bytes);
	if (n_bytes > file_bytes - v->offset)
		return err_set(look->err, -EINVAL,
			       "offset %" PRIu64 ": variable '%s': its %u bytes end behind the file's %" PRIu64,
			       look->offset, v->name, n_bytes, file_bytes);
	return 0;
}

static int64_t single_value(const struct look *look, const struct ctranslate2_variable *v)
{
	const unsigned char *at = look->bytes + look->at;
	if (v->n_dims || look->n - look->at < v->bytes)
		return 0;
	switch (v->type) {
	case CTRANSLATE2_I8:
		return (int8_t)at[0];
	case CTRANSLATE2_I16:
		return (int16_t)(at[0] | at[1] << 8);
	case CTRANSLATE2_I32:
		return (int32_t)((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
				 (uint32_t)at[3] << 24);
	default:
		return 0;
	}
}

static int step_variable(struct ctranslate2 *file, uint64_t file_bytes, struct look *look)
{
	struct ctranslate2_variable v = {.data = NULL};
	uint64_t n_values = 0;
	int rc = take_string(look, "name of a variable", v.name);
	if (rc == 0)
		rc = read_shape(look, &v, &n_values);
	if (rc == 0)
		rc = read_length(look, &v, n_values, file_bytes);
	if (rc)
		return rc;
	if (ctranslate2_find(file, v.name))
		return err_set(look->err, -EINVAL, "offset %" PRIu64 ": variable '%s' is there twice", look->offset,
			       v.name);
	v.value = single_value(look, &v);
	file->variables[file->n_variables++] = v;
	look->at += v.bytes;
	if (file->n_variables == file->n_expected)
		file->part = CTRANSLATE2_ALIAS_COUNT;
	return 0;
}

static int finish(struct ctranslate2 *file, uint64_t file_bytes, const struct look *look)
{
	if (file->n_aliases < file->n_expected_aliases)
		return 0;
	file->part = CTRANSLATE2_END;
	return look->offset + look->at == file_bytes
		       ? 0
		       : err_set(look->err, -EINVAL, "offset %" PRIu64 ": %" PRIu64 " bytes are left behind the model",
				 look->offset + look->at, file_bytes - look->offset - look->at);
}

static int step_alias_count(struct ctranslate2 *file, uint64_t file_bytes, struct look *look)
{
	int rc = look_take(look, 4, "number of aliases", &file->n_expected_aliases);
	if (rc)
		return rc;
	if (file->n_expected_aliases > CTRANSLATE2_MAX_VARIABLES || file->n_expected_aliases > file_bytes / 8)
		return err_set(look->err, -EINVAL, "offset %" PRIu64 ": %u aliases in a file of %" PRIu64 " bytes",
			       look->offset, file->n_expected_aliases, file_bytes);
	file->aliases = calloc(file->n_expected_aliases + 1u, sizeof *file->aliases);
	if (!file->aliases)
		return err_set(look->err, -ENOMEM, "no memory for %u aliases", file->n_expected_aliases);
	file->part = CTRANSLATE2_ALIAS;
	return finish(file, file_bytes, look);
}

static int step_alias(struct ctranslate2 *file, uint64_t file_bytes, struct look *look)
{
	struct ctranslate2_alias alias;
	char of[CTRANSLATE2_NAME_BYTES];
	int rc = take_string(look, "name of an alias", alias.name);
	if (rc == 0)
		rc = take_string(look, "variable of an alias", of);
	if (rc)
		return rc;
	const struct ctranslate2_variable *variable = ctranslate2_find(file, of);
	if (!variable || ctranslate2_find(file, alias.name))
		return err_set(look->err, -EINVAL, "offset %" PRIu64 ": alias '%s' of '%s': %s", look->offset,
			       alias.name, of, variable ? "the name is there twice" : "there is no such variable");
	alias.variable = (uint32_t)(variable - file->variables);
	file->aliases[file->n_aliases++] = alias;
	return finish(file, file_bytes, look);
}

int ctranslate2_step(struct ctranslate2 *file, uint64_t file_bytes, const void *bytes, size_t n_bytes, struct err *err)
{
	struct look look = {.bytes = bytes, .n = n_bytes, .offset = file->offset, .err = err};
	int rc = -EINVAL;
	switch (file->part) {
	case CTRANSLATE2_HEAD:
		rc = step_head(file, file_bytes, &look);
		break;
	case CTRANSLATE2_VARIABLE:
		rc = step_variable(file, file_bytes, &look);
		break;
	case CTRANSLATE2_ALIAS_COUNT:
		rc = step_alias_count(file, file_bytes, &look);
		break;
	case CTRANSLATE2_ALIAS:
		rc = step_alias(file, file_bytes, &look);
		break;
	case CTRANSLATE2_END:
		return 0;
	}
	if (rc == 0)
		file->offset += look.at;
	return rc;
}

void ctranslate2_fini(struct ctranslate2 *file)
{
	for (uint32_t i = 0; i < file->n_variables; i++)
		free(file->variables[i].data);
	free(file->variables);
	free(file->aliases);
	*file = (struct ctranslate2){.n_variables = 0};
}

const struct ctranslate2_variable *ctranslate2_find(const struct ctranslate2 *file, const char *name)
{
	for (uint32_t i = 0; i < file->n_variables; i++)
		if (strcmp(file->variables[i].name, name) == 0)
			return &file->variables[i];
	for (uint32_t i = 0; i < file->n_aliases; i++)
		if (strcmp(file->aliases[i].name, name) == 0)
			return &file->variables[file->aliases[i].variable];
	return NULL;
}
