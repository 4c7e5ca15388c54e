"""A model's next generation: made and started beside the one that is served, taken over between two calls, and if it can't
be had, never noticed."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

import adapters
import weightd

ASK = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """Two models of the same shape and the same names, and other weights."""
    directory = tmp_path_factory.mktemp("contents")
    tool = [sys.executable, weightd.TOP / "tests/tools/tiny_gguf.py"]
    for seed in 1, 2:
        subprocess.run([*tool, "--seed", str(seed), directory / f"{seed}.gguf"], check=True)
    return [directory / "1.gguf", directory / "2.gguf"]


class Served:
    """A daemon whose model's file can be given other content."""

    def __init__(self, start, content, directory, settings=None, **more):
        self.path = directory / "model.gguf"
        self.put(content)
        # A busy machine is no reason to restart a worker here.
        self.daemon = start({"m": self.path}, {"hang_seconds": 120, **(settings or {})}, **more)

    def put(self, content):
        """As careful people replace files: whoever has the old one open keeps it."""
        beside = self.path.with_suffix(".new")
        if isinstance(content, bytes):
            beside.write_bytes(content)
        else:
            shutil.copyfile(content, beside)
        os.replace(beside, self.path)

    def reload(self, code=0):
        result = self.daemon.ctl("reload", "m")
        assert result.returncode == code, result
        return (result.stderr if code else result.stdout).decode()

    def text(self, **more):
        return self.daemon.http.post("/v1/completions", {**ASK, **more}).ok()["choices"][0]["text"]

    def model(self):
        return self.daemon.status()["models"][0]

    def wait_settled(self):
        """The generation before has gone: its workers, its segments, its place in the status."""
        self.daemon.wait_for(lambda: "change" not in self.model(), "one generation")
        status = self.daemon.status()
        generation = status["models"][0]["generation"]
        assert {worker["generation"] for worker in status["workers"]} == {generation}, status["workers"]
        copies = status["models"][0]["copies"]
        assert sorted(self.daemon.segments()) == sorted("/dev/shm" + copy["segment"] for copy in copies)
        assert all(f".g{generation}." in copy["segment"] for copy in copies)
        return status


def test_new_content_is_served_after_the_flip_and_not_before(start, contents, tmp_path):
    served = Served(start, contents[0], tmp_path)
    first = served.text()
    pids = served.daemon.worker_pids()
    served.put(contents[1])
    assert served.text() == first  # the file alone changes nothing
    assert served.reload() == "generation 2 of model 'm' is served\n"
    second = served.text()
    assert second != first
    status = served.wait_settled()
    assert status["state"] == "ready" and status["models"][0]["generation"] == 2
    assert not set(served.daemon.worker_pids()) & set(pids)
    assert served.text() == second
    served.put(contents[0])
    assert "generation 3" in served.reload()
    assert served.text() == first
    served.wait_settled()
    assert served.daemon.http.get("/health").status == 200


class Clients:
    """Calls without a pause, streamed and whole, until they are stopped; every text, and everything that went wrong."""

    def __init__(self, daemon, n, ask):
        self.daemon, self.ask = daemon, ask
        self.texts, self.problems = [], []
        self.done = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(n)]
        for thread in self.threads:
            thread.start()

    def one(self, streamed):
        if streamed:
            return "".join(e["choices"][0]["text"] for e in self.daemon.http.stream("/v1/completions", self.ask))
        return self.daemon.http.post("/v1/completions", self.ask).ok()["choices"][0]["text"]

    def run(self, i):
        while not self.done.is_set():
            i += 1
            try:
                self.texts.append(self.one(i % 2))
            except Exception as problem:  # whatever it is, the test fails by it
                self.problems.append(problem)

    def stop(self):
        self.done.set()
        for thread in self.threads:
            thread.join()
        assert not self.problems, self.problems
        return self.texts


