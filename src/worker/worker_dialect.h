/* How a model's chats say more than text: the format of its tool calls, and whether it thinks aloud. Its chat template
 * tells, since it writes earlier turns the way the model has learnt to write new ones. */
#ifndef WEIGHTD_WORKER_DIALECT_H
#define WEIGHTD_WORKER_DIALECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/call.h"
#include "src/engine/grammar/compile.h"
#include "src/engine/tokenizer.h"

struct dialect {
	enum call_tool_format tools;   /* never TOOLS_AUTO */
	enum call_reasoning reasoning; /* NONE or THINK */
	struct call_syntax calls;      /* of tool calls; zero for TOOLS_NONE */
	uint32_t mark;		       /* the token that begins them where that is a control token: text, for once */
};

/* `tools` and `reasoning` as configured; what is AUTO follows from the template [n_bytes]. */
struct dialect dialect_of(const char *template, size_t n_bytes, enum call_tool_format tools,
			  enum call_reasoning reasoning, const struct tokenizer *tokenizer);

/* What an answer to this rendered prompt [n_bytes] begins with. */
enum call_reasoning dialect_reasoning(const struct dialect *dialect, const char *prompt, size_t n_bytes);

/* Says of a constraint's source how calls are written, and that reasoning comes before what is constrained. */
void dialect_tell(const struct dialect *dialect, enum call_reasoning reasoning, struct constraint_source *source);

#endif
