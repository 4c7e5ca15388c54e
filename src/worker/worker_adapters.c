#include "src/worker/worker_adapters.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "shm/segment.h"

struct worker_adapter {
	struct worker_adapter *next;
	uint32_t id;
	struct adapter *adapter; /* owned: the list's reference */
};

/* The last reference is gone. */
static void release(void *arg)
{
	struct segment_view *view = arg;
	segment_detach(view);
	free(view);
}

/* Attaches the image in a view, which is `release`'s from then on. */
static int attach_image(const struct segment_view *view, const struct model *base, struct adapter **out,
			struct err *err)
{
	const char *image = (const char *)view->base + SEGMENT_HEADER_BYTES;
	if (view->header->pack_layout != ADAPTER_IMAGE_VERSION)
		return err_set(err, -EINVAL, "the adapter's segment is of layout %u, this program reads %d",
			       view->header->pack_layout, ADAPTER_IMAGE_VERSION);
	/* release takes it without const to free it; adapter_attach gives it nobody else. */
	return adapter_attach(base, image, view->header->payload_bytes, release, (void *)(uintptr_t)view, out, err);
}

int worker_adapters_attach(struct worker_adapters *adapters, const struct model *base, uint32_t id, int fd, bool lock,
			   struct err *err)
{
	if (worker_adapters_find(adapters, id))
		return err_set(err, -EEXIST, "adapter %u is attached already", id);
	struct worker_adapter *entry = calloc(1, sizeof *entry);
	struct segment_view *view = calloc(1, sizeof *view);
	int rc = entry && view ? segment_attach(fd, view, err) : err_set(err, -ENOMEM, "no memory for an adapter");
	if (!rc) {
		rc = attach_image(view, base, &entry->adapter, err);
		if (rc)
			segment_detach(view);
	}
	if (rc) {
		free(view);
		free(entry);
		return rc;
	}
	if (lock)
		(void)mlock(view->base, view->total_bytes); /* where it may not be, the weights said so already */
	entry->id = id;
	entry->next = adapters->first;
	adapters->first = entry;
	return 0;
}

static void forget(struct worker_adapter **at)
{
	struct worker_adapter *entry = *at;
	*at = entry->next;
	adapter_put(entry->adapter);
	free(entry);
}

void worker_adapters_drop(struct worker_adapters *adapters, uint32_t id)
{
	struct worker_adapter **at = &adapters->first;
	while (*at && (*at)->id != id)
		at = &(*at)->next;
	if (*at)
		forget(at);
}

struct adapter *worker_adapters_find(const struct worker_adapters *adapters, uint32_t id)
{
	struct worker_adapter *entry = adapters->first;
	while (entry && entry->id != id)
		entry = entry->next;
	return entry ? entry->adapter : NULL;
}

void worker_adapters_fini(struct worker_adapters *adapters)
{
	while (adapters->first)
		forget(&adapters->first);
}
