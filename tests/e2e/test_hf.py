"""Hugging Face folders: the same model as a GGUF file, written as `transformers` would save it (tests/tools/hf_folder.py),
gives the same answers. Where both have the same arithmetic to the bit (every family but llama, whose heads rotate in
another order), the answers have the same bytes; and all families are held against the exact pass, so that it is not two
equal errors."""

import json
import os
import shutil
import struct
import subprocess
import sys

import numpy as np
import pytest

import inotify
import weightd
from test_families import CASES, N_PROMPT, N_TOKENS, errors, holds, rows_through_decode, rows_through_prefill
from test_restart import lives  # noqa: F401  a fixture

sys.path.insert(0, str(weightd.TOP / "tests/tools"))
import exact_reference  # noqa: E402
import hf_folder  # noqa: E402

FAMILIES = {
    "qwen2": ["--family", "qwen2"],
    "qwen3": ["--family", "qwen3", "--head-dim", "64", "--untied"],
    "gemma3": ["--family", "gemma3", "--layers", "7", "--window", "32", "--head-dim", "64"],
}


def gguf(path, *options, kind="F32", embedding=None):
    tool = weightd.TOP / "tests/tools/tiny_gguf.py"
    arguments = ["--type", kind, "--embedding-type", embedding or kind, "--gain", "4", *options, path]
    subprocess.run([sys.executable, tool, *arguments], check=True)
    return path


def answers(http, model):
    """What a model says to prompts of different kinds: everything that depends on weights, tokenizer and template."""
    prompt = {"model": model, "prompt": "The user asks 12 things; it's", "temperature": 0, "ignore_eos": True}
    more = {"max_tokens": 24, "logprobs": 5, "return_token_ids": True}
    ids = {"prompt": np.random.default_rng(3).integers(3, 500, 90).tolist(), "max_tokens": 0, "echo": True}
    messages = [{"role": "user", "content": "Where is the page?"}]
    chat = {"model": model, "messages": messages, "max_tokens": 16, "seed": 5, "temperature": 1, "ignore_eos": True}
    return [
        http.post("/v1/completions", {**prompt, **more}).ok()["choices"],
        http.post("/v1/completions", {**prompt, **more, **ids}).ok()["choices"],
        http.post("/v1/chat/completions", chat).ok()["choices"],
        http.post("/tokenize", {"model": model, "content": "They're <|im_start|> 12 žluťoučký\n\n  end"}).ok(),
    ]


@pytest.mark.parametrize("name", CASES)
def test_against_the_exact_pass(start, tmp_path, name):
    options, features = CASES[name]
    path = gguf(tmp_path / "model.gguf", *options, kind="BF16")
    llama3 = (4.0, 64) if "llama3" in name else None
    new = name in ("llama-linear", "qwen2-yarn", "qwen3", "gemma3")
    folder = hf_folder.write(path, tmp_path / "folder", "BF16", shards=2 if new else 1, new=new, llama3=llama3)
    ids = np.random.default_rng(5).integers(3, 512, N_TOKENS).tolist()
    exact = exact_reference.model(path)(ids)
    http = start({"tiny": folder}).http
    for rows, begin in (rows_through_prefill(http, ids), 0), (rows_through_decode(http, ids), N_PROMPT - 1):
        found = errors(rows, exact[begin:-1])
        print(f"{name} from {begin}: median {found[len(found) // 2]:.4f}, p99 {found[int(0.99 * len(found))]:.4f}")
        assert holds(found)
        for feature in features:
            assert not holds(errors(rows, exact_reference.model(path, (feature,))(ids)[begin:-1])), feature


@pytest.mark.parametrize("dtype", hf_folder.STORE)
@pytest.mark.parametrize("family", FAMILIES)
def test_same_bytes_as_a_gguf_file(start, tmp_path, family, dtype):
    path = gguf(tmp_path / "model.gguf", *FAMILIES[family], kind=dtype)
    folders = {
        "one": hf_folder.write(path, tmp_path / "one", dtype),
        "three": hf_folder.write(path, tmp_path / "three", dtype, shards=3, new=True),
    }
    http = start({"gguf": path, **folders}).http
    expected = answers(http, "gguf")
    for name in folders:
        assert answers(http, name) == expected, name


