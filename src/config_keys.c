/* One row per key; everything else about a key follows from its row. Defaults are written as in a file and read by the
 * same code, so a default outside its own bounds cannot go unnoticed. */
#include "src/config_keys.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/loop.h"
#include "shm/segment.h"
#include "src/call.h"
#include "src/engine/pooling.h"
#include "src/kernel/kernel.h"
#include "src/load/model_quantize.h"
#include "src/parent/plan.h"

static const struct config_word io_words[] = {{"auto", IO_AUTO}, {"uring", IO_URING}, {"epoll", IO_EPOLL}, {NULL, 0}};
static const struct config_word log_words[] = {{"error", 0}, {"warning", 1}, {"info", 2}, {"debug", 3}, {NULL, 0}};
static const struct config_word backing_words[] = {{"shm", SEGMENT_SHM},
						   {"memfd", SEGMENT_MEMFD},
						   {"hugetlb", SEGMENT_POOL_2M},
						   {"hugetlb-1g", SEGMENT_POOL_1G},
						   {NULL, 0}};
static const struct config_word huge_words[] = {
	{"try", SEGMENT_HUGE_TRY}, {"off", SEGMENT_HUGE_OFF}, {"on", SEGMENT_HUGE_ON}, {NULL, 0}};
static const struct config_word cpu_level_words[] = {{"auto", UINT32_MAX},
						     {"ref", CPU_LEVEL_REF},
						     {"avx2", CPU_LEVEL_AVX2},
						     {"avx512", CPU_LEVEL_AVX512},
						     {NULL, 0}};
static const struct config_word numerics_words[] = {
	{"auto", UINT32_MAX}, {"f32", NUMERICS_F32}, {"bf16", NUMERICS_BF16}, {"int8", NUMERICS_INT8}, {NULL, 0}};

static const struct config_word kv_words[] = {{"bf16", KV_BF16}, {"int8", KV_INT8}, {NULL, 0}};
static const struct config_word tool_words[] = {{"auto", TOOLS_AUTO},	    {"none", TOOLS_NONE},
						{"hermes", TOOLS_HERMES},   {"llama3", TOOLS_LLAMA3},
						{"mistral", TOOLS_MISTRAL}, {NULL, 0}};
static const struct config_word quantize_words[] = {
	{"none", MODEL_AS_STORED}, {"bf16", MODEL_BF16}, {"int8", MODEL_INT8}, {"int4", MODEL_INT4}, {NULL, 0}};
static const struct config_word reasoning_words[] = {
	{"auto", REASONING_AUTO}, {"none", REASONING_NONE}, {"think", REASONING_THINK}, {NULL, 0}};

static const struct config_word parallel_words[] = {{"none", PARALLEL_NONE}, {"tensor", PARALLEL_TENSOR}, {NULL, 0}};

static const struct config_word pooling_words[] = {
	{"mean", POOLING_MEAN}, {"last", POOLING_LAST}, {"cls", POOLING_CLS}, {NULL, 0}};

int config_check_name(const char *name, const char *extra, size_t max, struct err *err)
{
	if (!isalnum((unsigned char)name[0]))
		return err_set(err, -EINVAL, "'%.40s' must begin with a letter or a digit", name);
	for (const char *p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr(extra, *p))
			return err_set(err, -EINVAL, "'%.40s' has a character other than letters, digits and '%s'",
				       name, extra);
	if (strlen(name) > max)
		return err_set(err, -EINVAL, "'%.20s...' has more than %zu characters", name, max);
	return 0;
}

static int check_instance(const char *value, struct err *err)
{
	return config_check_name(value, "_-", 63, err);
}

static int check_account(const char *value, struct err *err)
{
	return value[0] ? config_check_name(value, "._-", 63, err) : 0;
}

static int check_path(const char *value, struct err *err)
{
	if (value[0] != '/')
		return err_set(err, -EINVAL, "'%.60s' is not an absolute path", value);
	if (strstr(value, " #"))
		return err_set(err, -EINVAL, "'%.60s': a comment behind a value begins with ' ;'", value);
	return 0;
}

static int check_optional_path(const char *value, struct err *err)
{
	return value[0] ? check_path(value, err) : 0;
}

