"""Adapters served: loaded, chosen, replaced and unloaded while calls run; each answer is that of its adapter's bytes
alone, and what is unloaded is gone."""

import concurrent.futures
import contextlib
import json
import os
import shutil
import signal
import socket
import threading
import time

import pytest

import adapters
import weightd
from weightd import proc_figures

PROMPTS = ["Once upon a time", "The sea is", "def main():", "A list of colours:"]


@pytest.fixture(scope="module")
def files(model, tmp_path_factory):
    """A directory of adapters for the default model, each with its own voice."""
    directory = tmp_path_factory.mktemp("adapters")
    for seed, name in enumerate(["cs", "sales", "third"]):
        adapters.write(directory / f"{name}.gguf", model, seed)
    adapters.write(directory / "none.gguf", model, 7, alpha=0)
    return directory


@pytest.fixture(scope="module")
def served(model, files):
    """A daemon to which adapters come and go over HTTP; each test leaves it as it was."""
    with weightd.running({"smollm2": model}, {"adapter_dir": files, "max_queue": 64}) as daemon:
        yield daemon
        assert names(daemon) == ["smollm2"]


@pytest.fixture
def loaded(served):
    """loaded(NAME...) loads adapters for one test."""
    mine = []

    def load_all(*which):
        for name in which:
            load(served, name)
            mine.append(name)

    yield load_all
    for name in mine:
        if name in names(served):
            unload(served, name)
    wait_clean(served)


def load(daemon, name, path=None, **more):
    return daemon.http.post(
        "/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(path or f"{name}.gguf"), **more}
    ).ok()


def unload(daemon, name):
    return daemon.http.post("/v1/unload_lora_adapter", {"lora_name": name}).ok()


def names(daemon):
    return [entry["id"] for entry in daemon.http.get("/v1/models").ok()["data"]]


def entries(daemon):
    return {entry["name"]: entry for entry in daemon.status()["adapters"]}


def wait_clean(daemon):
    """No adapter, and no object but the models' own."""
    daemon.wait_for(lambda: not daemon.status()["adapters"], "without adapters")
    models = {copy["segment"] for model in daemon.status()["models"] for copy in model["copies"]}
    daemon.wait_for(lambda: {"/" + os.path.basename(s) for s in daemon.segments()} == models, "without their segments")


def body(prompt, **more):
    return {"prompt": prompt, "max_tokens": 40, "ignore_eos": True, "temperature": 0, "return_token_ids": True, **more}


def tokens(http, prompt, **more):
    return http.post("/v1/completions", body(prompt, **more)).ok()["choices"][0]["token_ids"]


def all_tokens(http, **more):
    return {prompt: tokens(http, prompt, **more) for prompt in PROMPTS}


def test_load_choose_unload(served):
    http = served.http
    base = all_tokens(http)
    card = load(served, "cs")
    assert card["id"] == "cs" and card["parent"] == "smollm2" and card["root"] == "cs.gguf", card
    assert card in http.get("/v1/models").ok()["data"] and card == http.get("/v1/models/cs").ok()
    model = http.get("/v1/models/smollm2").ok()
    assert model["parent"] is None and model["root"] == "smollm2" and model["context_tokens"] == card["context_tokens"]

    as_model = http.post("/v1/completions", body(PROMPTS[0], model="cs")).ok()
    as_field = http.post("/v1/completions", body(PROMPTS[0], model="smollm2", adapter="cs")).ok()
    assert as_model["model"] == as_field["model"] == "cs"
    assert as_model["choices"] == as_field["choices"]
    assert as_model["choices"][0]["token_ids"] == tokens(http, PROMPTS[0], adapter="cs")
    assert as_model["choices"][0]["token_ids"] != base[PROMPTS[0]]
    chat = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "temperature": 0}
    assert http.post("/v1/chat/completions", {**chat, "model": "cs"}).ok()["model"] == "cs"
    assert http.post("/tokenize", {"content": "Hello", "model": "cs"}).ok() == http.post(
        "/tokenize", {"content": "Hello"}
    ).ok()

    entry = entries(served)["cs"]
    assert entry["state"] == "ready" and entry["model"] == "smollm2" and len(entry["digest"]) == 32
    for copy in entry["copies"]:
        assert copy["pages"] == copy["on_node"] > 0 and copy["placement"] == "verified"
        assert os.stat("/dev/shm" + copy["segment"]).st_size == copy["bytes"]

    assert unload(served, "cs") == {"id": "cs", "object": "model", "deleted": True}
    assert http.post("/v1/completions", body("Hi", model="cs")).error(404)["code"] == "model_not_found"
    assert http.post("/v1/completions", body("Hi", adapter="cs")).error(404)["code"] == "adapter_not_found"
    http.get("/v1/models/cs").error(404)
    assert all_tokens(http) == base
    wait_clean(served)


