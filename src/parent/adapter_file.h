/* Opening what an adapter is made of: one GGUF file, or a folder as PEFT writes it, from which two files are taken. The
 * parent opens them and reads nothing; a loader without any right to paths gets the descriptors. */
#ifndef WEIGHTD_ADAPTER_FILE_H
#define WEIGHTD_ADAPTER_FILE_H

#include <stdint.h>
#include <sys/types.h>

#include "src/err.h"

enum { ADAPTER_FILES_MAX = 2 };

struct adapter_files {
	int fds[ADAPTER_FILES_MAX]; /* [n] read-only, owned */
	uint32_t n; /* 1: a GGUF file; 2: a folder's adapter_config.json and adapter_model.safetensors */
};

/* An operator's path: taken as it is. -ENOENT, -EACCES, ...; -EINVAL: neither a regular file nor a folder. */
int adapter_files_open(const char *path, struct adapter_files *out, struct err *err);

/* A client's path, beneath `directory`: relative to it, or absolute and beginning with it. The kernel follows links
 * only while they stay there (RESOLVE_BENEATH), and what is found has to belong to root, to this process' user or to
 * `owner`: else -EACCES. Nothing is waited for, whatever lies there. */
int adapter_files_open_beneath(const char *directory, const char *path, uid_t owner, struct adapter_files *out,
			       struct err *err);

void adapter_files_close(struct adapter_files *files);

#endif
