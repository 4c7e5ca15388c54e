#!/usr/bin/env python3
"""What a stream feels of a long prompt beside it: starts the built daemon on a Unix socket and measures, from outside,

    alone    a stream by itself, and the time to the first token of a long prompt by itself
    beside   the same stream, into which the same prompt comes; meanwhile /health and /metrics are asked all the time

    tests/bench/latency.py [--build DIR] [--model FILE] [--prompt N] [--tokens N] [--rounds N] [--set KEY=VALUE]... [--json FILE]

A gap is the time between two tokens as the client reads them. Clients are processes of their own, so that none waits for
another's interpreter; they need some CPU, which they take from the daemon on a small machine. `--nice -19` (root) keeps
other programs of a busy machine out of the figures. Timings are no test: nothing here passes or fails."""

import argparse
import json
import multiprocessing
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/e2e"))
import weightd  # noqa: E402

VOCABULARY = range(1000, 40000)  # ordinary tokens of SmolLM2


def post(path, body):
    """A connection whose request has been sent."""
    text = json.dumps(body).encode()
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(path)
    client.sendall(
        b"POST /v1/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        % (len(text), text)
    )
    return client


def event_times(client):
    """When each event of a streamed answer was read, in seconds; the last one is [DONE]."""
    buffer = b""
    while b"\r\n\r\n" not in buffer:
        buffer += client.recv(65536)
    head, _, buffer = buffer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head + buffer
    while True:
        now = time.monotonic()
        for _ in range(buffer.count(b"data: ")):
            yield now
        if b"data: [DONE]" in buffer:
            return
        buffer = client.recv(65536)
        assert buffer, "the stream ended without [DONE]"


def stream(path, n_tokens, seed, started, result):
    """Reads a stream; sets `started` after a hundred tokens; sends the times of all."""
    body = {"prompt": "Once upon a time", "max_tokens": n_tokens, "seed": seed, "stream": True, "ignore_eos": True}
    times = []
    for at in event_times(post(path, body)):
        times.append(at)
        if len(times) == 100:
            started.set()
    result.send(times)


def first_token(path, n_prompt, seed, result):
    """Sends (when the request was sent, when the first token came)."""
    ids = random.Random(seed).choices(VOCABULARY, k=n_prompt)
    sent = time.monotonic()
    client = post(path, {"prompt": ids, "max_tokens": 1, "stream": True, "ignore_eos": True})
    result.send((sent, next(event_times(client))))


def poll(path, target, stop, result):
    """Sends how long each answer took, asked for over a new connection each time, in seconds."""
    took = []
    while not stop.is_set():
        begin = time.monotonic()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(path)
            client.sendall(b"GET %s HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n" % target.encode())
            answer = b""
            while chunk := client.recv(65536):
                answer += chunk
        assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
        took.append(time.monotonic() - begin)
        time.sleep(0.01)
    result.send(took)


class Child:
    def __init__(self, target, *arguments):
        self.result, theirs = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.Process(target=target, args=(*arguments, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def wait(self):
        result = self.result.recv()  # EOFError: it failed, and has said why
        self.process.join()
        return result


def gaps_ms(times):
    return [1000 * (b - a) for a, b in zip(times, times[1:])]


def summary(values):
    ordered = sorted(values)
    return {
        "n": len(ordered),
        "median": statistics.median(ordered),
        "p99": ordered[int(0.99 * (len(ordered) - 1))],
        "max": ordered[-1],
    }


def one_round(path, options, seed):
    event = multiprocessing.Event
    alone = Child(stream, path, options.tokens, seed, event()).wait()
    sent, first = Child(first_token, path, options.prompt, seed).wait()
    round_ = {"alone": summary(gaps_ms(alone)), "ttft_alone_s": first - sent}

    started, stop = event(), event()
    beside = Child(stream, path, options.tokens, seed, started)
    polls = {target: Child(poll, path, target, stop) for target in ("/health", "/metrics")}
    started.wait()
    sent, first = Child(first_token, path, options.prompt, seed + 1).wait()
    stop.set()
    round_["polls_ms"] = {target: summary([1000 * took for took in child.wait()]) for target, child in polls.items()}
    times = beside.wait()
    assert times[-1] > first, "the stream ended before the prompt did: more --tokens"
    round_["beside"] = summary(gaps_ms(times))
    round_["during"] = summary(gaps_ms([at for at in times if sent <= at <= first]))
    round_["ttft_beside_s"] = first - sent
    return round_


def table(rounds):
    print(f"{'round':>5} {'':22} {'n':>6} {'median':>8} {'p99':>8} {'max':>8}   ms")
    for i, r in enumerate(rounds):
        rows = [("stream alone", r["alone"]), ("whole stream, beside", r["beside"]), ("while the prompt runs", r["during"])]
        for name, s in rows + list(r["polls_ms"].items()):
            print(f"{i:>5} {name:22} {s['n']:>6} {s['median']:>8.2f} {s['p99']:>8.2f} {s['max']:>8.2f}")
        print(
            f"{i:>5} largest gap while the prompt runs / median of the whole stream: "
            f"{r['during']['max'] / r['beside']['median']:.2f}   "
            f"first token of the prompt: alone {r['ttft_alone_s']:.2f} s, beside {r['ttft_beside_s']:.2f} s"
        )


def prefer(process, nice):
    """Priority against other sessions; where the kernel groups threads by session, those of threads mean little."""
    os.setpriority(os.PRIO_PROCESS, os.getpid() if process == "self" else process, nice)
    group = Path(f"/proc/{process}/autogroup")
    if nice and group.exists():
        group.write_text(str(nice))


def machine():
    lscpu = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout
    fields = dict(line.split(":", 1) for line in lscpu.splitlines() if ":" in line)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=TOP).stdout
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": fields["Model name"].strip(),
        "cpus": int(fields["CPU(s)"]),
        "load": os.getloadavg()[0],
        "commit": commit.strip(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=weightd.BUILD)
    parser.add_argument("--model", type=Path, default=weightd.model_dir() / weightd.MODEL_FILE)
    parser.add_argument("--prompt", type=int, default=4000, help="tokens of the long prompt")
    parser.add_argument("--tokens", type=int, default=4000, help="tokens of the stream")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the daemon")
    parser.add_argument("--nice", type=int, default=0, help="priority of daemon and clients")
    parser.add_argument("--json", type=Path, help="write the numbers there")
    options = parser.parse_args()
    prefer("self", options.nice)
    settings = dict(setting.split("=", 1) for setting in options.set)
    daemon = weightd.Daemon({"smollm2": options.model}, settings, build=options.build.resolve())
    try:
        prefer(daemon.process.pid, options.nice)
        daemon.wait_ready()
        result = {**machine(), "settings": settings, "prompt": options.prompt, "tokens": options.tokens}
        result["rounds"] = [one_round(str(daemon.socket), options, 10 * i) for i in range(options.rounds)]
    except BaseException:
        daemon.kill()
        raise
    daemon.stop()
    print(f"{result['date']}  {result['cpu']}, {result['cpus']} CPUs, load {result['load']:.1f}, commit {result['commit']}")
    table(result["rounds"])
    if options.json:
        options.json.write_text(json.dumps(result, indent="\t") + "\n")


if __name__ == "__main__":
    main()
