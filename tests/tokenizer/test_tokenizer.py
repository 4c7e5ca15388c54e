"""tokenizer.json against the library that defines it: small vocabularies are trained here with `tokenizers`, written out,
and thousands of random texts become the same ids with both, and the same text again. The C side is
tests/tokenizer/encode; WEIGHTD_BUILD names the build directory."""

import json
import os
import random
import struct
import subprocess
import unicodedata

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ENCODE = os.path.join(os.environ.get("WEIGHTD_BUILD", "."), "tests/tokenizer/encode")
N_TEXTS = 3000
BLANK = "\u2581"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
WORDS = ("the of and to in it's don't I'LL we've def return for (i = 0; i < n; i++) { x += 1; } naïve déjà vu "
         "größer Straße 日本語のテキスト 안녕하세요 세계 Привет мир مرحبا שלום 1234567 3.14159 0x7f \U0001f600 "
         "\U0001f469\u200d\U0001f469\u200d\U0001f467 e\u0301 a\u0308o").split()
PIECES = WORDS + list("abcxyzABC019.,;:!?'\"()[]{}<>/\\|@#$%^&*-_=+~`") + [
    " ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\t\t", "\u00a0", "\u3000", "\u2003", "\u0085", "\u0000",
    "\u0301", "\u200d", "\ufeff", "\U0001f1f0", "\u2581", "'s", "'S", "'Ll", "\u017f", "\u1e9e", "²", "½", "Ⅷ", "\u0661",
    "<s>", "</s>", "<|end|>", "<user>", "<0x41>", "\U000e0001", "\ue000", "\u4e00", "\u9fff", "\U00020000"]


def texts(seed, n=N_TEXTS):
    rng = random.Random(seed)
    out = ["", " ", "  ", "a", " a", "a ", "\n", BLANK, "<s>", "<s>a", " <s> a", "<user> a<user>b", "a" * 200, " " * 99]
    while len(out) < n:
        text = "".join(rng.choice(PIECES) + rng.choice(["", "", " ", " "]) for _ in range(rng.randint(1, 25)))
        if rng.random() < 0.1:
            text += "".join(chr(rng.choice([rng.randrange(0xD800), rng.randrange(0xE000, 0x110000)])) for _ in range(5))
        out.append(text)
    return out


def corpus():
    rng = random.Random(1)
    return [" ".join(rng.choice(WORDS) for _ in range(20)) + rng.choice(["", "\n", "\n\n", "  x"]) for _ in range(400)]


def byte_level(pre, ignore_merges=False, post=None, normalizer=None):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<s>", "</s>", "<|end|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_tokens([AddedToken("<user>", normalized=False)])
    tokenizer.post_processor = post or processors.ByteLevel(trim_offsets=False)
    return tokenizer


