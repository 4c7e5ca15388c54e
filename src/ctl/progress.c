#include "src/ctl/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "src/ctl/table.h"

void progress_init(struct progress *progress)
{
	*progress = (struct progress){.terminal = isatty(STDERR_FILENO)};
}

void progress_show(struct progress *progress, const char *label, uint64_t done_bytes, uint64_t total_bytes)
{
	static const char full[] = "########################################";
	unsigned permille = total_bytes ? (unsigned)((double)done_bytes / (double)total_bytes * 1000) : 0;
	if (!progress->terminal || (progress->shown && permille == progress->permille))
		return;
	char done[TABLE_UNIT_TEXT], total[TABLE_UNIT_TEXT];
	int n = (int)(sizeof full - 1), filled = (int)(permille / 25) > n ? n : (int)(permille / 25);
	fprintf(stderr, "\r%s [%.*s%*s] %s of %s\033[K", label, filled, full, n - filled, "",
		table_bytes(done_bytes, done), table_bytes(total_bytes, total));
	progress->shown = true;
	progress->permille = permille;
}

void progress_clear(struct progress *progress)
{
	if (progress->shown)
		fputs("\r\033[K", stderr);
	progress->shown = false;
}
