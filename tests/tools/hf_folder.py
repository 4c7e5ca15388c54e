#!/usr/bin/env python3
"""Write the model of a GGUF file as a Hugging Face folder: config.json, tokenizer.json, weights and the rest, as
`transformers` would have saved it. The inverse of what a converter to GGUF does: names, rows of queries and keys of the
llama family in the order that rotates halves, and norm weights without the 1 that Gemma adds. Families llama, qwen2,
qwen3, gemma3; tokenizers of the "gpt2" kind with the "smollm" pre-tokenizer.

    hf_folder.py model.gguf folder --dtype BF16 --shards 3

`safetensors` writes one file of weights and is what tests make broken ones with. Needs numpy and gguf from PyPI.
"""
import argparse
import json
import re
import struct
from pathlib import Path

import numpy as np
from gguf import GGUFReader, dequantize

CONTROL = 3  # tokenizer.ggml.token_type
TYPES = {"llama": ("llama", "LlamaForCausalLM"), "qwen2": ("qwen2", "Qwen2ForCausalLM"),
         "qwen3": ("qwen3", "Qwen3ForCausalLM"), "gemma3": ("gemma3_text", "Gemma3ForCausalLM")}
LAYER = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
         "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
         "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
GEMMA_LAYER = LAYER | {"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
                       "post_ffw_norm": "post_feedforward_layernorm"}
