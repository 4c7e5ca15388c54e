/* weightd.conf: every key, every kind of wrong value, hostile files, and the installed sample's agreement with the
 * table. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/loop.h"
#include "shm/segment.h"
#include "src/call.h"
#include "src/config.h"
#include "src/config_keys.h"
#include "tests/unit/suite.h"

static char directory[64], file[128];

static void setup(void)
{
	strcpy(directory, "/tmp/weightd-config-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	snprintf(file, sizeof file, "%s/weightd.conf", directory);
}

static void teardown(void)
{
	char command[128];
	snprintf(command, sizeof command, "rm -rf %s", directory);
	ck_assert_int_eq(system(command), 0);
}

static void write_bytes(const char *path, const void *bytes, size_t n)
{
	FILE *out = fopen(path, "w");
	ck_assert_ptr_nonnull(out);
	ck_assert_uint_eq(fwrite(bytes, 1, n, out), n);
	ck_assert_int_eq(fclose(out), 0);
}

static int load_bytes(const void *bytes, size_t n, struct config *config, struct err *err)
{
	write_bytes(file, bytes, n);
	return config_load(file, config, err);
}

static int load(const char *text, struct config *config, struct err *err)
{
	return load_bytes(text, strlen(text), config, err);
}

/* The text must be refused and the reason contain `reason`. */
static void refused(const char *text, const char *reason)
{
	struct config config;
	struct err err = {""};
	int rc = load(text, &config, &err);
	ck_assert_msg(rc < 0, "accepted: %s", text);
	ck_assert_msg(strstr(err.text, reason) != NULL, "'%s' not in '%s' for: %s", reason, err.text, text);
	ck_assert_msg(!strchr(err.text, '\n'), "more than one line: %s", err.text);
}

START_TEST(an_empty_file_gives_the_defaults)
{
	struct config config, defaults;
	struct err err = {""};
	ck_assert_msg(load("", &config, &err) == 0, "%s", err.text);
	config_defaults(&defaults);
	ck_assert_int_eq(memcmp(&config, &defaults, sizeof config), 0);
	ck_assert_str_eq(config.instance, "default");
	ck_assert_uint_eq(config.socket_mode, 0660);
	ck_assert_uint_eq(config.max_request_bytes, 1 << 20);
	ck_assert_uint_eq(config.cpu_level, UINT32_MAX);
	ck_assert(config.lock_memory);
	ck_assert_uint_eq(idset_count(&config.io_cpus), 0);
}
END_TEST

START_TEST(every_kind_of_value_is_read)
{
	struct config config;
	struct err err = {""};
	const char *text =
		"# comment\n; comment\n\n  [weightd]  ; comment\n"
		"instance = blue_1\nsocket=/run/x.sock ; comment\n  socket_mode = 600\nlisten = 127.0.0.2:8080\n"
		"io = uring\nmax_request_bytes = 64K\nclient_buffer_bytes = 1MiB\nkv_bytes = 3g\nlock_memory = NO\n"
		"threads = auto\nio_cpus = 0-3,8\nbacking = memfd\ncpu_level = ref\nnumerics = f32\nlog_level = "
		"debug\r\n"
		"[model a.b-c_D9]\npath = /models/a.gguf\n[model b]\npath = b.gguf\n";
	ck_assert_msg(load(text, &config, &err) == 0, "%s", err.text);
	ck_assert_str_eq(config.instance, "blue_1");
	ck_assert_str_eq(config.socket, "/run/x.sock");
	ck_assert_uint_eq(config.socket_mode, 0600);
	ck_assert_str_eq(config.listen, "127.0.0.2:8080");
	ck_assert_uint_eq(config.io, IO_URING);
	ck_assert_uint_eq(config.max_request_bytes, 65536);
	ck_assert_uint_eq(config.client_buffer_bytes, 1 << 20);
	ck_assert_uint_eq(config.kv_bytes, UINT64_C(3) << 30);
	ck_assert(!config.lock_memory);
	ck_assert_uint_eq(config.threads, 0);
	ck_assert_uint_eq(idset_count(&config.io_cpus), 5);
	ck_assert(idset_has(&config.io_cpus, 8));
	ck_assert_uint_eq(config.backing, SEGMENT_MEMFD);
	ck_assert_uint_eq(config.cpu_level, 0);
	ck_assert_uint_eq(config.numerics, 0);
	ck_assert_uint_eq(config.log_level, 3);
	ck_assert_uint_eq(config.n_models, 2);
	ck_assert_str_eq(config.models[0].name, "a.b-c_D9");
	ck_assert_str_eq(config.models[0].path, "/models/a.gguf");
	ck_assert_str_eq(config.models[1].path + strlen(config.models[1].path) - 14, "/models/b.gguf");
}
END_TEST

