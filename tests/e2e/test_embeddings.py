"""/v1/embeddings against an exact pass in numpy, and its fields. That vectors depend on their text alone is held where it is
held for answers (test_invariance.py): embeddings are in its repertoire."""

import base64
import struct
import subprocess
import sys

import numpy as np
import pytest

import weightd

sys.path.insert(0, str(weightd.TOP / "tests/tools"))
import exact_reference  # noqa: E402

TEXTS = [
    "The capital of France is Paris.",
    "Paris is the largest city of France, on the Seine.",
    "def fibonacci(n): return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)",
    "Žluťoučký kůň úpěl ďábelské ódy.",
]


def vectors(http, texts, **more):
    answer = http.post("/v1/embeddings", {"input": texts, **more}).ok()
    assert answer["object"] == "list"
    assert [entry["index"] for entry in answer["data"]] == list(range(len(answer["data"])))
    assert all(entry["object"] == "embedding" for entry in answer["data"])
    return [np.array(entry["embedding"], np.float32) for entry in answer["data"]]


def unit(vector):
    return vector / np.sqrt((vector.astype(np.float64) ** 2).sum())


def pooled(states, pooling):
    return unit({"mean": states.mean(0), "last": states[-1], "cls": states[0]}[pooling])


def cosine(a, b):
    return float(unit(a) @ unit(b))


@pytest.fixture(scope="module")
def poolings(tiny):
    """The same model in three ways."""
    models = {name: {"path": tiny, "pooling": name} for name in ("mean", "last", "cls")}
    with weightd.running(models) as running:
        running.wait_all_ready()
        yield running


@pytest.mark.parametrize("pooling", ["mean", "last", "cls"])
def test_exact(poolings, tiny, pooling):
    """Random weights make states that move with everything: what is far off here would be another pooling, a state before
    the norm, or a token more or less."""
    forward, rng = exact_reference.model(tiny), np.random.default_rng(3)
    for n in (1, 2, 31, 32, 33, 64, 300, 700):
        ids = rng.integers(3, 512, n).tolist()
        [ours] = vectors(poolings.http, ids, model=pooling)
        states = forward(ids, states=True)
        assert abs(np.sqrt((ours.astype(np.float64) ** 2).sum()) - 1) < 1e-6
        assert cosine(ours, pooled(states, pooling)) > 0.9995, n
        if n > 2:
            for other in {"mean", "last", "cls"} - {pooling}:
                assert cosine(ours, pooled(states, other)) < 0.99
        shorter = forward(ids[:-1], states=True) if n > 31 else None
        assert shorter is None or pooling == "cls" or cosine(ours, pooled(shorter, pooling)) < cosine(ours, pooled(states, pooling))


def test_real_model(http, model):
    forward = exact_reference.model(model)
    ours = vectors(http, TEXTS)
    for text, vector in zip(TEXTS, ours, strict=True):
        ids = http.post("/tokenize", {"content": text, "add_special": True}).ok()["tokens"]
        assert cosine(vector, pooled(forward(ids, states=True), "mean")) > 0.9999, text
    france, paris, code, _ = ours
    assert cosine(france, paris) > cosine(france, code)


