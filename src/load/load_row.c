/* Up to three steps: codes of 8 bits become blocks or numbers, a convolution's taps come to lie side by side, and the
 * tensor's kind is made. */
#include "src/load/load_row.h"

#include <string.h>

#include "src/kernel/half.h"
#include "src/kernel/quantize.h"

bool load_row_is_made(const struct model_source *source, const struct image_tensor *tensor)
{
	return source->kind != tensor->kind || source->taps > 1 || source->scales;
}

size_t load_row_scratch_bytes(const struct image_tensor *tensor)
{
	return tensor->cols * sizeof(float);
}

/* Codes stay as they are; each block gets the row's scale. */
static void make_blocks(const unsigned char *codes, float scale, uint32_t cols, unsigned char *out)
{
	uint16_t d = f16_from_f32(1 / scale);
	for (uint32_t col = 0; col < cols; col += PACK_GROUP, out += sizeof d + PACK_GROUP) {
		memcpy(out, &d, sizeof d);
		memcpy(out + sizeof d, codes + col, PACK_GROUP);
	}
}

static void make_numbers(const unsigned char *codes, float scale, uint32_t cols, float *out)
{
	for (uint32_t i = 0; i < cols; i++)
		out[i] = (float)(int8_t)codes[i] / scale;
}

/* [n][taps] values of so many bytes into [taps][n]. */
static void turn(const unsigned char *stored, uint32_t n, uint32_t taps, size_t width, unsigned char *out)
{
	for (uint32_t tap = 0; tap < taps; tap++)
		for (uint32_t i = 0; i < n; i++)
			memcpy(out + (tap * (size_t)n + i) * width, stored + (i * (size_t)taps + tap) * width, width);
}

int load_row_make(const struct model_source *source, const struct image_tensor *tensor, uint32_t row,
		  const void *stored, void *scratch, void *out)
{
	uint32_t kind = source->kind;
	if (source->scales && tensor->kind == PACK_Q8_0) {
		make_blocks(stored, source->scales[row], tensor->cols, out);
		return 0;
	}
	if (source->scales) {
		make_numbers(stored, source->scales[row], tensor->cols, scratch);
		kind = PACK_F32;
		stored = scratch;
	} else if (source->taps > 1) {
		size_t width = kind == PACK_F32 ? 4 : 2;
		memset(scratch, 0, tensor->cols * width);
		turn(stored, source->cols / source->taps, source->taps, width, scratch);
		stored = scratch;
	}
	if (kind != tensor->kind)
		return quantize_row(kind, stored, tensor->kind, out, tensor->cols);
	memcpy(out, stored, pack_source_row_bytes(kind, tensor->cols));
	return 0;
}
