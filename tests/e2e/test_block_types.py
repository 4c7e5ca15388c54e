"""Every tensor type that this program reads, served whole: embeddings, projections and head of one type, at each level,
held against an exact float32 pass over the weights as PyPI's gguf dequantises them."""

import subprocess
import sys

import pytest

import weightd
from test_golden import supported

sys.path.insert(0, str(weightd.TOP / "tests/tools"))
import exact_reference

TYPES = "F32 F16 BF16 Q8_0 Q5_1 Q5_0 Q4_1 Q4_0 IQ4_NL Q6_K Q5_K Q4_K Q3_K Q2_K".split()
PROMPT = 40  # random tokens, computed as prompt
ANSWER = 24  # and more of them, fed through decode one by one


def ids_of(seed):
    """Tokens of the vocabulary that are neither control tokens nor bytes: a fixed walk."""
    return [259 + (seed * 131 + i * i * 29 + i * 7) % 253 for i in range(PROMPT + ANSWER)]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A file of each type, 512 columns wide in the widest matrix, and what an exact pass says of it."""
    directory, made = tmp_path_factory.mktemp("types"), {}
    for seed, name in enumerate(TYPES):
        path = directory / f"{name}.gguf"
        tool = weightd.TOP / "tests/tools/tiny_gguf.py"
        sizes = ["--dim", "256", "--ffn", "512", "--seed", str(seed), "--untied"]
        subprocess.run([sys.executable, tool, "--type", name, "--embedding-type", name, *sizes, path], check=True)
        made[name] = path, exact_reference.model(path)(ids_of(seed), PROMPT - 1)
    return made


def through_prefill(http, name, ids):
    asked = {"model": name, "prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 20, "return_token_ids": True}
    logprobs = http.post("/v1/completions", asked).ok()["choices"][0]["logprobs"]
    return list(zip(logprobs["top_ids"][PROMPT:], logprobs["top_values"][PROMPT:], strict=True))


def through_decode(http, name, ids):
    asked = {"model": name, "prompt": ids[:PROMPT], "max_tokens": ANSWER, "logprobs": 20, "return_token_ids": True}
    asked |= {"temperature": 0, "forced_token_ids": ids[PROMPT:], "ignore_eos": True}
    logprobs = http.post("/v1/completions", asked).ok()["choices"][0]["logprobs"]
    assert logprobs["token_ids"] == ids[PROMPT:]
    return list(zip(logprobs["top_ids"], logprobs["top_values"], strict=True))


@pytest.mark.parametrize("level", ["auto", "avx2", "ref"])
def test_probabilities(start, models, level):
    if level != "auto" and not supported(level):
        pytest.skip(f"this CPU lacks {level}")
    settings = {} if level == "auto" else {"cpu_level": level}
    daemon = start({name.lower(): path for name, (path, _) in models.items()}, settings)
    daemon.wait_all_ready()
    for seed, (name, (_, exact)) in enumerate(models.items()):
        for rows in through_prefill, through_decode:
            errors = []
            for (top_ids, top_values), row in zip(rows(daemon.http, name.lower(), ids_of(seed)), exact):
                errors += [abs(value - row[id]) for id, value in zip(top_ids, top_values)]
                best = int(row.argmax())
                assert best in top_ids, f"{name} {rows.__name__}: the exact first token {best} is not among our 20"
                second = sorted(row)[-2]
                if row[best] - second > 0.5:
                    assert top_ids[0] == best, f"{name} {rows.__name__}: exactly {best} leads by {row[best] - second:.2f}"
            errors.sort()
            n = len(errors)
            assert n == 20 * ANSWER
            median, p99, worst = errors[n // 2], errors[int(0.99 * n)], errors[-1]
            print(f"{level} {name} {rows.__name__}: median {median:.4f}, p99 {p99:.4f}, max {worst:.4f}")
            # As in test_golden.py: half of llama.cpp's own deviations.
            assert median <= 0.015 and p99 <= 0.11 and worst <= 0.3, f"{name} {rows.__name__}"
