/* Hangs: a process that lives and does not move is worse than a dead one, because nobody replaces it.
 *
 * Each role shows its progress in its own way, and only real progress counts: a worker counts layers, calls and idle
 * wake-ups in its channel; the front counts turns of its event loop in its pulse; a loader or verifier reports. What
 * stands still for too long is killed, and from there on is a death like any other.
 *
 *      ready worker, front     hang_seconds       both wake up every second even when idle
 *      ready audio             hang_seconds       the same, and while it decodes
 *      worker that starts      START_LIMIT_S      weights may have to be locked and their page tables made
 *      loader, verifier        SILENCE_LIMIT_S    reading reports ten times a second, but hashing, copying to other
 *                                                 nodes and asking for every page of a large copy are silent
 *
 * The parent itself is watched by systemd (parent_notify.c). */
#include "src/parent/parent_internal.h"

#include <signal.h>

#include "src/clock.h"
#include "src/log.h"

#define MS CLOCK_MS_NS
#define S (1000 * CLOCK_MS_NS)
enum {
	LOOK_MS = 200,
	STEADY_MS = 10000, /* who has been ready this long without a call has proven itself, too */
	START_LIMIT_S = 600,
	SILENCE_LIMIT_S = 900,
};

/* Relaxed: each counter stands alone (shm/channel.h). */
static uint64_t counted(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* Layers, calls and idle wake-ups, and the time of the last turn: a worker that only tokenizes computes no layer and is
 * never idle. What matters is that the sum changes. */
uint64_t worker_progress(struct parent_worker *worker)
{
	const struct worker_counters *c = channel_counters(&worker->view);
	return counted(&c->progress) + counted(&c->progress_ns);
}

bool worker_is_proven(struct parent_worker *worker, uint64_t now_ns)
{
	if (worker->proven || !worker->ready)
		return worker->proven;
	const struct worker_counters *c = channel_counters(&worker->view);
	return counted(&c->calls) || counted(&c->generated_tokens) || now_ns - worker->ready_ns > STEADY_MS * MS;
}

uint64_t audio_progress(struct parent_audio *audio)
{
	const struct worker_counters *c = channel_counters(&audio->view);
	return counted(&c->progress) + counted(&c->progress_ns);
}

bool audio_is_proven(struct parent_audio *audio, uint64_t now_ns)
{
	return audio->ready &&
	       (counted(&channel_counters(&audio->view)->calls) || now_ns - audio->ready_ns > STEADY_MS * MS);
}

bool front_is_proven(const struct parent *parent, uint64_t now_ns)
{
	if (parent->front_proven || !parent->front_ready)
		return parent->front_proven;
	return pulse_answered(parent->front_pulse) || now_ns - parent->front.started_ns > STEADY_MS * MS;
}

static void look(struct parent *parent, struct child *child, uint64_t count, uint64_t limit_ns, uint64_t now_ns)
{
	if (!child->pid || child->hung || watch_look(&child->watch, count, now_ns) < limit_ns)
		return;
	child->hung = true;
	parent->hangs[child->role]++;
	log_error("%s (pid %d) has made no progress for %llu s and is killed", child->name, (int)child->pid,
		  (unsigned long long)(limit_ns / S));
	kill(child->pid, SIGKILL);
}

static void look_at_worker(struct parent *parent, struct parent_worker *worker, uint64_t now_ns)
{
	if (worker->ready)
		look(parent, &worker->child, worker_progress(worker), parent->config.hang_seconds * S, now_ns);
	else
		look(parent, &worker->child, 0, START_LIMIT_S * S, now_ns);
	if (worker->proven || !worker_is_proven(worker, now_ns))
		return;
	worker->proven = true;
	bool was_failing = backoff_is_failing(&worker->backoff);
	worker->backoff.failures = 0;
	if (was_failing) {
		log_info("%s serves again", worker->child.name);
		front_tell_state(parent);
	}
}

static void look_at_audio(struct parent *parent, struct parent_audio *audio, uint64_t now_ns)
{
	if (audio->ready)
		look(parent, &audio->child, audio_progress(audio), parent->config.hang_seconds * S, now_ns);
	else
		look(parent, &audio->child, 0, START_LIMIT_S * S, now_ns);
	if (audio_is_proven(audio, now_ns))
		audio->backoff.failures = 0;
}

void parent_watch(struct parent *parent, uint64_t now_ns)
{
	if (now_ns - parent->watched_ns < LOOK_MS * MS)
		return;
	parent->watched_ns = now_ns;
	for (uint32_t i = 0; i < parent->n_workers; i++)
		look_at_worker(parent, &parent->workers[i], now_ns);
	for (uint32_t i = 0; i < parent->config.audio_processes; i++)
		look_at_audio(parent, &parent->audio[i], now_ns);
	if (parent->front.pid)
		look(parent, &parent->front, pulse_turns(parent->front_pulse),
		     (parent->front_ready ? parent->config.hang_seconds : START_LIMIT_S) * S, now_ns);
	if (!parent->front_proven && front_is_proven(parent, now_ns)) {
		parent->front_proven = true;
		parent->front_backoff.failures = 0;
	}
	look(parent, &parent->loader, 0, SILENCE_LIMIT_S * S, now_ns);
	look(parent, &parent->verifier, 0, SILENCE_LIMIT_S * S, now_ns);
	look(parent, &parent->adapter_loader, 0, SILENCE_LIMIT_S * S, now_ns);
}

bool parent_nothing_hangs(const struct parent *parent)
{
	const struct child *const others[] = {&parent->front, &parent->loader, &parent->verifier,
					      &parent->adapter_loader};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (others[i]->pid && others[i]->hung)
			return false;
	for (uint32_t i = 0; i < parent->n_workers; i++)
		if (parent->workers[i].child.pid && parent->workers[i].child.hung)
			return false;
	for (uint32_t i = 0; i < parent->config.audio_processes; i++)
		if (parent->audio[i].child.pid && parent->audio[i].child.hung)
			return false;
	return true;
}
