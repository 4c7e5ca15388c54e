/* weightctl: talk to a running weightd, and fetch models for it. */
#include "src/ctl/weightctl.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

#include "src/ctl/interrupt.h"

static const struct command {
	const char *name, *arguments;
	int min, max; /* arguments */
	int (*run)(struct weightctl *ctl);
	const char *help;
} commands[] = {
	{"run", "[QUESTION]", 0, 1, weightctl_run, "chat in the terminal, or ask one question"},
	{"complete", "PROMPT", 1, 1, weightctl_complete, "continue a text ('-': read it from standard input)"},
	{"status", "", 0, 0, weightctl_status, "copies and their placement, workers, memory"},
	{"pull", "NAME", 1, 1, weightctl_pull, "fetch a model of the catalogue"},
	{"bench", "", 0, 0, weightctl_bench, "how fast a model runs here, and by how much of the machine"},
	{"adapter", "COMMAND", 1, 3, weightctl_adapter, "load NAME PATH, unload NAME, or list: a model's adapters"},
	{"load", "NAME PATH", 2, 2, weightctl_load, "serve another model, until the daemon ends"},
	{"unload", "NAME", 1, 1, weightctl_unload, "serve a model no more"},
	{"reload", "NAME", 1, 1, weightctl_reload, "read a model's files again, without a pause in service"},
	{"stop", "", 0, 0, weightctl_stop, "stop the daemon and wait until it is gone"},
	{"doctor", "", 0, 0, weightctl_doctor, "what about this machine is wrong, and what to do about it"},
	{"verify", "", 0, 0, weightctl_verify, "count every page of every copy; make anew what has moved"},
	{"numastat", "", 0, 0, weightctl_numastat, "on which nodes the memory of processes and copies lies"},
	{"plan", "MODEL", 1, 1, weightctl_plan, "what a model takes of each node, and how many workers fit"},
	{"top", "", 0, 0, weightctl_top, "what workers and nodes do, second by second"},
	{"transcribe", "FILE...", 1, INT_MAX, weightctl_transcribe, "write down what is said in audio files"},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

enum {
	FOR_RUN = 1,
	FOR_COMPLETE = 2,
	FOR_STATUS = 4,
	FOR_PULL = 8,
	FOR_BENCH = 16,
	FOR_ADAPTER = 32,
	FOR_LOAD = 64,
	FOR_UNLOAD = 128,
	FOR_RELOAD = 256,
	FOR_STOP = 512,
	FOR_DOCTOR = 1024,
	FOR_VERIFY = 2048,
	FOR_NUMASTAT = 4096,
	FOR_PLAN = 8192,
	FOR_TOP = 16384,
	FOR_TRANSCRIBE = 32768,
	FOR_CALLS = FOR_RUN | FOR_COMPLETE,
	FOR_MODELS = FOR_ADAPTER | FOR_LOAD | FOR_UNLOAD | FOR_RELOAD,
	FOR_DAEMON = FOR_STATUS | FOR_MODELS | FOR_STOP | FOR_DOCTOR | FOR_VERIFY | FOR_NUMASTAT |
		     FOR_TOP, /* over its control socket */
	FOR_ALL = 65535
};

/* The letters of options without a short form lie past the characters. */
enum {
	OPTION_SOCKET = 's',
	OPTION_CONFIG = 'c',
	OPTION_JSON = 'j',
	OPTION_MODEL = 'm',
	OPTION_CONTROL = 256,
	OPTION_SYSTEM,
	OPTION_TOKENS,
	OPTION_TEMPERATURE,
	OPTION_SEED,
	OPTION_DIR,
	OPTION_CATALOGUE,
	OPTION_PROMPT,
	OPTION_GENERATE,
	OPTION_STREAMS,
	OPTION_DEPTH,
	OPTION_ROUNDS,
	OPTION_THREADS,
	OPTION_SET,
	OPTION_QUALITY,
	OPTION_SYSROOT,
	OPTION_CONTEXT,
	OPTION_REQUESTS,
	OPTION_HUGE_PAGES,
	OPTION_ONCE,
	OPTION_INTERVAL,
	OPTION_REPAIR,
	OPTION_LANGUAGE,
	OPTION_TASK,
	OPTION_FORMAT,
	OPTION_WORDS,
	OPTION_OUTPUT_DIR
};

static const struct choice {
	const char *name, *argument;
	int letter;
	unsigned commands; /* bits in the order of `commands` */
	const char *help;
} choices[] = {
	{"socket", "PATH", OPTION_SOCKET, FOR_CALLS | FOR_TRANSCRIBE, "Unix socket of the API"},
	{"control", "PATH", OPTION_CONTROL, FOR_DAEMON, "Unix socket for control"},
	{"config", "FILE", OPTION_CONFIG, FOR_ALL, "take the paths from this weightd.conf"},
	{"json", NULL, OPTION_JSON, FOR_ALL & ~FOR_RUN, "print JSON"},
	{"model", "NAME", OPTION_MODEL, FOR_CALLS | FOR_BENCH | FOR_ADAPTER | FOR_TRANSCRIBE,
	 "model to use (default: the daemon's first); for bench a file"},
	{"system", "TEXT", OPTION_SYSTEM, FOR_RUN, "system message of the chat"},
	{"max-tokens", "N", OPTION_TOKENS, FOR_CALLS, "longest answer"},
	{"temperature", "T", OPTION_TEMPERATURE, FOR_CALLS, "0: always the likeliest token"},
	{"seed", "N", OPTION_SEED, FOR_CALLS, "the same seed gives the same answer"},
	{"dir", "DIR", OPTION_DIR, FOR_PULL, "model directory"},
	{"catalogue", "FILE", OPTION_CATALOGUE, FOR_PULL, "models.ini to look the name up in"},
	{"prompt", "N", OPTION_PROMPT, FOR_BENCH, "tokens of the prompt that is measured (512)"},
	{"generate", "N", OPTION_GENERATE, FOR_BENCH, "tokens of each answer that is measured (64)"},
	{"streams", "N", OPTION_STREAMS, FOR_BENCH, "answers at a time (1)"},
	{"depth", "N", OPTION_DEPTH, FOR_BENCH, "tokens before those that are measured (0)"},
	{"rounds", "N", OPTION_ROUNDS, FOR_BENCH, "measurements, of which the median is printed (5)"},
	{"threads", "N", OPTION_THREADS, FOR_BENCH, "compute threads (default: the daemon's choice)"},
	{"set", "KEY=VALUE", OPTION_SET, FOR_BENCH | FOR_PLAN, "a setting over those of weightd.conf; repeatable"},
	{"quality", "FILE", OPTION_QUALITY, FOR_BENCH, "compare predictions of this text with float32 ones instead"},
	{"repair", NULL, OPTION_REPAIR, FOR_VERIFY, "replace copies of which pages are on other nodes"},
	{"context", "N", OPTION_CONTEXT, FOR_PLAN, "tokens of a request (default: the model's context)"},
	{"requests", "N", OPTION_REQUESTS, FOR_PLAN, "requests that a worker has at a time (default: max_running)"},
	{"huge-pages", NULL, OPTION_HUGE_PAGES, FOR_PLAN, "also print the commands that reserve huge pages"},
	{"once", NULL, OPTION_ONCE, FOR_TOP, "look for one interval, print, and end"},
	{"interval", "S", OPTION_INTERVAL, FOR_TOP, "seconds between two looks (1)"},
	{"language", "CODE", OPTION_LANGUAGE, FOR_TRANSCRIBE, "what is spoken (default: the model tells)"},
	{"task", "TASK", OPTION_TASK, FOR_TRANSCRIBE, "transcribe (default), or translate to English"},
	{"format", "FORMAT", OPTION_FORMAT, FOR_TRANSCRIBE, "txt (default), srt, vtt or json"},
	{"word-timestamps", NULL, OPTION_WORDS, FOR_TRANSCRIBE, "times of words, too; with --format json"},
	{"output-dir", "DIR", OPTION_OUTPUT_DIR, FOR_TRANSCRIBE, "a file there for each FILE, not standard output"},
	{"sysroot", "DIR", OPTION_SYSROOT, FOR_DOCTOR | FOR_NUMASTAT | FOR_PLAN,
	 "read /proc and /sys below DIR: another machine's, recorded"},
};
enum { N_CHOICES = sizeof choices / sizeof choices[0] };

static void print_help(void)
{
	printf("Usage: weightctl [OPTION]... COMMAND [ARGUMENT]\n\nCommands:\n");
	for (unsigned i = 0; i < N_COMMANDS; i++)
		printf("  %-10s %-11s %s\n", commands[i].name, commands[i].arguments, commands[i].help);
	printf("\nOptions:\n");
	for (unsigned i = 0; i < N_CHOICES; i++) {
		char text[64], letter[8] = "    ";
		if (choices[i].letter < 256)
			snprintf(letter, sizeof letter, "-%c, ", choices[i].letter);
		snprintf(text, sizeof text, "%s--%s%s%s", letter, choices[i].name, choices[i].argument ? " " : "",
			 choices[i].argument ? choices[i].argument : "");
		printf("  %-24s %s", text, choices[i].help);
		const char *before = " (";
		for (unsigned c = 0; c < N_COMMANDS && choices[i].commands != FOR_ALL; c++)
			if (choices[i].commands & 1u << c) {
				printf("%s%s", before, commands[c].name);
				before = ", ";
			}
		printf("%s\n", choices[i].commands == FOR_ALL ? "" : ")");
	}
	printf("  -h, --help               this text\n  -V, --version            the version\n\n"
	       "Exit status: 0 done; 1 failed; 2 wrong usage; 3 no daemon listens; 4 the daemon refused;\n"
	       "5 the model's source cannot be reached; 6 what came is not the catalogue's file; 130 interrupted.\n"
	       "status: 0 only if the daemon is ready and no page is misplaced; doctor: 0 only if nothing is wrong;\n"
	       "plan: 0 only if it fits.\n");
}

__attribute__((format(printf, 1, 2))) static int usage(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("weightctl: ", stderr);
	vfprintf(stderr, format, args);
	fputs("\nTry 'weightctl --help'.\n", stderr);
	va_end(args);
	return EXIT_USAGE;
}

int weightctl_fail(const struct weightctl *ctl, enum weightctl_exit code, const char *format, ...)
{
	char text[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(stderr, "weightctl: %s\n", text);
	if (!ctl->json)
		return code;
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *object = yyjson_mut_obj(doc);
	yyjson_mut_doc_set_root(doc, object);
	yyjson_mut_obj_add_str(doc, object, "error", text);
	char *json = yyjson_mut_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL);
	if (json)
		puts(json);
	free(json);
	yyjson_mut_doc_free(doc);
	return code;
}

int weightctl_print_json(const struct weightctl *ctl, struct yyjson_mut_doc *doc)
{
	char *json = yyjson_mut_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL);
	yyjson_mut_doc_free(doc);
	if (!json)
		return weightctl_fail(ctl, EXIT_FAILED, "no memory for the JSON");
	puts(json);
	free(json);
	return EXIT_OK;
}

