#include "src/api/split.h"

#include <stdlib.h>
#include <string.h>

#include "src/api/tool_object.h"

static const char think_begin[] = "<think>", think_end[] = "</think>";

static const struct {
	const char *mark, *end; /* what begins calls, and what may end one */
	char separator;		/* before a further call; 0: that has a mark of its own */
} formats[N_TOOL_FORMATS] = {
	[TOOLS_HERMES] = {"<tool_call>", "</tool_call>", 0},
	[TOOLS_LLAMA3] = {"<|python_tag|>", NULL, ';'},
	[TOOLS_MISTRAL] = {"[TOOL_CALLS]", "]", ','},
};

void api_split_begin(struct api_split *split, enum call_tool_format format, enum call_reasoning reasoning,
		     bool one_call, uint64_t salt)
{
	bool tools = format > TOOLS_NONE, thinks = reasoning == REASONING_THINK, open = reasoning == REASONING_OPEN;
	*split = (struct api_split){
		.state = open		   ? SPLIT_REASONING
			 : tools || thinks ? SPLIT_START
					   : SPLIT_OFF,
		.format = format,
		.thinks = thinks,
		.one_call = one_call,
		.trim = open,
		.salt = salt,
	};
}

void api_split_fini(struct api_split *split)
{
	for (uint32_t i = 0; i < split->n_calls; i++) {
		api_json_fini(&split->calls[i].name);
		api_json_fini(&split->calls[i].arguments);
	}
	free(split->calls);
	api_json_fini(&split->held);
	*split = (struct api_split){0};
}

/* --- held bytes ------------------------------------------------------------------------------- */

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static size_t spaces(const struct api_split *split, size_t at)
{
	while (at < split->held.n && is_space(split->held.bytes[at]))
		at++;
	return at;
}

static size_t without_spaces_behind(const struct api_split *split, size_t end)
{
	while (end && is_space(split->held.bytes[end - 1]))
		end--;
	return end;
}

static void drop(struct api_split *split, size_t n)
{
	struct api_json *held = &split->held;
	if (n)
		memmove(held->bytes, held->bytes + n, held->n - n);
	held->n -= n;
}

static void move(struct api_split *split, size_t n, struct api_json *to)
{
	api_json_raw(to, split->held.bytes, n);
	drop(split, n);
}

/* Held bytes that are said. */
static void say(struct api_split *split, size_t n, const struct api_split_parts *parts)
{
	if (n && !split->said)
		split->calls_before_text = split->n_calls;
	split->said |= n > 0;
	move(split, n, parts->content);
}

/* How `held` goes on from `at`: 1 with this word, 0: it ends within it, -1: with something else. */
static int goes_on_with(const struct api_split *split, size_t at, const char *word)
{
	size_t n = strlen(word), left = split->held.n - at;
	if (memcmp(split->held.bytes + at, word, left < n ? left : n))
		return -1;
	return left >= n;
}

/* Where `word` begins in `held`, or where its end begins that may be the word's beginning; then *whole is false. */
static size_t find(const struct api_split *split, const char *word, bool *whole)
{
	size_t at = 0;
	for (; at < split->held.n; at++) {
		int found = goes_on_with(split, at, word);
		*whole = found == 1;
		if (found >= 0)
			return at;
	}
	*whole = false;
	return at;
}

/* --- calls ------------------------------------------------------------------------------------ */

/* Nine letters and digits from a well-mixed number (the finalizer of MurmurHash3, 64 bits). */
static void make_id(uint64_t x, char out[API_CALL_ID_LENGTH + 1])
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
	x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
	x ^= x >> 33;
	for (int i = 0; i < API_CALL_ID_LENGTH; i++, x /= 62)
		out[i] = digits[x % 62];
	out[API_CALL_ID_LENGTH] = '\0';
}

