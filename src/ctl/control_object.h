/* The daemon's answer to a control command as a JSON object, for commands that look into it. */
#ifndef WEIGHTD_CONTROL_OBJECT_H
#define WEIGHTD_CONTROL_OBJECT_H

#include "src/ctl/weightctl.h"

struct yyjson_doc;

/* EXIT_OK: *out returns owned, and its root is an object that does not tell of an error. Else nothing was printed, and
 * `err` has the reason: EXIT_UNREACHABLE, EXIT_INTERRUPTED, EXIT_REFUSED (the daemon's own words), EXIT_FAILED. */
enum weightctl_exit control_object(const struct weightctl *ctl, const char *command, struct yyjson_doc **out,
				   struct err *err);

/* The same; the answer may take `timeout_ms` to begin. */
enum weightctl_exit control_object_within(const struct weightctl *ctl, const char *command, int timeout_ms,
					  struct yyjson_doc **out, struct err *err);

/* Says why there is no answer: passes `code` on after printing what control_object said, with `what` before a refusal's
 * words. */
int control_object_fail(const struct weightctl *ctl, enum weightctl_exit code, const char *what, const struct err *err);

/* A command that is answered with a text, which is printed. Returns the exit status. The answer may take `timeout_ms`
 * to begin. */
int control_text(const struct weightctl *ctl, const char *what, const char *command, int timeout_ms);

#endif
