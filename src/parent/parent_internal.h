/* What the parent's files share: parent.c (life, loop), parent_models.c (loading), parent_generations.c
 * (from one load to the next), parent_adopt.c (leftovers),
 * parent_adapters.c and parent_adapters_load.c (adapters), parent_workers.c and parent_front.c (starting and
 * replacing), parent_watch.c (hangs), parent_notify.c (systemd), parent_verify.c (placement checks), parent_bench.c
 * (measuring), parent_placement.c (refused NUMA calls), parent_cpus.c (CPUs that go away), parent_figures.c (for
 * /metrics), parent_overview.c (for /v1/status), parent_plan.c (the plan, and being held to it). */
#ifndef WEIGHTD_PARENT_INTERNAL_H
#define WEIGHTD_PARENT_INTERNAL_H

#include "src/parent/model_files.h"
#include "src/parent/parent.h"

/* parent_plan.c: once, before anything is started. */
int parent_make_plan(struct parent *parent, struct err *err);

/* parent_models.c */
void models_load_next(struct parent *parent); /* starts the loader for the next waiting model, if none runs */
void models_loader_message(struct parent *parent, struct message *message);
void models_loader_ended(struct parent *parent, int wait_status);
/* Whether more than half of the time of reading and packing was spent waiting for what was read. */
bool models_waited_for_files(const struct load_pace *pace);
/* At the end: closes all segments, and removes them unless they are to stay. */
void models_close(struct parent *parent);
void models_drop_copies(struct parent *parent, struct parent_model *model); /* closes and removes what is served */

/* What an order to load from `path` says. `name`: the model's in the segment;
 * `nodes`: which of the plan's copies, by the nodes they are named for. */
int order_fill(const struct parent *parent, const char *path, const char *name, uint32_t generation,
	       const struct idset *nodes, struct message_load *order, struct err *err);

/* parent_adapters.c */
void adapters_begin(struct parent *parent); /* those of the settings */
void adapters_turn(struct parent *parent, uint64_t now_ns);
bool adapters_come(const struct parent *parent); /* some of the settings are still on their way */
/* The first of the settings that could not be loaded; NULL. */
const struct parent_adapter *adapters_failed(const struct parent *parent);
void adapters_introduce(struct parent *parent); /* all that are served, to a new front */
void adapters_idle(struct parent *parent, uint32_t id);
void adapters_front_ended(struct parent *parent); /* after workers were told: no call is left, nobody waits */
void adapters_worker_started(struct parent *parent, const struct parent_worker *worker);
bool adapters_complete(const struct parent *parent,
		       const struct parent_worker *worker); /* it has all that are served */
void adapters_worker_message(struct parent *parent, struct parent_worker *worker, struct message *message);
void adapters_worker_changed(struct parent *parent, const struct parent_worker *worker); /* it is ready, or ended */
void adapters_loaded(struct parent *parent, struct parent_adapter *adapter);		 /* its segments are there */
void adapters_fail(struct parent *parent, struct parent_adapter *adapter, int status, const char *text);
void adapters_leave(struct parent *parent, uint32_t model); /* all of a model are unloaded */
void adapters_stop(struct parent *parent);		    /* nobody is made to wait any longer */
void adapters_close(struct parent *parent);

/* parent_adapters_load.c */
void adapter_load_next(struct parent *parent, uint64_t now_ns);
void adapter_loader_message(struct parent *parent, struct message *message);
void adapter_loader_ended(struct parent *parent, int wait_status);
/* The one that calls of this name go to; NULL. */
const struct parent_adapter *adapter_served(const struct parent *parent, const char *name);
void adapter_drop_copies(struct parent *parent, struct parent_adapter *adapter); /* closes and removes its segments */

/* parent_adopt.c */
int leftovers_find(struct parent *parent, struct err *err); /* and removes those that nobody wants */
/* Sends the loader what there is of a model, for adoption instead of the load. False: nothing was sent, it has no order
 * yet. */
bool leftovers_offer(struct parent *parent, const struct message_load *load, const struct model_files *files);
void copies_store(struct parent *parent, struct parent_model *model); /* into the service manager's store */
void copies_unstore(struct parent *parent, const struct parent_model *model, const struct parent_copy *copies,
		    uint32_t n_copies);
