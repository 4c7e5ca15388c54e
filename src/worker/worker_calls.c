#include "src/worker/worker_calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/worker/worker_demand.h"
#include "src/worker/worker_embed.h"
#include "src/worker/worker_outbox.h"

enum {
	INCOMING_MAX = 4096,		/* calls being put together at once; the front's own bound is far lower */
	INCOMING_BYTES_MAX = 256 << 20, /* bytes of one call; the front's own bound is max_request_bytes */
	ENCODE_WORK = 8192,		/* of a text in one go: half a millisecond, enough for most texts as a whole */
	RENDER_WORK = 16384,		/* of a chat template in one go: about as long, and enough for most chats */
};

/* A call until it is handed to the scheduler or answered: its bytes come, a chat becomes a text, a text tokens. */
struct incoming {
	struct incoming *next;
	uint64_t call;
	struct call_begin begin;
	uint64_t n_bytes, wanted;
	char *bytes;			      /* [wanted + 1] owned */
	struct template_rendering *rendering; /* owned: a chat's way to its prompt */
	char *rendered;			      /* [n_rendered] owned: the prompt */
	size_t n_rendered;
	enum call_reasoning reasoning;	     /* what that prompt leaves the answer to begin with */
	struct token_list tokens;	     /* owned */
	struct tokenizer_encoding *encoding; /* owned: a text's way to tokens */
};

static void send_record(struct worker_calls *calls, struct generation *g, uint32_t type, uint64_t call,
			const void *head, uint32_t head_bytes, const void *body, uint32_t body_bytes)
{
	if (!outbox_send(&calls->outboxes, calls->channel, type, call, head, head_bytes, body, body_bytes) && g)
		g->blocked = true;
}

/* --- events of the scheduler ------------------------------------------------------------------ */

/* A record body under construction; what does not fit is left out whole. */
struct body {
	uint32_t n;
	char bytes[CHANNEL_RECORD_MAX - sizeof(struct call_token)];
};

static uint32_t body_add(struct body *body, const void *bytes, uint32_t n)
{
	if (n > sizeof body->bytes - body->n)
		return 0;
	if (n)
		memcpy(body->bytes + body->n, bytes, n);
	body->n += n;
	return n;
}

static void on_started(void *arg, struct generation *g)
{
	send_record(arg, g, CALL_STARTED, g->id, NULL, 0, NULL, 0);
}

static void on_token(void *arg, struct generation *g, const struct scheduler_token *token)
{
	struct worker_calls *calls = arg;
	static struct body body; /* too large for a stack; one thread reports */
	struct call_token head = {
		.id = token->id,
		.index = token->index,
		.is_prompt = token->is_prompt,
		.has_logprob = token->has_logprob,
		.logprob = token->logprob,
		.n_top = token->n_top,
	};
	struct call_logprob top[CALL_LOGPROBS_MAX];
	const char *piece[CALL_LOGPROBS_MAX];
	uint32_t n;
	body.n = 0;
	for (uint32_t i = 0; i < token->n_top; i++) {
		piece[i] = tokenizer_piece(calls->tokenizer, token->top[i].id, true, &n);
		/* A piece longer than this would not be a token of any real vocabulary; the whole must fit one record.
		 */
		top[i] = (struct call_logprob){token->top[i].id, token->top[i].value, n <= 1024 ? n : 0};
	}
	body_add(&body, top, token->n_top * (uint32_t)sizeof *top);
	for (uint32_t i = 0; i < token->n_top; i++)
		body_add(&body, piece[i], top[i].piece_bytes);
	const char *own = tokenizer_piece(calls->tokenizer, token->id, true, &n);
	head.piece_bytes = body_add(&body, own, n);
	head.text_bytes = body_add(&body, token->text, token->n_text);
	send_record(calls, g, CALL_TOKEN, g->id, &head, sizeof head, body.bytes, body.n);
}

static void on_done(void *arg, struct generation *g, const char *text, uint32_t n_text)
{
	static const uint32_t reason[] = {[GENERATION_STOP] = FINISH_STOP,
					  [GENERATION_LENGTH] = FINISH_LENGTH,
					  [GENERATION_CANCELLED] = FINISH_CANCELLED};
	struct call_done head = {reason[g->finish], g->n_prompt, g->n_answer, n_text};
	send_record(arg, NULL, CALL_DONE, g->id, &head, sizeof head, text, n_text);
}

