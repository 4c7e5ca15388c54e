/* What went wrong, in words for a person: what, where (file, byte offset, field, tensor) and what to do about it.
 *
 * Library folders return 0 or -errno; where the number alone would not help, the caller passes a struct err. Any folder
 * may include this header: it is the one leaf below all of them. */
#ifndef WEIGHTD_ERR_H
#define WEIGHTD_ERR_H

#include <stdarg.h>
#include <stdio.h>

struct err {
	char text[256]; /* one line, no trailing newline; "" while nothing failed */
};

/* Writes the text (cut at 255 bytes) and returns `code`, so that a failing line reads `return err_set(err, -EINVAL,
 * …)`. `err` may be NULL. */
__attribute__((format(printf, 3, 4))) static inline int err_set(struct err *err, int code, const char *format, ...)
{
	if (err) {
		va_list args;
		va_start(args, format);
		vsnprintf(err->text, sizeof err->text, format, args);
		va_end(args);
	}
	return code;
}

#endif
