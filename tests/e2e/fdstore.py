"""systemd's side of the file descriptor store: keeps what a daemon sends with FDSTORE=1 and gives it to the next one.

It takes what systemd takes and no more (manager_dispatch_notify_fd and service_notify_message of systemd 252 to 257), and
notes in `refused` what it did not take and why. A daemon that is right sends nothing that is refused."""

import array
import contextlib
import ctypes
import os
import re
import socket
import struct
import sys
import threading
import time
from pathlib import Path

UNIT = Path(__file__).resolve().parents[2] / "packaging/systemd/weightd.service.in"
MESSAGE_MAX = 4096  # NOTIFY_BUFFER_MAX: longer ones are thrown away whole
FDS_MAX = 768  # NOTIFY_FD_MAX
NAME_MAX = 255  # FDNAME_MAX
SYS_KCMP, KCMP_FILE = 312, 0  # x86-64
LIBC = ctypes.CDLL(None)

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


def name_is_valid(name):
    """ASCII that is not a control character, no separator of $LISTEN_FDNAMES (fdname_is_valid)."""
    return len(name) <= NAME_MAX and all(" " <= c < "\x7f" and c != ":" for c in name)


def same_open_file(a, b):
    """What systemd calls the same descriptor: not two openings of one file."""
    return LIBC.syscall(SYS_KCMP, os.getpid(), os.getpid(), KCMP_FILE, a, b) == 0


def store_max(unit):
    """FileDescriptorStoreMax= of a unit's text. Without it systemd keeps nothing."""
    found = re.findall(r"^FileDescriptorStoreMax=(\d+)$", unit, re.MULTILINE)
    return int(found[-1]) if found else 0


class Store:
    """Messages are read by a thread, as they come. `held` is a list of (name, descriptor)."""

    def __init__(self, directory, room=None):
        self.path = str(directory / "notify.sock")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind(self.path)
        self.room = store_max(UNIT.read_text()) if room is None else room
        self.held, self.messages, self.refused = [], [], []
        self.main, self.main_known = None, threading.Event()  # the service's main process
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        control = socket.CMSG_SPACE(4 * (FDS_MAX + 1)) + socket.CMSG_SPACE(12)
        while True:
            try:
                data, ancillary, flags, _ = self.socket.recvmsg(MESSAGE_MAX, control)
            except OSError:
                return
            if data == b"end":
                return
            self.main_known.wait()
            fds, sender = array.array("i"), None
            for level, kind, payload in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
                elif (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                    sender = struct.unpack("iII", payload)[0]
            why = self.unheard(data, flags, sender)
            if why:
                self.refuse(data, why, fds)
                continue
            message = dict(line.partition("=")[::2] for line in data.decode("latin-1").split("\n") if line)
            self.messages.append(message)
            self.obey(message, list(fds))

    def unheard(self, data, flags, sender):
        """Why a message is thrown away before anybody looks into it; None: it isn't."""
        if flags & socket.MSG_TRUNC:
            return f"it is longer than {MESSAGE_MAX} bytes"
        if flags & socket.MSG_CTRUNC:
            return f"it comes with more than {FDS_MAX} descriptors"
        if b"\0" in data[:-1]:
            return "a NUL byte is in it"
        if sender != self.main:
            return f"process {sender} sent it, and NotifyAccess=main lets only {self.main} do so"
        return None

    def refuse(self, message, why, fds=()):
        self.refused.append((message, why))
        for fd in fds:
            os.close(fd)

    def obey(self, message, fds):
        name = message.get("FDNAME")
        if message.get("FDSTOREREMOVE") == "1":
            if name is None or not name_is_valid(name):
                self.refuse(message, "FDSTOREREMOVE=1 needs a valid FDNAME=", fds)
            else:
                self.drop(name)
                for fd in fds:
                    os.close(fd)
        elif message.get("FDSTORE") == "1":
            if name is not None and not name_is_valid(name):
                self.refuse(message, "its FDNAME= is invalid, so that it is called 'stored'")
                name = None
            if not fds:
                self.refuse(message, "FDSTORE=1 without a descriptor")
            for fd in fds:
                self.keep(message, name or "stored", fd)
        else:
            for fd in fds:
                os.close(fd)

    def keep(self, message, name, fd):
        if not self.room:
            self.refuse(message, "the unit has no FileDescriptorStoreMax=", [fd])
        elif len(self.held) >= self.room:
            self.refuse(message, f"FileDescriptorStoreMax={self.room} are held already", [fd])
        elif any(same_open_file(fd, kept) for _, kept in self.held):
            self.refuse(message, "the store has this descriptor already", [fd])
        else:
            self.held.append((name, fd))

    def drop(self, name):
        for fd in [fd for held, fd in self.held if held == name]:
            os.close(fd)
        self.held = [(held, fd) for held, fd in self.held if held != name]

    def inodes(self):
        return [os.fstat(fd).st_ino for _, fd in self.held]

    def environment(self):
        """As systemd 254 and later make it."""
        return {"NOTIFY_SOCKET": self.path, **({"FDSTORE": str(self.room)} if self.room else {})}

    def hear(self, pid):
        """This is the main process from now on; nobody is heard before there is one."""
        self.main = pid
        self.main_known.set()

    def start(self, start, models, settings, listener=None, **more):
        """start(models, ...) of a daemon that gets all that is held, and a listening socket before it."""
        fds = [listener.fileno()] if listener else []
        names = ["weightd.socket"] if listener else []  # as systemd names what a socket unit of that name passes
        fds += [fd for _, fd in self.held]
        names += [name for name, _ in self.held]
        wrapper = [sys.executable, "-c", PASS_ON, ",".join(map(str, fds)), ":".join(names)]
        self.main_known.clear()
        daemon = start(models, settings, wrapper=wrapper, environment=self.environment(), pass_fds=fds, **more)
        self.hear(daemon.process.pid)
        return daemon

    def wait_for(self, condition, what, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, (
                f"{what} did not come about; held {self.held}, told {self.messages}, refused {self.refused}"
            )
            time.sleep(0.02)

    def close(self):
        self.main_known.set()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"end", self.path)
        self.socket.close()
        for _, fd in self.held:
            os.close(fd)
