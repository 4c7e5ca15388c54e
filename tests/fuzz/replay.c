/* Runs a fuzz target over the files of its corpus: $srcdir/tests/fuzz/corpus/FUZZ_CORPUS, or the directory given. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

static void replay_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	struct stat st;
	if (!file || fstat(fileno(file), &st) != 0) {
		perror(path);
		exit(EXIT_FAILURE);
	}
	size_t n_bytes = (size_t)st.st_size;
	uint8_t *bytes =
		malloc(n_bytes ? n_bytes : 1); /* exactly as long as the file: a sanitizer sees every step too far */
	if (!bytes || fread(bytes, 1, n_bytes, file) != n_bytes) {
		fprintf(stderr, "%s: cannot be read\n", path);
		exit(EXIT_FAILURE);
	}
	fclose(file);
	LLVMFuzzerTestOneInput(bytes, n_bytes);
	free(bytes);
}

int main(int argc, char **argv)
{
	char directory[4096], path[8192];
	const char *srcdir = getenv("srcdir");
	snprintf(directory, sizeof directory, "%s/tests/fuzz/corpus/%s", srcdir ? srcdir : ".", FUZZ_CORPUS);
	const char *where = argc > 1 ? argv[1] : directory;
	DIR *dir = opendir(where);
	if (!dir) {
		perror(where);
		return EXIT_FAILURE;
	}
	unsigned n = 0;
	for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", where, entry->d_name);
		replay_file(path);
		n++;
	}
	closedir(dir);
	printf("%s: %u files\n", where, n);
	return n ? EXIT_SUCCESS : EXIT_FAILURE;
}
