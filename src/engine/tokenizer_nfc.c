#include "src/engine/tokenizer_nfc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { FIRST_MARK = 0x300, MAX_DECOMPOSED = 8, CLASS_SHIFT = 24, POINT_MASK = 0x1fffff };

/* --- characters ------------------------------------------------------------------------------- */

/* The character at `at` in well-formed text, and how many bytes it has. */
static uint32_t character_at(const char *at, size_t *length)
{
	const uint8_t *p = (const uint8_t *)at;
	*length = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	switch (*length) {
	case 1:
		return p[0];
	case 2:
		return (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
	case 3:
		return (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
	default:
		return (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
	}
}

/* Whether the character may become one with a character before it, or may change places with one: marks, the vowels and
 * final consonants of Hangul, and the vowels of Kirat Rai, the only letters else that do. More than needed is no harm.
 */
static bool joins(uint32_t c)
{
	if (c < FIRST_MARK)
		return false;
	if ((c >= 0x1160 && c <= 0x11ff) || (c >= 0x16d63 && c <= 0x16d67))
		return true;
	utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
	return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

static bool is_hangul_syllable(uint32_t c)
{
	return c >= 0xac00 && c <= 0xd7a3;
}

/* The canonical decomposition in full; a character that has none is its own. Returns how many. */
static size_t decompose(uint32_t c, utf8proc_int32_t out[MAX_DECOMPOSED])
{
	int boundary = 0;
	utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, out, MAX_DECOMPOSED,
						     UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &boundary);
	if (n < 1 || n > MAX_DECOMPOSED) {
		out[0] = (utf8proc_int32_t)c;
		return 1;
	}
	return (size_t)n;
}

/* Composes the characters of `points`; returns how many are left. */
static size_t compose(utf8proc_int32_t *points, size_t n)
{
	utf8proc_ssize_t left =
		utf8proc_normalize_utf32(points, (utf8proc_ssize_t)n, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
	return left < 1 ? n : (size_t)left;
}

/* A character that stays as it is and never joins one before it. */
static bool is_settled(uint32_t c)
{
	utf8proc_int32_t points[MAX_DECOMPOSED];
	if (c < FIRST_MARK || is_hangul_syllable(c))
		return true;
	if (joins(c))
		return false;
	size_t n = decompose(c, points);
	return compose(points, n) == 1 && points[0] == (utf8proc_int32_t)c;
}

/* Whether a part begins with this character. */
static bool begins_part(uint32_t c)
{
	utf8proc_int32_t points[MAX_DECOMPOSED];
	if (c < FIRST_MARK || is_hangul_syllable(c))
		return true;
	decompose(c, points);
	return !joins((uint32_t)points[0]);
}

static uint32_t combining_class(uint32_t point)
{
	return point >> CLASS_SHIFT;
}

/* --- room ------------------------------------------------------------------------------------- */

static int reserve_points(struct nfc *nfc, size_t n)
{
	if (nfc->points_capacity - nfc->n_points >= n)
		return 0;
	size_t capacity = nfc->points_capacity ? 2 * nfc->points_capacity : 64;
	uint32_t *points = reallocarray(nfc->points, capacity, sizeof *points);
	if (!points)
		return -ENOMEM;
	nfc->points = points;
	nfc->points_capacity = capacity;
	return 0;
}

static int reserve_copy(struct nfc *nfc, size_t n_bytes)
{
	size_t capacity = nfc->copy_capacity ? nfc->copy_capacity : 256;
	while (capacity - nfc->n_copy < n_bytes)
		capacity *= 2;
	if (capacity == nfc->copy_capacity)
		return 0;
	char *copy = realloc(nfc->copy, capacity);
	if (!copy)
		return -ENOMEM;
	nfc->copy = copy;
	nfc->copy_capacity = capacity;
	return 0;
}

/* Takes over what stays as it is, up to `end`. */
static int copy_up_to(struct nfc *nfc, const char *end)
{
	size_t n_bytes = (size_t)(end - nfc->uncopied);
	int ret = reserve_copy(nfc, n_bytes + 1); /* so that there is a copy even of nothing */
	if (ret == 0)
		memcpy(nfc->copy + nfc->n_copy, nfc->uncopied, n_bytes);
	if (ret == 0)
		nfc->n_copy += n_bytes;
	return ret;
}

/* --- the phases of a part --------------------------------------------------------------------- */

/* Looks for the next part that may have to change. */
static int scan(struct nfc *nfc)
{
	size_t length;
	uint32_t c = character_at(nfc->at, &length);
	if (begins_part(c))
		nfc->part = nfc->at;
	if (is_settled(c)) {
		nfc->at += length;
		return 0;
	}
	int ret = copy_up_to(nfc, nfc->part);
	if (ret < 0)
		return ret;
	nfc->at = nfc->part;
	nfc->n_points = 0;
	nfc->phase = NFC_DECOMPOSE;
	return 0;
}

/* Orders a run of marks by their classes; those of one class stay in their order. */
static void order_run(uint32_t *points, size_t n, uint32_t *room)
{
	size_t starts[257] = {0};
	for (size_t i = 0; i < n; i++)
		starts[combining_class(points[i]) + 1]++;
	for (size_t class = 0; class < 256; class ++)
		starts[class + 1] += starts[class];
	for (size_t i = 0; i < n; i++)
		room[starts[combining_class(points[i])]++] = points[i];
	memcpy(points, room, n * sizeof *points);
}

static int order_marks(struct nfc *nfc)
{
	uint32_t *room = NULL;
	for (size_t i = 0; i < nfc->n_points;) {
		size_t end = i;
		bool ordered = true;
		for (; end < nfc->n_points && combining_class(nfc->points[end]); end++)
			ordered &=
				end == i || combining_class(nfc->points[end]) >= combining_class(nfc->points[end - 1]);
		if (!ordered && !room) {
			room = malloc(nfc->n_points * sizeof *room);
			if (!room)
				return -ENOMEM;
		}
		if (!ordered)
			order_run(nfc->points + i, end - i, room);
		i = end + (end == i);
	}
	free(room);
	return 0;
}

/* Takes one more character into the part, or ends it. */
static int gather(struct nfc *nfc)
{
	utf8proc_int32_t points[MAX_DECOMPOSED];
	size_t length;
	uint32_t c = nfc->at < nfc->end ? character_at(nfc->at, &length) : 0;
	if (nfc->at == nfc->end || (nfc->at != nfc->part && begins_part(c))) {
		nfc->uncopied = nfc->part = nfc->at;
		nfc->n_read = nfc->n_kept = nfc->starter = 0;
		nfc->phase = NFC_COMPOSE;
		return order_marks(nfc);
	}
	int ret = reserve_points(nfc, MAX_DECOMPOSED);
	if (ret < 0)
		return ret;
	size_t n = decompose(c, points);
	for (size_t i = 0; i < n; i++) {
		uint32_t class = (uint32_t)utf8proc_get_property(points[i])->combining_class;
		nfc->points[nfc->n_points++] = (uint32_t)points[i] | class << CLASS_SHIFT;
	}
	nfc->at += length;
	return 0;
}

/* Joins one more character with the last starter, or keeps it. One of its class or a higher one between them is in its
 * way. */
static void join_one(struct nfc *nfc)
{
	if (nfc->n_read == nfc->n_points) {
		nfc->n_points = nfc->n_kept;
		nfc->n_read = 0;
		nfc->phase = NFC_WRITE;
		return;
	}
	uint32_t point = nfc->points[nfc->n_read++], class = combining_class(point);
	bool starter = nfc->n_kept && !combining_class(nfc->points[nfc->starter]);
	bool next_to_it = nfc->starter + 1 == nfc->n_kept;
	if (starter && (next_to_it || combining_class(nfc->points[nfc->n_kept - 1]) < class)) {
		utf8proc_int32_t pair[2] = {(utf8proc_int32_t)(nfc->points[nfc->starter] & POINT_MASK),
					    (utf8proc_int32_t)(point & POINT_MASK)};
		if (compose(pair, 2) == 1) {
			nfc->points[nfc->starter] = (uint32_t)pair[0];
			return;
		}
	}
	if (!class)
		nfc->starter = nfc->n_kept;
	nfc->points[nfc->n_kept++] = point;
}

static int write_one(struct nfc *nfc)
{
	if (nfc->n_read == nfc->n_points) {
		nfc->phase = NFC_SCAN;
		return 0;
	}
	int ret = reserve_copy(nfc, 4);
	if (ret < 0)
		return ret;
	nfc->n_copy += (size_t)utf8proc_encode_char((utf8proc_int32_t)(nfc->points[nfc->n_read++] & POINT_MASK),
						    (utf8proc_uint8_t *)nfc->copy + nfc->n_copy);
	return 0;
}

/* --- a text ----------------------------------------------------------------------------------- */

void nfc_begin(struct nfc *nfc, const char *text, size_t n_bytes)
{
	nfc->start = nfc->at = nfc->part = nfc->uncopied = text;
	nfc->end = text + n_bytes;
	nfc->phase = NFC_SCAN;
	nfc->n_copy = nfc->n_points = 0;
}

int nfc_advance(struct nfc *nfc, size_t *work)
{
	int ret = 0;
	for (; *work && ret == 0 && (nfc->phase != NFC_SCAN || nfc->at < nfc->end); --*work) {
		if (nfc->phase == NFC_SCAN)
			ret = scan(nfc);
		else if (nfc->phase == NFC_DECOMPOSE)
			ret = gather(nfc);
		else if (nfc->phase == NFC_COMPOSE)
			join_one(nfc);
		else
			ret = write_one(nfc);
	}
	if (ret < 0)
		return ret;
	if (nfc->phase != NFC_SCAN || nfc->at < nfc->end)
		return 1;
	if (nfc->uncopied == nfc->start)
		return 0;
	ret = copy_up_to(nfc, nfc->end);
	nfc->uncopied = nfc->end;
	return ret;
}

const char *nfc_result(const struct nfc *nfc, size_t *n_bytes)
{
	bool copied = nfc->uncopied != nfc->start;
	*n_bytes = copied ? nfc->n_copy : (size_t)(nfc->end - nfc->start);
	return copied ? nfc->copy : nfc->start;
}

void nfc_fini(struct nfc *nfc)
{
	free(nfc->points);
	free(nfc->copy);
	*nfc = (struct nfc){0};
}