def test_reloads_under_load(start, contents, tmp_path, amount, record):
    """No call fails, none is of two generations, and memory is that of one in the end."""
    rounds = amount(5, 200)
    served = Served(start, contents[0], tmp_path)
    said = [served.text()]
    clients = Clients(served.daemon, 3, ASK)
    try:
        for i in range(1, rounds + 1):
            served.put(contents[i % 2])
            assert f"generation {i + 1} " in served.reload()
            said.append(served.text())
    finally:
        texts = clients.stop()
    assert said == [said[i % 2] for i in range(rounds + 1)]
    assert said[0] != said[1] and set(texts) == set(said[:2])
    served.wait_settled()
    record("reloads", rounds, "reloads")
    record("calls beside them, none failed", len(texts), "calls")


@contextlib.contextmanager
def running_call(daemon, **more):
    """A stream that has begun, and goes on while the block runs: what came of it, as a list that grows."""
    events, begun = [], threading.Event()

    def read():
        for event in daemon.http.stream("/v1/completions", {**ASK, **more}):
            events.append(event)
            begun.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert begun.wait(60)
    yield events
    thread.join()


def test_a_call_that_runs_across_the_flip_keeps_its_weights(start, model, gemma3, tmp_path):
    long = {"max_tokens": 400}
    served = Served(start, model, tmp_path, {"context_tokens": 1024})
    whole = served.text(**long)
    served.put(gemma3)
    with running_call(served.daemon, **long) as events:
        assert "generation 2" in served.reload()
        assert len(events) < 400, "the call has ended before the flip"
        status = served.daemon.status()
        old, new = sorted(status["workers"], key=lambda worker: worker["generation"])
        assert (old["state"], new["state"]) == ("leaving", "ready")
        assert status["models"][0]["change"]["state"] == "leaving" and status["state"] == "ready"
        assert b"m: generation 2 has taken over; calls of the one before it end" in served.daemon.ctl("status").stdout
        assert status["models"][0]["architecture"] == "gemma3"
        other = served.text()
        assert other and not whole.startswith(other)
    assert "".join(event["choices"][0]["text"] for event in events) == whole
    served.wait_settled()
    assert served.text() == other


def test_a_request_of_many_texts_is_of_one_generation(start, contents, model, tmp_path):
    """Its later texts reach a worker long after the flip: the one that has the others."""
    served = Served(start, model, tmp_path, {"max_queue": 256})
    ask = {"input": [f"{i} " + "one copy for each node " * 12 for i in range(40)]}
    vectors = []

    def embed():
        vectors.append([entry["embedding"] for entry in served.daemon.http.post("/v1/embeddings", ask, timeout=600).ok()["data"]])

    embed()
    thread = threading.Thread(target=embed)
    thread.start()
    served.put(contents[0])
    served.daemon.wait_for(lambda: weightd.metric(served.daemon, "weightd_calls_in_flight"), "embedding")
    served.reload()
    assert served.model()["change"]["state"] == "leaving", "the request has ended before"
    thread.join()
    assert vectors[0] == vectors[1]
    served.wait_settled()
    embed()
    assert len(vectors[2][0]) != len(vectors[0][0])


