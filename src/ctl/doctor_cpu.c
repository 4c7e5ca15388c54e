/* What moves memory away from those who read it, keeps threads from their CPUs, or keeps CPUs from running fast. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "numa/kernfile.h"
#include "src/ctl/doctor.h"
#include "src/ctl/machine.h"

/* --- NUMA ------------------------------------------------------------------------------------- */

static void numa_balancing(const struct doctor_subject *subject, struct doctor_finding *f)
{
	struct idset nodes, with_memory;
	char text[32];
	if (kernfile_read(subject->root, "/proc/sys/kernel/numa_balancing", text, sizeof text) <= 0) {
		doctor_found(f, "this kernel has none");
		return;
	}
	machine_nodes(subject->root, &nodes, &with_memory);
	long mode = strtol(text, NULL, 10);
	if (!mode) {
		doctor_found(f, "off");
	} else if (idset_count(&nodes) < 2) {
		doctor_found(f, "on (%ld), without effect: there is one node", mode);
	} else {
		doctor_found(f,
			     "on (%ld): the kernel takes pages away for moments to see who misses them, and moves them "
			     "on its own",
			     mode);
		doctor_remedy(f, DOCTOR_WRONG,
			      "sysctl -w kernel.numa_balancing=0, and the same in /etc/sysctl.d/50-weightd.conf");
	}
}

static void numa_calls(const struct doctor_subject *subject, struct doctor_finding *f)
{
	const struct doctor_calls *c = &subject->calls;
	const struct doctor_daemon *daemon = &subject->daemon;
	static const char remedy[] =
		"allow mbind, move_pages, set_mempolicy and get_mempolicy in the container's seccomp "
		"profile (Docker: --cap-add SYS_NICE); until then no placement is proven";
	char refused[REFUSALS_TEXT];
	/* What is refused to this program is told only while there is no daemon to say what is refused to it. */
	refusals_format(daemon->runs ? &daemon->refused : &c->numa, refused, sizeof refused);
	if (refused[0]) {
		doctor_found(f, "the kernel refuses %s%s", daemon->runs ? "the daemon " : "", refused);
		doctor_remedy(f, DOCTOR_WRONG, "%s", remedy);
	} else if (daemon->n_misplaced) {
		doctor_found(f, "%u of the daemon's %u copies have pages on another node", daemon->n_misplaced,
			     daemon->n_copies);
		doctor_remedy(f, DOCTOR_WRONG,
			      "weightctl status says which; something moved them (numa_balancing, "
			      "migratepages, a cpuset): weightctl verify --repair");
	} else if (daemon->n_unverified) {
		doctor_found(f, "nothing is refused, but the placement of %u of the daemon's %u copies is not verified",
			     daemon->n_unverified, daemon->n_copies);
		doctor_remedy(f, DOCTOR_WRONG, "%s", remedy);
	} else if (daemon->n_copies) {
		doctor_found(f, "allowed, and every page of the daemon's %u cop%s is on its node", daemon->n_copies,
			     daemon->n_copies == 1 ? "y" : "ies");
	} else {
		doctor_found(f, c->asked ? "allowed" : "not tried: this is a recorded machine");
	}
}

/* --- what the process may use ----------------------------------------------------------------- */

