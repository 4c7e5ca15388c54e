/* Operations on text that filters and methods share. The result of an operation on markup is markup. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_CASING_H
#define WEIGHTD_ENGINE_TEMPLATE_CASING_H

#include "src/engine/template/text.h"
#include "src/engine/template/value.h"

enum casing {
	CASING_LOWER,
	CASING_UPPER,
	CASING_FOLD,
	CASING_SWAP,
	CASING_TITLE, /* str.title(): words are runs of cased characters */
	CASING_CAPITALIZE,
	CASING_FILTER_TITLE, /* the `title` filter: words end at white space and - ( { [ < */
};

int casing_apply(struct render *render, const struct text *text, enum casing casing, struct value *result);
/* Lower case of a text value, other values as they are: how filters ignore case. */
int casing_ignore(struct render *render, struct value value, struct value *result);

enum strip_side { STRIP_LEFT = 1, STRIP_RIGHT = 2, STRIP_BOTH = 3 };

/* Without white space (`chars` NULL) or without these characters on the given sides. */
int strip_apply(struct render *render, const struct text *text, const struct text *chars, enum strip_side side,
		struct value *result);
/* With the first `count` (negative: all) occurrences of `old` replaced; the result has `text`'s mark. */
int replace_apply(struct render *render, const struct text *text, const struct text *old, const struct text *new,
		  int64_t count, struct value *result);
/* Where the line that starts at `at` ends, and in *next where the next one starts; lines end as for str.splitlines().
 */
const char *line_end(const char *at, const char *end, const char **next);

#endif