def test_one_reload_waits_for_the_generation_before_to_end(start, model, gemma3, tmp_path):
    served = Served(start, model, tmp_path, {"context_tokens": 1024})
    ctl = [served.daemon.build / "weightctl", "--config", served.daemon.config, "reload", "m"]
    with running_call(served.daemon, max_tokens=400) as events:
        served.put(gemma3)
        served.reload()
        two = [subprocess.Popen(ctl, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
        daemon = served.daemon
        daemon.wait_for(lambda: any(reload.poll() is not None for reload in two), "the second of them is refused")
        refused, waits = sorted(two, key=lambda reload: reload.poll() is None)
        assert refused.returncode == 4 and b"is being reloaded" in refused.communicate()[1]
        assert len(events) < 400 and waits.poll() is None
        assert max(worker["generation"] for worker in daemon.status()["workers"]) == 2
    assert waits.communicate()[0] == b"generation 3 of model 'm' is served\n"
    served.wait_settled()


BAD = {
    "no model": (lambda content: b"no model", "GGUF"),
    "a file cut off": (lambda content: content.read_bytes()[:-4096], "the file ends at"),
    "no file": (None, "No such file"),
}


@pytest.mark.parametrize("how", BAD)
def test_what_cannot_be_loaded_changes_nothing(start, contents, tmp_path, how):
    spoil, why = BAD[how]
    served = Served(start, contents[0], tmp_path)
    first, before = served.text(), served.daemon.status()
    served.put(spoil(contents[1])) if spoil else served.path.unlink()
    clients = Clients(served.daemon, 2, ASK)
    try:
        said = served.reload(4)
        assert why in said and "generation 1 is still served" in said, said
    finally:
        assert set(clients.stop()) == {first}
    after = served.wait_settled()
    assert why in after["models"][0]["change_error"]
    assert b"m: the last reload failed: " in served.daemon.ctl("status").stdout
    assert after["state"] == "ready" and served.daemon.worker_pids() == [w["pid"] for w in before["workers"]]
    assert served.daemon.http.get("/health").status == 200
    served.put(contents[1])  # mended
    assert "generation 3" in served.reload()
    assert served.text() != first and "change_error" not in served.wait_settled()["models"][0]


def test_names_and_states_that_cannot_be_reloaded(start, contents, tmp_path):
    served = Served(start, contents[0], tmp_path)
    result = served.daemon.ctl("reload", "other")
    assert result.returncode == 4 and b"there is no model 'other'" in result.stderr
    assert served.daemon.ctl("reload", "a b").returncode == 2
    assert json.loads(served.daemon.ctl("reload", "m", "--json").stdout) == {"text": "generation 2 of model 'm' is served"}


# --- several models ---------------------------------------------------------------------------------


def ids(daemon):
    return [card["id"] for card in daemon.http.get("/v1/models").ok()["data"]]


def test_models_come_and_go(start, contents, model, tmp_path):
    daemon = start({"m": contents[0]}, {"context_tokens": 1024})
    first = daemon.http.post("/v1/completions", ASK).ok()["choices"][0]["text"]
    shutil.copyfile(contents[1], tmp_path / "with blanks.gguf")
    result = daemon.ctl("load", "other", "with blanks.gguf", cwd=tmp_path)
    assert result.stdout == b"model 'other' is served\n", result
    assert ids(daemon) == ["m", "other"] and daemon.status()["state"] == "ready"
    second = daemon.http.post("/v1/completions", {**ASK, "model": "other"}).ok()["choices"][0]["text"]
    assert second != first
    assert daemon.ctl("load", "real", model).returncode == 0
    with running_call(daemon, model="real", max_tokens=400) as events:
        result = daemon.ctl("unload", "real")
        assert result.returncode == 0 and b"calls that run with it go on" in result.stdout
        daemon.http.post("/v1/completions", {**ASK, "model": "real"}).error(404)
        assert len(events) < 400, "the call has ended before"
        assert [m["state"] for m in daemon.status()["models"]] == ["ready", "ready", "unloading"]
        assert daemon.http.get("/health").status == 200
    assert sum(len(event["choices"][0]["text"]) > 0 for event in events) > 100
    daemon.wait_for(lambda: len(daemon.status()["models"]) == 2, "without it")
    assert len(daemon.segments()) == 2 and ids(daemon) == ["m", "other"]
    assert 'model="real"' not in daemon.http.get("/metrics").body.decode()
    assert daemon.ctl("unload", "m").returncode == 0
    daemon.wait_for(lambda: ids(daemon) == ["other"], "with the other one alone")
    assert daemon.http.post("/v1/completions", ASK).ok()["choices"][0]["text"] == second  # it is the only one now
    assert daemon.ctl("load", "m", contents[0]).returncode == 0
    assert daemon.http.post("/v1/completions", {**ASK, "model": "m"}).ok()["choices"][0]["text"] == first


def test_a_load_that_fails_is_the_askers_alone(start, contents, tmp_path):
    (tmp_path / "bad.gguf").write_text("no model")
    daemon = start({"m": contents[0]})
    pids = daemon.worker_pids()
    for path in tmp_path / "bad.gguf", tmp_path / "none.gguf":
        result = daemon.ctl("load", "other", path)
        assert result.returncode == 4 and path.name.encode() in result.stderr, result
        assert ids(daemon) == ["m"] and len(daemon.status()["models"]) == 1
        assert daemon.status()["state"] == "ready" and len(daemon.segments()) == 1
    assert daemon.worker_pids() == pids
    for name, why in ("m", b"there is a model 'm'"), ("a/b", b"the model's name"):
        result = daemon.ctl("load", name, contents[1])
        assert result.returncode == 4 and why in result.stderr, result
    result = daemon.ctl("unload", "other")
    assert result.returncode == 4 and b"there is no model 'other'" in result.stderr


def test_adapters_go_with_their_model(start, contents, tmp_path):
    adapters.write(tmp_path / "a.gguf", contents[0], 1, strength=0.2)
    daemon = start({"m": contents[0], "other": contents[1]})
    daemon.ctl("adapter", "load", "a", tmp_path / "a.gguf", "--model", "m", check=True)
    assert ids(daemon) == ["m", "other", "a"]
    result = daemon.ctl("load", "a", contents[0])
    assert result.returncode == 4 and b"an adapter has the name 'a'" in result.stderr
    daemon.ctl("unload", "m", check=True)
    daemon.wait_for(lambda: ids(daemon) == ["other"], "without both")
    daemon.wait_for(lambda: len(daemon.segments()) == 1, "without their memory")
    assert daemon.status()["adapters"] == []


def test_a_model_that_failed_is_tried_again(start, contents, tmp_path):
    path = tmp_path / "late.gguf"
    daemon = start({"m": contents[0], "late": path}, ready=False)
    daemon.wait_for(lambda: daemon.health()[1] and daemon.health()[1]["status"] == "failed", "failed")
    assert daemon.ctl("reload", "late").returncode == 4
    shutil.copyfile(contents[1], path)
    assert daemon.ctl("reload", "late").stdout == b"model 'late' is served\n"
    assert daemon.http.get("/health").status == 200 and ids(daemon) == ["m", "late"]


# --- adapters ---------------------------------------------------------------------------------------


def test_adapters_go_on_with_the_next_generation(start, contents, tmp_path):
    """They stay loaded, from the same bytes, over the new base; calls with them fail no more than others."""
    adapters.write(tmp_path / "a.gguf", contents[0], 1, strength=0.2)
    served = Served(start, contents[0], tmp_path)
    served.daemon.ctl("adapter", "load", "a", tmp_path / "a.gguf", check=True)
    plain, adapted = served.text(), served.text(model="a")
    copies = served.daemon.status()["adapters"][0]["copies"]
    clients = Clients(served.daemon, 2, {**ASK, "model": "a"})
    try:
        served.put(contents[1])
        served.reload()
        new_plain, new_adapted = served.text(), served.text(model="a")
    finally:
        texts = clients.stop()
    assert len({plain, adapted, new_plain, new_adapted}) == 4
    assert set(texts) <= {adapted, new_adapted}
    after = served.daemon.status()["adapters"][0]
    assert after["state"] == "ready" and [c["segment"] for c in after["copies"]] == [c["segment"] for c in copies]


def test_a_base_that_a_served_adapter_does_not_fit_is_not_taken(start, contents, tiny_wide, tmp_path):
    adapters.write(tmp_path / "a.gguf", contents[0], 1, strength=0.2)
    served = Served(start, contents[0], tmp_path)
    served.daemon.ctl("adapter", "load", "a", tmp_path / "a.gguf", check=True)
    plain, adapted = served.text(), served.text(model="a")
    served.put(tiny_wide)
    said = served.reload(4)
    assert "adapter 'a'" in said and "generation 1 is still served" in said
    assert (served.text(), served.text(model="a")) == (plain, adapted)
    served.daemon.ctl("adapter", "unload", "a", check=True)
    assert "is served" in served.reload()
    assert served.text() != plain


@pytest.fixture(scope="module")
def tiny_wide(tmp_path_factory):
    path = tmp_path_factory.mktemp("wide") / "wide.gguf"
    tool = [sys.executable, weightd.TOP / "tests/tools/tiny_gguf.py"]
    subprocess.run([*tool, "--dim", "256", "--seed", "3", path], check=True)
    return path


# --- deaths -----------------------------------------------------------------------------------------


def kill(daemon, role):
    """kill -9 of a child of this name as soon as there is one, before the parent has heard anything of it."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            if found := daemon.children(role):
                os.kill(found[0], signal.SIGKILL)
                return
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        time.sleep(0.005)
    raise AssertionError(f"no {role} to be killed:\n{daemon.log()[-3000:]}")


def reloading(served):
    return subprocess.Popen(
        [served.daemon.build / "weightctl", "--config", served.daemon.config, "reload", "m"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_the_loader_is_killed(start, contents, gemma3, tmp_path):
    served = Served(start, contents[0], tmp_path)
    first = served.text()
    served.put(gemma3)
    clients = Clients(served.daemon, 2, ASK)
    try:
        command = reloading(served)
        kill(served.daemon, "loader")
        out, err = command.communicate(timeout=60)
        assert command.returncode == 4 and b"killed by signal 9" in err, (out, err)
    finally:
        assert set(clients.stop()) == {first}
    served.wait_settled()
    assert "is served" in served.reload()


def test_a_worker_that_comes_is_killed(start, contents, gemma3, tmp_path):
    """It is started again, and the flip waits for it."""
    served = Served(start, contents[0], tmp_path)
    first = served.text()
    served.put(gemma3)
    clients = Clients(served.daemon, 2, ASK)
    try:
        command = reloading(served)
        kill(served.daemon, "worker 1")
        out, err = command.communicate(timeout=60)
        assert command.returncode == 0, (out, err, served.daemon.log())
    finally:
        texts = set(clients.stop())
    assert texts <= {first, served.text()} and first in texts
    served.wait_settled()


def test_the_front_is_killed(start, contents, gemma3, tmp_path):
    """While a generation comes: the new front knows of both, and of the flip that follows."""
    served = Served(start, contents[0], tmp_path)
    first = served.text()
    served.put(gemma3)
    command = reloading(served)
    served.daemon.wait_for(lambda: "change" in served.model(), "a generation that comes")
    kill(served.daemon, "front")
    out, err = command.communicate(timeout=60)
    assert command.returncode == 0, (out, err)
    served.daemon.wait_ready()
    assert served.text() != first
    served.wait_settled()


def test_the_front_is_killed_while_the_generation_before_goes(start, model, gemma3, tmp_path):
    """Its calls are gone with the front, so nothing keeps the old workers."""
    served = Served(start, model, tmp_path, {"context_tokens": 1024})
    whole = served.text()
    served.put(gemma3)
    begun = threading.Event()

    def read():
        with contextlib.suppress(Exception):
            for _ in served.daemon.http.stream("/v1/completions", {**ASK, "max_tokens": 900}):
                begun.set()

    call = threading.Thread(target=read)
    call.start()
    assert begun.wait(60)
    served.reload()
    assert served.model()["change"]["state"] == "leaving"
    kill(served.daemon, "front")
    served.wait_settled()
    call.join()
    served.daemon.wait_ready()
    assert not whole.startswith(served.text())


def test_an_old_worker_is_killed_while_it_goes(start, model, gemma3, tmp_path):
    """Its call ends with an error, as with any worker; nobody else notices, and it is not replaced."""
    served = Served(start, model, tmp_path, {"context_tokens": 1024})
    served.put(gemma3)
    ended = []

    def read():
        with contextlib.suppress(AssertionError):  # the stream ends with the error
            for event in served.daemon.http.stream("/v1/completions", {**ASK, "max_tokens": 900}):
                ended.append(event)

    call = threading.Thread(target=read)
    call.start()
    served.daemon.wait_for(lambda: ended, "a running call")
    served.reload()
    kill(served.daemon, "worker 0")
    call.join()
    assert "error" in ended[-1], ended[-1]
    served.wait_settled()
    assert served.text()


def test_the_parent_is_killed_in_between(start, contents, tmp_path):
    """The next one adopts whichever generation is of the file as it is now, and nothing of another one stays."""
    served = Served(start, contents[0], tmp_path)
    served.put(contents[1])
    served.reload()
    second = served.text()
    served.wait_settled()
    served.daemon.process.kill()
    served.daemon.process.wait()
    again = start({"m": served.path}, {"instance": served.daemon.instance}, ready=False)
    again.instance = served.daemon.instance
    served.daemon.clean()
    served.daemon = again
    again.wait_ready()
    status = again.status()
    assert status["models"][0]["adopted"] and status["models"][0]["generation"] == 2
    assert served.text() == second
    assert "generation 3" in served.reload()
