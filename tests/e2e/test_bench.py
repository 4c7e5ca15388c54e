"""weightctl bench: a daemon of its own, a worker that measures itself, and nothing left behind. How fast anything is, is no
test's business; that the figures belong together is."""

import glob
import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

import weightd

FIGURES = (
    "prefill_tokens_per_second",
    "decode_tokens_per_second",
    "prefill_share",
    "decode_share",
    "prefill_overhead_share",
    "decode_overhead_share",
    "read_bytes_per_second",
    "multiply_operations_per_second",
)


def command(*arguments):
    return [weightd.WEIGHTCTL, "bench", *arguments]


def bench(*arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300)


def ask(daemon, line):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(60)
        client.connect(str(daemon.control))
        client.sendall(line.encode() + b"\n")
        return json.loads(b"".join(iter(lambda: client.recv(65536), b"")))


def left_behind():
    """Directories and shared memory of benches; memfds go with their processes."""
    return glob.glob("/tmp/weightctl-bench-*") + glob.glob("/dev/shm/weightd.bench-*")


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = set(left_behind())
    yield
    assert set(left_behind()) <= before


def test_figures(model):
    done = bench("--model", model, "--prompt", "48", "--generate", "6", "--streams", "3", "--depth", "40", "--rounds", "3", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [said[key] for key in ("prompt", "generate", "streams", "depth", "rounds")] == [48, 6, 3, 40, 3]
    for key in FIGURES:
        least, most = said["ranges"][key]
        assert 0 < least <= said[key] <= most, key
    # Timed parts of what was timed.
    assert said["ranges"]["prefill_overhead_share"][1] < 1 and said["ranges"]["decode_overhead_share"][1] < 1
    # Counted, so the same in every round; attention is not oneDNN's. Without AVX2 nothing is.
    least, most = said["ranges"]["prefill_library_share"]
    assert least == most == said["prefill_library_share"]
    assert 0.9 < least < 1 if "avx2" in Path("/proc/cpuinfo").read_text() else least == 0
    # All matrices are in the file, packed as they are stored there.
    assert 0.8 * os.path.getsize(model) < said["weight_bytes"] < 1.1 * os.path.getsize(model)


def test_table(model):
    done = bench("--model", model, "--prompt", "16", "--generate", "4", "--rounds", "1", "--threads", "1")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(os.path.realpath(model)) and "1 rounds" in lines[0]
    assert sum("tokens/s" in line for line in lines) == 2


@pytest.mark.parametrize(
    "arguments, status, words",
    [
        ((), 2, "--model"),
        (("--model", "/nowhere.gguf"), 2, "/nowhere.gguf"),
        (("--model", "/etc/passwd"), 1, "not a GGUF file"),
        (("--prompt", "0"), 2, "--prompt"),
        (("--streams", "33"), 2, "--streams"),
        (("--rounds", "1x"), 2, "--rounds"),
        (("--threads", "99999999999"), 2, "--threads"),
        (("--max-tokens", "4"), 2, "does not go with 'bench'"),
    ],
)
def test_refused(arguments, status, words):
    done = bench(*arguments)
    assert (done.returncode, words in done.stderr) == (status, True), done.stderr
    assert not done.stdout


def test_beyond_the_context(model):
    done = bench("--model", model, "--depth", "1000000")
    assert done.returncode == 4 and "context" in done.stderr, done.stderr


def test_interrupted(model):
    """Before it is ready or while it measures: its daemon ends with it."""
    before = set(left_behind())
    with subprocess.Popen(command("--model", model, "--prompt", "4000", "--rounds", "100")) as ctl:
        while set(left_behind()) <= before:
            assert ctl.poll() is None
        ctl.send_signal(signal.SIGINT)
        assert ctl.wait(60) == 130


def test_calls_come_first(daemon):
    """A daemon that serves: its worker measures itself only while it has nothing to do."""
    assert ask(daemon, "bench 8 2 1 0")["decode_steps"] == 2
    stream = daemon.http.stream("/v1/completions", {"prompt": "once", "max_tokens": 2000, "ignore_eos": True})
    next(stream)
    assert "has calls" in ask(daemon, "bench 8 2 1 0")["error"]
    stream.close()
    daemon.wait_for(lambda: "error" not in ask(daemon, "bench 8 2 1 0"), "idle")
    assert "usage" in ask(daemon, "bench 1 2 3")["error"]
    assert "max_running" in ask(daemon, "bench 8 2 99 0")["error"]


def test_quality(model, tmp_path):
    """Predictions in bfloat16 lie near those in float32; and the text decides, so another one is another figure."""
    text = tmp_path / "text"
    said = []
    for words in ("The sea is wide, and the ships on it are small. ", "Bread is made of flour, water and salt. "):
        text.write_text(words * 3)
        done = bench("--model", model, "--quality", text, "--json")
        assert done.returncode == 0, done.stderr
        said.append(json.loads(done.stdout))
    for judgement in said:
        assert judgement["positions"] > 20
        for phase in ("prefill", "decode"):
            assert 0 < judgement[phase]["mean_kl"] < 0.0005
            assert judgement[phase]["mean_kl"] <= judgement[phase]["max_kl"]
            assert judgement[phase]["perplexity"] == pytest.approx(judgement["reference_perplexity"], rel=0.02)
    assert said[0]["reference_perplexity"] != said[1]["reference_perplexity"]


@pytest.mark.parametrize(
    "content, status, words",
    [(None, 1, "No such file"), (b"", 4, "2 to"), (b"\xff\xfe", 1, "UTF-8")],
)
def test_quality_of_no_text(tiny, tmp_path, content, status, words):
    text = tmp_path / "text"
    if content is not None:
        text.write_bytes(content)
    done = bench("--model", tiny, "--quality", text)
    assert (done.returncode, words in done.stderr) == (status, True), done.stderr
