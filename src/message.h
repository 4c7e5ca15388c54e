/* Messages between the parent and its children, over one SOCK_SEQPACKET pair per child: a type, a fixed struct, and
 * descriptors in flight (SCM_RIGHTS). The first message to a child is its order; a child's end of the pair is
 * descriptor MESSAGE_FD. One message is one packet: it arrives whole or not at all. */
#ifndef WEIGHTD_MESSAGE_H
#define WEIGHTD_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "numa/idset.h"
#include "numa/node_counters.h"
#include "shm/segment.h"
#include "src/err.h"

enum { MESSAGE_FD = 3, MESSAGE_MAX_BYTES = 24576, MESSAGE_MAX_FDS = 8, MESSAGE_CANDIDATES_MAX = 128 };

enum message_type {
	/* parent -> loader: message_load, then message_files [a descriptor for each] until all n_files came. loader ->
	 * parent: message_progress*, message_segment [read-only fd]*, load_pace, then exit 0; or failed, exit 1. */
	MESSAGE_LOAD = 1,
	MESSAGE_FILES,
	MESSAGE_PROGRESS,
	MESSAGE_SEGMENT,
	/* parent -> worker: message_work, [channel memory, to_worker, to_front], then message_part [segment, or nothing
	 * if an earlier part has brought it] until all n_parts came. worker -> parent: ready. */
	MESSAGE_WORK,
	/* parent -> front: message_serve, [pulse, unix listener, tcp listener or nothing, keys or nothing]; then
	 * worker_up [channel x3] and worker_down as workers come and go, and state. front -> parent: front_ready;
	 * worker_down for a worker that broke the protocol. */
	MESSAGE_SERVE,
	MESSAGE_WORKER_UP,
	MESSAGE_WORKER_DOWN,
	/* parent -> front: message_flip: from here on other workers take a model's calls. front -> parent:
	 * message_worker_idle: one that takes no more has ended those it had. */
	MESSAGE_FLIP,
	MESSAGE_WORKER_IDLE,
	MESSAGE_STATE,
	MESSAGE_READY,
	/* parent -> worker: [channel x3]: the front is a new one; end all calls and serve it over this channel. */
	MESSAGE_CHANNEL,
	/* parent -> any child: finish your calls, then exit 0. */
	MESSAGE_DRAIN,
	/* any child -> parent: message_failed: why it is about to exit. */
	MESSAGE_FAILED,
	/* parent -> verifier: message_verify, [segments]. verifier -> parent: verified or, of a sample, sampled, one
	 * for each in order; exit 0. */
	MESSAGE_VERIFY,
	MESSAGE_VERIFIED,
	/* parent -> loader, instead of or before an order to load: message_adopt, then its candidates, one by one
	 * [read-only fd]. loader -> parent: message_refused for each that is not adopted, then message_segment* as
	 * after a load and exit 0; or not_adopted (message_failed), after which the loader waits for an order to load.
	 */
	MESSAGE_ADOPT,
	MESSAGE_CANDIDATE,
	MESSAGE_REFUSED,
	MESSAGE_NOT_ADOPTED,
	/* parent -> front: message_figures, once a second; one may be missing. */
	MESSAGE_FIGURES,
	/* parent -> worker: message_bench. worker -> parent: message_benched. */
	MESSAGE_BENCH,
	MESSAGE_BENCHED,
	/* parent -> worker: message_quality. worker -> parent: message_judged. */
	MESSAGE_QUALITY,
	MESSAGE_JUDGED,
	/* Adapters. An id stands for the bytes of one load and is never used again.
	 *
	 * parent -> loader: load_adapter (message_load, in which `model` is the adapter's name and `generation` its
	 * id), [a segment of the base, the files: one GGUF file, or a folder's adapter_config.json and
	 * adapter_model.safetensors]; the answer is that to an order to load.
	 * parent -> worker: message_adapter, [segment]: attach it; worker -> parent: attached (message_adapter) or
	 * not_attached. parent -> worker: adapter_drop (message_adapter): no call of it is left and none will come.
	 * parent -> front: adapter_up: calls may name it, in place of any other of this name; adapter_down
	 * (message_adapter): no more. Once no call of a downed or replaced one is left, front -> parent: adapter_idle
	 * (message_adapter).
	 * front -> parent: message_adapter_request; parent -> front: message_adapter_answer. */
	MESSAGE_LOAD_ADAPTER,
	MESSAGE_ADAPTER,
	MESSAGE_ADAPTER_ATTACHED,
	MESSAGE_ADAPTER_NOT_ATTACHED,
	MESSAGE_ADAPTER_DROP,
	MESSAGE_ADAPTER_UP,
	MESSAGE_ADAPTER_DOWN,
	MESSAGE_ADAPTER_IDLE,
	MESSAGE_ADAPTER_REQUEST,
	MESSAGE_ADAPTER_ANSWER,
	/* loader -> parent: load_pace, after the segments of a model that was loaded. */
	MESSAGE_PACE,
	/* parent -> worker: some of its threads, and the copy that they read. */
	MESSAGE_PART,
	/* verifier -> parent: see MESSAGE_VERIFY. */
	MESSAGE_SAMPLED,
	/* parent -> loader: message_load, [a published segment, in place of files]: more copies of it; the answer is
	 * that to an order to load. */
	MESSAGE_COPY,
	/* parent -> worker: message_spin, when its CPUs have come to be shared, or are its own again. */
	MESSAGE_SPIN,
	/* parent -> front: message_worker_copy, when what worker_up said of its copy is no longer so. */
	MESSAGE_WORKER_COPY,
	/* parent -> front: message_overview, after the figures; one may be missing. */
	MESSAGE_OVERVIEW,
	/* parent -> audio: message_audio, [channel memory, to_worker, to_front]; audio -> parent: ready.
	 * parent -> front: audio_up (message_audio_up) [channel x3], audio_down (message_audio_up). front -> parent:
	 * audio_down for one that broke the protocol. */
	MESSAGE_AUDIO,
	MESSAGE_AUDIO_UP,
	MESSAGE_AUDIO_DOWN,
};