static struct api_tool_call *add_call(struct api_split *split, const char *name, size_t n_name)
{
	struct api_tool_call *grown = reallocarray(split->calls, split->n_calls + 1, sizeof *grown);
	if (!grown) {
		split->failed = true;
		return NULL;
	}
	split->calls = grown;
	struct api_tool_call *call = &grown[split->n_calls++];
	*call = (struct api_tool_call){0};
	make_id(split->salt + split->n_calls, call->id);
	api_json_raw(&call->name, name, n_name);
	return call;
}

/* The object may begin at `at` of `held`. */
static void enter_call(struct api_split *split, size_t at, bool opened)
{
	split->state = SPLIT_CALL;
	split->object = split->scanned = at;
	split->opened = opened;
	split->uneven = false;
	split->nesting = (struct api_nesting){0};
}

/* It was none: the first n held bytes are content after all. */
static bool not_a_call(struct api_split *split, size_t n, const struct api_split_parts *parts)
{
	say(split, n, parts);
	split->state = SPLIT_TEXT;
	return true;
}

/* Members in any order, once the object is whole. */
static bool take_whole_object(struct api_split *split, const struct api_split_parts *parts)
{
	while (split->scanned < split->held.n)
		if (tool_object_nest(&split->nesting, split->held.bytes[split->scanned++])) {
			const char *object = split->held.bytes + split->object;
			struct api_json name = {0}, arguments = {0};
			bool is_call = tool_object_read(object, split->scanned - split->object, &name, &arguments);
			struct api_tool_call *call = is_call ? add_call(split, name.bytes, name.n) : NULL;
			if (call)
				api_json_raw(&call->arguments, arguments.bytes, arguments.n);
			split->failed |= name.failed || arguments.failed;
			api_json_fini(&name);
			api_json_fini(&arguments);
			if (!is_call)
				return not_a_call(split, split->scanned, parts);
			drop(split, split->scanned);
			split->state = SPLIT_TAIL;
			return true;
		}
	return false;
}

static bool step_call(struct api_split *split, const struct api_split_parts *parts)
{
	size_t at = spaces(split, split->object);
	if (at == split->held.n)
		return false;
	char wanted = split->opened ? '{' : '[';
	if (split->held.bytes[at] != wanted)
		return not_a_call(split, at, parts);
	if (!split->opened) {
		enter_call(split, at + 1, true);
		return true;
	}
	split->object = at;
	if (!split->uneven) {
		struct tool_object_head head;
		int is_usual = tool_object_head(split->held.bytes + at, split->held.n - at, &head);
		if (is_usual == 0)
			return false;
		if (is_usual == 1) {
			add_call(split, head.name, head.n_name);
			drop(split, at + head.length);
			split->state = SPLIT_ARGUMENTS;
			split->nesting = (struct api_nesting){0};
			return true;
		}
		split->uneven = true;
		split->scanned = at;
	}
	return take_whole_object(split, parts);
}

/* Bytes up to the bracket that closes what `nesting` is in; *closed tells whether it came. */
static size_t nested(struct api_split *split, bool *closed)
{
	size_t n = 0;
	*closed = false;
	while (n < split->held.n && !*closed)
		*closed = tool_object_nest(&split->nesting, split->held.bytes[n++]);
	return n;
}

static bool step_arguments(struct api_split *split)
{
	bool closed;
	size_t n = nested(split, &closed);
	if (split->n_calls)
		move(split, n, &split->calls[split->n_calls - 1].arguments);
	if (closed) {
		split->state = SPLIT_REST;
		split->nesting = (struct api_nesting){.depth = 1};
	}
	return closed;
}

static bool step_rest(struct api_split *split)
{
	bool closed;
	drop(split, nested(split, &closed));
	if (closed)
		split->state = SPLIT_TAIL;
	return closed;
}

/* Behind a call: its end mark, or a separator and the next one. */
static bool step_tail(struct api_split *split)
{
	const char *end = formats[split->format].end;
	size_t at = spaces(split, 0);
	if (split->one_call) {
		split->state = SPLIT_DONE;
		return true;
	}
	if (at == split->held.n)
		return false;
	int ends = end ? goes_on_with(split, at, end) : -1;
	if (ends == 0)
		return false;
	if (formats[split->format].separator && split->held.bytes[at] == formats[split->format].separator) {
		enter_call(split, at + 1, true);
		return true;
	}
	if (ends == 1)
		drop(split, at + strlen(end));
	split->state = SPLIT_TEXT;
	return true;
}

