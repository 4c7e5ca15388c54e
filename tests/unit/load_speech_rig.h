/* Loading the files of speech_files.h in tests. */
#ifndef WEIGHTD_TESTS_LOAD_SPEECH_RIG_H
#define WEIGHTD_TESTS_LOAD_SPEECH_RIG_H

#include "src/engine/model.h"
#include "src/load/load.h"
#include "src/load/model_quantize.h"
#include "tests/unit/speech_files.h"

/* model_load of one copy. One that fails leaves nothing in shared memory. */
int speech_load(const struct speech_files *files, enum model_quantize quantize, struct loaded *out, struct err *err);

/* The image in a loaded copy, mapped. */
struct speech_opened {
	void *mapping;
	size_t bytes;
	const struct image_header *image;
	struct model model;
};

void speech_open(const struct loaded *loaded, struct speech_opened *out);
void speech_close(struct speech_opened *o);

/* Loading them ends with this code, and its message has these words. */
void speech_refused(const struct speech_files *files, int code, const char *what);

/* Where these bytes are in a file, which are there once at least; and a document in place of the right one. */
unsigned char *speech_find(struct speech_file *file, const char *text);
void speech_replace(struct speech_files *files, const char *name, const char *text);

#endif
