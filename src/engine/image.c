/* Planning an image and checking one are the same walk: every part lies where the one before it ends, rounded up to 64
 * bytes, in the order that image.h draws. So the offsets in an image carry no freedom, and image_check accepts exactly
 * what image_plan would have written: anything else would be a gap, an overlap or a part outside. */
#include "src/engine/image.h"
#include "src/engine/family.h"
#include "src/engine/speech_table.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Puts `bytes` behind what ends at *at. */
static int place(uint64_t *at, uint64_t bytes, uint64_t *offset)
{
	uint64_t begin, end;
	if (__builtin_add_overflow(*at, (uint64_t)IMAGE_ALIGN - 1, &begin))
		return -EOVERFLOW;
	begin &= ~(uint64_t)(IMAGE_ALIGN - 1);
	if (__builtin_add_overflow(begin, bytes, &end) || end > INT64_MAX)
		return -EOVERFLOW;
	*at = end;
	*offset = begin;
	return 0;
}

/* Bytes of a tensor's packed form; 0 when it has none. */
static uint64_t packed_bytes(const struct image_tensor *tensor)
{
	if (tensor->vector)
		return tensor->vector == 1 && tensor->kind == PACK_F32 && tensor->rows == 1
			       ? sizeof(float) * (uint64_t)tensor->cols
			       : 0;
	if (tensor->kind >= PACK_N_KINDS || tensor->cols % pack_block_cols(tensor->kind))
		return 0;
	return pack_matrix_bytes(tensor->kind, tensor->rows, tensor->cols);
}

int image_plan(const struct image_config *config, struct image_tensor *tensors, uint32_t n,
	       const struct image_tables *tables, struct image_header *out, struct err *err)
{
	struct image_header header = {
		.magic = IMAGE_MAGIC,
		.version = IMAGE_VERSION,
		.n_tensors = n,
		.tokenizer_bytes = tables->tokenizer_bytes,
		.template_bytes = tables->template_bytes,
		.speech_bytes = tables->speech_bytes,
		.config = *config,
	};
	uint64_t at = sizeof header;
	int rc = place(&at, n * (uint64_t)sizeof *tensors, &header.tensors_offset);
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		tensors[i].bytes = packed_bytes(&tensors[i]);
		rc = tensors[i].bytes ? place(&at, tensors[i].bytes, &tensors[i].offset) : -EOVERFLOW;
	}
	if (rc == 0)
		rc = place(&at, tables->tokenizer_bytes, &header.tokenizer_offset);
	if (rc == 0)
		rc = place(&at, tables->template_bytes, &header.template_offset);
	if (rc == 0)
		rc = place(&at, tables->speech_bytes, &header.speech_offset);
	if (rc == 0)
		rc = place(&at, 0, &header.image_bytes); /* the end, rounded up */
	if (rc)
		return err_set(err, rc, "the packed model does not fit 63 bits");
	*out = header;
	return 0;
}

/* --- checking --------------------------------------------------------------------------------- */

struct check {
	const char *base;
	struct image_header header;		       /* a copy */
	uint64_t at;				       /* end of the parts seen so far */
	uint64_t seen[(FAMILY_MAX_TENSORS + 63) / 64]; /* bit per tensor of the family */
	struct err *err;
};

/* The next part must lie where it would have been placed, inside the image. */
static int check_part(struct check *c, const char *what, uint32_t index, uint64_t offset, uint64_t bytes)
{
	uint64_t expected = 0;
	if (place(&c->at, bytes, &expected) || c->at > c->header.image_bytes)
		return err_set(c->err, -EINVAL, "image: %s %u: %" PRIu64 " bytes do not fit into %" PRIu64, what, index,
			       bytes, c->header.image_bytes);
	if (offset != expected)
		return err_set(c->err, -EINVAL, "image: %s %u: offset %" PRIu64 ", expected %" PRIu64, what, index,
			       offset, expected);
	return 0;
}

