/* The encoder alone, on a model file's vocabulary: 1 MiB of English, and of the texts that could be slow.
 *
 *   bench_tokenizer MODEL
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "src/clock.h"
#include "src/load/model_gguf.h"

enum { N_BYTES = 1 << 20 };

static struct tokenizer *load(const char *path)
{
	struct gguf gguf;
	struct model_plan plan;
	struct tokenizer *tokenizer = NULL;
	struct err err = {"cannot be read"};
	struct stat st;
	uint64_t need, bytes;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	void *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED ||
	    gguf_parse(file, (uint64_t)st.st_size, (uint64_t)st.st_size, &gguf, &need, &err) < 0 ||
	    model_gguf_plan(&gguf, &plan, &err) < 0 || tokenizer_table_bytes(&plan.tokenizer, &bytes, &err) < 0) {
		fprintf(stderr, "bench_tokenizer: %s: %s\n", path, err.text);
		return NULL;
	}
	void *table = calloc(1, bytes + 64); /* kept until the end, as the file is */
	table = (char *)table + (64 - (uintptr_t)table % 64) % 64;
	if (tokenizer_table_build(&plan.tokenizer, table, bytes, &err) < 0 ||
	    tokenizer_attach(table, bytes, &tokenizer, &err) < 0)
		fprintf(stderr, "bench_tokenizer: %s: %s\n", path, err.text);
	return tokenizer;
}

/* Seconds for N_BYTES that repeat `unit`: the best of three. */
static double measure(const struct tokenizer *tokenizer, const char *unit, size_t *n_tokens)
{
	static char text[N_BYTES];
	double best = 1e9;
	for (size_t i = 0, n = strlen(unit); i < N_BYTES; i++)
		text[i] = unit[i % n];
	for (int round = 0; round < 3; round++) {
		struct token_list list = {0};
		uint64_t start = clock_now_ns();
		if (tokenizer_encode(tokenizer, text, N_BYTES, false, true, SIZE_MAX, &list, NULL) < 0)
			abort();
		double seconds = (double)(clock_now_ns() - start) / 1e9;
		best = seconds < best ? seconds : best;
		*n_tokens = list.n;
		token_list_fini(&list);
	}
	return best;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name, *unit;
	} texts[] = {{"English",
		      "It is a truth universally acknowledged, that a single man in possession of a good fortune, "
		      "must be in want of a wife. However little known the feelings of such a man (of 30, say)...\n"},
		     {"a", "a"},
		     {".", "."},
		     {"blanks", " "},
		     {"line ends", "\n"},
		     {"blank lines", " \n"},
		     {"digits", "1234567890"},
		     {"Japanese", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8"},
		     {"malformed", "\xff"}};
	struct tokenizer *tokenizer = argc == 2 ? load(argv[1]) : NULL;
	double english = 0;
	if (!tokenizer)
		return 1;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		size_t n;
		double seconds = measure(tokenizer, texts[i].unit, &n);
		english = i ? english : seconds;
		printf("%-12s %8.1f ms/MiB %9zu tokens %6.2f of English\n", texts[i].name, seconds * 1e3, n,
		       seconds / english);
	}
	tokenizer_detach(tokenizer);
	return 0;
}