static void fail_call(struct worker_calls *calls, uint64_t call, uint32_t status, const char *param, const char *code,
		      const char *text)
{
	struct call_failed head = {.status = status, .text_bytes = (uint32_t)strlen(text)};
	snprintf(head.param, sizeof head.param, "%s", param);
	snprintf(head.code, sizeof head.code, "%s", code);
	send_record(calls, NULL, CALL_FAILED, call, &head, sizeof head, text, head.text_bytes);
}

static void on_failed(void *arg, struct generation *g, const char *reason)
{
	fail_call(arg, g->id, 503, "", "", reason);
}

static void send_bytes(struct worker_calls *calls, struct generation *g, uint64_t call, const void *bytes,
		       size_t n_bytes)
{
	for (size_t at = 0; at < n_bytes;) {
		size_t n = n_bytes - at < CHANNEL_RECORD_MAX ? n_bytes - at : CHANNEL_RECORD_MAX;
		send_record(calls, g, CALL_RESULT, call, NULL, 0, (const char *)bytes + at, (uint32_t)n);
		at += n;
	}
}

static void on_pooled(void *arg, struct generation *g, const float *vector, uint32_t n)
{
	send_bytes(arg, g, g->id, vector, n * sizeof *vector);
}

struct scheduler_sink worker_calls_sink(struct worker_calls *calls)
{
	return (struct scheduler_sink){.arg = calls,
				       .started = on_started,
				       .token = on_token,
				       .done = on_done,
				       .failed = on_failed,
				       .pooled = on_pooled};
}

/* --- calls that came whole -------------------------------------------------------------------- */

/* The parts of a call's bytes. */
struct parts {
	const char *prompt;
	const char *stops;
	const char *forced;
	const char *variables;
	const char *demand;
};

static struct parts split(const struct incoming *in)
{
	struct parts p = {.prompt = in->bytes};
	p.stops = p.prompt + in->begin.prompt_bytes;
	p.forced = p.stops + in->begin.stop_bytes;
	p.variables = p.forced + (size_t)in->begin.forced_ids * 4;
	p.demand = p.variables + in->begin.variables_bytes;
	return p;
}

static int begin_rendering(struct worker_calls *calls, struct incoming *in, struct err *err)
{
	struct parts p = split(in);
	if (!calls->template)
		return err_set(err, -EINVAL, "%s", calls->template_fault);
	struct template_input input = {
		.messages_json = p.prompt,
		.messages_bytes = in->begin.prompt_bytes,
		.variables_json = in->begin.variables_bytes ? p.variables : NULL,
		.variables_bytes = in->begin.variables_bytes,
		.bos_token = calls->bos_text,
		.eos_token = calls->eos_text,
		.add_generation_prompt = !(in->begin.flags & CALL_FLAG_NO_GENERATION_PROMPT),
	};
	return template_rendering_begin(calls->template, &input, NULL, &in->rendering);
}

/* Goes on with a chat's prompt. 1: there is more to do; 0: it is there; -errno. */
static int render(struct worker_calls *calls, struct incoming *in, struct err *err)
{
	int rc = in->rendering ? 0 : begin_rendering(calls, in, err);
	rc = rc ? rc : template_rendering_advance(in->rendering, RENDER_WORK, err);
	if (rc)
		return rc;
	in->rendered = template_rendering_take(in->rendering, &in->n_rendered);
	template_rendering_end(in->rendering);
	in->rendering = NULL;
	return 0;
}

/* Token ids of a call's bytes, each checked against the vocabulary. Returns owned in `out`. */
static int read_ids(const struct worker_calls *calls, const char *bytes, size_t n_ids, struct token_list *out,
		    struct err *err)
{
	uint32_t vocab = tokenizer_n_tokens(calls->tokenizer);
	out->ids = malloc((n_ids ? n_ids : 1) * sizeof *out->ids);
	if (!out->ids)
		return err_set(err, -ENOMEM, "out of memory for %zu token ids", n_ids);
	out->n = out->capacity = n_ids;
	memcpy(out->ids, bytes, n_ids * sizeof *out->ids);
	for (size_t i = 0; i < n_ids; i++)
		if (out->ids[i] >= vocab)
			return err_set(err, -EINVAL, "token id %u at index %zu is not below the vocabulary's size, %u",
				       out->ids[i], i, vocab);
	return 0;
}

