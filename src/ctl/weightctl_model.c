/* weightctl load, reload and unload: models change while the daemon serves. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/ctl/control_object.h"

enum { LOAD_PATIENCE_MS = INT_MAX }; /* the daemon always answers; how long a load takes is the disk's to say */

static int ask(const struct weightctl *ctl, const char *verb, const char *path)
{
	char command[3 * PATH_MAX];
	const char *name = ctl->arguments[0];
	if (strpbrk(name, " \n") || strchr(path, '\n'))
		return weightctl_fail(ctl, EXIT_USAGE, "%s: names have no blanks, and no text a line end", verb);
	/* The path comes last: it may have blanks. */
	int n = snprintf(command, sizeof command, "%s %s%s%s", verb, name, *path ? " " : "", path);
	if (n < 0 || (size_t)n >= sizeof command)
		return weightctl_fail(ctl, EXIT_USAGE, "%s: the name or the path is too long", verb);
	return control_text(ctl, verb, command, LOAD_PATIENCE_MS);
}

int weightctl_load(struct weightctl *ctl)
{
	char here[PATH_MAX] = "", path[2 * PATH_MAX];
	const char *given = ctl->arguments[1];
	if (given[0] != '/' && !getcwd(here, sizeof here))
		return weightctl_fail(ctl, EXIT_FAILED, "the working directory: %s", strerror(errno));
	int n = snprintf(path, sizeof path, "%s%s%s", here, here[0] ? "/" : "", given);
	if (n < 0 || (size_t)n >= sizeof path)
		return weightctl_fail(ctl, EXIT_USAGE, "load: the path is too long");
	return ask(ctl, "load", path);
}

int weightctl_reload(struct weightctl *ctl)
{
	return ask(ctl, "reload", "");
}

int weightctl_unload(struct weightctl *ctl)
{
	return ask(ctl, "unload", "");
}
