/* Loading an adapter: from its files to an adapter image (src/engine/adapter_image.h) in memory that the caller brings.
 * The loader role is this, a segment and messages; tests call it without either.
 *
 * Two formats. A GGUF file with general.type "adapter" and adapter.type "lora", as llama.cpp's converter writes them;
 * and a PEFT folder, of which adapter_config.json and adapter_model.safetensors are read. What would change the
 * arithmetic in a way that this program doesn't compute is refused by name, and so is every tensor that has no place in
 * the base. */
#ifndef WEIGHTD_LOAD_ADAPTER_H
#define WEIGHTD_LOAD_ADAPTER_H

#include "io/loop.h"
#include "src/engine/adapter_image.h"

/* Descriptors of regular files, borrowed; -1: not this format. Either the first, or both of the others. */
struct load_adapter_files {
	int gguf;
	int config;  /* adapter_config.json */
	int weights; /* adapter_model.safetensors */
};

struct load_adapter; /* the files, read as far as needed to say how large the image is */

/* Reads the headers and plans the image of the adapter over a base with these hyperparameters. *out returns owned; the
 * descriptors have to stay open. -EINVAL and -ENOTSUP name the file, the key or the tensor; -EIO, -ENOMEM. */
int load_adapter_open(const struct load_adapter_files *files, const struct image_config *base, enum io_backend backend,
		      struct load_adapter **out, struct err *err);
void load_adapter_close(struct load_adapter *adapter); /* takes NULL */

uint64_t load_adapter_bytes(const struct load_adapter *adapter);

/* Writes the image into `image`, load_adapter_bytes zeroed bytes on a boundary of 64. Once. Refuses values that are not
 * finite. -ESTALE: a file was changed meanwhile; -EINVAL, -EIO, -ENOMEM. */
int load_adapter_write(struct load_adapter *adapter, void *image, struct err *err);

#endif
