/* Any bytes as a tokenizer.json: refused with a reason, or a table that a worker takes and that encodes any text to ids
 * that exist. */
#include <stdlib.h>
#include <string.h>

#include "src/load/model_tokenizer.h"
#include "tests/fuzz/fuzz.h"

enum { TABLE_MAX_BYTES = 64 << 20 };

static void require(int condition)
{
	if (!condition)
		abort();
}

static void encode(const struct tokenizer *tokenizer)
{
	static const char text[] = "<s> the  12 ab\u2581\u8a9e\n\xff</s>a";
	struct token_list list = {0};
	require(tokenizer_encode(tokenizer, text, sizeof text - 1, true, true, SIZE_MAX, &list, NULL) == 0);
	for (size_t i = 0; i < list.n; i++)
		require(list.ids[i] < tokenizer_n_tokens(tokenizer));
	token_list_fini(&list);
}

static void build(const struct tokenizer_source *source)
{
	struct err err = {""};
	uint64_t bytes;
	struct tokenizer *tokenizer;
	if (tokenizer_table_bytes(source, &bytes, &err) != 0 || bytes > TABLE_MAX_BYTES) {
		require(*err.text || bytes > TABLE_MAX_BYTES);
		return;
	}
	void *table = aligned_alloc(64, (bytes + 63) / 64 * 64);
	require(table != NULL);
	memset(table, 0, bytes);
	if (tokenizer_table_build(source, table, bytes, &err) == 0) {
		require(tokenizer_attach(table, bytes, &tokenizer, &err) == 0);
		encode(tokenizer);
		tokenizer_detach(tokenizer);
	} else {
		require(*err.text);
	}
	free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	struct tokenizer_json json;
	struct tokenizer_source source;
	struct err err = {""};
	if (tokenizer_json_parse((const char *)bytes, n_bytes, 0, &json, &err) != 0) {
		require(*err.text);
		return 0;
	}
	require(model_tokenizer_init(&json, &source) == 0);
	build(&source);
	model_tokenizer_fini(&source);
	tokenizer_json_fini(&json);
	return 0;
}
