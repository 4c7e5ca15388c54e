/* The parent's life: lock, listeners, front, loader, workers; then a loop over signals, children and the control
 * socket; then an orderly stop: the front finishes its answers, the workers theirs, and the segments are removed. */
#include "src/parent/parent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/parent/control.h"
#include "src/keys.h"
#include "src/parent/listener.h"
#include "src/log.h"
#include "src/parent/parent_internal.h"
#include "src/privilege.h"

#define MS CLOCK_MS_NS
enum {
	TURN_MS = 100,	  /* what is due at some time comes this late at most */
	SAMPLE_MS = 200,  /* memory of the processes */
	DRAIN_MS = 35000, /* an orderly stop takes this long at most */
};

/* --- states ----------------------------------------------------------------------------------- */

static bool loads(const struct parent *parent)
{
	for (uint32_t i = 0; i < parent->config.n_models; i++)
		if (parent->models[i].state <= MODEL_LOADING && model_is_public(&parent->models[i]))
			return true;
	return false;
}

static bool all_ready(const struct parent *parent)
{
	for (uint32_t i = 0; i < parent->n_workers; i++)
		if (worker_serves(&parent->workers[i]) && !parent->workers[i].ready &&
		    model_is_public(&parent->models[parent->workers[i].model]))
			return false;
	return parent->front_ready && !loads(parent) && !adapters_come(parent);
}

const char *parent_state(const struct parent *parent)
{
	enum model_standing worst = STANDING_COMES;
	const char *why;
	if (parent->stopping)
		return "stopping";
	for (uint32_t i = 0; i < parent->config.n_models; i++) {
		if (!model_is_public(&parent->models[i]))
			continue;
		enum model_standing standing = model_standing(parent, i, &why);
		worst = standing > worst ? standing : worst;
	}
	if (adapters_failed(parent))
		worst = STANDING_FAILED;
	if (worst >= STANDING_FAILING)
		return worst == STANDING_FAILED ? "failed" : "failing";
	return all_ready(parent) ? "ready" : "loading";
}

uint64_t parent_context(const struct parent *parent, const struct parent_copy *copy)
{
	uint64_t own = copy->segment.context, limit = parent->config.context_tokens;
	return limit && limit < own ? limit : own;
}

void parent_announce(struct parent *parent)
{
	uint32_t n_served = 0, n_ready = 0;
	const char *why;
	if (parent->announced || parent->stopping || !parent->front_ready || loads(parent) || adapters_come(parent))
		return;
	for (uint32_t i = 0; i < parent->n_workers; i++) {
		if (!worker_serves(&parent->workers[i]))
			continue;
		if (!parent->workers[i].ready && !backoff_is_failing(&parent->workers[i].backoff))
			return;
		n_ready += parent->workers[i].ready;
	}
	for (uint32_t i = 0; i < parent->config.n_models; i++)
		n_served += model_standing(parent, i, &why) == STANDING_SERVED;
	/* What can be served is; only a start that leaves nothing to serve has failed. */
	if (!n_served) {
		log_error("no model can be served"); /* each has said why */
		parent->exit_status = 1;
		parent_stop(parent);
		return;
	}
	parent->announced = true;
	log_info("ready: %u of %u model%s, %u worker%s, %s", n_served, parent->config.n_models,
		 parent->config.n_models == 1 ? "" : "s", n_ready, n_ready == 1 ? "" : "s", parent->config.socket);
	notify_ready(parent);
}

static void signal_children(struct parent *parent, int signal)
{
	struct child *const others[] = {&parent->front, &parent->loader, &parent->verifier, &parent->adapter_loader};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (others[i]->pid)
			kill(others[i]->pid, signal);
	for (uint32_t i = 0; i < parent->n_workers; i++)
		if (parent->workers[i].child.pid)
			kill(parent->workers[i].child.pid, signal);
	for (uint32_t i = 0; i < parent->config.audio_processes; i++)
		if (parent->audio[i].child.pid)
			kill(parent->audio[i].child.pid, signal);
}

void parent_stop(struct parent *parent)
{
	if (parent->stopping) {
		parent->killing = true;
		signal_children(parent, SIGKILL);
		return;
	}
	parent->stopping = true;
	parent->stop_deadline_ns = clock_now_ns() + DRAIN_MS * MS;
	log_info("stopping");
	notify_stopping();
	if (parent->loader.pid)
		kill(parent->loader.pid, SIGKILL);
	if (parent->adapter_loader.pid)
		kill(parent->adapter_loader.pid, SIGKILL);
	adapters_stop(parent);
	generations_stop(parent);
	if (parent->front.pid)
		message_send(parent->front.fd, MESSAGE_DRAIN, NULL, 0, NULL, 0);
}

