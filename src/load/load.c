/* The order of a load, and why:
 *
 *   order checked -> headers read and planned -> room taken on every node -> first copy filled from the files, in their
 * order, straight into its segment -> tokenizer's table, template, header -> other copies made from the first -> files
 * still the same -> image checked as a worker will -> published -> digests compared
 *
 * Room comes before reading, so that a node without enough of it is reported after milliseconds and not after
 * gigabytes. No weight is read twice, but for the scales that a CTranslate2 file has behind what they belong to, and
 * none has a second home: what is read is packed where it stays, and the page cache lets go of the files, also of pages
 * that whoever wrote them left there.
 */
#include "src/load/load.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/engine/tokenizer.h"
#include "src/load/load_copies.h"
#include "src/load/load_ctranslate2.h"
#include "src/load/load_files.h"
#include "src/load/load_gguf.h"
#include "src/load/load_hf.h"
#include "src/load/load_order.h"
#include "src/load/load_pack.h"
#include "src/load/load_template.h"
#include "src/load/load_whisper_ggml.h"
#include "src/load/model_gguf.h"

struct load {
	const struct message_load *order;
	struct load_files files;
	struct gguf gguf; /* views the files */
	struct model_plan plan;
	struct image_header header;
	struct load_copies copies;
	struct load_pace pace;
};

static int plan_gguf(struct load *load, struct err *err)
{
	if (load->order->quantize != MODEL_AS_STORED)
		return err_set(err, -ENOTSUP,
			       "key 'quantize': a GGUF file is served as it is; only the weights of a "
			       "Hugging Face folder are made smaller");
	int rc = load_gguf(&load->files, &load->gguf, err);
	return rc ? rc : model_gguf_plan(&load->gguf, &load->plan, err);
}

/* A model that is no folder: told by its first bytes. */
static int plan_file(struct load *load, struct err *err)
{
	bool is_whisper = false;
	int rc = load_whisper_ggml_is(&load->files, &is_whisper, err);
	if (rc == 0 && is_whisper)
		return load_whisper_ggml(&load->files, load->order->quantize, &load->plan, err);
	return rc ? rc : plan_gguf(load, err);
}

static int plan(struct load *load, const struct load_input *inputs, struct err *err)
{
	const struct message_load *order = load->order;
	struct image_tables tables = {0};
	int rc = load_files_open(inputs, order->n_files, order->path, order->io, &load->files, err);
	load->files.source.quantize = order->quantize;
	if (rc == 0 && load_ctranslate2_is(&load->files))
		rc = load_ctranslate2(&load->files, order->quantize, &load->plan, err);
	else if (rc == 0 && load->files.is_folder)
		rc = load_hf(&load->files, order->quantize, &load->plan, err);
	else if (rc == 0)
		rc = plan_file(load, err);
	for (uint32_t i = 0; i < order->n_files && rc == 0; i++)
		if (inputs[i].role == FILE_TEMPLATE)
			rc = load_template(&load->files, i, &load->plan, err);
	if (rc == 0)
		rc = model_plan_tables(&load->plan, &tables, err);
	if (rc == 0)
		rc = image_plan(&load->plan.config, load->plan.tensors, load->plan.n_tensors, &tables, &load->header,
				err);
	return rc;
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
		memcpy(image + header->template_offset, load->plan.chat_template, header->template_bytes);
	if (header->speech_bytes)
		speech_table_build(&load->plan.speech, image + header->speech_offset);
	memcpy(image + header->tensors_offset, load->plan.tensors, load->plan.n_tensors * sizeof *load->plan.tensors);
	memcpy(image, header, sizeof *header);
	return 0;
}

/* Shared, so that it is nobody's private memory, and without a claim to memory that is not written. */
static int sketch(struct load *load, struct model_outline *out, struct err *err)
{
	uint64_t bytes = load->header.image_bytes;
	void *image = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (image == MAP_FAILED)
		return err_set(err, -errno, "no addresses for an image of %llu bytes: %s", (unsigned long long)bytes,
			       strerror(errno));
	int rc = write_tables(load, image, err);
	if (rc) {
		munmap(image, bytes);
		return rc;
	}
	out->image = image;
	out->bytes = bytes;
	snprintf(out->architecture, sizeof out->architecture, "%s", load->plan.family->name);
	return 0;
}

