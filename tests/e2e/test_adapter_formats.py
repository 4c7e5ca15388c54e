"""Adapters from both formats, GGUF files and PEFT folders, against an exact pass in numpy over merged weights,
W + scale B A. An oracle that forgets the adapter, its scale or a pattern breaks the bounds that hold for us."""

import json
import math
import struct
import sys

import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter

import test_families
import weightd

sys.path.insert(0, str(weightd.TOP / "tests/tools"))
import exact_reference  # noqa: E402

MODULES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
FAMILIES = {
    "llama": [],
    "qwen2": ["--family", "qwen2"],
    "gemma3": ["--family", "gemma3", "--layers", "7", "--window", "32", "--head-dim", "64"],
}
ALPHA = 8


class Base:
    """A tiny random model of a family."""

    def __init__(self, tmp_path, family):
        self.family = family
        self.path = test_families.make(tmp_path, FAMILIES[family])
        reader = GGUFReader(self.path)
        self.heads = {
            "attn_q": int(reader.fields[f"{family}.attention.head_count"].contents()),
            "attn_k": int(reader.fields[f"{family}.attention.head_count_kv"].contents()),
        }
        self.shapes = {}  # (layer, product): (rows, columns)
        for tensor in reader.tensors:
            part = tensor.name.split(".")
            if part[0] == "blk" and part[2] in MODULES and part[3] == "weight":
                self.shapes[int(part[1]), part[2]] = int(tensor.shape[1]), int(tensor.shape[0])

    def in_gguf_order(self, product, b):
        """llama's files have queries and keys in pairs, Hugging Face's in halves; here as converters do it."""
        if self.family != "llama" or product not in self.heads:
            return b
        return b.reshape(self.heads[product], 2, -1, b.shape[1]).swapaxes(1, 2).reshape(b.shape)

    def factors(self, seed, rank_of=lambda layer, product: 4, products=MODULES, strength=0.4):
        """Random {(layer, product): (A, B)}, rows in the order of Hugging Face's files."""
        rng = np.random.default_rng(seed)
        made = {}
        for (layer, product), (rows, columns) in self.shapes.items():
            rank = rank_of(layer, product)
            a = rng.standard_normal((rank, columns), np.float32) / np.float32(math.sqrt(columns))
            b = rng.standard_normal((rows, rank), np.float32) * np.float32(strength)
            if product in products:
                made[layer, product] = a, b
        return made

    def deltas(self, factors, scale_of):
        return {
            f"blk.{layer}.{product}.weight": scale_of(layer, product)
            * (self.in_gguf_order(product, b).astype(np.float64) @ a)
            for (layer, product), (a, b) in factors.items()
        }

    def write_gguf(self, path, factors):
        writer = GGUFWriter(path, self.family)
        writer.add_type("adapter")
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", ALPHA)
        for (layer, product), (a, b) in factors.items():
            writer.add_tensor(f"blk.{layer}.{product}.weight.lora_a", a)
            writer.add_tensor(f"blk.{layer}.{product}.weight.lora_b", self.in_gguf_order(product, b))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def write_peft(folder, factors, **config):
    folder.mkdir()
    header, data = {}, b""
    for (layer, product), pair in factors.items():
        for which, matrix in zip("AB", pair, strict=True):
            begin, data = len(data), data + np.ascontiguousarray(matrix).tobytes()
            name = f"base_model.model.model.layers.{layer}.{MODULES[product]}.lora_{which}.weight"
            header[name] = {"dtype": "F32", "shape": matrix.shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "adapter_config.json").write_text(
        json.dumps({"peft_type": "LORA", "r": 4, "lora_alpha": ALPHA, "target_modules": "all-linear", **config})
    )


def load(http, name):
    return http.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": name})


@pytest.fixture
def serve(tmp_path):
    """serve(FAMILY): (base, http), with adapters from tmp_path."""
    daemons = []

    def start(family):
        base = Base(tmp_path, family)
        running = weightd.running({"tiny": base.path}, {"adapter_dir": tmp_path})
        daemons.append(running)
        return base, running.__enter__()

    yield start
    for running in daemons:
        running.__exit__(None, None, None)