OWN = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def bf16(values):
    """[...] uint16, rounded to nearest even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


STORE = {"F32": lambda v: v.astype(np.float32), "F16": lambda v: v.astype(np.float16), "BF16": bf16}


def safetensors(path, tensors, metadata=None):
    """Writes {name: (dtype, shape, bytes)} in this order."""
    header, end = {"__metadata__": metadata} if metadata else {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def hf_name(name, arch):
    stem, kind = name.rsplit(".", 1)
    if layer := re.match(r"blk\.(\d+)\.(.*)", stem):
        return f"model.layers.{layer[1]}.{(GEMMA_LAYER if arch == 'gemma3' else LAYER)[layer[2]]}.{kind}"
    return f"{OWN[stem]}.{kind}"


def halves(rows, heads):
    """Rows of a projection whose heads rotate (2i, 2i + 1), in the order in which they rotate (i, i + half)."""
    return rows.reshape(heads, -1, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def weights(reader, get, arch, dtype):
    """{name: (dtype, shape, bytes)} as the folder has them."""
    out = {}
    for t in reader.tensors:
        if t.name == "rope_freqs.weight":
            continue  # config.json says it
        values = dequantize(t.data, t.tensor_type).astype(np.float32).reshape([int(n) for n in t.shape][::-1])
        if arch == "llama" and (part := re.search(r"attn_([qk])\.", t.name)):
            values = halves(values, get("attention.head_count" if part[1] == "q" else "attention.head_count_kv"))
        if arch == "gemma3" and "norm" in t.name:
            values = values - np.float32(1)
        of = "F32" if values.ndim == 1 else dtype
        out[hf_name(t.name, arch)] = (of, values.shape, STORE[of](values).tobytes())
    return out


def config_json(meta, get, arch, tied, llama3):
    """`llama3`: (factor, original context) of a model with divisors of its own, which GGUF has as a tensor."""
    heads, layers, dim = get("attention.head_count"), get("block_count"), get("embedding_length")
    config = {
        "architectures": [TYPES[arch][1]], "model_type": TYPES[arch][0], "hidden_size": dim, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": get("attention.head_count_kv"),
        "intermediate_size": get("feed_forward_length"), "max_position_embeddings": get("context_length"),
        "rms_norm_eps": get("attention.layer_norm_rms_epsilon"), "rope_theta": get("rope.freq_base", 10000.0),
        "vocab_size": get("vocab_size"), "tie_word_embeddings": tied, "attention_bias": False, "attention_dropout": 0.0,
        "rope_scaling": None, "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"], "torch_dtype": "bfloat16", "use_cache": True,
    }
    head_dim = get("attention.key_length") or dim // heads
    if arch in ("qwen3", "gemma3") or head_dim != dim // heads:
        config["head_dim"] = head_dim
    if arch == "gemma3":
        config |= {"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": head_dim,
                   "sliding_window": get("attention.sliding_window"), "rope_local_base_freq": 10000.0,
                   "layer_types": ["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(layers)],
                   "attn_logit_softcapping": None, "final_logit_softcapping": None, "use_bidirectional_attention": False}
    else:
        config["hidden_act"] = "silu"
    if arch == "llama" and get("attention.sliding_window"):
        config |= {"architectures": ["MistralForCausalLM"], "model_type": "mistral",
                   "sliding_window": get("attention.sliding_window")}
    if arch in ("qwen2", "qwen3"):
        config |= {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": layers}
    if kind := get("rope.scaling.type"):
        config["rope_scaling"] = {"rope_type": kind, "factor": get("rope.scaling.factor"),
                                  "original_max_position_embeddings": get("rope.scaling.original_context_length")}
    if llama3:
        config["rope_scaling"] = {"rope_type": "llama3", "factor": llama3[0], "low_freq_factor": 1.0,
                                  "high_freq_factor": 4.0, "original_max_position_embeddings": llama3[1]}
    return config


def newer(config):
    """The same as releases of `transformers` from 5 on write it: all about rotary positions in one object."""
    config = dict(config)
    rope = {"rope_type": "default", "rope_theta": config.pop("rope_theta")} | (config.pop("rope_scaling") or {})
    config["dtype"] = config.pop("torch_dtype")
    if "rope_local_base_freq" in config:
        local = {"rope_type": "default", "rope_theta": config.pop("rope_local_base_freq")}
        rope = {"full_attention": rope, "sliding_attention": local}
    return config | {"rope_parameters": rope}


def tokenizer_json(reader):
    field = lambda name: reader.fields["tokenizer.ggml." + name].contents()
    tokens, types, merges = field("tokens"), field("token_type"), field("merges")
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, t in enumerate(types) if t == CONTROL],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges},
    }


def split(tensors, n):
    """n parts, tensor by tensor in turn, and the index."""
    parts = [{} for _ in range(n)]
    for i, (name, tensor) in enumerate(tensors.items()):
        parts[i % n][name] = tensor
    files = [f"model-{i + 1:05}-of-{n:05}.safetensors" for i in range(n)]
    index = {"metadata": {"total_size": sum(len(data) for _, _, data in tensors.values())},
             "weight_map": {name: file for file, part in zip(files, parts) for name in part}}
    return dict(zip(files, parts)), index


def write(gguf, folder, dtype="F32", shards=1, new=False, llama3=None):
    """Makes the folder. Returns its path."""
    reader, folder = GGUFReader(gguf), Path(folder)
    meta = {k: f.contents() for k, f in reader.fields.items() if len(f.data) < 20}
    arch = meta["general.architecture"]
    get = lambda key, default=None: meta.get(f"{arch}.{key}", default)
    dump = lambda name, value: (folder / name).write_text(json.dumps(value, indent=2, ensure_ascii=False))
    folder.mkdir(parents=True)
    tensors = weights(reader, get, arch, dtype)
    config = config_json(meta, get, arch, "lm_head.weight" not in tensors, llama3)
    dump("config.json", newer(config) if new else config)
    dump("tokenizer.json", tokenizer_json(reader))
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    dump("tokenizer_config.json", {"bos_token": tokens[meta["tokenizer.ggml.bos_token_id"]],
                                   "eos_token": {"content": tokens[meta["tokenizer.ggml.eos_token_id"]], "special": True},
                                   "chat_template": reader.fields["tokenizer.chat_template"].contents()})
    dump("generation_config.json", {"eos_token_id": [meta["tokenizer.ggml.eos_token_id"]]})
    if shards == 1:
        safetensors(folder / "model.safetensors", tensors, {"format": "pt"})
        return folder
    parts, index = split(tensors, shards)
    for file, part in parts.items():
        safetensors(folder / file, part, {"format": "pt"})
    dump("model.safetensors.index.json", index)
    return folder


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("gguf")
    p.add_argument("folder")
    p.add_argument("--dtype", choices=STORE, default="BF16")
    p.add_argument("--shards", type=int, default=1)
    a = p.parse_args()
    write(a.gguf, a.folder, a.dtype, a.shards)
