/* Any bytes are a text: encoding them never fails, and as every byte is a token here, decoding gives them back exactly,
 * whether special spellings are looked for or not. The pieces, streamed, come out as well-formed UTF-8. */
#include <stdlib.h>
#include <string.h>

#include "src/engine/tokenizer.h"
#include "src/engine/utf8.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/tokenizer_vocab.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

/* Words, runs, parts of characters, and special spellings that overlap. */
static struct tokenizer *make_tokenizer(void)
{
	static const char *const words[] = {" the", "ing", "'s", "  ",		 "\n\n",
					    "aa",   "ab",  "ba", "\xe8\xaa\x9e", "\xf0\x9f\x91"};
	struct vocab vocab;
	vocab_init(&vocab);
	uint32_t joined = ' ';
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
		uint32_t word = vocab_word(&vocab, words[i]);
		joined = vocab_merge(&vocab, joined, word);
		vocab_merge(&vocab, word, word);
	}
	vocab_merge(&vocab, 0xff, 0xff);
	vocab_merge(&vocab, 0x80, 0xc3);
	vocab_add(&vocab, "<|a|>", 5, TOKEN_CONTROL);
	vocab_add(&vocab, "<|a|>b", 6, TOKEN_USER_DEFINED);
	vocab_add(&vocab, "|>b<", 4, TOKEN_UNKNOWN);
	vocab_add(&vocab, "\xfe\xff", 2, TOKEN_CONTROL);
	void *table;
	uint64_t bytes;
	struct tokenizer *tokenizer;
	require(vocab_table(&vocab.source, &table, &bytes, NULL) == 0);
	require(tokenizer_attach(table, bytes, &tokenizer, NULL) == 0);
	vocab_fini(&vocab);
	return tokenizer;
}

static void check_round_trip(const struct tokenizer *tokenizer, const char *text, size_t n_bytes, bool parse_special)
{
	struct token_list list = {0};
	require(tokenizer_encode(tokenizer, text, n_bytes, false, parse_special, n_bytes, &list, NULL) == 0);
	struct utf8_stream stream = {0};
	size_t at = 0;
	for (size_t i = 0; i < list.n; i++) {
		uint32_t n_piece;
		const char *piece = tokenizer_piece(tokenizer, list.ids[i], true, &n_piece);
		require(n_piece > 0 && n_piece <= n_bytes - at && memcmp(piece, text + at, n_piece) == 0);
		at += n_piece;
		char out[3 * 64 + 9];
		require(n_piece <= 64);
		size_t n_out = utf8_stream_push(&stream, piece, n_piece, out), length;
		for (size_t k = 0; k < n_out; k += length)
			require(utf8_step(out + k, n_out - k, &length) == UTF8_CHARACTER);
	}
	require(at == n_bytes);
	token_list_fini(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static struct tokenizer *tokenizer;
	if (!tokenizer)
		tokenizer = make_tokenizer();
	check_round_trip(tokenizer, (const char *)bytes, n_bytes, false);
	check_round_trip(tokenizer, (const char *)bytes, n_bytes, true);
	return 0;
}
