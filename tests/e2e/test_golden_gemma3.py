"""As test_golden.py, for Gemma 3 270M in Q4_K_M: another family, k-quants, a SentencePiece vocabulary, no chat template."""

import json

import pytest
from test_golden import check_probabilities, rows_through_decode, rows_through_prefill

import weightd

# Half of llama.cpp's own deviations from the exact pass.
BOUNDS = (0.0057, 0.096, 0.21)


@pytest.fixture(scope="module")
def golden():
    return json.loads((weightd.TOP / "tests/golden/gemma3-270m-q4_k_m.json").read_text())


@pytest.fixture(scope="module")
def http(gemma3):
    with weightd.running({"gemma3": gemma3}) as running:
        yield running.http


def test_tokenize(http, golden):
    for row in golden["tokenize"]:
        parsed = http.post("/tokenize", {"content": row["text"], "add_special": False, "parse_special": True}).ok()
        assert parsed["tokens"] == row["ids_parse_special"], row["text"]
        plain = http.post("/tokenize", {"content": row["text"], "add_special": True, "parse_special": False}).ok()
        assert plain["tokens"] == row["ids_add_special"], row["text"]
    assert len(golden["tokenize"]) == 24


@pytest.mark.parametrize("rows", [rows_through_prefill, rows_through_decode])
def test_probabilities(http, golden, rows):
    assert check_probabilities(http, golden["greedy"], rows, BOUNDS) == 392
