/* A CTranslate2 folder during a load. */
#ifndef WEIGHTD_LOAD_CTRANSLATE2_H
#define WEIGHTD_LOAD_CTRANSLATE2_H

#include "src/load/load_files.h"
#include "src/load/model_plan.h"
#include "src/load/model_quantize.h"

/* Whether the weights of a folder's files are CTranslate2's: by their name, model.bin. */
bool load_ctranslate2_is(const struct load_files *files);

/* Reads all headers, the scales of rows and what else is small and decides, and the files beside, and plans. -EINVAL,
 * -ENOTSUP and -EIO name the file, and what in it; -ENOMEM. */
int load_ctranslate2(struct load_files *files, enum model_quantize quantize, struct model_plan *plan, struct err *err);

#endif
