/* A chat's answer taken apart while it grows: what the model thought, what it says, and which tools it calls.
 *
 * Models say all three in one text, each family with its own marks:
 *
 *     hermes    <tool_call>{"name": "f", "arguments": {...}}</tool_call>, any number of them (Qwen, Hermes)
 *     llama3    {"name": "f", "parameters": {...}} as the whole answer, or behind <|python_tag|>; further ones after
 * ';' mistral   [TOOL_CALLS][{"name": "f", "arguments": {...}}, ...] think     <think>...</think> in front of the
 * answer, or only its end where the prompt has opened it
 *
 * The text comes in pieces that end anywhere, so bytes that may begin a mark are held back until they do or don't. What
 * was said is a function of the text alone, never of its pieces: an answer as events has the same parts as a whole one.
 *
 *     START ──▶ TEXT ◀─────────────────────────────┐
 *       │ ▲       │ mark                           │ no further call
 *       ▼ │       ▼          {"name":…,"arguments":▼
 *     REASONING  CALL ───────▶ ARGUMENTS ─▶ REST ─▶ TAIL ──▶ (CALL)
 *                  └── members in another order: once the object is whole ──┘
 *
 * A call whose members come in the usual order shows its arguments as they come, as they are: a model may well write
 * arguments that are not JSON. Anything that looked like a call and is none is content; nothing a model said is lost
 * but white space around calls and reasoning. */
#ifndef WEIGHTD_SRC_API_SPLIT_H
#define WEIGHTD_SRC_API_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/api/json.h"
#include "src/call.h"

/* Some templates insist on ids of nine letters and digits (Mistral's), none on others. */
enum { API_CALL_ID_LENGTH = 9 };

struct api_tool_call {
	char id[API_CALL_ID_LENGTH + 1];
	struct api_json name;
	struct api_json arguments; /* bytes, since a stream took them last */
	bool sent;		   /* a stream has sent its id and name */
};

enum api_split_state {
	SPLIT_OFF, /* all text is content */
	SPLIT_START,
	SPLIT_TEXT,
	SPLIT_REASONING,
	SPLIT_CALL,
	SPLIT_ARGUMENTS,
	SPLIT_REST, /* of a call's object, behind its arguments */
	SPLIT_TAIL,
	SPLIT_DONE, /* whatever comes is dropped */
};

/* Brackets and strings of JSON, byte by byte. */
struct api_nesting {
	uint32_t depth;
	bool in_string, escaped;
};

struct api_split {
	enum api_split_state state;
	enum call_tool_format format;
	bool thinks;	      /* START: <think> may come */
	bool one_call;	      /* what follows a first call is dropped */
	bool trim;	      /* white space is dropped until something else comes */
	uint64_t salt;	      /* of the calls' ids */
	struct api_json held; /* not decided yet; owned */
	size_t object;	      /* CALL: where in `held` the object or what is to open it begins */
	bool opened;	      /* CALL: the mark or separator is complete, and for mistral the list's bracket */
	bool uneven;	      /* CALL: the members come in another order than usual */
	size_t scanned;	      /* CALL: of `held`, by `nesting` */
	struct api_nesting nesting;
	struct api_tool_call *calls; /* [n_calls] owned */
	uint32_t n_calls;
	uint32_t calls_before_text; /* before content began */
	bool said;		    /* it has */
	bool cut;		    /* the end came within a call's arguments */
	bool failed;		    /* out of memory */
};

/* Where the parts go: bytes are appended. */
struct api_split_parts {
	struct api_json *content, *reasoning;
};

void api_split_begin(struct api_split *split, enum call_tool_format format, enum call_reasoning reasoning,
		     bool one_call, uint64_t salt);
void api_split_fini(struct api_split *split);

/* The answer's next bytes: whole UTF-8 sequences. */
void api_split_feed(struct api_split *split, const char *bytes, size_t n_bytes, const struct api_split_parts *parts);
/* There is no more: what was held back goes where it belongs. */
void api_split_finish(struct api_split *split, const struct api_split_parts *parts);

#endif