/* Workers finish after the front: they may hold its last answers. */
static void stop_workers(struct parent *parent)
{
	if (parent->workers_told)
		return;
	parent->workers_told = true;
	audio_stop(parent);
	for (uint32_t i = 0; i < parent->n_workers; i++) {
		struct parent_worker *worker = &parent->workers[i];
		if (!worker->child.pid)
			continue;
		if (worker->ready)
			message_send(worker->child.fd, MESSAGE_DRAIN, NULL, 0, NULL, 0);
		else
			kill(worker->child.pid, SIGKILL);
	}
}

static bool children_left(const struct parent *parent)
{
	for (uint32_t i = 0; i < parent->n_workers; i++)
		if (parent->workers[i].child.pid)
			return true;
	for (uint32_t i = 0; i < parent->config.audio_processes; i++)
		if (parent->audio[i].child.pid)
			return true;
	return parent->front.pid || parent->loader.pid || parent->verifier.pid || parent->adapter_loader.pid;
}

/* --- children --------------------------------------------------------------------------------- */

static void dispatch(struct parent *parent, struct child *child, struct message *message)
{
	switch (child->role) {
	case CHILD_LOADER:
		watch_begin(&child->watch, 0, clock_now_ns()); /* its progress is that it reports any */
		models_loader_message(parent, message);
		break;
	case CHILD_ADAPTER_LOADER:
		adapter_loader_message(parent, message);
		break;
	case CHILD_FRONT:
		front_message(parent, message);
		break;
	case CHILD_VERIFIER:
		verify_message(parent, message);
		break;
	case CHILD_WORKER:
		for (uint32_t i = 0; i < parent->n_workers; i++)
			if (&parent->workers[i].child == child)
				worker_message(parent, &parent->workers[i], message);
		break;
	case CHILD_AUDIO:
		for (uint32_t i = 0; i < parent->config.audio_processes; i++)
			if (&parent->audio[i].child == child)
				audio_message(parent, &parent->audio[i], message);
		break;
	case N_CHILD_ROLES:
		break;
	}
}

/* Reads all that a child has said. The end of the stream is left to SIGCHLD. */
static void hear_child(struct parent *parent, struct child *child)
{
	static struct message message; /* large; one thread */
	int rc = 1;
	while (child->fd >= 0 && (rc = message_receive(child->fd, &message)) == 1)
		dispatch(parent, child, &message);
	if (rc != 1 && rc != -EAGAIN)
		child_hang_up(child);
	if (rc == -EPROTO && child->pid) {
		log_error("the %s sent a malformed message and is replaced", child_role_name(child->role));
		kill(child->pid, SIGKILL);
	}
}

/* The last words of a dead child are still in its socket. */
static bool ended(struct parent *parent, struct child *child, pid_t pid)
{
	if (child->pid != pid)
		return false;
	hear_child(parent, child);
	child_hang_up(child);
	child->pid = 0;
	return true;
}

static void reap(struct parent *parent)
{
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (ended(parent, &parent->loader, pid)) {
			models_loader_ended(parent, status);
		} else if (ended(parent, &parent->adapter_loader, pid)) {
			adapter_loader_ended(parent, status);
		} else if (ended(parent, &parent->front, pid)) {
			front_ended(parent, status);
			if (parent->stopping)
				stop_workers(parent);
		} else if (ended(parent, &parent->verifier, pid)) {
			verify_ended(parent, status);
			if (!parent->verifier.pid)
				control_verified(parent->control);
		}
		for (uint32_t i = 0; i < parent->n_workers; i++)
			if (ended(parent, &parent->workers[i].child, pid))
				worker_ended(parent, &parent->workers[i], status);
		for (uint32_t i = 0; i < parent->config.audio_processes; i++)
			if (ended(parent, &parent->audio[i].child, pid))
				audio_ended(parent, &parent->audio[i], status);
	}
}

static void hear_signals(struct parent *parent)
{
	struct signalfd_siginfo info;
	while (read(parent->signal_fd, &info, sizeof info) == sizeof info) {
		if (info.ssi_signo == SIGCHLD)
			reap(parent);
		else
			parent_stop(parent);
	}
}

static void sample_process(pid_t pid, struct memory_use *memory, struct cpu_time *cpu)
{
	if (!pid)
		return;
	memory_sample(pid, memory);
	cpu_time_sample(pid, cpu);
}

/* Often enough that the peak of a call of a second is seen. */
static void sample(struct parent *parent, uint64_t now)
{
	if (now - parent->sampled_ns < SAMPLE_MS * MS)
		return;
	parent->sampled_ns = now;
	for (uint32_t i = 0; i < parent->n_workers; i++) {
		struct parent_worker *worker = &parent->workers[i];
		sample_process(worker->child.pid, &worker->memory, &worker->cpu);
	}
	for (uint32_t i = 0; i < parent->config.audio_processes; i++)
		sample_process(parent->audio[i].child.pid, &parent->audio[i].memory, &parent->audio[i].cpu);
	sample_process(parent->front.pid, &parent->front_memory, &parent->front_cpu);
	sample_process(getpid(), &parent->own_memory, &parent->own_cpu);
}

