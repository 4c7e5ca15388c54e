/* Recorded and hand-made machines for tests: a .tree file becomes a directory of kernel files. */
#ifndef WEIGHTD_TESTS_NUMA_TREE_H
#define WEIGHTD_TESTS_NUMA_TREE_H

/* Unfolds tests/numa/<name>.tree of the source tree ($srcdir) below a fresh temporary directory; aborts the test on any
 * trouble. Returns its path (owned). */
char *tree_unfold(const char *name);
/* What tests/numa/record makes of the machine below `root`, unfolded in the same way. */
char *tree_record(const char *root);
/* Puts `text` in place of the file at `path` ("/proc/..."), NULL: takes the file away. */
void tree_write(const char *root, const char *path, const char *text);
/* Deletes the directory and frees the path. */
void tree_remove(char *root);

#endif