/* Who may connect is decided by the socket's mode, or by being on this machine. Keys do not change that: they and all
 * texts would cross the network in the clear. */
static int check_listen(const char *value, struct err *err)
{
	char host[64], *end;
	const char *colon = strrchr(value, ':');
	if (!value[0])
		return 0;
	if (!colon || (size_t)(colon - value) >= sizeof host)
		return err_set(err, -EINVAL, "'%.60s' is not ADDRESS:PORT", value);
	memcpy(host, value, (size_t)(colon - value));
	host[colon - value] = '\0';
	unsigned long port = strtoul(colon + 1, &end, 10);
	if (!isdigit((unsigned char)colon[1]) || *end || port == 0 || port > 65535)
		return err_set(err, -EINVAL, "'%.20s' is not a port from 1 to 65535", colon + 1);
	struct in_addr v4;
	if (!strcmp(host, "[::1]"))
		return 0;
	if (inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127)
		return 0;
	return err_set(
		err, -EINVAL,
		"'%.60s' is not a loopback address (127.0.0.0/8 or [::1]): texts and keys would cross a network in "
		"the clear; put a proxy with TLS in front for others",
		host);
}

/* One origin as browsers write it: a scheme and a host, perhaps a port, and no path (RFC 6454, section 7). */
static bool is_origin(const char *text, size_t n)
{
	const char *host = memmem(text, n, "://", 3);
	if (!host || !isalpha((unsigned char)text[0]) || host + 3 == text + n)
		return false;
	for (const char *p = text; p < host; p++)
		if (!isalnum((unsigned char)*p) && !strchr("+-.", *p))
			return false;
	for (const char *p = host + 3; p < text + n; p++)
		if (!isalnum((unsigned char)*p) && !strchr(".-_:[]", *p))
			return false;
	return true;
}

static int check_origins(const char *value, struct err *err)
{
	unsigned n_origins = 0;
	bool any = false;
	for (const char *at = value; *(at += strspn(at, ", ")); n_origins++) {
		size_t n = strcspn(at, ", ");
		bool is_any = n == 1 && *at == '*';
		if (!is_any && !is_origin(at, n))
			return err_set(err, -EINVAL, "'%.*s' is not an origin such as https://example.org:8443",
				       n > 60 ? 60 : (int)n, at);
		any |= is_any;
		at += n;
	}
	return any && n_origins > 1 ? err_set(err, -EINVAL, "'*' allows every origin and stands alone") : 0;
}

/* Whether a list can be read at all; which of its members there are, the machine will say. */
static int check_list(const char *value, struct err *err)
{
	struct idset any, list;
	memset(&any, 0xff, sizeof any);
	return idset_resolve(value, &any, &list, err);
}

static int check_optional_list(const char *value, struct err *err)
{
	return value[0] ? check_list(value, err) : 0;
}

static int check_placement(const char *value, struct err *err)
{
	static const char *const words[] = {"node", "socket", "interleave", "one", "all"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strcmp(value, words[i]))
			return 0;
	if (isalpha((unsigned char)value[0]))
		return err_set(err, -EINVAL,
			       "'%.40s' is not understood; allowed: node, socket, interleave, one or a list of nodes",
			       value);
	return check_list(value, err);
}

#define MEMBER(m) .offset = offsetof(struct config, m), .size = sizeof(((struct config *)0)->m)
#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)