def test_what_does_not_belong_together(served, loaded):
    loaded("cs", "sales")
    ask = served.http.post
    assert ask("/v1/completions", body("Hi", model="cs", adapter="sales")).error(400)["param"] == "adapter"
    assert ask("/v1/completions", body("Hi", model="nobody", adapter="sales")).error(404)["param"] == "model"
    ask("/v1/completions", body("Hi", model="cs", adapter="cs")).ok()


def test_company(served, loaded):
    """Two adapters and the base in one batch, while a third comes and goes every 30 ms."""
    loaded("cs", "sales")
    http = served.http
    voices = {None: {}, "cs": {"adapter": "cs"}, "sales": {"adapter": "sales"}}
    requests = [(voice, prompt, seed) for voice in voices for prompt in PROMPTS[:2] for seed in (None, 5)]

    def answer(request):
        voice, prompt, seed = request
        sampled = {} if seed is None else {"temperature": 0.8, "seed": seed}
        return tokens(http, prompt, **voices[voice], **{"max_tokens": 60, **sampled})

    alone = {request: answer(request) for request in requests}
    assert len({tuple(found) for found in alone.values()}) == len(requests)
    done, rounds = threading.Event(), 0

    def come_and_go():
        nonlocal rounds
        while not done.is_set():
            load(served, "third")
            time.sleep(0.015)  # the rhythm is the test's
            unload(served, "third")
            time.sleep(0.015)
            rounds += 1

    with concurrent.futures.ThreadPoolExecutor(1 + len(requests)) as pool:
        third = pool.submit(come_and_go)
        for _ in range(2):
            together = dict(zip(requests, pool.map(answer, requests)))
            assert together == alone
        done.set()
        third.result()
    assert rounds >= 5, rounds


def test_no_strength_is_the_base(served, loaded):
    """alpha = 0: the same bytes, log-probabilities to the last digit."""
    loaded("none")

    def choices(**more):
        return served.http.post("/v1/completions", body(PROMPTS[0], logprobs=5, echo=True, **more)).ok()["choices"]

    assert choices(adapter="none") == choices()


def streamed(http, started, **more):
    """The tokens of an answer that takes a while; `started` is set at its first one."""
    found = []
    for event in http.stream("/v1/completions", body(PROMPTS[0], **{"max_tokens": 400, **more})):
        found += event["choices"][0].get("token_ids") or []
        if found:
            started.set()
    return found


@contextlib.contextmanager
def streaming(served, **more):
    """A stream that is under way; hands out its future tokens."""
    started = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        stream = pool.submit(streamed, served.http, started, **more)
        assert started.wait(60)
        yield stream


def test_same_name_new_bytes(served, loaded):
    """Calls keep the bytes that the name stood for when they came."""
    loaded("cs", "sales")
    http = served.http
    long_cs = tokens(http, PROMPTS[0], adapter="cs", max_tokens=400)
    cs, sales = all_tokens(http, adapter="cs"), all_tokens(http, adapter="sales")
    assert cs != sales
    error = http.post("/v1/load_lora_adapter", {"lora_name": "cs", "lora_path": "sales.gguf"}).error(409)
    assert error["param"] == "lora_name"
    with streaming(served, adapter="cs") as stream:
        load(served, "cs", "sales.gguf", load_inplace=True)
        assert all_tokens(http, adapter="cs") == sales
        assert not stream.done()
        assert [e["state"] for e in served.status()["adapters"] if e["name"] == "cs"] == ["unloaded, in use", "ready"]
        assert stream.result() == long_cs
    served.wait_for(lambda: len(served.status()["adapters"]) == 2, "without the old bytes")
    assert entries(served)["cs"]["digest"] == entries(served)["sales"]["digest"]