@pytest.mark.parametrize("quantize, kind, embedding", [
    ("bf16", "BF16", "BF16"), ("int8", "Q8_0", "Q8_0"), ("int4", "Q4_0", "Q8_0")])
@pytest.mark.parametrize("family", FAMILIES)
def test_quantized_as_gguf_tools_do(start, tmp_path, family, quantize, kind, embedding):
    """The same random numbers, once made into blocks by PyPI's gguf and once by the loader."""
    options = FAMILIES[family]
    blocks = gguf(tmp_path / "blocks.gguf", *options, kind=kind, embedding=embedding)
    plain = gguf(tmp_path / "plain.gguf", *options)
    folder = hf_folder.write(plain, tmp_path / "folder", shards=2)
    daemon = start({"gguf": blocks, "plain": folder, "hf": {"path": folder, "quantize": quantize}})
    expected = answers(daemon.http, "gguf")
    assert answers(daemon.http, "hf") == expected
    assert answers(daemon.http, "plain") != expected  # the key does something
    sizes = {model["name"]: sum(copy["bytes"] for copy in model["copies"]) for model in daemon.status()["models"]}
    assert sizes["hf"] == sizes["gguf"] < sizes["plain"]


def bf16_copy(source, target):
    """A GGUF file with everything of another and its matrices in bfloat16."""
    from gguf import GGMLQuantizationType as T, GGUFReader, GGUFValueType, GGUFWriter, dequantize

    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            array = field.types[0] == GGUFValueType.ARRAY
            writer.add_key_value(key, field.contents(), field.types[0], field.types[-1] if array else None)
    for t in reader.tensors:
        values = dequantize(t.data, t.tensor_type).astype(np.float32).reshape([int(n) for n in t.shape][::-1])
        if values.ndim == 1:
            writer.add_tensor(t.name, values)
        else:
            writer.add_tensor(t.name, hf_folder.bf16(values).view(np.uint8), raw_dtype=T.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def test_a_real_model(start, model, tmp_path):
    """SmolLM2's numbers in bfloat16, as a folder and as a GGUF file. Their heads rotate in different orders, so sums of
    attention are rounded differently, and nothing else."""
    path = bf16_copy(model, tmp_path / "bf16.gguf")
    folder = hf_folder.write(path, tmp_path / "folder", "BF16", shards=3)
    http = start({"gguf": path, "hf": folder}).http
    text = "The capital of France is Paris. In 1789 the revolution began there; its people asked for bread, and then for more."
    ids = http.post("/tokenize", {"model": "gguf", "content": text}).ok()["tokens"]
    assert http.post("/tokenize", {"model": "hf", "content": text}).ok()["tokens"] == ids
    ask = {"prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 20, "temperature": 0, "return_token_ids": True}
    rows = {}
    for name in ("gguf", "hf"):
        logprobs = http.post("/v1/completions", {"model": name, **ask}).ok()["choices"][0]["logprobs"]
        rows[name] = [dict(zip(*row)) for row in zip(logprobs["top_ids"][1:], logprobs["top_values"][1:])]
    divergences = []
    for ours, theirs in zip(rows["hf"], rows["gguf"], strict=True):
        common = ours.keys() & theirs.keys()
        divergences.append(sum(np.exp(theirs[i]) * (theirs[i] - ours[i]) for i in common))
        assert len(common) >= 17
    print(f"mean divergence over the common tokens {np.mean(divergences):.6f}, worst {np.max(divergences):.6f} nats")
    assert np.mean(np.abs(divergences)) < 0.002
    chat = {"messages": [{"role": "user", "content": "Name three fruits."}], "max_tokens": 12, "temperature": 0}
    said = [http.post("/v1/chat/completions", {"model": name, **chat}).ok()["choices"] for name in ("gguf", "hf")]
    assert said[0] == said[1]


# --- what the files beside the weights say ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory):
    """Not to be changed: tests copy it."""
    directory = tmp_path_factory.mktemp("hf")
    return hf_folder.write(gguf(directory / "m.gguf", "--family", "qwen2", "--untied"), directory / "folder", shards=2)


@pytest.fixture
def folder(tiny_folder, tmp_path):
    return shutil.copytree(tiny_folder, tmp_path / "folder")


def change(folder, name, **keys):
    """Sets keys of a JSON file; None removes one."""
    path = folder / name
    value = {**json.loads(path.read_text()), **keys}
    path.write_text(json.dumps({key: of for key, of in value.items() if of is not None}))


def test_every_token_that_ends_answers(start, folder):
    ask = {"prompt": "The user", "max_tokens": 12, "temperature": 0, "return_token_ids": True}
    daemon = start({"m": folder})
    free = daemon.http.post("/v1/completions", {**ask, "ignore_eos": True}).ok()["choices"][0]["token_ids"]
    daemon.stop()
    for last in (2, 5):  # one behind the other in the list, neither of them the tokenizer's own
        token = free[last]
        change(folder, "generation_config.json", eos_token_id=[0, token, 2])
        daemon = start({"m": folder})
        choice = daemon.http.post("/v1/completions", ask).ok()["choices"][0]
        assert choice["finish_reason"] == "stop"
        assert choice["token_ids"][: free.index(token)] == free[: free.index(token)]
        assert len(choice["token_ids"]) <= free.index(token) + 1
        daemon.stop()


def test_template_and_first_token(start, folder):
    change(folder, "tokenizer_config.json", add_bos_token=True, bos_token="<|endoftext|>",
           chat_template=[{"name": "tool_use", "template": "no"}, {"name": "default", "template": "x{{ bos_token }}y"}])
    daemon = start({"m": folder})
    chat = {"messages": [{"role": "user", "content": "z"}]}
    assert daemon.http.post("/apply-template", chat).ok()["prompt"] == "x<|endoftext|>y"
    assert daemon.http.post("/tokenize", {"content": "a", "add_special": True}).ok()["tokens"][0] == 0
    daemon.stop()
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}!")
    daemon = start({"m": folder})
    assert daemon.http.post("/apply-template", chat).ok()["prompt"] == "z!"


def test_a_snapshot_of_the_hub(start, folder, tmp_path):
    """Its files are links to where their content lies, under names that say nothing."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots/0123abcd"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for i, file in enumerate(sorted(folder.iterdir())):
        file.rename(blobs / f"{i:064x}")
        (snapshot / file.name).symlink_to(f"../../blobs/{i:064x}")
    assert start({"m": snapshot}).http.post("/v1/completions", {"prompt": "a", "max_tokens": 2}).ok()


def test_what_is_no_part_of_the_model_is_left_alone(start, folder):
    (folder / "consolidated.safetensors").write_bytes(b"not read")
    (folder / "README.md").write_text("not opened")
    with inotify.Watch(folder / "README.md") as readme, inotify.Watch(folder / "consolidated.safetensors") as other:
        start({"m": folder})
        assert not readme.seen() and "read" not in other.seen()


# --- restarts ---------------------------------------------------------------------------------------------------------


def test_a_restart_opens_no_file(lives, folder):  # noqa: F811
    life = lives({"m": {"path": folder, "quantize": "int8"}})
    life.start()
    before = life.only_segment()
    life.crash()
    watches = [inotify.Watch(file) for file in folder.iterdir()]
    life.start()
    assert life.only_segment() == before and life.model()["adopted"]
    assert not any(watch.seen() for watch in watches)


@pytest.mark.parametrize("name", [
    "config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "model.safetensors.index.json",
    "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"])
def test_a_change_of_any_file_is_seen(lives, folder, name):  # noqa: F811
    life = lives({"m": folder})
    life.start()
    life.crash()
    os.utime(folder / name, ns=(1, 1))
    life.start()
    assert not life.model()["adopted"]
    assert "was changed or replaced" in life.daemon.log()


def test_another_quantization_is_another_copy(lives, folder):  # noqa: F811
    life = lives({"m": {"path": folder, "quantize": "int8"}})
    life.start()
    life.crash()
    life.models = {"m": {"path": folder, "quantize": "int4"}}
    life.start()
    assert not life.model()["adopted"]
    assert "quantize" in life.daemon.log()


# --- folders that are not what they claim -----------------------------------------------------------------------------


def spoil_weights(edit):
    """`edit` changes the header of the first file with weights, parsed; the data stays."""
    def spoil(folder):
        path = folder / "model-00001-of-00002.safetensors"
        raw = path.read_bytes()
        (n,) = struct.unpack_from("<Q", raw)
        header = json.loads(raw[8:8 + n])
        text = json.dumps(edit(header) or header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + n:])
    return spoil


def rename(old, new):
    def edit(header):
        header[new] = header.pop(old)
    return spoil_weights(edit)


def index(edit):
    def spoil(folder):
        path = folder / "model.safetensors.index.json"
        value = json.loads(path.read_text())
        edit(value)
        path.write_text(json.dumps(value))
    return spoil


def config(**keys):
    return lambda folder: change(folder, "config.json", **keys)


def write(name, data):
    return lambda folder: (folder / name).write_bytes(data)


def remove(name):
    return lambda folder: (folder / name).unlink()


EMBEDDING, PART = "model.embed_tokens.weight", "model-00001-of-00002.safetensors"
HOSTILE = {
    "no config": (remove("config.json"), "no config.json"),
    "no tokenizer": (remove("tokenizer.json"), "no tokenizer.json"),
    "no index": (remove("model.safetensors.index.json"), "neither model.safetensors nor"),
    "a part missing": (remove(PART), f"'{PART}' is not among"),
    "empty config": (write("config.json", b""), "config.json: "),
    "config that is cut": (write("config.json", b'{"a": '), "config.json: offset "),
    "config of bytes": (write("config.json", b'{"a": "\xff"}'), "config.json: offset "),
    "config with a key twice": (write("config.json", b'{"a": {"b": 1, "b": 2}}'), "key 'b': is there twice"),
    "deep config": (write("config.json", b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"), "nested deeper"),
    "unknown model": (config(model_type="gpt2"), "'gpt2' is not supported"),
    "another head": (config(architectures=["Qwen2ForSequenceClassification"]), "'Qwen2ForSequenceClassification'"),
    "quantized already": (config(quantization_config={"quant_method": "gptq"}), "key 'quantization_config'"),
    "experts": (config(num_experts=8), "key 'num_experts': 8"),
    "a bias that isn't ours": (config(attention_bias=True), "key 'attention_bias'"),
    "gelu": (config(hidden_act="gelu"), "key 'hidden_act': 'gelu'"),
    "heads 0": (config(num_attention_heads=0, head_dim=16), "key 'num_attention_heads'"),
    "heads missing": (config(num_attention_heads=None), "key 'num_attention_heads': is missing"),
    "layers 2^31": (config(num_hidden_layers=2**31), "key 'num_hidden_layers'"),
    "layers negative": (config(num_hidden_layers=-1), "key 'num_hidden_layers'"),
    "dimension 7": (config(hidden_size=7, head_dim=32), "key 'hidden_size'"),
    "epsilon of a string": (config(rms_norm_eps="small"), "key 'rms_norm_eps'"),
    "vocabulary too small": (config(vocab_size=100), "tokenizer.json: "),
    "vocabulary too large": (config(vocab_size=600), f"tensor '{EMBEDDING}': shape"),
    "dynamic scaling": (config(rope_scaling={"type": "dynamic", "factor": 2.0}), "'dynamic' is not supported"),
    "unknown scaling key": (config(rope_scaling={"type": "linear", "factor": 2.0, "x": 1}), "'x' is not supported"),
    "scaling by nothing": (config(rope_scaling={"type": "linear"}), "key 'rope_scaling.factor': is missing"),
    "scaling by -1": (config(rope_scaling={"type": "linear", "factor": -1}), "key 'rope_scaling.factor'"),
    "windows": (config(use_sliding_window=True, max_window_layers=0), "key 'sliding_window'"),
    "untied without a head": (index(lambda v: v["weight_map"].pop("lm_head.weight")), "weight_map"),
    "index without a map": (index(lambda v: v.pop("weight_map")), "key 'weight_map'"),
    "index with a path": (index(lambda v: v["weight_map"].update({EMBEDDING: "../config.json"})), "'../config.json' is not"),
    "index with a number": (index(lambda v: v["weight_map"].update({EMBEDDING: 7})), f"'{EMBEDDING}': a file's name"),
    "index of another file": (index(lambda v: v["weight_map"].update({EMBEDDING: "config.json"})), "'config.json' is not"),
    "index with too much": (index(lambda v: v["weight_map"].update({"x": PART})), "tensor 'x' is not in"),
    "index of another size": (index(lambda v: v["metadata"].update(total_size=1)), "key 'metadata.total_size'"),
    "a tensor missing": (rename(EMBEDDING, "model.x.weight"), f"tensor '{EMBEDDING}'"),
    "a type we lack": (spoil_weights(lambda h: h[EMBEDDING].update(dtype="F8_E4M3")), f"{PART}: offset "),
    "a shape that lies": (spoil_weights(lambda h: h[EMBEDDING].update(shape=[1, 1])), "but type and shape take"),
    "a shape transposed": (spoil_weights(lambda h: h[EMBEDDING].update(shape=h[EMBEDDING]["shape"][::-1])), "expected 512 x 128"),
    "a part that is cut": (lambda f: os.truncate(f / PART, (f / PART).stat().st_size - 1), f"{PART}: offset "),
    "a part that is empty": (write(PART, b""), f"{PART}: offset 0"),
    "a header without end": (write(PART, struct.pack("<Q", 2**63)), f"{PART}: offset 0: header length"),
    "a template that isn't text": (write("chat_template.jinja", b"\xff"), "chat_template.jinja: is not UTF-8"),
    "a template that is a number": (lambda f: change(f, "tokenizer_config.json", chat_template=5), "key 'chat_template'"),
    "a first token that isn't": (lambda f: change(f, "tokenizer_config.json", bos_token="<none>"), "'<none>' is no token"),
    "an end out of range": (lambda f: change(f, "generation_config.json", eos_token_id=[2, 512]), "key 'eos_token_id'"),
    "ends without end": (lambda f: change(f, "generation_config.json", eos_token_id=[*range(20)]), "more than 5 tokens"),
    "a tokenizer we lack": (write("tokenizer.json", b'{"model": {"type": "Other"}}'), "tokenizer.json: "),
    "a directory for a file": (lambda f: ((f / PART).unlink(), (f / PART).mkdir()), PART),
}


def refusal(start, tmp_path, models):
    """The one line that a daemon ends with whose only model is of no use."""
    daemon = start(models, ready=False)
    assert daemon.process.wait(30) == 1, daemon.log()
    log = daemon.log()
    assert not daemon.segments(), "left in shared memory"
    assert "Sanitizer" not in log and "signal" not in log, log
    lines = [line for line in log.splitlines() if " error " in line and "model 'm'" in line]
    assert len(lines) == 1, log
    daemon.clean()
    return lines[0]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_folder(start, folder, tmp_path, name):
    spoil, says = HOSTILE[name]
    spoil(folder)
    line = refusal(start, tmp_path, {"m": folder})
    assert says in line and str(folder) in line, line


def test_a_tensor_too_many(start, folder, tmp_path):
    extra = folder / "model-00003-of-00003.safetensors"
    hf_folder.safetensors(extra, {"model.layers.0.extra.weight": ("F32", [1], bytes(4))})
    path = folder / "model.safetensors.index.json"
    value = json.loads(path.read_text())
    value["weight_map"]["model.layers.0.extra.weight"] = extra.name
    value["metadata"]["total_size"] += 4
    path.write_text(json.dumps(value))
    assert "tensor 'model.layers.0.extra.weight': a qwen2 model has no use for it" in refusal(start, tmp_path, {"m": folder})


def test_numbers_that_no_scale_fits(start, folder, tmp_path):
    path = folder / PART
    raw = bytearray(path.read_bytes())
    (n,) = struct.unpack_from("<Q", raw)
    at = 8 + n + json.loads(raw[8:8 + n])[EMBEDDING]["data_offsets"][0]
    # Rows are made smaller by several threads: what is told is the first row, not the first one found.
    for value in range(at, at + 16 * 1024, 1024):
        raw[value:value + 4] = struct.pack("<f", float("nan"))
    path.write_bytes(raw)
    assert f"{PART}: offset {at}: data" in refusal(start, tmp_path, {"m": {"path": folder, "quantize": "int8"}})


def test_gguf_files_are_not_quantized(start, tiny, tmp_path):
    assert "key 'quantize'" in refusal(start, tmp_path, {"m": {"path": tiny, "quantize": "int8"}})


def test_a_folder_without_weights(start, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "has no .safetensors file" in refusal(start, tmp_path, {"m": tmp_path / "empty"})
