/* Format of a .tree file: "#" starts a comment line; every other line is PATH, one space, one line of that file. Lines
 * of the same file follow each other in order. */
#include "tests/numa/tree.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Also called outside of a running test, so not through Check's own asserts. */
static void need(int ok, const char *path)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", path, strerror(errno));
	abort();
}

static void make_parents(char *path)
{
	for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		need(!mkdir(path, 0700) || errno == EEXIST, path);
		*slash = '/';
	}
}

/* The files that `in` tells, below a fresh directory. */
static char *unfold(FILE *in)
{
	const char *temporary = getenv("TMPDIR");
	char line[4096], *root;
	need(asprintf(&root, "%s/weightd-tree.XXXXXX", temporary ? temporary : "/tmp") > 0, "asprintf");
	need(mkdtemp(root) != NULL, root);
	while (fgets(line, sizeof line, in)) {
		if (line[0] == '#')
			continue;
		char *text = strchr(line, ' ');
		errno = EINVAL;
		need(text != NULL, line);
		*text++ = '\0';
		char file[PATH_MAX + sizeof line];
		snprintf(file, sizeof file, "%s/%s", root, line);
		make_parents(file);
		FILE *out = fopen(file, "ae");
		need(out != NULL, file);
		fputs(text, out);
		need(!fclose(out), file);
	}
	return root;
}

char *tree_unfold(const char *name)
{
	const char *srcdir = getenv("srcdir");
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/tests/numa/%s.tree", srcdir ? srcdir : ".", name);
	FILE *in = fopen(path, "re");
	need(in != NULL, path);
	char *root = unfold(in);
	fclose(in);
	return root;
}

char *tree_record(const char *root)
{
	const char *srcdir = getenv("srcdir");
	char command[PATH_MAX * 2];
	snprintf(command, sizeof command, "'%s/tests/numa/record' '%s'", srcdir ? srcdir : ".", root);
	FILE *in = popen(command, "re");
	need(in != NULL, command);
	char *again = unfold(in);
	errno = EINVAL;
	need(!pclose(in), command);
	return again;
}

void tree_write(const char *root, const char *path, const char *text)
{
	char file[PATH_MAX];
	need(snprintf(file, sizeof file, "%s%s", root, path) < (int)sizeof file, path);
	if (!text) {
		need(!unlink(file), file);
		return;
	}
	make_parents(file);
	FILE *out = fopen(file, "we");
	need(out != NULL, file);
	fputs(text, out);
	need(!fclose(out), file);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

void tree_remove(char *root)
{
	need(!nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS), root);
	free(root);
}
