/* One line of progress on standard error: a bar on a terminal, nothing elsewhere. */
#ifndef WEIGHTD_PROGRESS_H
#define WEIGHTD_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool terminal, shown;
	unsigned permille; /* last drawn */
};

void progress_init(struct progress *progress);
void progress_show(struct progress *progress, const char *label, uint64_t done_bytes, uint64_t total_bytes);
/* Takes the line away. */
void progress_clear(struct progress *progress);

#endif
