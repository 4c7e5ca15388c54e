"""Who opens or reads a file: inotify(7) through ctypes."""

import ctypes
import os
import struct

ACCESS, OPEN = 0x1, 0x20
OVERFLOW = 0x4000
libc = ctypes.CDLL(None, use_errno=True)


class Watch:
    """`with Watch(path) as watch: ...; assert not watch.seen()`. Every open(2) and read(2) of the file shows, whoever does
    it, from entering on."""

    def __init__(self, path):
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0 or libc.inotify_add_watch(self.fd, os.fsencode(path), ACCESS | OPEN) < 0:
            raise OSError(ctypes.get_errno(), f"inotify on {path}")

    def seen(self):
        """What has happened since the last call: a set of "open" and "read"."""
        found = set()
        while True:
            try:
                events = os.read(self.fd, 65536)
            except BlockingIOError:
                return found
            while events:
                _, mask, _, n_name = struct.unpack_from("iIII", events)
                events = events[16 + n_name :]
                found |= {"open"} if mask & OPEN else set()
                found |= {"read"} if mask & ACCESS else set()
                assert not mask & OVERFLOW, "more happened than inotify could note"

    def __enter__(self):
        with open(f"/proc/self/fdinfo/{self.fd}", encoding="ascii") as info:
            assert "inotify wd:" in info.read()
        return self

    def __exit__(self, *_):
        os.close(self.fd)