/* --- loop ------------------------------------------------------------------------------------- */

struct poll_set {
	struct pollfd fds[2 + CONTROL_CLIENTS_MAX + 4 + PARENT_WORKERS_MAX + PARENT_AUDIO_MAX];
	struct child *child[2 + CONTROL_CLIENTS_MAX + 4 + PARENT_WORKERS_MAX + PARENT_AUDIO_MAX];
	unsigned n, n_control;
};

static void add_child(struct poll_set *set, struct child *child)
{
	if (child->fd < 0)
		return;
	set->child[set->n] = child;
	set->fds[set->n++] = (struct pollfd){.fd = child->fd, .events = POLLIN};
}

static void collect(struct parent *parent, struct poll_set *set)
{
	set->fds[0] = (struct pollfd){.fd = parent->signal_fd, .events = POLLIN};
	set->n_control = control_poll_fds(parent->control, set->fds + 1);
	set->n = 1 + set->n_control;
	add_child(set, &parent->loader);
	add_child(set, &parent->front);
	add_child(set, &parent->verifier);
	add_child(set, &parent->adapter_loader);
	for (uint32_t i = 0; i < parent->n_workers; i++)
		add_child(set, &parent->workers[i].child);
	for (uint32_t i = 0; i < parent->config.audio_processes; i++)
		add_child(set, &parent->audio[i].child);
}

/* What is to be started again, or tried again, by now. */
static void start_due(struct parent *parent, uint64_t now)
{
	if (parent->stopping)
		return;
	if (backoff_take(&parent->front_backoff, now))
		front_start(parent);
	workers_restart_due(parent, now);
	models_load_next(parent);
	audio_turn(parent, now);
	adapters_turn(parent, now);
	wishes_turn(parent);
	verify_turn(parent, now);
}

static void run(struct parent *parent)
{
	static struct poll_set set; /* large; one thread */
	while (!parent->stopping || children_left(parent)) {
		collect(parent, &set);
		if (poll(set.fds, set.n, TURN_MS) < 0 && errno != EINTR) {
			log_error("poll: %s", strerror(errno));
			parent->exit_status = 1;
			return;
		}
		unsigned n = set.n;
		for (unsigned i = 1 + set.n_control; i < n; i++)
			if (set.fds[i].revents && set.child[i]->fd == set.fds[i].fd)
				hear_child(parent, set.child[i]);
		if (set.fds[0].revents)
			hear_signals(parent);
		control_serve(parent->control, set.fds + 1, set.n_control);
		uint64_t now = clock_now_ns();
		start_due(parent, now);
		parent_watch(parent, now);
		sample(parent, now);
		cpus_turn(parent, now);
		figures_turn(parent, now);
		notify_turn(parent, now);
		if (parent->stopping && !parent->front.pid && !parent->killing)
			stop_workers(parent); /* also when there never was a front */
		if (parent->stopping && now > parent->stop_deadline_ns && !parent->killing) {
			log_warning("children did not finish in %d s and are killed", DRAIN_MS / 1000);
			parent_stop(parent);
		}
	}
}

/* --- start and end ---------------------------------------------------------------------------- */

static int open_signals(struct parent *parent, struct err *err)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	parent->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return parent->signal_fd < 0 ? err_set(err, -errno, "signalfd: %s", strerror(errno)) : 0;
}

/* A file that fronts could not use is told now. */
static int open_keys(struct parent *parent, struct err *err)
{
	struct keys keys = {0};
	int fd = keys_open(parent->config.api_keys_file, err);
	if (fd < 0)
		return fd;
	int rc = keys_read(fd, &keys, err);
	keys_free(&keys);
	parent->keys_fd = fd;
	return rc;
}

static int open_listeners(struct parent *parent, struct err *err)
{
	const struct config *c = &parent->config;
	int control_fd;
	fdstore_init(&parent->store);
	int rc = listener_inherit(&parent->unix_fd, &parent->tcp_fd, &parent->store, err);
	parent->owns_socket = parent->unix_fd < 0; /* systemd's stays in the file system when we go */
	if (!rc && parent->owns_socket)
		rc = listener_unix(c->socket, c->socket_mode, c->socket_group, &parent->unix_fd, err);
	if (!rc && parent->tcp_fd < 0 && *c->listen)
		rc = listener_tcp(c->listen, &parent->tcp_fd, err);
	if (!rc && *c->api_keys_file)
		rc = open_keys(parent, err);
	if (!rc)
		rc = listener_unix(c->control_socket, 0600, "", &control_fd, err);
	if (rc)
		return rc;
	fcntl(control_fd, F_SETFL, O_NONBLOCK);
	rc = control_new(parent, control_fd, &parent->control, err);
	if (rc)
		close(control_fd);
	return rc;
}

