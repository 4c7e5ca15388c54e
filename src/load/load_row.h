/* Rows as files have them into rows that can be packed. */
#ifndef WEIGHTD_LOAD_ROW_H
#define WEIGHTD_LOAD_ROW_H

#include <stdbool.h>

#include "src/load/model_plan.h"

/* Whether rows have to be made anew: else the file's are those to be packed. */
bool load_row_is_made(const struct model_source *source, const struct image_tensor *tensor);

/* Bytes that making a row needs besides the row. */
size_t load_row_scratch_bytes(const struct image_tensor *tensor);

/* Row `row` of the tensor, in the form of its kind (pack_source_row_bytes), from its bytes in the file. `scratch` is
 * 4-byte aligned. 0; -ERANGE as quantize_row. */
int load_row_make(const struct model_source *source, const struct image_tensor *tensor, uint32_t row,
		  const void *stored, void *scratch, void *out);

#endif
