/* refuse ERROR COMMAND...: runs a command for which the system calls that ask for or about NUMA nodes fail with errno
 * ERROR, a number, as a container runtime's seccomp profile would have it. */
#include "tests/unit/refuse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static const unsigned calls[] = {SYS_mbind,	 SYS_set_mempolicy, SYS_get_mempolicy,
					 SYS_move_pages, SYS_migrate_pages, SYS_set_mempolicy_home_node};
	unsigned error = argc > 2 ? (unsigned)atoi(argv[1]) : 0;
	if (!error) {
		fprintf(stderr, "usage: refuse ERROR COMMAND...\n");
		return 2;
	}
	for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
		int rc = refuse_call(calls[i], error);
		if (rc) {
			fprintf(stderr, "refuse: call %u: %s\n", calls[i], strerror(-rc));
			return 1;
		}
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 1;
}
