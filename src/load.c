/* The order of a load, and why:
 *
 *   order checked -> header read and planned -> room taken on every node -> first copy filled from the file, in file
 * order, straight into its segment -> tokenizer's table, template, header -> other copies made from the first -> file
 * still the same -> image checked as a worker will -> published -> digests compared
 *
 * Room comes before reading, so that a node without enough of it is reported after milliseconds and not after
 * gigabytes. No byte of the file is read twice and no weight has a second home: what is read is packed where it stays.
 */
#include "src/load.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "numa/bind.h"
#include "numa/topology.h"
#include "src/engine/tokenizer.h"
#include "src/load_file.h"
#include "src/load_order.h"
#include "src/load_pack.h"
#include "src/model_gguf.h"

struct load {
	const struct message_load *order;
	struct topology *topology;
	struct load_file file;
	struct model_plan plan;
	struct image_header header;
	struct segment segments[LOAD_NODES_MAX];
	uint32_t n_created;
};

static int plan(struct load *load, int fd, struct err *err)
{
	uint64_t tokenizer_bytes = 0;
	int rc = load_file_open(fd, load->order->path, load->order->io, &load->file, err);
	if (rc == 0)
		rc = model_gguf_plan(&load->file.gguf, &load->plan, err);
	if (rc == 0)
		rc = tokenizer_table_bytes(&load->plan.tokenizer, &tokenizer_bytes, err);
	if (rc == 0)
		rc = image_plan(&load->plan.config, load->plan.tensors, load->plan.n_tensors, tokenizer_bytes,
				load->plan.chat_template.n_bytes, &load->header, err);
	return rc;
}

static int create(struct load *load, struct err *err)
{
	const struct message_load *order = load->order;
	for (uint32_t i = 0; i < order->n_nodes; i++) {
		struct segment_spec spec;
		load_order_spec(order, order->node[i], &load->file.source, &spec);
		spec.payload_bytes = load->header.image_bytes;
		int rc = segment_create(&spec, &load->segments[i], err);
		if (rc == -ENOSPC && spec.backing == SEGMENT_SHM) {
			/* A container's /dev/shm is often 64 MiB; a memfd is not bounded by it. Status tells which it
			 * is. */
			spec.backing = SEGMENT_MEMFD;
			rc = segment_create(&spec, &load->segments[i], err);
		}
		if (rc)
			return rc;
		load->n_created = i + 1;
	}
	return 0;
}

/* Everything behind the tensors, and the header and table before them. */
static int write_tables(const struct load *load, char *image, struct err *err)
{
	const struct image_header *header = &load->header;
	int rc = tokenizer_table_build(&load->plan.tokenizer, image + header->tokenizer_offset, header->tokenizer_bytes,
				       err);
	if (rc)
		return rc;
	if (header->template_bytes)
		memcpy(image + header->template_offset, load->plan.chat_template.bytes, header->template_bytes);
	memcpy(image + header->tensors_offset, load->plan.tensors, load->plan.n_tensors * sizeof *load->plan.tensors);
	memcpy(image, header, sizeof *header);
	return 0;
}

static int fill(struct load *load, int fd, const struct load_progress *progress, struct err *err)
{
	const struct idset *cpus = NULL;
	char *image = segment_payload(&load->segments[0]);
	int rc = load_order_cpus(load->topology, load->order->node[0], &cpus, err);
	if (rc == 0)
		rc = bind_thread(cpus, err);
	if (rc == 0)
		rc = load_pack(&load->file, load->plan.tensors, load->plan.n_tensors, image, progress, err);
	if (rc == 0)
		rc = load_file_unchanged(&load->file, fd, err);
	if (rc == 0)
		rc = write_tables(load, image, err);
	if (rc == 0)
		rc = image_check(image, load->header.image_bytes, err);
	for (uint32_t i = 1; i < load->order->n_nodes && rc == 0; i++) {
		rc = load_order_cpus(load->topology, load->order->node[i], &cpus, err);
		if (rc == 0)
			rc = segment_copy(&load->segments[i], load->segments[0].base, load->segments[0].total_bytes,
					  cpus, err);
	}
	return rc;
}

/* Publishes one copy and enters it into `out`, from where it can be discarded. */
static int publish_one(struct load *load, uint32_t i, struct loaded *out, struct err *err)
{
	struct message_segment *made = &out->segments[i];
	memset(made, 0, sizeof *made);
	memcpy(made->name, load->segments[i].name, sizeof made->name);
	made->node = load->order->node[i];
	made->backing = load->segments[i].spec.backing;
	snprintf(made->architecture, sizeof made->architecture, "%s", load->plan.family->name);
	made->context = load->plan.config.context;
	int rc = segment_publish(&load->segments[i], &out->fds[i], &made->report, err);
	if (rc)
		return rc;
	out->n = i + 1;
	if (memcmp(made->report.digest, out->segments[0].report.digest, SEGMENT_DIGEST_BYTES) != 0)
		return err_set(err, -EIO, "node %u: the copy differs from the one on node %u", made->node,
			       out->segments[0].node);
	return 0;
}

static int publish(struct load *load, struct loaded *out, struct err *err)
{
	struct loaded loaded = {.bytes_read = reader_bytes_read(load->file.reader)};
	for (uint32_t i = 0; i < load->order->n_nodes; i++) {
		int rc = publish_one(load, i, &loaded, err);
		if (rc) {
			loaded_discard(&loaded);
			return rc;
		}
	}
	*out = loaded;
	return 0;
}

/* The end of a path that is too long for a message. */
static const char *tail(const char *path)
{
	size_t n = strnlen(path, sizeof(((struct message_load *)0)->path));
	return n > 80 ? path + n - 80 : path;
}

int model_load(const struct message_load *order, int fd, const struct load_progress *progress, struct loaded *out,
	       struct err *err)
{
	struct load load = {.order = order};
	struct err what = {""};
	int rc = load_order_check(order, err);
	if (rc)
		return rc;
	rc = plan(&load, fd, &what);
	if (rc == 0)
		rc = topology_load(NULL, &load.topology, &what);
	if (rc == 0)
		rc = create(&load, &what);
	if (rc == 0)
		rc = fill(&load, fd, progress, &what);
	if (rc == 0)
		rc = publish(&load, out, &what);
	for (uint32_t i = 0; i < load.n_created; i++)
		segment_destroy(&load.segments[i]); /* nothing happens to a published one */
	model_plan_fini(&load.plan);
	load_file_close(&load.file);
	topology_free(load.topology);
	return rc ? err_set(err, rc, "%s: %s", tail(order->path), what.text) : 0;
}

void loaded_close(struct loaded *loaded)
{
	for (uint32_t i = 0; i < loaded->n; i++)
		close(loaded->fds[i]);
	loaded->n = 0;
}

void loaded_discard(struct loaded *loaded)
{
	for (uint32_t i = 0; i < loaded->n; i++)
		if (loaded->segments[i].name[0])
			shm_unlink(loaded->segments[i].name);
	loaded_close(loaded);
}
