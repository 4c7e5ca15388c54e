"""One copy of the weights whatever maps them, and call memory that goes back."""

import concurrent.futures
import os
import statistics
import subprocess
import sys
import threading
import time

import pytest

import weightd


def segment_lines(daemon, segment):
    """The smaps entries of one segment over all processes of a daemon."""
    inode = os.stat("/dev/shm" + segment).st_ino
    found = []
    for pid in daemon.processes():
        for line, figures in weightd.mappings(pid):
            if line.split()[4] == str(inode):
                found.append((pid, figures))
    return found


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_one_copy_over_all_processes(start, model, n):
    """Pss divides a page among those that map it, so the sum is what is really there."""
    daemon = start({"smollm2": model}, {"workers_per_node": n})
    daemon.wait_all_ready()
    assert len(daemon.worker_pids()) >= n
    for copy in daemon.status()["models"][0]["copies"]:
        lines = segment_lines(daemon, copy["segment"])
        assert len(lines) >= n and all(figures["Pss"] > 0 for _, figures in lines)
        assert abs(sum(figures["Pss"] for _, figures in lines) - copy["bytes"]) <= 0.01 * copy["bytes"]
        assert os.stat("/dev/shm" + copy["segment"]).st_size == copy["bytes"]


def private_bytes(pid):
    figures = weightd.smaps_rollup(pid)
    return figures["RssAnon"] + figures["RssFile"]


def test_workers_keep_little_for_themselves(daemon):
    for pid in daemon.worker_pids():
        assert private_bytes(pid) < 64 << 20


def test_workers_keep_little_with_a_3b_model(start, model, tmp_path):
    path = tmp_path / "random-3b.gguf"
    subprocess.run(
        [
            sys.executable,
            weightd.TOP / "tests/tools/synthetic_gguf.py",
            "--shape",
            "3b",
            "--type",
            "Q4_0",
            "--tokenizer-from",
            model,
            path,
        ],
        check=True,
    )
    daemon = start({"big": path})
    path.unlink()
    segment = daemon.status()["models"][0]["copies"][0]
    assert segment["bytes"] > 1 << 30
    daemon.http.post("/v1/completions", {"prompt": "Hello", "max_tokens": 4}).ok()
    for pid in daemon.worker_pids():
        assert private_bytes(pid) < 64 << 20


def private_sum(pids):
    return sum(f["RssAnon"] + f["VmPTE"] for f in (weightd.proc_figures(pid, "status") for pid in pids))


def test_a_thousand_calls_leave_private_memory_flat(start, model):
    daemon = start({"smollm2": model})

    def private():
        return private_sum(daemon.processes())

    def call(i):
        body = {
            "prompt": "word " * (1 + i * 7 % 40),
            "max_tokens": 1 + i % 2,
            "temperature": 0.7,
            "seed": i,
            "logprobs": i % 2 * 5,
        }
        if i % 100 == 50:
            assert daemon.http.post("/v1/completions", {**body, "max_tokens": -1}).status == 400
        elif i % 2:
            daemon.http.post("/v1/completions", body).ok()
        else:
            assert list(daemon.http.stream("/v1/completions", body))

    before = private()
    peak_before = sum(worker["arena_peak_bytes"] for worker in daemon.status()["workers"])
    with concurrent.futures.ThreadPoolExecutor(8) as clients:
        list(clients.map(call, range(1000)))
    daemon.wait_for(lambda: private() <= before + (2 << 20), "back within 2 MB of the level right after ready", 10)
    status = daemon.status()
    assert sum(worker["arena_peak_bytes"] for worker in status["workers"]) > peak_before
    assert all(worker["kv_pages_used"] == 0 and worker["running"] == 0 for worker in status["workers"])


# SmolLM2's keys and values of 32 tokens: 30 layers, 3 heads of 64 bfloat16 each.
KV_PAGE_BYTES = 30 * 3 * 64 * 32 * 2 * 2


def private_without_kv(daemon, pids):
    """Private bytes of all processes less the KV pages of what runs: a stream takes one every 32 tokens."""
    while True:
        pages = weightd.metric(daemon, "weightd_kv_pages_used")
        private = private_sum(pids)
        if weightd.metric(daemon, "weightd_kv_pages_used") == pages:
            return private - pages * KV_PAGE_BYTES


def test_a_burst_beside_a_long_stream_is_forgotten(start, model):
    """One long stream plus 100 short calls: within a second of the last, as much memory as for the stream alone."""
    daemon = start({"smollm2": model})
    pids = daemon.processes()
    body = {"prompt": "Once upon a time", "max_tokens": 8000, "ignore_eos": True}
    stream, enough = daemon.http.stream("/v1/completions", body), threading.Event()

    def read():
        for _ in stream:
            if enough.is_set():
                return stream.close()
        raise AssertionError("the long stream has ended too early to show anything")

    def call(i):
        body = {"prompt": "word " * (1 + i * 7 % 40), "max_tokens": 1 + i % 8, "temperature": 0.7, "seed": i}
        daemon.http.post("/v1/completions", {**body, "logprobs": i % 6}).ok()
        return private_sum(pids)

    for _ in range(100):
        next(stream)
    with concurrent.futures.ThreadPoolExecutor(17) as clients:
        reader = clients.submit(read)
        try:
            before = private_sum(pids)
            alone = statistics.median(private_without_kv(daemon, pids) for _ in range(20))
            peak = max(clients.map(call, range(100)))
            last = time.monotonic()
            while (now := private_without_kv(daemon, pids)) > alone + (2 << 20):
                assert time.monotonic() < last + 1, f"{now} bytes a second after the last call, {alone} before"
            assert weightd.metric(daemon, "weightd_calls_running") == 1
        finally:
            enough.set()
        reader.result()
    assert peak > before + (4 << 20), "the burst took so little that nothing is shown by its return"
