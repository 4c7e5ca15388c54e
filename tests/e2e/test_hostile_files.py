"""Model files that are not what they claim: one line that names the place, no crash, nothing left in shared memory, and
the daemon says that loading failed. The unit tests and the fuzzer go through far more of them; here the whole path is
tested."""

import re
import struct

import pytest

# Value types of GGUF metadata.
UINT32, STRING, ARRAY = 4, 8, 9


def find(data, text):
    at = data.index(text)
    assert at > 0
    return at


def patched(data, at, value):
    return data[:at] + value + data[at + len(value) :]


def key_value(data, key):
    """Offset of a key's value (after its type)."""
    return find(data, struct.pack("<Q", len(key)) + key) + 8 + len(key) + 4


def tensor_field(data, name, field):
    """Offset of a tensor's dimension count, first dimension, type or offset."""
    at = find(data, struct.pack("<Q", len(name)) + name) + 8 + len(name)
    n_dims = struct.unpack_from("<I", data, at)[0]
    return at + {"dims": 0, "dim0": 4, "type": 4 + 8 * n_dims, "offset": 8 + 8 * n_dims}[field]


U32, U64 = (lambda v: struct.pack("<I", v)), (lambda v: struct.pack("<Q", v & (2**64 - 1)))

CLASSES = {
    "empty": lambda d: b"",
    "one byte": lambda d: d[:1],
    "magic": lambda d: patched(d, 0, b"GGUG"),
    "version 1": lambda d: patched(d, 4, U32(1)),
    "version big-endian": lambda d: patched(d, 4, b"\0\0\0\3"),
    "no tensors": lambda d: patched(d, 8, U64(0)),
    "2^63 tensors": lambda d: patched(d, 8, U64(2**63)),
    "2^64-1 keys": lambda d: patched(d, 16, U64(-1)),
    "key length 2^63": lambda d: patched(d, 24, U64(2**63)),
    "key length past the end": lambda d: patched(d, 24, U64(len(d))),
    "unknown value type": lambda d: patched(d, find(d, b"general.architecture") + 20, U32(99)),
    "architecture length 2^32": lambda d: patched(d, key_value(d, b"general.architecture"), U64(2**32)),
    "unknown architecture": lambda d: patched(d, key_value(d, b"general.architecture") + 8, b"lxxma"),
    "heads 0": lambda d: patched(d, key_value(d, b"llama.attention.head_count"), U32(0)),
    "layers 2^31": lambda d: patched(d, key_value(d, b"llama.block_count"), U32(2**31)),
    "dimension 7": lambda d: patched(d, key_value(d, b"llama.embedding_length"), U32(7)),
    "token array of 2^63": lambda d: patched(d, key_value(d, b"tokenizer.ggml.tokens") + 4, U64(2**63)),
    "token array element type": lambda d: patched(d, key_value(d, b"tokenizer.ggml.tokens"), U32(77)),
    "tensor of 200 dimensions": lambda d: patched(d, tensor_field(d, b"token_embd.weight", "dims"), U32(200)),
    "tensor dimension 2^62": lambda d: patched(d, tensor_field(d, b"token_embd.weight", "dim0"), U64(2**62)),
    "tensor dimension 0": lambda d: patched(d, tensor_field(d, b"token_embd.weight", "dim0"), U64(0)),
    "unknown tensor type": lambda d: patched(d, tensor_field(d, b"token_embd.weight", "type"), U32(1000)),
    "tensor offset past the end": lambda d: patched(d, tensor_field(d, b"token_embd.weight", "offset"), U64(2**40)),
    "tensor offset 2^64-32": lambda d: patched(d, tensor_field(d, b"token_embd.weight", "offset"), U64(-32)),
    "tensor offset not aligned": lambda d: patched(d, tensor_field(d, b"output_norm.weight", "offset"), U64(1)),
    "two tensors at one place": lambda d: patched(
        d,
        tensor_field(d, b"blk.0.attn_q.weight", "offset"),
        d[(at := tensor_field(d, b"blk.0.attn_k.weight", "offset")) : at + 8],
    ),
    "a tensor missing": lambda d: d.replace(b"blk.0.attn_v.weight", b"blk.0.attn_x.weight"),
    "a tensor twice": lambda d: d.replace(b"blk.0.attn_v.weight", b"blk.0.attn_k.weight"),
    "cut in the header": lambda d: d[: find(d, b"tokenizer.ggml.merges")],
    "cut in the data": lambda d: d[: -len(d) // 4],
    "cut by one byte": lambda d: d[:-1],
}


@pytest.fixture(scope="module")
def good(tiny):
    return tiny.read_bytes()


@pytest.mark.parametrize("name", CLASSES)
def test_hostile_file(start, good, tmp_path, name):
    data = CLASSES[name](good)
    assert data != good
    path = tmp_path / "hostile.gguf"
    path.write_bytes(data)
    daemon = start({"hostile": path}, ready=False)
    # Its only model is of no use, so the daemon ends.
    assert daemon.process.wait(30) == 1, daemon.log()
    log = daemon.log()
    assert not daemon.segments(), "left in shared memory"
    assert "Sanitizer" not in log and "signal" not in log, log
    lines = [line for line in log.splitlines() if " error " in line and str(path) in line]
    assert len(lines) == 1, f"one line should name the file:\n{log}"
    assert re.search(
        r"offset \d+|byte \d+|tensor '?[a-z0-9_.]+|llama\.[a-z_.]+|general\.[a-z_.]+|tokenizer\.[a-z_.]+", lines[0]
    ), lines[0]
    daemon.clean()


def test_a_hostile_file_does_not_harm_its_neighbour(start, tiny, good, tmp_path):
    path = tmp_path / "hostile.gguf"
    path.write_bytes(CLASSES["tensor dimension 2^62"](good))
    daemon = start({"tiny": tiny, "hostile": path}, ready=False)
    daemon.wait_for(
        lambda: daemon.health()[0] is not None
        and daemon.http.post("/v1/completions", {"model": "tiny", "prompt": "a", "max_tokens": 1}).status == 200,
        "serving the good one",
    )
    states = {entry["name"]: entry["state"] for entry in daemon.status()["models"]}
    assert states == {"tiny": "ready", "hostile": "failed"}