static bool is_ids(const struct call_begin *b)
{
	return b->kind == CALL_KIND_COMPLETE_IDS || b->kind == CALL_KIND_DETOKENIZE || b->kind == CALL_KIND_EMBED_IDS;
}

/* Ids are tokens at once, of a text the encoding begins: of a generating call's prompt, or for a tokenize or detokenize
 * call. */
static int begin_tokens(struct worker_calls *calls, struct incoming *in, size_t max, struct err *err)
{
	const struct call_begin *b = &in->begin;
	bool add_special = b->flags & CALL_FLAG_ADD_SPECIAL, parse_special = b->flags & CALL_FLAG_PARSE_SPECIAL;
	const char *text = in->bytes;
	size_t n = b->prompt_bytes;
	if (is_ids(b))
		return read_ids(calls, text, n / 4, &in->tokens, err);
	if (b->kind == CALL_KIND_CHAT) {
		text = in->rendered;
		n = in->n_rendered;
		in->reasoning = dialect_reasoning(&calls->dialect, text, n);
		add_special = false; /* the template writes the model's special tokens itself */
		parse_special = true;
	}
	return tokenizer_encoding_begin(calls->tokenizer, text, n, add_special, parse_special, max, &in->tokens,
					&in->encoding, err);
}

static struct generation_params params_of(const struct worker_calls *calls, const struct call_begin *b)
{
	return (struct generation_params){
		.sampler =
			{
				.seed = b->seed,
				.temperature = b->temperature,
				.top_p = b->top_p,
				.min_p = b->min_p,
				.top_k = b->top_k,
				.presence_penalty = b->presence_penalty,
				.frequency_penalty = b->frequency_penalty,
				.repeat_penalty = b->repeat_penalty,
			},
		.max_tokens = b->max_tokens,
		.n_logprobs = b->n_logprobs,
		.logprobs = b->flags & CALL_FLAG_LOGPROBS,
		.echo = b->flags & CALL_FLAG_ECHO,
		.prompt_ids = b->flags & CALL_FLAG_PROMPT_IDS,
		.ignore_end = b->flags & CALL_FLAG_IGNORE_END,
		.show_mark = b->flags & CALL_FLAG_TOOLS && calls->dialect.calls.mark_is_token,
		.mark = calls->dialect.mark,
	};
}

static const char *prompt_field(uint32_t kind)
{
	return kind == CALL_KIND_CHAT || kind == CALL_KIND_TEMPLATE ? "messages"
	       : kind == CALL_KIND_TOKENIZE			    ? "content"
	       : kind == CALL_KIND_DETOKENIZE			    ? "tokens"
	       : kind >= CALL_KIND_EMBED			    ? "input"
								    : "prompt";
}

static void fail_prompt(struct worker_calls *calls, const struct incoming *in, int rc, const struct err *err)
{
	if (rc == -ENOMEM)
		fail_call(calls, in->call, 503, "", "", err->text[0] ? err->text : "out of memory");
	else
		fail_call(calls, in->call, 400, prompt_field(in->begin.kind),
			  rc == -E2BIG ? "context_length_exceeded" : "", err->text);
}

