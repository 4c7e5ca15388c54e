/* Lists and tables that were made to do harm: refused with the field's name, or harmless. Run under the sanitizers,
 * this is where a step outside the table shows. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/tokenizer.h"
#include "src/engine/tokenizer_table.h"
#include "tests/unit/tokenizer_vocab.h"
#include "tests/unit/suite.h"

static void make_vocab(struct vocab *vocab)
{
	vocab_init(vocab);
	uint32_t the = vocab_word(vocab, " the"), aa = vocab_word(vocab, "aa");
	vocab_merge(vocab, the, aa);
	vocab_merge(vocab, aa, aa);
	vocab->source.bos = vocab_add(vocab, "<s>", 3, TOKEN_CONTROL);
	vocab->source.eos = vocab_add(vocab, "</s>", 4, TOKEN_CONTROL);
	vocab->source.eot = vocab_add(vocab, "<s>more", 7, TOKEN_UNKNOWN);
	vocab_add(vocab, "[u]", 3, TOKEN_USER_DEFINED);
	vocab_add(vocab, "<0x41>", 6, TOKEN_BYTE);
	vocab->source.add_bos = vocab->source.add_eos = true;
}

/* --- lists ------------------------------------------------------------------------------------ */

static void check_refused(const struct tokenizer_source *source, int code, const char *says)
{
	void *table;
	uint64_t bytes;
	struct err err = {""};
	ck_assert_int_eq(vocab_table(source, &table, &bytes, &err), code);
	ck_assert_msg(strstr(err.text, says), "\"%s\" does not say \"%s\"", err.text, says);
}

/* `change` is done to a good `vocab` and its `source`. */
#define refused(code, says, change)                            \
	do {                                                   \
		struct vocab vocab;                            \
		make_vocab(&vocab);                            \
		struct tokenizer_source source = vocab.source; \
		change;                                        \
		check_refused(&source, code, says);            \
		vocab_fini(&vocab);                            \
	} while (0)

static void replace(struct tokenizer_string *string, const char *text)
{
	free((char *)string->bytes);
	*string = (struct tokenizer_string){strdup(text), (uint32_t)strlen(text)};
}

START_TEST(other_tokenizers)
{
	refused(-ENOTSUP, "tokenizer.ggml.model = \"t5\"", source.model = "t5");
	refused(-ENOTSUP, "tokenizer.ggml.model", source.model = "");
	refused(-ENOTSUP, "tokenizer.ggml.pre = \"smollm2\"", source.pre = "smollm2");
	refused(-ENOTSUP, "tokenizer.ggml.pre", source.pre = "");
}
END_TEST

START_TEST(special_ids_out_of_range)
{
	refused(-EINVAL, "tokenizer.ggml.bos_token_id", source.bos = source.n_tokens);
	refused(-EINVAL, "tokenizer.ggml.eos_token_id = -2", source.eos = -2);
	refused(-EINVAL, "tokenizer.ggml.eot_token_id", source.eot = INT64_MAX);
	refused(-EINVAL, "eos_token_ids", source.n_ends = 1; source.ends[0] = UINT32_MAX);
	refused(-ENOTSUP, "5 at most", source.n_ends = TOKENIZER_MAX_ENDS + 1);
	refused(-EINVAL, "tokenizer.ggml.unknown_token_id", source.unk = 1ll << 32);
	refused(-EINVAL, "tokenizer.ggml.padding_token_id", source.pad = INT64_MIN);
	refused(-EINVAL, "tokenizer.ggml.add_bos_token", source.bos = -1);
	refused(-EINVAL, "tokenizer.ggml.add_eos_token", source.eos = -1);
}
END_TEST

START_TEST(bad_tokens)
{
	refused(-EINVAL, "tokenizer.ggml.tokens: 0 tokens", source.n_tokens = 0);
	refused(-EINVAL, "tokenizer.ggml.tokens: 4294967295 tokens", source.n_tokens = UINT32_MAX);
	refused(-EINVAL, "tokenizer.ggml.merges: 4294967295 merges", source.n_merges = UINT32_MAX);
	refused(-EINVAL, "tokenizer.ggml.token_type[7] = 0", vocab.types[7] = 0);
	refused(-EINVAL, "tokenizer.ggml.token_type[7] = 7", vocab.types[7] = 7);
	refused(-EINVAL, "tokenizer.ggml.token_type[7]", vocab.types[7] = 256 + TOKEN_NORMAL);
	refused(-EINVAL, "tokenizer.ggml.tokens[9]: a byte token", vocab.types[9] = TOKEN_BYTE);
	refused(-EINVAL, "tokenizer.ggml.tokens: 113 and 2", replace(&vocab.tokens['q'], "<s>"));
}
END_TEST