static const struct config_key server_keys[] = {
	{"instance", KEY_TEXT, MEMBER(instance), .check = check_instance, .allowed = "letters, digits, '_' and '-'",
	 .fallback = "default",
	 .help = "Name of this daemon among several on one machine. It is part of the shared memory objects' names."},
	{"socket", KEY_TEXT, MEMBER(socket), .check = check_path, .allowed = "absolute path",
	 .fallback = "RUNTIME/weightd.sock",
	 .help = "Unix socket of the HTTP API. Not used when systemd passes a socket."},
	{"socket_mode", KEY_MODE, MEMBER(socket_mode), .min = 0, .max = 0777, .fallback = "0660",
	 .help = "Permissions of the API socket: who may write to it may call."},
	{"socket_group", KEY_TEXT, MEMBER(socket_group), .check = check_account, .allowed = "group name or empty",
	 .fallback = "",
	 .help = "Group that owns the API socket and may read the shared memory objects. Empty: the daemon's own."},
	{"listen", KEY_TEXT, MEMBER(listen), .check = check_listen, .allowed = "127.x.y.z:PORT, [::1]:PORT or empty",
	 .fallback = "",
	 .help = "TCP address of the API besides the Unix socket. Only loopback addresses are taken, because texts and "
		 "keys would cross a network in the clear; without api_keys_file every local user may call. Empty: no "
		 "TCP."},
	{"api_keys_file", KEY_TEXT, MEMBER(api_keys_file), .check = check_optional_path,
	 .allowed = "absolute path or empty", .fallback = "",
	 .help = "File with the keys that clients may show (Authorization: Bearer KEY), one on each line; lines that "
		 "begin "
		 "with a number sign are comments. It must be readable for its owner alone, the daemon's user or root. "
		 "Every path but /health then wants a key. A change takes effect with a restart. Empty: no key is "
		 "asked for."},
	{"cors_origins", KEY_TEXT, MEMBER(cors_origins), .check = check_origins,
	 .allowed = "list of origins, * or empty", .fallback = "",
	 .help = "Origins whose pages may call from a browser, such as https://chat.example.org, separated by blanks; "
		 "* "
		 "is every page there is, which on a machine with a browser means every site its user visits. Empty: "
		 "none, and browsers show a page no answer."},
	{"control_socket", KEY_TEXT, MEMBER(control_socket), .check = check_path, .allowed = "absolute path",
	 .fallback = "RUNTIME/control.sock",
	 .help = "Unix socket for weightctl's orders to the daemon. Its mode is 0600: only the daemon's user and "
		 "root get "
		 "through."},
	{"io", KEY_WORD, MEMBER(io), .words = io_words, .fallback = "auto",
	 .help = "Kernel interface of the front and the loader. uring never falls back; auto takes epoll where "
		 "io_uring is not "
		 "allowed, and status tells."},
	{"max_connections", KEY_NUMBER, MEMBER(max_connections), .min = 1, .max = 65536, .fallback = "1024",
	 .help = "Client connections open at a time; further ones wait in the kernel's queue. While some wait, the "
		 "connection that has been idle for longest is closed, if it has been for a second, and answers close "
		 "theirs. The limit on descriptors may allow fewer; the log tells."},
	{"max_request_bytes", KEY_SIZE, MEMBER(max_request_bytes), .min = 4 * KIB, .max = GIB, .fallback = "1M",
	 .help = "Longest body of a request; longer ones get status 413."},
	{"client_buffer_bytes", KEY_SIZE, MEMBER(client_buffer_bytes), .min = 64 * KIB, .max = GIB, .fallback = "4M",
	 .help = "Answer bytes that a slow client may leave unread before its call is cancelled and its connection "
		 "closed."},
	{"idle_seconds", KEY_NUMBER, MEMBER(idle_seconds), .min = 1, .max = 86400, .fallback = "75",
	 .help = "A connection without a request is closed after this."},
	{"request_seconds", KEY_NUMBER, MEMBER(request_seconds), .min = 1, .max = 86400, .fallback = "30",
	 .help = "Time for a request to arrive, from its first byte to its last (of a file to be heard between two "
		 "pieces of it); then it gets status 408. A complete "
		 "answer of which a client takes nothing for 30 seconds is dropped."},
	{"max_audio_bytes", KEY_SIZE, MEMBER(max_audio_bytes), .min = 64 * KIB, .max = 4 * GIB, .fallback = "128M",
	 .help = "Longest audio file of a request to a speech model; longer ones get status 413."},
	{"max_audio_seconds", KEY_NUMBER, MEMBER(max_audio_seconds), .min = 1, .max = 86400, .fallback = "3600",
	 .help = "Longest audio in such a file, told by its header or counted while it is decoded; longer ones get "
		 "status 413."},
	{"audio_processes", KEY_NUMBER, MEMBER(audio_processes), .min = 1, .max = 16, .fallback = "1",
	 .help = "Processes that decode audio files, one file at a time each. They are there while a speech model is "
		 "served."},
	{"audio_seccomp", KEY_BOOL, MEMBER(audio_seccomp), .fallback = "yes",
	 .help = "Whether the kernel filters the system calls of those processes, so that a file that takes one over "
		 "finds neither files nor sockets. Where the kernel has no such filters they do not start, unless no."},
	{"max_queue", KEY_NUMBER, MEMBER(max_queue), .min = 1, .max = 65536, .fallback = "64",
	 .help = "Calls running or waiting, over all workers; past it a request gets status 429 with Retry-After."},
	{"metrics_aliases", KEY_BOOL, MEMBER(metrics_aliases), .fallback = "yes",
	 .help = "Whether /metrics gives the figures also under the names that llama-server (llamacpp:...) and vLLM "
		 "(vllm:...) have for them, so that dashboards and scalers made for those work as they are."},
	{"dashboard", KEY_BOOL, MEMBER(dashboard), .fallback = "yes",
	 .help = "Whether GET / answers with the dashboard, a page for browsers that shows nodes, workers, models and "
		 "queues and lets a model be talked to. It needs no key itself, and asks for the key that its requests "
		 "need."},
	{"hang_seconds", KEY_NUMBER, MEMBER(hang_seconds), .min = 2, .max = 3600, .fallback = "8",
	 .help = "A worker or front that makes no progress for so long is killed and replaced. Idle processes show "
		 "progress by waking up."},
	{"user", KEY_TEXT, MEMBER(user), .check = check_account, .allowed = "user name or empty", .fallback = "",
	 .help = "User that the child processes become when the daemon is started by root. Empty: they stay, without "
		 "capabilities."},
	{"log_level", KEY_WORD, MEMBER(log_level), .words = log_words, .fallback = "info",
	 .help = "Least important kind of line that is logged to standard error."},
	{"model_dir", KEY_TEXT, MEMBER(model_dir), .check = check_path, .allowed = "absolute path",
	 .fallback = "STATE/models", .help = "Directory of pulled models, and where relative paths of models begin."},
	{"catalogue", KEY_TEXT, MEMBER(catalogue), .check = check_path, .allowed = "absolute path",
	 .fallback = "DATA/models.ini", .help = "Names that weightctl pull and the key pull of a model section know."},
	{"adapter_dir", KEY_TEXT, MEMBER(adapter_dir), .check = check_optional_path,
	 .allowed = "absolute path or empty", .fallback = "",
	 .help = "Directory beneath which adapters may be that are loaded over HTTP (POST /v1/load_lora_adapter); no "
		 "path or link leads out of it. Whoever may call may then load, replace and unload adapters. Empty: "
		 "nobody may over HTTP; weightctl adapter still can."},
	{"max_adapters", KEY_NUMBER, MEMBER(max_adapters), .min = 1, .max = 1024, .fallback = "16",
	 .help = "Adapters at a time, of all models together."},
	{.name = NULL},
};

