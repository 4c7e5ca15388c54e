#include "src/worker/worker_dialect.h"

#include <string.h>

static const char think_begin[] = "<think>", think_end[] = "</think>";

static const struct call_syntax syntaxes[N_TOOL_FORMATS] = {
	[TOOLS_HERMES] = {.mark = "<tool_call>", .open = "", .close = "</tool_call>", .arguments = "arguments"},
	[TOOLS_LLAMA3] = {.mark = "<|python_tag|>",
			  .bare = true,
			  .open = "",
			  .close = "",
			  .separator = ";",
			  .arguments = "parameters"},
	[TOOLS_MISTRAL] =
		{.mark = "[TOOL_CALLS]", .open = "[", .close = "]", .separator = ",", .arguments = "arguments"},
};

static bool has(const char *template, size_t n_bytes, const char *word)
{
	return n_bytes && memmem(template, n_bytes, word, strlen(word));
}

/* Qwen3-Coder and others put XML into the same tags, which is another format. */
static enum call_tool_format tools_of(const char *template, size_t n_bytes)
{
	if (has(template, n_bytes, "[TOOL_CALLS]"))
		return has(template, n_bytes, "[ARGS]") ? TOOLS_NONE : TOOLS_MISTRAL;
	if (has(template, n_bytes, "<tool_call>"))
		return has(template, n_bytes, "<function=") || has(template, n_bytes, "<arg_key>") ? TOOLS_NONE
												   : TOOLS_HERMES;
	if (has(template, n_bytes, "<|python_tag|>") ||
	    (has(template, n_bytes, "<|start_header_id|>") && has(template, n_bytes, "\"parameters\": ")))
		return TOOLS_LLAMA3;
	return TOOLS_NONE;
}

static void find_mark(struct dialect *dialect, const struct tokenizer *tokenizer)
{
	const char *mark = dialect->calls.mark;
	for (uint32_t id = 0; mark && id < tokenizer_n_tokens(tokenizer); id++) {
		uint32_t n, n_shown;
		const char *piece = tokenizer_piece(tokenizer, id, true, &n);
		if (n != strlen(mark) || memcmp(piece, mark, n) != 0)
			continue;
		tokenizer_piece(tokenizer, id, false, &n_shown);
		dialect->calls.mark_is_token = n_shown == 0;
		dialect->mark = id;
		return;
	}
}

struct dialect dialect_of(const char *template, size_t n_bytes, enum call_tool_format tools,
			  enum call_reasoning reasoning, const struct tokenizer *tokenizer)
{
	struct dialect dialect = {.tools = tools, .reasoning = reasoning};
	if (tools == TOOLS_AUTO)
		dialect.tools = tools_of(template, n_bytes);
	if (reasoning == REASONING_AUTO)
		dialect.reasoning = has(template, n_bytes, think_begin) || has(template, n_bytes, think_end)
					    ? REASONING_THINK
					    : REASONING_NONE;
	dialect.calls = syntaxes[dialect.tools];
	find_mark(&dialect, tokenizer);
	return dialect;
}

enum call_reasoning dialect_reasoning(const struct dialect *dialect, const char *prompt, size_t n_bytes)
{
	size_t n_open = sizeof think_begin - 1;
	while (n_bytes && (prompt[n_bytes - 1] == '\n' || prompt[n_bytes - 1] == ' '))
		n_bytes--;
	bool is_open = n_bytes >= n_open && memcmp(prompt + n_bytes - n_open, think_begin, n_open) == 0;
	return dialect->reasoning == REASONING_THINK && is_open ? REASONING_OPEN : dialect->reasoning;
}

void dialect_tell(const struct dialect *dialect, enum call_reasoning reasoning, struct constraint_source *source)
{
	bool thinks = reasoning == REASONING_THINK || reasoning == REASONING_OPEN;
	source->calls = &dialect->calls;
	source->reasoning_begin = reasoning == REASONING_THINK ? think_begin : NULL;
	source->reasoning_end = thinks ? think_end : NULL;
}
