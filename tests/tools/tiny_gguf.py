#!/usr/bin/env python3
"""Write a tiny GGUF model for tests: everything a real one has, in a few hundred kilobytes, and the same bytes every time.

ChatML template, byte-level BPE with the "smollm" pre-tokenizer: three control tokens, all 256 byte tokens
and merges learnt from a few lines of text in this file. The weights are random (but really quantised), so its answers mean
nothing; every code path is the real one. Types that PyPI's gguf does not quantise to (the k-quants, IQ4_NL) get random
blocks of the right spread instead. Needs numpy and gguf from PyPI.

    tiny_gguf.py out.gguf                                  128 wide, 2 layers, Q4_0
    tiny_gguf.py --type Q8_0 --layers 3 --untied out.gguf
    tiny_gguf.py --type Q4_K --dim 256 --ffn 512 out.gguf  a type with blocks of 256
    tiny_gguf.py --pad-mib 64 out.gguf                     more rows in the feed-forward layers, for placement tests
    tiny_gguf.py --family gemma3 --window 32 out.gguf      another family (llama, qwen2, qwen3, gemma3) and its features
    tiny_gguf.py --rope yarn --rope-original 64 out.gguf   scaled rotary positions
"""
import argparse
import os
import re
from collections import Counter

import numpy as np
from gguf import GGMLQuantizationType as T, GGUFWriter, LlamaFileType, RopeScalingType
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize, quantize

FILE_TYPE = {T.F32: LlamaFileType.ALL_F32, T.F16: LlamaFileType.MOSTLY_F16, T.BF16: LlamaFileType.MOSTLY_BF16,
             T.Q4_0: LlamaFileType.MOSTLY_Q4_0, T.Q4_1: LlamaFileType.MOSTLY_Q4_1, T.Q8_0: LlamaFileType.MOSTLY_Q8_0,
             T.Q5_0: LlamaFileType.MOSTLY_Q5_0, T.Q5_1: LlamaFileType.MOSTLY_Q5_1, T.Q2_K: LlamaFileType.MOSTLY_Q2_K,
             T.Q3_K: LlamaFileType.MOSTLY_Q3_K_M, T.Q4_K: LlamaFileType.MOSTLY_Q4_K_M,
             T.Q5_K: LlamaFileType.MOSTLY_Q5_K_M, T.Q6_K: LlamaFileType.MOSTLY_Q6_K, T.IQ4_NL: LlamaFileType.MOSTLY_IQ4_NL}
# Types made of random blocks: where a block has d, where dmin, and the dmin for d = 1 that makes the mean zero (what
# uniformly random codes and sub-scales have on average, divided by what minima have).
RANDOM = {T.Q2_K: (80, 82, 1.5), T.Q3_K: (108, None, 0), T.Q4_K: (0, 2, 7.5), T.Q5_K: (0, 2, 15.5),
          T.Q6_K: (208, None, 0), T.IQ4_NL: (0, None, 0)}
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4  # tokenizer.ggml.token_type
TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a small model.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
TEXT = """The user asks the assistant, and the system answers with the words that come next. One copy of the weights lies on
each node of the machine; the workers there read it, and nobody writes to it. Where is the page? It's on the other node, so
it has to be moved before anything else is done. We'll count every one of them, since what isn't counted isn't known.
A quick brown fox jumps over the lazy dog; the dog doesn't mind, and then they're walking home together in the rain. Přílis
žluťoučký kůň úpěl ďábelské ódy. 我们在这里。 def main(): return [i for i in range(10) if i % 2 == 0]  # the even ones
"""
# How GPT-2's byte-level BPE cuts a text before merging, with digits one by one (as "smollm" does).
WORDS = re.compile(r"\d|'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?[^\s\w]+|_|\s+(?!\S)|\s+")


def byte_spelling():
    """The printable character that stands for each byte in the file: GPT-2's table."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}


def learn_merges(n):
    """The first n merges of plain BPE training over TEXT; among equally frequent pairs the lowest spelling wins."""
    spelling = byte_spelling()
    words = Counter(tuple(spelling[b] for b in w.encode()) for w in WORDS.findall(TEXT))
    merges = []
    while len(merges) < n:
        pairs = Counter()
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        merged = Counter()
        for word, count in words.items():
            out, i = [], 0
            while i < len(word):
                take = 2 if word[i:i + 2] == best else 1
                out.append("".join(word[i:i + take]))
                i += take
            merged[tuple(out)] += count
        words = merged
    return merges


def llama3_divisors(factor, original, head_dim, low=1.0, high=4.0):
    """What Llama 3.1's scaling divides each frequency by, as converters write it into files."""
    turns = 10000.0 ** (-np.arange(0, head_dim, 2) / head_dim) * original / (2 * np.pi)
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / (kept + (1 - kept) / factor)).astype(np.float32)


