/* A request's body as a JSON document that is safe to read: well-formed UTF-8, one object, no object with the same key
 * twice (two readers would disagree on which one counts), nothing nested deeper than API_DEPTH_MAX (what is passed on
 * to a chat template is walked recursively there). */
#ifndef WEIGHTD_SRC_API_DOCUMENT_H
#define WEIGHTD_SRC_API_DOCUMENT_H

#include <stddef.h>
#include <yyjson.h>

#include "src/api/error.h"

enum { API_DEPTH_MAX = 64 };

/* 0 and a document to give to yyjson_doc_free, or -1 with a 400 in `error` (500 when out of memory). */
int api_document_read(const char *body, size_t n_bytes, yyjson_doc **out, struct api_error *error);

#endif
