/* Sets of code points, as a class of a grammar or of a regular expression writes them. */
#ifndef WEIGHTD_ENGINE_GRAMMAR_CHARSET_H
#define WEIGHTD_ENGINE_GRAMMAR_CHARSET_H

#include <stdbool.h>
#include <stdint.h>

enum { CHARSET_RANGES_MAX = 256, CODE_POINT_MAX = 0x10FFFF };

struct charset_range {
	uint32_t first, last; /* both in the set */
};

/* Ascending, with a gap between any two: every function leaves it so. */
struct charset {
	uint32_t n;
	struct charset_range ranges[CHARSET_RANGES_MAX];
};

/* 0; -EINVAL: first > last or past U+10FFFF; -E2BIG: too many ranges. */
int charset_add(struct charset *set, uint32_t first, uint32_t last);
int charset_add_set(struct charset *set, const struct charset *other);
int charset_complement(struct charset *set); /* -E2BIG */
/* Takes a range out: 0 or -E2BIG. */
int charset_remove(struct charset *set, uint32_t first, uint32_t last);
bool charset_has(const struct charset *set, uint32_t code_point);

#endif
