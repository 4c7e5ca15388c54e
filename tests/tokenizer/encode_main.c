/* What tests/tokenizer compares with the `tokenizers` library: reads a tokenizer.json (argument 1), then texts from
 * standard input, each behind its length as 4 little-endian bytes. For each, one line: the ids with the special tokens
 * around them, a bar, and the text of the ids without them in hexadecimal. A file that is refused: its error, and 2.
 * Argument 2, "bare": nothing is put around texts, as in speech models, and all tokens are shown, named ones too. */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/load/model_tokenizer.h"
#include "tests/unit/tokenizer_vocab.h"

static char *read_file(const char *path, size_t *n_bytes)
{
	FILE *file = fopen(path, "rb");
	char *bytes = malloc(64 << 20);
	if (!file || !bytes)
		abort();
	*n_bytes = fread(bytes, 1, 64 << 20, file);
	fclose(file);
	return bytes;
}

static void answer(const struct tokenizer *tokenizer, const char *text, size_t n_bytes, bool bare)
{
	struct token_list list = {0};
	struct err err = {""};
	if (tokenizer_encode(tokenizer, text, n_bytes, !bare, true, SIZE_MAX, &list, &err) < 0) {
		puts(err.text);
		exit(1);
	}
	for (size_t i = 0; i < list.n; i++)
		printf("%u ", list.ids[i]);
	printf("|");
	for (size_t i = 0; i < list.n; i++) {
		uint32_t n_piece;
		const char *piece = tokenizer_piece(tokenizer, list.ids[i], bare, &n_piece);
		for (uint32_t k = 0; k < n_piece; k++)
			printf("%02x", (unsigned)(uint8_t)piece[k]);
	}
	puts("");
	token_list_fini(&list);
}

/* Returns owned, NULL: refused, with the reason printed. */
static struct tokenizer *make_tokenizer(const char *path, bool bare, void **table)
{
	struct tokenizer_json json = {0};
	struct tokenizer_source source = {0};
	struct tokenizer *tokenizer = NULL;
	struct err err = {""};
	uint64_t table_bytes;
	size_t n_bytes;
	char *bytes = read_file(path, &n_bytes);
	int ret = tokenizer_json_parse(bytes, n_bytes, 0, &json, &err);
	free(bytes);
	if (ret == 0 && json.puts_more && !bare)
		ret = err_set(&err, -ENOTSUP, TOKENIZER_JSON_PUTS_MORE);
	if (ret == 0)
		ret = model_tokenizer_init(&json, &source);
	if (ret == 0)
		ret = vocab_table(&source, table, &table_bytes, &err);
	if (ret == 0)
		ret = tokenizer_attach(*table, table_bytes, &tokenizer, &err);
	if (ret < 0)
		puts(err.text);
	model_tokenizer_fini(&source);
	tokenizer_json_fini(&json);
	return tokenizer;
}

int main(int argc, char **argv)
{
	uint32_t length;
	void *table = NULL;
	bool bare = argc == 3 && strcmp(argv[2], "bare") == 0;
	struct tokenizer *tokenizer = argc == 2 || bare ? make_tokenizer(argv[1], bare, &table) : NULL;
	if (!tokenizer) {
		free(table);
		return 2;
	}
	while (fread(&length, 1, sizeof length, stdin) == sizeof length) {
		char *text = malloc(le32toh(length) + 1u);
		if (!text || fread(text, 1, le32toh(length), stdin) != le32toh(length))
			abort();
		answer(tokenizer, text, le32toh(length), bare);
		free(text);
	}
	tokenizer_detach(tokenizer);
	free(table);
	return 0;
}
