/* A multipart/form-data body (RFC 7578, RFC 2046 section 5.1) taken apart as it comes: bytes in, whatever their cuts,
 * parts out. Nothing of a part is kept but its header fields, so a file of gigabytes costs as much memory as a word.
 *
 *     multipart_give(&m, bytes, n);
 *     while ((event = multipart_next(&m, &err)) != MULTIPART_MORE) ...
 *
 * What is refused that the RFCs know: nested multiparts, and transfer encodings, which RFC 7578 deprecates. */
#ifndef WEIGHTD_IO_MULTIPART_H
#define WEIGHTD_IO_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

enum {
	MULTIPART_BOUNDARY_MAX = 70, /* RFC 2046 */
	MULTIPART_HEAD_MAX = 4096,   /* bytes of one part's header fields */
	MULTIPART_NAME_MAX = 255,
	MULTIPART_PREAMBLE_MAX = 1024, /* bytes before the first part */
	MULTIPART_PARTS_MAX = 128
};

enum multipart_event {
	MULTIPART_MORE, /* all bytes given are used up */
	MULTIPART_PART, /* a part begins: name, filename, content_type, is_file */
	MULTIPART_DATA, /* data, n_data: the next of its bytes; views, valid until the next call */
	MULTIPART_PART_END,
	MULTIPART_END, /* the last part has ended; what follows is passed over */
	MULTIPART_BAD  /* err->text says what is wrong, of which part and where; every later call says so, too */
};

enum multipart_state {
	MULTIPART_IN_PREAMBLE,
	MULTIPART_BEHIND_BOUNDARY,
	MULTIPART_IN_HEAD,
	MULTIPART_IN_DATA,
	MULTIPART_IN_EPILOGUE,
	MULTIPART_FAULTY
};

/* The fields up to n_data are for reading. */
struct multipart {
	char name[MULTIPART_NAME_MAX + 1];
	char filename[MULTIPART_NAME_MAX + 1]; /* "" where it has none */
	char content_type[MULTIPART_NAME_MAX + 1];
	bool is_file;	  /* it has a filename */
	uint32_t n_parts; /* begun so far */
	uint64_t offset;  /* bytes of the body used so far */
	const char *data;
	size_t n_data;

	enum multipart_state state;
	char delimiter[4 + MULTIPART_BOUNDARY_MAX]; /* CR LF - - boundary */
	uint32_t n_delimiter, n_matched;
	uint64_t part_offset; /* where its header fields begin */
	char line[2];	      /* what came behind a boundary */
	uint32_t n_line;
	char head[MULTIPART_HEAD_MAX];
	uint32_t n_head;
	const char *bytes; /* borrows: given and not used up */
	size_t n_bytes;
	struct err fault;
};

/* Reads a Content-Type field's value. -EINVAL: it is not multipart/form-data, or without a boundary that RFC 2046
 * allows; err->text says which. */
int multipart_init(struct multipart *multipart, const char *content_type, struct err *err);

/* The body's next bytes; all that was given before has to be used up (MULTIPART_MORE). Borrowed until then. */
void multipart_give(struct multipart *multipart, const char *bytes, size_t n_bytes);
enum multipart_event multipart_next(struct multipart *multipart, struct err *err);

/* Nothing more comes: -EINVAL if it ends before its last boundary. */
int multipart_finish(const struct multipart *multipart, struct err *err);

#endif