/* --- text ------------------------------------------------------------------------------------- */

static bool step_start(struct api_split *split)
{
	if (split->trim)
		drop(split, spaces(split, 0));
	size_t at = spaces(split, 0);
	if (at == split->held.n)
		return false;
	int thinks = split->thinks ? goes_on_with(split, at, think_begin) : -1;
	if (thinks == 0)
		return false;
	if (thinks == 1) {
		drop(split, at + strlen(think_begin));
		split->state = SPLIT_REASONING;
		split->trim = true;
	} else if (split->format == TOOLS_LLAMA3 && split->held.bytes[at] == '{') {
		enter_call(split, at, true);
	} else {
		split->state = SPLIT_TEXT;
	}
	return true;
}

/* White space is held back, too: before a mark it is dropped. */
static bool step_text(struct api_split *split, const struct api_split_parts *parts)
{
	if (split->format <= TOOLS_NONE) {
		say(split, split->held.n, parts);
		return false;
	}
	const char *mark = formats[split->format].mark;
	bool whole;
	size_t at = find(split, mark, &whole), text = without_spaces_behind(split, at);
	say(split, text, parts);
	if (whole)
		enter_call(split, at - text + strlen(mark), split->format != TOOLS_MISTRAL);
	return whole;
}

static bool step_reasoning(struct api_split *split, const struct api_split_parts *parts)
{
	bool whole;
	if (split->trim)
		drop(split, spaces(split, 0));
	split->trim &= split->held.n == 0;
	size_t at = find(split, think_end, &whole), text = without_spaces_behind(split, at);
	move(split, text, parts->reasoning);
	if (!whole)
		return false;
	drop(split, at - text + strlen(think_end));
	split->state = SPLIT_START;
	split->thinks = false;
	split->trim = true;
	return true;
}

/* One step of the way; false: more bytes are needed. */
static bool step(struct api_split *split, const struct api_split_parts *parts)
{
	switch (split->state) {
	case SPLIT_START:
		return step_start(split);
	case SPLIT_TEXT:
		return step_text(split, parts);
	case SPLIT_REASONING:
		return step_reasoning(split, parts);
	case SPLIT_CALL:
		return step_call(split, parts);
	case SPLIT_ARGUMENTS:
		return step_arguments(split);
	case SPLIT_REST:
		return step_rest(split);
	case SPLIT_TAIL:
		return step_tail(split);
	case SPLIT_OFF:
	case SPLIT_DONE:
		break;
	}
	drop(split, split->held.n);
	return false;
}

void api_split_feed(struct api_split *split, const char *bytes, size_t n_bytes, const struct api_split_parts *parts)
{
	if (split->state == SPLIT_OFF) {
		api_json_raw(parts->content, bytes, n_bytes);
		return;
	}
	api_json_raw(&split->held, bytes, n_bytes);
	split->failed |= split->held.failed;
	while (!split->failed && split->held.n && step(split, parts))
		;
}

void api_split_finish(struct api_split *split, const struct api_split_parts *parts)
{
	bool blank = spaces(split, 0) == split->held.n;
	if (split->failed)
		return;
	switch (split->state) {
	case SPLIT_START:
		blank &= split->trim;
		if (!blank)
			say(split, split->held.n, parts);
		break;
	case SPLIT_TEXT:
	case SPLIT_CALL: /* cut off in the middle */
		if (!blank || !split->n_calls)
			say(split, split->held.n, parts);
		break;
	case SPLIT_REASONING:
		move(split, without_spaces_behind(split, split->held.n), parts->reasoning);
		break;
	case SPLIT_ARGUMENTS:
		split->cut = true;
		break;
	case SPLIT_TAIL: /* what there is of an end mark */
	case SPLIT_REST:
	case SPLIT_OFF:
	case SPLIT_DONE:
		break;
	}
	split->state = SPLIT_DONE;
}
