/* A worker: attaches one node's copy of a model read-only, or each of several, binds its threads to those nodes, and
 * makes answers until told to stop.
 *
 * It opens no file and no socket: segments and the channel come from the parent as descriptors. Its private memory
 * is the call arena (KV pages, batch scratch), what oneDNN generated before ready, and small tables. */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "numa/bind.h"
#include "shm/segment.h"
#include "src/clock.h"
#include "src/log.h"
#include "src/message.h"
#include "src/privilege.h"
#include "src/roles.h"
#include "src/worker/worker_bench.h"
#include "src/worker/worker_calls.h"
#include "src/worker/worker_copies.h"
#include "src/worker/worker_engine.h"
#include "src/worker/worker_pace.h"
#include "src/worker/worker_quality.h"

enum {
	TRIM_MS = 200,	    /* memory that nothing has needed for so long goes back to the kernel */
	PROGRESS_MS = 1000, /* an idle worker shows that it lives this often */
	RETRY_MS = 1,	    /* records wait for room in the ring */
	/* malloc: blocks this large are mappings of their own and gone when freed. Left alone, the C library raises the
	 * limit to the largest block it has seen and keeps such blocks from then on. */
	MMAP_THRESHOLD = 128 << 10,
};

struct worker {
	struct message_work order;
	struct worker_copies copies;
	const struct model *model; /* the first copy's, where it does not matter which; view */
	uint64_t attach_ns;	   /* what mapping, locking and opening it took */
	struct channel channel;
	struct channel_fds channel_fds;
	struct worker_counters *counters;

	struct template *template;
	struct team *team;
	struct worker_engine engine;
	struct worker_calls calls;
	struct worker_adapters adapters;
	struct pace pace;
	uint64_t trimmed_ns;
	bool locked, draining;
	struct refusals refused; /* NUMA calls */
};

/* --- start ------------------------------------------------------------------------------------ */

static int receive_part(struct worker *w, struct err *err)
{
	struct message message;
	int rc = message_receive(MESSAGE_FD, &message);
	if (rc != 1)
		return err_set(err, rc ? rc : -EPIPE, "the order is not complete");
	const struct message_part *part = message_payload(&message, sizeof *part, message.n_fds ? 1 : 0);
	if (!part || message.type != MESSAGE_PART)
		return err_set(err, -EPROTO, "message %u of the parent is not a part of the order", message.type);
	rc = worker_copies_add(&w->copies, part, message.n_fds ? message.fds[0] : -1, err);
	if (message.n_fds)
		close(message.fds[0]);
	return rc;
}

static int receive_order(struct worker *w, struct err *err)
{
	struct message message;
	int rc = message_receive(MESSAGE_FD, &message);
	if (rc != 1)
		return err_set(err, rc ? rc : -EPIPE, "no order from the parent");
	const struct message_work *order = message_payload(&message, sizeof *order, 3);
	if (!order || message.type != MESSAGE_WORK || !order->n_parts || order->n_parts > WORK_PARTS_MAX)
		return err_set(err, -EPROTO, "the parent's first message (type %u) is not a worker's order",
			       message.type);
	w->order = *order;
	w->channel_fds = (struct channel_fds){message.fds[0], message.fds[1], message.fds[2]};
	return 0;
}

static int start_team(struct worker *w, struct err *err)
{
	w->copies.keep_policy = w->order.memory_is_bound;
	return team_new(w->copies.n_threads, (int)w->order.spin, worker_copies_start_thread, &w->copies, &w->team, err);
}

/* Maps the weights and locks them. Before privileges go, because root's may be what allows the locking. Pages that may
 * be swapped out are not what was promised; but a limit may forbid it, and then status says so. */
static int attach_weights(struct worker *w, struct err *err)
{
	uint64_t begin_ns = clock_now_ns();
	int rc = 0;
	for (uint32_t i = 0; i < w->order.n_parts && !rc; i++)
		rc = receive_part(w, err);
	if (rc)
		return rc;
	int lock = w->order.lock_memory ? worker_copies_lock(&w->copies) : -EPERM;
	w->locked = !lock;
	w->attach_ns = clock_now_ns() - begin_ns;
	if (w->order.lock_memory && !w->locked)
		log_info("weights are not locked: mlock: %s (RLIMIT_MEMLOCK)", strerror(-lock));
	return 0;
}

