"""What dies again and again: one model's trouble stays its own, and what is put right serves again by itself."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

import weightd

ASK = {"prompt": "a", "max_tokens": 2, "temperature": 0}


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """A model with one KV page of more than a mebibyte: with kv_bytes = 1M its workers can't start."""
    path = tmp_path_factory.mktemp("deep") / "deep.gguf"
    subprocess.run(
        [sys.executable, weightd.TOP / "tests/tools/tiny_gguf.py", "--kv-heads", "4", "--layers", "72", path], check=True
    )
    return path


class Killer:
    """Kills every process of a role as soon as it appears, until told to stop."""

    def __init__(self, daemon, role):
        self.killed = set()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, args=(daemon, role))

    def run(self, daemon, role):
        while not self.stopping.is_set():
            for pid in daemon.children(role):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.killed.add(pid)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()


def model_state(daemon, name):
    return next(model for model in daemon.status()["models"] if model["name"] == name)


def model_health(daemon, name):
    return next(model for model in daemon.health()[1]["models"] if model["id"] == name)


def test_a_model_whose_workers_cannot_start_does_not_stop_the_others(start, tiny, deep):
    daemon = start({"tiny": tiny, "deep": deep}, {"kv_bytes": "1M"}, ready=False)
    daemon.wait_for(lambda: " parent: ready: 1 of 2 models" in daemon.log(), "ready with what can be served")
    state, health = model_state(daemon, "deep"), model_health(daemon, "deep")
    assert state["state"] == "failing" and "less than one KV page" in state["error"]
    assert health["status"] == "failing" and "less than one KV page" in health["message"]
    assert model_health(daemon, "tiny") == {"id": "tiny", "status": "ok"}
    assert daemon.health()[0] == 503 and daemon.health()[1]["status"] == "failing"
    assert daemon.status()["state"] == "failing"
    said = daemon.ctl("status")
    assert said.returncode == 1 and b"failing" in said.stdout and b"less than one KV page" in said.stdout
    daemon.http.post("/v1/completions", {**ASK, "model": "tiny"}).ok()
    error = daemon.http.post("/v1/completions", {**ASK, "model": "deep"}).error(503)
    assert error["code"] == "model_failing" and "less than one KV page" in error["message"]
    bad = [worker for worker in daemon.status()["workers"] if worker["model"] == "deep"]
    assert all(worker["state"] == "waiting" and worker["restart_in_ms"] > 0 for worker in bad)
    assert all("exited with status 1: kv_bytes" in worker["last_end"] for worker in bad)
    # It is tried again, every ten seconds, and says so once.
    restarts = sum(worker["restarts"] for worker in bad)
    daemon.wait_for(
        lambda: sum(w["restarts"] for w in daemon.status()["workers"] if w["model"] == "deep") >= restarts + len(bad),
        "tried again", 15,
    )  # fmt: skip
    assert daemon.log().count("is tried again every 10 s") == len(bad)
    assert [worker["restarts"] for worker in daemon.status()["workers"] if worker["model"] == "tiny"] == [0] * len(bad)


def test_nothing_to_serve_is_a_failed_start(start, deep):
    daemon = start({"deep": deep}, {"kv_bytes": "1M"}, ready=False)
    assert daemon.process.wait(20) == 1
    assert "no model can be served" in daemon.log() and "exited with status 1: kv_bytes" in daemon.log()
    assert not daemon.session() and not daemon.segments()
    daemon.clean()


