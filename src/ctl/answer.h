/* An answer of the API as weightctl shows it: written to standard output while it comes. */
#ifndef WEIGHTD_ANSWER_H
#define WEIGHTD_ANSWER_H

#include <stddef.h>

#include "src/ctl/weightctl.h"

struct answer {
	char *text; /* owned, terminated; what came, also when it ended early */
	size_t n_bytes;
};
void answer_fini(struct answer *answer);

/* Posts `body` (with "stream": true) and prints what is generated. EXIT_OK; EXIT_INTERRUPTED: a signal ended it, which
 * is left to interrupt_take; else the reason has been printed. */
int answer_stream(const struct weightctl *ctl, const char *target, const char *body, struct answer *out);

/* Posts `body` and prints the JSON that comes back, whatever it is. */
int answer_json(const struct weightctl *ctl, const char *target, const char *body);

/* Writes text that a model made. On a terminal, control characters are left out: a text must not steer the terminal. */
void answer_print(const char *text, size_t n_bytes);

#endif
