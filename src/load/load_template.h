/* A chat template in a file of its own, during a load. */
#ifndef WEIGHTD_LOAD_TEMPLATE_H
#define WEIGHTD_LOAD_TEMPLATE_H

#include "src/load/load_files.h"
#include "src/load/model_plan.h"

enum { LOAD_TEMPLATE_MAX_BYTES = 1 << 20 }; /* the longest of known models has some ten thousand */

/* Reads the template in one of the files and checks it as a worker will: it takes the place of the model's own in the
 * plan, as a view of the file. -EINVAL and -ENOTSUP with file and line. */
int load_template(struct load_files *files, uint32_t file, struct model_plan *plan, struct err *err);

#endif
