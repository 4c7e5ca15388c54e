/* Reads a file once, front to back, with O_DIRECT and several reads in flight (io_uring; IO_EPOLL: plain preadv), into
 * a ring of aligned buffers. Every byte is read at most once; what the caller leaves of a chunk is handed out next
 * time. */
#ifndef WEIGHTD_IO_READER_H
#define WEIGHTD_IO_READER_H

#include <stddef.h>
#include <stdint.h>

#include "io/loop.h"

struct reader;

enum { READER_BLOCK_BYTES = 4096 }; /* satisfies every device's rule for O_DIRECT */

/* Reads from an offset, a multiple of READER_BLOCK_BYTES, to the file's end. `fd` is borrowed. O_DIRECT is switched on
 * with fcntl where the file system allows it, else plain reads with the pages dropped behind (POSIX_FADV_DONTNEED).
 * `size_bytes` is the file's size when it was checked; a file that turns out shorter gives -EIO. Returns owned. */
int reader_open(int fd, uint64_t offset, uint64_t size_bytes, enum io_backend backend, struct reader **out,
		struct err *err);
void reader_close(struct reader *reader);

uint64_t reader_offset(const struct reader *reader); /* of the next byte */
uint64_t reader_size(const struct reader *reader);
/* Bytes asked of the kernel so far; at the end this is all from the first offset on (last block rounded up by O_DIRECT
 * not counted).
 */
uint64_t reader_bytes_read(const struct reader *reader);

/* The next n_bytes contiguous (n_bytes at most 16 MiB): *out is a view, valid until the next call. -EIO with the
 * offset. */
int reader_take(struct reader *reader, size_t n_bytes, const void **out, struct err *err);
int reader_skip(struct reader *reader, uint64_t n_bytes, struct err *err);

#endif
