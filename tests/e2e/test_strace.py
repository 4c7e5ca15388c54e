"""With io = uring a client's connection sees no system call of the front but io_uring's."""

import os
import re
import shutil
import signal

FORBIDDEN = {
    "recv",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "send",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "accept",
    "accept4",
    "read",
    "readv",
    "write",
    "writev",
    "poll",
    "ppoll",
    "select",
    "pselect6",
}


def front_calls(daemon, trace):
    """Serves a few requests, stops the daemon, and returns the front's calls by name and those that touched clients."""
    for _ in range(5):
        daemon.http.post("/v1/completions", {"prompt": "a b c", "max_tokens": 4}).ok()
        assert list(daemon.http.stream("/v1/completions", {"prompt": "a b c", "max_tokens": 4}))
    status = daemon.status()
    os.kill(status["pid"], signal.SIGTERM)  # strace itself passes no signal on
    daemon.process.wait(45)
    calls, touched = {}, []
    for line in trace.read_text(errors="replace").splitlines():
        match = re.match(r"(\d+)\s+(\w+)\((.*)", line)
        if not match or int(match[1]) != status["front"]["pid"]:
            continue
        name, arguments = match[2], match[3]
        calls[name] = calls.get(name, 0) + 1
        # strace -yy says what a descriptor is. Clients are UNIX-STREAM; the parent's packets are UNIX-SEQPACKET.
        if name.startswith("epoll") or (name in FORBIDDEN and re.match(r"\[?\{?(fd=)?\d+<UNIX-STREAM", arguments)):
            touched.append(line)
    return calls, touched


def begin(start, tiny, trace, io):
    assert shutil.which("strace"), "strace is part of packaging/setup"
    return start({"tiny": tiny}, {"io": io}, wrapper=["strace", "-f", "-yy", "-qq", "-o", str(trace)])


def test_no_socket_call_touches_a_client(start, tiny, tmp_path):
    calls, touched = front_calls(begin(start, tiny, tmp_path / "trace", "uring"), tmp_path / "trace")
    assert calls.get("io_uring_enter", 0) > 10, calls
    assert not touched, "\n".join(touched[:10])


def test_the_same_look_finds_them_with_epoll(start, tiny, tmp_path):
    """So that the test above cannot pass by seeing nothing."""
    calls, touched = front_calls(begin(start, tiny, tmp_path / "trace", "epoll"), tmp_path / "trace")
    assert "io_uring_enter" not in calls
    kinds = {re.match(r"\d+\s+(\w+)", line)[1] for line in touched}
    assert {"epoll_wait", "epoll_pwait", "epoll_pwait2"} & kinds
    assert {"recvfrom", "recvmsg", "read"} & kinds and {"sendto", "sendmsg", "write"} & kinds, kinds