/* Its prompt's tokens are there; or rc says why they will not be. */
static void start_generation(struct worker_calls *calls, struct incoming *in, int rc, struct err *err)
{
	struct token_list forced = {0};
	struct parts p = split(in);
	uint32_t max = scheduler_prompt_max(calls->scheduler);
	if (rc == -E2BIG || (!rc && in->tokens.n > max))
		rc = err_set(err, -E2BIG,
			     "the prompt is longer than the %u tokens that fit (context_tokens and kv_bytes, less one "
			     "token of answer)",
			     max);
	if (!rc && !in->tokens.n)
		rc = err_set(err, -EINVAL,
			     "the prompt has no tokens; this model adds no beginning-of-text token of its own");
	if (rc) {
		fail_prompt(calls, in, rc, err);
		return;
	}
	if (in->begin.flags & CALL_FLAG_TOOLS && calls->dialect.tools <= TOOLS_NONE) {
		fail_call(calls, in->call, 400, "tools", "unsupported_field",
			  "this model's chat template has no format for tool calls that is known here; the model's key "
			  "tool_parser can name one");
		return;
	}
	struct adapter *adapter = in->begin.adapter ? worker_adapters_find(calls->adapters, in->begin.adapter) : NULL;
	if (in->begin.adapter && !adapter) { /* the parent keeps this from happening (src/parent/parent_adapters.c) */
		fail_call(calls, in->call, 500, "", "", "this worker does not have the call's adapter");
		return;
	}
	rc = read_ids(calls, p.forced, in->begin.forced_ids, &forced, err);
	if (rc) {
		token_list_fini(&forced);
		fail_call(calls, in->call, rc == -ENOMEM ? 503 : 400, "forced_token_ids", "", err->text);
		return;
	}
	struct generation_params params = params_of(calls, &in->begin);
	struct generation *g = generation_new(in->call, &params, in->tokens.ids, (uint32_t)in->tokens.n, forced.ids,
					      (uint32_t)forced.n, p.stops, in->begin.stop_bytes);
	in->tokens = (struct token_list){0}; /* taken */
	if (!g) {
		fail_call(calls, in->call, 503, "", "", "out of memory");
		return;
	}
	const char *field = "dimensions";
	if (worker_embeds(&in->begin))
		rc = worker_embed(&in->begin, calls->pooling, scheduler_state_dim(calls->scheduler), g, err);
	else
		rc = worker_demand(calls->constraints, &calls->dialect, &in->begin, p.demand,
				   tokenizer_n_tokens(calls->tokenizer), in->reasoning, g, &field, err);
	if (rc) {
		generation_free(g);
		fail_call(calls, in->call, rc == -ENOMEM ? 503 : 400, field, "", err->text);
		return;
	}
	g->adapter = adapter_get(adapter);
	struct call_accepted accepted = {g->n_prompt, (uint16_t)calls->dialect.tools, (uint16_t)in->reasoning};
	send_record(calls, g, CALL_ACCEPTED, g->id, &accepted, sizeof accepted, NULL, 0);
	scheduler_add(calls->scheduler, g);
}

static void send_result(struct worker_calls *calls, uint64_t call, const char *bytes, size_t n_bytes, uint32_t n_tokens)
{
	send_bytes(calls, NULL, call, bytes, n_bytes);
	struct call_done done = {FINISH_STOP, n_tokens, 0, 0};
	send_record(calls, NULL, CALL_DONE, call, &done, sizeof done, NULL, 0);
}

static void answer_tokens(struct worker_calls *calls, const struct incoming *in)
{
	const struct token_list *ids = &in->tokens;
	if (in->begin.kind == CALL_KIND_TOKENIZE) {
		send_result(calls, in->call, (const char *)ids->ids, ids->n * sizeof *ids->ids, (uint32_t)ids->n);
		return;
	}
	size_t n = 0;
	char *text = tokenizer_decode(calls->tokenizer, ids->ids, ids->n, &n);
	if (text)
		send_result(calls, in->call, text, n, (uint32_t)ids->n);
	else
		fail_call(calls, in->call, 503, "", "", "out of memory");
	free(text);
}

static bool is_computed(const struct incoming *in)
{
	return in->begin.kind == CALL_KIND_CHAT || in->begin.kind == CALL_KIND_COMPLETE ||
	       in->begin.kind == CALL_KIND_COMPLETE_IDS || worker_embeds(&in->begin);
}

static bool is_chat(const struct incoming *in)
{
	return in->begin.kind == CALL_KIND_CHAT || in->begin.kind == CALL_KIND_TEMPLATE;
}

/* The tokens are there, or rc says why not. */
static void act(struct worker_calls *calls, struct incoming *in, int rc, struct err *err)
{
	if (is_computed(in))
		start_generation(calls, in, rc, err);
	else if (rc)
		fail_prompt(calls, in, rc, err);
	else
		answer_tokens(calls, in);
}