struct message_load {
	char path[1024]; /* as configured, for messages and the header; what is there comes as descriptors */
	char instance[64], model[128];
	uint32_t generation;
	uint32_t backing;  /* enum segment_backing */
	uint32_t huge;	   /* enum segment_huge */
	uint32_t io;	   /* enum io_backend */
	uint32_t group;	   /* gid of the segments, (uint32_t)-1: unchanged */
	uint32_t quantize; /* enum model_quantize (src/load/model_quantize.h) */
	uint32_t n_files;  /* 1 to SEGMENT_FILES_MAX, which follow */
	uint32_t n_nodes;
	uint64_t served_bytes; /* of each of the copies that these replace, the largest; 0: there are none */
	uint16_t node[64];     /* a copy on each, the first is filled from the files */
	/* Further nodes that copy i is interleaved over: the next n_more[i] of more[]. */
	uint8_t n_more[64];
	uint16_t more[192];
	struct idset memory; /* nodes that memory may come from, for advice; empty: any that the kernel allows */
};

/* What a file of a model is to it. */
enum file_role {
	FILE_WEIGHTS = 1,  /* a GGUF file, one of the parts of a split one, or a folder's .safetensors file */
	FILE_TEMPLATE = 2, /* a chat template in place of the model's own */
	FILE_BESIDE = 3,   /* beside the weights in a Hugging Face folder: what it is, its name says */
};

/* The next files of an order, in order, with a descriptor for each. */
struct message_files {
	uint32_t n; /* 1 to MESSAGE_MAX_FDS */
	struct message_file {
		uint32_t role;	/* enum file_role */
		char name[256]; /* without its directory */
	} file[MESSAGE_MAX_FDS];
};

struct message_progress {
	uint64_t done_bytes, total_bytes;
};

