"""Five hundred processes killed at random moments, with calls going on all the time."""

import collections
import contextlib
import http.client
import json
import os
import random
import re
import signal
import threading
import time
from pathlib import Path

import weightd

KILLS = 500
SEED = 20261130
CLIENTS = 3
PROMPTS = ["Once upon a time", "The sea is", "def main():", "A list of colours:", "Dear Sir,"]


def request(i):
    return {
        "prompt": PROMPTS[i % len(PROMPTS)],
        "max_tokens": 10 + i % 3 * 100,
        "ignore_eos": True,
        "temperature": i % 2,
        "seed": 1,
    }


N_REQUESTS = 2 * 3 * 5  # then they repeat


def ask(daemon, i):
    """One call, streamed or whole. (text, how it ended): "whole", "error" (said by the daemon), "cut" (the connection ended
    before the answer, as it does when the front dies)."""
    text = ""
    try:
        if i % 2:
            answer = daemon.http.post("/v1/completions", request(i), timeout=60)
            if answer.status != 200:
                assert answer.status in (500, 502, 503), answer.body
                assert answer.json["error"]["message"], answer.body
                return text, "error"
            return answer.json["choices"][0]["text"], "whole"
        for event in daemon.http.stream("/v1/completions", request(i), timeout=60):
            if "error" in event:
                assert event["error"]["message"], event
                return text, "error"
            text += event["choices"][0]["text"]
        return text, "whole"
    except (http.client.HTTPException, ConnectionError):
        return text, "cut"
    except AssertionError as problem:
        if "without [DONE]" in str(problem):
            return text, "cut"
        if b'"error"' in (problem.args[0] if problem.args and isinstance(problem.args[0], bytes) else b""):
            assert json.loads(problem.args[0])["error"]["message"]
            return text, "error"  # a stream that never began
        raise


class Traffic:
    """Clients that ask one thing after another and check what they get."""

    def __init__(self, daemon, expected):
        self.daemon, self.expected = daemon, expected
        self.ends = collections.Counter()
        self.problems = []
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.client, args=(n,)) for n in range(CLIENTS)]

    def client(self, number):
        rng = random.Random(number)
        while not self.stopping.is_set():
            i = rng.randrange(N_REQUESTS)
            try:
                text, end = ask(self.daemon, i)
                right = text == self.expected[i] if end == "whole" else self.expected[i].startswith(text)
                if not right:
                    self.problems.append(f"request {i}, {end}: {text!r} instead of {self.expected[i]!r}")
                self.ends[end] += 1
            except Exception as problem:  # whatever it is: it fails the test
                self.problems.append(f"request {i}: {problem!r}")

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()


def holdings(daemon):
    """What the parent and the machine hold for this daemon."""
    pid = daemon.process.pid
    figures = weightd.smaps_rollup(pid)
    return {
        "descriptors": sorted(os.path.basename(os.readlink(fd)).split(":")[0] for fd in Path(f"/proc/{pid}/fd").iterdir()),
        "processes": len(daemon.session()),
        "segments": sorted(daemon.segments()),
        "private": figures["RssAnon"] + figures["VmPTE"],
    }


def settled(daemon):
    status = daemon.status()
    return status["state"] == "ready" and all(
        worker[key] == 0 for worker in status["workers"] for key in ("running", "waiting", "kv_pages_used")
    )


class Killer:
    """Kills a random child: mostly a worker, sometimes the front, and a verifier when there is one. A role that was killed
    twice without having served in between is spared until it has: more would be the crash loop that others test."""

    def __init__(self, daemon, seed):
        self.daemon, self.rng = daemon, random.Random(seed)
        self.killed = collections.Counter()
        self.unserved = collections.Counter()

    def note_service(self):
        """Who has served since it was killed: the front's metrics tell."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            metrics = self.daemon.http.request("GET", "/metrics", timeout=2).body.decode()
            for index, calls in re.findall(r'weightd_calls_total{worker="(\d+)".*} (\d+)', metrics):
                if int(calls):
                    self.unserved[f"worker {index}"] = 0
            if "weightd_requests_total" in metrics:  # it has answered before
                self.unserved["front"] = 0

    def kill(self, n):
        target = self.killed.total() + n
        while self.killed.total() < target:
            time.sleep(self.rng.random() * 0.1)  # not waiting for anything: it makes the moments random
            if self.rng.random() < 0.1:
                threading.Thread(target=self.daemon.ctl, args=("status",)).start()
            self.note_service()
            children = [(role, pid) for role, pid in self.daemon.roles().items() if self.unserved[role] < 2]
            if not children:
                continue
            role, pid = self.rng.choice(sorted(children))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.killed[role] += 1
                self.unserved[role] += role != "verifier"
            assert self.daemon.process.poll() is None, self.daemon.log()[-3000:]


def test_five_hundred_kills(start, tiny, record):
    daemon = start({"tiny": tiny}, {"workers_per_node": 2, "threads": 1})
    daemon.wait_all_ready()
    expected = {i: ask(daemon, i)[0] for i in range(N_REQUESTS)}
    killer = Killer(daemon, SEED)
    with Traffic(daemon, expected) as traffic:
        killer.kill(25)  # what is allocated once is allocated by then
        daemon.wait_for(lambda: daemon.status()["state"] == "ready", "ready again")
        before = holdings(daemon)
        killer.kill(KILLS - 25)
    daemon.wait_for(lambda: settled(daemon), "settled")
    after = holdings(daemon)
    killed = killer.killed
    record("processes killed", killed.total(), dict(killed))
    record("calls meanwhile", traffic.ends.total(), dict(traffic.ends))
    assert not traffic.problems, "\n".join(traffic.problems[:10])
    assert traffic.ends["whole"] > KILLS / 4 and traffic.ends["error"] and traffic.ends["cut"], traffic.ends
    assert killed.total() == KILLS and min(killed[role] for role in ("worker 0", "worker 1", "front")) > KILLS / 10, killed
    assert after["descriptors"] == before["descriptors"]
    assert after["processes"] == before["processes"] and after["segments"] == before["segments"]
    assert after["private"] <= before["private"] + (256 << 10)
    for i in range(10):
        assert ask(daemon, i) == (expected[i], "whole")