def check(base, daemon, adapter, deltas, wrong):
    """Both phases against the exact pass with these deltas, and that the bounds tell it from those with others."""
    ids = np.random.default_rng(5).integers(3, 512, test_families.N_TOKENS).tolist()
    exact = exact_reference.model(base.path, deltas=deltas)(ids)
    begin = test_families.N_PROMPT - 1
    prefill = test_families.rows_through_prefill(daemon.http, ids, model=adapter)
    decode = test_families.rows_through_decode(daemon.http, ids, model=adapter)
    assert test_families.holds(test_families.errors(prefill, exact[:-1]))
    assert test_families.holds(test_families.errors(decode, exact[begin:-1]))
    for what, others in wrong.items():
        other = exact_reference.model(base.path, deltas=others)(ids)
        found = test_families.errors(prefill, other[:-1])
        assert not test_families.holds(found), f"the bounds do not see {what}"


@pytest.mark.parametrize("family", FAMILIES)
def test_gguf_and_peft_are_the_merged_model(serve, tmp_path, family):
    base, daemon = serve(family)
    factors = base.factors(1)
    base.write_gguf(tmp_path / "one.gguf", factors)
    write_peft(tmp_path / "one", factors)
    load(daemon.http, "one.gguf").ok()
    load(daemon.http, "one").ok()
    digests = {entry["digest"] for entry in daemon.status()["adapters"]}
    assert len(digests) == 1  # the same contents, whatever the file
    deltas = base.deltas(factors, lambda layer, product: ALPHA / 4)
    wrong = {"a missing adapter": {}, "half the scale": base.deltas(factors, lambda layer, product: ALPHA / 8)}
    check(base, daemon, "one.gguf", deltas, wrong)
    check(base, daemon, "one", deltas, {})


def test_ranks_and_scales_of_their_own(serve, tmp_path):
    def rank(layer, product):
        return 9 if product == "attn_q" else 16 if layer == 1 else 4

    base, daemon = serve("llama")
    factors = base.factors(2, rank, strength=0.2)
    write_peft(
        tmp_path / "patterns",
        factors,
        use_rslora=True,
        rank_pattern={"q_proj": 9, r"layers\.1\..*": 16},
        alpha_pattern={"down_proj": 2, "model.layers.0.self_attn.v_proj": 1},
    )
    load(daemon.http, "patterns").ok()

    def alpha(layer, product):
        return 2 if product == "ffn_down" else 1 if (layer, product) == (0, "attn_v") else ALPHA

    wrong = {
        "the alphas": base.deltas(factors, lambda *of: ALPHA / math.sqrt(rank(*of))),
        "the square root": base.deltas(factors, lambda *of: alpha(*of) / rank(*of)),
    }
    check(base, daemon, "patterns", base.deltas(factors, lambda *of: alpha(*of) / math.sqrt(rank(*of))), wrong)


REFUSED = {
    "use_dora": {"use_dora": True},
    "modules_to_save": {"modules_to_save": ["embed_tokens"]},
    "bias": {"bias": "all"},
    "fan_in_fan_out": {"fan_in_fan_out": True},
    "layer_replication": {"layer_replication": [[0, 1]]},
    "peft_type": {"peft_type": "LOHA"},
    "init_lora_weights": {"init_lora_weights": "pissa_niter_4"},
    "target_parameters": {"target_parameters": ["mlp.experts"]},
}


def test_what_is_not_computed_is_refused_by_name(serve, tmp_path):
    base, daemon = serve("llama")
    factors = base.factors(3, products=["attn_q", "ffn_up"])
    for name, config in REFUSED.items():
        write_peft(tmp_path / name, factors, **config)
        assert f"adapter_config.json: key '{name}'" in load(daemon.http, name).error(400)["message"]
    write_peft(tmp_path / "left", factors, target_modules=["q_proj"])
    assert "layers.0.mlp.up_proj.lora_A.weight" in load(daemon.http, "left").error(400)["message"]
    wide = {key: (np.pad(a, ((0, 0), (0, 32))), b) for key, (a, b) in factors.items()}
    write_peft(tmp_path / "wide", wide)
    assert "the base has one of" in load(daemon.http, "wide").error(400)["message"]
    write_peft(tmp_path / "nan", {key: (a * np.float32("nan"), b) for key, (a, b) in factors.items()})
    assert "no finite number" in load(daemon.http, "nan").error(400)["message"]
    assert "general.type" in load(daemon.http, base.path.name).error(400)["message"]
    assert not daemon.status()["adapters"]
