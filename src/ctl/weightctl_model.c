/* weightctl reload: models change while they are served. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "src/ctl/control_object.h"

enum { LOAD_PATIENCE_MS = INT_MAX }; /* the daemon always answers; how long a load takes is the disk's to say */

int weightctl_reload(struct weightctl *ctl)
{
	char command[PATH_MAX];
	const char *name = ctl->arguments[0];
	int n = snprintf(command, sizeof command, "reload %s", name);
	if (n < 0 || (size_t)n >= sizeof command || strpbrk(name, " \n"))
		return weightctl_fail(ctl, EXIT_USAGE, "reload: that is no model's name");
	return control_text(ctl, "reload", command, LOAD_PATIENCE_MS);
}
