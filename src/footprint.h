/* weightd --footprint: what a model would take of this machine with these settings, as JSON for `weightctl plan`: its
 * copy, what a worker has for itself, what calls take, and which copies and workers there would be.
 *
 * Nothing is loaded. The model's headers are read, by a process that is nobody's parent and gives up its privileges
 * first, and a worker's parts are made without weights to see what they cost; so the figures are of this program, this
 * CPU and these libraries, not of a formula that once fitted them. */
#ifndef WEIGHTD_FOOTPRINT_H
#define WEIGHTD_FOOTPRINT_H

#include "src/config.h"

/* `model`: a section of the settings, else a path as in one. `sysroot`: NULL, or the directory of a machine whose /proc
 * and /sys are to be planned for; the CPU's abilities and the libraries are those of this one. */
int footprint_print(const struct config *config, const char *model, const char *sysroot, FILE *out, struct err *err);

#endif
