/* weightd.conf: one table of keys with type, bounds, default and help; INI syntax read by inih.
 *
 *   [weightd]             the daemon's keys
 *   [model NAME]          one section per model: path = FILE, or pull = CATALOGUE NAME
 *   [adapter NAME]        one section per adapter that is there from the start: path = FILE, model = NAME
 */
#ifndef WEIGHTD_CONFIG_H
#define WEIGHTD_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "numa/idset.h"
#include "src/err.h"

enum { CONFIG_MODELS_MAX = 16, CONFIG_ADAPTERS_MAX = 32, CONFIG_PATH = 1024, CONFIG_LIST = 256 };

struct config_model {
	char name[128];
	char path[CONFIG_PATH];		 /* absolute after config_finish */
	char file[CONFIG_PATH];		 /* path = FILE as written; relative ones lie in model_dir; "" with pull */
	char pull[64];			 /* pull = NAME in the catalogue; "" with path */
	char chat_template[CONFIG_PATH]; /* "": the model's own */
	uint32_t tool_parser;		 /* enum call_tool_format: auto | none | hermes | llama3 | mistral */
	uint32_t reasoning;		 /* enum call_reasoning: auto | none | think */
	uint32_t pooling;		 /* enum pooling_kind: mean | last | cls */
	uint32_t quantize;		 /* enum model_quantize: none | bf16 | int8 | int4 */
	uint32_t parallel;		 /* enum parallel: none | tensor */
	bool implied;			 /* not written: added by config_finish because it was pulled */
};

/* A low-rank adapter of a model. */
struct config_adapter {
	char name[128];		/* models and adapters share the names that clients use */
	char path[CONFIG_PATH]; /* absolute after config_finish */
	char file[CONFIG_PATH]; /* path = FILE as written; relative ones lie in adapter_dir, else in model_dir */
	char model[128];	/* "": the only one there is, filled in by config_finish */
};

