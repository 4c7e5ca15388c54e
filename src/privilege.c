#include "src/privilege.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Becomes another user while it still may. */
static int become(uint64_t uid, uint64_t gid, struct err *err)
{
	if (geteuid() == 0 && setgroups(0, NULL))
		return err_set(err, -errno, "setgroups: %s", strerror(errno));
	if (gid != UINT64_MAX && setresgid((gid_t)gid, (gid_t)gid, (gid_t)gid))
		return err_set(err, -errno, "setresgid %llu: %s", (unsigned long long)gid, strerror(errno));
	if (uid != UINT64_MAX && setresuid((uid_t)uid, (uid_t)uid, (uid_t)uid))
		return err_set(err, -errno, "setresuid %llu: %s", (unsigned long long)uid, strerror(errno));
	return 0;
}

/* What no program executed from here may ever have again. Before the user changes, which takes the right to do it. */
static void empty_bounding_set(void)
{
	for (unsigned long c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; c++)
		prctl(PR_CAPBSET_DROP, c, 0, 0, 0); /* EPERM without CAP_SETPCAP: no_new_privs then has to do */
}

static int drop_capabilities(struct err *err)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
	struct __user_cap_data_struct none[2] = {{0}};
	if (syscall(SYS_capset, &header, none))
		return err_set(err, -errno, "capset: %s", strerror(errno));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return err_set(err, -errno, "no_new_privs: %s", strerror(errno));
	return 0;
}

int privilege_drop(uint64_t uid, uint64_t gid, struct err *err)
{
	pid_t parent = getppid();
	empty_bounding_set();
	int rc = become(uid, gid, err);
	if (rc)
		return rc;
	/* child_spawn has set it, and the change of user has cleared it again; a parent that died in between is seen by
	 * its number. Giving capabilities up does not clear it. (Linux, commit_creds) */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
		return err_set(err, -errno, "pdeathsig: %s", strerror(errno));
	if (getppid() != parent)
		return err_set(err, -ESRCH, "the parent died while this process started");
	return drop_capabilities(err);
}

int privilege_find_user(const char *name, uint64_t *uid, uint64_t *gid, struct err *err)
{
	errno = 0;
	const struct passwd *user = getpwnam(name);
	if (!user)
		return err_set(err, errno ? -errno : -ENOENT, "user '%s': %s", name,
			       errno ? strerror(errno) : "no such user");
	*uid = user->pw_uid;
	*gid = user->pw_gid;
	return 0;
}
