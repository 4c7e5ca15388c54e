/* Real models' tokenizers against ids recorded from llama.cpp: every text of the golden file, every prompt of its
 * completions. The models are files that are not part of the sources: WEIGHTD_TEST_MODEL names SmolLM2's (byte-level,
 * 98 MB), WEIGHTD_TEST_GEMMA Gemma 3's (SentencePiece, 253 MB); without one its tests are left out. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yyjson.h>

#include "src/engine/tokenizer.h"
#include "src/format/gguf.h"
#include "tests/unit/tokenizer_vocab.h"
#include "tests/unit/suite.h"

static struct {
	const char *model_path, *golden_name;
	char golden_path[4096];
	struct tokenizer *tokenizer;
	void *table;
	yyjson_doc *golden;
} state;

static const char *srcdir(void)
{
	const char *path = getenv("srcdir");
	return path ? path : ".";
}

static void require(int ret, const struct err *err)
{
	if (ret < 0)
		ck_abort_msg("%d: %s", ret, err->text);
}

static int64_t optional_id(const struct gguf *gguf, const char *key)
{
	uint32_t id;
	return gguf_get_u32(gguf, key, &id, NULL) == 0 ? (int64_t)id : -1;
}

static bool optional_flag(const struct gguf *gguf, const char *key)
{
	bool flag;
	return gguf_get_bool(gguf, key, &flag, NULL) == 0 && flag;
}

static struct tokenizer_string *strings(const struct gguf *gguf, const char *key, uint32_t *n_out)
{
	struct gguf_string *views;
	uint64_t n;
	struct err err = {""};
	require(gguf_get_strings(gguf, key, &views, &n, &err), &err);
	struct tokenizer_string *out = calloc(n + 1, sizeof *out);
	ck_assert_ptr_nonnull(out);
	for (uint64_t i = 0; i < n; i++)
		out[i] = (struct tokenizer_string){views[i].bytes, (uint32_t)views[i].n_bytes};
	free(views);
	*n_out = (uint32_t)n;
	return out;
}

static char *text_of(const struct gguf *gguf, const char *key)
{
	struct gguf_string view;
	struct err err = {""};
	require(gguf_get_string(gguf, key, &view, &err), &err);
	return strndup(view.bytes, view.n_bytes);
}

static void build_table(const struct gguf *gguf)
{
	struct err err = {""};
	struct tokenizer_source source = {
		.bos = optional_id(gguf, "tokenizer.ggml.bos_token_id"),
		.eos = optional_id(gguf, "tokenizer.ggml.eos_token_id"),
		.eot = optional_id(gguf, "tokenizer.ggml.eot_token_id"),
		.unk = optional_id(gguf, "tokenizer.ggml.unknown_token_id"),
		.pad = optional_id(gguf, "tokenizer.ggml.padding_token_id"),
		.add_bos = optional_flag(gguf, "tokenizer.ggml.add_bos_token"),
		.add_eos = optional_flag(gguf, "tokenizer.ggml.add_eos_token"),
		.blank = optional_flag(gguf, "tokenizer.ggml.add_space_prefix") ? TOKENIZER_BLANK_EVERY
										: TOKENIZER_BLANK_NONE,
	};
	char *model = text_of(gguf, "tokenizer.ggml.model"), *pre = text_of(gguf, "tokenizer.ggml.pre");
	struct tokenizer_string *tokens = strings(gguf, "tokenizer.ggml.tokens", &source.n_tokens);
	struct tokenizer_string *merges = NULL;
	if (gguf_find(gguf, "tokenizer.ggml.merges"))
		merges = strings(gguf, "tokenizer.ggml.merges", &source.n_merges);
	float *scores = NULL;
	uint64_t n_scores = source.n_tokens;
	if (gguf_find(gguf, "tokenizer.ggml.scores"))
		require(gguf_get_f32s(gguf, "tokenizer.ggml.scores", &scores, &n_scores, &err), &err);
	ck_assert_uint_eq(n_scores, source.n_tokens);
	int32_t *types;
	uint64_t n_types, bytes;
	require(gguf_get_i32s(gguf, "tokenizer.ggml.token_type", &types, &n_types, &err), &err);
	ck_assert_uint_eq(n_types, source.n_tokens);
	source.model = model, source.pre = pre;
	source.tokens = tokens, source.merges = merges, source.types = types, source.scores = scores;
	require(vocab_table(&source, &state.table, &bytes, &err), &err);
	require(tokenizer_attach(state.table, bytes, &state.tokenizer, &err), &err);
	free(model);
	free(pre);
	free(tokens);
	free(merges);
	free(types);
	free(scores);
}

static void setup(void)
{
	snprintf(state.golden_path, sizeof state.golden_path, "%s/tests/golden/%s", srcdir(), state.golden_name);
	int fd = open(state.model_path, O_RDONLY | O_CLOEXEC);
	ck_assert_msg(fd >= 0, "%s: %s", state.model_path, strerror(errno));
	struct stat st;
	ck_assert_int_eq(fstat(fd, &st), 0);
	void *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	ck_assert_ptr_ne(file, MAP_FAILED);
	close(fd);
	struct gguf gguf;
	struct err err = {""};
	uint64_t need;
	require(gguf_parse(file, (uint64_t)st.st_size, (uint64_t)st.st_size, &gguf, &need, &err), &err);
	build_table(&gguf);
	gguf_fini(&gguf);
	munmap(file, (size_t)st.st_size);
	state.golden = yyjson_read_file(state.golden_path, 0, NULL, NULL);
	ck_assert_msg(state.golden, "%s: cannot be read", state.golden_path);
}

static void setup_smollm(void)
{
	state.model_path = getenv("WEIGHTD_TEST_MODEL");
	state.golden_name = "smollm2-135m-instruct-q4_1.json";
	setup();
}

static void setup_gemma(void)
{
	state.model_path = getenv("WEIGHTD_TEST_GEMMA");
	state.golden_name = "gemma3-270m-q4_k_m.json";
	setup();
}

static void teardown(void)
{
	yyjson_doc_free(state.golden);
	tokenizer_detach(state.tokenizer);
	free(state.table);
}

static yyjson_val *rows(const char *name)
{
	yyjson_val *array = yyjson_obj_get(yyjson_doc_get_root(state.golden), name);
	ck_assert(yyjson_is_arr(array));
	return array;
}

/* Encodes `text` and compares with the array of ids; returns the ids. */
static struct token_list check_ids(yyjson_val *text, yyjson_val *ids, bool add_special, bool parse_special)
{
	ck_assert(yyjson_is_str(text) && yyjson_is_arr(ids));
	struct token_list list = {0};
	struct err err = {""};
	require(tokenizer_encode(state.tokenizer, yyjson_get_str(text), yyjson_get_len(text), add_special,
				 parse_special, SIZE_MAX, &list, &err),
		&err);
	ck_assert_msg(list.n == yyjson_arr_size(ids), "\"%s\": %zu tokens, not %zu", yyjson_get_str(text), list.n,
		      yyjson_arr_size(ids));
	size_t i, n;
	yyjson_val *id;
	yyjson_arr_foreach(ids, i, n, id)
		ck_assert_msg(list.ids[i] == yyjson_get_uint(id), "\"%s\": token %zu is %u, not %llu",
			      yyjson_get_str(text), i, list.ids[i], (unsigned long long)yyjson_get_uint(id));
	return list;
}

