/* weightd: one program, several processes. Without --role it is the parent; with it, one of the parent's children. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/config.h"
#include "src/footprint.h"
#include "src/log.h"
#include "src/parent/parent.h"
#include "src/roles.h"

static const char usage[] =
	"Usage: weightd [--config FILE] [--set KEY=VALUE]...\n"
	"\n"
	"Serves language models from one copy of their weights per NUMA node.\n"
	"\n"
	"  -c, --config FILE      settings (default: " SYSCONFDIR "/weightd/weightd.conf if it exists)\n"
	"  -s, --set KEY=VALUE    a setting, over those of the file\n"
	"\n"
	"Placement as numactl has it; LIST is 0-3,8, +0-1 (of those allowed), !2 (all others) or all:\n"
	"  -N, --cpunodebind=LIST run on the CPUs of these nodes\n"
	"  -C, --physcpubind=LIST run on these CPUs\n"
	"  -m, --membind=LIST     memory of these nodes alone\n"
	"  -p, --preferred=NODE   one copy of the weights, there if it fits\n"
	"  -i, --interleave=LIST  one copy of the weights, spread over these nodes\n"
	"  -l, --localalloc       a copy on each node that computes\n"
	"      --placement=WHERE  copies: node, socket, interleave, one or a LIST\n"
	"      --strict           nothing less than was asked for\n"
	"\n"
	"      --plan             print which copies and workers this machine gets, exit\n"
	"      --footprint MODEL  print what a model would take of this machine, as JSON (weightctl plan), exit\n"
	"      --sysroot DIR      for --footprint: plan for the machine whose /proc and /sys are below DIR\n"
	"      --check-config     read the settings, say what is wrong, exit\n"
	"      --print-config     print the effective settings, exit\n"
	"      --help-config      print every key with type, bounds, default and meaning, exit\n"
	"  -V, --version          print the version, exit\n"
	"  -h, --help             print this, exit\n"
	"\n"
	"Exit status: 0 stopped as asked, 1 failed, 2 wrong usage or settings, 3 strict = yes and placement\n"
	"could not be verified. See weightd(8) and weightd.conf(5).\n";

enum option_code {
	OPTION_CHECK = 256,
	OPTION_PRINT,
	OPTION_HELP_CONFIG,
	OPTION_ROLE,
	OPTION_NAME,
	OPTION_LOG_LEVEL,
	OPTION_PLAN,
	OPTION_FOOTPRINT,
	OPTION_SYSROOT,
	OPTION_PLACEMENT,
	OPTION_STRICT
};

static const struct option options[] = {
	{"config", required_argument, NULL, 'c'},
	{"set", required_argument, NULL, 's'},
	{"cpunodebind", required_argument, NULL, 'N'},
	{"physcpubind", required_argument, NULL, 'C'},
	{"membind", required_argument, NULL, 'm'},
	{"preferred", required_argument, NULL, 'p'},
	{"interleave", required_argument, NULL, 'i'},
	{"localalloc", no_argument, NULL, 'l'},
	{"placement", required_argument, NULL, OPTION_PLACEMENT},
	{"strict", no_argument, NULL, OPTION_STRICT},
	{"plan", no_argument, NULL, OPTION_PLAN},
	{"footprint", required_argument, NULL, OPTION_FOOTPRINT},
	{"sysroot", required_argument, NULL, OPTION_SYSROOT},
	{"check-config", no_argument, NULL, OPTION_CHECK},
	{"print-config", no_argument, NULL, OPTION_PRINT},
	{"help-config", no_argument, NULL, OPTION_HELP_CONFIG},
	{"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'},
	{"role", required_argument, NULL, OPTION_ROLE}, /* these three: from the parent to its children */
	{"name", required_argument, NULL, OPTION_NAME},
	{"log-level", required_argument, NULL, OPTION_LOG_LEVEL},
	{NULL, 0, NULL, 0},
};

enum action { RUN, CHECK, PRINT, PLAN, FOOTPRINT };

struct arguments {
	const char *config, *role, *name;
	const char *model, *sysroot; /* of a footprint; sysroot NULL: this machine */
	struct setting {
		const char *key; /* NULL: the value is KEY=VALUE */
		const char *value;
	} set[64];
	unsigned n_set;
	int log_level;
	enum action action;
};

/* The key that an option is another way to write; NULL: it is none. */
static const char *key_of(int code)
{
	static const struct {
		int code;
		const char *key;
	} keys[] = {{'N', "cpunodebind"},
		    {'C', "physcpubind"},
		    {'m', "membind"},
		    {'p', "preferred"},
		    {'i', "interleave"},
		    {'l', "localalloc"},
		    {OPTION_PLACEMENT, "placement"},
		    {OPTION_STRICT, "strict"}};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (keys[i].code == code)
			return keys[i].key;
	return NULL;
}