START_TEST(what_is_printed_reads_back_equal)
{
	struct config config, again;
	struct err err = {""};
	ck_assert_int_eq(load("[weightd]\nthreads = 3\nkv_bytes = 1536M\nio_cpus = 2,4-6\nlisten = [::1]:9\n[model "
			      "m]\npath = /m.gguf\ntool_parser = llama3\n[model n]\npath = /n\nreasoning = think\n",
			      &config, &err),
			 0);
	char *text;
	size_t n;
	FILE *out = open_memstream(&text, &n);
	config_print(&config, out);
	fclose(out);
	ck_assert_msg(load(text, &again, &err) == 0, "%s in\n%s", err.text, text);
	ck_assert_int_eq(memcmp(&config, &again, sizeof config), 0);
	ck_assert_uint_eq(again.models[0].tool_parser, TOOLS_LLAMA3);
	ck_assert_uint_eq(again.models[1].reasoning, REASONING_THINK);
	free(text);
}
END_TEST

START_TEST(wrong_values_are_refused_with_line_key_and_what_is_allowed)
{
	refused("[weightd]\nmax_queue = 0\n", ":2: max_queue: '0' is out of range; allowed: 1 to 65536");
	refused("[weightd]\n\nmax_queue = -1\n", ":3: max_queue: '-1' is not understood");
	refused("[weightd]\nmax_queue = 99999999999999999999999\n", "out of range");
	refused("[weightd]\nmax_queue = 4294967297\n", "out of range");
	refused("[weightd]\nmax_queue = 1 2\n", "not understood");
	refused("[weightd]\nmax_queue =\n", "max_queue: '' is not understood");
	refused("[weightd]\nmax_queue = 1K\n", "not understood");
	refused("[weightd]\nkv_bytes = 17179869184G\n", "out of range");
	refused("[weightd]\nkv_bytes = 4X\n", "allowed: auto or 1M to 64T");
	refused("[weightd]\nkv_bytes = 1KB\n", "not understood");
	refused("[weightd]\nio = kqueue\n", "allowed: one of auto, uring, epoll");
	refused("[weightd]\nlock_memory = maybe\n", "allowed: yes or no");
	refused("[weightd]\nsocket_mode = 999\n", "octal");
	refused("[weightd]\nsocket_mode = 0060\n", "out of range");
	refused("[weightd]\nio_cpus = 3-1\n", "io_cpus: ");
	refused("[weightd]\nio_cpus = 0-99999\n", "io_cpus: ");
	refused("[weightd]\ninstance = a/b\n", "character other than letters");
	refused("[weightd]\ninstance =\n", "must begin with");
	refused("[weightd]\nsocket = weightd.sock\n", "not an absolute path");
	refused("[weightd]\nsocket = /run/x # mine\n", "a comment behind a value begins with ' ;'");
	refused("[weightd]\nuser = no-such-user-here\n", "no user 'no-such-user-here'");
	refused("[weightd]\nsocket_group = no-such-group-here\n", "no group");
	refused("[weightd]\nsocket = /run/a\ncontrol_socket = /run/a\n", "must differ");
}
END_TEST

