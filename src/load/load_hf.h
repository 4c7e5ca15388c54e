/* A Hugging Face folder during a load. */
#ifndef WEIGHTD_LOAD_HF_H
#define WEIGHTD_LOAD_HF_H

#include "src/load/load_files.h"
#include "src/load/model_plan.h"
#include "src/load/model_quantize.h"

/* Reads all files that have no weights and the headers of those whose weights are the model's, and plans. -EINVAL,
 * -ENOTSUP and -EIO name the file, and what in it; -ENOMEM. */
int load_hf(struct load_files *files, enum model_quantize quantize, struct model_plan *plan, struct err *err);

#endif