/* `list` from `first` on spells the text. */
static void check_text(const struct token_list *list, size_t first, yyjson_val *text)
{
	const char *want = yyjson_get_str(text);
	size_t at = 0, n_want = yyjson_get_len(text);
	for (size_t i = first; i < list->n; i++) {
		uint32_t n_bytes;
		const char *piece = tokenizer_piece(state.tokenizer, list->ids[i], true, &n_bytes);
		ck_assert_uint_le(n_bytes, n_want - at);
		ck_assert_mem_eq(piece, want + at, n_bytes);
		at += n_bytes;
	}
	ck_assert_uint_eq(at, n_want);
}

START_TEST(texts)
{
	size_t i, n;
	yyjson_val *row;
	ck_assert_uint_gt(yyjson_arr_size(rows("tokenize")), 0);
	yyjson_arr_foreach(rows("tokenize"), i, n, row)
	{
		yyjson_val *text = yyjson_obj_get(row, "text"), *back = yyjson_obj_get(row, "detokenized");
		ck_assert(yyjson_is_str(back));
		struct token_list list = check_ids(text, yyjson_obj_get(row, "ids_parse_special"), false, true);
		check_text(&list, 0, back);
		token_list_fini(&list);
		list = check_ids(text, yyjson_obj_get(row, "ids_add_special"), true, false);
		bool has_bos = list.n && (int64_t)list.ids[0] == tokenizer_bos(state.tokenizer);
		check_text(&list, has_bos, back);
		token_list_fini(&list);
	}
}
END_TEST

