/* What front and worker say to each other over a channel: fixed structs, then bytes. Both are this program, built
 * together, but each checks every length and range it reads.
 *
 *   front -> worker   CALL_BEGIN (struct call_begin), CALL_BYTES ... until all bytes it announced came, later
 * CALL_CANCEL worker -> front   CALL_ACCEPTED, CALL_STARTED, CALL_TOKEN ..., CALL_DONE   or   CALL_RESULT ...,
 * CALL_DONE   or CALL_FAILED
 *
 * Speech (CALL_KIND_TRANSCRIBE, CALL_KIND_TRANSLATE) is as long as its audio, and is not sent at once:
 *
 *   front -> worker   CALL_BEGIN (struct call_begin, then struct call_speech), CALL_BYTES ..., later CALL_CANCEL
 *   worker -> front   CALL_ACCEPTED, CALL_STARTED, CALL_LANGUAGE, (CALL_WANT | CALL_SEGMENT) ..., CALL_DONE   or
 * CALL_FAILED
 *
 * The front keeps back what is more than CALL_SPEECH_AHEAD frames until a CALL_WANT raises that bound, so a worker
 * holds some windows of a file of hours, and no call's frames fill the ring that all calls share. Its CALL_DONE has
 * no text.
 *
 * After CALL_DONE or CALL_FAILED nothing more comes for that id. A cancelled call still ends with CALL_DONE
 * (FINISH_CANCELLED). The worker never blocks on a full ring: a call whose record does not fit waits a step. */
#ifndef WEIGHTD_CALL_H
#define WEIGHTD_CALL_H

#include <assert.h>
#include <stdint.h>

enum call_record {
	CALL_BEGIN = 1, /* call_begin */
	CALL_BYTES,	/* the next part of the call's bytes */
	CALL_CANCEL,	/* no payload */

	CALL_ACCEPTED = 64, /* call_accepted: admitted; the prompt is tokenized */
	CALL_TOKEN,	    /* call_token, then its logprob entries, piece and text */
	CALL_RESULT,	    /* part of the answer of a call that generates nothing: ids (uint32), text or float32 */
	CALL_DONE,	    /* call_done */
	CALL_FAILED,	    /* call_failed */
	CALL_STARTED,	    /* no payload: it has left the queue, its prompt is being computed */
	CALL_LANGUAGE,	    /* call_language: what is spoken, once and before all segments */
	CALL_SEGMENT,	    /* call_segment, then its tokens, words, their texts and the segment's */
	CALL_WANT,	    /* call_want */
};

enum call_kind {
	CALL_KIND_CHAT = 1,	/* bytes: messages JSON array; rendered by the model's template, then as COMPLETE */
	CALL_KIND_COMPLETE,	/* bytes: prompt text */
	CALL_KIND_COMPLETE_IDS, /* bytes: prompt token ids, uint32 */
	CALL_KIND_TOKENIZE,	/* bytes: text -> CALL_RESULT ids */
	CALL_KIND_DETOKENIZE,	/* bytes: ids -> CALL_RESULT text */
	CALL_KIND_TEMPLATE,	/* bytes: messages JSON array -> CALL_RESULT text */
	CALL_KIND_EMBED,	/* bytes: text -> CALL_RESULT its vector, float32 each */
	CALL_KIND_EMBED_IDS,	/* bytes: token ids, uint32 -> the same */
	CALL_KIND_TRANSCRIBE,	/* bytes: those of call_speech -> CALL_SEGMENT, in the language that is spoken */
	CALL_KIND_TRANSLATE,	/* the same -> CALL_SEGMENT, in English */
};

enum call_flag {
	CALL_FLAG_LOGPROBS = 1u << 0,	   /* token records carry logprobs, n_logprobs alternatives each */
	CALL_FLAG_ECHO = 1u << 1,	   /* prompt tokens are reported, too (call_token.is_prompt) */
	CALL_FLAG_IGNORE_END = 1u << 2,	   /* go on past end-of-text tokens */
	CALL_FLAG_ADD_SPECIAL = 1u << 3,   /* tokenize, complete: BOS/EOS rules */
	CALL_FLAG_PARSE_SPECIAL = 1u << 4, /* tokenize, complete: control tokens spelled in the text become ids */
	CALL_FLAG_NO_GENERATION_PROMPT = 1u << 5,
	CALL_FLAG_TOOLS = 1u << 7,	/* chat: the answer may call tools; refused if the model has no format for it */
	CALL_FLAG_PROMPT_IDS = 1u << 6, /* prompt token ids are reported (as with ECHO, but without logprobs or text) */
};