START_TEST(byte_tokens_spelled_wrong)
{
	static const char *const spellings[] = {"<0x4g>", "<0x412>", "<0x4>", "(0x41>", "<0x41)", ""};
	for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
		struct vocab vocab;
		make_vocab(&vocab);
		uint32_t id = vocab_find(&vocab, "<0x41>", 6);
		replace(&vocab.tokens[id], spellings[i]);
		check_refused(&vocab.source, -EINVAL, "a byte token must be spelled <0xHH>");
		vocab_fini(&vocab);
	}
}
END_TEST

START_TEST(no_byte_is_a_token)
{
	struct vocab vocab;
	vocab_init_bytes(&vocab, (const uint8_t[256]){0});
	vocab_add(&vocab, "<s>", 3, TOKEN_CONTROL);
	vocab_add(&vocab, "hello", 5, TOKEN_NORMAL);
	check_refused(&vocab.source, -EINVAL, "tokenizer.ggml.tokens: not a single byte");
	vocab_fini(&vocab);
}
END_TEST

START_TEST(bad_merges)
{
	static const char *const lines[] = {"",	   "t",	   "t ",   " t",    " ",	  "  ",
					    "t h", "xx a", "a xx", "t h e", "\u0120t  he"};
	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
		refused(-EINVAL, "tokenizer.ggml.merges[1]", replace(&vocab.merges[1], lines[i]));
}
END_TEST

START_TEST(room_must_be_what_was_asked_for)
{
	struct vocab vocab;
	make_vocab(&vocab);
	void *table;
	uint64_t bytes;
	struct err err = {""};
	ck_assert_int_eq(vocab_table(&vocab.source, &table, &bytes, &err), 0);
	ck_assert_int_eq(tokenizer_table_build(&vocab.source, table, bytes - 1, &err), -EINVAL);
	ck_assert_int_eq(tokenizer_table_build(&vocab.source, table, bytes + 64, &err), -EINVAL);
	free(table);
	vocab_fini(&vocab);
}
END_TEST

/* Pairs that all want the same few slots, those for the last slots first: the last ones would have to walk past them
 * all. */
START_TEST(merges_made_to_collide)
{
	enum { N = 700, MASK = 2047, WANTED = 21 };
	struct vocab vocab;
	vocab_init(&vocab);
	uint32_t n = 0;
	for (uint32_t slot = WANTED; slot-- > 0;)
		for (uint32_t pair = 0; pair < 65536 && n < N; pair++)
			if ((table_merge_hash(pair >> 8, pair & 255) & MASK) == slot) {
				vocab_merge(&vocab, pair >> 8, pair & 255);
				n++;
			}
	ck_assert_uint_gt(n, TABLE_MAX_PROBES + WANTED);
	check_refused(&vocab.source, -EINVAL, "tokenizer.ggml.merges: made to collide");
	vocab_fini(&vocab);
}
END_TEST

/* --- tables ----------------------------------------------------------------------------------- */

/* Everything a worker does with a table. */
static void use(const struct tokenizer *tokenizer)
{
	static const char text[] = "<s> the aaaaaaa the<s>more [u] 12\n\n\xff\xe8\xaa\x9e<s>mor";
	for (int how = 0; how < 4; how++) {
		struct token_list list = {0};
		int ret = tokenizer_encode(tokenizer, text, sizeof text - 1, how & 1, how & 2, 1000, &list, NULL);
		if (ret != 0)
			ck_abort_msg("encoding failed with %d", ret);
		for (size_t i = 0; i < list.n; i++)
			if (list.ids[i] >= tokenizer_n_tokens(tokenizer))
				ck_abort_msg("token %u", list.ids[i]);
		token_list_fini(&list);
	}
	unsigned sum = 0;
	for (uint32_t id = 0; id < tokenizer_n_tokens(tokenizer); id++) {
		uint32_t n_bytes;
		const char *piece = tokenizer_piece(tokenizer, id, true, &n_bytes);
		for (uint32_t i = 0; i < n_bytes; i++)
			sum += (uint8_t)piece[i];
	}
	ck_assert_uint_ne(sum, 0);
}

struct good_table {
	void *bytes;
	uint64_t n_bytes;
};

