"""Every family against an exact float32 pass in numpy (tests/tools/exact_reference.py), on random models that have what
sets the family apart. Random weights make distributions that move with everything, so the same bounds that hold for us
are broken by an oracle that leaves one feature out: each test shows that of each of its features."""

import subprocess
import sys

import numpy as np
import pytest

import weightd

sys.path.insert(0, str(weightd.TOP / "tests/tools"))
import exact_reference  # noqa: E402

N_TOKENS, N_PROMPT = 160, 24
MEDIAN, P99 = 0.03, 0.25  # nats, of the exact pass's first token

# Options of tiny_gguf.py, and what the model would lose.
CASES = {
    "llama": ([], []),
    "llama-linear": (["--rope", "linear"], ["scaling"]),
    "llama-yarn": (["--rope", "yarn"], ["scaling"]),
    "llama-llama3": (["--rope", "llama3"], ["scaling"]),
    "llama-window": (["--window", "40"], ["window"]),
    "qwen2": (["--family", "qwen2"], ["bias", "halves"]),
    "qwen2-yarn": (["--family", "qwen2", "--rope", "yarn"], ["bias", "halves", "scaling"]),
    "qwen3": (["--family", "qwen3", "--head-dim", "64"], ["head_norm", "halves"]),
    "gemma3": (
        ["--family", "gemma3", "--layers", "7", "--window", "32", "--head-dim", "64", "--rope", "linear"],
        ["window", "head_norm", "post_norm", "embedding_scale", "window_base", "gelu", "halves", "scaling"],
    ),
}


def make(tmp_path, options):
    path = tmp_path / "model.gguf"
    tool = weightd.TOP / "tests/tools/tiny_gguf.py"
    subprocess.run([sys.executable, tool, "--type", "Q8_0", "--gain", "4", *options, path], check=True)
    return path


def rows_through_prefill(http, ids, **more):
    """Our distributions after each token but the last, all computed as prompt."""
    answer = http.post(
        "/v1/completions",
        {
            "prompt": ids,
            "max_tokens": 0,
            "echo": True,
            "logprobs": 20,
            "temperature": 0,
            "return_token_ids": True,
            **more,
        },
    ).ok()
    logprobs = answer["choices"][0]["logprobs"]
    assert logprobs["token_ids"] == ids
    return list(zip(logprobs["top_ids"][1:], logprobs["top_values"][1:], strict=True))


def rows_through_decode(http, ids, **more):
    """Those after the prompt's last token and each later one, which are fed one by one."""
    answer = http.post(
        "/v1/completions",
        {
            "prompt": ids[:N_PROMPT],
            "max_tokens": len(ids) - N_PROMPT,
            "logprobs": 20,
            "temperature": 0,
            "forced_token_ids": ids[N_PROMPT:],
            "ignore_eos": True,
            "return_token_ids": True,
            **more,
        },
    ).ok()
    choice = answer["choices"][0]
    assert choice["token_ids"] == ids[N_PROMPT:]
    return list(zip(choice["logprobs"]["top_ids"], choice["logprobs"]["top_values"], strict=True))


def errors(rows, exact):
    """How far off our value for the exact first token is, sorted; infinitely where it is not among our 20."""
    tops = exact.argmax(1)
    return np.sort(
        [
            abs(values[ids.index(top)] - row[top]) if top in ids else np.inf
            for (ids, values), row, top in zip(rows, exact, tops.tolist(), strict=True)
        ]
    )


def holds(found):
    return found[len(found) // 2] <= MEDIAN and found[int(0.99 * len(found))] <= P99


@pytest.mark.parametrize("name", CASES)
def test_family(start, tmp_path, name):
    options, features = CASES[name]
    path = make(tmp_path, options)
    ids = np.random.default_rng(5).integers(3, 512, N_TOKENS).tolist()
    exact = exact_reference.model(path)(ids)
    ordered = np.sort(exact, 1)
    lead = ordered[:, -1] - ordered[:, -2]
    assert (lead > 0.5).mean() >= 0.3  # there is something to get wrong
    http = start({"tiny": path}).http
    prefill, decode = rows_through_prefill(http, ids), rows_through_decode(http, ids)
    for rows, begin in (prefill, 0), (decode, N_PROMPT - 1):
        found = errors(rows, exact[begin:-1])
        print(f"{name} from {begin}: median {found[len(found) // 2]:.4f}, p99 {found[int(0.99 * len(found))]:.4f}")
        assert holds(found)
        for (ours, _), row, by in zip(rows, exact[begin:-1], lead[begin:-1], strict=True):
            assert by <= 0.5 or ours[0] == row.argmax()
        for feature in features:
            without = errors(rows, exact_reference.model(path, (feature,))(ids)[begin:-1])
            print(f"  without {feature}: median {without[len(without) // 2]:.4f}")
            assert not holds(without), f"the test does not see that {feature} is missing"
