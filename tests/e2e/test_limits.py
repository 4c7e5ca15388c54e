"""The daemon under many clients and bad conditions: what is bounded stays bounded, and nobody pays for another's manners."""

import contextlib
import errno
import json
import os
import re
import resource
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

import weightd

CROWD = 5000


@pytest.fixture
def descriptors():
    """Enough of them for a crowd in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CROWD + 1000
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(wanted, before[0]), max(wanted, before[1])))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def connect():
    """connect(daemon, bytes) gives a socket that has sent these; all are closed after the test."""
    with contextlib.ExitStack() as stack:

        def begin(daemon, sent=b"", path=None):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(str(path or daemon.socket))  # without a time limit, which a full queue refuses at once
            client.settimeout(60)
            client.sendall(sent)
            return client

        yield begin


def metric(daemon, name):
    """The sum of a metric over its labels."""
    text = daemon.http.get("/metrics").body.decode()
    values = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.M)
    assert values, f"no metric {name}"
    return sum(float(value) for value in values)


def labelled(daemon, line):
    """The value of a metric with these very labels."""
    text = daemon.http.get("/metrics").body.decode()
    return float(re.search(rf"^{re.escape(line)} (\S+)$", text, re.M)[1])


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def request_bytes(target, body=None):
    head = f"{'POST' if body else 'GET'} {target} HTTP/1.1\r\nHost: x\r\n"
    data = json.dumps(body).encode() if body else b""
    return (head + f"Content-Length: {len(data)}\r\n\r\n").encode() + data if body else (head + "\r\n").encode()


def read_answer(client):
    """One answer with a Content-Length: (status, body)."""
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = client.recv(65536)
        assert chunk, f"the connection ended: {received!r}"
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
    while len(body) < length:
        body += client.recv(65536)
    return int(head.split()[1]), body


def long_call(tokens, **more):
    """A completion that certainly makes so many tokens."""
    return {"prompt": "Once upon a time", "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **more}


# --- slow and idle clients


@pytest.mark.parametrize("io", ["uring", "epoll"])
def test_thousands_of_slow_clients_cost_little_and_stop_nobody(start, tiny, descriptors, connect, io):
    daemon = start({"tiny": tiny}, {"io": io, "max_connections": CROWD + 100, "request_seconds": 20})
    pid = daemon.status()["front"]["pid"]
    before = weightd.smaps_rollup(pid)["Rss"]
    clients = [connect(daemon) for _ in range(CROWD)]
    daemon.wait_for(lambda: metric(daemon, "weightd_connections") >= CROWD, "full of clients")
    silent = (weightd.smaps_rollup(pid)["Rss"] - before) / CROWD
    for sent in (b"POST /tokenize HT", b"TP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n", b"{", b' "content'):
        for client in clients:
            client.sendall(sent)
        answer = daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 2})  # whoever comes is answered
        assert answer.ok()["usage"]["completion_tokens"] <= 2
    dribbling = (weightd.smaps_rollup(pid)["Rss"] - before) / CROWD
    print(f"{io}: {silent:.0f} bytes for a silent connection, {dribbling:.0f} for one in the middle of a request")
    assert silent < 4096
    assert dribbling < 8192
    for client in clients:
        status, _ = read_answer(client)
        assert status == 408
        assert client.recv(1) == b""
    daemon.wait_for(lambda: metric(daemon, "weightd_connections") == 1, "rid of them")
    assert labelled(daemon, 'weightd_connections_ended_total{reason="slow_request"}') == CROWD
    left = (weightd.smaps_rollup(pid)["Rss"] - before) / CROWD
    assert left < 512, f"{left:.0f} bytes of every connection are still there"


def test_idle_clients_make_room_and_slow_ones_run_out_of_time(start, tiny, connect):
    daemon = start({"tiny": tiny}, {"max_connections": 20, "idle_seconds": 3600, "request_seconds": 3})
    idle = [connect(daemon, request_bytes("/v1/models")) for _ in range(20)]
    for client in idle:
        assert read_answer(client)[0] == 200
    assert daemon.http.get("/health").status == 200  # the longest idle has gone for it
    assert idle[0].recv(1) == b""
    assert labelled(daemon, 'weightd_connections_ended_total{reason="made_room"}') >= 1
    for client in idle:
        client.close()
    slow = [connect(daemon, b"GET /health HTTP") for _ in range(20)]
    begin = time.monotonic()
    assert daemon.http.get("/health").status == 200  # now it has waited for their time to be up
    assert time.monotonic() - begin > 1
    for client in slow:
        assert b"408" in client.recv(1000)


def test_an_idle_client_is_let_go_after_its_time(start, tiny, connect):
    daemon = start({"tiny": tiny}, {"idle_seconds": 1})
    client = connect(daemon, request_bytes("/v1/models"))
    assert read_answer(client)[0] == 200
    assert client.recv(1) == b""
    assert labelled(daemon, 'weightd_connections_ended_total{reason="idle"}') == 1


def test_a_client_that_does_not_read_is_cut_off_alone(start, model, connect):
    daemon = start({"m": model}, {"client_buffer_bytes": "64K"})
    alone = daemon.http.post("/v1/completions", long_call(60)).ok()["choices"][0]["text"]
    slow = connect(daemon, request_bytes("/v1/completions", long_call(1500, stream=True, logprobs=20)))
    daemon.wait_for(lambda: metric(daemon, "weightd_calls_running") == 1, "generating")
    texts = [daemon.http.post("/v1/completions", long_call(60)).ok()["choices"][0]["text"] for _ in range(2)]
    assert texts == [alone, alone]
    daemon.wait_for(lambda: metric(daemon, "weightd_calls_cancelled_total") == 1, "rid of the slow reader")
    assert labelled(daemon, 'weightd_connections_ended_total{reason="slow_reader"}') == 1
    daemon.wait_for(lambda: metric(daemon, "weightd_calls_in_flight") == 0, "idle")
    assert metric(daemon, "weightd_generated_tokens_total") < 1500
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := slow.recv(65536):
            received += chunk
    assert b"data: " in received and b"[DONE]" not in received


def token_rate(daemon):
    """Tokens a second of a stream, from its first to its last."""
    times = [
        time.monotonic()
        for event in daemon.http.stream("/v1/completions", long_call(40))
        if event["choices"] and event["choices"][0]["text"]
    ]
    return (len(times) - 1) / (times[-1] - times[0])


def test_others_are_as_fast_beside_a_client_that_does_not_read(start, model, connect):
    """As beside one that reads: both are in the same batch. The better of two measurements, as others use the machine."""
    daemon = start({"m": model}, {"client_buffer_bytes": "1G"})
    best = {"reads": 0, "does not read": 0}
    for manners in 2 * list(best):
        steps = metric(daemon, "weightd_steps_total")
        client = connect(daemon, request_bytes("/v1/completions", long_call(2000, stream=True, logprobs=10)))
        if manners == "reads":
            threading.Thread(target=lambda: [None for _ in iter(lambda: client.recv(65536), b"")], daemon=True).start()
        # Events of more than a kilobyte: by then a socket that nobody reads is full.
        daemon.wait_for(lambda: metric(daemon, "weightd_steps_total") > steps + 250, "ahead of its client", 120)
        best[manners] = max(best[manners], token_rate(daemon))
        client.shutdown(socket.SHUT_RDWR)
        daemon.wait_for(lambda: metric(daemon, "weightd_calls_in_flight") == 0, "idle")
    print(f"tokens a second of another: {best}")
    assert best["does not read"] > best["reads"] / 4  # a front that waits for it would give none at all


# --- the queue


def test_the_queue_is_bounded_and_a_client_that_leaves_frees_its_place(start, model, connect):
    daemon = start({"m": model}, {"max_running": 1, "max_queue": 3})
    alone = daemon.http.post("/v1/completions", long_call(20)).ok()["choices"][0]["text"]
    running = connect(daemon, request_bytes("/v1/completions", long_call(1500)))
    daemon.wait_for(lambda: metric(daemon, "weightd_calls_running") == 1, "generating")
    leaving = connect(daemon, request_bytes("/v1/completions", long_call(20)))
    staying = connect(daemon, request_bytes("/v1/completions", long_call(20)))
    daemon.wait_for(lambda: metric(daemon, "weightd_calls_in_flight") == 3, "full")
    refused = daemon.http.post("/v1/completions", long_call(1))
    assert refused.error(429)["code"] == "queue_full"
    assert int(refused.headers["Retry-After"]) >= 1
    leaving.close()
    daemon.wait_for(lambda: metric(daemon, "weightd_calls_in_flight") == 2, "rid of it")
    assert metric(daemon, "weightd_calls_running") == 1  # the place was free before the one that runs had ended
    late = connect(daemon, request_bytes("/v1/completions", long_call(20)))
    daemon.wait_for(lambda: metric(daemon, "weightd_calls_in_flight") == 3, "full again")
    running.close()
    for client in (staying, late):
        status, body = read_answer(client)
        assert (status, json.loads(body)["choices"][0]["text"]) == (200, alone)
    assert metric(daemon, "weightd_queue_full_total") == 1


def test_chats_that_begin_alike_go_to_one_worker(start, tiny):
    daemon = start({"tiny": tiny}, {"workers_per_node": 3, "threads": 1, "prefix_cache_bytes": "64M"})
    daemon.wait_for(lambda: metric(daemon, "weightd_worker_ready") == 3, "served by all workers")
    homes = {}
    for turn in range(3):
        for tenant in range(4):
            before = {i: labelled(daemon, f'weightd_calls_total{{worker="{i}",node="0",model="tiny"}}') for i in range(3)}
            rules = f"You serve tenant {tenant}. " + "Be brief and do not invent anything. " * 12
            messages = [{"role": "system", "content": rules}, {"role": "user", "content": f"question {turn}"}]
            daemon.http.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1}).ok()
            served = [i for i in range(3)
                      if labelled(daemon, f'weightd_calls_total{{worker="{i}",node="0",model="tiny"}}') > before[i]]
            assert len(served) == 1
            homes.setdefault(tenant, set()).add(served[0])
    assert all(len(workers) == 1 for workers in homes.values()), homes


# --- descriptors


def is_replaced(daemon, old):
    worker = daemon.status()["workers"][0]
    return worker["state"] == "ready" and worker["pid"] != old


@pytest.mark.parametrize("io", ["uring", "epoll"])
def test_with_few_descriptors_clients_wait_and_everything_else_goes_on(start, tiny, connect, io):
    daemon = start({"tiny": tiny}, {"io": io}, wrapper=("prlimit", "--nofile=64:64"))
    places = int(re.search(r"only (\d+) connections at a time instead of 1024", daemon.log())[1])
    assert 20 <= places < 64
    front = daemon.status()["front"]["pid"]
    clients = [connect(daemon, b"GET /v1/models HTTP/1.1\r\n") for _ in range(2 * places)]
    before = cpu_seconds(front)
    time.sleep(1)
    assert cpu_seconds(front) - before < 0.5, "it spins"
    old = daemon.worker_pids()[0]
    os.kill(old, signal.SIGKILL)  # its successor's channel finds its descriptors
    daemon.wait_for(lambda: is_replaced(daemon, old), "served by a new worker")
    for client in clients:
        client.sendall(b"Host: x\r\n\r\n")
        assert read_answer(client)[0] == 200
        client.close()  # and the next one that waits comes in
    assert daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 1}).status == 200
    assert daemon.status()["front"]["pid"] == front


def test_without_descriptors_for_its_control_socket_the_parent_rests(start, tiny, connect):
    daemon = start({"tiny": tiny}, wrapper=("prlimit", "--nofile=32:32"))
    waiting = [connect(daemon, path=daemon.control) for _ in range(24)]
    before = cpu_seconds(daemon.process.pid)
    time.sleep(1)
    assert cpu_seconds(daemon.process.pid) - before < 0.5, "it spins"
    for client in waiting:
        client.close()
    assert daemon.status()["state"] == "ready"
    assert daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 1}).status == 200


# --- io_uring


def refusing(error):
    return weightd.refusing(error, "io_uring_setup")


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS", "ENOMEM"])
def test_where_io_uring_is_refused_auto_takes_epoll_and_says_so(start, tiny, error):
    daemon = start({"tiny": tiny}, wrapper=refusing(error))
    assert daemon.status()["io"] == "epoll"
    why = os.strerror(getattr(errno, error))
    assert re.search(rf"front: io_uring: .*{why}.*; epoll is used instead", daemon.log())
    assert daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 2}).status == 200


def test_where_io_uring_is_refused_uring_does_not_start(start, tiny):
    daemon = start({"tiny": tiny}, {"io": "uring"}, wrapper=refusing("EPERM"), ready=False)
    assert daemon.process.wait(30) == 1
    assert re.search(r"io_uring: setup failed: Operation not permitted", daemon.log())
    daemon.clean()


def test_io_uring_switched_off_by_the_administrator(start, tiny):
    switch = Path("/proc/sys/kernel/io_uring_disabled")
    try:
        before = switch.read_text()
        switch.write_text(before)
    except OSError as refusal:
        pytest.skip(f"{switch} may not be written: {refusal}")
    try:
        switch.write_text("2")
        daemon = start({"tiny": tiny})
    finally:
        switch.write_text(before)
    assert daemon.status()["io"] == "epoll"
    assert "/proc/sys/kernel/io_uring_disabled" in daemon.log()
    assert daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 2}).status == 200


# --- hostile neighbours


def channel_of(pid):
    """The shared memory between the front and this worker, opened from outside."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if "weightd-channel" in os.readlink(entry):
                return os.open(entry, os.O_RDWR)
    raise AssertionError(f"process {pid} has no channel")


