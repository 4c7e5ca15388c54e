"""With io = uring the front's client connections see no system call but io_uring's."""
import re
import shutil
import signal

import pytest

FORBIDDEN = {"epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "recv", "recvfrom", "recvmsg", "recvmmsg",
             "send", "sendto", "sendmsg", "sendmmsg", "accept", "accept4", "read", "readv", "write", "writev"}


def test_no_socket_call_touches_a_client(start, tiny, tmp_path):
    assert shutil.which("strace"), "strace is part of packaging/setup"
    trace = tmp_path / "trace"
    # -yy names what a descriptor is: UNIX-STREAM sockets with the socket's path are clients or the listener.
    daemon = start({"tiny": tiny}, {"io": "uring"}, wrapper=["strace", "-f", "-yy", "-qq", "-o", str(trace)])
    for _ in range(5):
        daemon.http.post("/v1/completions", {"prompt": "a b c", "max_tokens": 4}).ok()
        list(daemon.http.stream("/v1/completions", {"prompt": "a b c", "max_tokens": 4}))
    front = daemon.status()["front"]["pid"]
    # strace forwards no signal; the daemon is its child.
    parent = daemon.status()["pid"]
    import os
    os.kill(parent, signal.SIGTERM)
    daemon.process.wait(45)
    calls = {}
    touched = []
    for line in trace.read_text(errors="replace").splitlines():
        match = re.match(r"(\d+)\s+(\w+)\((.*)", line)
        if not match or int(match[1]) != front:
            continue
        calls[match[2]] = calls.get(match[2], 0) + 1
        # Up to the first comma: the descriptor. The parent's packets (SEQPACKET) and stderr are not clients.
        if match[2] in FORBIDDEN and ("epoll" in match[2] or "weightd.sock" in match[3].split(",")[0] or "UNIX-STREAM" in match[3].split(",")[0]):
            touched.append(line)
    assert calls.get("io_uring_enter", 0) > 10, calls
    assert not touched, "\n".join(touched[:10])