int weightctl_unreachable(const struct weightctl *ctl, const struct err *err)
{
	return weightctl_fail(ctl, EXIT_UNREACHABLE,
			      "weightd cannot be reached: %s. Is it running (systemctl status weightd), and does "
			      "--config or the socket's option name its socket?",
			      err->text);
}

/* Numbers go into the request as written, so they must be JSON numbers. */
static bool is_number(const char *text, bool fraction)
{
	size_t n = strspn(text, "0123456789");
	if (n == 0 || (text[0] == '0' && n > 1))
		return false;
	if (fraction && text[n] == '.') {
		size_t after = strspn(text + n + 1, "0123456789");
		return after > 0 && !text[n + 1 + after];
	}
	return !text[n];
}

/* A number of --option from `least` to `most`. 0 or the exit status. */
static int take_number(const struct choice *choice, const char *value, uint32_t least, uint32_t most, uint32_t *out)
{
	unsigned long number = is_number(value, false) && strlen(value) < 10 ? strtoul(value, NULL, 10) : ULONG_MAX;
	if (number < least || number > most)
		return usage("--%s '%s' is not a whole number from %u to %u", choice->name, value, least, most);
	*out = (uint32_t)number;
	return 0;
}

struct parsed {
	struct weightctl *ctl;
	const char *config_file, *socket, *control, *dir, *catalogue;
	unsigned given; /* bits in the order of `choices` */
};

