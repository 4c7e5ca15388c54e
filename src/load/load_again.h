/* Copies of a model or an adapter made from one that is served: for nodes whose own have moved. No file is opened. */
#ifndef WEIGHTD_LOAD_AGAIN_H
#define WEIGHTD_LOAD_AGAIN_H

#include "src/load/load.h"

/* Makes a copy on each of the order's nodes from the published segment behind `from` (borrowed; read-only), whose
 * header they get with the order's generation. The order's files are not looked at. On failure nothing of them stays.
 * -EIO: what was read is not what was published. Else as model_load. */
int load_again(const struct message_load *order, int from, struct loaded *out, struct err *err);

#endif
