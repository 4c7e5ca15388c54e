"""The model's files leave no second copy of the weights in the page cache: not what was read, not what whoever wrote them
left there; what other programs map is theirs, and told."""

import ctypes
import mmap
import os
import re
import subprocess
import sys

import adapters
import pytest
import weightd

MIB = 1 << 20
TINY = [sys.executable, weightd.TOP / "tests/tools/tiny_gguf.py"]
POPULATE_READ = 22  # madvise, Linux 5.14


def in_memory(path):
    """Bytes of the file that mincore(2) says are there: everything, to who neither owns nor may write it."""
    size = ctypes.c_size_t(os.stat(path).st_size)
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    with open(path, "rb") as file:
        base = ctypes.c_void_p(libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), ctypes.c_long(0)))
    resident = (ctypes.c_ubyte * -(-size.value // mmap.PAGESIZE))()
    assert libc.mincore(base, size, resident) == 0
    libc.munmap(base, size)
    return sum(page & 1 for page in resident) * mmap.PAGESIZE


@pytest.fixture
def fresh(tmp_path):
    """A model's file whose pages are all in memory, and as good as all not on disk yet."""
    source = tmp_path / "source.gguf"
    subprocess.run([*TINY, "--pad-mib", "24", source], check=True)
    path = tmp_path / "model.gguf"
    path.write_bytes(source.read_bytes())
    if subprocess.check_output(["stat", "-f", "-c", "%T", tmp_path], text=True).strip() in ("tmpfs", "ramfs"):
        pytest.skip(f"{tmp_path} is in memory itself")
    assert in_memory(path) >= 24 * MIB
    return path


def load_of(daemon):
    return daemon.status()["models"][0]["load"]


@pytest.mark.parametrize("way", ["uring", "epoll", "without cachestat"])
def test_a_file_written_just_before_is_not_left_in_memory(start, fresh, way):
    wrapper = weightd.refusing("ENOSYS", "cachestat") if way == "without cachestat" else ()
    daemon = start({"tiny": fresh}, {"io": way if not wrapper else "auto"}, wrapper=wrapper)
    assert in_memory(fresh) == 0
    assert load_of(daemon)["cached_bytes"] == 0
    assert "page cache" not in daemon.log()


def test_an_adapters_file_is_not_left_in_memory(start, tiny, tmp_path):
    path = adapters.write(tmp_path / "adapter.gguf", tiny, 1)
    assert in_memory(path) > 0
    start({"tiny": tiny}, adapters={"a": {"path": path}}).wait_all_ready()
    assert in_memory(path) == 0


def test_pages_that_others_map_stay_and_are_told(start, fresh):
    with open(fresh, "rb") as file, mmap.mmap(file.fileno(), 8 * MIB, mmap.MAP_SHARED, mmap.PROT_READ) as others:
        others.madvise(POPULATE_READ)
        daemon = start({"tiny": fresh})
        left = in_memory(fresh)
        assert 8 * MIB <= left < 16 * MIB, "theirs, and the kernel's granules around it"
        assert load_of(daemon)["cached_bytes"] == left
        assert re.search(rf"{left / MIB:.1f} MiB of its files stay in the page cache", daemon.log())
        assert others[:4] == b"GGUF"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_what_the_kernel_does_not_tell_is_not_told(start, fresh):
    """Only the owner, and who may write a file, hear of its pages; the loader has no capability to be more."""
    os.chown(fresh, 65534, 65534)
    fresh.chmod(0o444)
    daemon = start({"tiny": fresh}, wrapper=weightd.refusing("ENOSYS", "cachestat"))
    assert "cached_bytes" not in load_of(daemon)
    assert in_memory(fresh) == 0
