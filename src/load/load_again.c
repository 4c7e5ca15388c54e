#include "src/load/load_again.h"

#include <errno.h>
#include <string.h>

#include "src/engine/adapter_image.h"
#include "src/engine/family.h"
#include "src/engine/image.h"
#include "src/load/load_copies.h"
#include "src/load/load_order.h"

/* What status says of a copy, by the image's own header. An adapter's image is told from a model's by its first word;
 * whether it fits a base is for workers to see, as with any adapter. */
static int describe(const struct segment_view *from, struct message_segment *out, struct err *err)
{
	const struct image_header *image = (const void *)((const char *)from->base + SEGMENT_HEADER_BYTES);
	const struct adapter_header *adapter = (const void *)image;
	const uint64_t bytes = from->header->payload_bytes;
	memset(out, 0, sizeof *out);
	if (bytes >= sizeof *adapter && adapter->magic == ADAPTER_IMAGE_MAGIC) {
		snprintf(out->architecture, sizeof out->architecture, "lora");
		return 0;
	}
	int rc = image_check(image, bytes, err);
	if (rc)
		return rc;
	out->context = image->config.context;
	out->mel_bins = image->config.mel_bins;
	snprintf(out->architecture, sizeof out->architecture, "%s", family_get(image->config.family)->name);
	return 0;
}

static int fill(struct load_copies *copies, const struct segment_view *from, struct err *err)
{
	int rc = 0;
	for (uint32_t i = 0; i < copies->n && rc == 0; i++)
		rc = segment_copy(&copies->segments[i], from->base, from->total_bytes, &copies->cpus[i], err);
	return rc;
}

/* Publishing computed the new copies' digest and held them against each other. */
static int compare(const struct segment_view *from, struct loaded *made, struct err *err)
{
	if (!memcmp(made->segments[0].report.digest, from->header->digest, SEGMENT_DIGEST_BYTES))
		return 0;
	loaded_discard(made);
	return err_set(err, -EIO, "node %u: the copy differs from what node %d's was when it was published",
		       made->segments[0].node, from->header->node);
}

int load_again(const struct message_load *order, int from, struct loaded *out, struct err *err)
{
	struct load_copies copies = {.n = 0};
	struct segment_view view = {.base = NULL};
	struct message_segment what;
	struct loaded made;
	int rc = load_order_check(order, err);
	if (rc == 0)
		rc = segment_attach(from, &view, err);
	if (rc)
		return rc;
	rc = describe(&view, &what, err);
	if (rc == 0)
		rc = load_copies_begin(&copies, order, &view.header->source, view.header->pack_layout,
				       view.header->payload_bytes, err);
	if (rc == 0)
		rc = fill(&copies, &view, err);
	if (rc == 0)
		rc = load_copies_publish(&copies, &what, &made, err);
	load_copies_end(&copies);
	if (rc == 0)
		rc = compare(&view, &made, err);
	segment_detach(&view);
	if (rc == 0)
		*out = made;
	return rc;
}
