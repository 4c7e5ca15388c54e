/* System calls that this process may no longer make: how a container's seccomp profile looks from inside. */
#ifndef WEIGHTD_TESTS_UNIT_REFUSE_H
#define WEIGHTD_TESTS_UNIT_REFUSE_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static inline int refuse_by(struct sock_filter *filter, unsigned short n)
{
	struct sock_fprog program = {.len = n, .filter = filter};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
		return -errno;
	return 0;
}

/* From now on `call` fails with `error` in this process (Check runs every test in its own). 0 or -errno. */
static inline int refuse_call(unsigned call, unsigned error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	return refuse_by(filter, sizeof filter / sizeof filter[0]);
}

/* The same where argument number `argument` (from 0) has one of the bits `flags`: an older kernel, which does not know
 * them. Little endian. */
static inline int refuse_flags(unsigned call, unsigned argument, unsigned flags, unsigned error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, args) + 8 * argument),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, flags, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	return refuse_by(filter, sizeof filter / sizeof filter[0]);
}

#endif
