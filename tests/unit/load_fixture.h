/* Loading files in tests: a model file on disk, an order for it, and what must be true afterwards. */
#ifndef WEIGHTD_TESTS_LOAD_FIXTURE_H
#define WEIGHTD_TESTS_LOAD_FIXTURE_H

#include "src/load/load.h"

/* A file without a name holding these bytes; the descriptor returns owned. */
int load_fixture_file(const void *bytes, size_t n_bytes);
/* The same in memory, for thousands of them: a disk would have to write each before O_DIRECT could read it. */
int load_fixture_memory(const void *bytes, size_t n_bytes);

/* An order for one copy of one file on this machine's first node with memory, named after the running test program and
 * process. */
void load_fixture_order(struct message_load *out);

/* The one file of such an order. */
void load_fixture_input(int fd, struct load_input *out);

/* Loads a model in several files, "part 1" to "part n", without progress; order->n_files says how many. */
int load_fixture_load_parts(const struct message_load *order, const int *fds, struct loaded *out, struct err *err);
/* Loads one file, the same way. */
int load_fixture_load(const struct message_load *order, int fd, struct loaded *out, struct err *err);

/* The number of objects of this order's instance in /dev/shm. */
unsigned load_fixture_objects(const struct message_load *order);

/* Maps a loaded copy and compares every element of every tensor with the file's own bytes: equal values, not near ones.
 * Aborts the test at the first that differs. Returns the number of rows. */
unsigned long load_fixture_compare(const struct loaded *loaded, int fd);

#endif
