/* The one function of a fuzz target. libFuzzer's main calls it on inputs of its own making; replay.c's main calls it on
 * the files of the target's corpus, so that `make check` runs every input that was once worth keeping. */
#ifndef WEIGHTD_TESTS_FUZZ_H
#define WEIGHTD_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

#endif
