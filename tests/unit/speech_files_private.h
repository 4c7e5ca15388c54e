/* Between the writers of speech models' files. */
#ifndef WEIGHTD_TESTS_SPEECH_FILES_PRIVATE_H
#define WEIGHTD_TESTS_SPEECH_FILES_PRIVATE_H

#include "tests/unit/speech_files.h"

/* The tiny model's shape. */
enum { LAYERS = 2, ENCODER_LAYERS = 3, DIM = 64, FFN = 96, BINS = 80, CONTEXT = 32, ENCODER_CONTEXT = 50, TAPS = 3 };

/* A value's code, -127 to 127: 8 bits, which all types have; the value, code / 128; and a row's scale, a power of two,
 * whose inverse float16 has. */
int speech_code(uint32_t role, uint32_t layer, uint32_t row, uint32_t col);
float speech_value(uint32_t role, uint32_t layer, uint32_t row, uint32_t col);
float speech_scale(uint32_t role, uint32_t row);

void speech_put(struct speech_file *file, const void *bytes, size_t n);
void speech_put_u(struct speech_file *file, uint32_t value, unsigned n); /* its lowest n bytes */
void speech_put_text(struct speech_file *file, const char *text);
void speech_put_value(struct speech_file *file, enum speech_type type, float value);
struct speech_file *speech_add(struct speech_files *files, const char *name, uint32_t role);
void speech_add_tokenizer(struct speech_files *files);

#endif