/* 0, or the exit status. `value` NULL: the option has none and means yes. */
static int add_setting(struct arguments *a, const char *key, const char *value)
{
	if (a->n_set == sizeof a->set / sizeof *a->set) {
		fprintf(stderr, "weightd: more than %u settings\n", a->n_set);
		return 2;
	}
	a->set[a->n_set++] = (struct setting){key, value ? value : "yes"};
	return 0;
}

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, struct arguments *a)
{
	int code;
	while ((code = getopt_long(argc, argv, "c:s:N:C:m:p:i:lVh", options, NULL)) >= 0) {
		if (code == 's' || key_of(code)) {
			if (add_setting(a, key_of(code), optarg))
				return 2;
			continue;
		}
		switch (code) {
		case 'c':
			a->config = optarg;
			break;
		case OPTION_PLAN:
			a->action = PLAN;
			break;
		case OPTION_FOOTPRINT:
			a->action = FOOTPRINT;
			a->model = optarg;
			break;
		case OPTION_SYSROOT:
			a->sysroot = optarg;
			break;
		case OPTION_CHECK:
			a->action = CHECK;
			break;
		case OPTION_PRINT:
			a->action = PRINT;
			break;
		case OPTION_HELP_CONFIG:
			config_print_keys(stdout);
			return 0;
		case OPTION_ROLE:
			a->role = optarg;
			break;
		case OPTION_NAME:
			a->name = optarg;
			break;
		case OPTION_LOG_LEVEL:
			a->log_level = atoi(optarg);
			break;
		case 'V':
			puts("weightd " PACKAGE_VERSION);
			return 0;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs("Try 'weightd --help'.\n", stderr);
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "weightd: unexpected argument '%s'\n", argv[optind]);
		return 2;
	}
	return -1;
}

static int run_role(const struct arguments *a)
{
	static const struct {
		const char *name;
		int (*main)(void);
	} roles[] = {
		{"loader", loader_main}, {"worker", worker_main}, {"front", front_main}, {"verifier", verifier_main}, {"audio", audio_main}};
	log_init(a->name ? a->name : a->role, (enum log_level)a->log_level);
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
		if (!strcmp(a->role, roles[i].name))
			return roles[i].main();
	fprintf(stderr, "weightd: no role '%s'; roles are started by weightd itself\n", a->role);
	return 2;
}

static int set(struct config *config, const struct setting *setting, struct err *err)
{
	char assignment[CONFIG_PATH];
	if (!setting->key)
		return config_set(config, setting->value, err);
	if (snprintf(assignment, sizeof assignment, "%s=%s", setting->key, setting->value) >= (int)sizeof assignment)
		return err_set(err, -E2BIG, "--%s: too long", setting->key);
	return config_set(config, assignment, err);
}

/* Settings from the file, then the command line, then the checks that need all of them. */
static int load_config(const struct arguments *a, struct config *config, struct err *err)
{
	static const char standard[] = SYSCONFDIR "/weightd/weightd.conf";
	const char *path = a->config;
	FILE *probe = path ? NULL : fopen(standard, "re");
	if (probe) {
		fclose(probe);
		path = standard;
	}
	config_defaults(config);
	int rc = path ? config_load(path, config, err) : 0;
	for (unsigned i = 0; i < a->n_set && !rc; i++)
		rc = set(config, &a->set[i], err);
	return rc ? rc : config_finish(config, err);
}

/* What was asked for is to be read: a full disk or a closed pipe is no success. */
static int printed(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	fprintf(stderr, "weightd: writing the output: %s\n", strerror(errno));
	return 1;
}

int main(int argc, char **argv)
{
	static struct config config; /* large */
	struct arguments arguments = {.log_level = LOG_LEVEL_INFO};
	struct err err = {""};
	int status = parse(argc, argv, &arguments);
	if (status >= 0)
		return printed(status);
	if (arguments.role)
		return run_role(&arguments);
	if (load_config(&arguments, &config, &err)) {
		fprintf(stderr, "weightd: %s\n", err.text);
		return 2;
	}
	if (arguments.action == PRINT)
		config_print(&config, stdout);
	if (arguments.action == CHECK)
		puts("the settings are good");
	if ((arguments.action == PLAN && parent_plan(&config, stdout, &err)) ||
	    (arguments.action == FOOTPRINT &&
	     footprint_print(&config, arguments.model, arguments.sysroot, stdout, &err))) {
		fprintf(stderr, "weightd: %s\n", err.text);
		return 1;
	}
	if (arguments.action != RUN)
		return printed(0);
	log_init("parent", (enum log_level)config.log_level);
	return parent_run(&config);
}
