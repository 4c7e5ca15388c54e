/* One audio file on its way to the daemon and its transcript on the way back: a form whose file is sent from disk as it
 * is read. */
#ifndef WEIGHTD_UPLOAD_H
#define WEIGHTD_UPLOAD_H

#include <stdatomic.h>
#include <stddef.h>

#include "src/ctl/weightctl.h"

struct upload {
	const char *path;
	enum weightctl_exit code; /* how it ended */
	char *text;		  /* owned: the transcript [n_text] of EXIT_OK */
	size_t n_text;
	struct err err; /* why there is none */
	bool ended;
};

/* Sends the file and waits for its transcript. `format` is the daemon's word. Every byte sent is added to *sent. */
void upload_run(const struct weightctl *ctl, const char *format, struct upload *upload, atomic_ullong *sent);
void upload_fini(struct upload *upload);

#endif
