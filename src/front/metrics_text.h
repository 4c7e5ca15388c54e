/* The lines of Prometheus' text format, version 0.0.4: a family begins with its help and type, its samples follow. */
#ifndef WEIGHTD_SRC_FRONT_METRICS_TEXT_H
#define WEIGHTD_SRC_FRONT_METRICS_TEXT_H

#include <stdint.h>

#include "src/api/json.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

void metrics_text_family(struct api_json *out, const char *name, const char *type, const char *help);
/* A family of one sample without labels. */
void metrics_text_single(struct api_json *out, const char *name, const char *type, const char *help, uint64_t value);
void metrics_text_single_f64(struct api_json *out, const char *name, const char *type, const char *help, double value);
/* The value of a label, between its quotes: backslash, quote and newline are escaped, as the format asks. */
void metrics_text_label(struct api_json *out, const char *value);

#endif