/* Where the time of a load went. */
struct load_pace {
	uint64_t file_bytes;
	uint64_t total_ns;     /* from the order to published copies; of these: */
	uint64_t room_ns;      /* taking the memory of all copies */
	uint64_t fill_ns;      /* reading and packing, at the same time */
	uint64_t wait_ns;      /* of fill_ns: nothing to pack had come yet */
	uint64_t spread_ns;    /* the copies on other nodes */
	uint64_t publish_ns;   /* huge pages, digests, every page's place */
	uint64_t cached_bytes; /* of the files, in memory afterwards; UINT64_MAX: the kernel did not tell */
	uint32_t n_threads;    /* that packed */
	uint32_t pad;
};

struct message_segment {
	char name[SEGMENT_NAME_BYTES];
	uint32_t node;
	uint32_t backing; /* enum segment_backing */
	uint32_t adopted; /* 1: an earlier daemon made it */
	uint32_t generation;
	struct segment_report report;
	char architecture[64]; /* for status: "llama" */
	uint64_t context;
	uint32_t mel_bins; /* of a model that hears speech; 0: it does not */
	uint32_t pad;
};

struct message_adopt {
	struct message_load load;     /* what a load would be told */
	struct segment_source source; /* the model's files as they are now */
	uint32_t n_candidates;	      /* messages that follow, at most MESSAGE_CANDIDATES_MAX */
	uint32_t pad;
};

struct message_candidate {
	char name[SEGMENT_NAME_BYTES]; /* "": it has none */
	uint32_t node, generation;
};

struct message_refused {
	char name[SEGMENT_NAME_BYTES];
	uint32_t node;
	struct err why;
};

struct message_work {
	uint32_t worker;	  /* index, unique among live workers */
	uint32_t n_parts;	  /* 1 to WORK_PARTS_MAX, which follow */
	uint32_t node;		  /* of its private memory, but for what threads have for themselves */
	uint32_t memory_is_bound; /* 1: the memory policy it was started with stays: nearest first, of few nodes */
	uint32_t spin;		  /* 0: CPUs are shared, threads wait in the kernel at once */
	uint32_t cpu_level;	  /* enum cpu_level */
	uint32_t numerics;	  /* enum numerics */
	uint32_t context_tokens;  /* at most the model's */
	uint32_t prefill_chunk;
	uint32_t max_running;
	uint32_t lock_memory;	     /* 1: try to mlock the weights */
	uint32_t prefill_share;	     /* percent of a step that prompts may take while answers are generated */
	uint64_t kv_bytes;	     /* cap of the KV pool */
	uint64_t prefix_cache_bytes; /* 0: none */
	uint64_t uid, gid;	     /* to become; (uint64_t)-1: stay */
	uint32_t tool_parser;	     /* enum call_tool_format */
	uint32_t reasoning;	     /* enum call_reasoning */
	uint32_t pooling;	     /* enum pooling_kind */
	uint32_t kv_type;	     /* enum kv_type */
	char model[128];
};

struct message_spin {
	uint32_t spin; /* as in message_work */
};

/* Compute threads near each other, and which copy of the weights they read. */
enum { WORK_PARTS_MAX = 256 };
struct message_part {
	uint32_t node;	   /* of their private memory */
	uint32_t copy;	   /* the number of copies so far: this part brings it; less: an earlier one did */
	struct idset cpus; /* one compute thread on each */
};

struct message_audio {
	uint32_t max_seconds; /* of a file's audio */
	uint32_t seccomp;     /* 1: system calls are filtered */
	uint64_t max_bytes;   /* of a file */
	uint64_t uid, gid;    /* to become; (uint64_t)-1: stay */
};

struct message_audio_up {
	uint32_t index; /* of the process' place */
};