#define NODES "all or a list of nodes such as 0-3,8, +0-1 or !2"
static const struct config_key placement_keys[] = {
	{"placement", KEY_TEXT, MEMBER(placement), .check = check_placement,
	 .allowed = "node, socket, interleave, one or a list of nodes", .fallback = "node",
	 .help = "Which nodes get a copy of the weights. node: every node whose CPUs compute, or where it has no "
		 "memory "
		 "the nearest that has. socket: a copy per package, its pages spread over the package's nodes. "
		 "interleave: one copy, its pages spread over all nodes. one: one copy on a single node, the one that "
		 "is "
		 "nearest to all CPUs. A list: a copy on each of these nodes. Workers read the nearest copy. weightd "
		 "--plan shows what follows on this machine."},
	{"cpunodebind", KEY_TEXT, MEMBER(cpunodebind), .check = check_list, .allowed = NODES, .fallback = "all",
	 .help = "Run on the CPUs of these nodes only, as numactl --cpunodebind does. Lists are numactl's: 0-3,8 are "
		 "numbers, +0-1 are the first two of those that the daemon was given (cpuset, taskset), !2 are all but "
		 "this one."},
	{"physcpubind", KEY_TEXT, MEMBER(physcpubind), .check = check_list,
	 .allowed = "all or a list of CPUs such as 0-3,8, +0-1 or !2", .fallback = "all",
	 .help = "Run on these CPUs only, as numactl --physcpubind does. Of the CPUs of a core one computes; which, "
		 "this "
		 "decides, too."},
	{"membind", KEY_TEXT, MEMBER(membind), .check = check_list, .allowed = NODES, .fallback = "all",
	 .help = "Memory of these nodes only, as numactl --membind: for copies, for calls, and for every process of "
		 "the "
		 "daemon."},
	{"preferred", KEY_TEXT, MEMBER(preferred), .check = check_optional_list, .allowed = "a node or empty",
	 .fallback = "",
	 .help = "One copy, on this node, as numactl --preferred: where all models together do not fit into its free "
		 "memory, on the nearest node where they do (with strict = yes: nowhere). Not with membind, localalloc "
		 "or another placement than one."},
	{"interleave", KEY_TEXT, MEMBER(interleave), .check = check_optional_list,
	 .allowed = "a list of nodes or empty", .fallback = "",
	 .help = "One copy, its pages spread over these nodes, as numactl --interleave. Not with membind, preferred, "
		 "localalloc or another placement than interleave."},
	{"localalloc", KEY_BOOL, MEMBER(localalloc), .fallback = "no",
	 .help = "Memory of the node that computes, as numactl --localalloc: what placement = node means, for those "
		 "who "
		 "look for the word. Not with membind, preferred, interleave or another placement."},
	{"strict", KEY_BOOL, MEMBER(strict), .fallback = "no",
	 .help = "Whether to refuse to serve rather than to serve with less than was asked for of memory's place. "
		 "Where "
		 "the kernel, a container or a cpuset refuses a call that binds memory or tells where pages are, the "
		 "daemon then ends with status 3 before it serves. no: it warns once, and placement is unverified in "
		 "status, /health and /metrics."},
	{"backing", KEY_WORD, MEMBER(backing), .words = backing_words, .fallback = "shm",
	 .help = "What holds the weights: shm is a named POSIX shared memory object in /dev/shm, memfd a sealed "
		 "anonymous one, "
		 "which needs no room in /dev/shm and cannot be reopened for writing by anyone. hugetlb is such an "
		 "anonymous one in 2 MiB pages of the nodes' pools (nr_hugepages), hugetlb-1g in 1 GiB pages; where a "
		 "pool is "
		 "too small all copies of the model are memfds instead, unless huge_pages = on. Status tells what each "
		 "copy is "
		 "in. Adapters, which are small, never take pages of a pool."},
	{"huge_pages", KEY_WORD, MEMBER(huge_pages), .words = huge_words, .fallback = "try",
	 .help = "Whether the weights are collapsed into 2 MiB pages where these can be had. on refuses to serve "
		 "unless all "
		 "of them are in such pages, or in larger ones. Status tells how many bytes are in pages of which "
		 "size."},
	{"lock_memory", KEY_BOOL, MEMBER(lock_memory), .fallback = "yes",
	 .help = "Lock the weights into memory where the limit on locked memory allows; status tells."},
	{"keep_weights", KEY_BOOL, MEMBER(keep_weights), .fallback = "no",
	 .help = "After an orderly stop leave the shared memory objects for the next start, which adopts them after "
		 "checking instead of reading the model. They take memory until then. After a crash they are always "
		 "left."},
	{"verify_seconds", KEY_NUMBER, MEMBER(verify_seconds), .min = 0, .max = 86400, .fallback = "60",
	 .help = "How often the kernel is asked where some pages of every copy are (512 of each, other ones each "
		 "time). When one is on another node than it should be, all of that copy's are counted, and it is "
		 "called degraded: log, status, /health and metrics tell, and other nodes' workers are preferred, "
		 "until weightctl verify --repair has made it anew. 0: never; weightctl status and verify always count "
		 "all pages."},
	{"workers_per_node", KEY_NUMBER, MEMBER(workers_per_node), .min = 1, .max = 64, .fallback = "1",
	 .help = "Worker processes for each model on each node with CPUs. One batches all its calls; more are seldom "
		 "faster."},
	{"threads", KEY_NUMBER, MEMBER(threads), .min = 1, .max = 1024, .zero_word = "auto", .fallback = "auto",
	 .help = "Compute threads of a worker, each bound to a CPU of its own. auto: one per physical core of the "
		 "node, shared "
		 "out among its workers."},
	{"io_cpus", KEY_IDS, MEMBER(io_cpus), .zero_word = "auto", .fallback = "auto",
	 .help = "CPUs of the front, as a list such as 0,4-7; no compute threads run there. auto: one CPU where there "
		 "are more "
		 "than two."},
	{.name = NULL},
};

