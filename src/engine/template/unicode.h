/* Properties and case mappings of characters, as Python's str methods use them. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_UNICODE_H
#define WEIGHTD_ENGINE_TEMPLATE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool unicode_is_space(uint32_t c);	 /* str.isspace, \s, what strip() strips */
bool unicode_is_word(uint32_t c);	 /* \w */
bool unicode_starts_name(uint32_t c);	 /* an identifier may begin with it */
bool unicode_continues_name(uint32_t c); /* … or have it further on */
bool unicode_is_alpha(uint32_t c);
bool unicode_is_decimal(uint32_t c);
bool unicode_is_digit(uint32_t c);
bool unicode_is_numeric(uint32_t c);
bool unicode_is_alnum(uint32_t c);
bool unicode_is_printable(uint32_t c);
bool unicode_is_lower(uint32_t c);
bool unicode_is_upper(uint32_t c);
bool unicode_is_title(uint32_t c);
bool unicode_is_cased(uint32_t c);
bool unicode_is_case_ignorable(uint32_t c);
/* 0…9, or -1 */
int unicode_decimal_value(uint32_t c);

enum unicode_case { UNICODE_LOWER, UNICODE_UPPER, UNICODE_TITLE, UNICODE_FOLD };

/* The full mapping of one character: 1…3 characters. The sigma at a word's end is the caller's business. */
size_t unicode_map(uint32_t c, enum unicode_case to, uint32_t mapped[3]);

#endif
