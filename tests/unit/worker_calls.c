/* The worker's side of a channel, with the test as the front: well-behaved, slow, and hostile. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/worker/worker_calls.h"
#include "tests/unit/tiny_model.h"
#include "tests/unit/suite.h"

static struct tiny_model *tiny;

struct rig {
	struct channel_fds fds;
	struct channel front, worker;
	struct worker_calls calls;
	struct tiny_engine engine;
};

static void rig_init(struct rig *r)
{
	memset(r, 0, sizeof *r);
	ck_assert_int_eq(channel_create(&r->fds, NULL), 0);
	ck_assert_int_eq(channel_attach(&r->fds, CHANNEL_FRONT, &r->front, NULL), 0);
	ck_assert_int_eq(channel_attach(&r->fds, CHANNEL_WORKER, &r->worker, NULL), 0);
	worker_calls_init(&r->calls, &r->worker, tiny->tokenizer, NULL, "no template here");
	struct tiny_setup setup = {
		.level = kernels_detect(),
		.numerics = kernels_numerics(kernels_detect()),
		.n_threads = 1,
		.prefill_chunk = 64,
		.max_running = 32,
		.kv_pages = 600,
		.context_tokens = 512,
		.sink = worker_calls_sink(&r->calls),
	};
	tiny_engine_init(&r->engine, tiny, &setup);
	r->calls.scheduler = r->engine.scheduler;
}

static void rig_fini(struct rig *r)
{
	scheduler_cancel_all(r->engine.scheduler);
	ck_assert_uint_eq(r->engine.kv.n_used, 0);
	worker_calls_fini(&r->calls);
	tiny_engine_fini(&r->engine);
	channel_detach(&r->front);
	channel_detach(&r->worker);
	channel_close(&r->fds);
}

static struct call_begin begin_of(uint32_t kind, size_t n_prompt)
{
	return (struct call_begin){.kind = kind,
				   .max_tokens = 20,
				   .top_p = 1,
				   .repeat_penalty = 1,
				   .prompt_bytes = n_prompt,
				   .flags = CALL_FLAG_IGNORE_END};
}

static void send_call(struct rig *r, uint64_t id, const struct call_begin *begin, const char *bytes, size_t n)
{
	ck_assert_int_eq(channel_write(&r->front, CALL_BEGIN, id, begin, sizeof *begin, NULL, 0), 0);
	for (size_t at = 0; at < n; at += 7) /* in small pieces: they must be put together */
		ck_assert_int_eq(channel_write(&r->front, CALL_BYTES, id, bytes + at,
					       n - at < 7 ? (uint32_t)(n - at) : 7, NULL, 0),
				 0);
}

/* What the front reads of one call. */
struct heard {
	char text[4096];
	uint32_t n_text, n_tokens, n_prompt, status, finish, ended;
	bool accepted, started;
};

static void listen_once(struct rig *r, struct heard heard[], uint64_t n_calls)
{
	struct channel_record record;
	int rc;
	while ((rc = channel_read(&r->front, &record)) == 1) {
		struct heard *h = &heard[record.call];
		if (record.call >= n_calls || h->ended)
			ck_abort_msg("a record of type %u for call %u", record.type, (unsigned)record.call);
		const char *bytes = record.payload;
		if (record.type == CALL_TOKEN) {
			struct call_token t;
			memcpy(&t, bytes, sizeof t);
			if (record.n_bytes <
			    sizeof t + t.n_top * sizeof(struct call_logprob) + t.piece_bytes + t.text_bytes)
				ck_abort_msg("a token record of %u bytes", record.n_bytes);
			memcpy(h->text + h->n_text, bytes + record.n_bytes - t.text_bytes, t.text_bytes);
			h->n_text += t.text_bytes;
			h->n_tokens += !t.is_prompt;
		} else if (record.type == CALL_DONE) {
			struct call_done d;
			memcpy(&d, bytes, sizeof d);
			memcpy(h->text + h->n_text, bytes + sizeof d, d.text_bytes);
			h->n_text += d.text_bytes;
			h->finish = d.finish;
			h->n_prompt = d.prompt_tokens;
			h->ended = 1;
		} else if (record.type == CALL_FAILED) {
			struct call_failed f;
			memcpy(&f, bytes, sizeof f);
			h->status = f.status;
			h->ended = 1;
		} else if (record.type == CALL_RESULT) {
			memcpy(h->text + h->n_text, bytes, record.n_bytes);
			h->n_text += record.n_bytes;
		} else if (record.type == CALL_STARTED) {
			ck_assert_msg(h->accepted && !h->started && !h->n_tokens, "a call starts once, and first");
			h->started = true;
		} else {
			ck_assert_uint_eq(record.type, CALL_ACCEPTED);
			h->accepted = true;
		}
		channel_next(&r->front);
	}
	ck_assert_int_eq(rc, 0);
}

