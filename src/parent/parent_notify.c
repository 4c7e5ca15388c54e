/* What systemd is told (sd_notify(3)); without NOTIFY_SOCKET nothing happens.
 *
 * The watchdog's message stands for the whole daemon: the parent's own loop turns, because it is what sends it; the
 * front's loop has turned since the last one; and no process is past its limit (one that SIGKILL does not end, say in
 * an endless wait for a device, is what a restart of the unit is for). It is due twice in WATCHDOG_USEC. */
#include "src/parent/parent_internal.h"

#include <string.h>
#include <systemd/sd-daemon.h>

#include "src/clock.h"
#include "src/log.h"

void notify_start(struct parent *parent)
{
	uint64_t usec;
	if (sd_watchdog_enabled(0, &usec) <= 0)
		return;
	parent->notify.watchdog_ns = usec * 1000 / 2;
	if (usec / 1000000 <= parent->config.hang_seconds)
		log_warning(
			"systemd's watchdog (%llu s) is no longer than hang_seconds (%u): it ends the daemon before "
			"a front that hangs is replaced",
			(unsigned long long)(usec / 1000000), parent->config.hang_seconds);
}

void notify_ready(struct parent *parent)
{
	sd_notify(0, "READY=1");
	parent->notify.sent_ns = clock_now_ns();
}

void notify_stopping(void)
{
	sd_notify(0, "STOPPING=1\nSTATUS=stopping");
}

/* "2 of 3 workers ready; loading model 'x', 40 %; model 'y' is failing: why" */
static void describe(const struct parent *parent, char text[256])
{
	uint32_t ready = 0, all = 0;
	const char *why;
	for (uint32_t i = 0; i < parent->n_workers; i++) {
		all += worker_serves(&parent->workers[i]);
		ready += worker_serves(&parent->workers[i]) && parent->workers[i].ready;
	}
	int n = snprintf(text, 256, "%u of %u workers ready", ready, all);
	if (!parent->front_ready)
		n += snprintf(text + n, 256 - (size_t)n, "; the front is starting");
	for (uint32_t i = 0; i < parent->config.n_models && n < 256; i++) {
		const struct parent_model *model = &parent->models[i];
		enum model_standing standing = model_standing(parent, i, &why);
		size_t room = 256 - (size_t)n;
		if (standing == STANDING_FAILED || standing == STANDING_FAILING)
			n += snprintf(text + n, room, "; model '%s' %s: %s", model->config->name,
				      standing == STANDING_FAILED ? "failed" : "is failing", why);
		else if (model->state == MODEL_LOADING)
			n += snprintf(text + n, room, "; loading model '%s', %llu %%", model->config->name,
				      model->total_bytes
					      ? (unsigned long long)(model->done_bytes * 100 / model->total_bytes)
					      : 0ull);
		else if (model->change.state == CHANGE_FILLING || model->change.state == CHANGE_STARTING)
			n += snprintf(text + n, room, "; generation %u of model '%s' comes", model->change.generation,
				      model->config->name);
		else if (model->state == MODEL_WAITING)
			n += snprintf(text + n, room, "; model '%s' waits to be loaded", model->config->name);
	}
}

static void tell_status(struct parent *parent)
{
	char text[256];
	describe(parent, text);
	for (char *c = text; *c; c++) /* a reason may quote a file's name, and a newline would begin another field */
		*c = *c == '\n' ? ' ' : *c;
	if (!strcmp(text, parent->notify.status))
		return;
	memcpy(parent->notify.status, text, sizeof text);
	sd_notifyf(0, "STATUS=%s", text);
}

void notify_turn(struct parent *parent, uint64_t now_ns)
{
	struct parent_notify *notify = &parent->notify;
	if (!parent->stopping)
		tell_status(parent);
	if (!notify->watchdog_ns || now_ns - notify->sent_ns < notify->watchdog_ns)
		return;
	uint64_t turns = parent->front_pulse ? pulse_turns(parent->front_pulse) : notify->front_turns;
	/* While stopping the front may be gone for good; the time for that has a limit of its own. */
	if (!parent->stopping && (turns == notify->front_turns || !parent_nothing_hangs(parent)))
		return;
	notify->sent_ns = now_ns;
	notify->front_turns = turns;
	sd_notify(0, "WATCHDOG=1");
}
