/* The parent: it holds the instance's lock, the listening sockets, one read-only descriptor per segment, and every
 * child; it starts, watches, replaces and stops them. It never parses a byte of a client or of a model file. */
#ifndef WEIGHTD_PARENT_H
#define WEIGHTD_PARENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "numa/topology.h"
#include "shm/channel.h"
#include "src/parent/adapter_file.h"
#include "src/parent/backoff.h"
#include "src/parent/child.h"
#include "src/parent/cpu_time.h"
#include "src/config.h"
#include "src/parent/fdstore.h"
#include "src/kernel/kernel.h"
#include "src/parent/memory.h"
#include "src/message.h"
#include "src/parent/plan.h"
#include "src/pulse.h"

/* Exit statuses beside 0 and 1. */
enum { PARENT_EXIT_STRICT = 3 };	      /* strict = yes, and placement could not be verified */
enum { PARENT_NO_MODEL = CONFIG_MODELS_MAX }; /* an index that none has */
enum { PARENT_COPIES_MAX = 64, PARENT_WORKERS_MAX = 256, PARENT_AUDIO_MAX = 16, PARENT_GENERATION = 1 /* the first */ };

enum model_state {
	MODEL_WAITING,
	MODEL_LOADING,
	MODEL_LOADED,
	MODEL_FAILED,
	MODEL_UNLOADING, /* calls that run end; new ones can't name it */
	MODEL_NONE,	 /* the place is free */
};

struct parent_copy {
	struct message_segment segment; /* what the loader, later the verifier, said */
	int fd;				/* read-only descriptor */
	bool stored;			/* the service manager has one, too */
	uint32_t id;			/* never used again */
	bool check_due, sample_due;	/* all of its pages are to be asked for, or some */
	uint64_t checked_ns, sampled_ns;
	uint64_t sampled_pages, sampled_misplaced; /* by the last sample */
};

/* Some of its pages are known to be on other nodes. */
static inline bool copy_is_degraded(const struct parent_copy *copy)
{
	return copy->segment.report.placement.misplaced != 0;
}

enum change_state {
	CHANGE_NONE,
	CHANGE_DRAINING, /* calls end that are on nodes whose copies make room for the next ones */
	CHANGE_WAITING,	 /* for the loader */
	CHANGE_FILLING,	 /* the copies are being made */
	CHANGE_STARTING, /* workers attach them, and get no calls yet */
	CHANGE_LEAVING,	 /* it is served; calls of the one before it end */
};

/* From one generation of a model to the next (parent_generations.c). */
struct parent_change {
	enum change_state state;
	uint32_t generation; /* that comes, or has come */
	struct idset nodes;  /* whose copies it replaces */
	uint64_t ticket;     /* of the operator who waits for it; 0: nobody */
	uint64_t next;	     /* of one who wants another change after this one; 0: nobody */
	bool from_memory;    /* made from a copy that is served; false: from the model's files */
	struct idset rest;   /* whose copies it replaces after these, one node after the other */
	bool freed;	     /* the copies that it replaces went before these came */
	bool restores;	     /* these come in place of some that went for what then failed */
	struct load_pace pace;
	char fault[256]; /* why the last one was given up; "": it was not */
	uint32_t n_copies;
	struct parent_copy copies[PARENT_COPIES_MAX]; /* until it is served those that come, then those that go */
};

struct parent_model {
	const struct config_model *config;
	enum model_state state;
	char fault[256];			      /* why it failed */
	bool served;				      /* some worker of it has been ready */
	bool asked;				      /* by an operator, not by the settings */
	bool adopting;				      /* the loader looks at leftovers; no file was opened */
	bool adopted;				      /* from leftovers: no file was opened at all */
	bool leftovers_done;			      /* they are not offered (again) */
	uint64_t created;			      /* Unix seconds */
	uint64_t done_bytes, total_bytes;	      /* of loading */
	struct load_pace pace;			      /* of the load; zeros: none was needed, or it goes on */
	struct backoff load;			      /* of loaders that were killed */
	uint32_t generation;			      /* that is served, or is being loaded as the first */
	uint32_t last_generation;		      /* the highest number that was given; the next is one more */
	struct parent_copy copies[PARENT_COPIES_MAX]; /* that are served */
	uint32_t n_copies;
	struct parent_change change;
};

