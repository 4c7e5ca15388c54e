"""The definition of every packed kind against PyPI's gguf, on random blocks: each weight to the last bit, and products
with a vector. Needs the built tests/kernel/dequantize (WEIGHTD_BUILD: the build directory); without it the tests fail."""

import os
import pathlib
import subprocess

import numpy as np
import pytest
from gguf import GGMLQuantizationType as T
from gguf import dequantize
from gguf.constants import GGML_QUANT_SIZES

TOP = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("WEIGHTD_BUILD", TOP)) / "tests/kernel/dequantize"
TYPES = "F32 F16 BF16 Q8_0 Q5_1 Q5_0 Q4_1 Q4_0 IQ4_NL Q6_K Q5_K Q4_K Q3_K Q2_K".split()
ROWS = 37  # two whole block rows and a part of a third
# Where a block has its float16 numbers; all its other bytes may be anything.
HALVES = {"Q8_0": [0], "Q5_1": [0, 2], "Q5_0": [0], "Q4_1": [0, 2], "Q4_0": [0], "IQ4_NL": [0], "Q6_K": [208],
          "Q5_K": [0, 2], "Q4_K": [0, 2], "Q3_K": [108], "Q2_K": [80, 82]}  # fmt: skip


def random_rows(rng, name, cols):
    """[ROWS][bytes per row] in the file's form: any codes and sub-scales, float16 numbers of either sign and every size
    (zero, denormal and the largest among them)."""
    values = rng.standard_normal((ROWS, cols)).astype(np.float32)
    if name == "F32":
        return values
    if name == "F16":
        return values.astype(np.float16)
    if name == "BF16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    per, size = GGML_QUANT_SIZES[T[name]]
    n = ROWS * cols // per
    raw = rng.integers(0, 256, (n, size), np.uint8)
    for at in HALVES[name]:
        bits = rng.integers(0, 0x7C00, n).astype(np.uint16)  # below infinity
        bits[::3] = 0x2000 + bits[::3] % 0x1000  # the sizes of real scales
        raw[:, at : at + 2] = (bits | rng.integers(0, 2, n).astype(np.uint16) << 15).view(np.uint8).reshape(n, 2)
    return raw.reshape(ROWS, -1)


@pytest.mark.parametrize("cols", [256, 768, 2048])
@pytest.mark.parametrize("name", TYPES)
def test_weights_and_products(name, cols):
    rng = np.random.default_rng(cols)
    rows, x = random_rows(rng, name, cols), rng.standard_normal(cols).astype(np.float32)
    done = subprocess.run(
        [PROGRAM, name.lower(), str(ROWS), str(cols)], input=rows.tobytes() + x.tobytes(), capture_output=True, check=True
    )
    ours = np.frombuffer(done.stdout, np.float32)
    assert ours.size == ROWS * cols + ROWS
    weights = dequantize(rows, T[name]).astype(np.float32).reshape(ROWS, cols)
    assert np.array_equal(ours[: ROWS * cols].reshape(ROWS, cols), weights)
    # One rounding for each addition that a product passes through; where codes have minima, parts that cancel each other.
    exact = weights.astype(np.float64) @ x
    bound = (cols + 4) * 2.0**-24 * (magnitude(rows, name, weights) @ np.abs(x))
    assert (np.abs(ours[ROWS * cols :] - exact) <= bound).all()


def magnitude(rows, name, weights):
    """|scaled code| + |minimum| of each weight, at least."""
    if len(HALVES.get(name, [])) < 2:
        return np.abs(weights).astype(np.float64)
    per, size = GGML_QUANT_SIZES[T[name]]
    raw = rows.reshape(-1, size).copy()
    at = HALVES[name][1]
    raw[:, at : at + 2] = 0
    scaled = dequantize(raw.reshape(ROWS, -1), T[name]).reshape(weights.shape).astype(np.float64)
    return np.abs(scaled) + np.abs(weights - scaled)