/* Goes on with a call that is whole. True: it is dealt with. */
static bool proceed(struct worker_calls *calls, struct incoming *in)
{
	uint64_t *progress = &channel_counters(calls->channel)->progress;
	__atomic_store_n(progress, *progress + 1, __ATOMIC_RELAXED); /* this thread alone writes it */
	struct err err = {""};
	int rc = 0;
	if (is_chat(in) && !in->rendered)
		rc = render(calls, in, &err);
	if (rc < 0)
		fail_prompt(calls, in, rc, &err);
	if (rc)
		return rc < 0;
	if (in->begin.kind == CALL_KIND_TEMPLATE) {
		send_result(calls, in->call, in->rendered, in->n_rendered, 0);
		return true;
	}
	if (!in->encoding)
		rc = begin_tokens(calls, in, is_computed(in) ? scheduler_prompt_max(calls->scheduler) : SIZE_MAX, &err);
	if (!rc && in->encoding)
		rc = tokenizer_encoding_advance(in->encoding, ENCODE_WORK, &err);
	if (rc <= 0)
		act(calls, in, rc, &err);
	return rc <= 0;
}

/* --- records from the front ------------------------------------------------------------------- */

static struct incoming **find_incoming(struct worker_calls *calls, uint64_t call)
{
	struct incoming **at = &calls->incoming;
	while (*at && (*at)->call != call)
		at = &(*at)->next;
	return at;
}

static void drop_incoming(struct worker_calls *calls, struct incoming **at)
{
	struct incoming *in = *at;
	*at = in->next;
	calls->n_incoming--;
	template_rendering_end(in->rendering);
	tokenizer_encoding_end(in->encoding);
	token_list_fini(&in->tokens);
	free(in->rendered);
	free(in->bytes);
	free(in);
}

/* Ranges that the front has already checked with better words; a front that lets one through is broken. */
static bool begin_ok(const struct call_begin *b)
{
	uint64_t limit = INCOMING_BYTES_MAX;
	return b->kind >= CALL_KIND_CHAT && b->kind <= CALL_KIND_EMBED_IDS && b->prompt_bytes <= limit &&
	       b->variables_bytes <= limit && b->forced_ids <= limit / 4 &&
	       b->stop_bytes <= CALL_STOPS_MAX * (CALL_STOP_BYTES_MAX + 1) && b->n_stops <= CALL_STOPS_MAX &&
	       b->n_logprobs <= CALL_LOGPROBS_MAX && !(is_ids(b) && b->prompt_bytes % 4) && b->temperature >= 0 &&
	       b->temperature <= 100 && b->top_p > 0 && b->top_p <= 1 && b->min_p >= 0 && b->min_p < 1 &&
	       b->repeat_penalty >= 0.1f && b->repeat_penalty <= 10 && b->presence_penalty >= -2 &&
	       b->presence_penalty <= 2 && b->frequency_penalty >= -2 && b->frequency_penalty <= 2 &&
	       b->prompt_bytes + b->stop_bytes + 4 * (uint64_t)b->forced_ids + b->variables_bytes +
			       worker_demand_bytes(b) <=
		       limit &&
	       worker_demand_ok(b);
}

/* A call whose bytes are all here is acted on and forgotten, at once or, if its text is long, bit by bit. */
static void proceed_if_whole(struct worker_calls *calls, uint64_t call)
{
	struct incoming **at = find_incoming(calls, call);
	if ((*at)->n_bytes < (*at)->wanted)
		return;
	(*at)->bytes[(*at)->n_bytes] = '\0';
	if (proceed(calls, *at))
		drop_incoming(calls, at);
}

/* The first call whose prompt is on its way to tokens. */
static struct incoming **first_encoding(struct worker_calls *calls)
{
	struct incoming **at = &calls->incoming;
	while (*at && !(*at)->encoding && !(*at)->rendering)
		at = &(*at)->next;
	return at;
}

bool worker_calls_encoding(struct worker_calls *calls)
{
	return *first_encoding(calls);
}

bool worker_calls_encode(struct worker_calls *calls)
{
	struct incoming **at = first_encoding(calls);
	if (*at && proceed(calls, *at))
		drop_incoming(calls, at);
	return worker_calls_encoding(calls);
}

