/* CTranslate2's model.bin: variables by name, each with its data behind its own header. Source: the serialization that
 * CTranslate2's converters document in code (model specifications, binary version 6).
 *
 *   u32 version | string name of the specification | u32 its revision | u32 n variables
 *   n x: string name | u8 n_dims | u32 dim[n_dims] | u8 type | u32 bytes | data
 *   u32 m aliases | m x: string alias, string name of a variable
 *
 * Integers are little-endian; a string is a u16 length, which counts the zero at its end, and its bytes. Headers lie
 * all over a file that may have gigabytes, so this is a walk: the caller gives it the bytes where it stands, it says
 * where it wants to stand next. It believes nothing: a variable's length is that of its type and shape, all lie in the
 * file, no name comes twice, and the file ends where its last alias does. Messages name offset and variable. */
#ifndef WEIGHTD_FORMAT_CTRANSLATE2_H
#define WEIGHTD_FORMAT_CTRANSLATE2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

enum ctranslate2_type { /* as files number them */
			CTRANSLATE2_F32 = 0,
			CTRANSLATE2_I8 = 1,
			CTRANSLATE2_I16 = 2,
			CTRANSLATE2_I32 = 3,
			CTRANSLATE2_F16 = 4,
			CTRANSLATE2_BF16 = 5,
			CTRANSLATE2_N_TYPES,
};

enum {
	CTRANSLATE2_VERSION = 6,
	CTRANSLATE2_NAME_BYTES = 128, /* of a variable or specification, terminator included */
	CTRANSLATE2_MAX_DIMS = 4,
	CTRANSLATE2_MAX_VARIABLES = 1 << 13,
	CTRANSLATE2_LOOK_BYTES = 512, /* no header is longer */
	CTRANSLATE2_VALUE_BYTES = 8,
};

struct ctranslate2_variable {
	char name[CTRANSLATE2_NAME_BYTES];
	enum ctranslate2_type type;
	uint32_t n_dims;		    /* 0: a single value */
	uint32_t dim[CTRANSLATE2_MAX_DIMS]; /* the last is the fastest; those that aren't there are 1 */
	uint64_t offset;		    /* of its data in the file */
	uint64_t bytes;
	int64_t value; /* of a single whole number; else 0 */
	void *data;    /* [bytes] owned; NULL: the caller has not put it there */
};

struct ctranslate2_alias {
	char name[CTRANSLATE2_NAME_BYTES];
	uint32_t variable; /* index */
};

struct ctranslate2 {
	char specification[CTRANSLATE2_NAME_BYTES];
	uint32_t revision;
	struct ctranslate2_variable *variables; /* [n_variables] owned, in the file's order */
	uint32_t n_variables;
	struct ctranslate2_alias *aliases; /* [n_aliases] owned */
	uint32_t n_aliases;
	/* The walk: where it stands, and what it expects. */
	uint64_t offset;
	uint32_t n_expected, n_expected_aliases;
	enum ctranslate2_part {
		CTRANSLATE2_HEAD,
		CTRANSLATE2_VARIABLE,
		CTRANSLATE2_ALIAS_COUNT,
		CTRANSLATE2_ALIAS,
		CTRANSLATE2_END
	} part;
};

/* One step of a file of file_bytes, from a zeroed struct to part CTRANSLATE2_END: `bytes` [n_bytes] are those from
 * file->offset on, CTRANSLATE2_LOOK_BYTES or up to the end. 0; -EINVAL: malformed; -ENOTSUP: a version, type or number
 * of dimensions that this program does not read; -ENOMEM. On failure, too, the struct is the caller's to fini. */
int ctranslate2_step(struct ctranslate2 *file, uint64_t file_bytes, const void *bytes, size_t n_bytes, struct err *err);
void ctranslate2_fini(struct ctranslate2 *file);

/* A variable by its own name or an alias; NULL when there is none. */
const struct ctranslate2_variable *ctranslate2_find(const struct ctranslate2 *file, const char *name);

const char *ctranslate2_type_name(enum ctranslate2_type type); /* "float16" */
uint32_t ctranslate2_type_bytes(enum ctranslate2_type type);

#endif
