"""A speech model is a member like the others: placed, proven, and adopted after a crash with the bytes it had; changed
files are loaded again, and a folder that is wrong is refused by name. The model is a tiny one in CTranslate2's form."""

import json
import os
import random
import struct
import time

WORDS, LANGUAGES, TIMES = 256, ["en", "zh"], 1501
DIM, FFN, BINS, LAYERS = 64, 96, 80, 2
SPECIAL = ["endoftext", "startoftranscript", *LANGUAGES, "translate", "transcribe", "startoflm", "startofprev"]
SPECIAL = [f"<|{name}|>" for name in SPECIAL + ["nospeech", "notimestamps"]]
VOCAB = WORDS + len(SPECIAL) + TIMES


def spelled():
    """GPT-2's spelling of the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {chr(b if b in plain else 256 + others.index(b)): b for b in range(256)}


def tokenizer():
    added = [
        {"id": WORDS + i, "content": token, "special": True, "normalized": False} for i, token in enumerate(SPECIAL)
    ]
    return {
        "added_tokens": added,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": spelled(), "merges": []},
    }


def variables():
    """(name, shape, type, data), scalars with an empty shape; keys have no bias."""
    rng = random.Random(1)

    def numbers(name, *shape, zero=range(0)):
        n = 1
        for extent in shape:
            n *= extent
        return name, shape, 0, b"".join(struct.pack("<f", 0 if i in zero else rng.uniform(-1, 1)) for i in range(n))

    def linear(name, rows, cols, zero=range(0)):
        return [numbers(f"{name}/weight", rows, cols), numbers(f"{name}/bias", rows, zero=zero)]

    def norm(name):
        return [numbers(f"{name}/{part}", DIM) for part in ("gamma", "beta")]

    for tower, positions in (("decoder", 32), ("encoder", 50)):
        yield from norm(f"{tower}/layer_norm")
        yield f"{tower}/num_heads", (), 2, struct.pack("<h", 4)
        yield numbers(f"{tower}/position_encodings/encodings", positions, DIM)
        for i in range(LAYERS):
            layer = f"{tower}/layer_{i}"
            for part in ("ffn", "self_attention") + (("attention",) if tower == "decoder" else ()):
                yield from norm(f"{layer}/{part}/layer_norm")
            yield from linear(f"{layer}/ffn/linear_0", FFN, DIM)
            yield from linear(f"{layer}/ffn/linear_1", DIM, FFN)
            yield from linear(f"{layer}/self_attention/linear_0", 3 * DIM, DIM, zero=range(DIM, 2 * DIM))
            yield from linear(f"{layer}/self_attention/linear_1", DIM, DIM)
            if tower == "decoder":
                yield from linear(f"{layer}/attention/linear_0", DIM, DIM)
                yield from linear(f"{layer}/attention/linear_1", 2 * DIM, DIM, zero=range(DIM))
                yield from linear(f"{layer}/attention/linear_2", DIM, DIM)
    yield "decoder/activation", (), 1, b"\x03"
    yield "decoder/pre_norm", (), 1, b"\x01"
    yield numbers("decoder/embeddings/weight", VOCAB, DIM)
    for name, channels in (("conv1", BINS), ("conv2", DIM)):
        yield numbers(f"encoder/{name}/weight", DIM, channels, 3)
        yield numbers(f"encoder/{name}/bias", DIM)


def write_model(folder):
    def string(text):
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    every = list(variables())
    data = struct.pack("<I", 6) + string("WhisperSpec") + struct.pack("<II", 3, len(every))
    for name, shape, kind, values in every:
        data += string(name) + struct.pack(f"<B{len(shape)}I", len(shape), *shape)
        data += struct.pack("<BI", kind, len(values)) + values
    data += struct.pack("<I", 1) + string("decoder/projection/weight") + string("decoder/embeddings/weight")
    folder.mkdir()
    (folder / "model.bin").write_bytes(data)
    (folder / "config.json").write_text(json.dumps({"suppress_ids": [1], "suppress_ids_begin": [32]}))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))


def speech(daemon):
    return next(entry for entry in daemon.status()["models"] if entry["name"] == "speech")


def placed(daemon):
    daemon.wait_for(lambda: daemon.health()[0] is not None and speech(daemon)["copies"], "loaded")
    entry = speech(daemon)
    for copy in entry["copies"]:
        assert copy["placement"] == "verified" and copy["pages"] == copy["on_node"] > 0
    return entry


def refused(daemon):
    """Nothing serves it, and nobody is told that something does."""
    daemon.wait_for(lambda: "is a speech model" in speech(daemon).get("error", ""), "refused by its worker")
    assert speech(daemon)["state"] == "failing"
    health = json.loads(daemon.http.get("/health").body)
    assert {entry["id"]: entry["status"] for entry in health["models"]} == {"smollm2": "ok", "speech": "failing"}


def crash(daemon):
    pids = daemon.processes()
    daemon.process.kill()
    daemon.process.wait()
    end = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < end, "children outlive their parent"
        time.sleep(0.01)
    daemon.clean()


def test_a_speech_model_is_placed_adopted_and_loaded_again(start, model, tmp_path):
    folder = tmp_path / "tiny-whisper"
    write_model(folder)
    models = {"smollm2": model, "speech": folder}
    settings = {"instance": "speech" + os.urandom(4).hex(), "hang_seconds": 120}

    def life():
        daemon = start(models, settings, ready=False)
        daemon.instance = settings["instance"]
        return daemon, placed(daemon)

    first, entry = life()
    assert entry["adopted"] is False and entry["architecture"] == "whisper"
    digest = entry["digest"]
    refused(first)
    crash(first)
    second, entry = life()
    assert entry["adopted"] is True and entry["digest"] == digest
    crash(second)
    with open(folder / "model.bin", "r+b") as file:
        file.seek(-5000, os.SEEK_END)
        value = file.read(1)
        file.seek(-5000, os.SEEK_END)
        file.write(bytes([value[0] ^ 1]))
    _, entry = life()
    assert entry["adopted"] is False and entry["digest"] != digest


def test_a_wrong_folder_is_refused_by_name(start, model, tmp_path):
    folder = tmp_path / "tiny-whisper"
    write_model(folder)
    (folder / "config.json").write_text('{"suppress_ids": ["a"]}')
    daemon = start({"smollm2": model, "speech": folder}, ready=False)
    daemon.wait_for(lambda: "config.json: key 'suppress_ids': item 0" in daemon.log(), "refusing")
    daemon.wait_for(lambda: daemon.health()[0] is not None, "listening")
    daemon.wait_for(lambda: any(w["state"] == "ready" for w in daemon.status()["workers"]), "serving the other model")
    assert not speech(daemon)["copies"]