enum {
	CALL_LOGPROBS_MAX = 20,
	CALL_STOPS_MAX = 16,
	CALL_STOP_BYTES_MAX = 4096,
	CALL_BIASES_MAX = 1024,
	CALL_CONSTRAINT_BYTES_MAX = 128 << 10,
	CALL_TEMPERATURES_MAX = 8,
	CALL_BEAMS_MAX = 16,
	CALL_SPEECH_TEXT_MAX = 16 << 10, /* bytes of each text of a call_speech */
	CALL_SPEECH_AHEAD = 6000,	 /* frames, two windows, that may be sent unasked */
	CALL_SEGMENT_TOKENS_MAX = 448,	 /* tokens, and so words, of one segment */
	CALL_MEL_BINS_MAX = 128
};

/* What the answer has to be a text of. */
enum call_constraint {
	CALL_CONSTRAINT_NONE,
	CALL_CONSTRAINT_GBNF,	/* the bytes are a grammar, */
	CALL_CONSTRAINT_REGEX,	/* a regular expression, */
	CALL_CONSTRAINT_SCHEMA, /* a JSON Schema, */
	CALL_CONSTRAINT_CHOICE, /* a JSON list of texts; */
	CALL_CONSTRAINT_OBJECT, /* any JSON object: no bytes */
	CALL_CONSTRAINT_CALLS,	/* a JSON object: functions to be called, and how many (src/engine/grammar/calls.h) */
};

/* One entry of logit_bias. */
struct call_bias {
	uint32_t token;
	float value; /* -100..100 */
};

/* The bytes that follow in CALL_BYTES are, in this order: prompt_bytes, stop_bytes (each stop string ends with NUL),
 * forced_ids * 4, variables_bytes, constraint_bytes, n_biases struct call_bias. */
struct call_begin {
	uint32_t kind;	/* enum call_kind */
	uint32_t flags; /* enum call_flag */
	uint64_t seed;
	uint32_t max_tokens;			   /* UINT32_MAX: to the end of the context */
	uint32_t n_logprobs;			   /* 0..20 */
	float temperature;			   /* 0: greedy; 0..100 */
	float top_p;				   /* (0, 1], 1: off */
	float min_p;				   /* [0, 1), 0: off */
	float presence_penalty, frequency_penalty; /* -2..2 over generated tokens, 0: off */
	float repeat_penalty;			   /* 0.1..10 over prompt and generated tokens, 1: off */
	uint32_t top_k;				   /* 0: off */
	uint32_t n_stops;
	uint64_t prompt_bytes;
	uint32_t stop_bytes;
	uint32_t forced_ids; /* the answer begins with these tokens, fed one by one through decode and reported as if
				sampled */
	uint64_t variables_bytes; /* JSON object with further template variables; 0: none */
	uint32_t constraint;	  /* enum call_constraint */
	uint32_t constraint_bytes;
	uint32_t n_biases;
	uint32_t adapter;	   /* id of its bytes (struct message_adapter); 0: the model alone */
	char constraint_field[28]; /* the request field it came from, for messages; ended by NUL */
	uint32_t dimensions;	   /* embed: components of the vector; 0: all */
};
static_assert(sizeof(struct call_begin) == 128, "both sides of a channel share this");

enum call_speech_flag {
	CALL_SPEECH_WORDS = 1u << 0,		/* segments have words with their times */
	CALL_SPEECH_NO_TIMESTAMPS = 1u << 1,	/* the model is not asked for times: segments are whole windows */
	CALL_SPEECH_CONDITION = 1u << 2,	/* a window's prompt is what was heard before */
	CALL_SPEECH_SUPPRESS_BLANK = 1u << 3,	/* no segment begins with a blank */
	CALL_SPEECH_SUPPRESS_SYMBOLS = 1u << 4, /* nor has it the symbols that the model's table suppresses */
	CALL_SPEECH_FLAGS = (1u << 5) - 1
};

/* How speech is heard; follows call_begin, of which kind, seed and prompt_bytes are used and all else is 0. The call's
 * bytes (prompt_bytes in all) are the three texts, one after the other, then float32 [n_frames][mel_bins] of the whole
 * audio, 100 frames a second. Names and meanings are those of faster-whisper's transcribe(). */