struct message_serve {
	uint32_t io; /* enum io_backend */
	uint32_t max_connections;
	uint64_t max_request_bytes, client_buffer_bytes;
	uint32_t max_queue;	  /* calls in flight or waiting, all workers */
	uint32_t idle_seconds;	  /* a connection without a request is closed after this */
	uint32_t request_seconds; /* a request has so long to arrive */
	uint32_t has_tcp;
	uint32_t has_keys;	  /* clients must show one of the keys */
	uint32_t max_running;	  /* calls that a worker computes at a time */
	uint32_t max_workers;	  /* channels there will be at a time, at most */
	uint32_t metrics_aliases; /* 1: figures also under the names of other programs */
	uint32_t dashboard;	  /* 1: GET / is a page */
	uint32_t prefix_cache;	  /* 1: workers keep prompts, so that prompts which begin alike should meet */
	uint32_t http_adapters;	  /* 1: clients may load and unload adapters */
	uint64_t max_audio_bytes; /* of an uploaded audio file */
	struct idset cpus;	  /* where the front runs; empty: anywhere */
	uint64_t uid, gid;
	char cors_origins[1024]; /* as the key has it */
};

/* Whether a worker is given calls. */
enum worker_duty {
	WORKER_SERVES,
	WORKER_STANDBY, /* not yet: its generation waits for all of its workers */
	WORKER_RETIRED, /* no more: it ends those it has */
};

struct message_worker_up {
	uint32_t worker, node;
	char model[128];
	uint64_t created; /* Unix seconds, for /v1/models */
	uint32_t context_tokens;
	uint32_t duty;	   /* enum worker_duty */
	uint32_t degraded; /* 1: pages of its copy are known to be on other nodes */
	uint32_t mel_bins; /* of a model that hears speech; 0: it does not */
};

struct message_worker_copy {
	uint32_t worker;
	uint32_t degraded; /* as above */
};

struct message_worker_down {
	uint32_t worker;
};

/* All in one message, so that no call finds half of it done. */
struct message_flip {
	uint32_t n_on, n_off;
	uint16_t on[256];  /* [n_on] workers that serve from now on */
	uint16_t off[256]; /* [n_off] that are retired */
};

struct message_worker_idle {
	uint32_t worker;
};

/* How a configured model stands for clients. */
enum model_standing {
	STANDING_COMES, /* loading, or its first workers are starting */
	STANDING_SERVED,
	STANDING_FAILING, /* its workers die again and again without serving; they are tried again */
	STANDING_FAILED,  /* could not be loaded */
};

struct message_model {
	char name[128];
	uint32_t standing; /* enum model_standing */
	uint32_t degraded; /* copies of which pages are known to be on other nodes */
	char why[256];	   /* it is failing or failed, or copies are degraded; else "" */
};

struct message_state {
	uint32_t loading;	   /* models still being loaded */
	uint32_t failed;	   /* models that could not be loaded */
	uint32_t adapters_come;	   /* 1: adapters of the settings are on their way */
	uint32_t adapters_failed;  /* 1: some of them could not be loaded */
	char text[256];		   /* for /health: what is being waited for, or what failed */
	uint64_t weight_bytes[64]; /* per node, for /metrics: [i] of nodes[i] */
	uint32_t n_nodes;
	uint16_t node[64];
	uint64_t worker_restarts;
	struct refusals refused;
	char placement[16]; /* the worst of all copies: "verified", "unverified" or "misplaced" */
	uint32_t n_models;  /* all that are configured */
	struct message_model model[16];
};

/* A node, and the pages of all copies that belong on it, as last checked. */
struct figures_node {
	uint32_t node;
	uint32_t verified; /* 1: all copies */
	uint32_t degraded; /* copies of which pages are on other nodes */
	uint64_t pages, on_node, misplaced, absent, unknown;
	uint64_t checked_ns;			       /* CLOCK_MONOTONIC, of the copy whose check is the oldest */
	uint64_t small_bytes, huge_bytes, giant_bytes; /* of the copies, by the size of their pages (shm/segment.h) */
	uint64_t unlocked_bytes;		       /* of them: could be swapped out */
	uint32_t n_copies;			       /* 0: all of the above is 0 */
	uint32_t counted;			       /* 1: the kernel tells its counters */
	struct node_counters counters;
};