def test_forms_of_input(http):
    """Text or ids, alone or in a list: the same vectors, and base64 says the same bits."""
    ids = [http.post("/tokenize", {"content": text, "add_special": True}).ok()["tokens"] for text in TEXTS]
    expected = vectors(http, TEXTS)
    assert expected[0].shape == (576,)
    for got in (
        vectors(http, ids),
        [vectors(http, text)[0] for text in TEXTS],
        [vectors(http, list_)[0] for list_ in ids],
        vectors(http, TEXTS, encoding_format="float"),
    ):
        assert all((a == b).all() for a, b in zip(expected, got, strict=True))
    answer = http.post("/v1/embeddings", {"input": TEXTS, "encoding_format": "base64", "user": "x"}).ok()
    for entry, vector in zip(answer["data"], expected, strict=True):
        assert struct.unpack("<576f", base64.b64decode(entry["embedding"], validate=True)) == tuple(vector.tolist())
    n_tokens = sum(len(list_) for list_ in ids)
    assert answer["usage"] == {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
    assert answer["model"] == "smollm2"


def test_dimensions(http):
    [whole] = vectors(http, TEXTS[0])
    for n in (1, 2, 3, 256, 575, 576):
        [part] = vectors(http, TEXTS[0], dimensions=n)
        assert part.shape == (n,)
        assert np.allclose(part, unit(whole[:n]), atol=1e-6)
        answer = http.post("/v1/embeddings", {"input": TEXTS[0], "dimensions": n, "encoding_format": "base64"}).ok()
        assert base64.b64decode(answer["data"][0]["embedding"], validate=True) == part.tobytes()
    error = http.post("/v1/embeddings", {"input": TEXTS[0], "dimensions": 577}).error(400)
    assert error["param"] == "dimensions" and "576" in error["message"]


REFUSED = [
    ({}, "input", None),
    ({"input": None}, "input", None),
    ({"input": ""}, "input", None),
    ({"input": []}, "input", None),
    ({"input": 7}, "input", None),
    ({"input": {}}, "input", None),
    ({"input": [None]}, "input", None),
    ({"input": ["a", ""]}, "input[1]", None),
    ({"input": ["a", 1]}, "input[1]", None),
    ({"input": ["a", ["b"]]}, "input[1]", None),
    ({"input": [1, 2, -1]}, "input[2]", None),
    ({"input": [1, 1.5]}, "input[1]", None),
    ({"input": [1, "a"]}, "input[1]", None),
    ({"input": [[1], []]}, "input[1]", None),
    ({"input": [[1], [2, 2**31]]}, "input[1][1]", None),
    ({"input": [[1], [[2]]]}, "input[1][0]", None),
    ({"input": [5, 49152]}, "input", None),
    ({"input": [[5], [49152]]}, "input[1]", None),
    ({"input": ["a"] * 2049}, "input", None),
    ({"input": ["a", "word " * 9000]}, "input[1]", "context_length_exceeded"),
    ({"input": "word " * 9000}, "input", "context_length_exceeded"),
    ({"input": "a", "dimensions": 0}, "dimensions", None),
    ({"input": "a", "encoding_format": "hex"}, "encoding_format", None),
    ({"input": "a", "encoding_format": 1}, "encoding_format", None),
    ({"input": "a", "stream": True}, "stream", "unknown_field"),
    ({"input": "a", "max_tokens": 1}, "max_tokens", "unknown_field"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused(http, number):
    body, param, code = REFUSED[number]
    error = http.post("/v1/embeddings", body).error(400)
    assert error["param"] == param, error
    assert code is None or error["code"] == code


def test_more_texts_than_places(http):
    """As clients send them that embed whole collections: with the vectors that each text has alone."""
    texts = [f"{TEXTS[i % 4]} {i}" for i in range(80)]  # the queue has 64 places
    together = vectors(http, texts)
    for i in (0, 15, 16, 17, 63, 64, 79):
        assert (vectors(http, texts[i])[0] == together[i]).all()
    assert len({vector.tobytes() for vector in together}) == 80


@pytest.fixture(scope="module")
def gemma():
    path = weightd.model_dir() / "gemma3-270m.gguf"
    if not path.exists():
        command = [weightd.WEIGHTCTL, "pull", "gemma3-270m", "--dir", path.parent, "--catalogue", weightd.CATALOGUE]
        subprocess.run(command, check=True)
    return path


def test_gemma(start, gemma):
    """Another family: scaled embeddings, windows, a begin token that counts as a position."""
    http, forward = start({"gemma3": gemma}).http, exact_reference.model(gemma)
    for text, vector in zip(TEXTS[:2], vectors(http, TEXTS[:2]), strict=True):
        ids = http.post("/tokenize", {"content": text, "add_special": True}).ok()["tokens"]
        states = forward(ids, states=True)
        assert cosine(vector, pooled(states, "mean")) > 0.9995, text
        assert cosine(vector, pooled(states[1:], "mean")) < cosine(vector, pooled(states, "mean"))


def test_models(http):
    assert http.post("/v1/embeddings", {"input": "a", "model": "nobody"}).error(404)["param"] == "model"
    assert http.get("/v1/embeddings").status == 405


def test_nothing_is_kept(start, model):
    """Pages go with the call, and a prefix cache sees nothing of it."""
    daemon = start({"smollm2": model}, {"prefix_cache_bytes": "64M"})
    first = vectors(daemon.http, ["word " * 500] * 3)
    assert all((vector == first[0]).all() for vector in first)
    daemon.wait_for(lambda: weightd.metric(daemon, "weightd_calls_total") == 3, "done with them")
    assert weightd.metric(daemon, "weightd_kv_pages_used") == 0
    assert weightd.metric(daemon, "weightd_prefix_tokens_total") == 0
    # Nor does a vector come from what a prompt has left there.
    daemon.http.post("/v1/completions", {"prompt": "word " * 500, "max_tokens": 1}).ok()
    assert weightd.metric(daemon, "weightd_kv_pages_used") > 0
    assert (vectors(daemon.http, "word " * 500)[0] == first[0]).all()
    assert weightd.metric(daemon, "weightd_prefix_tokens_total") == 0