static int check_header(struct check *c, uint64_t bytes)
{
	const struct image_header *header = &c->header;
	if (header->magic != IMAGE_MAGIC)
		return err_set(c->err, -EINVAL, "image: magic %016" PRIx64 ", expected %016llx", header->magic,
			       IMAGE_MAGIC);
	if (header->version != IMAGE_VERSION)
		return err_set(c->err, -EINVAL, "image: version %u, expected %d", header->version, IMAGE_VERSION);
	if (header->image_bytes > bytes || header->image_bytes > INT64_MAX)
		return err_set(c->err, -EINVAL, "image: image_bytes %" PRIu64 ", but there are %" PRIu64,
			       header->image_bytes, bytes);
	if (!family_get(header->config.family))
		return err_set(c->err, -EINVAL, "image: family %u is unknown", header->config.family);
	if (header->config.tied_head > 1)
		return err_set(c->err, -EINVAL, "image: tied_head %u is neither 0 nor 1", header->config.tied_head);
	if (!header->config.tied_head && family_get(header->config.family)->encoder_layer)
		return err_set(c->err, -EINVAL, "image: tied_head 0, but the family has no output matrix");
	for (size_t i = 0; i < sizeof header->config.pad / sizeof *header->config.pad; i++)
		if (header->config.pad[i])
			return err_set(c->err, -EINVAL, "image: the unused fields of the config are not zero");
	struct err what;
	const char *key = "";
	if (family_check(&header->config, &key, &what))
		return err_set(c->err, -EINVAL, "image: %s: %.200s", key, what.text);
	uint32_t n = family_n_tensors(&header->config);
	if (header->n_tensors != n)
		return err_set(c->err, -EINVAL, "image: n_tensors %u, a model of this shape has %u", header->n_tensors,
			       n);
	return 0;
}

/* Role, layer and shape as the family says, and none of them twice: with the right number, none is missing. */
static int check_tensor(struct check *c, uint32_t i, const struct image_tensor *tensor)
{
	int index = family_tensor_index(&c->header.config, tensor->role, tensor->layer);
	if (index < 0)
		return err_set(c->err, -EINVAL, "image: tensor %u: role %u in layer %u has no place in this model", i,
			       tensor->role, tensor->layer);
	if (c->seen[index / 64] & (uint64_t)1 << index % 64)
		return err_set(c->err, -EINVAL, "image: tensor %u: role %u in layer %u is there twice", i, tensor->role,
			       tensor->layer);
	c->seen[index / 64] |= (uint64_t)1 << index % 64;
	struct family_tensor expected;
	family_tensor(&c->header.config, (uint32_t)index, &expected);
	if (tensor->vector != expected.vector || tensor->rows != expected.rows || tensor->cols != expected.cols)
		return err_set(c->err, -EINVAL, "image: tensor %u: shape [%u][%u], expected [%u][%u]", i, tensor->rows,
			       tensor->cols, expected.rows, expected.cols);
	uint64_t bytes = packed_bytes(tensor);
	if (bytes == 0 || tensor->bytes != bytes)
		return err_set(c->err, -EINVAL, "image: tensor %u: kind %u, %" PRIu64 " bytes, expected %" PRIu64, i,
			       tensor->kind, tensor->bytes, bytes);
	return check_part(c, "tensor", i, tensor->offset, tensor->bytes);
}

/* The table is there where there is an encoder, and what it says fits the model. */
static int check_speech(struct check *c)
{
	const struct image_header *header = &c->header;
	bool is_speech = family_get(header->config.family)->encoder_layer != NULL;
	if (is_speech != (header->speech_bytes != 0))
		return err_set(c->err, -EINVAL, "image: a speech table of %" PRIu64 " bytes in a model %s encoder",
			       header->speech_bytes, is_speech ? "with an" : "without");
	return is_speech ? speech_table_check(c->base + header->speech_offset, header->speech_bytes, &header->config,
					      c->err)
			 : 0;
}

int image_check(const void *image, uint64_t bytes, struct err *err)
{
	if ((uintptr_t)image % IMAGE_ALIGN)
		return err_set(err, -EINVAL, "image: not on a boundary of %d bytes", IMAGE_ALIGN);
	if (bytes < sizeof(struct image_header))
		return err_set(err, -EINVAL, "image: %" PRIu64 " bytes are no header", bytes);
	struct check c = {.base = image, .at = sizeof(struct image_header), .err = err};
	memcpy(&c.header, image, sizeof c.header);
	int rc = check_header(&c, bytes);
	if (rc == 0)
		rc = check_part(&c, "tensor table", 0, c.header.tensors_offset,
				c.header.n_tensors * (uint64_t)sizeof(struct image_tensor));
	for (uint32_t i = 0; i < c.header.n_tensors && rc == 0; i++) {
		struct image_tensor tensor;
		memcpy(&tensor, c.base + c.header.tensors_offset + i * sizeof tensor, sizeof tensor);
		rc = check_tensor(&c, i, &tensor);
	}
	if (rc == 0)
		rc = check_part(&c, "tokenizer", 0, c.header.tokenizer_offset, c.header.tokenizer_bytes);
	if (rc == 0)
		rc = check_part(&c, "template", 0, c.header.template_offset, c.header.template_bytes);
	if (rc == 0)
		rc = check_part(&c, "speech", 0, c.header.speech_offset, c.header.speech_bytes);
	if (rc == 0)
		rc = check_speech(&c);
	if (rc == 0)
		rc = check_part(&c, "end", 0, c.header.image_bytes, 0);
	return rc;
}