/* For /metrics: what the parent sees and the front can't. Private memory is RssAnon and VmPTE (src/parent/memory.h). */
struct message_figures {
	uint64_t parent_private_bytes, parent_private_peak_bytes;
	uint64_t front_private_bytes, front_private_peak_bytes;
	uint64_t worker_private_bytes[256], worker_private_peak_bytes[256]; /* [n_workers] by index */
	uint64_t worker_cpu_ns[256];	/* [n_workers], of all processes that had the place; only grows */
	uint16_t worker_node[256];	/* [n_workers], where it runs */
	uint16_t worker_cpus_gone[256]; /* [n_workers], CPUs of its plan that are offline or out of the cpuset */
	uint64_t parent_cpu_ns, front_cpu_ns;
	uint64_t audio_private_bytes[16], audio_private_peak_bytes[16]; /* [n_audio] by index */
	uint64_t audio_cpu_ns[16];					/* [n_audio] as above */
	uint64_t audio_restarts;
	uint32_t n_audio, pad; /* 0: no speech model is served */
	uint32_t n_workers, n_nodes;
	struct figures_node node[64]; /* [n_nodes] */
	uint64_t front_restarts;
	uint64_t sampled_pages, sampled_misplaced;	 /* by all samples so far */
	uint64_t worker_hangs, front_hangs, other_hangs; /* processes killed because they made no progress */
};

/* For GET /v1/status: models, copies and workers one by one, where the figures are sums. */
enum { OVERVIEW_MODELS_MAX = 16, OVERVIEW_COPIES_MAX = 88, OVERVIEW_WORKERS_MAX = 256 };
struct message_overview {
	uint64_t uptime_s;
	uint32_t n_models, n_workers, n_copies;
	uint32_t n_copies_more; /* that had no room here */
	struct overview_model {
		char name[128];
		char architecture[32]; /* "": not known yet */
		uint64_t done_bytes,
			total_bytes;	  /* of the load that goes on; 0 and 0: none does, or it has told nothing */
		uint32_t standing;	  /* enum model_standing */
		uint32_t generation;	  /* that is served; 0: none yet */
		uint32_t next_generation; /* that comes, or has come while the one before it goes; 0: none */
		char change[12];	  /* where that stands, in a word; "": nowhere */
	} model[OVERVIEW_MODELS_MAX];
	struct overview_copy {
		uint64_t small_bytes, huge_bytes, giant_bytes; /* by the size of its pages (shm/segment.h) */
		uint64_t pages, misplaced;
		uint32_t adapter;    /* its id; 0: a copy of the model itself */
		uint32_t generation; /* of the model */
		uint16_t node;	     /* that it is named for */
		uint16_t n_nodes;    /* 1, or so many that it is interleaved over */
		uint8_t model;	     /* index of model[] */
		uint8_t degraded;    /* 1: pages of it are known to be on other nodes */
		uint8_t verified;    /* 1: none is, and the kernel has said so of each */
		uint8_t pad;
	} copy[OVERVIEW_COPIES_MAX];
	struct overview_worker { /* by index */
		uint64_t
			shared_bytes; /* resident in its map and not its own: weights above all (src/parent/memory.h) */
		uint32_t generation, restarts, restart_in_ms;
		uint16_t node, copy_node;
		uint8_t is_there; /* 0: the place is free */
		uint8_t model;	  /* index of model[] */
		char cpus[22];	  /* "0-3,8", cut with "..." */
		char state[12];	  /* a word: "ready", "starting", "waiting", "hung", "standby", "leaving" */
	} worker[OVERVIEW_WORKERS_MAX];
};

struct message_worker_ready { /* a worker's MESSAGE_READY */
	struct refusals refused;
	uint64_t attach_ns; /* from the segment's descriptor to a model that can be read: mapped, locked, checked */
};

struct message_front_ready { /* the front's */
	uint32_t io;	     /* enum io_backend in use, never IO_AUTO */
};

struct message_failed {
	struct err err;
	int32_t code; /* -errno; of a loader that found no room, -EXFULL: there is some once what is served is gone */
};

struct message_adapter {
	uint32_t id;
};

struct message_adapter_not_attached {
	uint32_t id;
	struct err why;
};

