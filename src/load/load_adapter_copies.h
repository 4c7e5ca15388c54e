/* Loading an adapter into segments: what model_load is for a model. */
#ifndef WEIGHTD_LOAD_ADAPTER_COPIES_H
#define WEIGHTD_LOAD_ADAPTER_COPIES_H

#include "src/load/load.h"

/* `base`: a segment of the model that it is for; `files` [order->n_files]: one GGUF file, or of a folder
 * adapter_config.json and adapter_model.safetensors (all borrowed). Binds the calling thread to the first node's CPUs.
 * On failure nothing stays in shared memory. Codes as model_load's: -EINVAL and -ENOTSUP are the files' fault. */
int load_adapter_copies(const struct message_load *order, int base, const int *files, struct loaded *out,
			struct err *err);

#endif