def test_unload_while_in_use(served, loaded):
    loaded("cs")
    long = tokens(served.http, PROMPTS[0], adapter="cs", max_tokens=400)
    with streaming(served, adapter="cs") as stream:
        unload(served, "cs")
        served.http.post("/v1/completions", body("Hi", adapter="cs")).error(404)
        assert not stream.done()
        assert entries(served)["cs"]["state"] == "unloaded, in use"
        assert stream.result() == long
    wait_clean(served)


def test_a_client_that_leaves_keeps_nothing(served, loaded):
    loaded("cs")
    with contextlib.closing(served.http.stream("/v1/completions", body("Hi", max_tokens=4000, adapter="cs"))) as stream:
        next(stream)
        unload(served, "cs")
    wait_clean(served)


@pytest.mark.parametrize("role", ["worker", "front"])
def test_a_death_loses_no_adapter(served, loaded, role):
    loaded("cs", "sales")
    cs, sales = all_tokens(served.http, adapter="cs"), all_tokens(served.http, adapter="sales")
    (pid,) = served.children(role)
    with contextlib.suppress(AssertionError, OSError), streaming(served, adapter="cs"):
        unload(served, "sales")
        os.kill(pid, signal.SIGKILL)
    served.wait_for(lambda: served.children(role) not in ([], [pid]), f"with a new {role}")
    served.wait_all_ready()
    assert names(served) == ["smollm2", "cs"]
    assert all_tokens(served.http, adapter="cs") == cs
    loaded("sales")
    assert all_tokens(served.http, adapter="sales") == sales


@pytest.mark.parametrize("victim", ["adapter loader", "worker", "front"])
def test_a_death_in_the_middle_of_a_load(start, model, files, tmp_path, victim):
    """It fails cleanly or completes; the loader is held where it is, so that there is a middle."""
    directory = tmp_path / "dir"
    directory.mkdir()
    adapters.write(directory / "big.gguf", model, 1, rank=64)
    daemon = start({"smollm2": model}, {"adapter_dir": directory})
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(
            daemon.http.post, "/v1/load_lora_adapter", {"lora_name": "big", "lora_path": "big.gguf"}
        )
        loader = None
        while not loader and not answer.done():
            loader = daemon.roles().get("adapter loader")
        assert loader, "it was too fast to be seen"
        os.kill(loader, signal.SIGSTOP)
        os.kill(daemon.children(victim)[0], signal.SIGKILL)
        if victim == "adapter loader":
            error = answer.result().error(500)
            assert "killed by signal 9" in error["message"]
            wait_clean(daemon)
            load(daemon, "big")
        elif victim == "worker":
            daemon.wait_for(lambda: daemon.status()["workers"][0]["restarts"] == 1, "with a new worker")
            os.kill(loader, signal.SIGCONT)
            answer.result().ok()
        else:
            os.kill(loader, signal.SIGCONT)
            with pytest.raises(OSError):
                answer.result()
            daemon.wait_for(lambda: "big" in entries(daemon) and entries(daemon)["big"]["state"] == "ready", "loaded")
    daemon.wait_all_ready()
    assert names(daemon) == ["smollm2", "big"]
    tokens(daemon.http, "Hi", adapter="big")


def private(daemon):
    return sum(f["RssAnon"] + f["VmPTE"] for f in (proc_figures(pid, "status") for pid in daemon.processes()))


def test_memory_comes_back(served, loaded):
    http = served.http

    def round_trip():
        load(served, "third")
        tokens(http, "Hi", adapter="third")
        unload(served, "third")

    for _ in range(5):
        round_trip()
    wait_clean(served)
    before = private(served)
    for _ in range(60):
        round_trip()
    wait_clean(served)
    slack = 8 << 20 if not weightd.SANITIZED else 64 << 20
    served.wait_for(lambda: private(served) < before + slack, "as small as before")
    for pid in served.children("worker"):
        lines = [line for line, _ in weightd.mappings(pid) if ".third." in line]
        assert not lines, lines