struct config {
	/* server */
	char instance[64];		 /* default */
	char socket[108];		 /* /run/weightd/weightd.sock */
	uint32_t socket_mode;		 /* 0660 */
	char socket_group[64];		 /* "" */
	char listen[128];		 /* "" or loopback host:port */
	char api_keys_file[CONFIG_PATH]; /* "": calls are not authenticated */
	char cors_origins[1024];	 /* "": pages of other origins may not call */
	char control_socket[108];	 /* /run/weightd/control.sock */
	uint32_t io;			 /* enum io_backend: auto | uring | epoll */
	uint32_t max_connections;	 /* 1024 */
	uint64_t max_request_bytes;	 /* 1M */
	uint64_t client_buffer_bytes;	 /* 4M: answer bytes a slow client may leave unread before it is dropped */
	uint32_t idle_seconds;		 /* 75 without a request, then a connection is closed */
	uint32_t request_seconds;	 /* 30 for a request to arrive, then 408 */
	uint64_t max_audio_bytes;	 /* 128M: of an uploaded audio file */
	uint32_t max_audio_seconds;	 /* 3600: of its audio */
	uint32_t audio_processes;	 /* 1: that decode audio, where a speech model is served */
	bool audio_seccomp;		 /* yes: their system calls are filtered */
	uint32_t max_queue;		 /* 64 calls in flight or waiting, then 429 */
	bool dashboard;			 /* yes: GET / is a page that shows how everything is */
	bool metrics_aliases;		 /* yes: /metrics also has llama-server's and vLLM's names */
	uint32_t hang_seconds;		 /* 8: a process with work and without progress for so long is replaced */
	char user[64];			 /* of the children when started as root; "" stays, capabilities are dropped */
	uint32_t log_level;		 /* error | warning | info | debug = 0..3 */
	char model_dir[CONFIG_PATH];	 /* where pulled models lie */
	char catalogue[CONFIG_PATH];	 /* names that can be pulled: models.ini */
	char adapter_dir[CONFIG_PATH];	 /* "": nothing is loaded over HTTP; else beneath which adapters may be */
	uint32_t max_adapters;		 /* 16 adapters at a time */
	/* placement; lists are kept as written, because what they mean depends on the machine (src/parent/plan.h) */
	char placement[CONFIG_LIST];   /* node | socket | interleave | one | a list of nodes */
	char cpunodebind[CONFIG_LIST]; /* all | a list of nodes */
	char physcpubind[CONFIG_LIST]; /* all | a list of CPUs */
	char membind[CONFIG_LIST];     /* all | a list of nodes */
	char preferred[CONFIG_LIST];   /* "" or one node */
	char interleave[CONFIG_LIST];  /* "" or a list of nodes */
	bool localalloc;	       /* no: as placement says */
	bool strict;		       /* no: less than was asked for is served, and said */
	uint32_t backing;	       /* enum segment_backing: shm | memfd | hugetlb | hugetlb-1g */
	uint32_t huge_pages;	       /* enum segment_huge: try | off | on */
	bool lock_memory;	       /* yes */
	bool keep_weights;	       /* no: named segments go with an orderly stop */
	uint32_t workers_per_node;     /* 1 */
	uint32_t threads;	       /* per worker; 0: one per physical core */
	uint32_t verify_seconds;       /* 60: how often it is sampled where the copies' pages are; 0: never */
	struct idset io_cpus;	       /* empty: auto */
	/* engine */
	uint32_t cpu_level;	     /* UINT32_MAX: auto; enum cpu_level: ref | avx2 | avx512 */
	uint32_t numerics;	     /* UINT32_MAX: auto; enum numerics: f32 | bf16 */
	uint32_t context_tokens;     /* 0: the model's */
	uint32_t kv_type;	     /* enum kv_type: bf16 | int8 */
	uint64_t kv_bytes;	     /* 0: auto */
	uint64_t prefix_cache_bytes; /* 0: off */
	uint32_t prefill_chunk;	     /* 256 tokens */
	uint32_t prefill_share;	     /* 50 percent of a step while answers are being generated */
	uint32_t max_running;	     /* 32 calls per worker in one batch */

	struct config_model models[CONFIG_MODELS_MAX];
	uint32_t n_models;
	struct config_adapter adapters[CONFIG_ADAPTERS_MAX];
	uint32_t n_adapters;
};

/* Defaults for this user. Paths: $RUNTIME_DIRECTORY and $STATE_DIRECTORY when systemd set them; else root has
 * /run/weightd and /var/lib/weightd, another user $XDG_RUNTIME_DIR/weightd (else /tmp/weightd-UID) and
 * ${XDG_CACHE_HOME:-~/.cache}/weightd. */
void config_defaults(struct config *out);

/* Reads a file over the defaults, then config_finish. -EINVAL with "file:line: key: what is wrong, what is allowed"; an
 * unknown key names the nearest known one. -ENOENT and the like when the file cannot be opened. */
int config_load(const char *path, struct config *out, struct err *err);

/* Sets one key as "key=value" (the command line's --set). Call config_finish after the last one. */
int config_set(struct config *config, const char *assignment, struct err *err);

/* Checks what depends on several keys and finds the models' files: pull = NAME through the catalogue, relative paths in
 * model_dir. Without any [model] section every model of the catalogue that lies in model_dir is served under its name
 * there.
 * May be called again after changes. Whether the files exist is the loader's business. */
int config_finish(struct config *config, struct err *err);

/* Whether a model or an adapter may have this name. */
int config_check_model_name(const char *name, struct err *err);

/* Every key with type, bounds, default (root's) and help as a commented file: what --help-config prints, and the same
 * text as conf/weightd.conf. */
void config_print_keys(FILE *out);
/* The effective settings, in the file's own syntax. */
void config_print(const struct config *config, FILE *out);

#endif
