/* The walk over a CTranslate2 file on any bytes: it goes forward or ends, and what it accepts lies in the file, in
 * order and without overlaps. */
#include <stdlib.h>
#include <string.h>

#include "src/format/ctranslate2.h"
#include "tests/fuzz/fuzz.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check(const struct ctranslate2 *file, uint64_t file_bytes)
{
	uint64_t next = 0;
	require(file->offset == file_bytes && file->n_variables == file->n_expected);
	for (uint32_t i = 0; i < file->n_variables; i++) {
		const struct ctranslate2_variable *v = &file->variables[i];
		uint64_t n = ctranslate2_type_bytes(v->type);
		for (uint32_t k = 0; k < CTRANSLATE2_MAX_DIMS; k++)
			n *= v->dim[k];
		require(v->bytes == n && v->offset > next && v->bytes <= file_bytes - v->offset);
		require(memchr(v->name, '\0', sizeof v->name) && ctranslate2_find(file, v->name) == v);
		next = v->offset + v->bytes;
	}
	for (uint32_t i = 0; i < file->n_aliases; i++)
		require(ctranslate2_find(file, file->aliases[i].name) == &file->variables[file->aliases[i].variable]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	struct ctranslate2 file = {.n_variables = 0};
	struct err err = {""};
	int rc = 0;
	while (rc == 0 && file.part != CTRANSLATE2_END) {
		uint64_t before = file.offset;
		size_t n = n_bytes - before < CTRANSLATE2_LOOK_BYTES ? n_bytes - before : CTRANSLATE2_LOOK_BYTES;
		rc = ctranslate2_step(&file, n_bytes, bytes + before, n, &err);
		require(rc == 0 ? file.offset > before && file.offset <= n_bytes : *err.text != '\0');
	}
	if (rc == 0)
		check(&file, n_bytes);
	ctranslate2_fini(&file);
	return 0;
}
