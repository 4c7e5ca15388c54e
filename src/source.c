#include "src/source.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

/* What is hashed of a file: its name follows. */
struct file_state {
	uint64_t role, device, inode, size_bytes;
	int64_t mtime_s, mtime_ns, ctime_s, ctime_ns;
};

static struct file_state state_of(const struct stat *st)
{
	return (struct file_state){
		.device = st->st_dev,
		.inode = st->st_ino,
		.size_bytes = (uint64_t)st->st_size,
		.mtime_s = st->st_mtim.tv_sec,
		.mtime_ns = st->st_mtim.tv_nsec,
		.ctime_s = st->st_ctim.tv_sec,
		.ctime_ns = st->st_ctim.tv_nsec,
	};
}

bool source_same(const struct stat *a, const struct stat *b)
{
	struct file_state before = state_of(a), after = state_of(b);
	return memcmp(&before, &after, sizeof before) == 0;
}

int source_begin(const char *path, struct segment_source *out)
{
	size_t n = strlen(path);
	if (n >= sizeof out->path)
		return -ENAMETOOLONG;
	memset(out, 0, sizeof *out);
	memcpy(out->path, path, n);
	return 0;
}

int source_add(struct segment_source *source, const char *name, uint32_t role, const struct stat *st)
{
	struct file_state state = state_of(st);
	state.role = role;
	if (!S_ISREG(st->st_mode))
		return -EINVAL;
	if (source->n_files == SEGMENT_FILES_MAX)
		return -E2BIG;
	source->files[source->n_files++] = XXH3_64bits_withSeed(name, strlen(name), XXH3_64bits(&state, sizeof state));
	source->size_bytes += state.size_bytes;
	return 0;
}