START_TEST(sockets_must_fit_the_kernels_address)
{
	char text[256], path[128];
	struct config config;
	struct err err = {""};
	memset(path, 'a', sizeof path);
	path[0] = '/';
	path[107] = '\0';
	snprintf(text, sizeof text, "[weightd]\nsocket = %s\n", path);
	ck_assert_msg(load(text, &config, &err) == 0, "%s", err.text);
	path[107] = 'a';
	path[108] = '\0';
	snprintf(text, sizeof text, "[weightd]\nsocket = %s\n", path);
	refused(text, "longer than 107 characters");
}
END_TEST

START_TEST(only_loopback_is_listened_on)
{
	static const char *const good[] = {"127.0.0.1:1", "127.255.255.254:65535", "[::1]:8080"};
	static const char *const bad[] = {"0.0.0.0:80",	   "192.168.1.1:80", "128.0.0.1:80", "[::]:80",
					  "::1:80",	   "[::2]:80",	     "localhost:80", "127.0.0.1",
					  ":80",	   "127.1:80",	     "127.0.0.1:0",  "127.0.0.1:65536",
					  "127.0.0.1:",	   "*:80",	     "127.0.0.1:8o", "[::ffff:7f00:1]:80",
					  "127.0.0.1:+80", "127.0.0.1: 80",  "0x7f.0.0.1:80"};
	char text[128];
	for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
		struct config config;
		struct err err = {""};
		snprintf(text, sizeof text, "[weightd]\nlisten = %s\n", good[i]);
		ck_assert_msg(load(text, &config, &err) == 0, "%s", err.text);
	}
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		snprintf(text, sizeof text, "[weightd]\nlisten = %s\n", bad[i]);
		refused(text, ":2: listen: ");
	}
	refused("[weightd]\napi_keys_file = keys\n", "not an absolute path");
	refused("[weightd]\nlisten = 0.0.0.0:80\n", "in the clear");
}
END_TEST

START_TEST(memory_has_one_policy)
{
	static const struct {
		const char *lines, *words; /* NULL: it is good */
	} cases[] = {
		{"membind = 0", NULL},
		{"membind = 0\nplacement = one", NULL},
		{"preferred = 1\nplacement = one", NULL},
		{"localalloc = yes\nplacement = node", NULL},
		{"interleave = 0-1\nplacement = interleave", NULL},
		{"placement = socket\nmembind = !0", NULL},
		{"placement = socket\nbacking = hugetlb-1g", "backing: pages of 1 GiB are too large to be spread"},
		{"interleave = 0\npreferred = 1", "interleave: not together with preferred"},
		{"interleave = 0\nplacement = socket", "interleave: means placement = interleave, which is socket"},
		{"preferred = 1\nmembind = 0", "preferred: not together with membind"},
		{"localalloc = yes\npreferred = 0", "localalloc: not together with preferred"},
		{"preferred = 1\nplacement = 0,1", "preferred: means placement = one, which is 0,1"},
		{"localalloc = yes\nplacement = one", "localalloc: means placement = node, which is one"},
		{"placement = nodes", "placement: 'nodes' is not understood"},
		{"placement = 3-1", "runs backwards"},
		{"cpunodebind = ", "cpunodebind: '': expected a list"},
		{"physcpubind = +", "physcpubind: '+': expected a list"},
	};
	static struct config config;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[256];
		struct err err = {""};
		snprintf(text, sizeof text, "[weightd]\n%s\n", cases[i].lines);
		write_bytes(file, text, strlen(text));
		ck_assert_int_eq(config_load(file, &config, &err), cases[i].words ? -EINVAL : 0);
		ck_assert_msg(!cases[i].words || strstr(err.text, cases[i].words), "%s: %s", cases[i].lines, err.text);
	}
}
END_TEST