struct call_speech {
	double duration; /* seconds of the audio */
	uint64_t n_frames;
	uint32_t mel_bins;  /* 1..128: the model's */
	uint32_t flags;	    /* enum call_speech_flag */
	char language[8];   /* code ("en"), ended by NUL; "": to be detected */
	uint32_t beam_size; /* 1..16, at temperature 0 */
	uint32_t best_of;   /* 1..16, above it */
	uint32_t n_temperatures;
	uint32_t no_repeat_ngram_size;		   /* 0: off */
	uint32_t max_new_tokens;		   /* of a window; 0: what fits */
	float patience;				   /* (0, 10] */
	float length_penalty;			   /* -10..10, 1: by length, 0: none */
	float repetition_penalty;		   /* 0.1..10, 1: off */
	float temperatures[CALL_TEMPERATURES_MAX]; /* [n_temperatures] 0..2 each, tried one after the other */
	float compression_ratio_threshold;	   /* 0: off; above it the next temperature is tried */
	float log_prob_threshold;		   /* -INFINITY: off; below it, too */
	float no_speech_threshold;		   /* [0, 1], 1: off; above it the window is silence */
	float prompt_reset_on_temperature;	   /* above it what was heard before is forgotten */
	float max_initial_timestamp;		   /* seconds within which a window's first segment begins */
	float hallucination_silence_threshold;	   /* seconds; 0: off */
	float language_detection_threshold;	   /* [0, 1]: as probable a language needs no further window */
	uint32_t language_detection_segments;	   /* 1..64 windows at most */
	uint32_t initial_prompt_bytes;		   /* before the first window, as if heard before */
	uint32_t prefix_bytes;			   /* the first window begins with it */
	uint32_t hotwords_bytes;		   /* in each window's prompt */
	uint32_t pad;
};
static_assert(sizeof(struct call_speech) == 144, "both sides of a channel share this");

struct call_language {
	char language[8];  /* code, ended by NUL */
	float probability; /* 1 where the call named it */
	uint32_t pad;
};

/* The front may have sent so many frames of the call; more than before. */
struct call_want {
	uint64_t frames;
};

/* Followed by n_tokens ids (uint32), n_words struct call_word, the words' bytes in the same order, then text_bytes of
 * the segment's text. Texts are whole UTF-8 sequences and begin with the blank that the model put before them. Ids
 * count from 0, starts do not go back. */
struct call_segment {
	double start, end; /* seconds */
	uint32_t id;
	uint32_t seek; /* the frame at which its window begins */
	float temperature, avg_logprob, compression_ratio, no_speech_prob;
	uint32_t n_tokens; /* 0..448 */
	uint32_t n_words;  /* 0..448 */
	uint32_t text_bytes;
	uint32_t pad;
};
static_assert(sizeof(struct call_segment) == 56, "both sides of a channel share this");

struct call_word {
	double start, end; /* seconds */
	float probability;
	uint32_t text_bytes;
};
static_assert(sizeof(struct call_word) == 24, "both sides of a channel share this");

/* How a model writes tool calls; by its template, unless configured. */
enum call_tool_format { TOOLS_AUTO, TOOLS_NONE, TOOLS_HERMES, TOOLS_LLAMA3, TOOLS_MISTRAL, N_TOOL_FORMATS };
/* What its chats say of reasoning. */
enum call_reasoning {
	REASONING_AUTO,
	REASONING_NONE,
	REASONING_THINK, /* an answer may begin with <think> */
	REASONING_OPEN,	 /* this prompt ends with <think>: the answer begins inside */
	N_REASONINGS
};

struct call_accepted {
	uint32_t prompt_tokens;
	uint16_t tool_format; /* enum call_tool_format */
	uint16_t reasoning;   /* enum call_reasoning */
};

/* Followed by n_top entries (call_logprob), then piece_bytes of the token's own bytes, then text_bytes of answer text
 * that is now final (valid UTF-8, stop strings cut; may be empty while a stop string or a UTF-8 sequence is undecided,
 * and may cover earlier tokens). Prompt tokens (is_prompt) come in order before the first generated one; row 0 has no
 * logprob. */
struct call_token {
	uint32_t id;
	uint32_t index; /* position in the whole sequence */
	uint32_t is_prompt;
	uint32_t has_logprob;
	float logprob;	/* natural log of this token's probability, before temperature, penalties and truncation */
	uint32_t n_top; /* 0..20, most probable first */
	uint32_t piece_bytes;
	uint32_t text_bytes;
};
struct call_logprob {
	uint32_t id;
	float logprob;
	uint32_t piece_bytes; /* the pieces of the alternatives follow all entries, in order, before the token's own
				 piece */
};

enum finish_reason { FINISH_STOP = 1 /* end token or stop string */, FINISH_LENGTH, FINISH_CANCELLED };

/* Followed by text_bytes: the last answer text (what was held back and no stop string took). */
struct call_done {
	uint32_t finish; /* enum finish_reason */
	uint32_t prompt_tokens;
	uint32_t generated_tokens;
	uint32_t text_bytes;
};

/* Followed by text_bytes of a message for the client. */
struct call_failed {
	uint32_t status; /* HTTP status: 400, 413, 500, 503 */
	uint32_t text_bytes;
	char param[32]; /* the request field at fault, or "" */
	char code[32];	/* OpenAI error code such as "context_length_exceeded", or "" */
};

#endif