static const struct config_key engine_keys[] = {
	{"cpu_level", KEY_WORD, MEMBER(cpu_level), .words = cpu_level_words, .fallback = "auto",
	 .help = "Instruction set of the kernels. auto: the highest this CPU has. ref is portable C, for comparison."},
	{"numerics", KEY_WORD, MEMBER(numerics), .words = numerics_words, .fallback = "auto",
	 .help = "Number format of activations in products. auto: bf16 where the CPU has instructions for it, else "
		 "f32. int8: 8 bits where weights are quantized; prompts, and many answers at a time, are made in "
		 "about two thirds of the time, further from what the model would say exactly (SmolLM2-135M at q4_1: "
		 "a mean KL divergence of 0.004 nats, bf16: 0.0002); it needs AVX-512 VNNI and VBMI. It is fixed at "
		 "load: an answer never depends on load or batch."},
	{"context_tokens", KEY_NUMBER, MEMBER(context_tokens), .min = 32, .max = 16 * 1024 * 1024, .zero_word = "auto",
	 .fallback = "auto", .help = "Longest prompt and answer together. auto: what the model was trained for."},
	{"kv_type", KEY_WORD, MEMBER(kv_type), .words = kv_words, .fallback = "bf16",
	 .help = "How keys and values are kept. int8 takes 51 to 53 percent of the memory of bf16, so nearly twice the "
		 "positions fit into kv_bytes, and half is read for a long context. Answers get further from what the "
		 "model would say exactly (mean KL divergence in nats, SmolLM2-135M and Gemma 3 270M: 0.0006 and "
		 "0.0004, bf16: 0.0003 and 0.0001). An answer never depends on load or batch with either."},
	{"kv_bytes", KEY_SIZE, MEMBER(kv_bytes), .min = MIB, .max = 64 * TIB, .zero_word = "auto", .fallback = "auto",
	 .help = "Most memory of a worker for keys and values of its calls. It is taken as calls need it and given "
		 "back when they end; when it is used up, the newest calls wait and are computed again. auto: a share "
		 "of the node's free memory."},
	{"prefix_cache_bytes", KEY_SIZE, MEMBER(prefix_cache_bytes), .min = MIB, .max = 64 * TIB, .zero_word = "off",
	 .fallback = "off",
	 .help = "Most memory of a worker for keys and values of earlier prompts, kept for later prompts that begin "
		 "alike. It is part of kv_bytes, and calls take it back when they need it. Answers do not change by "
		 "it, only the time to their first token, by which a client could learn how others' prompts begin."},
	{"prefill_chunk", KEY_NUMBER, MEMBER(prefill_chunk), .min = 16, .max = 4096, .fallback = "256",
	 .help = "Prompt tokens computed together at most. More are cheaper by the token and need more memory; while "
		 "answers are generated there may be fewer, as prefill_share demands."},
	{"prefill_share", KEY_NUMBER, MEMBER(prefill_share), .min = 10, .max = 100, .fallback = "50",
	 .help = "Percent of a step's time that a prompt may take while answers are being generated: with 50 a running "
		 "answer's tokens come at half their speed during long prompts. Each further prompt that "
		 "waits adds a quarter as much beside what the answers have (with 50 five take two thirds), together "
		 "at "
		 "most the larger of this and 90 percent. 100: chunks are always whole, and a token waits for one."},
	{"max_running", KEY_NUMBER, MEMBER(max_running), .min = 1, .max = 32, .fallback = "32",
	 .help = "Calls of a worker that generate together in one batch."},
	{.name = NULL},
};