/* What the value may be is the daemon's to say. */
static int take_setting(const char *value, struct weightctl_bench *bench)
{
	if (!strchr(value, '=') || *value == '=' || *value == '[' || strpbrk(value, "\r\n"))
		return usage("--set '%s' is not KEY=VALUE", value);
	if (bench->n_settings == sizeof bench->settings / sizeof *bench->settings)
		return usage("--set: there can be %zu", sizeof bench->settings / sizeof *bench->settings);
	bench->settings[bench->n_settings++] = value;
	return 0;
}

static int take_task(const char *value, struct weightctl_transcribe *transcribe)
{
	transcribe->translate = strcmp(value, "translate") == 0;
	return transcribe->translate || strcmp(value, "transcribe") == 0
		       ? 0
		       : usage("--task '%s' is neither transcribe nor translate", value);
}

static int take_format(const char *value, struct weightctl_transcribe *transcribe)
{
	static const char *const formats[][2] = {
		{"txt", "text"}, {"srt", "srt"}, {"vtt", "vtt"}, {"json", "verbose_json"}};
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		if (strcmp(value, formats[i][0]) == 0) {
			transcribe->extension = formats[i][0];
			transcribe->format = formats[i][1];
			return 0;
		}
	}
	return usage("--format '%s' is none of txt, srt, vtt, json", value);
}