static int open_model(struct worker *w, struct err *err)
{
	int rc = worker_copies_open(&w->copies, err);
	if (rc)
		return rc;
	w->model = w->copies.models[0];
	if (w->model->speech)
		return err_set(err, -ENOTSUP, "'%s' is a speech model, which this version loads but does not serve yet",
			       w->order.model);
	return worker_engine_attach(&w->engine, &w->order, w->model, err);
}

/* A template that can't be compiled costs the model its chat, not its service; the reason goes to every chat call. */
static void compile_template(struct worker *w, char fault[256])
{
	struct err err = {"it has no chat template, and the key chat_template of its section names none"};
	if (w->model->template_bytes &&
	    template_compile(w->model->chat_template, w->model->template_bytes, &w->template, &err))
		log_warning("chat template of '%s': %s", w->order.model, err.text);
	snprintf(fault, 256, "chat is not possible with this model: %.200s", err.text);
}

static int start(struct worker *w, struct err *err)
{
	mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
	mallopt(M_ARENA_MAX, 1); /* compute threads hardly allocate: not worth memory of their own */
	int rc = receive_order(w, err);
	/* First of all: what is touched from here on is on the node, page tables of the weights included. Where that is
	 * refused, the parent tells, once for all workers. */
	if (!rc && !w->order.memory_is_bound)
		rc = bind_process_memory(w->order.node, &w->refused, err);
	if (!rc)
		rc = attach_weights(w, err);
	if (!rc)
		rc = privilege_drop(w->order.uid, w->order.gid, err);
	if (!rc)
		rc = start_team(w, err);
	/* Of the team's threads this is the first, and has chosen as the others have, for its CPU. */
	if (!rc && !w->order.memory_is_bound)
		(void)bind_thread_memory(w->order.node, NULL);
	if (!rc)
		rc = channel_attach(&w->channel_fds, CHANNEL_WORKER, &w->channel, err);
	if (rc)
		return rc;
	w->counters = channel_counters(&w->channel);
	w->counters->locked = w->locked;
	uint64_t begin_ns = clock_now_ns();
	rc = open_model(w, err);
	if (rc)
		return rc;
	w->attach_ns += clock_now_ns() - begin_ns;
	rc = worker_engine_make(&w->engine, &w->order, w->copies.models, w->team, worker_calls_sink(&w->calls), err);
	if (rc)
		return rc;
	char fault[256];
	compile_template(w, fault);
	worker_calls_init(&w->calls, &w->channel, w->engine.tokenizer, w->template, fault);
	w->calls.scheduler = w->engine.scheduler;
	w->calls.dialect = w->engine.dialect;
	w->calls.constraints = w->engine.constraints;
	w->calls.pooling = w->order.pooling;
	w->calls.adapters = &w->adapters;
	pace_init(&w->pace, w->order.prefill_share, w->order.prefill_chunk);
	forward_watch(w->engine.forward, &w->counters->progress);
	return 0;
}

/* --- work ------------------------------------------------------------------------------------- */