START_TEST(unknown_names_suggest_the_nearest)
{
	refused("[weightd]\nmax_quue = 3\n", "unknown key 'max_quue'; did you mean 'max_queue'?");
	refused("[weightd]\nworker_per_node = 3\n", "did you mean 'workers_per_node'?");
	refused("[weightd]\nLISTEN = 127.0.0.1:1\n", "unknown key 'LISTEN'");
	refused("[weightd]\nxyzzy_frobnicate = 3\n", "--help-config lists all");
	refused("[weigthd]\nthreads = 3\n", "unknown section [weigthd]");
	refused("[model m]\nfile = /x\n", "known: path, pull");
}
END_TEST

START_TEST(models_are_checked)
{
	refused("[model m]\n", "[model m]: needs path = FILE or pull = NAME");
	refused("[model m]\npath = /a\npull = b\n", ":3: pull: a model has either path or pull");
	refused("[model m]\npath = /a\ntool_parser = xml\n", "one of auto, none, hermes, llama3, mistral");
	refused("[model m]\npath = /a\nreasoning = yes\n", "one of auto, none, think");
	refused("[model m]\npath =\n", "must have 1 to");
	refused("[model ../m]\npath = /a\n", "must begin with a letter");
	refused("[model a b]\npath = /a\n", "character other than letters");
	refused("[model ]\npath = /a\n", "must begin with");
	refused("[model m]\npath = /a\n[model  m]\npath = /b\n", "model m comes twice");
	char many[2048] = "";
	for (unsigned i = 0; i <= CONFIG_MODELS_MAX; i++)
		sprintf(many + strlen(many), "[model m%u]\npath = /a\n", i);
	refused(many, "more than 16 models");
}
END_TEST

START_TEST(adapters_are_checked)
{
	struct config config;
	struct err err = {""};
	ck_assert_msg(load("[weightd]\nmodel_dir = /m\n[adapter a]\npath = a.gguf\n[model m]\npath = /m\n", &config,
			   &err) == 0,
		      "%s", err.text);
	ck_assert_uint_eq(config.n_adapters, 1);
	ck_assert_str_eq(config.adapters[0].path, "/m/a.gguf");
	ck_assert_str_eq(config.adapters[0].model, "m"); /* the only one */
	ck_assert_int_eq(config_finish(&config, &err), 0);
	ck_assert_msg(load("[weightd]\nadapter_dir = /d\n[model m]\npath = /m\n[model n]\npath = /n\n"
			   "[adapter a]\npath = a\nmodel = n\n",
			   &config, &err) == 0,
		      "%s", err.text);
	ck_assert_str_eq(config.adapters[0].path, "/d/a");
	ck_assert_str_eq(config.adapters[0].model, "n");
	refused("[model m]\npath = /m\n[adapter a]\nmodel = m\n", "[adapter a]: needs path = FILE");
	refused("[model m]\npath = /m\n[adapter m]\npath = /a\n", "[adapter m]: a model has this name");
	refused("[model m]\npath = /m\n[adapter a]\npath = /a\nmodel = n\n", "there is no model 'n'");
	refused("[model m]\npath = /m\n[model n]\npath = /n\n[adapter a]\npath = /a\n", "needs model = NAME");
	refused("[adapter a]\nfile = /x\n", "known: path, model");
	refused("[adapter a b]\npath = /a\n", "the adapter's name 'a b' has a character other than letters");
	refused("[adapter a]\npath = /a\n[adapter  a]\npath = /b\n", "adapter a comes twice");
	refused("[weightd]\nmax_adapters = 1\n[model m]\npath = /m\n[adapter a]\npath = /a\n[adapter b]\npath = /b\n",
		"max_adapters: 2 adapters have sections, allowed are 1");
	refused("[weightd]\nadapter_dir = adapters\n", "not an absolute path");
}
END_TEST

