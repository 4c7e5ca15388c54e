/* weightctl's commands: each in a file of its own, with the options of all of them parsed in one place. */
#ifndef WEIGHTD_WEIGHTCTL_H
#define WEIGHTD_WEIGHTCTL_H

#include <stdbool.h>
#include <stddef.h>

#include "src/config.h"
#include "src/err.h"

/* Documented in weightctl(1): scripts rely on them. */
enum weightctl_exit {
	EXIT_OK = 0,
	EXIT_FAILED = 1, /* also: status or doctor found something that is not well */
	EXIT_USAGE = 2,
	EXIT_UNREACHABLE = 3, /* no daemon listens */
	EXIT_REFUSED = 4,     /* the daemon answered with an error */
	EXIT_NO_SOURCE = 5,   /* pull: the model's source cannot be reached */
	EXIT_WRONG_FILE = 6,  /* pull: what came is not the file of the catalogue */
	EXIT_INTERRUPTED = 130,
};

/* What bench measures; checked numbers. */
struct weightctl_bench {
	uint32_t prompt, generate, streams, depth, rounds;
	uint32_t threads;	  /* 0: the daemon's choice */
	const char *settings[16]; /* "KEY=VALUE" of weightd.conf's first section */
	uint32_t n_settings;
	const char *quality; /* file with the text to judge numerics by, instead of speed; NULL: none */
};

/* What plan supposes; 0: as the settings have it. */
struct weightctl_plan {
	uint32_t context, requests;
	bool huge_pages; /* print the commands that reserve them */
};

/* How top looks. */
struct weightctl_top {
	uint32_t interval_s;
	bool once;
};

/* What transcribe asks for. */
struct weightctl_transcribe {
	const char *language;  /* NULL: to be detected */
	const char *format;    /* of the daemon: "text", "srt", "vtt", "verbose_json" */
	const char *extension; /* of a file of that format */
	bool translate, words;
	const char *output_dir; /* NULL: standard output */
};

struct weightctl {
	const char *config_file;      /* NULL: the usual one */
	const char *socket, *control; /* where the daemon listens */
	const char *model_dir, *catalogue;
	const char *sysroot; /* a recorded machine's /proc and /sys; NULL: this one's */
	bool json;
	const char *model;			     /* NULL: the daemon's choice */
	const char *system;			     /* run: NULL: none */
	const char *max_tokens, *temperature, *seed; /* checked numbers as written; NULL: the daemon's defaults */
	struct weightctl_bench bench;
	struct weightctl_plan plan;
	struct weightctl_top top;
	struct weightctl_transcribe transcribe;
	bool repair; /* verify: what has moved is made anew */
	int n_arguments;
	char **arguments;
	int interrupt_fd;
	struct config config; /* what the paths point into */
};

int weightctl_run(struct weightctl *ctl);
int weightctl_complete(struct weightctl *ctl);
int weightctl_status(struct weightctl *ctl);
int weightctl_stop(struct weightctl *ctl);
int weightctl_verify(struct weightctl *ctl);
int weightctl_pull(struct weightctl *ctl);
int weightctl_adapter(struct weightctl *ctl);
int weightctl_doctor(struct weightctl *ctl);
int weightctl_numastat(struct weightctl *ctl);
int weightctl_load(struct weightctl *ctl);
int weightctl_reload(struct weightctl *ctl);
int weightctl_unload(struct weightctl *ctl);
int weightctl_plan(struct weightctl *ctl);
int weightctl_top(struct weightctl *ctl);
int weightctl_transcribe(struct weightctl *ctl);
int weightctl_bench(struct weightctl *ctl);
struct bench_daemon;
int bench_quality(struct weightctl *ctl, const struct bench_daemon *daemon); /* a part of it */

/* The table of the daemon's adapters, as its status lists them. */
struct yyjson_val;
void adapters_print(struct yyjson_val *adapters);
/* The table of the copies in the daemon's status; whether no page of them is known to be on a wrong node. */
void copies_print(struct yyjson_val *status);
bool copies_are_placed(struct yyjson_val *status);

/* Prints a document (takes it) as one line of JSON. EXIT_OK, or EXIT_FAILED when there was no memory. */
struct yyjson_mut_doc;
int weightctl_print_json(const struct weightctl *ctl, struct yyjson_mut_doc *doc);

/* "weightctl: text" on stderr, and with --json {"error": text} on stdout; returns `code`. */
__attribute__((format(printf, 3, 4))) int weightctl_fail(const struct weightctl *ctl, enum weightctl_exit code,
							 const char *format, ...);
/* The failure of a connection: says where and what to do. */
int weightctl_unreachable(const struct weightctl *ctl, const struct err *err);

#endif