/* Relaxed: each counter stands alone (shm/channel.h). */
static void count(uint64_t *counter, uint64_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

static void publish_counters(struct worker *w)
{
	struct worker_counters *c = w->counters;
	const struct scheduler_totals *t = scheduler_totals(w->engine.scheduler);
	count(&c->steps, t->steps);
	count(&c->running, scheduler_n_running(w->engine.scheduler));
	count(&c->waiting, scheduler_n_waiting(w->engine.scheduler));
	count(&c->calls, t->calls);
	count(&c->cancelled, t->cancelled);
	count(&c->failed, t->failed);
	count(&c->prompt_tokens, t->prompt_tokens);
	count(&c->generated_tokens, t->answer_tokens);
	count(&c->kv_pages, w->engine.kv.n_pages);
	count(&c->kv_pages_used, w->engine.kv.n_used);
	count(&c->arena_bytes, w->engine.arena.bytes);
	count(&c->arena_peak_bytes, w->engine.arena.peak_bytes);
	count(&c->weight_products, forward_products(w->engine.forward));
	count(&c->evicted, t->evicted);
	count(&c->replayed_tokens, t->replayed_tokens);
	count(&c->prefix_bytes, scheduler_prefix_bytes(w->engine.scheduler));
	count(&c->prefix_tokens, t->prefix_tokens);
	count(&c->progress_ns, clock_now_ns());
}

/* A new front: the calls of the old one end, and so does its channel, whose records can't be trusted any more. */
static int change_channel(struct worker *w, const int fds[3])
{
	struct channel_fds fresh = {fds[0], fds[1], fds[2]};
	struct channel channel;
	struct err err = {""};
	int rc = channel_attach(&fresh, CHANNEL_WORKER, &channel, &err);
	if (rc)
		return rc;
	scheduler_cancel_all(w->engine.scheduler);
	worker_calls_fini(&w->calls);
	uint64_t progress = w->counters->progress;
	channel_detach(&w->channel);
	channel_close(&w->channel_fds);
	w->channel_fds = fresh;
	w->channel = channel;
	channel_counters(&w->channel)->locked = w->locked;
	w->counters = channel_counters(&w->channel);
	count(&w->counters->progress, progress + 1);
	forward_watch(w->engine.forward, &w->counters->progress);
	publish_counters(w);
	count(&w->counters->ready, 1);
	return 0;
}

static bool is_empty(const struct worker *w)
{
	return !scheduler_n_running(w->engine.scheduler) && !scheduler_n_waiting(w->engine.scheduler);
}

/* Calls that come meanwhile wait. False: the parent is gone. */
static bool judge(struct worker *w, const struct message_quality *order)
{
	struct message_judged result = {0};
	if (is_empty(w))
		worker_quality(&w->engine.forward_setup, w->engine.forward, &w->counters->progress, order, &result);
	else
		err_set(&result.err, -EBUSY, "the worker has calls; measure when it has none");
	return !message_send(MESSAGE_FD, MESSAGE_JUDGED, &result, sizeof result, NULL, 0);
}

/* The same. */
static bool bench(struct worker *w, const struct message_bench *order)
{
	struct message_benched result = {0};
	if (is_empty(w))
		worker_bench(&w->engine.scheduler_setup, w->engine.gemm, order, &result);
	else
		err_set(&result.err, -EBUSY, "the worker has calls; measure when it has none");
	return !message_send(MESSAGE_FD, MESSAGE_BENCHED, &result, sizeof result, NULL, 0);
}

/* False: the parent is gone. */
static bool attach_adapter(struct worker *w, uint32_t id, int fd)
{
	const struct message_adapter attached = {id};
	struct message_adapter_not_attached not = {.id = id, .why = {""}};
	int rc = worker_adapters_attach(&w->adapters, w->model, id, fd, w->order.lock_memory, &not .why);
	close(fd);
	return !(rc ? message_send(MESSAGE_FD, MESSAGE_ADAPTER_NOT_ATTACHED, &not, sizeof not, NULL, 0)
		    : message_send(MESSAGE_FD, MESSAGE_ADAPTER_ATTACHED, &attached, sizeof attached, NULL, 0));
}

/* Messages of the parent, without waiting. False: it is gone, or it said something that can't be. */
static bool hear_parent(struct worker *w, struct pollfd fds[2])
{
	if (!fds[0].revents)
		return true;
	struct message message;
	int rc = message_receive(MESSAGE_FD, &message);
	if (rc != 1)
		return false;
	if (message.type == MESSAGE_DRAIN && !message.n_fds) {
		w->draining = true;
		return true;
	}
	const struct message_bench *order = message_payload(&message, sizeof *order, 0);
	if (message.type == MESSAGE_BENCH && order)
		return bench(w, order);
	const struct message_spin *spin = message_payload(&message, sizeof *spin, 0);
	if (message.type == MESSAGE_SPIN && spin) {
		team_set_spin(w->team, (int)spin->spin);
		return true;
	}
	const struct message_quality *text = message_payload(&message, sizeof *text, 0);
	if (message.type == MESSAGE_QUALITY && text)
		return judge(w, text);
	const struct message_adapter *adapter = message_payload(&message, sizeof *adapter, message.n_fds);
	if (message.type == MESSAGE_ADAPTER && adapter && message.n_fds == 1)
		return attach_adapter(w, adapter->id, message.fds[0]);
	if (message.type == MESSAGE_ADAPTER_DROP && adapter && !message.n_fds) {
		worker_adapters_drop(&w->adapters, adapter->id);
		return true;
	}
	if (message.type != MESSAGE_CHANNEL || message.n_fds != 3 || change_channel(w, message.fds))
		return false;
	fds[1].fd = w->channel.doorbell_in;
	fds[1].revents = POLLIN;
	return true;
}

/* Records out. True while some wait for room. */
static bool hand_out(struct worker *w)
{
	bool unsent = worker_calls_flush(&w->calls);
	publish_counters(w);
	channel_ring(&w->channel);
	return unsent;
}

/* Long texts on their way to tokens; this is part of what prompts may take. */
static void encode(struct worker *w)
{
	bool more = worker_calls_encoding(&w->calls);
	uint64_t before, now = clock_now_ns();
	while (more) {
		before = now;
		more = worker_calls_encode(&w->calls);
		now = clock_now_ns();
		more &= pace_spend(&w->pace, now - before);
	}
}

/* Some layers of the prompts' pass, as many as the pace allows. */
static void prefill(struct worker *w)
{
	bool under_way = scheduler_prefill_under_way(w->engine.scheduler), more;
	uint32_t n_rows = scheduler_prefill_begin(w->engine.scheduler, pace_rows(&w->pace));
	if (!n_rows)
		return;
	if (!under_way)
		pace_began(&w->pace, n_rows);
	uint64_t before, now = clock_now_ns();
	do {
		before = now;
		more = scheduler_prefill_advance(w->engine.scheduler);
		now = clock_now_ns();
	} while (pace_layer(&w->pace, now - before) && more);
}

/* One step: the next token of every answer, which its client gets before the prompts have their share. */
static void step(struct worker *w)
{
	scheduler_admit(w->engine.scheduler);
	uint64_t before = clock_now_ns();
	uint32_t n_rows = scheduler_decode_step(w->engine.scheduler);
	pace_decoded(&w->pace, n_rows, clock_now_ns() - before, scheduler_n_prompts(w->engine.scheduler));
	if (n_rows)
		hand_out(w);
	encode(w);
	prefill(w);
}

/* Gives back what was not needed lately. */
static void trim(struct worker *w)
{
	uint64_t now = clock_now_ns();
	if (now - w->trimmed_ns < TRIM_MS * CLOCK_MS_NS)
		return;
	w->trimmed_ns = now;
	forward_trim(w->engine.forward);
	malloc_trim(0);
}

/* How long poll may wait for something to do. */
static int patience_ms(struct worker *w, bool unsent)
{
	if (scheduler_can_run(w->engine.scheduler) ||
	    worker_calls_encoding(&w->calls)) /* flushing unblocks calls, so this comes after it */
		return 0;
	return unsent ? RETRY_MS : forward_at_rest(w->engine.forward) ? PROGRESS_MS : TRIM_MS;
}

/* One turn: records in, one step, records out, and a wait when there is nothing to do. 0, 1: finished, -errno. */
static int turn(struct worker *w, struct pollfd fds[2])
{
	int rc = worker_calls_receive(&w->calls);
	if (rc)
		return rc;
	step(w);
	bool unsent = hand_out(w);
	if (w->channel.dead)
		return w->channel.dead;
	trim(w);
	if (w->draining && is_empty(w) && !unsent && !w->calls.incoming)
		return 1;
	int n = poll(fds, 2, patience_ms(w, unsent));
	if (n < 0 && errno != EINTR)
		return -errno;
	if (!n)
		count(&w->counters->progress, w->counters->progress + 1);
	if (!hear_parent(w, fds))
		return 1;
	if (fds[1].revents)
		channel_quiet(&w->channel);
	return 0;
}

static int work(struct worker *w, struct err *err)
{
	struct pollfd fds[2] = {{.fd = MESSAGE_FD, .events = POLLIN}, {.fd = w->channel.doorbell_in, .events = POLLIN}};
	int rc = 0;
	publish_counters(w);
	count(&w->counters->ready, 1);
	const struct message_worker_ready ready = {.refused = w->refused, .attach_ns = w->attach_ns};
	rc = message_send(MESSAGE_FD, MESSAGE_READY, &ready, sizeof ready, NULL, 0);
	while (!rc)
		rc = turn(w, fds);
	return rc == 1 ? 0 : err_set(err, rc, "the channel to the front is broken: %s", strerror(-rc));
}

static void stop(struct worker *w)
{
	scheduler_free(w->engine.scheduler); /* its calls end, before what they hold goes */
	w->engine.scheduler = NULL;
	worker_calls_fini(&w->calls);
	worker_adapters_fini(&w->adapters);
	worker_engine_fini(&w->engine);
	template_free(w->template);
	team_free(w->team);
	worker_copies_fini(&w->copies);
	channel_detach(&w->channel);
}

int worker_main(void)
{
	static struct worker worker; /* zeroed; one worker per process */
	struct err err = {""};
	int rc = start(&worker, &err);
	if (!rc)
		rc = work(&worker, &err);
	if (rc) {
		struct message_failed failed = {.err = err};
		log_error("%s", err.text);
		message_send(MESSAGE_FD, MESSAGE_FAILED, &failed, sizeof failed, NULL, 0);
		return 1;
	}
	stop(&worker);
	return 0;
}
