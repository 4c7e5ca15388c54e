"""Thousands of clients that leave at any byte of request or answer, by any way there is to leave, while others stay.

Nothing of them may remain: no call, no KV page, no connection, no descriptor, no memory. And those who stay must not
notice: their answers are, byte by byte, those of an empty house."""

import asyncio
import collections
import concurrent.futures
import json
import os
import random
import socket
import struct
import threading
import time

import pytest

import repertoire
import weightd
from repertoire import SHORT_REPERTOIRE, ask, difference

AT_ONCE, STEADY, LEAVERS_A_TURN, PATIENCE_S = 40, 20, 12, 300
# More want in than there is room for, and more are let in than run at a time.
SETTINGS = {"max_queue": 44, "max_running": 24, "prefill_chunk": 64}
SLACK_BYTES = 2 << 20

# Where a client leaves, and how often. `request`: before all of it is sent. `queue`: when it is sent, without looking for
# an answer. `answer`: after some bytes of it. `half`: it ends its own sending side and goes on listening, which counts
# as leaving (weightd-protocol(7)).
PLACES = {"request": 30, "queue": 20, "answer": 40, "half": 10}
PROMPT_TOKENS = [1, 2, 5, 40, 200], [65, 25, 7.5, 2, 0.5]
HUGE_BYTES = 300_000  # more than fits one record to a worker


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def leaver_request(rng, stream, length):
    prompt = "x " * (HUGE_BYTES // 2) if rng.random() < 0.005 else repertoire.ids(length, rng.random())
    body = {"prompt": prompt, "max_tokens": 1000 if stream else rng.randrange(1, 6), "temperature": rng.choice([0, 1])}
    body |= {"seed": 1, "ignore_eos": True, "stream": stream}
    return repertoire.Request("leaver", repertoire.COMPLETIONS, body)


def on_the_wire(request):
    body = request.json
    head = f"POST {request.target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Leavers:
    """What thousands of clients do, planned by a seed, and what became of them."""

    def __init__(self, daemon, port, seed):
        self.daemon, self.port, self.rng = daemon, port, random.Random(seed)
        self.tally = collections.Counter()
        self.faults = []

    async def connect(self, tcp):
        if tcp:
            return await asyncio.open_connection("127.0.0.1", self.port)
        return await asyncio.open_unix_connection(str(self.daemon.socket))

    async def read_some(self, reader, n_bytes):
        """Up to that many bytes of the answer; tells in which way it began."""
        got = b""
        while len(got) < n_bytes and (chunk := await reader.read(n_bytes - len(got))):
            got += chunk
        if got.startswith(b"HTTP/1.1 42"):  # 429, perhaps cut
            return "refused"
        if not any(begin.startswith(got[: len(begin)]) for begin in (b"HTTP/1.1 200", b"HTTP/1.1 400")):
            self.faults.append(f"an answer begins with {got[:80]!r}")
        return "answer"

    async def read_to_the_end(self, reader):
        got = await reader.read(-1)
        if b"[DONE]" in got:
            self.faults.append("a client that ended its sending side got 1000 tokens")
        return "refused" if got.startswith(b"HTTP/1.1 429") else "half"

    async def client(self):
        """Plans one client and lets it come again while the queue is full."""
        rng = self.rng
        place = rng.choices(list(PLACES), PLACES.values())[0]
        stream = place == "half" or rng.random() < 0.7
        request = on_the_wire(leaver_request(rng, stream, rng.choices(*PROMPT_TOKENS)[0]))
        cut = rng.randrange(len(request)) if place == "request" else len(request)
        n_bytes = rng.choice([rng.randrange(1, 300), rng.randrange(1, 1500)])
        tcp, reset = rng.random() < 0.5, rng.random() < 0.5
        while await self.visit(place, request[:cut], n_bytes, tcp, reset) == "refused":
            await asyncio.sleep(0.2)

    async def visit(self, place, sent, n_bytes, tcp, reset):
        reader, writer = await self.connect(tcp)
        try:
            writer.write(sent)
            await writer.drain()
            if place == "answer":
                place = await self.read_some(reader, n_bytes)
            elif place == "half":
                writer.write_eof()
                place = await self.read_to_the_end(reader)
        except ConnectionError:  # a half-closed one that was still sending, or a refusal that closed first
            place = "cut off by the daemon"
        if tcp and reset:
            linger = struct.pack("ii", 1, 0)  # close() sends a reset
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()  # closes at once, whatever is unread or unsent
        self.tally[place] += 1
        return place

    async def run(self, n_clients, every_few):
        """`every_few` is called after each LEAVERS_A_TURN of them."""
        left = iter(range(1, n_clients + 1))

        async def one_after_the_other():
            for number in left:
                await asyncio.wait_for(self.client(), PATIENCE_S)
                if number % LEAVERS_A_TURN == 0:
                    every_few()

        await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))