enum adapter_state {
	ADAPTER_WAITING,   /* for the loader */
	ADAPTER_LOADING,   /* the loader makes its segments */
	ADAPTER_SPREADING, /* workers attach it */
	ADAPTER_SERVED,
	ADAPTER_RETIRED, /* unloaded or replaced; calls that run still use it */
	ADAPTER_FAILED,	 /* one of the settings that could not be loaded */
};

/* Who waits for a load or an unload. */
struct adapter_asker {
	enum { ASKER_NONE, ASKER_FRONT, ASKER_CONTROL } who;
	uint64_t ticket; /* the asker's own number */
};

/* An adapter, from the wish to have it until no call uses its bytes any more. */
struct parent_adapter {
	struct parent_adapter *next; /* in the order of their ids */
	uint32_t id;		     /* of these bytes, never used again */
	char name[128];
	char path[CONFIG_PATH];
	uint32_t model; /* index */
	enum adapter_state state;
	bool configured;	    /* has a section in the settings */
	bool again;		    /* made from the copies of the one that is served under its name, not from files */
	struct adapter_files files; /* open until the loader has them */
	struct adapter_asker asker;
	uint64_t deadline_ns; /* of the load; 0: none */
	uint64_t created;     /* Unix seconds; since when it is served */
	struct backoff load;  /* of loaders that were killed, with a configured one */
	int fault_code;	      /* -errno: what the loader has said of its end to come */
	char fault[256];
	bool attached[PARENT_WORKERS_MAX]; /* by the workers' index */
	uint32_t n_copies;
	struct parent_copy copies[]; /* [n_copies], room for one on each of the plan's nodes */
};

struct parent_worker {
	struct child child;
	struct plan_worker plan; /* its first part, with all CPUs */
	unsigned planned;	 /* index of that part in the plan */
	uint32_t model;		 /* index; PARENT_NO_MODEL: the place is free */
	uint32_t generation;	 /* of the copies that it reads, or of the newest of them */
	struct idset cpus_gone;	 /* of its CPUs: no thread may run there (any more) */
	enum worker_duty duty;
	bool spins; /* as it was told: its CPUs are its own, so its threads may wait on them */
	struct channel_fds channel;
	struct channel view; /* the parent's mapping, for the counters */
	bool ready, proven;  /* ready: it takes calls; proven: the present process has served */
	bool started;	     /* it has said that it is ready; its adapters may still be missing */
	uint64_t ready_ns;
	uint64_t attach_ns; /* what attaching its copy took */
	uint32_t restarts;
	struct backoff backoff;
	char fault[256];   /* what the present process has said of its end to come */
	char end[256];	   /* how the last one ended, and why if it said so */
	uint64_t ended_ns; /* when; 0: none has */
	struct memory_use memory;
	struct cpu_time cpu; /* of all its processes */
};

/* A process that decodes audio (parent_audio.c). */
struct parent_audio {
	struct child child;
	struct channel_fds channel;
	struct channel view; /* the parent's mapping, for the counters */
	bool ready;
	bool leaving; /* told to end: nobody needs it, or its front has ended */
	uint64_t ready_ns;
	uint32_t restarts;
	struct backoff backoff;
	char fault[256]; /* what the present process has said of its end to come */
	char end[256];	 /* how the last one ended */
	uint64_t ended_ns;
	struct memory_use memory;
	struct cpu_time cpu; /* of all its processes */
};

/* What systemd has been told. */
struct parent_notify {
	char status[256];
	uint64_t watchdog_ns; /* how often it wants to hear of us; 0: not at all */
	uint64_t sent_ns;
	uint64_t front_turns; /* at that time */
};

struct parent {
	struct config config;
	struct topology *topology;
	struct plan plan;
	struct refusals refused; /* NUMA calls, of any process so far */
	uint64_t started_ns;
	uint64_t uid, gid;	  /* of the children; UINT64_MAX: as the parent */
	enum cpu_level cpu_level; /* of all workers */
	enum numerics numerics;

