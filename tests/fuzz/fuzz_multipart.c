/* One body, taken apart whole and in pieces (of as many bytes as the first byte says): both have to tell the same
 * parts, the same data and the same fault. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/multipart.h"
#include "tests/fuzz/fuzz.h"

struct story {
	uint64_t sum;  /* of all that came, in order */
	uint64_t data; /* bytes */
	uint32_t n_parts, n_ends;
	int finished;
	struct err fault;
};

static void add(struct story *story, const char *bytes, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes; i++)
		story->sum = story->sum * 31 + (unsigned char)bytes[i];
}

/* Returns 0 after a fault. */
static int give(struct multipart *m, const uint8_t *bytes, size_t n_bytes, struct story *story)
{
	struct err err = {""};
	enum multipart_event event;
	multipart_give(m, (const char *)bytes, n_bytes);
	while ((event = multipart_next(m, &err)) != MULTIPART_MORE) {
		if (event == MULTIPART_BAD) {
			if (!err.text[0])
				abort();
			story->fault = err;
			return 0;
		}
		if (event == MULTIPART_PART) {
			story->n_parts++;
			add(story, m->name, strlen(m->name) + 1);
			add(story, m->filename, strlen(m->filename) + 1);
			add(story, m->content_type, strlen(m->content_type) + 1);
		} else if (event == MULTIPART_DATA) {
			if (!m->n_data)
				abort();
			story->data += m->n_data;
			add(story, m->data, m->n_data);
		} else {
			story->n_ends++;
		}
	}
	return 1;
}

static void run(const uint8_t *bytes, size_t n_bytes, size_t piece, struct story *story)
{
	static struct multipart m;
	struct err err = {""};
	if (multipart_init(&m, "multipart/form-data; boundary=b", &err))
		abort();
	for (size_t at = 0; at < n_bytes; at += piece)
		if (!give(&m, bytes + at, n_bytes - at < piece ? n_bytes - at : piece, story))
			return;
	story->finished = multipart_finish(&m, &err) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	struct story whole = {0}, pieces = {0};
	if (n_bytes < 2)
		return 0;
	size_t piece = bytes[0] ? bytes[0] : 1;
	run(bytes + 1, n_bytes - 1, n_bytes - 1, &whole);
	run(bytes + 1, n_bytes - 1, piece, &pieces);
	/* Whole bytes of a preamble are judged at once, pieces as they come: only the place in the words may differ. */
	if (whole.sum != pieces.sum || whole.data != pieces.data || whole.n_parts != pieces.n_parts ||
	    whole.n_ends != pieces.n_ends || whole.finished != pieces.finished ||
	    !whole.fault.text[0] != !pieces.fault.text[0] || whole.data > n_bytes)
		abort();
	return 0;
}
