/* A small vocabulary and table for tests of transcriptions, the same that tests/speech/record has: 256 bytes, some
 * words, the marks, and timestamps. */
#ifndef WEIGHTD_TESTS_SPEECH_VOCABULARY_H
#define WEIGHTD_TESTS_SPEECH_VOCABULARY_H

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/speech_table.h"
#include "src/engine/tokenizer.h"

static const char *const v_words[] = {" And", " so", " my", " fellow", "ask",  " not", " \"", " (",
				      " -",   "日",  "本",  "。",      " don", " a",   "ing", " 12"};
enum { V_WORDS = sizeof v_words / sizeof *v_words };
enum {
	V_EOT = 256 + V_WORDS,
	V_SOT,
	V_EN,
	V_ZH,
	V_DE,
	V_TRANSLATE,
	V_TRANSCRIBE,
	V_SOT_LM,
	V_SOT_PREV,
	V_NO_SPEECH,
	V_NO_TIMESTAMPS,
	V_FIRST,
	V_N = V_FIRST + 1501,
	V_HEADS = 2
};

struct vocabulary {
	struct tokenizer *tokenizer;
	struct speech_table *table; /* owned */
	void *tokens;		    /* owned */
};

/* GPT-2's spelling of a byte: itself where it can be printed, else one of the characters from U+0100 on. */
static inline size_t v_spell(unsigned byte, char *out)
{
	unsigned c = byte, hidden = 0;
	for (unsigned b = 0; b <= byte; b++) {
		int plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
		if (b == byte && !plain)
			c = 256 + hidden;
		hidden += !plain;
	}
	if (c < 128) {
		out[0] = (char)c;
		return 1;
	}
	out[0] = (char)(0xc0 | c >> 6), out[1] = (char)(0x80 | (c & 63));
	return 2;
}

static inline void vocabulary_init(struct vocabulary *v)
{
	static char text[V_N][32];
	static struct tokenizer_string tokens[V_N];
	static int32_t types[V_N];
	static const struct speech_language languages[] = {{"en", V_EN}, {"zh", V_ZH}, {"de", V_DE}};
	static const uint32_t suppressed[] = {'#', '~'}, suppressed_begin[] = {' ', V_EOT};
	static const struct speech_head heads[V_HEADS] = {{0, 1}, {1, 0}};
	struct err err;
	for (uint32_t id = 0; id < V_N; id++) {
		char bytes[8], *out = text[id];
		size_t n = 0;
		bytes[0] = (char)id, bytes[1] = 0;
		if (id >= 256 && id < V_EOT)
			strcpy(bytes, v_words[id - 256]);
		for (size_t i = 0; id < V_EOT && i < (id < 256 ? 1 : strlen(bytes)); i++)
			n += v_spell((unsigned char)bytes[i], out + n);
		if (id >= V_EOT)
			n = (size_t)sprintf(out, "<|%u|>", id);
		tokens[id] = (struct tokenizer_string){out, (uint32_t)n};
		types[id] = id < V_EOT ? TOKEN_NORMAL : TOKEN_CONTROL;
	}
	const struct tokenizer_source source = {.model = "gpt2",
						.pre = "gpt-2",
						.tokens = tokens,
						.types = types,
						.n_tokens = V_N,
						.bos = -1,
						.eos = V_EOT,
						.eot = -1,
						.unk = -1,
						.pad = -1};
	uint64_t bytes;
	ck_assert_msg(!tokenizer_table_bytes(&source, &bytes, &err), "%s", err.text);
	v->tokens = aligned_alloc(64, (bytes + 63) / 64 * 64);
	memset(v->tokens, 0, (bytes + 63) / 64 * 64);
	ck_assert_msg(!tokenizer_table_build(&source, v->tokens, bytes, &err), "%s", err.text);
	ck_assert_msg(!tokenizer_attach(v->tokens, bytes, &v->tokenizer, &err), "%s", err.text);

	const struct speech_source speech = {.table = {.eot = V_EOT,
						       .sot = V_SOT,
						       .translate = V_TRANSLATE,
						       .transcribe = V_TRANSCRIBE,
						       .sot_lm = V_SOT_LM,
						       .sot_prev = V_SOT_PREV,
						       .no_speech = V_NO_SPEECH,
						       .no_timestamps = V_NO_TIMESTAMPS,
						       .first_timestamp = V_FIRST,
						       .is_multilingual = 1,
						       .n_languages = 3,
						       .n_suppressed = 2,
						       .n_suppressed_begin = 2,
						       .n_heads = V_HEADS},
					     .languages = languages,
					     .suppressed = suppressed,
					     .suppressed_begin = suppressed_begin,
					     .heads = heads};
	v->table = malloc(speech_table_bytes(&speech));
	speech_table_build(&speech, v->table);
}

static inline void vocabulary_fini(struct vocabulary *v)
{
	tokenizer_detach(v->tokenizer);
	free(v->table);
	free(v->tokens);
}

#endif