def random_blocks(rng, rows, cols, of):
    """[rows][bytes per row] of random codes and sub-scales; each d varies a little around what gives a row unit gain."""
    per, size = GGML_QUANT_SIZES[of]
    d_at, dmin_at, dmin = RANDOM[of]
    n = rows * cols // per
    raw = rng.integers(0, 256, (n, size), np.uint8)

    def put(at, values):
        raw[:, at:at + 2] = values.astype(np.float16).view(np.uint8).reshape(n, 2)

    put(d_at, np.ones(n))
    if dmin_at is not None:
        put(dmin_at, np.full(n, dmin))
    d = rng.uniform(0.7, 1.3, n) / (dequantize(raw, of).std() * np.sqrt(cols))
    put(d_at, d)
    if dmin_at is not None:
        put(dmin_at, dmin * d)
    return raw.reshape(rows, -1)


def matrix_data(rng, rows, cols, of):
    """Rows of about unit gain, so that activations neither die out nor blow up."""
    if of in RANDOM:
        return random_blocks(rng, rows, cols, of)
    return quantize(rng.standard_normal((rows, cols), np.float32) / np.float32(np.sqrt(cols)), of)


def align(n):
    """To GGUF's default alignment."""
    return (n + 31) // 32 * 32


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--type", default="Q4_0", choices=[t.name for t in FILE_TYPE], help="of the matrices in the layers")
    p.add_argument("--embedding-type", default="Q8_0", choices=[t.name for t in FILE_TYPE])
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--kv-heads", type=int, default=2)
    p.add_argument("--ffn", type=int, default=256)
    p.add_argument("--vocab", type=int, default=512, help="259 plus the number of merges")
    p.add_argument("--context", type=int, default=2048)
    p.add_argument("--untied", action="store_true", help="an output matrix of its own")
    p.add_argument("--pad-mib", type=int, default=0, help="widen the feed-forward layers until the file has about this size")
    p.add_argument("--holes", action="store_true", help="no weights: their room in the file is a hole, whatever its size")
    p.add_argument("--template", type=argparse.FileType(), help="a file with another chat template")
    p.add_argument("--control-token", action="append", default=[], help="one more token that is not text")
    p.add_argument("--text-token", action="append", default=[], help="one more token that is one in any text")
    p.add_argument("--family", default="llama", choices=["llama", "qwen2", "qwen3", "gemma3"])
    p.add_argument("--head-dim", type=int, help="if not dim / heads")
    p.add_argument("--window", type=int, default=0, help="positions that a layer attends; 0: all")
    p.add_argument("--rope", default="none", choices=["none", "linear", "yarn", "llama3"], help="scaling of positions")
    p.add_argument("--rope-factor", type=float, default=4)
    p.add_argument("--rope-original", type=int, default=64, help="context of the training before it was extended")
    p.add_argument("--gain", type=float, default=1, help="of the logits: more make sharper distributions")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("out")
    a = p.parse_args()
    kind, rng = T[a.type], np.random.default_rng(a.seed)
    gemma = a.family == "gemma3"
    per, size = GGML_QUANT_SIZES[kind]
    unit = max(32, per)
    if (not a.head_dim and a.dim % a.heads) or a.heads % a.kv_heads or a.dim % unit or a.ffn % unit:
        p.error(f"heads must divide dim, kv-heads must divide heads, and dim and ffn must be multiples of {unit}")
    if a.holes and (a.family != "llama" or a.rope != "none"):
        p.error("--holes is for family llama without scaling of positions")
    if a.pad_mib:
        bytes_per_row = 3 * a.dim // per * size
        a.ffn = max(a.ffn, (a.pad_mib << 20) // (a.layers * bytes_per_row) // unit * unit)

    special = SPECIAL + a.control_token
    merges = learn_merges(a.vocab - 256 - len(special) - len(a.text_token))
    tokens = special + a.text_token + [byte_spelling()[b] for b in range(256)] + [left + right for left, right in merges]
    vocab, head_dim = len(tokens), a.head_dim or a.dim // a.heads
    if vocab != a.vocab or len(set(tokens)) != vocab:
        p.error(f"the text in this file gives {vocab} tokens at most")

    w = GGUFWriter(a.out, a.family)
    w.add_name(f"tiny {a.type}")
    w.add_file_type(FILE_TYPE[kind])
    w.add_context_length(a.context)
    w.add_embedding_length(a.dim)
    w.add_block_count(a.layers)
    w.add_feed_forward_length(a.ffn)
    w.add_head_count(a.heads)
    w.add_head_count_kv(a.kv_heads)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_freq_base(1e6 if gemma else 1e4)
    w.add_rope_dimension_count(head_dim)
    if a.head_dim:
        w.add_key_length(head_dim)
        w.add_value_length(head_dim)
    if a.window:
        w.add_sliding_window(a.window)
    if a.rope in ("linear", "yarn"):
        w.add_rope_scaling_type(RopeScalingType.LINEAR if a.rope == "linear" else RopeScalingType.YARN)
        w.add_rope_scaling_factor(a.rope_factor)
        w.add_rope_scaling_orig_ctx_len(a.rope_original)
    w.add_vocab_size(vocab)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("smollm")
    w.add_token_list(tokens)
    types = [CONTROL] * len(special) + [USER_DEFINED] * len(a.text_token)
    w.add_token_types(types + [NORMAL] * (vocab - len(types)))
    w.add_token_merges([f"{left} {right}" for left, right in merges])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_pad_token_id(2)
    w.add_add_bos_token(False)
    w.add_add_space_prefix(False)
    w.add_chat_template(a.template.read() if a.template else TEMPLATE)

    holes = []  # bytes of each tensor that is not written

    def matrix(name, rows, cols, of=kind):
        if a.holes:
            elements, bytes_ = GGML_QUANT_SIZES[of]
            holes.append(rows * cols // elements * bytes_)
            w.add_tensor_info(name, (rows, cols // elements * bytes_), np.dtype(np.uint8), holes[-1], raw_dtype=of)
        else:
            w.add_tensor(name, matrix_data(rng, rows, cols, of), raw_dtype=of)

    def norm(name, n=a.dim, least=0.8, most=1.2):
        if a.holes:
            holes.append(4 * n)
            w.add_tensor_info(name, (n,), np.dtype(np.float32), holes[-1])
        else:
            w.add_tensor(name, rng.uniform(least, most, n).astype(np.float32))

    def attention(b, letter, n_heads):
        matrix(f"{b}attn_{letter}.weight", n_heads * head_dim, a.dim)
        if a.family == "qwen2":
            w.add_tensor(f"{b}attn_{letter}.bias", rng.standard_normal(n_heads * head_dim, np.float32))
        if a.family in ("qwen3", "gemma3") and letter != "v":
            norm(f"{b}attn_{letter}_norm.weight", head_dim, 0.5, 2)

    matrix("token_embd.weight", vocab, a.dim, T[a.embedding_type])
    norm("output_norm.weight", least=0.8 * a.gain, most=1.2 * a.gain)
    if a.rope == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_divisors(a.rope_factor, a.rope_original, head_dim))
    if a.untied:
        matrix("output.weight", vocab, a.dim, T[a.embedding_type])
    for i in range(a.layers):
        b = f"blk.{i}."
        norm(b + "attn_norm.weight")
        attention(b, "q", a.heads)
        attention(b, "k", a.kv_heads)
        attention(b, "v", a.kv_heads)
        matrix(b + "attn_output.weight", a.dim, a.heads * head_dim)
        if gemma:
            norm(b + "post_attention_norm.weight")
        norm(b + "ffn_norm.weight")
        matrix(b + "ffn_gate.weight", a.ffn, a.dim)
        matrix(b + "ffn_up.weight", a.ffn, a.dim)
        matrix(b + "ffn_down.weight", a.dim, a.ffn)
        if gemma:
            norm(b + "post_ffw_norm.weight")
    w.write_header_to_file()
    w.write_kv_data_to_file()
    if not a.holes:
        w.write_tensors_to_file()
    else:
        w.write_ti_data_to_file()
    w.close()
    if a.holes:
        end = sum(align(n) for n in [os.path.getsize(a.out), *holes])
        os.truncate(a.out, end)


if __name__ == "__main__":
    main()