static void cpuset(const struct doctor_subject *subject, struct doctor_finding *f)
{
	struct idset nodes, with_memory, cpus, memory, idle, afar;
	char text[IDSET_TEXT], memory_text[IDSET_TEXT];
	idset_clear(&idle);
	idset_clear(&afar);
	machine_nodes(subject->root, &nodes, &with_memory);
	if (!machine_allowed(subject->root, subject->process, "Cpus_allowed_list", &cpus)) {
		doctor_found(f, "/proc/%s/status cannot be read", subject->process);
		doctor_remedy(f, DOCTOR_NOTE, "run this as root or as the daemon's user");
		return;
	}
	if (!machine_allowed(subject->root, subject->process, "Mems_allowed_list", &memory))
		memory = with_memory; /* a kernel without NUMA */
	for (int node = idset_first(&nodes); node >= 0; node = idset_next(&nodes, node)) {
		struct idset own;
		machine_node_cpus(subject->root, (unsigned)node, &own);
		bool has_cpus = idset_count(&own);
		idset_and(&own, &cpus);
		if (has_cpus && !idset_count(&own))
			idset_add(&idle, (unsigned)node);
		if (idset_count(&own) && idset_has(&with_memory, (unsigned)node) && !idset_has(&memory, (unsigned)node))
			idset_add(&afar, (unsigned)node);
	}
	idset_and(&memory, &with_memory);
	doctor_found(f, "CPUs %.80s, memory of nodes %.80s", idset_format(&cpus, text, sizeof text),
		     idset_format(&memory, memory_text, sizeof memory_text));
	if (idset_count(&afar))
		doctor_remedy(
			f, DOCTOR_WRONG,
			"CPUs of node %.80s may be used, but not its memory: its workers read from afar. Give both or "
			"neither (cpuset.mems, AllowedMemoryNodes=)",
			idset_format(&afar, text, sizeof text));
	else if (idset_count(&idle))
		doctor_remedy(f, DOCTOR_NOTE,
			      "node %.80s has no worker: its CPUs are not allowed (cpuset.cpus, CPUAffinity=, taskset)",
			      idset_format(&idle, text, sizeof text));
}

/* --- CPUs ------------------------------------------------------------------------------------- */

static void smt(const struct doctor_subject *subject, struct doctor_finding *f)
{
	char text[32];
	if (kernfile_read(subject->root, "/sys/devices/system/cpu/smt/active", text, sizeof text) > 0 && text[0] == '1')
		doctor_found(f, "on: workers take one hardware thread of each core, the front one of the others");
	else
		doctor_found(f, "off: every CPU is a core of its own");
}

/* A CPU's word for its frequency; false: nothing here steers it. */
static bool frequency_word(const char *root, int cpu, const char *what, char *out, size_t size)
{
	char path[128];
	snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/%s", cpu, what);
	int n = kernfile_read(root, path, out, size);
	if (n <= 0)
		return false;
	out[strcspn(out, "\n")] = '\0';
	return true;
}

/* Drivers that choose frequencies themselves call it "powersave" when they do, and go by a preference. */
static bool is_slow(const char *root, int cpu, char *governor, size_t size)
{
	char preference[64];
	if (!frequency_word(root, cpu, "scaling_governor", governor, size) || !strcmp(governor, "performance"))
		return false;
	return strcmp(governor, "powersave") ||
	       !frequency_word(root, cpu, "energy_performance_preference", preference, sizeof preference) ||
	       strcmp(preference, "performance");
}

static void governor(const struct doctor_subject *subject, struct doctor_finding *f)
{
	struct idset nodes, with_memory, slow;
	char word[64], first[64] = "", text[IDSET_TEXT];
	bool steered = false;
	idset_clear(&slow);
	machine_nodes(subject->root, &nodes, &with_memory);
	for (int node = idset_first(&nodes); node >= 0; node = idset_next(&nodes, node)) {
		struct idset cpus;
		machine_node_cpus(subject->root, (unsigned)node, &cpus);
		for (int cpu = idset_first(&cpus); cpu >= 0; cpu = idset_next(&cpus, cpu)) {
			steered |= frequency_word(subject->root, cpu, "scaling_governor", word, sizeof word);
			if (!is_slow(subject->root, cpu, word, sizeof word))
				continue;
			if (!idset_count(&slow))
				snprintf(first, sizeof first, "%s", word);
			idset_add(&slow, (unsigned)cpu);
		}
	}
	if (!steered) {
		doctor_found(f, "the kernel does not steer frequencies here");
	} else if (!idset_count(&slow)) {
		doctor_found(f, "performance");
	} else {
		doctor_found(f, "'%s' on CPUs %.80s: they take their time to become fast", first,
			     idset_format(&slow, text, sizeof text));
		doctor_remedy(f, DOCTOR_WRONG,
			      "cpupower frequency-set -g performance (or tuned-adm profile "
			      "throughput-performance)");
	}
}

const struct doctor_check doctor_cpu_checks[] = {{"numa_balancing", numa_balancing},
						 {"numa_calls", numa_calls},
						 {"cpuset", cpuset},
						 {"smt", smt},
						 {"governor", governor},
						 {NULL, NULL}};
