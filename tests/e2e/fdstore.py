"""systemd's side of the file descriptor store: keeps what a daemon sends with FDSTORE=1 and gives it to the next one."""

import array
import contextlib
import os
import socket
import sys
import threading
import time

# Moves the descriptors named in argv[1] to 3 and up, and becomes the rest of the command line.
PASS_ON = """
import fcntl, os, sys
high = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 100) for fd in sys.argv[1].split(",") if fd]
for number, fd in enumerate(high, 3):
    os.dup2(fd, number)
    os.close(fd)
if high:
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(high)), LISTEN_FDNAMES=sys.argv[2])
os.execv(sys.argv[3], sys.argv[3:])
"""


class Store:
    """Messages are read by a thread, as they come. `held` is a list of (name, descriptor)."""

    def __init__(self, directory, room=16):
        self.path = str(directory / "notify.sock")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.room = room
        self.held, self.messages = [], []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                data, ancillary, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(4 * 64))
            except OSError:
                return
            if data == b"end":
                return
            fds = array.array("i")
            for level, kind, payload in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    fds.frombytes(payload)
            message = dict(line.split("=", 1) for line in data.decode().splitlines())
            self.messages.append(message)
            self.obey(message, list(fds))

    def obey(self, message, fds):
        name = message.get("FDNAME", "stored")
        if message.get("FDSTOREREMOVE") == "1":
            self.drop(name)
        inodes = self.inodes()
        for fd in fds:
            is_new = os.fstat(fd).st_ino not in inodes
            if message.get("FDSTORE") == "1" and is_new and len(self.held) < self.room:
                self.held.append((name, fd))
            else:
                os.close(fd)

    def drop(self, name):
        for fd in [fd for held, fd in self.held if held == name]:
            os.close(fd)
        self.held = [(held, fd) for held, fd in self.held if held != name]

    def inodes(self):
        return [os.fstat(fd).st_ino for _, fd in self.held]

    def environment(self):
        return {"NOTIFY_SOCKET": self.path, "FDSTORE": str(self.room)}

    def start(self, start, models, settings, listener=None, **more):
        """start(models, ...) of a daemon that gets all that is held, and a listening socket before it."""
        fds = [listener.fileno()] if listener else []
        names = ["weightd.socket"] if listener else []  # as systemd names what a socket unit of that name passes
        fds += [fd for _, fd in self.held]
        names += [name for name, _ in self.held]
        wrapper = [sys.executable, "-c", PASS_ON, ",".join(map(str, fds)), ":".join(names)]
        return start(models, settings, wrapper=wrapper, environment=self.environment(), pass_fds=fds, **more)

    def wait_for(self, condition, what, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"{what} did not come about; held {self.held}, told {self.messages}"
            time.sleep(0.02)

    def close(self):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"end", self.path)
        self.socket.close()
        for _, fd in self.held:
            os.close(fd)
