/* Tensors from the files into the image: read in file order, sixteen rows at a time, packed where they will stay. */
#ifndef WEIGHTD_LOAD_PACK_H
#define WEIGHTD_LOAD_PACK_H

#include "src/load/load.h"
#include "src/load/load_files.h"
#include "src/load/model_plan.h"

/* Fills all tensors of an image at `image`: plan->tensors[i] (placed by image_plan) from plan->sources[i]. */
int load_pack(struct load_files *files, const struct model_plan *plan, void *image,
	      const struct load_progress *progress, struct err *err);

#endif
