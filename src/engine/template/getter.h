/* The `attribute` argument of filters: "name", "a.b", 0, or "a,b" for sort. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_GETTER_H
#define WEIGHTD_ENGINE_TEMPLATE_GETTER_H

#include "src/engine/template/value.h"

/* The item's attribute (missing or none: the item itself); `otherwise`, unless missing or none, stands for undefined.
 */
int getter_get(struct render *render, struct value item, struct value attribute, struct value otherwise,
	       struct value *result);
/* A key to sort by: a list with one value for each attribute between commas, lower case unless case_sensitive. */
int getter_sort_key(struct render *render, struct value item, struct value attribute, bool case_sensitive,
		    struct value *result);

#endif
