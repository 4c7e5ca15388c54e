/* Processes that decode audio: there while a speech model is served, replaced when they die or hang.
 *
 * They hold nothing that is worth keeping, so one that is to serve another front is simply a new one: their channels
 * end with the front, and so do they. */
#include "src/parent/parent_internal.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/log.h"

bool parent_needs_audio(const struct parent *parent)
{
	static const char speech[] = "whisper";
	for (uint32_t i = 0; i < parent->config.n_models; i++) {
		const struct parent_model *model = &parent->models[i];
		if (model->n_copies && !strncmp(model->copies[0].segment.architecture, speech, sizeof speech))
			return true;
	}
	return false;
}

static uint32_t index_of(const struct parent *parent, const struct parent_audio *audio)
{
	return (uint32_t)(audio - parent->audio);
}

static void close_channel(struct parent_audio *audio)
{
	channel_detach(&audio->view);
	channel_close(&audio->channel);
}

static int give_order(const struct parent *parent, const struct parent_audio *audio)
{
	const struct config *c = &parent->config;
	const struct message_audio order = {.max_seconds = c->max_audio_seconds,
					    .seccomp = c->audio_seccomp,
					    .max_bytes = c->max_audio_bytes,
					    .uid = parent->uid,
					    .gid = parent->gid};
	const int fds[3] = {audio->channel.memory, audio->channel.to_worker, audio->channel.to_front};
	return message_send(audio->child.fd, MESSAGE_AUDIO, &order, sizeof order, fds, 3);
}

static void audio_start(struct parent *parent, struct parent_audio *audio)
{
	struct err err;
	char name[32];
	snprintf(name, sizeof name, "audio %u", index_of(parent, audio));
	audio->fault[0] = '\0';
	audio->memory = (struct memory_use){0};
	int rc = channel_create(&audio->channel, &err);
	if (!rc) {
		rc = channel_attach(&audio->channel, CHANNEL_FRONT, &audio->view, &err);
		if (!rc)
			rc = child_spawn(&audio->child, CHILD_AUDIO, name, (int)parent->config.log_level, &err);
		if (rc)
			close_channel(audio);
	}
	if (rc) {
		log_error("cannot start %s: %s", name, err.text);
		snprintf(audio->end, sizeof audio->end, "cannot be started: %.200s", err.text);
		audio->ended_ns = clock_now_ns();
		backoff_failed(&audio->backoff, audio->ended_ns);
		return;
	}
	rc = give_order(parent, audio);
	if (rc) {
		snprintf(audio->fault, sizeof audio->fault, "its order could not be sent: %s", strerror(-rc));
		child_hang_up(&audio->child); /* it ends for want of an order */
	}
}

/* Tells the front of one that takes calls. One that misses it is made anew. */
static void introduce(struct parent *parent, struct parent_audio *audio)
{
	const struct message_audio_up up = {index_of(parent, audio)};
	const int fds[3] = {audio->channel.memory, audio->channel.to_worker, audio->channel.to_front};
	if (!parent->front.pid || message_send(parent->front.fd, MESSAGE_AUDIO_UP, &up, sizeof up, fds, 3))
		kill(audio->child.pid, SIGKILL);
}

void audio_message(struct parent *parent, struct parent_audio *audio, struct message *message)
{
	const struct message_failed *failed;
	switch (message->type) {
	case MESSAGE_READY:
		audio->ready = true;
		audio->ready_ns = clock_now_ns();
		watch_begin(&audio->child.watch, audio_progress(audio), audio->ready_ns);
		log_info("%s is ready: pid %d", audio->child.name, (int)audio->child.pid);
		introduce(parent, audio);
		break;
	case MESSAGE_FAILED:
		failed = message_payload(message, sizeof *failed, 0);
		if (failed)
			snprintf(audio->fault, sizeof audio->fault, "%.255s", failed->err.text);
		break;
	default:
		log_warning("%s sent an unexpected message, type %u", audio->child.name, message->type);
	}
}

void audio_ended(struct parent *parent, struct parent_audio *audio, int wait_status)
{
	char how[128];
	uint64_t now = clock_now_ns();
	bool proven = audio_is_proven(audio, now);
	const struct message_audio_up down = {index_of(parent, audio)};
	if (audio->ready)
		front_tell(parent, MESSAGE_AUDIO_DOWN, &down, sizeof down);
	audio->ready = false;
	close_channel(audio);
	if (parent->stopping)
		return;
	if (audio->leaving) { /* as it was told */
		audio->leaving = false;
		return;
	}
	snprintf(audio->end, sizeof audio->end, "%s%s%.200s",
		 child_describe(&audio->child, wait_status, how, sizeof how), audio->fault[0] ? ": " : "",
		 audio->fault);
	log_error("%s %s", audio->child.name, audio->end);
	audio->ended_ns = now;
	audio->restarts++;
	if (proven)
		backoff_served(&audio->backoff, now);
	else
		backoff_failed(&audio->backoff, now);
	if (audio->backoff.failures == BACKOFF_FAILING)
		log_error("%s keeps dying without having served; it is tried again every %d s", audio->child.name,
			  BACKOFF_MAX_MS / 1000);
}

void audio_broken(struct parent *parent, uint32_t index)
{
	if (index >= parent->config.audio_processes || !parent->audio[index].ready)
		return;
	log_error("audio %u broke the channel protocol and is replaced", index);
	kill(parent->audio[index].child.pid, SIGKILL);
}

static void leave(struct parent_audio *audio)
{
	audio->backoff = (struct backoff){0};
	if (!audio->child.pid || audio->leaving)
		return;
	audio->leaving = true;
	kill(audio->child.pid, SIGKILL); /* it has nothing to lose, and no file of its own */
}

void audio_front_ended(struct parent *parent)
{
	for (uint32_t i = 0; i < parent->config.audio_processes; i++)
		leave(&parent->audio[i]);
}

void audio_turn(struct parent *parent, uint64_t now_ns)
{
	bool needed = parent_needs_audio(parent);
	for (uint32_t i = 0; i < parent->config.audio_processes; i++) {
		struct parent_audio *audio = &parent->audio[i];
		if (!needed)
			leave(audio);
		else if (!audio->child.pid && parent->front_ready &&
			 (!audio->backoff.due_ns || backoff_take(&audio->backoff, now_ns)))
			audio_start(parent, audio);
	}
}

void audio_stop(struct parent *parent)
{
	for (uint32_t i = 0; i < parent->config.audio_processes; i++)
		if (parent->audio[i].child.pid)
			kill(parent->audio[i].child.pid, SIGKILL);
}