static int fill(struct load *load, const struct load_progress *progress, struct err *err)
{
	void *image = NULL;
	int rc = load_copies_first(&load->copies, &image, err);
	if (rc == 0)
		rc = load_pack(&load->files, &load->plan, image, progress, &load->pace, err);
	if (rc == 0)
		rc = load_files_unchanged(&load->files, err);
	if (rc == 0)
		rc = write_tables(load, image, err);
	if (rc == 0)
		rc = image_check(image, load->header.image_bytes, err);
	return rc;
}

static int publish(struct load *load, struct loaded *out, struct err *err)
{
	struct message_segment what = {.context = load->plan.config.context,
				       .mel_bins = load->plan.config.mel_bins};
	snprintf(what.architecture, sizeof what.architecture, "%s", load->plan.family->name);
	int rc = load_copies_publish(&load->copies, &what, out, err);
	if (rc == 0)
		out->bytes_read = load_files_bytes_read(&load->files);
	return rc;
}

/* The end of a path that is too long for a message. */
static const char *tail(const char *path)
{
	size_t n = strnlen(path, sizeof(((struct message_load *)0)->path));
	return n > 80 ? path + n - 80 : path;
}

/* Since `*from`, which becomes now. */
static uint64_t lap(uint64_t *from_ns)
{
	uint64_t began_ns = *from_ns;
	*from_ns = clock_now_ns();
	return *from_ns - began_ns;
}

/* The steps in their order, each with the time it takes. */
static int run(struct load *load, const struct load_input *inputs, const struct load_progress *progress,
	       struct loaded *out, struct err *err)
{
	const struct message_load *order = load->order;
	uint64_t start_ns = clock_now_ns(), at_ns = start_ns;
	int rc = plan(load, inputs, err);
	lap(&at_ns);
	if (rc == 0)
		rc = load_copies_begin(&load->copies, order, &load->files.source, IMAGE_VERSION,
				       load->header.image_bytes, err);
	load->pace.room_ns = lap(&at_ns);
	if (rc == 0)
		rc = fill(load, progress, err);
	load->pace.fill_ns = lap(&at_ns);
	load_files_uncache(&load->files, &load->pace.cached_bytes); /* also what a load that fails has read */
	lap(&at_ns);
	if (rc == 0)
		rc = load_copies_spread(&load->copies, err);
	load->pace.spread_ns = lap(&at_ns);
	if (rc == 0)
		rc = publish(load, out, err);
	load->pace.publish_ns = lap(&at_ns);
	load->pace.total_ns = at_ns - start_ns;
	load->pace.file_bytes = load->files.source.size_bytes;
	if (rc == 0)
		out->pace = load->pace;
	return rc;
}

/* Frees what a load holds besides its result, and puts the model's path before what went wrong. */
static int finish(struct load *load, int rc, const struct err *what, struct err *err)
{
	load_copies_end(&load->copies);
	model_plan_fini(&load->plan);
	gguf_fini(&load->gguf);
	load_files_close(&load->files);
	return rc ? err_set(err, rc, "%s: %s", tail(load->order->path), what->text) : 0;
}

int model_load(const struct message_load *order, const struct load_input *inputs, const struct load_progress *progress,
	       struct loaded *out, struct err *err)
{
	struct load load = {.order = order};
	struct err what = {""};
	int rc = load_order_check(order, err);
	if (rc)
		return rc;
	rc = run(&load, inputs, progress, out, &what);
	return finish(&load, rc, &what, err);
}

int model_outline(const struct message_load *order, const struct load_input *inputs, struct model_outline *out,
		  struct err *err)
{
	struct load load = {.order = order};
	struct err what = {""};
	int rc = load_order_check(order, err);
	if (rc)
		return rc;
	rc = plan(&load, inputs, &what);
	if (rc == 0)
		rc = sketch(&load, out, &what);
	return finish(&load, rc, &what, err);
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
