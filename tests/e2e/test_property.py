"""Random requests, and what holds of every answer: a stream says what a whole answer says, no stop string is in it, it is
UTF-8, and it is what a plain model of the rules makes of its tokens' bytes.

The model is random, so its tokens end anywhere, in the middle of characters above all, and half of the answers are given
(forced_token_ids): bytes of texts with characters of every length, cut at every place, and bytes that are no text. A
failure prints the request, which is all it takes to see it again."""

import codecs
import concurrent.futures
import json
import random
import subprocess
import sys

import jsonschema
import pytest

import weightd

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
END = 2
MARKS = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
TEXTS = ["naïve café – „quoted“", "日本語のテキスト", "🌧🇨🇿👩‍👩‍👧", "a\u0301e\u0308", "Ωμέγα\n\tñ", "plain text, quick brown fox", "\ufffd \ufffd", "x\0y", "İstanbul ﬁ"]
BROKEN = [b"\x80", b"\xc3", b"\xe6\x97", b"\xf0\x9f\x8c", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xe6\x97a"]
PARAMETERS = {"type": "object", "properties": {"place": {"enum": ["Brno", "Zürich 🌧"]}, "n": {"type": "integer", "maximum": 99, "minimum": 0}},
              "required": ["place"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"place": "Zürich 🌧", "n": 7}}\n</tool_call>'
CONSTRAINTS = [{"guided_regex": "[äé🌧]{2,5}x?"}, {"guided_choice": ["ja", "jawohl", "日本", "日曜"]}, {"guided_json": PARAMETERS},
               {"response_format": {"type": "json_object"}}]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    path = tmp_path_factory.mktemp("property") / "property.gguf"
    tokens = [word for text in MARKS for word in ("--text-token", text)]
    subprocess.run([sys.executable, weightd.TOP / "tests/tools/tiny_gguf.py", *tokens, path], check=True)
    models = {
        "plain": path,
        "hermes": {"path": path, "tool_parser": "hermes"},
        "thinker": {"path": path, "tool_parser": "hermes", "reasoning": "think"},
    }
    with weightd.running(models) as running:
        running.wait_all_ready()
        yield running.http


class Vocabulary:
    """Every token's bytes, as the daemon tells them of forced tokens; and tokens for bytes that it would not write so."""

    def __init__(self, http):
        self.pieces = []
        while True:
            ids = list(range(len(self.pieces), len(self.pieces) + 100))
            body = {"model": "plain", "messages": [{"role": "user", "content": "x"}], "logprobs": True, "max_tokens": 100}
            answer = http.post("/v1/chat/completions", {**body, "forced_token_ids": ids})
            if answer.status == 400:
                ids = ids[: int(answer.json["error"]["message"].split()[-1]) - ids[0]]
                answer = http.post("/v1/chat/completions", {**body, "forced_token_ids": ids, "max_tokens": len(ids)})
            self.pieces += [bytes(row["bytes"]) for row in answer.ok()["choices"][0]["logprobs"]["content"]]
            if len(ids) < 100:
                break
        self.of_byte = {piece[0]: id for id, piece in enumerate(self.pieces) if len(piece) == 1}
        assert len(self.of_byte) == 256

    def shown(self, id):
        return b"" if id < len(CONTROL) else self.pieces[id]

    def ids(self, text, rng):
        """Tokens that spell these bytes, the longest or any that fit."""
        found = []
        while text:
            fits = [id for id, piece in enumerate(self.pieces) if id >= len(CONTROL) and piece and text.startswith(piece)]
            found.append(rng.choice(fits))
            text = text[len(self.pieces[found[-1]]) :]
        return found


@pytest.fixture(scope="module")
def vocabulary(served):
    return Vocabulary(served)


# --- what the rules say ----------------------------------------------------------------------------


def model_of(vocabulary, ids, finish, stops, before):
    """The answer's text by its tokens, and whether a stop string ended it. `before`: the decoder, after an echoed prompt."""
    text = ""
    for n, id in enumerate(ids):
        last = n == len(ids) - 1
        text += before.decode(vocabulary.shown(id))
        found = [at for at in (text.find(stop) for stop in stops) if at >= 0]
        if found:
            assert last, "it went on behind a stop string"
            return text[: min(found)], True
    text += before.decode(b"", final=True)
    found = [at for at in (text.find(stop) for stop in stops) if at >= 0]
    return (text[: min(found)] if found else text), bool(found)


# --- requests --------------------------------------------------------------------------------------


def stops_of(rng, likely):
    """Some from the text to come, over any borders; prefixes of each other; and some that never come."""
    pool = ["z", "qu", "quick", "äö", "語", "\ufffd", "🌧", "\n\n"]
    if len(likely) > 3:
        at = rng.randrange(len(likely) - 2)
        piece = likely[at : at + rng.randrange(1, 6)]
        pool += [piece, piece[:1], piece + "日", piece[:-1] or piece, piece] * 2
    return [stop for stop in rng.sample(pool, rng.randrange(0, 5)) if stop and "\0" not in stop][:4]


def bytes_of(rng):
    parts = [rng.choice(TEXTS).encode() if rng.random() < 0.7 else rng.choice(BROKEN) for _ in range(rng.randrange(1, 4))]
    whole = b"".join(parts)
    return whole[rng.randrange(3) if rng.random() < 0.3 else 0 : len(whole) - (rng.randrange(4) if rng.random() < 0.5 else 0)]


def sampling_of(rng):
    more = {"seed": rng.randrange(2**40), "temperature": rng.choice([0, 0.5, 1, 1.5])}
    for name, values in {"top_p": [0.3, 0.9], "top_k": [1, 5, 40], "min_p": [0.1], "presence_penalty": [-1, 1.5], "frequency_penalty": [0.7],
                         "repeat_penalty": [1.3], "n": [1, 2, 3]}.items():
        if rng.random() < 0.2:
            more[name] = rng.choice(values)
    if rng.random() < 0.3:
        more["logit_bias"] = {str(rng.randrange(7, 400)): rng.choice([-100, -3, 2, 5]) for _ in range(rng.randrange(1, 5))}
    return more


def request_of(rng, vocabulary):
    body = {"model": "plain", "return_token_ids": True, "max_tokens": rng.randrange(1, 40), **sampling_of(rng)}
    given = bytes_of(rng) if rng.random() < 0.6 else b""
    chat = rng.random() < 0.5
    if chat:
        body["messages"] = [{"role": "user", "content": rng.choice(TEXTS)}]
        body["model"] = rng.choice(["plain", "hermes", "thinker"])
        if rng.random() < 0.4:
            body |= {"logprobs": True, "top_logprobs": rng.randrange(4)}
        if body["model"] == "hermes" and rng.random() < 0.8:
            body["tools"] = [{"type": "function", "function": {**TOOL["function"], "strict": rng.random() < 0.3}}]
            body["parallel_tool_calls"] = rng.random() < 0.7
            given = b"".join(rng.choice([CALL.encode(), given[:8], b"<tool_", b"<tool_call>{", b"\n"]) for _ in range(rng.randrange(4)))
        if body["model"] == "thinker":
            given = rng.choice([b"<think>", b"\n<think>\n", b"<thin", b""]) + given + rng.choice([b"</think>", b"</thi", b" </think>\n\n", b""]) + given[:7]
    else:
        texts = [rng.choice(TEXTS) for _ in range(rng.randrange(1, 4))]
        ids = [vocabulary.ids(bytes_of(rng) or b"x", rng) for _ in texts]
        body["prompt"] = rng.choice([texts[0], texts, ids[0], ids])
        body["echo"] = rng.random() < 0.4
        if rng.random() < 0.5:
            body["logprobs"] = rng.randrange(4)
    body["stop"] = stops_of(rng, given.decode(errors="replace"))
    strict = "tools" in body and body["tools"][0]["function"]["strict"]
    if chat and "tools" in body and not strict and rng.random() < 0.3:
        body |= {"tool_choice": "required", "max_tokens": 150}
    elif strict:
        body["max_tokens"] = 60
    elif "tools" not in body and rng.random() < 0.2:
        body |= {**rng.choice(CONSTRAINTS), "max_tokens": 60}
    elif given:
        forced = vocabulary.ids(given, rng)
        if rng.random() < 0.2:
            forced.insert(rng.randrange(len(forced)), rng.randrange(3))  # control tokens are no text
        body |= {"forced_token_ids": forced, "max_tokens": len(forced) + rng.randrange(6), "ignore_eos": rng.random() < 0.3}
    return body


# --- answers ---------------------------------------------------------------------------------------


def empty():
    return {"text": "", "reasoning": "", "calls": [], "finish": None, "ids": [], "prompt_ids": None, "logprobs": None}


def add_logprobs(so_far, more):
    if more is None:
        return so_far
    if so_far is None:
        return more
    return {key: value + more[key] if isinstance(value, list) else value for key, value in so_far.items()}


def put_together(events):
    choices, usage = {}, None
    for event in events:
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            so_far, delta = choices.setdefault(choice["index"], empty()), choice.get("delta", choice)
            assert so_far["finish"] is None, "an event behind the last"
            so_far["text"] += delta.get("content") or delta.get("text") or ""
            so_far["reasoning"] += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls", []):
                if call["index"] == len(so_far["calls"]):
                    so_far["calls"].append([call["function"]["name"], ""])
                so_far["calls"][call["index"]][1] += call["function"]["arguments"]
            so_far["finish"] = choice["finish_reason"]
            so_far["ids"] += choice.get("token_ids", [])
            so_far["prompt_ids"] = choice.get("prompt_token_ids", so_far["prompt_ids"])
            so_far["logprobs"] = add_logprobs(so_far["logprobs"], choice["logprobs"])
    return [choices[index] for index in sorted(choices)], usage


def as_parts(choice):
    message = choice.get("message", choice)
    return {
        "text": message.get("content") or message.get("text") or "",
        "reasoning": message.get("reasoning_content", ""),
        "calls": [[call["function"]["name"], call["function"]["arguments"]] for call in message.get("tool_calls", [])],
        "finish": choice["finish_reason"],
        "ids": choice["token_ids"],
        "prompt_ids": choice["prompt_token_ids"],
        "logprobs": choice["logprobs"],
    }


def check_logprobs(vocabulary, body, choice, ids):
    logprobs = choice["logprobs"]
    wanted = body.get("logprobs")
    if wanted is None or wanted is False:
        assert logprobs is None
    elif "messages" in body:
        assert [bytes(row["bytes"]) for row in logprobs["content"]] == [vocabulary.pieces[id] for id in ids]
        assert all(len(row["top_logprobs"]) == body["top_logprobs"] for row in logprobs["content"])
    else:
        all_ids = (choice["prompt_ids"] if body["echo"] else []) + ids
        assert logprobs["tokens"] == [vocabulary.pieces[id].decode(errors="replace") for id in all_ids]
        offset, offsets = 0, []
        for token in logprobs["tokens"]:
            offsets.append(offset)
            offset += len(token)
        assert logprobs["text_offset"] == offsets and len(logprobs["token_logprobs"]) == len(all_ids)


def check_choice(vocabulary, body, choice):
    ids, forced = choice["ids"], body.get("forced_token_ids", [])
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    echoed = decoder.decode(b"".join(vocabulary.pieces[id] for id in choice["prompt_ids"])) if body.get("echo") else ""
    text, stopped = model_of(vocabulary, ids, choice["finish"], body["stop"], decoder)
    ended = len(ids) > len(forced) and ids[-1] == END and not body.get("ignore_eos")
    constrained = "tool_choice" in body or any(key in body for each in CONSTRAINTS for key in each) or (
        "tools" in body and body["tools"][0]["function"]["strict"])
    assert forced[: len(ids)] == ids[: len(forced)]
    assert stopped or len(ids) >= len(forced)
    check_logprobs(vocabulary, body, choice, ids)
    if stopped or ended:
        assert choice["finish"] == ("tool_calls" if choice["calls"] else "stop")
    elif not constrained:
        assert choice["finish"] == "length" and len(ids) == body["max_tokens"]
    if body["model"] == "plain" or (body["model"] == "hermes" and "tools" not in body):
        assert choice["text"] == echoed + text
        return
    # Nothing is said that was not written, and in its order; what is lost is white space and marks.
    at = 0
    for part in [choice["reasoning"]] + ([] if choice["calls"] else [choice["text"]]):
        assert part in text[at:]
        at += text[at:].index(part) + len(part)
    for name, arguments in choice["calls"]:
        assert arguments in text and name in text
    if constrained and not stopped and choice["finish"] != "length":
        for _, arguments in choice["calls"]:
            jsonschema.validate(json.loads(arguments), PARAMETERS)
    if "tool_choice" in body and choice["finish"] != "length" and not stopped:
        assert choice["calls"] and not choice["text"]


def check(http, vocabulary, body):
    path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    whole = http.post(path, body).ok()
    choices = [as_parts(choice) for choice in whole["choices"]]
    streamed, usage = put_together(http.stream(path, {**body, "stream_options": {"include_usage": True}}))
    assert streamed == choices and usage == whole["usage"]
    n = body.get("n", 1)
    assert usage["completion_tokens"] == sum(len(choice["ids"]) for choice in choices)
    assert usage["prompt_tokens"] == sum(len(choice["prompt_ids"]) for choice in choices[::n])
    for choice in choices:
        check_choice(vocabulary, body, choice)
        for part in (choice["text"], choice["reasoning"]):
            part.encode()  # no lone surrogates
        if not body.get("echo"):
            assert not any(stop in choice["text"] or stop in choice["reasoning"] for stop in body["stop"])
    return choices


def test_every_answer_is_what_its_tokens_say(served, vocabulary, amount, record):
    def one(seed):
        body = request_of(random.Random(seed), vocabulary)
        try:
            return len(check(served, vocabulary, body))
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}: {json.dumps(body, ensure_ascii=False)}\n{failure}") from None

    first = random.SystemRandom().randrange(2**32)
    print(f"seeds from {first}")
    n = amount(150, 5000)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        record("random requests", n, "requests")
        record("their answers", sum(pool.map(one, range(first, first + n))), "answers")


def test_characters_cut_at_every_place(served, vocabulary):
    """Byte by byte, with and without an end, and with what the rest of a character becomes as a stop string."""
    for text in TEXTS:
        whole = text.encode()
        for end in range(1, len(whole) + 1):
            ids = [vocabulary.of_byte[byte] for byte in whole[:end]]
            body = {"model": "plain", "prompt": "x", "return_token_ids": True, "echo": False, "forced_token_ids": ids, "max_tokens": len(ids)}
            (choice,) = check(served, vocabulary, {**body, "stop": []})
            assert choice["text"] == whole[:end].decode(errors="replace")
            (choice,) = check(served, vocabulary, {**body, "stop": ["\ufffd"]})
            assert choice["text"] == whole[:end].decode(errors="replace").partition("\ufffd")[0]