/* inih alone would take all of these, each in its own way. */
START_TEST(lenient_ini_is_refused)
{
	refused("threads = 3\n", "must stand under [weightd]");
	refused("[weightd]\nthreads = 3\nthreads = 4\n", ":3: threads: comes twice");
	refused("[weightd]\nthreads = 3\n[model m]\npath = /a\n[weightd]\nio = auto\n",
		":5: section [weightd] comes twice");
	refused("[weightd\nthreads = 3\n", ":1: a section's line must end with ']'");
	refused("[weightd] threads = 3\n", "unexpected text after ']'");
	refused("[weightd]\nthreads\n", ":2: expected 'key = value'");
	refused("[weightd]\nthreads: 3\n", "expected 'key = value'");
	refused("[weightd]\n= 3\n", "a key must have 1 to");
	refused("[]\n", "a section's name must have 1 to");
	refused("[weightd]\nmodel_dir = /a\n   /b\n", ":3: expected 'key = value'");
	refused("[model aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]\npath = /a\n", "a section's name");
	refused("[weightd]\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa = 1\n", "a key must have");
}
END_TEST

START_TEST(long_lines_and_control_characters_are_refused)
{
	struct config config;
	struct err err = {""};
	static char text[16384];
	strcpy(text, "[weightd]\nmodel_dir = /");
	size_t n = strlen(text);
	memset(text + n, 'm', 900);
	ck_assert_msg(load_bytes(text, n + 900, &config, &err) == 0, "a line of 900 characters is fine, but: %s",
		      err.text);
	memset(text + n, 'm', 5000);
	ck_assert_int_lt(load_bytes(text, n + 5000, &config, &err), 0);
	ck_assert_msg(strstr(err.text, ":2: the line is longer than"), "%s", err.text);
	ck_assert_int_lt(load_bytes("[weightd]\nio = au\0to\n", 21, &config, &err), 0);
	ck_assert_msg(strstr(err.text, ":2: control character 0x00 in column 8"), "%s", err.text);
	memset(text, '\n', 10000);
	strcpy(text + 10000, "bad");
	ck_assert_int_lt(load_bytes(text, 10003, &config, &err), 0);
	ck_assert_msg(strstr(err.text, ":10001: "), "%s", err.text);
}
END_TEST

/* Whatever the bytes: an answer, one line of reason, no crash (the sanitizers watch). */
START_TEST(random_bytes_and_flipped_samples_do_no_harm)
{
	static const char sample[] =
		"[weightd]\nsocket = /run/a.sock\nio_cpus = 0-3\nkv_bytes = 4G\n[model m]\npath = m.gguf\n";
	char bytes[sizeof sample];
	unsigned refusals = 0;
	srandom(1);
	for (unsigned round = 0; round < 3000; round++) {
		memcpy(bytes, sample, sizeof sample);
		size_t n = sizeof sample - 1;
		if (round % 4 == 0) {
			n = (size_t)random() % sizeof sample;
			for (size_t i = 0; i < n; i++)
				bytes[i] = (char)random();
		} else {
			for (unsigned flips = 0; flips < round % 4; flips++)
				bytes[(size_t)random() % n] ^= (char)(1 << random() % 8);
		}
		struct config config;
		struct err err = {""};
		if (load_bytes(bytes, n, &config, &err) < 0) {
			refusals++;
			ck_assert_uint_gt(strlen(err.text), 0);
			ck_assert_ptr_null(strchr(err.text, '\n'));
		}
	}
	ck_assert_uint_gt(refusals, 1500);
}
END_TEST

START_TEST(a_missing_file_says_so)
{
	struct config config;
	struct err err = {""};
	ck_assert_int_eq(config_load("/nonexistent/weightd.conf", &config, &err), -ENOENT);
	ck_assert_str_eq(err.text, "/nonexistent/weightd.conf: No such file or directory");
	ck_assert_int_lt(config_load("/tmp", &config, &err), 0);
}
END_TEST