struct message_adapter_up {
	uint32_t id, pad;
	char name[128], model[128];
	char path[1024];  /* for clients to see */
	uint64_t created; /* Unix seconds */
};

enum adapter_wish {
	ADAPTER_LOAD = 1,
	ADAPTER_UNLOAD,
	ADAPTER_AGAIN, /* an operator's alone: new copies of the one that is served, from its own bytes */
};

/* A client's wish; the parent answers every one, within ADAPTER_PATIENCE_S. */
enum { ADAPTER_PATIENCE_S = 45 };
struct message_adapter_request {
	uint64_t ticket;  /* the asker's own number for it */
	uint32_t wish;	  /* enum adapter_wish */
	uint32_t replace; /* 1: a name that is taken gets new bytes */
	char name[128];
	char model[128]; /* "": the only one */
	char path[1024]; /* to load: where from */
};

struct message_adapter_answer {
	uint64_t ticket;
	uint32_t status; /* HTTP: 200, or an error's */
	char param[32], code[32];
	char text[256];
};

struct message_verify {
	uint32_t n;
	uint32_t sample_pages; /* ask for so many pages of each; 0: for all */
	uint64_t turn;	       /* of the sample: other turns, other pages */
	uint32_t node[MESSAGE_MAX_FDS];
};

struct message_verified {
	uint32_t node;
	uint32_t pad;
	struct segment_report report;
};

struct message_sampled {
	uint32_t node;
	uint32_t pad;
	struct placement placement; /* of the pages that were asked for */
};

/* What a worker is to measure of itself, once. */
struct message_bench {
	uint32_t prompt_tokens;	   /* 1.., computed by one stream */
	uint32_t generated_tokens; /* 1.., by each of the streams */
	uint32_t streams;	   /* 1..DECODE_ROWS_MAX */
	uint32_t depth;		   /* tokens each stream has before what is measured */
};

struct message_benched {
	struct err err; /* "": it was measured */
	uint64_t prefill_ns, decode_ns;
	uint64_t prefill_forward_ns, decode_forward_ns; /* of these, in the forward pass */
	uint64_t decode_steps;
	uint64_t prefill_operations;	     /* floating-point, of products and attention */
	uint64_t prefill_library_operations; /* of these, oneDNN's */
	uint64_t weight_bytes;		     /* of all matrices: what a decode step reads */
	double matrix_operations;	  /* floating-point operations of the weight products of the measured prompt */
	double read_bytes_per_s;	  /* reading the same weights does, by the same threads */
	double multiply_operations_per_s; /* products of prefill do, over weights that are expanded already */
};

/* A text whose every token a worker is to predict, in float32 and as it serves. */
enum { QUALITY_TOKENS_MAX = 1536 };
struct message_quality {
	uint32_t n_tokens; /* 2.. */
	uint32_t tokens[QUALITY_TOKENS_MAX];
};

/* How a phase's predictions differ from those in float32; nats. */
struct quality {
	double mean_kl, max_kl; /* Kullback-Leibler divergence from float32 */
	double perplexity;	/* exp of the mean surprise at the tokens that came */
};
struct message_judged {
	struct err err; /* "": it was judged */
	struct quality prefill, decode;
	double reference_perplexity;
	uint32_t n_positions;
};

struct message {
	uint32_t type; /* enum message_type */
	uint32_t n_bytes;
	uint32_t n_fds;
	int fds[MESSAGE_MAX_FDS]; /* returned owned, close-on-exec */
	_Alignas(8) unsigned char payload[MESSAGE_MAX_BYTES];
};

/* Sends one message; `fds` are borrowed. 0, -EAGAIN when the socket is non-blocking and full, -EPIPE. */
int message_send(int fd, uint32_t type, const void *payload, size_t n_bytes, const int *fds, uint32_t n_fds);

/* 1: a message; 0: the peer is gone; -EAGAIN; -EPROTO for anything malformed. */
int message_receive(int fd, struct message *out);

/* The payload if the message has exactly this size and number of descriptors, else NULL. View into `message`. */
const void *message_payload(const struct message *message, size_t n_bytes, uint32_t n_fds);

#endif