#define MODEL_MEMBER(m) .offset = offsetof(struct config_model, m), .size = sizeof(((struct config_model *)0)->m)
const struct config_key config_model_keys[] = {
	{"chat_template", KEY_TEXT, MODEL_MEMBER(chat_template), .check = check_optional_path,
	 .allowed = "absolute path or empty", .fallback = "",
	 .help = "File with a chat template (Jinja, UTF-8, at most 1 MiB) in place of the model's own, or for a model "
		 "that has "
		 "none. It is read and checked when the model is loaded, and becomes part of its copies: a changed "
		 "template "
		 "takes effect with the next start, which then loads the model again. Empty: the model's own."},
	{"tool_parser", KEY_WORD, MODEL_MEMBER(tool_parser), .words = tool_words, .fallback = "auto",
	 .help = "The format in which the model writes tool calls. auto: what its chat template shows; none: requests "
		 "with tools are refused."},
	{"reasoning", KEY_WORD, MODEL_MEMBER(reasoning), .words = reasoning_words, .fallback = "auto",
	 .help = "think: what the model writes between <think> and </think> at the beginning of a chat's answer "
		 "becomes "
		 "reasoning_content. none: it stays in the text. auto: think where the chat template has these words."},
	{"pooling", KEY_WORD, MODEL_MEMBER(pooling), .words = pooling_words, .fallback = "mean",
	 .help = "What /v1/embeddings makes of a text's tokens: mean is the mean of their states, last that of the "
		 "last "
		 "token, "
		 "cls that of the first. A model trained for embeddings says which one it wants."},
	{"quantize", KEY_WORD, MODEL_MEMBER(quantize), .words = quantize_words, .fallback = "none",
	 .help = "What the matrices of a folder are made to be while they are loaded: int8 and int4 are "
		 "blocks of 32 numbers with a scale (GGUF's Q8_0 and Q4_0; with int4 the embeddings and the output "
		 "matrix are int8), bf16 is bfloat16, none is as they are stored. GGUF files are always served as "
		 "they are."},
	{"parallel", KEY_WORD, MODEL_MEMBER(parallel), .words = parallel_words, .fallback = "none",
	 .help = "none: each node has workers of its own, which is best for many calls at a time. tensor: a worker's "
		 "threads are on all nodes, and each reads its own node's copy for the outputs that it computes; so "
		 "one "
		 "answer has the bandwidth of all nodes, and calls share one batch, keys and values. Answers are the "
		 "same with either, to the byte. On a machine with one node there is no difference."},
	{.name = NULL},
};

