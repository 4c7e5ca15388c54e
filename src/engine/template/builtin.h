/* What templates can call by name: filters, tests, global functions and methods. One table each, one signature. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_BUILTIN_H
#define WEIGHTD_ENGINE_TEMPLATE_BUILTIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/engine/template/text.h"
#include "src/engine/template/value.h"

enum { BUILTIN_MAX_PARAMETERS = 6 };

struct named_value {
	const struct text *name;
	struct value value;
};

/* The arguments of a call after evaluation. */
struct call_values {
	const struct value *positional; /* [n_positional] */
	size_t n_positional;
	const struct named_value *named; /* [n_named], no name twice */
	size_t n_named;
};

/* A call of a builtin with its arguments bound to its parameters. */
struct invocation {
	const struct builtin *builtin;
	struct value self;				/* what is filtered or tested, or the object of a method */
	struct value arguments[BUILTIN_MAX_PARAMETERS]; /* in order of the parameters; VALUE_MISSING: not given */
	const struct call_values *given;		/* all of them, for variadic builtins */
};

typedef int builtin_fn(struct render *render, struct invocation *call, struct value *result);

struct builtin {
	const char *name;
	builtin_fn *run; /* NULL: Jinja or Python has it and this interpreter does not: -ENOTSUP when called */
	uint8_t n_required;
	bool variadic;					/* takes `given` as it is; arguments[] stay missing */
	const char *parameters[BUILTIN_MAX_PARAMETERS]; /* NULL ends them; "" cannot be given by name */
	/* A global function that there is only if the caller's variables have this one; what using it says otherwise.
	 */
	const char *needs, *without;
};

struct builtin_table {
	const struct builtin *builtins; /* [n] */
	size_t n;
};

/* NULL if there is no such filter or test. */
const struct builtin *builtin_filter(const struct text *name);
const struct builtin *builtin_test(const struct text *name);
const struct builtin *builtin_global(const struct text *name);
const struct builtin *builtin_in(struct builtin_table table, const struct text *name);

/* Binds the arguments and runs; `self` is VALUE_MISSING for global functions. */
int builtin_call(struct render *render, const struct builtin *builtin, struct value self,
		 const struct call_values *given, struct value *result);

/* The tables, one for each subject. */
extern const struct builtin_table filters_text, filters_sequence, filters_number, filters_lazy;
extern const struct builtin_table tests;
extern const struct builtin_table globals;
extern const struct builtin_table methods_text, methods_dict, methods_list, methods_tuple, methods_int, methods_float,
	methods_cycler;

#define BUILTIN_TABLE(array)                           \
	{                                              \
		array, sizeof(array) / sizeof *(array) \
	}

struct value cycler_current(const struct cycler *cycler);
int joiner_call(struct render *render, struct joiner *joiner, struct value *result);

#endif