static void run(struct rig *r, struct heard heard[], uint64_t n_calls, int listening)
{
	for (int turns = 0; turns < 20000; turns++) {
		if (worker_calls_receive(&r->calls))
			ck_abort_msg("the worker takes a good front for a bad one");
		bool encoding = worker_calls_encode(&r->calls);
		scheduler_step(r->engine.scheduler);
		bool unsent = worker_calls_flush(&r->calls), busy = encoding || scheduler_can_run(r->engine.scheduler);
		if (listening)
			listen_once(r, heard, n_calls);
		if (!busy && (!unsent || !listening))
			return;
	}
	ck_abort_msg("calls do not end");
}

START_TEST(every_kind_of_call_is_answered)
{
	struct rig r;
	static struct heard heard[11];
	memset(heard, 0, sizeof heard);
	uint32_t ids[] = {'h', 'i', 0xe4}, bad[] = {'h', TINY_VOCAB};
	struct call_begin b;
	rig_init(&r);
	b = begin_of(CALL_KIND_COMPLETE, 11), send_call(&r, 0, &b, "hello there", 11);
	b = begin_of(CALL_KIND_COMPLETE_IDS, sizeof ids), send_call(&r, 1, &b, (char *)ids, sizeof ids);
	b = begin_of(CALL_KIND_TOKENIZE, 2), send_call(&r, 2, &b, "ab", 2);
	b = begin_of(CALL_KIND_DETOKENIZE, sizeof ids), send_call(&r, 3, &b, (char *)ids, sizeof ids);
	b = begin_of(CALL_KIND_CHAT, 2), send_call(&r, 4, &b, "[]", 2);
	b = begin_of(CALL_KIND_COMPLETE_IDS, sizeof bad), send_call(&r, 5, &b, (char *)bad, sizeof bad);
	b = begin_of(CALL_KIND_COMPLETE, 0), send_call(&r, 6, &b, "", 0);
	b = begin_of(CALL_KIND_COMPLETE, 600), b.prompt_bytes = 600;
	static char longest[600];
	memset(longest, 'x', sizeof longest);
	send_call(&r, 7, &b, longest, sizeof longest);
	uint32_t dim = tiny->model.config.dim;
	b = begin_of(CALL_KIND_EMBED, 2), send_call(&r, 8, &b, "hi", 2);
	b = begin_of(CALL_KIND_EMBED_IDS, 8), b.dimensions = 3, send_call(&r, 9, &b, (char *)ids, 8);
	b = begin_of(CALL_KIND_EMBED, 2), b.dimensions = dim + 1, send_call(&r, 10, &b, "hi", 2);
	run(&r, heard, 11, 1);
	ck_assert_uint_eq(heard[0].finish, FINISH_LENGTH);
	ck_assert_uint_eq(heard[0].n_tokens, 20);
	ck_assert_uint_eq(heard[8].n_text, dim * 4);
	ck_assert(heard[8].started && heard[8].finish == FINISH_STOP && heard[8].n_prompt == 2);
	float whole[3], part[3]; /* the same text, and of its vector the beginning */
	ck_assert_uint_eq(heard[9].n_text, sizeof part);
	memcpy(whole, heard[8].text, sizeof whole);
	memcpy(part, heard[9].text, sizeof part);
	ck_assert_float_eq_tol(part[0] * whole[1], part[1] * whole[0], 1e-6f);
	ck_assert_float_eq_tol(part[0] * part[0] + part[1] * part[1] + part[2] * part[2], 1, 1e-6f);
	ck_assert_uint_eq(heard[10].status, 400);
	ck_assert_uint_eq(heard[1].n_prompt, 3);
	ck_assert_uint_eq(heard[2].n_text, 8);
	ck_assert_int_eq(memcmp(heard[2].text, "a\0\0\0b\0\0\0", 8), 0);
	ck_assert_int_eq(memcmp(heard[3].text, "hi\xef\xbf\xbd", 5), 0); /* a lone 0xe4 is not UTF-8 */
	ck_assert_uint_eq(heard[3].n_text, 5);
	for (int i = 4; i < 8; i++)
		ck_assert_uint_eq(heard[i].status, 400);
	rig_fini(&r);
}
END_TEST

