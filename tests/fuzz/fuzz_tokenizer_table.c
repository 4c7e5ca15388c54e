/* Any bytes as a tokenizer's table in a segment: refused, or used without a step outside of it. Wrong tokens are the
 * worst that a damaged table may give, and they exist. */
#include <stdlib.h>
#include <string.h>

#include "src/engine/tokenizer.h"
#include "tests/fuzz/fuzz.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

static void use(const struct tokenizer *tokenizer)
{
	static const char text[] = "<s> the  12 ab\u2581\u8a9ee\u0316\u0301\n\xff</s>aaaa";
	struct token_list list = {0};
	size_t sum = 0;
	require(tokenizer_encode(tokenizer, text, sizeof text - 1, true, true, SIZE_MAX, &list, NULL) == 0);
	for (size_t i = 0; i < list.n; i++) {
		uint32_t n_bytes;
		const char *piece = tokenizer_piece(tokenizer, list.ids[i], true, &n_bytes);
		require(list.ids[i] < tokenizer_n_tokens(tokenizer));
		for (uint32_t k = 0; k < n_bytes; k++)
			sum += (uint8_t)piece[k];
	}
	require(sum < SIZE_MAX);
	token_list_fini(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	struct err err = {""};
	struct tokenizer *tokenizer;
	void *table; /* of exactly its size, so that the sanitizer sees a step past it */
	require(posix_memalign(&table, 64, n_bytes ? n_bytes : 1) == 0);
	memcpy(table, bytes, n_bytes);
	if (tokenizer_attach(table, n_bytes, &tokenizer, &err) == 0) {
		use(tokenizer);
		tokenizer_detach(tokenizer);
	} else {
		require(*err.text);
	}
	free(table);
	return 0;
}
