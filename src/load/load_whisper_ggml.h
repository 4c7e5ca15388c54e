/* whisper.cpp's file during a load. */
#ifndef WEIGHTD_LOAD_WHISPER_GGML_H
#define WEIGHTD_LOAD_WHISPER_GGML_H

#include <stdbool.h>

#include "src/load/load_files.h"
#include "src/load/model_plan.h"
#include "src/load/model_quantize.h"

/* Whether the first file begins as such files do. -EIO. */
int load_whisper_ggml_is(struct load_files *files, bool *out, struct err *err);

/* Reads all headers and the words, and plans. -EINVAL and -ENOTSUP name what in the file; -EIO, -ENOMEM. */
int load_whisper_ggml(struct load_files *files, enum model_quantize quantize, struct model_plan *plan, struct err *err);

#endif
