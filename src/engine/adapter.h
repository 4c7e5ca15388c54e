/* An adapter as the engine sees it: pointers into a shared, read-only adapter image, made once at attach, and how many
 * hold it. A call holds its adapter from its beginning to its end, so an adapter may be let go of while calls run with
 * it: the image is released when the last of them has ended.
 *
 * References are counted by one thread, the scheduler's; compute threads only read. */
#ifndef WEIGHTD_ENGINE_ADAPTER_H
#define WEIGHTD_ENGINE_ADAPTER_H

#include "src/engine/adapter_image.h"
#include "src/engine/model.h"
#include "src/kernel/kernel.h"

struct adapter_layer {
	struct low_rank products[ADAPTER_N_PRODUCTS]; /* rank 0: there is none for this product */
};

struct adapter {
	struct adapter_digest digest;
	struct adapter_layer *layers; /* [n_layers] owned; the matrices are views of the image */
	uint32_t n_references;
	void (*release)(void *arg);
	void *release_arg;
};

/* Checks the image against the model (adapter_image_check) and points into it. *out returns owned, as one reference;
 * the image must stay until `release` (may be NULL) is called, after the last reference is gone. -EINVAL, -ENOMEM; then
 * `release` is not called. */
int adapter_attach(const struct model *base, const void *image, uint64_t bytes, void (*release)(void *arg),
		   void *release_arg, struct adapter **out, struct err *err);

/* Of contents; of an adapter's absence it is zero. */
struct adapter_digest adapter_digest_of(const struct adapter *adapter);

/* One more reference; NULL gives NULL. */
struct adapter *adapter_get(struct adapter *adapter);
/* One less; takes NULL. */
void adapter_put(struct adapter *adapter);

#endif
