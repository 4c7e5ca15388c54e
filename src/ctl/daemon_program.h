/* The program weightd, run by weightctl for what weightctl does not know itself. */
#ifndef WEIGHTD_DAEMON_PROGRAM_H
#define WEIGHTD_DAEMON_PROGRAM_H

#include <limits.h>
#include <stddef.h>

#include "src/err.h"

/* The weightd that lies beside this weightctl, else the one that was installed with it. */
void daemon_program_find(char path[PATH_MAX]);

/* Runs it with `arguments` (NULL-terminated, after the program's name) and takes what it prints, at most `most` bytes;
 * *text returns owned, terminated. What it says on standard error comes through. -ECHILD: it did not end well; -EINTR:
 * interrupted, and it was ended. */
int daemon_program_ask(const char *const *arguments, int interrupt_fd, size_t most, char **text, struct err *err);

#endif