	int lock_fd, signal_fd, unix_fd, tcp_fd;
	int keys_fd; /* of api_keys_file; -1: none */
	struct fdstore store;
	struct segment_found *leftovers; /* [n_leftovers] owned: named segments of an earlier daemon, by name only */
	unsigned n_leftovers;
	bool started;	  /* so that it is this daemon's part to clean up at the end */
	bool owns_socket; /* we made the Unix socket's file */
	struct child loader, front, verifier, adapter_loader;
	uint32_t loading; /* index of the model being loaded */
	int loader_code;  /* of loader_fault: -errno */
	char loader_fault[256], front_fault[256];
	char front_end[256];			      /* how the last front ended */
	bool front_ready, front_served, front_proven; /* served: ever; proven: the present one */
	uint32_t front_io;			      /* enum io_backend in use; IO_AUTO until the front has said */
	uint32_t front_restarts;
	struct pulse *front_pulse; /* owned; NULL while there is no front */
	struct backoff front_backoff;
	struct memory_use front_memory, own_memory;
	struct cpu_time front_cpu, own_cpu;

	struct parent_adapter *adapters;      /* list, owned */
	struct parent_adapter *adapter_loads; /* the one that the adapter loader makes; NULL: none */
	uint32_t adapter_id;		      /* the last one given */

	struct parent_model models[CONFIG_MODELS_MAX];
	struct parent_worker workers[PARENT_WORKERS_MAX];
	struct parent_audio audio[PARENT_AUDIO_MAX]; /* [config.audio_processes] */
	uint32_t n_workers;
	uint64_t worker_restarts;
	uint64_t hangs[N_CHILD_ROLES]; /* by role: killed because they made no progress */
	uint64_t figures_ns;	       /* when the front was last given them, */
	uint64_t figures_turns;	       /* and its pulse then */

	bool announced; /* everything that can serve did: systemd knows */
	bool stopping, workers_told, killing;
	uint64_t stop_deadline_ns;
	uint64_t sampled_ns, watched_ns, cpus_ns;
	struct parent_notify notify;
	int exit_status;

	struct control *control;
	/* placement (parent_verify.c) */
	uint32_t copy_id;			   /* the last one given */
	uint32_t verify_ids[MESSAGE_MAX_FDS];	   /* [verify_n] the copies that the verifier has, in order */
	uint32_t verify_n, verify_heard;	   /* heard: so many of them it has answered for */
	bool verify_samples;			   /* it takes samples; false: it counts */
	bool verify_all;			   /* somebody waits for a count of all copies */
	uint64_t sampled_copies_ns, sample_turn;   /* when samples were last due, and how often that was */
	uint64_t sampled_pages, sampled_misplaced; /* by all of them */

	const struct parent_worker *benching; /* it measures itself; NULL: none does */
};

/* Runs the daemon until it is told to stop. Returns the exit status. */
int parent_run(const struct config *config);

/* Prints what runs where on this machine with these settings (plan_print). 0 or -errno. */
int parent_plan(const struct config *config, FILE *out, struct err *err);

/* "ready", "loading", "failing", "failed" or "stopping", for status and systemd. */
const char *parent_state(const struct parent *parent);

/* How a model stands for clients, and why if it is failing or failed ("" otherwise; view into the model or a worker).
 */
enum model_standing model_standing(const struct parent *parent, uint32_t index, const char **why);

/* Positions that calls of a loaded model may have: its copy's context, or context_tokens where that is less. */
uint64_t parent_context(const struct parent *parent, const struct parent_copy *copy);

/* What is known of where the weights are: "verified", "misplaced" or "unverified"; of one copy, or the worst of all. */
const char *copy_placement(const struct parent_copy *copy);
const char *parent_placement(const struct parent *parent);

/* How a restart will find the copies of a loaded model: "adopt" (by name), "fdstore" or, not at all, "reload". */
const char *parent_restart(const struct parent *parent, const struct parent_model *model);

/* Begins an orderly stop; a second call ends everything at once. */
void parent_stop(struct parent *parent);

/* Has all pages of all copies counted, unless that is being done already; control_verified comes when it is. 0 or
 * -errno; -ENOENT: there are none. */
int parent_verify(struct parent *parent, struct err *err);

/* Have a worker measure itself, or judge its numerics; control_benched comes when it has. -EBUSY, -EAGAIN: none is
 * ready. */
int parent_bench(struct parent *parent, const struct message_bench *bench, struct err *err);
int parent_quality(struct parent *parent, const struct message_quality *quality, struct err *err);

/* A client's or an operator's wish; it is answered now or later, through adapters_answer. `directory`: beneath which a
 * path has to be; NULL: any. */
void adapters_wish(struct parent *parent, const struct message_adapter_request *wish, struct adapter_asker asker,
		   const char *directory);

#endif
