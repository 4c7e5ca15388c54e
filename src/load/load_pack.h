/* Tensors from the files into the image: read in file order, packed where they will stay, sixteen rows at a time. */
#ifndef WEIGHTD_LOAD_PACK_H
#define WEIGHTD_LOAD_PACK_H

#include "src/load/load.h"
#include "src/load/load_files.h"
#include "src/load/model_plan.h"

/* Fills all tensors of an image at `image`: plan->tensors[i] (placed by image_plan) from plan->sources[i]. The work is
 * done by this thread and by some that it starts for it, on the CPUs that it is bound to; *pace says how many there
 * were and how long they waited for the files. */
int load_pack(struct load_files *files, const struct model_plan *plan, void *image,
	      const struct load_progress *progress, struct load_pace *pace, struct err *err);

#endif