def test_a_model_that_stops_dying_serves_again(start, tiny, model):
    """Its workers are killed before they can serve; the other model's calls go on, and the daemon never ends."""
    daemon = start({"smollm2": model, "tiny": tiny}, {"workers_per_node": 1})
    index = next(w["index"] for w in daemon.status()["workers"] if w["model"] == "smollm2")
    daemon.http.post("/v1/completions", {**ASK, "model": "smollm2"}).ok()
    with Killer(daemon, f"worker {index}") as killer:
        daemon.wait_for(lambda: model_health(daemon, "smollm2")["status"] == "failing", "failing")
        for _ in range(20):
            daemon.http.post("/v1/completions", {**ASK, "model": "tiny"}).ok()
        assert len(killer.killed) >= 5
        error = daemon.http.post("/v1/completions", {**ASK, "model": "smollm2"}).error(503)
        assert error["code"] in ("model_not_ready", "model_failing"), error
    daemon.wait_for(
        lambda: daemon.http.post("/v1/completions", {**ASK, "model": "smollm2"}).status == 200, "serving again", 12
    )
    daemon.wait_for(lambda: daemon.health() == (200, daemon.health()[1]), "healthy again, the call has proven it", 3)
    assert model_state(daemon, "smollm2")["state"] == "ready" and "error" not in model_state(daemon, "smollm2")


def test_a_front_that_keeps_dying_does_not_end_the_daemon(start, tiny):
    daemon = start({"tiny": tiny})
    workers = daemon.worker_pids()
    with Killer(daemon, "front") as killer:
        daemon.wait_for(lambda: "the front keeps dying" in daemon.log(), "killed again and again", 20)
        assert len(killer.killed) >= 5
        assert daemon.status()["front"]["state"] in ("waiting", "starting", "ready")
    assert daemon.log().count("the front keeps dying") == 1
    daemon.wait_ready(12)
    daemon.http.post("/v1/completions", ASK).ok()
    assert daemon.worker_pids() == workers
    assert daemon.log().count("the front killed by signal 9") == len(killer.killed) == daemon.status()["front"]["restarts"]


def test_a_killed_loader_is_tried_again_and_leaves_nothing(start, tiny, model):
    daemon = start({"tiny": tiny, "smollm2": model}, ready=False)
    daemon.wait_for(lambda: "loading model 'smollm2'" in daemon.log() and daemon.children("loader"), "loading the second")
    loader = daemon.children("loader")[0]
    daemon.wait_for(lambda: any("smollm2" in name for name in daemon.segments()), "half way")
    os.kill(loader, signal.SIGSTOP)
    daemon.http.post("/v1/completions", {**ASK, "model": "tiny"}).ok()
    assert daemon.http.post("/v1/completions", {**ASK, "model": "smollm2"}).error(503)["code"] == "model_loading"
    half = os.stat(next(name for name in daemon.segments() if "smollm2" in name)).st_ino
    os.kill(loader, signal.SIGKILL)
    daemon.wait_ready(60)
    assert daemon.log().count("it is loaded again") == 1
    names = [name for name in daemon.segments() if "smollm2" in name]
    assert len(names) == len(model_state(daemon, "smollm2")["copies"]) and os.stat(names[0]).st_ino != half
    daemon.http.post("/v1/completions", {**ASK, "model": "smollm2"}).ok()


def test_a_loader_that_is_always_killed_fails_its_model_only(start, tiny, model):
    daemon = start({"tiny": tiny, "smollm2": model}, ready=False)
    daemon.wait_for(lambda: "loading model 'smollm2'" in daemon.log(), "loading the second")
    with Killer(daemon, "loader") as killer:
        daemon.wait_for(lambda: " parent: ready: 1 of 2 models" in daemon.log(), "ready with the first")
    assert len(killer.killed) >= 4  # the first may have had its order, and its death, before we looked
    assert model_state(daemon, "smollm2")["state"] == "failed"
    assert "killed by signal 9" in model_health(daemon, "smollm2")["message"]
    assert not [name for name in daemon.segments() if "smollm2" in name]
    daemon.http.post("/v1/completions", {**ASK, "model": "tiny"}).ok()
    assert daemon.http.post("/v1/completions", {**ASK, "model": "smollm2"}).error(503)["code"] == "model_failed"
    assert daemon.status()["state"] == "failed"
