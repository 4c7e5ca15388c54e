/* Sets of CPU or node numbers, and the list syntax that numactl and the kernel use: "0-3,8". */
#ifndef WEIGHTD_NUMA_IDSET_H
#define WEIGHTD_NUMA_IDSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

enum { IDSET_MAX = 4096, IDSET_WORDS = IDSET_MAX / 64, IDSET_TEXT = 512 };

struct idset {
	uint64_t word[IDSET_WORDS]; /* bit i % 64 of word i / 64 */
};

void idset_clear(struct idset *set);
void idset_add(struct idset *set, unsigned id);
void idset_remove(struct idset *set, unsigned id);
bool idset_has(const struct idset *set, unsigned id);
unsigned idset_count(const struct idset *set);
int idset_first(const struct idset *set);	    /* -1 when empty */
int idset_next(const struct idset *set, int after); /* the next id above `after`, -1 at the end */
void idset_and(struct idset *set, const struct idset *other);
void idset_or(struct idset *set, const struct idset *other);
void idset_without(struct idset *set, const struct idset *other); /* those that are not in `other` */
bool idset_equal(const struct idset *a, const struct idset *b);

/* "0-3,8" into a set; "" is empty. -EINVAL (with the column), -ERANGE past IDSET_MAX. */
int idset_parse(const char *text, struct idset *out, struct err *err);
/* Members of `allowed`, named as numactl names them: "0-3,8"; "+0-1", the first and the second of `allowed`; "!LIST" or
 * "!+LIST", all of `allowed` but these; "all". -EINVAL (with the column); -ERANGE when one that is named is not in
 * `allowed`, or none is left. */
int idset_resolve(const char *text, const struct idset *allowed, struct idset *out, struct err *err);
/* The shortest list, "0-3,8"; cut with "..." when `size` is too small. Returns `text`. */
const char *idset_format(const struct idset *set, char *text, size_t size);

#endif
