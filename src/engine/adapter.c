#include "src/engine/adapter.h"

#include <errno.h>
#include <stdlib.h>

int adapter_attach(const struct model *base, const void *image, uint64_t bytes, void (*release)(void *arg),
		   void *release_arg, struct adapter **out, struct err *err)
{
	int rc = adapter_image_check(&base->config, image, bytes, err);
	if (rc)
		return rc;
	struct adapter *adapter = calloc(1, sizeof *adapter);
	if (adapter)
		adapter->layers = calloc(base->config.n_layers, sizeof *adapter->layers);
	if (!adapter || !adapter->layers) {
		free(adapter);
		return err_set(err, -ENOMEM, "no memory for an adapter of %u layers", base->config.n_layers);
	}
	const char *at = image;
	const struct adapter_header *header = image;
	const struct adapter_entry *entries = (const void *)(at + header->entries_offset);
	for (uint32_t i = 0; i < header->n_entries; i++) {
		const struct adapter_entry *e = &entries[i];
		/* Adding 0 would turn a -0 into 0, and an infinity into what is no number. */
		if (e->scale == 0)
			continue;
		adapter->layers[e->layer].products[adapter_product_of(e->role)] = (struct low_rank){
			.a = at + e->a_offset,
			.b = at + e->b_offset,
			.a_kind = e->a_kind,
			.b_kind = e->b_kind,
			.rank = e->rank,
			.rows = e->rows,
			.cols = e->cols,
			.scale = e->scale,
		};
	}
	adapter->digest = header->digest;
	adapter->n_references = 1;
	adapter->release = release;
	adapter->release_arg = release_arg;
	*out = adapter;
	return 0;
}

struct adapter_digest adapter_digest_of(const struct adapter *adapter)
{
	return adapter ? adapter->digest : (struct adapter_digest){{0}};
}

struct adapter *adapter_get(struct adapter *adapter)
{
	if (adapter)
		adapter->n_references++;
	return adapter;
}

void adapter_put(struct adapter *adapter)
{
	if (!adapter || --adapter->n_references)
		return;
	if (adapter->release)
		adapter->release(adapter->release_arg);
	free(adapter->layers);
	free(adapter);
}