class Steady:
    """Clients that stay: each asks again whenever so many others have left, and compares. A full queue sends them away like
    anybody; then they come back."""

    def __init__(self, daemon, expected):
        self.daemon, self.expected = daemon, expected
        self.turns = threading.Semaphore(STEADY)  # each once at least
        self.over = threading.Event()
        self.n_answers = 0
        self.lock = threading.Lock()

    def finish(self):
        self.over.set()
        self.turns.release(STEADY)

    def ask_until_let_in(self, request):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            answer = self.daemon.http.request("POST", request.target, request.json, timeout=PATIENCE_S)
            if answer.status != 429:
                return repertoire.bytes_of(request, answer)
            self.over.wait(0.02)
        raise AssertionError(f"'{request.name}' found the queue full for {PATIENCE_S} s")

    def client(self, number):
        while self.turns.acquire() and not self.over.is_set():
            request = SHORT_REPERTOIRE[number % len(SHORT_REPERTOIRE)]
            answer, expected = self.ask_until_let_in(request), self.expected[request.name]
            assert answer == expected, difference(request, expected, answer)
            with self.lock:
                self.n_answers += 1
            number += STEADY


def private_bytes(daemon):
    return sum(weightd.smaps_rollup(pid)["RssAnon"] for pid in daemon.processes())


def descriptors(daemon):
    return {pid: len(os.listdir(f"/proc/{pid}/fd")) for pid in daemon.processes()}


def busy(daemon):
    """What is in use now, by the name of its metric; scraping is itself a connection."""
    return {
        "calls running": weightd.metric(daemon, "weightd_calls_running"),
        "calls waiting": weightd.metric(daemon, "weightd_calls_waiting"),
        "calls in flight": weightd.metric(daemon, "weightd_calls_in_flight"),
        "KV pages": weightd.metric(daemon, "weightd_kv_pages_used"),
        "connections": weightd.metric(daemon, "weightd_connections") - 1,
    }


def watch(daemon, over):
    """The largest numbers that were in use at a time, looked at twice a second."""
    largest = collections.Counter()
    while not over.wait(0.5):
        for name, value in busy(daemon).items():
            largest[name] = max(largest[name], value)
    return largest


@pytest.mark.parametrize("io", ["uring", "epoll"])
def test_clients_that_leave(start, model, amount, record, io):
    n_clients = 400 if weightd.SANITIZED else amount(5_000, 25_000)
    port = free_port()
    daemon = start({"smollm2": model}, {**SETTINGS, "listen": f"127.0.0.1:{port}", "io": io})
    private, opened = private_bytes(daemon), descriptors(daemon)
    expected = {request.name: ask(daemon.http, request) for request in SHORT_REPERTOIRE}

    leavers, steady = Leavers(daemon, port, seed=io), Steady(daemon, expected)
    with concurrent.futures.ThreadPoolExecutor(STEADY + 1) as pool:
        watching = pool.submit(watch, daemon, steady.over)
        staying = [pool.submit(steady.client, number) for number in range(STEADY)]
        begun = time.monotonic()
        try:
            asyncio.run(leavers.run(n_clients, steady.turns.release))
        finally:
            steady.finish()
        for client in staying:
            client.result()
        largest = watching.result()
    record(f"clients that left, io {io}", n_clients, f"({time.monotonic() - begun:.0f} s; {dict(leavers.tally)})")
    record(f"answers to {STEADY} clients that stayed", steady.n_answers, f"(at most at a time: {dict(largest)})")

    assert not leavers.faults, leavers.faults[:10]
    for place, share in PLACES.items():
        assert leavers.tally[place] >= n_clients * share / 100 / 4, leavers.tally
    assert leavers.tally["cut off by the daemon"] <= n_clients / 20, leavers.tally
    assert steady.n_answers >= STEADY and largest["calls waiting"] > 0, largest
    daemon.wait_for(lambda: not any(busy(daemon).values()), "idle again")
    assert weightd.metric(daemon, "weightd_clients_gone_total") >= n_clients / 10
    assert weightd.metric(daemon, "weightd_calls_failed_total") == 0
    daemon.wait_for(lambda: descriptors(daemon) == opened, f"back at its descriptors, {opened}")
    if not weightd.SANITIZED:  # what an address sanitizer has seen freed it keeps for a while
        daemon.wait_for(lambda: private_bytes(daemon) <= private + SLACK_BYTES, f"back at {private} private bytes")
    for request in SHORT_REPERTOIRE:
        answer = ask(daemon.http, request)
        assert answer == expected[request.name], difference(request, expected[request.name], answer)


def test_a_client_that_ends_its_sending_side_has_left(daemon):
    """Half a connection is not waited for: a proxy whose client has gone shows no more than this."""
    body = json.dumps({"prompt": "a", "max_tokens": 4000, "ignore_eos": True, "stream": True}).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(30)
        client.connect(str(daemon.socket))
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        assert client.recv(15).startswith(b"HTTP/1.1 200")
        cancelled = weightd.metric(daemon, "weightd_calls_cancelled_total")
        client.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := client.recv(65536):
            received += chunk
    assert b"[DONE]" not in received and not received.endswith(b"0\r\n\r\n")
    daemon.wait_for(lambda: weightd.metric(daemon, "weightd_calls_cancelled_total") == cancelled + 1, "cancelled")