def test_prefix_cache_keeps_adapters_apart(start, model, files):
    prompt = "A few of the many ways in which numbers can be written: " + ", ".join(str(n * n) for n in range(50))
    voices = [{}, {"adapter": "cs"}, {"adapter": "sales"}]
    answers = {}
    for cache in "off", "64M":
        daemon = start({"smollm2": model}, {"adapter_dir": files, "prefix_cache_bytes": cache})
        load(daemon, "cs")
        load(daemon, "sales")
        answers[cache] = [
                daemon.http.post("/v1/completions", body(prompt, logprobs=3, **{"max_tokens": 8, **voice})).ok()["choices"]
                for _ in range(2)
                for voice in voices
            ]
        reused = weightd.metric(daemon, "weightd_prefix_tokens_total")
        assert (reused > 0) == (cache != "off")
    assert answers["off"] == answers["64M"]
    assert len({json.dumps(answer) for answer in answers["off"]}) == len(voices)


# --- who may load what ------------------------------------------------------------------------------


@pytest.fixture
def hostile(files, tmp_path):
    """Paths in the directory that lead nowhere good."""
    outside = tmp_path / "outside.gguf"
    shutil.copy(files / "cs.gguf", outside)
    made = {
        "link-out.gguf": lambda at: at.symlink_to(outside),
        "link-up.gguf": lambda at: at.symlink_to("../" * 20 + str(outside)),
        "loop.gguf": lambda at: at.symlink_to(at.name),
        "folder": lambda at: at.mkdir(),
        "fifo.gguf": lambda at: os.mkfifo(at),
        "empty.gguf": lambda at: at.write_bytes(b""),
        "text.gguf": lambda at: at.write_text("adapter"),
        "theirs.gguf": lambda at: (shutil.copy(files / "cs.gguf", at), os.chown(at, 12345, 12345)),
        "socket.gguf": lambda at: socket.socket(socket.AF_UNIX).bind(str(at)),
        "cut.gguf": lambda at: at.write_bytes((files / "cs.gguf").read_bytes()[:-4096]),
    }
    for name, make in made.items():
        make(files / name)
    yield outside
    for name in made:
        at = files / name
        at.rmdir() if name == "folder" else at.unlink()


def test_hostile_paths(served, hostile, model):
    expected = {
        "": 400,
        "nothing.gguf": 404,
        "cs.gguf/more": 404,
        "../outside.gguf": 403,
        "folder/../../outside.gguf": 403,
        str(hostile): 403,
        "/etc/passwd": 403,
        "/": 403,
        ".": 404,
        "..": 403,
        "link-out.gguf": 403,
        "link-up.gguf": 403,
        "loop.gguf": 400,
        "folder": 404,
        "fifo.gguf": 400,
        "socket.gguf": 400,
        "empty.gguf": 400,
        "text.gguf": 400,
        "cut.gguf": 400,
        "theirs.gguf": 403,
        "a" * 300: 400,
        "x/" * 400 + "y": 404,
        "\n": 404,
        "a\0b": 400,
    }
    for path, status in expected.items():
        answer = served.http.post("/v1/load_lora_adapter", {"lora_name": "bad", "lora_path": path})
        error = answer.error(status)
        assert error["param"] == "lora_path", (path, error)
    wait_clean(served)
    load(served, "cs", served_path(served, "cs.gguf"))  # the whole path, beneath the directory, is as good
    unload(served, "cs")
    wait_clean(served)


def served_path(served, name):
    for line in served.config.read_text().splitlines():
        if line.startswith("adapter_dir = "):
            return line.partition(" = ")[2] + "/" + name
    raise AssertionError("no adapter_dir")