START_TEST(single_keys_can_be_set_over_a_file)
{
	struct config config;
	struct err err = {""};
	ck_assert_int_eq(load("[weightd]\nthreads = 3\n[model m]\npath = m.gguf\n", &config, &err), 0);
	ck_assert_int_eq(config_set(&config, "threads=5", &err), 0);
	ck_assert_int_eq(config_set(&config, "model_dir=/elsewhere", &err), 0);
	ck_assert_int_eq(config_set(&config, "listen=", &err), 0);
	ck_assert_int_eq(config_finish(&config, &err), 0);
	ck_assert_uint_eq(config.threads, 5);
	ck_assert_str_eq(config.models[0].path, "/elsewhere/m.gguf");
	ck_assert_int_lt(config_set(&config, "threads", &err), 0);
	ck_assert_int_lt(config_set(&config, "=5", &err), 0);
	ck_assert_int_lt(config_set(&config, "treads=5", &err), 0);
	ck_assert_msg(strstr(err.text, "'threads'"), "%s", err.text);
}
END_TEST

static const char catalogue_text[] =
	"[tiny]\nsource = pypi\npackage = llm-tiny\nversion = 1.0\nmember = llm_tiny/tiny.gguf\n"
	"sha256 = b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53\nbytes = 3\nlicence = MIT\n";

START_TEST(pulled_models_are_found_through_the_catalogue)
{
	struct config config;
	struct err err = {""};
	char path[256], text[512];
	snprintf(path, sizeof path, "%s/models.ini", directory);
	write_bytes(path, catalogue_text, strlen(catalogue_text));

	snprintf(text, sizeof text, "[weightd]\ncatalogue = %s\nmodel_dir = %s\n[model t]\npull = tiny\n", path,
		 directory);
	ck_assert_msg(load(text, &config, &err) == 0, "%s", err.text);
	snprintf(path, sizeof path, "%s/tiny.gguf", directory);
	ck_assert_str_eq(config.models[0].path, path);
	ck_assert_str_eq(config.models[0].name, "t");

	/* Without sections: what was pulled, once it is there. */
	*strstr(text, "[model t]") = '\0';
	ck_assert_int_eq(load(text, &config, &err), 0);
	ck_assert_uint_eq(config.n_models, 0);
	write_bytes(path, "abc", 3);
	ck_assert_int_eq(config_finish(&config, &err), 0);
	ck_assert_int_eq(config_finish(&config, &err), 0);
	ck_assert_uint_eq(config.n_models, 1);
	ck_assert_str_eq(config.models[0].name, "tiny");
	ck_assert_str_eq(config.models[0].path, path);

	strcat(text, "[model t]\npull = tidy\n");
	refused(text, "'tidy' is not in the catalogue; known: tiny");
	snprintf(text, sizeof text, "[weightd]\ncatalogue = /nonexistent\n[model t]\npull = tiny\n");
	refused(text, "/nonexistent: No such file");
}
END_TEST

static char *read_whole(const char *path)
{
	FILE *in = fopen(path, "r");
	ck_assert_msg(in != NULL, "%s", path);
	char *text = calloc(1, 1 << 16);
	size_t n = fread(text, 1, (1 << 16) - 1, in);
	ck_assert_uint_gt(n, 0);
	fclose(in);
	return text;
}

static const char *source_path(const char *relative, char *out, size_t size)
{
	const char *top = getenv("srcdir");
	snprintf(out, size, "%s/%s", top ? top : ".", relative);
	return out;
}

