#include "src/api/embedding.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

static void write_base64(const unsigned char *bytes, size_t n, struct api_json *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	api_json_text(out, "\"");
	for (size_t i = 0; i < n; i += 3) {
		size_t left = n - i < 3 ? n - i : 3;
		uint32_t group = (uint32_t)bytes[i] << 16;
		group |= left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
		group |= left > 2 ? bytes[i + 2] : 0;
		char text[4] = {digits[group >> 18], digits[group >> 12 & 63], digits[group >> 6 & 63],
				digits[group & 63]};
		for (size_t j = left + 1; j < 4; j++)
			text[j] = '=';
		api_json_raw(out, text, sizeof text);
	}
	api_json_text(out, "\"");
}

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "base64 has the values as they lie in memory");

void api_embedding_write(const void *bytes, size_t n_bytes, bool base64, struct api_json *out)
{
	if (base64) {
		write_base64(bytes, n_bytes, out);
		return;
	}
	api_json_text(out, "[");
	for (size_t at = 0; at < n_bytes; at += sizeof(float)) {
		float value;
		memcpy(&value, (const char *)bytes + at, sizeof value);
		if (at)
			api_json_text(out, ",");
		api_json_f32(out, value);
	}
	api_json_text(out, "]");
}
