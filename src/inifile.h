/* Strict reading of INI files: inih does the splitting, this refuses what inih would let pass or cut silently. */
#ifndef WEIGHTD_INIFILE_H
#define WEIGHTD_INIFILE_H

#include <stdio.h>

#include "src/err.h"

/* Sections, keys per section, bytes of a line, and bytes of a section's or key's name (inih's own limit). */
enum { INIFILE_SECTIONS_MAX = 64, INIFILE_KEYS_MAX = 64, INIFILE_LINE_MAX = 2000, INIFILE_NAME_MAX = 48 };

struct inifile_entry {
	const char *section; /* "" before the first section */
	const char *key;     /* NULL: the section's own line */
	const char *value;   /* NULL with key */
	unsigned line;
};
/* 0, or -errno with the reason in `err` (without file and line: inifile_read puts them in front). */
typedef int inifile_handler(void *user, const struct inifile_entry *entry, struct err *err);

/* Hands every section and every key to `handler` in order and stops at the first error: -EINVAL, "name:line: reason".
 * `name` is for messages. Refused: lines past INIFILE_LINE_MAX, NUL and control characters, text that is neither
 * section, key nor comment, sections and keys that come twice, continued lines, "key: value". A comment is a line
 * beginning with '#' or ';', or what follows " ;". */
int inifile_read(FILE *file, const char *name, inifile_handler *handler, void *user, struct err *err);

#endif