void leftovers_unstore(struct parent *parent, const struct parent_model *model); /* whatever is stored of it */
/* The highest generation of what there is of a model; 0: there is nothing. */
uint32_t leftovers_generation(const struct parent *parent, const char *model);

/* parent_generations.c */
/* Announces new copies for `nodes`, which their maker then enters into model->change; whatever becomes of it is told to
 * whoever has the ticket (0: nobody). False: another change is under way. */
bool generation_begin(struct parent *parent, struct parent_model *model, const struct idset *nodes, uint64_t ticket);
/* All of the copies are there: workers for them start, and when they are ready calls go to them. */
void generation_filled(struct parent *parent, struct parent_model *model);
/* There is no room for them beside what they replace, as `text` says, but in its place. False: then nobody would serve
 * meanwhile, which `text` says, too. */
bool generation_in_turn(struct parent *parent, struct parent_model *model, char text[256]);
/* What made room for them may still be mapped by somebody. */
bool generation_waits_for_memory(const struct parent *parent, const struct parent_model *model);
/* They can't be had: what is served goes on to be. */
void generation_failed(struct parent *parent, struct parent_model *model, const char *text);
/* Workers of the model on standby serve from now on, those that serve on nodes of `retired` no more. */
void workers_turn(struct parent *parent, const struct parent_model *model, const struct idset *retired);
void generations_worker_ready(struct parent *parent, const struct parent_worker *worker);
/* One that was not serving has ended, and why if it said so. False: it is to be started again. */
bool generations_worker_ended(struct parent *parent, struct parent_worker *worker);
void generations_worker_idle(struct parent *parent, uint32_t worker); /* the front says so */
void generations_front_ended(struct parent *parent);
void generations_stop(struct parent *parent);
void generations_close(struct parent *parent); /* at the end: what comes or goes is removed */

/* parent_wishes.c */
/* What an operator wants; it is answered now or later under this ticket (control.h). */
void wish_load_model(struct parent *parent, const char *name, const char *path, uint64_t ticket);
void wish_reload_model(struct parent *parent, const char *name, uint64_t ticket);
/* A model's degraded copies, or all of an adapter that has some, are replaced by new ones, made from a copy that is
 * served. */
void wish_repair(struct parent *parent, const char *name, uint64_t ticket);
void wish_unload_model(struct parent *parent, const char *name, uint64_t ticket);
/* Answers whoever has the ticket, and takes it; 0: nobody. */
__attribute__((format(printf, 4, 5))) void wish_answer(struct parent *parent, uint64_t *ticket, bool well,
						       const char *format, ...);
void wish_served(struct parent *parent, struct parent_model *model);
void wish_failed(struct parent *parent, struct parent_model *model, const char *text);
void wishes_turn(struct parent *parent); /* what is unloaded goes when its calls have ended */
uint32_t models_count(const struct parent *parent);
bool model_is_public(const struct parent_model *model); /* clients are told of it */

/* parent_front.c */
void front_start(struct parent *parent);
void front_message(struct parent *parent, struct message *message);
void front_ended(struct parent *parent, int wait_status);
void front_tell_state(struct parent *parent);
void front_introduce(struct parent *parent, const struct parent_worker *worker);
void front_tell_copy(struct parent *parent, const struct parent_copy *copy); /* to be good, or degraded, from now on */
void front_lose_worker(struct parent *parent, uint32_t worker);
/* Any other message; nothing without a front. */
void front_tell(struct parent *parent, enum message_type type, const void *payload, size_t n_bytes);

/* parent_figures.c */
void figures_turn(struct parent *parent, uint64_t now_ns); /* what /metrics shows of memory and placement */

/* parent_overview.c */
void overview_tell(struct parent *parent); /* what /v1/status shows of models, copies and workers, to a front */

/* parent_workers.c */
/* Those for the copies [n_copies] of one generation of a model. -ENOSPC: there are too many already. */
int workers_start(struct parent *parent, uint32_t model, const struct parent_copy *copies, uint32_t n_copies,
		  enum worker_duty duty, struct err *err);
