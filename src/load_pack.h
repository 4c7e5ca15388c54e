/* Tensors from the file into the image: read in file order, sixteen rows at a time, packed where they will stay. */
#ifndef WEIGHTD_LOAD_PACK_H
#define WEIGHTD_LOAD_PACK_H

#include "src/engine/image.h"
#include "src/load.h"
#include "src/load_file.h"

/* Fills all `n` tensors of an image at `image`: tensors[i] (placed by image_plan) from file->gguf.tensors[i]. */
int load_pack(struct load_file *file, const struct image_tensor *tensors, uint32_t n, void *image,
	      const struct load_progress *progress, struct err *err);

#endif