static int take_option(struct parsed *parsed, const struct choice *choice, const char *value)
{
	struct weightctl *ctl = parsed->ctl;
	parsed->given |= 1u << (choice - choices);
	switch (choice->letter) {
	case OPTION_SOCKET:
		parsed->socket = value;
		break;
	case OPTION_CONTROL:
		parsed->control = value;
		break;
	case OPTION_CONFIG:
		parsed->config_file = value;
		break;
	case OPTION_JSON:
		ctl->json = true;
		break;
	case OPTION_REPAIR:
		ctl->repair = true;
		break;
	case OPTION_MODEL:
		ctl->model = value;
		break;
	case OPTION_SYSTEM:
		ctl->system = value;
		break;
	case OPTION_DIR:
		parsed->dir = value;
		break;
	case OPTION_CATALOGUE:
		parsed->catalogue = value;
		break;
	case OPTION_PROMPT:
		return take_number(choice, value, 1, 1 << 20, &ctl->bench.prompt);
	case OPTION_GENERATE:
		return take_number(choice, value, 1, 1 << 20, &ctl->bench.generate);
	case OPTION_STREAMS:
		return take_number(choice, value, 1, 32, &ctl->bench.streams);
	case OPTION_DEPTH:
		return take_number(choice, value, 0, 1 << 20, &ctl->bench.depth);
	case OPTION_ROUNDS:
		return take_number(choice, value, 1, 1000, &ctl->bench.rounds);
	case OPTION_THREADS:
		return take_number(choice, value, 1, 1024, &ctl->bench.threads);
	case OPTION_SET:
		return take_setting(value, &ctl->bench);
	case OPTION_QUALITY:
		ctl->bench.quality = value;
		break;
	case OPTION_CONTEXT:
		return take_number(choice, value, 32, 1 << 24, &ctl->plan.context);
	case OPTION_REQUESTS:
		return take_number(choice, value, 1, 32, &ctl->plan.requests);
	case OPTION_ONCE:
		ctl->top.once = true;
		break;
	case OPTION_INTERVAL:
		return take_number(choice, value, 1, 3600, &ctl->top.interval_s);
	case OPTION_HUGE_PAGES:
		ctl->plan.huge_pages = true;
		break;
	case OPTION_LANGUAGE:
		ctl->transcribe.language = value;
		break;
	case OPTION_TASK:
		return take_task(value, &ctl->transcribe);
	case OPTION_FORMAT:
		return take_format(value, &ctl->transcribe);
	case OPTION_WORDS:
		ctl->transcribe.words = true;
		break;
	case OPTION_OUTPUT_DIR:
		ctl->transcribe.output_dir = value;
		break;
	case OPTION_SYSROOT:
		ctl->sysroot = value;
		break;
	case OPTION_TEMPERATURE:
		ctl->temperature = value;
		return is_number(value, true) ? 0 : usage("--temperature '%s' is not a number such as 0.7", value);
	case OPTION_TOKENS:
		ctl->max_tokens = value;
		return is_number(value, false) ? 0 : usage("--max-tokens '%s' is not a whole number", value);
	case OPTION_SEED:
		ctl->seed = value;
		return is_number(value, false) ? 0 : usage("--seed '%s' is not a whole number", value);
	}
	return 0;
}

