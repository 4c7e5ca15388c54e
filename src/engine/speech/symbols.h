/* Symbols that stand for no speech: brackets, notes and whatever else begins a "(laughs)" or a speaker's name.
 * Whisper's training data has them, a transcript wants none. */
#ifndef WEIGHTD_ENGINE_SPEECH_SYMBOLS_H
#define WEIGHTD_ENGINE_SPEECH_SYMBOLS_H

#include "src/engine/tokenizer.h"
#include "src/err.h"

/* Appends the tokens of a vocabulary that are such a symbol, alone or behind a blank, and of musical signs their first
 * token; some ids may come twice. For models that bring no list of their own; it is OpenAI's, by which those lists are
 * made. Hyphens and apostrophes stay within words and go in front of them. Errors as tokenizer_encode. */
int speech_symbols(const struct tokenizer *tokenizer, struct token_list *out, struct err *err);

#endif