static struct good_table make_table(void)
{
	struct vocab vocab;
	make_vocab(&vocab);
	struct good_table table;
	ck_assert_int_eq(vocab_table(&vocab.source, &table.bytes, &table.n_bytes, NULL), 0);
	vocab_fini(&vocab);
	return table;
}

/* Attaches to a private copy in memory of exactly its size. */
static int attach_copy(const struct good_table *good, uint64_t n_bytes, void **copy, struct tokenizer **tokenizer)
{
	if (posix_memalign(copy, 64, n_bytes ? n_bytes : 1) != 0)
		abort();
	memcpy(*copy, good->bytes, n_bytes);
	return tokenizer_attach(*copy, n_bytes, tokenizer, NULL);
}

START_TEST(cut_short)
{
	struct good_table good = make_table();
	for (uint64_t n = 0; n < good.n_bytes; n++) {
		void *copy;
		struct tokenizer *tokenizer;
		if (attach_copy(&good, n, &copy, &tokenizer) != -EINVAL)
			ck_abort_msg("a table cut at %llu was taken", (unsigned long long)n);
		free(copy);
	}
	free(good.bytes);
}
END_TEST

START_TEST(flipped_at_random)
{
	srand((unsigned)_i + 1);
	struct good_table good = make_table();
	unsigned n_taken = 0;
	for (unsigned round = 0; round < 400; round++) {
		void *spoilt;
		if (posix_memalign(&spoilt, 64, good.n_bytes) != 0)
			abort();
		memcpy(spoilt, good.bytes, good.n_bytes);
		/* The header is the smaller part and the more interesting one. */
		uint64_t reach = round % 4 == 0 ? 64 : good.n_bytes;
		for (unsigned i = 0; i < 1 + round % 8; i++) {
			uint8_t *byte = (uint8_t *)spoilt + (uint64_t)rand() % reach;
			*byte = rand() % 2 ? (uint8_t)(*byte ^ 1u << rand() % 8) : (uint8_t)rand();
		}
		struct tokenizer *tokenizer;
		int ret = tokenizer_attach(spoilt, good.n_bytes, &tokenizer, NULL);
		if (ret == 0) {
			n_taken++;
			use(tokenizer);
			tokenizer_detach(tokenizer);
		} else if (ret != -EINVAL) {
			ck_abort_msg("attaching failed with %d", ret);
		}
		free(spoilt);
	}
	ck_assert_uint_gt(n_taken, 0); /* some flips only change a letter: those must be harmless */
	free(good.bytes);
}
END_TEST

/* A merge table without an empty slot, and one where every merge gives what it was made from. */
START_TEST(merges_without_end)
{
	struct good_table good = make_table();
	struct table_header *header = good.bytes;
	struct table view = table_view(good.bytes, header);
	struct table_merge *merges = (struct table_merge *)view.merges;
	for (uint32_t i = 0; i < header->merge_slots; i++)
		merges[i] = (struct table_merge){.left = 'a', .right = 'a', .rank = 0, .merged = 'a'};
	struct tokenizer *tokenizer;
	ck_assert_int_eq(tokenizer_attach(good.bytes, good.n_bytes, &tokenizer, NULL), 0);
	use(tokenizer);
	tokenizer_detach(tokenizer);
	for (uint32_t i = 0; i < header->merge_slots; i++)
		merges[i].rank = UINT32_MAX;
	ck_assert_int_eq(tokenizer_attach(good.bytes, good.n_bytes, &tokenizer, NULL), 0);
	use(tokenizer);
	tokenizer_detach(tokenizer);
	free(good.bytes);
}
END_TEST

/* `change` is done to a good table's `header` and sections. */
#define rejected(says, change)                                                                           \
	do {                                                                                             \
		struct good_table good = make_table();                                                   \
		struct table_header *header = good.bytes;                                                \
		struct table_layout at = table_layout(header);                                           \
		uint32_t *starts = (uint32_t *)((char *)good.bytes + at.starts);                         \
		uint32_t *specials = (uint32_t *)((char *)good.bytes + at.specials);                     \
		uint8_t *types = (uint8_t *)good.bytes + at.types;                                       \
		struct table_merge *merges = (struct table_merge *)((char *)good.bytes + at.merges);     \
		(void)starts, (void)specials, (void)types, (void)merges;                                 \
		change;                                                                                  \
		struct tokenizer *tokenizer;                                                             \
		struct err err = {""};                                                                   \
		ck_assert_int_eq(tokenizer_attach(good.bytes, good.n_bytes, &tokenizer, &err), -EINVAL); \
		ck_assert_msg(strstr(err.text, says), "\"%s\" does not say \"%s\"", err.text, says);     \
		free(good.bytes);                                                                        \
	} while (0)