static int on_begin(struct worker_calls *calls, const struct channel_record *record)
{
	struct call_begin begin;
	if (record->n_bytes == sizeof begin + sizeof(struct call_speech)) { /* its bytes are passed over */
		fail_call(calls, record->call, 501, "model", "unsupported_model", "this worker hears no speech");
		return 0;
	}
	if (record->n_bytes != sizeof begin || calls->n_incoming >= INCOMING_MAX ||
	    *find_incoming(calls, record->call) || scheduler_find(calls->scheduler, record->call))
		return -EPROTO;
	memcpy(&begin, record->payload, sizeof begin);
	if (!begin_ok(&begin))
		return -EPROTO;
	struct incoming *in = calloc(1, sizeof *in);
	uint64_t wanted = begin.prompt_bytes + begin.stop_bytes + 4 * (uint64_t)begin.forced_ids +
			  begin.variables_bytes + worker_demand_bytes(&begin);
	if (in)
		in->bytes = malloc(wanted + 1);
	if (!in || !in->bytes) {
		free(in);
		fail_call(calls, record->call, 503, "", "", "out of memory");
		return 0; /* its bytes will find no call and be passed over */
	}
	in->call = record->call;
	in->begin = begin;
	in->wanted = wanted;
	*find_incoming(calls, in->call) = in; /* behind the others */
	calls->n_incoming++;
	proceed_if_whole(calls, in->call);
	return 0;
}

static int on_bytes(struct worker_calls *calls, const struct channel_record *record)
{
	struct incoming *in = *find_incoming(calls, record->call);
	if (!in)
		return 0; /* failed or cancelled while the bytes were under way */
	if (record->n_bytes > in->wanted - in->n_bytes)
		return -EPROTO;
	memcpy(in->bytes + in->n_bytes, record->payload, record->n_bytes);
	in->n_bytes += record->n_bytes;
	proceed_if_whole(calls, record->call);
	return 0;
}

static void on_cancel(struct worker_calls *calls, uint64_t call)
{
	struct incoming **at = find_incoming(calls, call);
	if (*at) {
		struct call_done done = {.finish = FINISH_CANCELLED};
		drop_incoming(calls, at);
		send_record(calls, NULL, CALL_DONE, call, &done, sizeof done, NULL, 0);
	} else {
		scheduler_cancel(calls->scheduler,
				 call); /* none: it has just ended by itself, which the front will read */
	}
}

int worker_calls_receive(struct worker_calls *calls)
{
	struct channel_record record;
	int rc;
	while ((rc = channel_read(calls->channel, &record)) == 1) {
		if (record.type == CALL_BEGIN)
			rc = on_begin(calls, &record);
		else if (record.type == CALL_BYTES)
			rc = on_bytes(calls, &record);
		else if (record.type == CALL_CANCEL)
			on_cancel(calls, record.call);
		else
			rc = -EPROTO;
		if (rc < 0)
			return rc;
		channel_next(calls->channel);
	}
	return rc < 0 ? rc : calls->channel->dead;
}

static void unblock(void *arg, uint64_t call)
{
	struct worker_calls *calls = arg;
	struct generation *g = scheduler_find(calls->scheduler, call);
	if (g)
		g->blocked = false;
}

bool worker_calls_flush(struct worker_calls *calls)
{
	return calls->outboxes && outbox_flush(&calls->outboxes, calls->channel, unblock, calls);
}

/* --- life ------------------------------------------------------------------------------------- */

static void special_text(const struct tokenizer *tokenizer, int64_t id, char *out, size_t size)
{
	uint32_t n = 0;
	const char *piece = id < 0 ? "" : tokenizer_piece(tokenizer, (uint32_t)id, true, &n);
	snprintf(out, size, "%.*s", (int)n, piece);
}

void worker_calls_init(struct worker_calls *calls, struct channel *channel, const struct tokenizer *tokenizer,
		       const struct template *template, const char *template_fault)
{
	*calls = (struct worker_calls){.channel = channel, .tokenizer = tokenizer, .template = template};
	snprintf(calls->template_fault, sizeof calls->template_fault, "%s", template_fault);
	special_text(tokenizer, tokenizer_bos(tokenizer), calls->bos_text, sizeof calls->bos_text);
	special_text(tokenizer, tokenizer_eos(tokenizer), calls->eos_text, sizeof calls->eos_text);
}

void worker_calls_fini(struct worker_calls *calls)
{
	while (calls->incoming)
		drop_incoming(calls, &calls->incoming);
	outbox_free(&calls->outboxes);
}
