/* A model's files during a load. What goes wrong with one of several is told with its name. */
#ifndef WEIGHTD_LOAD_FILES_H
#define WEIGHTD_LOAD_FILES_H

#include <stdbool.h>

#include "shm/layout.h"
#include "src/load/load_file.h"

/* A file that the loader was given. */
struct load_input {
	int fd;
	uint32_t role;	/* enum file_role */
	char name[256]; /* without its directory */
};

struct load_files {
	uint32_t n;
	struct load_file *files; /* [n] owned */
	const char **names;	 /* [n] owned: for messages; views of the inputs' names, or of their ends if long */
	uint32_t n_weights;	 /* the first of them */
	bool is_folder;		 /* a Hugging Face folder's: some are beside the weights */
	uint32_t current;	 /* data is taken from this one; that of those before was */
	struct segment_source source; /* as they were when they were opened */
};

/* Looks at the inputs [n], borrowed: first those that have weights, at least one. `path` is for the source. Reads
 * nothing. */
int load_files_open(const struct load_input *inputs, uint32_t n, const char *path, enum io_backend backend,
		    struct load_files *out, struct err *err);
void load_files_close(struct load_files *files);

/* load_file_take from one of the files, in their order: it is the last one's turn, or a later one's. */
int load_files_take(struct load_files *files, uint32_t file, uint64_t offset, size_t n_bytes, const void **out,
		    struct err *err);

/* Bytes up to where the last view ended, for progress: of source.size_bytes. */
uint64_t load_files_offset(const struct load_files *files);
uint64_t load_files_bytes_read(const struct load_files *files);

/* 0 if all files still are what they were, else -ESTALE. */
int load_files_unchanged(const struct load_files *files, struct err *err);

/* Nothing more is read: the kernel is to let go of the files. *cached_bytes: what stays in memory all the same, because
 * others map it or its file system lies there; UINT64_MAX: the kernel does not tell. */
void load_files_uncache(const struct load_files *files, uint64_t *cached_bytes);

/* Puts the file's name before what is wrong with it, unless the model's path is that file alone. Returns `code`. */
int load_files_blame(const struct load_files *files, uint32_t file, int code, const struct err *what, struct err *err);

#endif