START_TEST(prompts)
{
	static const char *const kinds[] = {"greedy", "chat"}; /* a base model has no chats */
	ck_assert_uint_gt(yyjson_arr_size(rows("greedy")), 0);
	for (size_t k = 0; k < 2; k++) {
		size_t i, n;
		yyjson_val *row;
		yyjson_arr_foreach(rows(kinds[k]), i, n, row)
		{
			struct token_list list =
				check_ids(yyjson_obj_get(row, "prompt"), yyjson_obj_get(row, "prompt_ids"), true, true);
			token_list_fini(&list);
		}
	}
}
END_TEST

/* What was generated is recorded as ids and as text; the ids' pieces make the text. */
START_TEST(completions)
{
	static const char *const kinds[] = {"greedy", "chat"}; /* a base model has no chats */
	ck_assert_uint_gt(yyjson_arr_size(rows("greedy")), 0);
	for (size_t k = 0; k < 2; k++) {
		size_t i, n;
		yyjson_val *row;
		yyjson_arr_foreach(rows(kinds[k]), i, n, row)
		{
			yyjson_val *tokens = yyjson_obj_get(row, "tokens"), *text = yyjson_obj_get(row, "text");
			ck_assert(yyjson_is_str(text) && yyjson_arr_size(tokens) > 0);
			struct utf8_stream stream = {0};
			char got[4096];
			size_t at = 0, j, m;
			yyjson_val *id;
			yyjson_arr_foreach(tokens, j, m, id)
			{
				uint32_t n_bytes;
				const char *piece = tokenizer_piece(state.tokenizer, (uint32_t)yyjson_get_uint(id),
								    false, &n_bytes);
				ck_assert_uint_le(at + 3 * (n_bytes + 3), sizeof got);
				at += utf8_stream_push(&stream, piece, n_bytes, got + at);
			}
			at += utf8_stream_finish(&stream, got + at);
			ck_assert_uint_eq(at, yyjson_get_len(text));
			ck_assert_mem_eq(got, yyjson_get_str(text), at);
		}
	}
}
END_TEST

static bool add_model(Suite *suite, const char *name, const char *variable, void (*set_up)(void))
{
	const char *path = getenv(variable);
	if (!path || !*path) {
		printf("left out: %s does not name the model file of %s\n", variable, name);
		return false;
	}
	TCase *tcase = tcase_create(name);
	tcase_add_unchecked_fixture(tcase, set_up, teardown);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, texts);
	tcase_add_test(tcase, prompts);
	tcase_add_test(tcase, completions);
	suite_add_tcase(suite, tcase);
	return true;
}

int main(void)
{
	Suite *suite = suite_create("tokenizer_golden");
	bool smollm = add_model(suite, "SmolLM2-135M-Instruct", "WEIGHTD_TEST_MODEL", setup_smollm);
	bool gemma = add_model(suite, "gemma-3-270m", "WEIGHTD_TEST_GEMMA", setup_gemma);
	if (smollm || gemma)
		return suite_run(suite);
	puts("skipped: no model file is named");
	srunner_free(srunner_create(suite));
	return 77;
}
