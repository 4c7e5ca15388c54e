#include "src/engine/template/unicode.h"

#include <utf8proc.h>

#include "src/engine/template/unicode_tables.h"

#define IN_RANGES(ranges, c) in_ranges(ranges, sizeof(ranges) / sizeof *(ranges), c)

static bool in_ranges(const struct char_range *ranges, size_t n, uint32_t c)
{
	size_t low = 0, high = n;
	while (low < high) { /* the first range that ends at or behind c is in [low, high] */
		size_t middle = low + (high - low) / 2;
		if (ranges[middle].last < c)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && ranges[low].first <= c;
}

static utf8proc_category_t category(uint32_t c)
{
	return utf8proc_category((utf8proc_int32_t)c);
}

bool unicode_is_space(uint32_t c)
{
	if (c < 0x80)
		return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
	return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
	       c == 0x202f || c == 0x205f || c == 0x3000;
}

bool unicode_is_alpha(uint32_t c)
{
	utf8proc_category_t of = category(c);
	return of >= UTF8PROC_CATEGORY_LU && of <= UTF8PROC_CATEGORY_LO;
}

bool unicode_is_decimal(uint32_t c)
{
	return category(c) == UTF8PROC_CATEGORY_ND;
}

bool unicode_is_digit(uint32_t c)
{
	return unicode_is_decimal(c) || IN_RANGES(other_digits, c);
}

bool unicode_is_numeric(uint32_t c)
{
	utf8proc_category_t of = category(c);
	return (of >= UTF8PROC_CATEGORY_ND && of <= UTF8PROC_CATEGORY_NO) || IN_RANGES(other_numeric, c);
}

bool unicode_is_alnum(uint32_t c)
{
	return unicode_is_alpha(c) || unicode_is_numeric(c);
}

bool unicode_is_word(uint32_t c)
{
	if (c < 0x80)
		return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
	return unicode_is_alnum(c);
}

bool unicode_continues_name(uint32_t c)
{
	if (c < 0x80)
		return unicode_is_word(c);
	utf8proc_category_t of = category(c);
	return unicode_is_alpha(c) || of == UTF8PROC_CATEGORY_MN || of == UTF8PROC_CATEGORY_MC ||
	       of == UTF8PROC_CATEGORY_ND || of == UTF8PROC_CATEGORY_NL || of == UTF8PROC_CATEGORY_PC;
}

bool unicode_starts_name(uint32_t c)
{
	return c == '_' || unicode_is_alpha(c) || category(c) == UTF8PROC_CATEGORY_NL;
}

bool unicode_is_printable(uint32_t c)
{
	if (c == ' ')
		return true;
	switch (category(c)) {
	case UTF8PROC_CATEGORY_CN:
	case UTF8PROC_CATEGORY_CC:
	case UTF8PROC_CATEGORY_CF:
	case UTF8PROC_CATEGORY_CS:
	case UTF8PROC_CATEGORY_CO:
	case UTF8PROC_CATEGORY_ZS:
	case UTF8PROC_CATEGORY_ZL:
	case UTF8PROC_CATEGORY_ZP:
		return false;
	default:
		return true;
	}
}

bool unicode_is_lower(uint32_t c)
{
	return category(c) == UTF8PROC_CATEGORY_LL || IN_RANGES(other_lowercase, c);
}

bool unicode_is_upper(uint32_t c)
{
	return category(c) == UTF8PROC_CATEGORY_LU || IN_RANGES(other_uppercase, c);
}

bool unicode_is_title(uint32_t c)
{
	return category(c) == UTF8PROC_CATEGORY_LT;
}

bool unicode_is_cased(uint32_t c)
{
	return unicode_is_lower(c) || unicode_is_upper(c) || unicode_is_title(c);
}

bool unicode_is_case_ignorable(uint32_t c)
{
	switch (category(c)) {
	case UTF8PROC_CATEGORY_MN:
	case UTF8PROC_CATEGORY_ME:
	case UTF8PROC_CATEGORY_CF:
	case UTF8PROC_CATEGORY_LM:
	case UTF8PROC_CATEGORY_SK:
		return true;
	default:
		return IN_RANGES(other_case_ignorable, c);
	}
}

int unicode_decimal_value(uint32_t c)
{
	if (c < 0x80)
		return c >= '0' && c <= '9' ? (int)c - '0' : -1;
	if (!unicode_is_decimal(c))
		return -1;
	/* Decimal digits come in runs of ten in order. */
	uint32_t first = c;
	while (unicode_is_decimal(first - 1))
		first--;
	return (int)((c - first) % 10);
}

static const struct special_casing *find_special(uint32_t c)
{
	size_t low = 0, high = sizeof special_casing / sizeof *special_casing;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (special_casing[middle].c == c)
			return &special_casing[middle];
		if (special_casing[middle].c < c)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static size_t fold(uint32_t c, uint32_t mapped[3])
{
	utf8proc_int32_t folded[8];
	int boundclass = 0;
	utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, folded, 8, UTF8PROC_CASEFOLD, &boundclass);
	if (n < 1 || n > 3) {
		mapped[0] = c;
		return 1;
	}
	for (utf8proc_ssize_t i = 0; i < n; i++)
		mapped[i] = (uint32_t)folded[i];
	return (size_t)n;
}

size_t unicode_map(uint32_t c, enum unicode_case to, uint32_t mapped[3])
{
	if (c < 0x80) {
		bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';
		bool rising = to == UNICODE_UPPER || to == UNICODE_TITLE;
		mapped[0] = (rising && lower) || (!rising && upper) ? c ^ 0x20 : c;
		return 1;
	}
	if (to == UNICODE_FOLD)
		return fold(c, mapped);
	if (to == UNICODE_LOWER) {
		if (c == 0x130) { /* I with a dot above: the only long lower case */
			mapped[0] = 'i';
			mapped[1] = 0x307;
			return 2;
		}
		mapped[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
		return 1;
	}
	const struct special_casing *special = find_special(c);
	if (special) {
		const uint16_t *long_form = to == UNICODE_UPPER ? special->upper : special->title;
		size_t n = 0;
		for (; n < 3 && long_form[n]; n++)
			mapped[n] = long_form[n];
		return n;
	}
	mapped[0] = (uint32_t)(to == UNICODE_UPPER ? utf8proc_toupper((utf8proc_int32_t)c)
						   : utf8proc_totitle((utf8proc_int32_t)c));
	return 1;
}
