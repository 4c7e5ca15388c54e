#include "src/parent/status.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

#include "io/loop.h"
#include "src/clock.h"
#include "src/kernel/kernel.h"
#include "src/parent/parent_internal.h"

#define MS CLOCK_MS_NS

typedef yyjson_mut_doc *doc;
typedef yyjson_mut_val *val;

static void add_str(doc d, val object, const char *key, const char *text)
{
	yyjson_mut_obj_add_strcpy(d, object, key, text);
}

static void add_uint(doc d, val object, const char *key, uint64_t value)
{
	yyjson_mut_obj_add_uint(d, object, key, value);
}

static void add_list(doc d, val object, const char *key, const struct idset *ids)
{
	char text[IDSET_TEXT];
	add_str(d, object, key, idset_format(ids, text, sizeof text));
}

static void add_digest(doc d, val object, const uint8_t digest[SEGMENT_DIGEST_BYTES])
{
	char text[2 * SEGMENT_DIGEST_BYTES + 1];
	for (int i = 0; i < SEGMENT_DIGEST_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
	add_str(d, object, "digest", text);
}

static const char *backing_word(const struct message_segment *segment)
{
	static const char *const word[] = {"shm", "memfd", "hugetlb", "hugetlb-1g"}; /* by enum segment_backing */
	return word[segment->backing];						     /* looked at when it came */
}

static void add_copy(doc d, val copies, const struct parent *parent, const struct parent_copy *copy)
{
	const struct segment_report *report = &copy->segment.report;
	const struct placement *p = &report->placement;
	val c = yyjson_mut_arr_add_obj(d, copies);
	const struct plan_copy *plan = plan_copy(&parent->plan, copy->segment.node);
	add_uint(d, c, "node", copy->segment.node);
	add_uint(d, c, "generation", copy->segment.generation);
	if (plan && idset_count(&plan->nodes) > 1)
		add_list(d, c, "interleaved", &plan->nodes);
	add_str(d, c, "segment", copy->segment.name);
	add_str(d, c, "backing", backing_word(&copy->segment));
	yyjson_mut_obj_add_bool(d, c, "adopted", copy->segment.adopted != 0);
	add_uint(d, c, "bytes", report->total_bytes);
	add_uint(d, c, "small_bytes", report->small_bytes);
	add_uint(d, c, "huge_bytes", report->huge_bytes);
	add_uint(d, c, "giant_bytes", report->giant_bytes);
	add_uint(d, c, "pages", p->pages);
	add_uint(d, c, "on_node", p->on_node);
	add_uint(d, c, "misplaced", p->misplaced);
	add_uint(d, c, "absent", p->absent);
	add_uint(d, c, "unknown", p->unknown);
	add_str(d, c, "placement", copy_placement(copy));
	add_uint(d, c, "checked_ms_ago", (clock_now_ns() - copy->checked_ns) / MS);
	add_str(d, c, "state", copy_is_degraded(copy) ? "degraded" : "good");
	if (copy->sampled_ns) {
		add_uint(d, c, "sampled_ms_ago", (clock_now_ns() - copy->sampled_ns) / MS);
		add_uint(d, c, "sampled_pages", copy->sampled_pages);
		add_uint(d, c, "sampled_misplaced", copy->sampled_misplaced);
	}
}

/* How the load went, as the log told it. */
static void add_pace(doc d, val m, const struct load_pace *pace)
{
	if (!pace->fill_ns)
		return;
	val load = yyjson_mut_obj_add_obj(d, m, "load");
	add_uint(d, load, "file_bytes", pace->file_bytes);
	add_uint(d, load, "threads", pace->n_threads);
	add_uint(d, load, "total_us", pace->total_ns / 1000);
	add_uint(d, load, "room_us", pace->room_ns / 1000);
	add_uint(d, load, "fill_us", pace->fill_ns / 1000);
	add_uint(d, load, "wait_us", pace->wait_ns / 1000);
	add_uint(d, load, "spread_us", pace->spread_ns / 1000);
	add_uint(d, load, "publish_us", pace->publish_ns / 1000);
	if (pace->cached_bytes != UINT64_MAX)
		add_uint(d, load, "cached_bytes", pace->cached_bytes);
	add_uint(d, load, "bytes_per_second", (uint64_t)((double)pace->file_bytes / (double)pace->fill_ns * 1e9));
	add_str(d, load, "limit", models_waited_for_files(pace) ? "reading" : "packing");
}

/* By enum change_state. */
const char *status_change_word(const struct parent_change *change)
{
	static const char *const word[] = {"", "draining", "waiting", "loading", "starting", "leaving"};
	return word[change->state];
}

/* The generation that comes, or has come while the one before it goes: `copies` are then that one's. */
static void add_change(doc d, val m, const struct parent *parent, const struct parent_change *change)
{
	if (change->fault[0])
		add_str(d, m, "change_error", change->fault);
	if (change->state == CHANGE_NONE)
		return;
	val c = yyjson_mut_obj_add_obj(d, m, "change");
	add_uint(d, c, "generation", change->generation);
	add_str(d, c, "state", status_change_word(change));
	val copies = yyjson_mut_obj_add_arr(d, c, "copies");
	for (uint32_t i = 0; i < change->n_copies; i++)
		add_copy(d, copies, parent, &change->copies[i]);
}

static void add_model(doc d, val models, const struct parent *parent, const struct parent_model *model)
{
	static const char *const state[] = {"waiting", "loading", "ready", "failed", "unloading"};
	val m = yyjson_mut_arr_add_obj(d, models);
	add_str(d, m, "name", model->config->name);
	add_str(d, m, "path", model->config->path);
	const char *why;
	bool failing = model_standing(parent, (uint32_t)(model - parent->models), &why) == STANDING_FAILING;
	add_str(d, m, "state", failing ? "failing" : state[model->state]);
	if (*why)
		add_str(d, m, "error", why);
	if (model->state == MODEL_LOADING) {
		add_uint(d, m, "loaded_bytes", model->done_bytes);
		add_uint(d, m, "file_bytes", model->total_bytes);
	}
	add_str(d, m, "cpu_level", cpu_level_name(parent->cpu_level));
	add_str(d, m, "numerics", numerics_name(parent->numerics));
	add_str(d, m, "parallel", model->config->parallel == PARALLEL_TENSOR ? "tensor" : "none");
	add_str(d, m, "kv_type", parent->config.kv_type == KV_INT8 ? "int8" : "bf16");
	if (model->n_copies) {
		const struct message_segment *first = &model->copies[0].segment;
		char architecture[sizeof first->architecture + 1];
		snprintf(architecture, sizeof architecture, "%.*s", (int)sizeof first->architecture,
			 first->architecture);
		add_str(d, m, "architecture", architecture);
		add_uint(d, m, "generation", model->generation);
		add_uint(d, m, "context_tokens", parent_context(parent, &model->copies[0]));
		add_str(d, m, "backing", backing_word(first));
		add_str(d, m, "restart", parent_restart(parent, model));
		yyjson_mut_obj_add_bool(d, m, "adopted", model->adopted);
		add_digest(d, m, first->report.digest);
		add_pace(d, m, &model->pace);
	}
	val copies = yyjson_mut_obj_add_arr(d, m, "copies");
	for (uint32_t i = 0; i < model->n_copies; i++)
		add_copy(d, copies, parent, &model->copies[i]);
	add_change(d, m, parent, &model->change);
}

static void add_adapter(doc d, val adapters, const struct parent *parent, const struct parent_adapter *adapter)
{
	static const char *const state[] = {"waiting", "loading", "attaching", "ready", "unloaded, in use", "failed"};
	val a = yyjson_mut_arr_add_obj(d, adapters);
	add_uint(d, a, "id", adapter->id);
	add_str(d, a, "name", adapter->name);
	add_str(d, a, "model", parent->models[adapter->model].config->name);
	add_str(d, a, "path", adapter->path);
	add_str(d, a, "state", state[adapter->state]);
	if (adapter->state == ADAPTER_FAILED)
		add_str(d, a, "error", adapter->fault);
	if (adapter->n_copies)
		add_digest(d, a, adapter->copies[0].segment.report.digest);
	val copies = yyjson_mut_obj_add_arr(d, a, "copies");
	for (uint32_t i = 0; i < adapter->n_copies; i++)
		add_copy(d, copies, parent, &adapter->copies[i]);
}

/* Relaxed: each counter stands alone (shm/channel.h). */
static uint64_t counted(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void add_memory(doc d, val object, const struct memory_use *use)
{
	add_uint(d, object, "private_bytes", use->private_bytes);
	add_uint(d, object, "private_peak_bytes", use->private_peak_bytes);
}

static const char *child_word(const struct child *child, bool ready)
{
	return !child->pid ? "waiting" : child->hung ? "hung" : ready ? "ready" : "starting";
}

const char *status_worker_word(const struct parent_worker *worker)
{
	const char *word = child_word(&worker->child, worker->ready);
	return worker->duty == WORKER_RETIRED			 ? "leaving"
	       : worker->duty == WORKER_STANDBY && worker->ready ? "standby"
								 : word;
}

static uint64_t ms_until(uint64_t ns)
{
	uint64_t now = clock_now_ns();
	return ns > now ? (ns - now) / MS : 0;
}

/* Which of its CPUs read which node's copy. */
static void add_parts(doc d, val w, const struct parent *parent, const struct parent_worker *worker)
{
	const struct plan_worker *parts[PLAN_WORKERS_MAX];
	unsigned n = worker_parts(parent, worker, parts);
	val all = yyjson_mut_obj_add_arr(d, w, "parts");
	for (unsigned i = 0; i < n; i++) {
		val part = yyjson_mut_arr_add_obj(d, all);
		add_uint(d, part, "node", parts[i]->node);
		add_uint(d, part, "copy_node", parts[i]->copy_node);
		add_list(d, part, "cpus", &parts[i]->cpus);
	}
}

static void add_worker(doc d, val workers, struct parent *parent, struct parent_worker *worker)
{
	val w = yyjson_mut_arr_add_obj(d, workers);
	add_uint(d, w, "index", (uint64_t)(worker - parent->workers));
	add_uint(d, w, "pid", (uint64_t)worker->child.pid);
	add_uint(d, w, "node", worker->plan.node);
	add_uint(d, w, "copy_node", worker->plan.copy_node);
	add_uint(d, w, "memory_node", worker->plan.memory_node);
	add_list(d, w, "cpus", &worker->plan.cpus);
	add_list(d, w, "cpus_gone", &worker->cpus_gone);
	yyjson_mut_obj_add_bool(d, w, "spins", worker->spins);
	add_parts(d, w, parent, worker);
	add_str(d, w, "model", parent->models[worker->model].config->name);
	add_uint(d, w, "generation", worker->generation);
	add_str(d, w, "state", status_worker_word(worker));
	add_uint(d, w, "restarts", worker->restarts);
	add_uint(d, w, "failures", worker->backoff.failures);
	if (worker->backoff.due_ns)
		add_uint(d, w, "restart_in_ms", ms_until(worker->backoff.due_ns));
	if (worker->ended_ns) {
		add_str(d, w, "last_end", worker->end);
		add_uint(d, w, "last_end_ms_ago", (clock_now_ns() - worker->ended_ns) / MS);
	}
	add_memory(d, w, &worker->memory);
	yyjson_mut_obj_add_bool(d, w, "oversubscribed", parent->plan.oversubscribed);
	if (!worker->ready)
		return;
	add_uint(d, w, "attach_us", worker->attach_ns / 1000);
	const struct worker_counters *c = channel_counters(&worker->view);
	add_uint(d, w, "running", counted(&c->running));
	add_uint(d, w, "waiting", counted(&c->waiting));
	add_uint(d, w, "calls", counted(&c->calls));
	add_uint(d, w, "prompt_tokens", counted(&c->prompt_tokens));
	add_uint(d, w, "generated_tokens", counted(&c->generated_tokens));
	add_uint(d, w, "weight_products", counted(&c->weight_products));
	add_uint(d, w, "steps", counted(&c->steps));
	add_uint(d, w, "arena_bytes", counted(&c->arena_bytes));
	add_uint(d, w, "arena_peak_bytes", counted(&c->arena_peak_bytes));
	add_uint(d, w, "kv_pages", counted(&c->kv_pages));
	add_uint(d, w, "kv_pages_used", counted(&c->kv_pages_used));
	add_uint(d, w, "evicted", counted(&c->evicted));
	add_uint(d, w, "replayed_tokens", counted(&c->replayed_tokens));
	add_uint(d, w, "prefix_bytes", counted(&c->prefix_bytes));
	add_uint(d, w, "prefix_tokens", counted(&c->prefix_tokens));
	yyjson_mut_obj_add_bool(d, w, "locked", counted(&c->locked) != 0);
}

static void add_front(doc d, val front, const struct parent *parent)
{
	add_str(d, front, "state", child_word(&parent->front, parent->front_ready));
	add_uint(d, front, "restarts", parent->front_restarts);
	if (parent->front_restarts)
		add_str(d, front, "last_end", parent->front_end);
}

static void add_audio(doc d, val all, struct parent *parent, struct parent_audio *audio)
{
	val a = yyjson_mut_arr_add_obj(d, all);
	add_uint(d, a, "index", (uint64_t)(audio - parent->audio));
	add_uint(d, a, "pid", (uint64_t)audio->child.pid);
	add_str(d, a, "state", audio->leaving ? "leaving" : child_word(&audio->child, audio->ready));
	add_uint(d, a, "restarts", audio->restarts);
	add_uint(d, a, "failures", audio->backoff.failures);
	if (audio->backoff.due_ns)
		add_uint(d, a, "restart_in_ms", ms_until(audio->backoff.due_ns));
	if (audio->ended_ns) {
		add_str(d, a, "last_end", audio->end);
		add_uint(d, a, "last_end_ms_ago", (clock_now_ns() - audio->ended_ns) / MS);
	}
	add_memory(d, a, &audio->memory);
	if (!audio->ready)
		return;
	const struct worker_counters *c = channel_counters(&audio->view);
	add_uint(d, a, "running", counted(&c->running));
	add_uint(d, a, "calls", counted(&c->calls));
	add_uint(d, a, "failed", counted(&c->failed));
	add_uint(d, a, "cancelled", counted(&c->cancelled));
}

/* Those that are there, or would be if they did not keep dying. */
static void add_audios(doc d, val root, struct parent *parent, struct memory_use *total)
{
	val all = yyjson_mut_obj_add_arr(d, root, "audio");
	for (uint32_t i = 0; i < parent->config.audio_processes; i++) {
		struct parent_audio *audio = &parent->audio[i];
		if (!audio->child.pid && !audio->backoff.due_ns)
			continue;
		if (audio->child.pid)
			memory_sample(audio->child.pid, &audio->memory);
		add_audio(d, all, parent, audio);
		total->private_bytes += audio->memory.private_bytes;
		total->private_peak_bytes += audio->memory.private_peak_bytes;
	}
}

static void add_processes(doc d, val root, struct parent *parent)
{
	struct memory_use total = {0};
	val workers = yyjson_mut_obj_add_arr(d, root, "workers");
	for (uint32_t i = 0; i < parent->n_workers; i++) {
		struct parent_worker *worker = &parent->workers[i];
		if (worker->model == PARENT_NO_MODEL)
			continue;
		if (worker->child.pid)
			memory_sample(worker->child.pid, &worker->memory);
		add_worker(d, workers, parent, worker);
		total.private_bytes += worker->memory.private_bytes;
		total.private_peak_bytes += worker->memory.private_peak_bytes;
	}
	add_audios(d, root, parent, &total);
	const struct {
		const char *key;
		pid_t pid;
		struct memory_use *use;
	} others[] = {{"front", parent->front.pid, &parent->front_memory}, {"parent", getpid(), &parent->own_memory}};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		if (others[i].pid)
			memory_sample(others[i].pid, others[i].use);
		val o = yyjson_mut_obj_add_obj(d, root, others[i].key);
		add_uint(d, o, "pid", (uint64_t)others[i].pid);
		add_memory(d, o, others[i].use);
		if (others[i].use == &parent->front_memory)
			add_front(d, o, parent);
		total.private_bytes += others[i].use->private_bytes;
		total.private_peak_bytes += others[i].use->private_peak_bytes;
	}
	add_uint(d, root, "private_bytes_total", total.private_bytes);
	add_uint(d, root, "private_peak_bytes_total", total.private_peak_bytes);
}

/* Of all copies together, and the NUMA calls that were refused, with their errors. */
static void add_placement(doc d, val root, const struct parent *parent)
{
	add_str(d, root, "placement", parent_placement(parent));
	val refused = yyjson_mut_obj_add_obj(d, root, "refused_calls");
	for (unsigned call = 0; call < N_NUMA_CALLS; call++)
		if (parent->refused.error[call])
			add_str(d, refused, numa_call_name(call), refusal_error_name(parent->refused.error[call]));
}

char *status_json(struct parent *parent, size_t *n_bytes)
{
	static const char *const io[] = {"auto", "uring", "epoll"}; /* by enum io_backend */
	doc d = yyjson_mut_doc_new(NULL);
	if (!d)
		return NULL;
	val root = yyjson_mut_obj(d);
	yyjson_mut_doc_set_root(d, root);
	add_str(d, root, "version", PACKAGE_VERSION);
	add_str(d, root, "instance", parent->config.instance);
	add_uint(d, root, "pid", (uint64_t)getpid());
	add_str(d, root, "state", parent_state(parent));
	add_uint(d, root, "uptime_s", (clock_now_ns() - parent->started_ns) / (1000 * MS));
	add_str(d, root, "socket", parent->config.socket);
	add_str(d, root, "listen", parent->config.listen);
	add_str(d, root, "io", io[parent->front_io <= IO_EPOLL ? parent->front_io : IO_AUTO]);
	add_placement(d, root, parent);
	val models = yyjson_mut_obj_add_arr(d, root, "models");
	for (uint32_t i = 0; i < parent->config.n_models; i++)
		if (parent->models[i].state != MODEL_NONE)
			add_model(d, models, parent, &parent->models[i]);
	val adapters = yyjson_mut_obj_add_arr(d, root, "adapters");
	for (const struct parent_adapter *a = parent->adapters; a; a = a->next)
		add_adapter(d, adapters, parent, a);
	add_processes(d, root, parent);
	char *text = yyjson_mut_write(d, YYJSON_WRITE_NEWLINE_AT_END, n_bytes);
	yyjson_mut_doc_free(d);
	return text;
}