/* Options may stand anywhere (getopt permutes). -1: go on; else the exit status. */
static int parse_options(struct parsed *parsed, int argc, char **argv)
{
	struct option options[N_CHOICES + 3] = {{"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}};
	for (unsigned i = 0; i < N_CHOICES; i++)
		options[i + 2] = (struct option){choices[i].name, choices[i].argument ? required_argument : no_argument,
						 NULL, choices[i].letter};
	int letter;
	while ((letter = getopt_long(argc, argv, "hVs:c:jm:", options, NULL)) != -1) {
		if (letter == 'h') {
			print_help();
			return EXIT_OK;
		}
		if (letter == 'V') {
			printf("weightctl %s\n", PACKAGE_VERSION);
			return EXIT_OK;
		}
		const struct choice *choice = choices;
		while (choice < choices + N_CHOICES && choice->letter != letter)
			choice++;
		if (choice == choices + N_CHOICES) { /* getopt has said what is wrong */
			fputs("Try 'weightctl --help'.\n", stderr);
			return EXIT_USAGE;
		}
		int rc = take_option(parsed, choice, optarg);
		if (rc)
			return rc;
	}
	return -1;
}

static const struct command *find_command(const struct parsed *parsed, int argc, char **argv)
{
	if (optind == argc) {
		usage("a command is missing");
		return NULL;
	}
	for (unsigned c = 0; c < N_COMMANDS; c++) {
		if (strcmp(commands[c].name, argv[optind]))
			continue;
		int n = argc - optind - 1;
		if (n < commands[c].min || n > commands[c].max) {
			usage("usage: weightctl %s %s", commands[c].name, commands[c].arguments);
			return NULL;
		}
		for (unsigned i = 0; i < N_CHOICES; i++)
			if (parsed->given & 1u << i && !(choices[i].commands & 1u << c)) {
				usage("--%s does not go with '%s'", choices[i].name, commands[c].name);
				return NULL;
			}
		return &commands[c];
	}
	usage("unknown command '%s'", argv[optind]);
	return NULL;
}

/* A named file must be right; the installed one is used when it can be read. Without either: this user's daemon, or the
 * service when this user runs none. */
static int find_paths(struct parsed *parsed, struct err *err)
{
	static const char installed[] = SYSCONFDIR "/weightd/weightd.conf";
	struct weightctl *ctl = parsed->ctl;
	struct config *config = &ctl->config;
	int rc = config_load(parsed->config_file ? parsed->config_file : installed, config, err);
	if (rc < 0 && !parsed->config_file && (rc == -ENOENT || rc == -EACCES || rc == -ENOTDIR)) {
		config_defaults(config);
		rc = 0;
	}
	if (rc < 0)
		return rc;
	ctl->config_file = parsed->config_file;
	ctl->socket = parsed->socket ? parsed->socket : config->socket;
	ctl->control = parsed->control ? parsed->control : config->control_socket;
	ctl->model_dir = parsed->dir ? parsed->dir : config->model_dir;
	ctl->catalogue = parsed->catalogue ? parsed->catalogue : config->catalogue;
	if (!parsed->config_file && !parsed->socket && access(ctl->socket, F_OK) < 0 &&
	    access("/run/weightd/weightd.sock", F_OK) == 0)
		ctl->socket = "/run/weightd/weightd.sock";
	if (!parsed->config_file && !parsed->control && access(ctl->control, F_OK) < 0 &&
	    access("/run/weightd/control.sock", F_OK) == 0)
		ctl->control = "/run/weightd/control.sock";
	return 0;
}

int main(int argc, char **argv)
{
	static struct weightctl ctl = {.bench = {.prompt = 512, .generate = 64, .streams = 1, .rounds = 5},
				       .top = {.interval_s = 1},
				       .transcribe = {.format = "text", .extension = "txt"}};
	struct parsed parsed = {.ctl = &ctl};
	struct err err = {""};
	int rc = parse_options(&parsed, argc, argv);
	if (rc >= 0)
		return rc;
	const struct command *command = find_command(&parsed, argc, argv);
	if (!command)
		return EXIT_USAGE;
	ctl.n_arguments = argc - optind - 1;
	ctl.arguments = argv + optind + 1;
	if (find_paths(&parsed, &err) < 0)
		return weightctl_fail(&ctl, EXIT_USAGE, "%s", err.text);
	ctl.interrupt_fd = interrupt_open();
	if (ctl.interrupt_fd < 0)
		return weightctl_fail(&ctl, EXIT_FAILED, "signals: %s", strerror(-ctl.interrupt_fd));
	rc = command->run(&ctl);
	if (fflush(stdout) != 0 && rc == EXIT_OK)
		rc = weightctl_fail(&ctl, EXIT_FAILED, "writing the output: %s", strerror(errno));
	return rc;
}
