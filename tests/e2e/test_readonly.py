"""The weights are read-only by contract, and the contract holds against this very user: each attempt gets an errno or
kills only who made it; the digest stays. (The owner of a POSIX object could chmod it first; backing = memfd excludes it.)
"""

import ctypes
import errno
import faulthandler
import mmap
import os
import signal

import pytest

PROT_READ, PROT_WRITE, MAP_SHARED = 1, 2, 1


def drop_capabilities():
    """The same user, but with nothing that overrides permissions: capset(2) with empty sets."""
    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).syscall(126, header, nothing) != 0:
        os._exit(4)


def child(attempt):
    """Runs attempt() in a child without capabilities; its wait status: exit 0 for 'refused', 1 for 'got through'."""
    pid = os.fork()
    if pid == 0:
        try:
            faulthandler.disable()  # a crash is what one of them is for
            drop_capabilities()
            os._exit(1 if attempt() else 0)
        except OSError:
            os._exit(0)
        finally:
            os._exit(3)
    return os.waitpid(pid, 0)[1]


@pytest.fixture
def weights(start, tiny):
    daemon = start({"tiny": tiny})
    return daemon, "/dev/shm" + daemon.status()["models"][0]["copies"][0]["segment"]


def digest(daemon):
    return daemon.status()["models"][0]["digest"]


def test_the_object_is_published_read_only(weights):
    _, path = weights
    assert os.stat(path).st_mode & 0o777 == 0o440
    assert os.stat(path).st_nlink == 1


def test_writes_are_refused_and_the_digest_stays(weights):
    daemon, path = weights
    before, content = digest(daemon), open(path, "rb").read()
    fd = os.open(path, os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    base = libc.mmap(None, 4096, PROT_READ, MAP_SHARED, fd, 0)

    def store():
        ctypes.memset(base, 1, 1)
        return True

    def protect():
        return libc.mprotect(ctypes.c_void_p(base), 4096, PROT_READ | PROT_WRITE) == 0

    def positioned_write():
        return os.pwrite(fd, b"x", 0)

    def truncate():
        os.ftruncate(fd, 0)
        return True

    def reopen_by_name():
        return os.open(path, os.O_RDWR)

    def reopen_by_descriptor():
        return os.open(f"/proc/self/fd/{fd}", os.O_RDWR)

    def map_writable():
        return libc.mmap(None, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) not in (None, ctypes.c_void_p(-1).value)

    status = child(store)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV
    for attempt in (protect, positioned_write, truncate, reopen_by_name, reopen_by_descriptor, map_writable):
        status = child(attempt)
        assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0, attempt.__name__
    os.close(fd)
    assert open(path, "rb").read() == content
    assert digest(daemon) == before
    daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 2}).ok()
    assert daemon.status()["workers"][0]["restarts"] == 0


def test_a_sealed_memfd_cannot_be_opened_for_writing_even_by_root(start, tiny):
    daemon = start({"tiny": tiny}, {"backing": "memfd"})
    assert not daemon.segments()
    worker = daemon.worker_pids()[0]
    found = 0
    for name in os.listdir(f"/proc/{worker}/map_files"):
        path = f"/proc/{worker}/map_files/{name}"
        if f"/memfd:weightd.{daemon.instance}.tiny." not in os.readlink(path):
            continue
        found += 1
        try:
            fd = os.open(path, os.O_RDWR)
        except OSError:
            continue
        for attempt in (
            lambda: os.pwrite(fd, b"x", 0),
            lambda: os.ftruncate(fd, 0),
            lambda: mmap.mmap(fd, 4096, mmap.MAP_SHARED, PROT_READ | PROT_WRITE),
        ):
            with pytest.raises(OSError) as refused:
                attempt()
            assert refused.value.errno in (errno.EPERM, errno.EBADF, errno.EACCES)
        os.close(fd)
    assert found
    daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 2}).ok()
