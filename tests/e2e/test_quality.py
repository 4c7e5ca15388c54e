"""What the numerics cost, held against an exact pass (float32 products over the dequantised weights, float64 softmax) over the
whole vocabulary: the mean Kullback-Leibler divergence per position, for rows that prompts make and for rows that answers make,
keys and values in bfloat16, or int8, included."""

import json
import subprocess
import sys

import numpy as np
import pytest

import weightd

sys.path.insert(0, str(weightd.TOP / "tests/tools"))
import exact_reference  # noqa: E402
import requantize  # noqa: E402

ENGINE = weightd.BUILD / "tests/bench/bench_engine"  # make tests/bench/bench_engine
BOUND = 0.0005  # nats
KV_INT8_BOUND = 0.0012  # measured, prompts and answers: SmolLM2 0.0007 and 0.0006 of 512 tokens, Gemma 3 0.0005 and 0.0003 of 256
SHORT = ("Q4_0", "Q8_0", "F16")
LONG = ("BF16", "Q4_1", "Q5_0", "Q5_1")
# Files, and the mean KL of llama.cpp, whose activations have 8 bits, over the same prompts.
PULLED = {"smollm2-135m-instruct-q4_1": (weightd.MODEL_FILE, 0.0042), "gemma3-270m-q4_k_m": ("gemma3-270m.gguf", 0.0017)}


def recorded_ids(name, n_tokens):
    """Token ids of recorded prompts and answers, one after the other."""
    golden = json.loads((weightd.TOP / f"tests/golden/{name}.json").read_text())
    ids = [token for row in golden["greedy"] + golden["chat"] for token in row["prompt_ids"] + row["tokens"]]
    while len(ids) < n_tokens:
        ids += ids
    return ids[:n_tokens]


def divergences(path, ids, exact, tmp_path, n_from, *options):
    """KL(exact || ours) of every position; those from n_from on by way of answers."""
    logits = tmp_path / "logits"
    words = ["--tokens", ",".join(map(str, ids)), "--from", str(n_from), "--logits", logits, *options]
    subprocess.run([ENGINE, path, *words], check=True, timeout=600)
    ours = np.memmap(logits, np.float32, "r").reshape(len(ids), -1)
    found = []
    for p, q in zip(exact, ours):
        p, q = p.astype(np.float64), q.astype(np.float64)
        q = q - (q.max() + np.log(np.exp(q - q.max()).sum()))
        found.append(float((np.exp(p) * (p - q)).sum()))
    logits.unlink()
    return np.array(found)


def judge(path, ids, tmp_path, record, bound=BOUND, options=()):
    exact = exact_reference.model(path)(ids)
    for phase, n_from in (("prefill", len(ids)), ("decode", 1)):
        found = divergences(path, ids, exact, tmp_path, n_from, *options)[1:]
        record(f"mean KL, {phase}", round(float(found.mean()), 6), "nats")
        print(f"{path.name} {phase}: mean KL {found.mean():.6f}, largest {found.max():.6f} of {len(found)} positions")
        assert 0 < found.mean() <= bound


@pytest.fixture(scope="module")
def requantized(model, tmp_path_factory):
    directory = tmp_path_factory.mktemp("requantized")

    def make(kind):
        path = directory / f"smollm2-{kind}.gguf"
        requantize.requantize(model, requantize.GGMLQuantizationType[kind], path)
        return path

    return make


def pytest_generate_tests(metafunc):
    """A part of the matrix in every run, all of it in a long one."""
    long = metafunc.config.getoption("long")
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", SHORT + LONG if long else SHORT)
    if "pulled" in metafunc.fixturenames:
        metafunc.parametrize("pulled", PULLED if long else {"smollm2-135m-instruct-q4_1"})
    if "kept" in metafunc.fixturenames:
        metafunc.parametrize("kept", PULLED if long else {"smollm2-135m-instruct-q4_1"})
    if "int8" in metafunc.fixturenames:
        metafunc.parametrize("int8", PULLED)


def test_smollm2(requantized, kind, amount, record, tmp_path):
    path = requantized(kind)
    judge(path, recorded_ids("smollm2-135m-instruct-q4_1", amount(512, 2048)), tmp_path, record)
    path.unlink()


def test_as_pulled(model, pulled, amount, record, tmp_path):
    judge(model.parent / PULLED[pulled][0], recorded_ids(pulled, amount(128, 1024)), tmp_path, record)


def test_kv_int8(model, kept, amount, record, tmp_path):
    """kv_type = int8: what codes for keys and values add is bounded. Without their spreading it would be 0.002."""
    path = model.parent / PULLED[kept][0]
    judge(path, recorded_ids(kept, amount(256, 1024)), tmp_path, record, KV_INT8_BOUND, ["--kv", "int8"])


@pytest.mark.skipif(not weightd.INT8_FLAGS <= weightd.cpu_flags(), reason="this CPU lacks AVX-512 VNNI, VBMI or BF16")
def test_int8(model, int8, amount, record, tmp_path):
    """numerics = int8: no further from the exact pass than llama.cpp is."""
    name, peer = PULLED[int8]
    judge(model.parent / name, recorded_ids(int8, amount(256, 1024)), tmp_path, record, 1.1 * peer, ["--int8"])
