"""systemd's side of sd_notify(3): a datagram socket that the daemon's messages arrive at."""

import array
import os
import socket
import time


class Notify:
    """Give `environment` to the daemon. Messages are dictionaries; descriptors that come along are kept in `fds`."""

    def __init__(self, directory, watchdog_s=None):
        self.path = str(directory / "notify.sock")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.environment = {"NOTIFY_SOCKET": self.path}
        if watchdog_s:
            self.environment["WATCHDOG_USEC"] = str(int(watchdog_s * 1e6))
        self.messages = []
        self.fds = []

    def read(self, seconds=0.0):
        """What arrives within this time, at least what is there already. Returns the new messages."""
        new, end = [], time.monotonic() + seconds
        while True:
            self.socket.settimeout(max(end - time.monotonic(), 0.001))
            try:
                data, ancillary, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(4 * 64))
            except (TimeoutError, BlockingIOError):
                self.messages += new
                return new
            fds = array.array("i")
            for level, kind, payload in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    fds.frombytes(payload[: len(payload) - len(payload) % 4])
            self.fds += list(fds)
            new.append(dict(line.split("=", 1) for line in data.decode().splitlines()))

    def wait_for(self, condition, what, seconds=30):
        """The first message, of those to come, for which the condition holds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for message in self.read(0.05):
                if condition(message):
                    return message
        raise AssertionError(f"systemd was not told of: {what}; told so far: {self.messages}")

    def close(self):
        self.socket.close()
        os.unlink(self.path)
        for fd in self.fds:
            os.close(fd)