static void raise_limit(__rlimit_resource_t resource, rlim_t wanted)
{
	struct rlimit limit = {wanted, wanted};
	if (!setrlimit(resource, &limit) || getrlimit(resource, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(resource, &limit);
}

/* Children without privileges can't raise these themselves. Locking the weights needs the one; every worker costs four
 * descriptors, every connection of the front one. */
static void raise_limits(void)
{
	struct rlimit descriptors;
	raise_limit(RLIMIT_MEMLOCK, RLIM_INFINITY);
	if (!getrlimit(RLIMIT_NOFILE, &descriptors))
		raise_limit(RLIMIT_NOFILE, descriptors.rlim_max);
}

/* Decided once and before anything is loaded: a worker that can't compute as told would only die again and again. */
static int choose_level(struct parent *parent, struct err *err)
{
	const struct config *c = &parent->config;
	enum cpu_level best = kernels_detect();
	parent->cpu_level = c->cpu_level == UINT32_MAX ? best : (enum cpu_level)c->cpu_level;
	parent->numerics = c->numerics == UINT32_MAX ? kernels_numerics(parent->cpu_level) : (enum numerics)c->numerics;
	if (kernels_get(parent->cpu_level, parent->numerics))
		return 0;
	const char *level = cpu_level_name(parent->cpu_level);
	if (parent->cpu_level > best)
		return err_set(err, -ENOTSUP, "cpu_level = %s: this CPU offers %s at most", level,
			       cpu_level_name(best));
	return err_set(err, -ENOTSUP, "numerics = %s is not served by cpu_level %s: leave numerics at auto",
		       numerics_name(parent->numerics), level);
}

static int start(struct parent *parent, struct err *err)
{
	const struct config *c = &parent->config;
	parent->uid = parent->gid = UINT64_MAX;
	if (geteuid() == 0 && *c->user) {
		int rc = privilege_find_user(c->user, &parent->uid, &parent->gid, err);
		if (rc)
			return rc;
	}
	setenv("OMP_NUM_THREADS", "1", 1); /* oneDNN's OpenMP must add no threads to ours; read when a worker starts */
	int rc = choose_level(parent, err);
	if (!rc)
		rc = parent_make_plan(parent, err);
	if (!rc)
		rc = segment_lock_instance(c->instance, &parent->lock_fd, err);
	if (rc)
		return rc;
	raise_limits();
	rc = open_signals(parent, err);
	if (!rc)
		rc = open_listeners(parent, err);
	if (!rc)
		rc = leftovers_find(parent, err);
	parent->started = !rc;
	return rc;
}

static void finish(struct parent *parent)
{
	models_close(parent);
	fdstore_fini(&parent->store);
	free(parent->leftovers);
	if (parent->control) {
		if (parent->owns_socket)
			unlink(parent->config.socket);
		unlink(parent->config.control_socket);
	}
	control_free(parent->control);
	segment_unlock_instance(parent->config.instance, parent->lock_fd); /* after the segments are gone */
	int fds[] = {parent->unix_fd, parent->tcp_fd, parent->signal_fd, parent->keys_fd};
	for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	pulse_detach(parent->front_pulse);
	topology_free(parent->topology);
}

int parent_run(const struct config *config)
{
	static struct parent parent; /* large; one per process */
	struct err err = {""};
	parent = (struct parent){
		.config = *config, .lock_fd = -1, .signal_fd = -1, .unix_fd = -1, .tcp_fd = -1, .keys_fd = -1};
	parent.loader.fd = parent.front.fd = parent.verifier.fd = parent.adapter_loader.fd = -1;
	parent.started_ns = clock_now_ns();
	for (uint32_t i = 0; i < PARENT_AUDIO_MAX; i++)
		parent.audio[i] = (struct parent_audio){.channel = {-1, -1, -1}, .child = {.fd = -1}};
	for (uint32_t i = 0; i < config->n_models; i++)
		parent.models[i].config = &parent.config.models[i];
	if (!config->n_models) {
		log_error("no model is configured: add a [model NAME] section with path = FILE, or run 'weightctl pull "
			  "smollm2'");
		return 1;
	}
	if (start(&parent, &err)) {
		log_error("%s", err.text);
		finish(&parent);
		return parent.exit_status ? parent.exit_status : 1;
	}
	adapters_begin(&parent);
	notify_start(&parent);
	front_start(&parent);
	models_load_next(&parent);
	run(&parent);
	finish(&parent);
	log_info("stopped");
	return parent.exit_status;
}