@pytest.mark.parametrize(
    "target, sent, status",
    [
        ("load", "", 400),
        ("load", "[]", 400),
        ("load", "{}", 400),
        ("load", {"lora_name": "x"}, 400),
        ("load", {"lora_path": "cs.gguf"}, 400),
        ("load", {"lora_name": 1, "lora_path": "cs.gguf"}, 400),
        ("load", {"lora_name": "", "lora_path": "cs.gguf"}, 400),
        ("load", {"lora_name": "../x", "lora_path": "cs.gguf"}, 400),
        ("load", {"lora_name": "a b", "lora_path": "cs.gguf"}, 400),
        ("load", {"lora_name": "ä", "lora_path": "cs.gguf"}, 400),
        ("load", {"lora_name": "x" * 49, "lora_path": "cs.gguf"}, 400),
        ("load", {"lora_name": "x", "lora_path": "cs.gguf", "load_inplace": 1}, 400),
        ("load", {"lora_name": "x", "lora_path": "cs.gguf", "model": "smollm2"}, 400),
        ("load", {"lora_name": "x", "lora_path": "cs.gguf", "base_model_name": "nobody"}, 404),
        ("load", {"lora_name": "x", "lora_path": "cs.gguf", "is_3d_lora_weight": True}, 400),
        ("load", {"lora_name": "smollm2", "lora_path": "cs.gguf"}, 409),
        ("unload", {}, 400),
        ("unload", {"lora_name": "x"}, 404),
        ("unload", {"lora_name": "smollm2"}, 404),
        ("unload", {"lora_name": "x", "lora_path": "cs.gguf"}, 400),
    ],
)
def test_hostile_bodies(served, target, sent, status):
    served.http.post(f"/v1/{target}_lora_adapter", sent).error(status)
    served.http.get(f"/v1/{target}_lora_adapter").error(405)


def test_nothing_over_http_without_a_directory(start, tiny, tmp_path):
    adapters.write(tmp_path / "a.gguf", tiny, 1)
    daemon = start({"tiny": tiny})
    for path in str(tmp_path / "a.gguf"), "a.gguf":
        error = daemon.http.post("/v1/load_lora_adapter", {"lora_name": "a", "lora_path": path}).error(403)
        assert "adapter_dir" in error["message"]
    assert daemon.ctl("adapter", "load", "a", tmp_path / "a.gguf").returncode == 0
    error = daemon.http.post("/v1/unload_lora_adapter", {"lora_name": "a"}).error(403)
    assert "adapter_dir" in error["message"]
    assert names(daemon) == ["tiny", "a"]


def test_no_more_than_may_be(start, tiny, tmp_path):
    for name in "abc":
        adapters.write(tmp_path / f"{name}.gguf", tiny, ord(name))
    daemon = start({"tiny": tiny}, {"adapter_dir": tmp_path, "max_adapters": 2})
    load(daemon, "a")
    load(daemon, "b")
    error = daemon.http.post("/v1/load_lora_adapter", {"lora_name": "c", "lora_path": "c.gguf"}).error(409)
    assert "max_adapters" in error["message"] and error["code"] == "too_many_adapters"
    load(daemon, "a", "c.gguf", load_inplace=True)  # takes no place of its own
    unload(daemon, "b")
    load(daemon, "c")
    assert names(daemon) == ["tiny", "a", "c"]


def test_several_models(start, model, tiny, tmp_path):
    adapters.write(tmp_path / "a.gguf", tiny, 1)
    daemon = start({"smollm2": model, "tiny": tiny}, {"adapter_dir": tmp_path})
    wish = {"lora_name": "a", "lora_path": "a.gguf"}
    assert daemon.http.post("/v1/load_lora_adapter", wish).error(400)["param"] == "base_model_name"
    error = daemon.http.post("/v1/load_lora_adapter", {**wish, "base_model_name": "smollm2"}).error(400)
    assert error["param"] == "lora_path", error  # its shapes are another model's
    card = load(daemon, "a", base_model_name="tiny")
    assert card["parent"] == "tiny"
    assert tokens(daemon.http, "Hi", model="a") != tokens(daemon.http, "Hi", model="tiny")
    error = daemon.http.post("/v1/completions", body("Hi", model="smollm2", adapter="a")).error(400)
    assert error["param"] == "adapter" and "for model 'tiny'" in error["message"]