@pytest.mark.parametrize("seed", range(3))
def test_a_worker_that_writes_garbage_is_replaced(start, model, connect, seed):
    import random

    chance = random.Random(seed)
    daemon = start({"m": model})
    front = daemon.status()["front"]["pid"]
    old = daemon.worker_pids()[0]
    stream = connect(daemon, request_bytes("/v1/completions", long_call(1900, stream=True)))
    daemon.wait_for(lambda: metric(daemon, "weightd_calls_running") == 1, "generating")
    assert stream.recv(100)
    memory = channel_of(old)
    size = os.fstat(memory).st_size
    try:
        while daemon.status()["workers"][0]["pid"] == old:  # the words of both rings, the counters, records anywhere
            for _ in range(50):
                offset = chance.choice([chance.randrange(64, 4096), chance.randrange(4096, size)])
                os.pwrite(memory, chance.randbytes(min(chance.choice([4, 16, 4096]), size - offset)), offset)
    finally:
        os.close(memory)
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := stream.recv(65536):
            received += chunk
    assert b"[DONE]" not in received and b'data: {"error"' in received, received[-500:]
    daemon.wait_for(lambda: daemon.health()[0] == 200, "served again")
    assert daemon.status()["front"]["pid"] == front
    assert daemon.http.post("/v1/completions", long_call(3)).ok()["usage"]["completion_tokens"] == 3
