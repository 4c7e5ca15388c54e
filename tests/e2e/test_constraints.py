"""Answers that have to look like something: whatever the model would rather say, what is finished fits."""

import concurrent.futures
import json
import re

import jsonschema
import pytest

import weightd

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "mood": {"enum": ["fine", "so-so", None]},
        "born": {"type": "string", "format": "date"},
        "scores": {"type": "array", "items": {"type": "number", "minimum": -1, "maximum": 1}, "minItems": 1, "maxItems": 3},
        "pet": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/pet"}]},
    },
    "required": ["name", "age", "mood", "born", "scores"],
    "additionalProperties": False,
    "$defs": {
        "pet": {
            "type": "object",
            "properties": {"kind": {"type": "string", "pattern": "^[a-z]{2,8}$"}, "friend": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/pet"}]}},
            "required": ["kind", "friend"],
            "additionalProperties": False,
        }
    },
}
PHONE = r"(\+\d{1,2} )?\(\d{3}\) \d{3}-\d{4}|none|[é-ü]{3}"
SUMS = 'root ::= term ("+" term){1,4} "=" [0-9]+ "\\n"\nterm ::= [1-9] [0-9]{0,2} | "(" term "-" term ")"'


def is_sum(text):
    term = r"[1-9]\d{0,2}"
    while (shorter := re.sub(r"\(([1-9]\d{0,2})-([1-9]\d{0,2})\)", "1", text)) != text:
        text = shorter
    return re.fullmatch(rf"{term}(\+{term}){{1,4}}=\d+\n", text)


def is_person(text):
    jsonschema.validate(json.loads(text), PERSON, format_checker=jsonschema.FormatChecker())
    return True


CASES = {
    "schema": ({"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON, "strict": True}}}, is_person),
    "guided_json": ({"guided_json": PERSON}, is_person),
    "object": ({"response_format": {"type": "json_object"}}, lambda text: isinstance(json.loads(text), dict)),
    "regex": ({"structured_outputs": {"regex": PHONE}}, lambda text: re.fullmatch(PHONE, text)),
    "choice": ({"guided_choice": ["yes", "yesterday", "no", "Grüße ✓"]}, lambda text: text in ("yes", "yesterday", "no", "Grüße ✓")),
    "grammar": ({"grammar": SUMS}, is_sum),
}


def ask(http, more, seed, temperature, stream=False, max_tokens=400):
    body = {"messages": [{"role": "user", "content": "Tell me of a person."}], "seed": seed, "temperature": temperature,
            "max_tokens": max_tokens, **more}
    if not stream:
        choice = http.post("/v1/chat/completions", body).ok()["choices"][0]
        return choice["message"]["content"], choice["finish_reason"]
    text, finish = "", None
    for event in http.stream("/v1/chat/completions", body):
        for choice in event["choices"]:
            text += choice["delta"].get("content") or ""
            finish = choice["finish_reason"] or finish
    return text, finish


def check(http, name, n):
    more, fits = CASES[name]
    jobs = [(more, seed, 1 + seed % 3 / 2, seed % 2 == 1) for seed in range(n)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda job: ask(http, *job), jobs))
    finished = [text for text, finish in answers if finish == "stop"]
    for text in finished:
        assert fits(text), text
    return finished


@pytest.mark.parametrize("name", CASES)
def test_what_is_finished_fits(http, name):
    assert len(check(http, name, 12)) >= (3 if name == "object" else 8)


@pytest.mark.parametrize("name", CASES)
def test_a_model_that_knows_nothing_is_held_to_it_too(start, tiny, name):
    http = start({"tiny": tiny}).http
    finished = []
    more, fits = CASES[name]
    for seed in range(12):
        body = {"prompt": "x", "seed": seed, "temperature": 1, "max_tokens": 200, **more}
        choice = http.post("/v1/completions", body).ok()["choices"][0]
        if choice["finish_reason"] == "stop":
            assert fits(choice["text"]), choice
            finished.append(choice["text"])
    if name in ("regex", "choice"):
        assert finished


def test_answers_are_the_same_alone_and_together(http):
    jobs = [(more, seed, 1) for more, _ in CASES.values() for seed in range(2)]
    alone = [ask(http, *job, max_tokens=60) for job in jobs]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        assert list(pool.map(lambda job: ask(http, *job, max_tokens=60), jobs)) == alone


def test_answers_are_the_same_when_they_are_evicted(http, start, model):
    """A call that gives its memory up and is computed again stands in its grammar where it stood."""
    regexes = [r"([a-z]{2,9}[ ,.]){60,90}", r"(\d{1,4} [a-f]+\n){70,90}"]
    bodies = [
        {"prompt": f"Number {i}:", "max_tokens": 200, "seed": i, "structured_outputs": {"regex": regexes[i % 2]}}
        for i in range(6)
    ]
    ask = lambda where, body: where.post("/v1/completions", body).ok()["choices"]  # noqa: E731
    alone = [ask(http, body) for body in bodies]
    small = start({"smollm2": model}, {"kv_bytes": "12M"})  # not enough for three of them at their ends
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        together = list(pool.map(lambda body: ask(small.http, body), bodies))
    assert weightd.metric(small, "weightd_evicted_total") > 0 and weightd.metric(small, "weightd_replayed_tokens_total") > 0
    assert together == alone
    for body, (choice,) in zip(bodies, alone, strict=True):
        assert choice["finish_reason"] == "length" or re.fullmatch(body["structured_outputs"]["regex"], choice["text"])


def test_log_probabilities_stay_the_models_own(http):
    body = {"prompt": "The capital of France is", "max_tokens": 1, "temperature": 0, "logprobs": 3}
    free = http.post("/v1/completions", body).ok()["choices"][0]["logprobs"]
    held = http.post("/v1/completions", {**body, "guided_choice": ["@"]}).ok()["choices"][0]["logprobs"]
    assert held["tokens"] == ["@"] and free["tokens"] != ["@"]
    assert held["top_logprobs"][0].items() >= free["top_logprobs"][0].items()


def test_biases_move_tokens(http):
    body = {"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0, "return_token_ids": True}
    free = http.post("/v1/completions", body).ok()["choices"][0]["token_ids"]
    other = http.post("/v1/completions", {**body, "logit_bias": {str(free[0]): -100}}).ok()["choices"][0]["token_ids"]
    assert free[0] not in other
    always = http.post("/v1/completions", {**body, "logit_bias": {"30": 100}}).ok()["choices"][0]["token_ids"]
    assert always == [30] * 4
    error = http.post("/v1/completions", {**body, "logit_bias": {"49152": 1}}).error(400)
    assert error["param"] == "logit_bias"


@pytest.mark.parametrize(
    "more, param, words",
    [
        ({"guided_regex": "(a"}, "guided_regex", "byte 2"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"properties": {"a": {"not": {}}}}}}}, "response_format", "#/properties/a"),
        ({"grammar": "root ::= root"}, "grammar", "root"),
        ({"grammar": 'root ::= "a"{1000000000}'}, "grammar", "too large"),
        ({"guided_json": {}, "guided_regex": "a"}, "guided_regex", "one of them"),
        ({"structured_outputs": {"regex": "a(?=b)"}}, "structured_outputs", "ahead"),
    ],
)
def test_what_cant_be_enforced_is_refused(http, more, param, words):
    for stream in (False, True):
        error = http.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "stream": stream, **more}).error(400)
        assert error["param"] == param and words in error["message"]
