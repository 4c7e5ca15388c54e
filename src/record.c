#include "src/record.h"

#include <errno.h>
#include <string.h>

int record_read_accepted(const void *payload, size_t n_bytes, struct call_accepted *out)
{
	struct call_accepted accepted;
	if (n_bytes != sizeof accepted)
		return -EPROTO;
	memcpy(&accepted, payload, sizeof accepted);
	if (accepted.tool_format >= N_TOOL_FORMATS || accepted.reasoning >= N_REASONINGS)
		return -EPROTO;
	*out = accepted;
	return 0;
}

/* The bytes not handed out yet. */
struct rest {
	const char *bytes;
	size_t n;
};

static int take(struct rest *rest, uint32_t n, const char **out)
{
	if (n > rest->n)
		return -EPROTO;
	*out = rest->bytes;
	rest->bytes += n;
	rest->n -= n;
	return 0;
}

int record_read_token(const void *payload, size_t n_bytes, struct record_token *out)
{
	struct rest rest = {payload, n_bytes};
	struct call_token head;
	struct record_token token = {0};
	const char *at;
	if (take(&rest, sizeof head, &at))
		return -EPROTO;
	memcpy(&head, at, sizeof head);
	if (head.n_top > CALL_LOGPROBS_MAX)
		return -EPROTO;
	for (uint32_t i = 0; i < head.n_top; i++) {
		struct call_logprob entry;
		if (take(&rest, sizeof entry, &at))
			return -EPROTO;
		memcpy(&entry, at, sizeof entry);
		token.top[i] = (struct record_piece){entry.id, entry.logprob, NULL, entry.piece_bytes};
	}
	for (uint32_t i = 0; i < head.n_top; i++)
		if (take(&rest, token.top[i].n_bytes, &token.top[i].bytes))
			return -EPROTO;
	token.token = (struct record_piece){head.id, head.logprob, NULL, head.piece_bytes};
	if (take(&rest, head.piece_bytes, &token.token.bytes) || take(&rest, head.text_bytes, &token.text) || rest.n)
		return -EPROTO;
	token.index = head.index;
	token.is_prompt = head.is_prompt != 0;
	token.has_logprob = head.has_logprob != 0;
	token.n_top = head.n_top;
	token.text_bytes = head.text_bytes;
	*out = token;
	return 0;
}

int record_read_done(const void *payload, size_t n_bytes, struct record_done *out)
{
	struct call_done head;
	if (n_bytes < sizeof head)
		return -EPROTO;
	memcpy(&head, payload, sizeof head);
	if (head.text_bytes != n_bytes - sizeof head || head.finish < FINISH_STOP || head.finish > FINISH_CANCELLED)
		return -EPROTO;
	*out = (struct record_done){head.finish, head.prompt_tokens, head.generated_tokens,
				    (const char *)payload + sizeof head, head.text_bytes};
	return 0;
}

int record_read_failed(const void *payload, size_t n_bytes, struct record_failed *out)
{
	struct call_failed head;
	if (n_bytes < sizeof head)
		return -EPROTO;
	memcpy(&head, payload, sizeof head);
	if (head.text_bytes != n_bytes - sizeof head || head.status < 400 || head.status > 599)
		return -EPROTO;
	if (!memchr(head.param, 0, sizeof head.param) || !memchr(head.code, 0, sizeof head.code))
		return -EPROTO;
	*out = (struct record_failed){
		.status = (int)head.status, .text = (const char *)payload + sizeof head, .text_bytes = head.text_bytes};
	memcpy(out->param, head.param, sizeof head.param);
	memcpy(out->code, head.code, sizeof head.code);
	return 0;
}
