/* The languages that Whisper was trained on, by code and by English name (its tokenizer's lists). */
#ifndef WEIGHTD_SRC_API_SPEECH_LANGUAGE_H
#define WEIGHTD_SRC_API_SPEECH_LANGUAGE_H

#include <stddef.h>

/* "english" of "en"; the code itself where it is not known. */
const char *speech_language_name(const char *code);
/* The code for a code or a name [n] in any case; NULL: there is none. */
const char *speech_language_code(const char *text, size_t n);

#endif