START_TEST(the_installed_sample_is_the_key_list)
{
	char path[512], *text;
	size_t n;
	FILE *out = open_memstream(&text, &n);
	config_print_keys(out);
	fclose(out);
	char *sample = read_whole(source_path("conf/weightd.conf", path, sizeof path));
	ck_assert_str_eq(sample, text);

	/* Uncommented it must be valid, and say what the defaults are. */
	struct config config;
	struct err err = {""};
	FILE *plain = fopen(file, "w");
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (strncmp(line, "#pull", 5) == 0) /* the catalogue is not installed here */
			fprintf(plain, "path = /m.gguf\n");
		else if (line[0] != '#' || line[1] != ' ')
			fprintf(plain, "%s\n", line + (line[0] == '#'));
	fclose(plain);
	ck_assert_msg(config_load(file, &config, &err) == 0, "%s", err.text);
	ck_assert_str_eq(config.socket, "/run/weightd/weightd.sock");
	struct config defaults;
	config_defaults(&defaults);
	strcpy(defaults.socket, config.socket);
	strcpy(defaults.control_socket, config.control_socket);
	strcpy(defaults.model_dir, config.model_dir);
	strcpy(defaults.catalogue, config.catalogue);
	ck_assert_uint_eq(config.n_models, 1);
	ck_assert_uint_eq(config.models[0].tool_parser, TOOLS_AUTO);
	ck_assert_uint_eq(config.models[0].reasoning, REASONING_AUTO);
	config.n_models = 0;
	memset(config.models, 0, sizeof config.models);
	ck_assert_uint_eq(config.n_adapters, 1);
	config.n_adapters = 0;
	memset(config.adapters, 0, sizeof config.adapters);
	ck_assert_int_eq(memcmp(&config, &defaults, sizeof config), 0);
	free(sample);
	free(text);
}
END_TEST

/* As a manual page writes it: the two hyphens of an option are minus signs, which can be searched for. */
static void as_manual(const char *help, char *text, size_t size)
{
	size_t n = 0;
	for (; *help && n + 5 < size; help++) {
		if (strncmp(help, "--", 2) != 0) {
			text[n++] = *help;
			continue;
		}
		memcpy(text + n, "\\-\\-", 4);
		n += 4;
		help++;
	}
	ck_assert_msg(!*help, "longer than %zu", size);
	text[n] = '\0';
}

START_TEST(the_manual_has_every_key_with_default_bounds_and_help)
{
	char path[512];
	char *manual = read_whole(source_path("packaging/man/weightd.conf.5", path, sizeof path));
	static const struct config_directories packaged = {"/run/weightd", "/var/lib/weightd", "/usr/share/weightd"};
	for (unsigned group = 0; group < N_GROUPS; group++)
		for (const struct config_key *key = config_sections[group].keys; key->name; key++) {
			char value[CONFIG_PATH], allowed[128], help[1536], entry[2048];
			config_key_default(key, &packaged, value, sizeof value);
			config_key_allowed(key, allowed, sizeof allowed);
			as_manual(key->help, help, sizeof help);
			int n = snprintf(entry, sizeof entry, ".TP\n.BR %s \" = %s\"\n(%s)\n%s\n", key->name, value,
					 allowed, help);
			ck_assert_int_lt(n, (int)sizeof entry);
			ck_assert_msg(strstr(manual, entry) != NULL, "weightd.conf.5 lacks this entry:\n%s", entry);
		}
	free(manual);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config");
	TCase *tests = tcase_create("config");
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, an_empty_file_gives_the_defaults);
	tcase_add_test(tests, every_kind_of_value_is_read);
	tcase_add_test(tests, what_is_printed_reads_back_equal);
	tcase_add_test(tests, wrong_values_are_refused_with_line_key_and_what_is_allowed);
	tcase_add_test(tests, sockets_must_fit_the_kernels_address);
	tcase_add_test(tests, only_loopback_is_listened_on);
	tcase_add_test(tests, memory_has_one_policy);
	tcase_add_test(tests, unknown_names_suggest_the_nearest);
	tcase_add_test(tests, models_are_checked);
	tcase_add_test(tests, adapters_are_checked);
	tcase_add_test(tests, lenient_ini_is_refused);
	tcase_add_test(tests, long_lines_and_control_characters_are_refused);
	tcase_add_test(tests, random_bytes_and_flipped_samples_do_no_harm);
	tcase_add_test(tests, a_missing_file_says_so);
	tcase_add_test(tests, single_keys_can_be_set_over_a_file);
	tcase_add_test(tests, pulled_models_are_found_through_the_catalogue);
	tcase_add_test(tests, the_installed_sample_is_the_key_list);
	tcase_add_test(tests, the_manual_has_every_key_with_default_bounds_and_help);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