START_TEST(a_front_that_does_not_read_blocks_its_calls_and_loses_nothing)
{
	enum { N = 12 };
	static struct heard quick[N], slow[N];
	memset(quick, 0, sizeof quick);
	memset(slow, 0, sizeof slow);
	for (int lazy = 0; lazy < 2; lazy++) {
		struct rig r;
		rig_init(&r);
		for (uint64_t i = 0; i < N; i++) {
			struct call_begin b = begin_of(CALL_KIND_COMPLETE, 200);
			char prompt[200];
			memset(prompt, 'a' + (int)i, sizeof prompt);
			b.max_tokens =
				200; /* with echo, 20 alternatives and their pieces: far more than the ring holds */
			b.n_logprobs = 20;
			b.flags |= CALL_FLAG_LOGPROBS | CALL_FLAG_ECHO;
			send_call(&r, i, &b, prompt, sizeof prompt);
		}
		if (lazy) {
			run(&r, slow, N, 0);
			ck_assert_uint_gt(scheduler_n_running(r.engine.scheduler), 0); /* all blocked, none lost */
		}
		run(&r, lazy ? slow : quick, N, 1);
		rig_fini(&r);
	}
	for (int i = 0; i < N; i++) {
		ck_assert_uint_eq(quick[i].finish, FINISH_LENGTH);
		ck_assert_int_eq(memcmp(&quick[i], &slow[i], sizeof quick[i]), 0);
	}
}
END_TEST

START_TEST(cancelling_at_any_moment_ends_the_call_once)
{
	enum { N = 60 };
	static struct heard heard[N];
	struct rig r;
	memset(heard, 0, sizeof heard);
	srand(5);
	rig_init(&r);
	for (uint64_t i = 0; i < N; i++) {
		struct call_begin b = begin_of(CALL_KIND_COMPLETE, 30);
		char prompt[30];
		memset(prompt, 'a' + (int)(i % 26), sizeof prompt);
		ck_assert_int_eq(channel_write(&r.front, CALL_BEGIN, i, &b, sizeof b, NULL, 0), 0);
		if (rand() % 4) /* else it is cancelled before its bytes have come */
			ck_assert_int_eq(channel_write(&r.front, CALL_BYTES, i, prompt, sizeof prompt, NULL, 0), 0);
		for (int steps = rand() % 3; steps > 0; steps--) {
			ck_assert_int_eq(worker_calls_receive(&r.calls), 0);
			scheduler_step(r.engine.scheduler);
			listen_once(&r, heard, N);
		}
		uint64_t victim = (uint64_t)rand() % (i + 1);
		if (!heard[victim].ended)
			channel_write(&r.front, CALL_CANCEL, victim, NULL, 0, NULL, 0);
	}
	for (uint64_t i = 0; i < N; i++)
		if (!heard[i].ended)
			channel_write(&r.front, CALL_CANCEL, i, NULL, 0, NULL, 0);
	run(&r, heard, N, 1);
	for (int i = 0; i < N; i++)
		ck_assert_uint_eq(heard[i].ended, 1);
	ck_assert_ptr_null(r.calls.incoming);
	rig_fini(&r);
}
END_TEST

START_TEST(nonsense_is_a_protocol_error_and_never_worse)
{
	unsigned refused = 0;
	srand(11);
	for (int round = 0; round < 300; round++) {
		struct rig r;
		rig_init(&r);
		int rc = 0;
		for (int i = 0; i < 20 && !rc; i++) {
			unsigned char junk[200];
			for (size_t j = 0; j < sizeof junk; j++)
				junk[j] = (unsigned char)rand();
			struct call_begin b = begin_of((uint32_t)(rand() % 10), (size_t)(rand() % 100));
			if (rand() % 3 == 0)
				memcpy((char *)&b + rand() % (int)(sizeof b - 7), junk, 8);
			uint32_t type = (uint32_t)(rand() % 6),
				 n = (uint32_t)(rand() % 3 ? sizeof b : (size_t)rand() % 200);
			const void *payload = rand() % 4 ? (const void *)&b : junk;
			if (n > sizeof b)
				payload = junk;
			channel_write(&r.front, type, (uint64_t)(rand() % 4), payload, n, NULL, 0);
			rc = worker_calls_receive(&r.calls);
			scheduler_step(r.engine.scheduler);
			struct channel_record record;
			while (channel_read(&r.front, &record) == 1)
				channel_next(&r.front);
		}
		ck_assert(rc == 0 || rc == -EPROTO);
		refused += rc == -EPROTO;
		rig_fini(&r);
	}
	ck_assert_uint_gt(refused, 200);
}
END_TEST