void worker_forget(struct parent *parent, struct parent_worker *worker); /* it has ended for good: its place is free */
/* The copy that it reads; NULL: it is not there any more. */
const struct parent_copy *worker_copy(const struct parent_model *model, const struct parent_worker *worker);
bool worker_serves(const struct parent_worker *worker); /* it is there to be given calls, now or when it is ready */
void worker_message(struct parent *parent, struct parent_worker *worker, struct message *message);
bool worker_is_degraded(const struct parent *parent, const struct parent_worker *worker); /* a copy that it reads is */
/* The nodes whose copies it reads. */
void worker_copy_nodes(const struct parent *parent, const struct parent_worker *worker, struct idset *out);
/* Its parts, as plan_parts has them. */
unsigned worker_parts(const struct parent *parent, const struct parent_worker *worker,
		      const struct plan_worker *parts[PLAN_WORKERS_MAX]);
void worker_ended(struct parent *parent, struct parent_worker *worker, int wait_status);
/* It takes calls from now on, if nothing is missing any more. */
void worker_try_ready(struct parent *parent, struct parent_worker *worker);
void workers_restart_due(struct parent *parent, uint64_t now_ns);

/* parent_audio.c */
bool parent_needs_audio(const struct parent *parent);	 /* a model that hears speech is loaded */
void audio_turn(struct parent *parent, uint64_t now_ns); /* starts those that are needed, ends those that are not */
void audio_message(struct parent *parent, struct parent_audio *audio, struct message *message);
void audio_ended(struct parent *parent, struct parent_audio *audio, int wait_status);
void audio_broken(struct parent *parent, uint32_t index); /* the front says so */
void audio_front_ended(struct parent *parent);
void audio_stop(struct parent *parent); /* at once; without a front nobody waits for them */

/* parent_watch.c */
uint64_t audio_progress(struct parent_audio *audio);
bool audio_is_proven(struct parent_audio *audio, uint64_t now_ns);
void parent_watch(struct parent *parent, uint64_t now_ns); /* kills what hangs; often */
bool parent_nothing_hangs(const struct parent *parent);
uint64_t worker_progress(struct parent_worker *worker);
bool worker_is_proven(struct parent_worker *worker, uint64_t now_ns); /* it has served */
bool front_is_proven(const struct parent *parent, uint64_t now_ns);

/* parent_notify.c: what systemd is told */
void notify_start(struct parent *parent);
void notify_ready(struct parent *parent);
void notify_stopping(void);
void notify_turn(struct parent *parent, uint64_t now_ns); /* the status line when it has changed, and the watchdog */

/* parent_verify.c */
void copy_init(struct parent *parent, struct parent_copy *copy, const struct message_segment *segment, int fd);
void verify_turn(struct parent *parent, uint64_t now_ns); /* samples, when they are due */
void verify_message(struct parent *parent, struct message *message);
void verify_ended(struct parent *parent, int wait_status);

/* parent_cpus.c */
void cpus_turn(struct parent *parent, uint64_t now_ns); /* notices CPUs that are gone, back, or shared */
/* Whether no other process computes on its CPUs, and all of them are there. */
bool cpus_are_own(const struct parent *parent, const struct parent_worker *worker);
/* Those of a worker's CPUs that there are now; if none is left, as many others. */
void cpus_left(const struct idset *planned, struct idset *out);

/* parent_placement.c */
/* Tries what a refusal of would else be found gigabytes later. With `strict` that is an error. */
int placement_try(struct parent *parent, struct err *err);
void placement_refused(struct parent *parent, const struct refusals *refused); /* as some process found */
int placement_refused_at_start(struct parent *parent, const struct refusals *refused, struct err *err);

/* parent_bench.c */
bool bench_message(struct parent *parent, const struct parent_worker *worker, const struct message *message); /* its */
void bench_lost(struct parent *parent, const struct parent_worker *worker);

/* parent.c */
void parent_announce(struct parent *parent); /* once nothing is on its way any more: ready, or no use */

#endif
