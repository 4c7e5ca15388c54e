#include "src/pulse.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/memfd.h"

enum { PULSE_BYTES = 4096 };
static_assert(sizeof(struct pulse) <= PULSE_BYTES, "a pulse is one page");

static int map(int fd, struct pulse **out, struct err *err)
{
	void *page = mmap(NULL, PULSE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return err_set(err, -errno, "mapping the pulse: %s", strerror(errno));
	*out = page;
	return 0;
}

int pulse_create(int *fd, struct pulse **out, struct err *err)
{
	int made = memfd_open_new("weightd-pulse", err);
	if (made < 0)
		return made;
	int rc = memfd_allocate(made, PULSE_BYTES, err);
	if (!rc && fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		rc = err_set(err, -errno, "making the pulse: %s", strerror(errno));
	if (!rc)
		rc = map(made, out, err);
	if (rc)
		close(made);
	else
		*fd = made;
	return rc;
}

int pulse_attach(int fd, struct pulse **out, struct err *err)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) || st.st_size != PULSE_BYTES)
		return err_set(err, -EINVAL, "the descriptor is no pulse");
	return map(fd, out, err);
}

void pulse_detach(struct pulse *pulse)
{
	if (pulse)
		munmap(pulse, PULSE_BYTES);
}

void pulse_beat(struct pulse *pulse)
{
	__atomic_store_n(&pulse->turns, pulse->turns + 1, __ATOMIC_RELAXED);
}

void pulse_answer(struct pulse *pulse)
{
	__atomic_store_n(&pulse->answered, pulse->answered + 1, __ATOMIC_RELAXED);
}

uint64_t pulse_turns(const struct pulse *pulse)
{
	return __atomic_load_n(&pulse->turns, __ATOMIC_RELAXED);
}

uint64_t pulse_answered(const struct pulse *pulse)
{
	return __atomic_load_n(&pulse->answered, __ATOMIC_RELAXED);
}