/* A text that takes many slices holds nobody up, can be cancelled on its way, and shows that the worker lives. */
START_TEST(long_texts_become_tokens_in_slices)
{
	enum { LONG = 60000 };
	static char text[LONG];
	static struct heard heard[3];
	struct rig r;
	memset(heard, 0, sizeof heard);
	memset(text, 'x', sizeof text); /* a single word, far longer than the context */
	rig_init(&r);
	const uint64_t *progress = &channel_counters(&r.front)->progress;
	struct call_begin b = begin_of(CALL_KIND_COMPLETE, LONG);
	for (uint64_t i = 0; i < 2; i++) {
		ck_assert_int_eq(channel_write(&r.front, CALL_BEGIN, i, &b, sizeof b, NULL, 0), 0);
		ck_assert_int_eq(channel_write(&r.front, CALL_BYTES, i, text, LONG, NULL, 0), 0);
	}
	b = begin_of(CALL_KIND_COMPLETE, 2), send_call(&r, 2, &b, "ab", 2);
	ck_assert_int_eq(worker_calls_receive(&r.calls), 0);
	ck_assert_uint_eq(scheduler_n_waiting(r.engine.scheduler), 1); /* the short one is ready, the others are not */
	ck_assert(worker_calls_encoding(&r.calls));
	ck_assert(worker_calls_encode(&r.calls));
	channel_write(&r.front, CALL_CANCEL, 0, NULL, 0, NULL, 0);
	ck_assert_int_eq(worker_calls_receive(&r.calls), 0);
	unsigned slices = 0;
	for (uint64_t before = *progress; worker_calls_encode(&r.calls); slices++, before++)
		ck_assert_uint_eq(*progress, before + 1);
	ck_assert_uint_gt(slices, 5);
	ck_assert(!worker_calls_encoding(&r.calls));
	run(&r, heard, 3, 1);
	ck_assert_uint_eq(heard[0].finish, FINISH_CANCELLED);
	ck_assert_uint_eq(heard[1].status, 400);
	ck_assert_uint_eq(heard[2].n_tokens, 20);
	ck_assert_ptr_null(r.calls.incoming);
	rig_fini(&r);
}
END_TEST

/* So does a chat that takes long to become a text; what its template has to say against it, the client reads. */
START_TEST(long_chats_are_rendered_in_slices)
{
	const char *source =
		"{% for m in messages %}{% for i in range(9000) %}{% if i > m %}{% endif %}{% endfor %}{% endfor %}"
		"{% if messages[0] == 2 %}{{ raise_exception('two') }}{% endif %}ab";
	static struct heard heard[5];
	static const char *const chats[] = {"[1,1,1,1]", "[1,1,1,2]", "[2,1,1,1]", "[1,1,1,3]"};
	struct rig r;
	struct template *template;
	struct err err = {""};
	memset(heard, 0, sizeof heard);
	rig_init(&r);
	ck_assert_int_eq(template_compile(source, strlen(source), &template, &err), 0);
	r.calls.template = template;
	const uint64_t *progress = &channel_counters(&r.front)->progress;
	for (uint64_t i = 0; i < 4; i++) {
		struct call_begin b = begin_of(i == 1 ? CALL_KIND_TEMPLATE : CALL_KIND_CHAT, strlen(chats[i]));
		send_call(&r, i, &b, chats[i], strlen(chats[i]));
	}
	struct call_begin b = begin_of(CALL_KIND_COMPLETE, 2);
	send_call(&r, 4, &b, "ab", 2);
	ck_assert_int_eq(worker_calls_receive(&r.calls), 0);
	ck_assert_uint_eq(scheduler_n_waiting(r.engine.scheduler), 1); /* the text is ready, the chats are not */
	ck_assert(worker_calls_encoding(&r.calls));
	channel_write(&r.front, CALL_CANCEL, 3, NULL, 0, NULL, 0);
	ck_assert_int_eq(worker_calls_receive(&r.calls), 0);
	unsigned slices = 0;
	for (uint64_t before = *progress; worker_calls_encode(&r.calls); slices++, before++)
		ck_assert_uint_eq(*progress, before + 1);
	ck_assert_uint_gt(slices, 10);
	run(&r, heard, 5, 1);
	ck_assert_uint_eq(heard[0].n_prompt, 2);
	ck_assert_uint_eq(heard[0].n_tokens, 20);
	ck_assert_uint_eq(heard[1].n_text, 2);
	ck_assert_int_eq(memcmp(heard[1].text, "ab", 2), 0);
	ck_assert_uint_eq(heard[2].status, 400);
	ck_assert_uint_eq(heard[3].finish, FINISH_CANCELLED);
	ck_assert_uint_eq(heard[4].n_tokens, 20);
	rig_fini(&r);
	template_free(template);
}
END_TEST

static void set_up(void)
{
	tiny = tiny_model_new(PACK_Q8_0, 9);
}

static void tear_down(void)
{
	tiny_model_free(tiny);
}

int main(void)
{
	Suite *suite = suite_create("worker_calls");
	TCase *tc = tcase_create("worker_calls");
	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, every_kind_of_call_is_answered);
	tcase_add_test(tc, long_chats_are_rendered_in_slices);
	tcase_add_test(tc, a_front_that_does_not_read_blocks_its_calls_and_loses_nothing);
	tcase_add_test(tc, cancelling_at_any_moment_ends_the_call_once);
	tcase_add_test(tc, long_texts_become_tokens_in_slices);
	tcase_add_test(tc, nonsense_is_a_protocol_error_and_never_worse);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
