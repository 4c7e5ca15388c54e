/* Which files a model consists of, found from its settings: what the parent opens for a loader, and looks at to see
 * whether an earlier copy is still of them. */
#ifndef WEIGHTD_MODEL_FILES_H
#define WEIGHTD_MODEL_FILES_H

#include "shm/layout.h"
#include "src/config.h"

struct model_file {
	char path[CONFIG_PATH];
	uint32_t role;	  /* enum file_role */
	const char *name; /* view of path: without the directory */
};

struct model_files {
	const char *path;	  /* the model's; borrows its settings */
	struct model_file *files; /* [n] owned */
	uint32_t n;		  /* 1 to SEGMENT_FILES_MAX */
	uint32_t quantize;	  /* enum model_quantize: of the settings, too */
};

/* Its weights, what is beside them, then its chat template if the settings name one. `path` names a Hugging Face folder
 * or a GGUF file. Of a folder these are all .safetensors files, in order of their names, and then those beside them
 * that it has; which of them are the model's, the loader finds out. Where a GGUF file's name ends in
 * -00001-of-0000N.gguf it is the first part of N, which lie beside it and are named alike. Opens no file. -EINVAL: the
 * name is that of another part, or of none there can be, or the folder has no weights; -ENAMETOOLONG, -E2BIG, -ENOMEM,
 * and what reading a directory gives. */
int model_files_find(const struct config_model *model, struct model_files *out, struct err *err);
void model_files_free(struct model_files *files);

/* Opens a file for reading, close-on-exec; *fd returns owned. Never waits, whatever the file is. */
int model_file_open(const struct model_file *file, int *fd, struct err *err);

/* What stat(2) says of all of them now; opens nothing. */
int model_files_describe(const struct model_files *files, struct segment_source *out, struct err *err);

#endif