static struct table_merge *some_merge(struct table_merge *merges)
{
	while (merges->merged == TOKEN_NONE)
		merges++;
	return merges;
}

START_TEST(damaged_headers)
{
	rejected("magic", header->magic++);
	rejected("version", header->version++);
	rejected("kind", header->kind = 999);
	rejected("spelling needs", header->kind = TABLE_PIECES);
	rejected("pre-tokenizer", header->pre = 999);
	rejected("string slots", header->string_slots = 17);
	rejected("ranks or joins", header->n_ranks = 1);
	rejected("ranks or joins", header->n_join_bytes = 1);
	rejected("flags", header->blank = 4);
	rejected("characters need", header->kind = TABLE_CHARACTERS);
	rejected("flags", header->whole_words = 1);
	rejected("number of tokens", header->n_tokens = 0);
	rejected("number of tokens", header->n_tokens = UINT32_MAX);
	rejected("merge slots", header->merge_slots = 0);
	rejected("merge slots", header->merge_slots--);
	rejected("special tokens", header->n_specials = UINT32_MAX);
	rejected("add up", header->n_specials--);
	rejected("add up", header->merge_slots *= 2);
	rejected("add up", header->n_tokens--);
	rejected("add up", header->text_bytes++);
	rejected("add up", header->table_bytes++);
	rejected("flags", header->add_bos = 2);
	rejected("flags", header->add_eos = UINT32_MAX);
	rejected("bos, eos, eot or unk", header->bos = (int32_t)header->n_tokens);
	rejected("bos, eos, eot or unk", header->eos = -2);
	rejected("bos, eos, eot or unk", header->eot = INT32_MIN);
	rejected("number of ends", header->n_ends = TOKENIZER_MAX_ENDS + 1);
	rejected("ends", header->n_ends = 2; header->ends[1] = header->n_tokens);
	rejected("does not have", header->bos = -1);
	rejected("does not have", header->eos = -1);
	rejected("byte tokens", header->byte_ids[255] = header->n_tokens);
}
END_TEST

START_TEST(damaged_sections)
{
	rejected("text", starts[0] = 1);
	rejected("text", starts[5] = starts[7] + 1);
	rejected("text", starts[header->n_tokens]--);
	rejected("types", types[3] = 0);
	rejected("types", types[3] = TOKEN_BYTE + 1);
	rejected("merges", some_merge(merges)->left = header->n_tokens);
	rejected("merges", some_merge(merges)->right = TOKEN_NONE);
	rejected("merges", some_merge(merges)->merged = header->n_tokens);
	rejected("special tokens", specials[0] = header->n_tokens);
	rejected("special tokens", specials[0] = 'a');
	rejected("without a spelling", starts[specials[0] + 1] = starts[specials[0]]);
	rejected("out of order", specials[1] = specials[0]);
	rejected("out of order", specials[0] = specials[header->n_specials - 1]);
	rejected("special tokens", types[specials[1]] = TOKEN_NORMAL);
}
END_TEST

START_TEST(misplaced)
{
	struct good_table good = make_table();
	char *memory = malloc(good.n_bytes + 1);
	ck_assert_ptr_nonnull(memory);
	memcpy(memory + 1, good.bytes, good.n_bytes);
	struct tokenizer *tokenizer;
	ck_assert_int_eq(tokenizer_attach(memory + 1, good.n_bytes, &tokenizer, NULL), -EINVAL);
	free(memory);
	free(good.bytes);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("tokenizer_hostile");
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, other_tokenizers);
	tcase_add_test(tcase, special_ids_out_of_range);
	tcase_add_test(tcase, bad_tokens);
	tcase_add_test(tcase, byte_tokens_spelled_wrong);
	tcase_add_test(tcase, no_byte_is_a_token);
	tcase_add_test(tcase, bad_merges);
	tcase_add_test(tcase, room_must_be_what_was_asked_for);
	tcase_add_test(tcase, merges_made_to_collide);
	tcase_add_test(tcase, cut_short);
	tcase_add_loop_test(tcase, flipped_at_random, 0, 10);
	tcase_add_test(tcase, merges_without_end);
	tcase_add_test(tcase, damaged_headers);
	tcase_add_test(tcase, damaged_sections);
	tcase_add_test(tcase, misplaced);
	Suite *suite = suite_create("tokenizer_hostile");
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
