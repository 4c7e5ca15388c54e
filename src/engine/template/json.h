/* json.dumps() */
#ifndef WEIGHTD_ENGINE_TEMPLATE_JSON_H
#define WEIGHTD_ENGINE_TEMPLATE_JSON_H

#include "src/engine/template/builtin.h"

/* The `tojson` filter as transformers defines it: json.dumps with ensure_ascii (false unless asked), indent,
 * separators and sort_keys. */
int json_filter(struct render *render, struct invocation *call, struct value *result);

#endif
