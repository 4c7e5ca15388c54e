#include "src/audio/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DESCRIPTORS = 64 /* more than it is ever started with */ };

static int set_limit(__rlimit_resource_t resource, const char *name, rlim_t value, rlim_t hard, struct err *err)
{
	struct rlimit old, limit = {value, hard};
	if (!getrlimit(resource, &old)) {
		limit.rlim_max = hard < old.rlim_max ? hard : old.rlim_max;
		limit.rlim_cur = value < limit.rlim_max ? value : limit.rlim_max;
	}
	return setrlimit(resource, &limit) ? err_set(err, -errno, "%s: %s", name, strerror(errno)) : 0;
}

/* Pages of addresses it has now: the first number of /proc/self/statm (proc(5)). */
static int own_pages(uint64_t *out, struct err *err)
{
	char text[64] = "";
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	int code = n < 0 ? errno : EINVAL;
	if (fd >= 0)
		close(fd);
	*out = n > 0 ? strtoull(text, NULL, 10) : 0;
	return *out ? 0 : err_set(err, -code, "/proc/self/statm: %s", strerror(code));
}

int sandbox_limit(uint64_t more_bytes, struct err *err)
{
	uint64_t pages;
	int rc = own_pages(&pages, err), highest = 0;
	if (rc)
		return rc;
	for (int fd = 0; fd < DESCRIPTORS; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			highest = fd;
	rlim_t bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE) + more_bytes, none = (rlim_t)highest + 1;
	rc = set_limit(RLIMIT_AS, "limit on addresses", bytes, bytes, err);
	if (!rc)
		rc = set_limit(RLIMIT_NOFILE, "limit on descriptors", none, none, err);
	return rc ? rc : set_limit(RLIMIT_CORE, "limit on core files", 0, 0, err);
}

int sandbox_limit_cpu(uint64_t seconds, struct err *err)
{
	struct rusage use;
	if (getrusage(RUSAGE_SELF, &use))
		return err_set(err, -errno, "getrusage: %s", strerror(errno));
	rlim_t used = (rlim_t)use.ru_utime.tv_sec + (rlim_t)use.ru_stime.tv_sec + 2;
	return set_limit(RLIMIT_CPU, "limit on CPU time", used + seconds, RLIM_INFINITY, err);
}

/* Calls whatever their arguments are. rt_sig*, tgkill, gettid and fstat are what abort(3), a sanitizer's report and
 * stdio use; restart_syscall is the kernel's own after a stop. */
static int allow_calls(scmp_filter_ctx filter)
{
	static const int calls[] = {
		SCMP_SYS(read),		  SCMP_SYS(write),	     SCMP_SYS(writev),	      SCMP_SYS(close),
		SCMP_SYS(poll),		  SCMP_SYS(ppoll),	     SCMP_SYS(lseek),	      SCMP_SYS(fstat),
		SCMP_SYS(munmap),	  SCMP_SYS(mremap),	     SCMP_SYS(madvise),	      SCMP_SYS(brk),
		SCMP_SYS(futex),	  SCMP_SYS(sched_yield),     SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday),
		SCMP_SYS(time),		  SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep),     SCMP_SYS(getrandom),
		SCMP_SYS(getrusage),	  SCMP_SYS(prlimit64),	     SCMP_SYS(setrlimit),     SCMP_SYS(getrlimit),
		SCMP_SYS(getpid),	  SCMP_SYS(gettid),	     SCMP_SYS(tgkill),	      SCMP_SYS(rt_sigaction),
		SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),    SCMP_SYS(sigaltstack),   SCMP_SYS(restart_syscall),
		SCMP_SYS(exit),		  SCMP_SYS(exit_group)};
	int rc = 0;
	for (size_t i = 0; i < sizeof calls / sizeof *calls && !rc; i++)
		rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
	return rc;
}

/* What no part of decoding tries by mistake. */
static int kill_calls(scmp_filter_ctx filter)
{
	static const int calls[] = {SCMP_SYS(socket),
				    SCMP_SYS(socketpair),
				    SCMP_SYS(connect),
				    SCMP_SYS(bind),
				    SCMP_SYS(listen),
				    SCMP_SYS(accept4),
				    SCMP_SYS(execve),
				    SCMP_SYS(execveat),
				    SCMP_SYS(fork),
				    SCMP_SYS(vfork),
				    SCMP_SYS(ptrace),
				    SCMP_SYS(process_vm_readv),
				    SCMP_SYS(process_vm_writev)};
	int rc = 0;
	for (size_t i = 0; i < sizeof calls / sizeof *calls && !rc; i++)
		rc = seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, calls[i], 0);
	return rc;
}

/* Memory that can be executed was made before; and messages go to the parent alone. */
static int allow_with_arguments(scmp_filter_ctx filter, int message_fd)
{
	/* Spelled out: libseccomp's macros leave members to be zero, which clang warns of. */
	const struct scmp_arg_cmp no_code = {.arg = 2, .op = SCMP_CMP_MASKED_EQ, .datum_a = PROT_EXEC, .datum_b = 0};
	const struct scmp_arg_cmp parent = {.arg = 0, .op = SCMP_CMP_EQ, .datum_a = (scmp_datum_t)message_fd};
	const struct {
		int call;
		struct scmp_arg_cmp argument;
	} rules[] = {{SCMP_SYS(mmap), no_code},
		     {SCMP_SYS(mprotect), no_code},
		     {SCMP_SYS(recvmsg), parent},
		     {SCMP_SYS(sendmsg), parent}};
	int rc = 0;
	for (size_t i = 0; i < sizeof rules / sizeof *rules && !rc; i++)
		rc = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, rules[i].call, 1, &rules[i].argument);
	return rc;
}

int sandbox_enter(int message_fd, struct err *err)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	if (!filter)
		return err_set(err, -ENOMEM, "no memory for a filter of system calls");
	int rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!rc)
		rc = allow_calls(filter);
	if (!rc)
		rc = kill_calls(filter);
	if (!rc)
		rc = allow_with_arguments(filter, message_fd);
	if (!rc)
		rc = seccomp_load(filter);
	seccomp_release(filter);
	return rc ? err_set(err, rc,
			    "system calls can't be filtered here (%s); audio_seccomp = no serves audio without that",
			    strerror(-rc))
		  : 0;
}
