/* Methods of strings that look for something in them: find and its kin, split and its kin. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_SEARCH_H
#define WEIGHTD_ENGINE_TEMPLATE_SEARCH_H

#include "src/engine/template/builtin.h"

builtin_fn search_split, search_rsplit, search_splitlines, search_partition, search_rpartition;
builtin_fn search_startswith, search_endswith, search_find, search_rfind, search_index, search_rindex, search_count;

#endif
