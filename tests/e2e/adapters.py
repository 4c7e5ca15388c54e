"""Random low-rank adapters for a GGUF base, strong enough to be seen in what it says."""

import functools

import numpy
from gguf import GGUFReader, GGUFWriter

PRODUCTS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]


@functools.cache
def shapes(base):
    """{tensor name: (rows, columns)} of the base's products."""
    found = {}
    for tensor in GGUFReader(base).tensors:
        if tensor.name.startswith("blk.") and tensor.name.split(".")[2] in PRODUCTS:
            columns, rows = (int(n) for n in tensor.shape)
            found[tensor.name] = rows, columns
    return found


def write(path, base, seed, rank=8, alpha=16, strength=0.02, products=PRODUCTS):
    """An adapter of all layers as llama.cpp's converter writes them. `strength`: of the change, before alpha / rank."""
    rng = numpy.random.default_rng(seed)
    writer = GGUFWriter(path, "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha)
    for name, (rows, columns) in shapes(base).items():
        if name.split(".")[2] in products:
            a = rng.standard_normal((rank, columns), numpy.float32) / columns**0.5
            b = rng.standard_normal((rows, rank), numpy.float32) * strength
            writer.add_tensor(name + ".lora_a", a)
            writer.add_tensor(name + ".lora_b", b)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
