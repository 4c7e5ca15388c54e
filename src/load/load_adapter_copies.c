#include "src/load/load_adapter_copies.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/engine/image.h"
#include "src/load/load_adapter.h"
#include "src/load/load_copies.h"
#include "src/load/load_order.h"
#include "src/source.h"

/* The shapes an adapter has to fit are in the header of the base's image. The segment was checked when it was loaded;
 * it is not mapped here, because its page tables alone would take longer than the adapter. */
static int read_base(int base, struct image_config *out, struct err *err)
{
	struct image_header header;
	ssize_t n = pread(base, &header, sizeof header, SEGMENT_HEADER_BYTES);
	if (n < 0)
		return err_set(err, -errno, "the model's segment: %s", strerror(errno));
	if (n != (ssize_t)sizeof header || header.magic != IMAGE_MAGIC || header.version != IMAGE_VERSION)
		return err_set(err, -EIO, "the model's segment has no image of this version");
	*out = header.config;
	return 0;
}

/* For the header alone: what an adapter was made of is not asked again. */
static int describe(const struct message_load *order, const int *files, struct segment_source *out, struct err *err)
{
	struct stat st;
	int rc = source_begin(order->path, out);
	for (uint32_t i = 0; i < order->n_files && rc == 0; i++)
		rc = fstat(files[i], &st) ? -errno : source_add(out, "", FILE_WEIGHTS, &st);
	return rc ? err_set(err, rc, "%s", strerror(-rc)) : 0;
}

static int fill(struct load_copies *copies, struct load_adapter *adapter, struct err *err)
{
	void *image = NULL;
	int rc = load_copies_first(copies, &image, err);
	if (rc == 0)
		rc = load_adapter_write(adapter, image, err);
	return rc ? rc : load_copies_spread(copies, err);
}

int load_adapter_copies(const struct message_load *order, int base, const int *files, struct loaded *out,
			struct err *err)
{
	const struct load_adapter_files open = {.gguf = order->n_files == 1 ? files[0] : -1,
						.config = order->n_files == 2 ? files[0] : -1,
						.weights = order->n_files == 2 ? files[1] : -1};
	const struct message_segment what = {.architecture = "lora"};
	struct load_copies copies = {.n = 0};
	struct load_adapter *adapter = NULL;
	struct image_config config;
	struct segment_source source;
	int rc = load_order_check(order, err);
	if (rc == 0)
		rc = read_base(base, &config, err);
	if (rc == 0)
		rc = describe(order, files, &source, err);
	if (rc == 0)
		rc = load_adapter_open(&open, &config, (enum io_backend)order->io, &adapter, err);
	if (rc == 0)
		rc = load_copies_begin(&copies, order, &source, ADAPTER_IMAGE_VERSION, load_adapter_bytes(adapter),
				       err);
	if (rc == 0)
		rc = fill(&copies, adapter, err);
	if (rc == 0)
		rc = load_copies_publish(&copies, &what, out, err);
	load_copies_end(&copies);
	load_adapter_close(adapter);
	return rc;
}