const struct config_section config_sections[N_GROUPS] = {
	[GROUP_SERVER] = {"Server", server_keys},
	[GROUP_PLACEMENT] = {"Placement", placement_keys},
	[GROUP_ENGINE] = {"Engine", engine_keys},
};

const struct config_key *config_key_find(const char *name)
{
	for (unsigned group = 0; group < N_GROUPS; group++)
		for (const struct config_key *key = config_sections[group].keys; key->name; key++)
			if (!strcmp(key->name, name))
				return key;
	return NULL;
}

/* Levenshtein distance of two short names (inih keeps keys under 50 characters). */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[64];
	size_t n = strnlen(b, 63);
	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 1; a[i - 1]; i++) {
		unsigned diagonal = row[0];
		row[0] = i;
		for (unsigned j = 1; j <= n; j++) {
			unsigned best = diagonal + (a[i - 1] != b[j - 1]);
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[n];
}

const char *config_key_nearest(const char *name)
{
	const char *nearest = NULL;
	unsigned least = 1 + (unsigned)strlen(name) / 3; /* a third of the letters may be wrong */
	for (unsigned group = 0; group < N_GROUPS; group++)
		for (const struct config_key *key = config_sections[group].keys; key->name; key++) {
			unsigned d = distance(name, key->name);
			if (d <= least) {
				least = d - (d > 0);
				nearest = key->name;
			}
		}
	return nearest;
}
