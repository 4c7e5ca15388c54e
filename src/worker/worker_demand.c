#include "src/worker/worker_demand.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static_assert((int)CALL_CONSTRAINT_OBJECT == (int)CONSTRAINT_OBJECT &&
		      (int)CALL_CONSTRAINT_GBNF == (int)CONSTRAINT_GBNF &&
		      (int)CALL_CONSTRAINT_CALLS == (int)CONSTRAINT_CALLS,
	      "the call's numbers are the engine's");

bool worker_demand_ok(const struct call_begin *b)
{
	return b->constraint <= CALL_CONSTRAINT_CALLS && b->n_biases <= CALL_BIASES_MAX &&
	       (b->constraint || !b->constraint_bytes) &&
	       (b->constraint != CALL_CONSTRAINT_CALLS || b->flags & CALL_FLAG_TOOLS) &&
	       memchr(b->constraint_field, 0, sizeof b->constraint_field);
}

uint64_t worker_demand_bytes(const struct call_begin *b)
{
	return b->constraint_bytes + (uint64_t)b->n_biases * sizeof(struct call_bias);
}

static int read_biases(const struct call_begin *b, const char *bytes, uint32_t vocab, struct generation *g,
		       struct err *err)
{
	struct sampler_bias *biases = calloc(b->n_biases, sizeof *biases);
	if (!biases)
		return err_set(err, -ENOMEM, "out of memory");
	g->biases = biases;
	for (uint32_t i = 0; i < b->n_biases; i++) {
		struct call_bias bias;
		memcpy(&bias, bytes + i * sizeof bias, sizeof bias);
		if (bias.token >= vocab)
			return err_set(err, -EINVAL, "token id %u is not below the vocabulary's size, %u", bias.token,
				       vocab);
		if (!(bias.value >= -100 && bias.value <= 100))
			return err_set(err, -EINVAL, "the bias of token %u is not from -100 to 100", bias.token);
		biases[i] = (struct sampler_bias){bias.token, bias.value};
	}
	g->sampler.biases = biases;
	g->sampler.n_biases = b->n_biases;
	return 0;
}

int worker_demand(struct constraints *constraints, const struct dialect *dialect, const struct call_begin *b,
		  const char *bytes, uint32_t vocab, enum call_reasoning reasoning, struct generation *g,
		  const char **field, struct err *err)
{
	*field = "logit_bias";
	int rc = b->n_biases ? read_biases(b, bytes + b->constraint_bytes, vocab, g, err) : 0;
	if (rc || !b->constraint)
		return rc;
	struct constraint_source source = {
		.kind = (enum constraint_kind)b->constraint, .bytes = bytes, .n_bytes = b->constraint_bytes};
	dialect_tell(dialect, reasoning, &source);
	*field = b->constraint_field;
	return constraints_matcher(constraints, &source, &g->matcher, err);
}
