/* Which token may come next: what a row of logits goes through before a search looks at it.
 *
 * The order is that of CTranslate2's Whisper decoding, whose answers are the reference: repetition penalty, n-grams
 * that must not come again, suppressed tokens, tokens suppressed at the beginning, timestamps. What is ruled out
 * becomes -INFINITY. Timestamp rules are those of the model's training (Radford et al., 2022, section 2.3, and the
 * decoding rules of appendix 4.5): a text begins with a timestamp not later than the largest allowed first one;
 * timestamps come in pairs, except before the end; they never decrease; and where all timestamps together are more
 * probable than the most probable text token, one of them has to follow. */
#ifndef WEIGHTD_ENGINE_SPEECH_RULES_H
#define WEIGHTD_ENGINE_SPEECH_RULES_H

#include <stdbool.h>
#include <stdint.h>

struct speech_rules {
	uint32_t n_vocab, eot, no_timestamps, first_timestamp; /* timestamps are the ids from the first to the last */
	bool timestamps;				       /* false: text alone, no rule for timestamps */
	uint32_t max_initial_timestamp;			       /* steps of 0.02 s */
	const uint32_t *suppressed;			       /* [n_suppressed] borrowed, ids below n_vocab */
	const uint32_t *suppressed_begin; /* [n_suppressed_begin] borrowed; only for the first token */
	uint32_t n_suppressed, n_suppressed_begin;
	float repetition_penalty; /* > 0; 1: none */
	uint32_t no_repeat_ngram; /* 0: none */
};

/* Applies the rules to `logits` [n_vocab], in place. `tokens` [n_tokens], ids below n_vocab, is the text so far, whose
 * first n_prefix tokens were given and not found; n_prefix <= n_tokens. NaN becomes -INFINITY. */
void speech_rules_apply(const struct speech_rules *rules, const uint32_t *tokens, uint32_t n_tokens, uint32_t n_prefix,
			float *logits);

/* The largest of [n], NaN left out; -INFINITY for none. */
float speech_largest(const float *logits, uint32_t n);

/* log(sum(exp(logits))) of [n], NaN counting as -INFINITY; -INFINITY for none or nothing but -INFINITY. Relative error
 * of the sum below 1e-5; the same numbers give the same sum. */
double speech_log_sum_exp(const float *logits, uint32_t n);

#endif