# --- settings and weightctl -------------------------------------------------------------------------


def test_adapters_of_the_settings(start, tiny, tmp_path):
    adapters.write(tmp_path / "a.gguf", tiny, 1)
    (tmp_path / "b.gguf").write_text("no adapter")
    daemon = start({"tiny": tiny}, adapters={"a": tmp_path / "a.gguf"})
    assert names(daemon) == ["tiny", "a"]  # as soon as it is ready
    said = tokens(daemon.http, "Hi", adapter="a")
    daemon.process.send_signal(signal.SIGKILL)  # a restart loads it again
    daemon.process.wait()
    again = start({"tiny": tiny}, {"instance": daemon.instance}, adapters={"a": tmp_path / "a.gguf"})
    daemon.clean()
    again.wait_all_ready()
    assert names(again) == ["tiny", "a"] and tokens(again.http, "Hi", adapter="a") == said
    assert len(again.status()["adapters"]) == 1

    broken = start({"tiny": tiny}, adapters={"a": tmp_path / "a.gguf", "b": tmp_path / "b.gguf"}, ready=False)
    broken.wait_for(lambda: broken.health()[0] == 503 and broken.health()[1]["status"] == "failed", "failed")
    assert "adapter 'b'" in broken.health()[1]["message"]
    broken.wait_for(lambda: names(broken) == ["tiny", "a"], "serving the rest")
    assert tokens(broken.http, "Hi", adapter="a") == said
    assert broken.ctl("status").returncode == 1
    assert entries(broken)["b"]["state"] == "failed" and entries(broken)["b"]["error"]
    adapters.write(tmp_path / "b.gguf", tiny, 2)  # mended
    assert broken.ctl("adapter", "load", "b", tmp_path / "b.gguf").returncode == 0
    broken.wait_ready()
    assert broken.ctl("status").returncode == 0


def test_weightctl(start, tiny, tmp_path):
    path = tmp_path / "with blanks.gguf"
    adapters.write(path, tiny, 1)
    daemon = start({"tiny": tiny})

    def ctl(*arguments, code=0):
        result = daemon.ctl("adapter", *arguments, cwd=tmp_path)
        assert result.returncode == code, result
        return (result.stdout if code == 0 else result.stderr).decode()

    assert ctl("list") == "no adapter is loaded\n" and json.loads(ctl("list", "--json")) == []
    assert "adapter 'a' of model 'tiny' is served" in ctl("load", "a", path.name)  # from the working directory
    assert "is served" in json.loads(ctl("load", "a", path, "--model", "tiny", "--json"))["text"]  # in its place
    lines = ctl("list").splitlines()
    assert lines[0].split() == ["ADAPTER", "MODEL", "STATE", "PATH"] and len(lines) == 2
    assert lines[1].split(None, 3) == ["a", "tiny", "ready", str(path)]
    (entry,) = json.loads(ctl("list", "--json"))
    assert entry["name"] == "a" and entry["copies"][0]["placement"] == "verified"
    status = daemon.ctl("status").stdout.decode()
    assert "ADAPTER" in status and entry["copies"][0]["segment"] in status
    assert "unloaded" in ctl("unload", "a")
    assert ctl("list") == "no adapter is loaded\n"

    assert "there is no adapter of this name" in ctl("unload", "a", code=4)
    assert json.loads(daemon.ctl("adapter", "unload", "a", "--json").stdout)["error"]
    assert "No such file" in ctl("load", "b", "/nonexistent", code=4)
    assert "there is no model of this name" in ctl("load", "b", path, "--model", "nobody", code=4)
    assert "the adapter's name 'b/c'" in ctl("load", "b/c", path, code=4)
    assert "usage: weightctl adapter load" in ctl("load", "b", code=2)
    assert "usage: weightctl adapter unload" in ctl("unload", code=2)
    assert "unknown command 'lod'; known: load, unload, list" in ctl("lod", code=2)
    assert "usage" in ctl("list", "--model", "tiny", code=2)