def split(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def template(after=False):
    single = "<s> $A </s>" if after else "<s> $A"
    return processors.TemplateProcessing(single=single, special_tokens=[("<s>", 0), ("</s>", 1)])


def characters(normalizer, pre, post, byte_fallback=True, runs=()):
    """A BPE of characters, as converted SentencePiece models are: trained without byte tokens, which are put in after.
    `runs`: of blanks, each twice the one before, as tokens, merges and added tokens."""
    plain = Tokenizer(models.BPE())
    plain.normalizer = normalizers.Replace(" ", BLANK)
    plain.pre_tokenizer = pre_tokenizers.Split(BLANK, "merged_with_next")
    trainer = trainers.BpeTrainer(vocab_size=500, show_progress=False, limit_alphabet=90)
    plain.train_from_iterator(corpus(), trainer)
    model = json.loads(plain.to_str())["model"]
    tokens = ["<s>", "</s>", "<unk>", "<|end|>"]
    tokens += [f"<0x{byte:02X}>" for byte in range(256)] if byte_fallback else []
    tokens += sorted(model["vocab"], key=model["vocab"].get)
    tokens += [run for run in runs if run not in tokens]
    vocab = {token: i for i, token in enumerate(tokens)}
    merges = [(run[: len(run) // 2], run[len(run) // 2 :]) for run in runs] + [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=byte_fallback))
    tokenizer.normalizer = normalizer
    if pre is not None:
        tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(BLANK, " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(["<s>", "</s>", "<unk>", "<|end|>"])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in ["<user>", *runs]])
    tokenizer.post_processor = post
    return tokenizer


def unigram(pre, post, normalizer=None):
    """SentencePiece's unigram model; trained on words, whatever it is used on."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = metaspace("always", split=True)
    trainer = trainers.UnigramTrainer(vocab_size=300, show_progress=False, unk_token="<unk>",
                                      special_tokens=["<s>", "</s>", "<unk>", "<|end|>"])
    tokenizer.train_from_iterator([line.replace("x", "") for line in corpus()], trainer)
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.Metaspace(replacement=BLANK, prepend_scheme="never")
    tokenizer.add_tokens([AddedToken("<user>", normalized=False)])
    tokenizer.post_processor = post
    return tokenizer


def llama2_normalizer():
    return normalizers.Sequence([normalizers.Prepend(BLANK), normalizers.Replace(" ", BLANK)])


def metaspace(scheme, split=False):
    return pre_tokenizers.Metaspace(replacement=BLANK, prepend_scheme=scheme, split=split)


MAKERS = {
    "qwen3": lambda: byte_level(split(QWEN2), normalizer=normalizers.NFC()),
    "nfc-characters": lambda: characters(normalizers.Sequence([normalizers.NFC(), normalizers.Replace(" ", BLANK)]), None,
                                         template()),
    "gpt2": lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "smollm": lambda: byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])),
    "llama3": lambda: byte_level(split(LLAMA3), ignore_merges=True, post=processors.Sequence(
        [processors.ByteLevel(trim_offsets=False), template()])),
    "qwen2": lambda: byte_level(split(QWEN2)),
    "llama2": lambda: characters(llama2_normalizer(), None, template(after=True)),
    "gemma": lambda: characters(normalizers.Replace(" ", BLANK), pre_tokenizers.Split(" ", "merged_with_previous"),
                                template()),
    "gemma-runs": lambda: characters(normalizers.Replace(" ", BLANK), pre_tokenizers.Split(" ", "merged_with_previous"),
                                     template(), runs=[BLANK * 2, BLANK * 4, BLANK * 8]),
    "mistral": lambda: characters(None, metaspace("first"), template()),
    "metaspace": lambda: characters(None, metaspace("always"), template()),
    "unigram": lambda: unigram(metaspace("always", split=True), template(after=True)),
    "unigram-whole": lambda: unigram(metaspace("first"), template()),
    "unigram-nfc": lambda: unigram(metaspace("never", split=True), template(), normalizers.NFC()),
    "no-bytes": lambda: characters(llama2_normalizer(), None, template(), byte_fallback=False),
}


@pytest.fixture(scope="module", params=sorted(MAKERS))
def tokenizer(request):
    return MAKERS[request.param]()


def odd_texts(seed):
    """Every character there is, beside letters, and what composes and decomposes in all kinds of order."""
    rng = random.Random(seed)
    nfd = normalizers.NFD().normalize_str
    every = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    # The library's tables are older than Python's: marks that came since are no marks to it.
    known = [c for c in every if nfd(f"b\u0301{c}\u0334") == unicodedata.normalize("NFD", f"b\u0301{c}\u0334")]
    assert len(known) > len(every) - 100
    joining = [c for c in known if unicodedata.combining(c) or unicodedata.category(c)[0] == "M"
               or unicodedata.normalize("NFD", c) != c and not "\uac00" <= c <= "\ud7a3"]
    joining += [chr(c) for c in range(0x1100, 0x1200)] + list("aeiouAOkqd =<>\uac00\uac01\ud55c\u0915")
    out = ["".join(known[i:i + 60]) for i in range(0, len(known), 60)]
    return out + ["".join(rng.choice(joining) for _ in range(rng.randint(1, 12))) for _ in range(8000)]


def run(path, samples, *how):
    records = b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in samples)
    done = subprocess.run([ENCODE, path, *how], input=records, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    lines = done.stdout.decode().splitlines()
    assert len(lines) == len(samples)
    return [([int(i) for i in ids.split()], bytes.fromhex(text)) for ids, text in (l.split("|") for l in lines)]


def test_ids_and_texts(tokenizer, tmp_path):
    path = str(tmp_path / "tokenizer.json")
    tokenizer.save(path)
    samples = texts(7) + odd_texts(8)
    if tokenizer.token_to_id(BLANK * 8) is not None:  # a run of U+2581 itself in a text is taken for one of blanks
        samples = [text for text in samples if BLANK not in text] + [" " * n + "a" + " " * n for n in range(40)]
    bos = tokenizer.token_to_id("<s>")
    adds_bos = tokenizer.encode("a").ids[0] == bos
    for text, (ids, decoded) in zip(samples, run(path, samples)):
        want = tokenizer.encode(text).ids
        if adds_bos and want[:2] == [bos, bos]:
            want = want[1:]  # a text that begins with the begin token gets no second one here
        assert ids == want, repr(text)
        assert decoded.decode(errors="replace") == tokenizer.decode(ids, skip_special_tokens=True), repr(text)


SPEECH = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|notimestamps|>"]


def speech():
    """Of the shape of Whisper's: two tokens before every text, and times that are tokens, but not special."""
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in SPEECH])
    tokenizer.add_tokens([f"<|{i * 0.02:.2f}|>" for i in range(1501)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|startoftranscript|> <|notimestamps|> $A <|endoftext|>",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in SPEECH])
    return tokenizer


def check_speech(tokenizer, path):
    rng = random.Random(9)
    named = SPEECH + ["<|0.00|>", "<|0.02|>", "<|29.98|>", "<|30.00|>", "<|30.02|>", "<|0.0|>"]
    samples = texts(10) + odd_texts(11) + [
        "".join(rng.choice(named + PIECES) for _ in range(rng.randint(1, 9))) for _ in range(2000)]
    for text, (ids, decoded) in zip(samples, run(path, samples, "bare")):
        assert ids == tokenizer.encode(text, add_special_tokens=False).ids, repr(text)
        assert decoded.decode(errors="replace") == tokenizer.decode(ids, skip_special_tokens=False), repr(text)


def test_a_speech_models(tmp_path):
    path = str(tmp_path / "tokenizer.json")
    tokenizer = speech()
    tokenizer.save(path)
    check_speech(tokenizer, path)
    done = subprocess.run([ENCODE, path], input=b"", capture_output=True, timeout=60)
    assert done.returncode == 2 and b"post_processor: single" in done.stdout


WHISPER = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
                       "weightd/models/whisper-base/tokenizer.json")


@pytest.mark.skipif(not os.path.exists(WHISPER), reason="weightctl pull whisper-base was not done")
def test_whispers():
    tokenizer = Tokenizer.from_file(WHISPER)
    assert tokenizer.get_vocab_size() == 51865
    check_speech(tokenizer, WHISPER)


REFUSED = {
    "model.type": lambda t: t["model"].update(type="WordLevel"),
    "model.unk_id": lambda t: t.update(json.loads(MAKERS["unigram"]().to_str())) or t["model"].update(unk_id=99999),
    "model.vocab[1]": lambda t: t.update(json.loads(MAKERS["unigram"]().to_str())) or t["model"]["vocab"][1].pop(),
    "model.byte_fallback": lambda t: t.update(json.loads(MAKERS["unigram"]().to_str())) or t["model"].update(byte_fallback=True),
    "normalizer.normalizers[1].type": lambda t: t.update(normalizer={"type": "Sequence", "normalizers": [
        {"type": "NFC"}, {"type": "Precompiled", "precompiled_charsmap": ""}]}),
    "model.dropout": lambda t: t["model"].update(dropout=0.1),
    "model.continuing_subword_prefix": lambda t: t["model"].update(continuing_subword_prefix="##"),
    "model.unk_token": lambda t: t["model"].update(unk_token="nowhere"),
    "model.merges[0]": lambda t: t["model"].update(merges=[["a"]]),
    "model.vocab": lambda t: t["model"]["vocab"].update(a=-1),
    "normalizer.type": lambda t: t.update(normalizer={"type": "Lowercase"}),
    "normalizer.normalizers[0].type": lambda t: t.update(
        normalizer={"type": "Sequence", "normalizers": [{"type": "NFKD"}]}),
    "pre_tokenizer.type": lambda t: t.update(pre_tokenizer={"type": "Whitespace"}),
    "pre_tokenizer.pretokenizers[0].pattern": lambda t: t.update(pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "x+"}, "behavior": "Isolated", "invert": False}]}),
    "pre_tokenizer.add_prefix_space": lambda t: t["pre_tokenizer"].update(add_prefix_space=True),
    "decoder.type": lambda t: t.update(decoder={"type": "WordPiece"}),
    "post_processor.type": lambda t: t.update(post_processor={"type": "BertProcessing"}),
    "added_tokens[id 0].lstrip": lambda t: t["added_tokens"][0].update(lstrip=True),
    "added_tokens": lambda t: t["added_tokens"][0].update(id=5),
}


@pytest.fixture(scope="module")
def good():
    return MAKERS["gpt2"]().to_str()


@pytest.mark.parametrize("path", sorted(REFUSED))
def test_what_is_not_known_is_refused_by_its_path(path, good, tmp_path):
    tokenizer = json.loads(good)
    REFUSED[path](tokenizer)
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(tokenizer))
    done = subprocess.run([ENCODE, str(file)], input=b"", capture_output=True, timeout=60)
    assert done.returncode == 2, done.stderr.decode()
    assert f"tokenizer.json: {path}" in done.stdout.decode()
