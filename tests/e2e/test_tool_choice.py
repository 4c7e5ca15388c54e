"""Calls that have to be made: with tool_choice, or strict functions, what a model writes is a call in its own format, with
arguments that fit, whatever the model would rather say. The model here is random, so it would rather say anything."""

import concurrent.futures
import json
import subprocess
import sys

import jsonschema
import pytest

import weightd
from test_tools import USER, as_streamed, streamed, whole

PLACE = {"type": "object", "properties": {"place": {"enum": ["Brno", "Zürich 🌧", 'the "end"']}, "days": {"$ref": "#/$defs/days"}},
         "required": ["place"], "additionalProperties": False, "$defs": {"days": {"type": "integer", "minimum": 1, "maximum": 16}}}
NOTE = {"type": "object", "properties": {"text": {"type": "string", "maxLength": 12}, "loud": {"type": "boolean"}}, "required": ["text", "loud"]}


def tool(name, parameters=None, **more):
    return {"type": "function", "function": {"name": name, "description": f"does {name}", **({"parameters": parameters} if parameters else {}), **more}}


TOOLS = [tool("weather", PLACE), tool("note", NOTE), tool("stop-it")]
SCHEMAS = {"weather": PLACE, "note": NOTE, "stop-it": {"type": "object", "maxProperties": 0}}
MARKS = {"hermes": "<tool_call>", "llama3": "<|python_tag|>", "mistral": "[TOOL_CALLS]"}


@pytest.fixture(scope="module")
def formats(tmp_path_factory):
    """One model in each format, and once more as one that thinks aloud first."""
    path = tmp_path_factory.mktemp("formats") / "formats.gguf"
    tokens = [word for text in [*MARKS.values(), "<think>", "</think>"] for word in ("--text-token", text)]
    subprocess.run([sys.executable, weightd.TOP / "tests/tools/tiny_gguf.py", *tokens, path], check=True)
    models = {name: {"path": path, "tool_parser": name} for name in MARKS}
    models["thinker"] = {"path": path, "tool_parser": "hermes", "reasoning": "think"}
    with weightd.running(models) as running:
        running.wait_all_ready()
        yield running.http


def id_of(http, model, text):
    (id,) = http.post("/tokenize", {"model": model, "content": text}).ok()["tokens"]
    return str(id)


def ask(http, model, **more):
    body = {"model": model, "messages": USER, "tools": TOOLS, "temperature": 1, "max_tokens": 300, **more}
    (choice,) = whole(http, body)
    if more.get("seed", 0) % 3 == 0:
        assert streamed(http, body) == as_streamed([choice])
    return choice


def names(choice):
    return [call["function"]["name"] for call in choice["message"].get("tool_calls", [])]


def check_calls(choice, schemas=SCHEMAS):
    for call in choice["message"]["tool_calls"]:
        jsonschema.validate(json.loads(call["function"]["arguments"]), schemas[call["function"]["name"]])


def many(http, model, n, **more):
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        return list(pool.map(lambda seed: ask(http, model, seed=seed, **more), range(n)))


@pytest.mark.parametrize("kind", MARKS)
def test_a_call_that_is_required(formats, kind, amount):
    seen = set()
    for choice in many(formats, kind, amount(12, 100), tool_choice="required"):
        if choice["finish_reason"] == "length":
            continue
        assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
        check_calls(choice)
        seen |= set(names(choice))
    assert seen


@pytest.mark.parametrize("kind", MARKS)
def test_a_tool_that_is_named_is_called_once(formats, kind, amount):
    for name in ("weather", "stop-it"):
        for choice in many(formats, kind, amount(6, 50), tool_choice={"type": "function", "function": {"name": name}}):
            assert choice["finish_reason"] == "tool_calls" and names(choice) == [name]
            check_calls(choice)


@pytest.mark.parametrize("kind", MARKS)
def test_without_parallel_calls_it_is_one(formats, kind, amount):
    for choice in many(formats, kind, amount(8, 60), tool_choice="required", parallel_tool_calls=False):
        assert choice["finish_reason"] == "tool_calls" and len(names(choice)) == 1
        check_calls(choice)


def test_only_allowed_tools_are_called(formats):
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": name}} for name in ("stop-it", "weather")]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    for answer in many(formats, "hermes", 4, tool_choice=choice, parallel_tool_calls=False):
        assert names(answer)[0] in ("stop-it", "weather")
        check_calls(answer)


def test_reasoning_comes_first_and_is_free(formats, amount):
    """Biases make the model think, and end its thoughts soon; what it says behind them is what was asked for."""
    bias = {id_of(formats, "thinker", "<think>"): 5, id_of(formats, "thinker", "</think>"): 5}
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": NOTE}}
    cases = [{"tool_choice": "required", "parallel_tool_calls": False}, {"tools": [], "response_format": schema}]
    thoughtful = [0, 0]
    for i, more in enumerate(cases):
        for choice in many(formats, "thinker", amount(8, 60), logit_bias=bias, **more):
            message = choice["message"]
            if choice["finish_reason"] == "length":
                continue
            thoughtful[i] += bool(message.get("reasoning_content"))
            if i == 0:
                assert len(names(choice)) == 1 and message["content"] is None
                check_calls(choice)
            else:
                jsonschema.validate(json.loads(message["content"]), NOTE)
    assert all(thoughtful)


@pytest.mark.parametrize("kind", MARKS)
def test_strict_functions_leave_the_choice_to_the_model(formats, kind, amount):
    """Text is free, and what begins as a call fits."""
    tools = [tool("weather", PLACE, strict=True), tool("note", NOTE, strict=True)]
    mark = id_of(formats, kind, MARKS[kind])
    with_text, with_calls = 0, 0
    for choice in many(formats, kind, amount(12, 80), tools=tools, logit_bias={mark: 3.5}):
        calls = choice["message"].get("tool_calls", [])
        if choice["finish_reason"] == "length":
            calls = calls[:-1]
        check_calls({"message": {"tool_calls": calls}})
        with_text += bool(choice["message"]["content"])
        with_calls += bool(calls)
    assert with_text and with_calls


@pytest.mark.parametrize("kind", MARKS)
def test_an_answer_is_calls_or_what_was_asked_for(formats, kind, amount):
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": [1, "one", [1]]}}}
    tools = [tool("weather", PLACE, strict=True), tool("note", NOTE, strict=True)]
    kinds = set()
    for choice in many(formats, kind, amount(16, 100), tools=tools, response_format=schema):
        if choice["finish_reason"] == "length":
            continue
        kinds.add(choice["finish_reason"])
        if choice["finish_reason"] == "tool_calls":
            assert choice["message"]["content"] is None
            check_calls(choice)
        else:
            assert json.loads(choice["message"]["content"]) in (1, "one", [1])
    assert kinds == {"stop", "tool_calls"}


def test_a_mark_that_is_a_control_token(hermes_model, start):
    """It is what the model has learnt to begin calls with; its letters are not the same. Even a random model calls."""
    http = start({"hermes": {"path": hermes_model, "reasoning": "none"}}).http
    mark = http.post("/tokenize", {"content": "<tool_call>"}).ok()["tokens"]
    assert len(mark) == 1
    tools = [tool("weather", PLACE), tool("stop-it")]
    for seed in range(20):
        body = {"messages": USER, "tools": tools, "seed": seed, "max_tokens": 200, "tool_choice": "required",
                "parallel_tool_calls": False, "return_token_ids": True}
        (choice,) = whole(http, body)
        assert choice["token_ids"].count(mark[0]) == 1 and choice["token_ids"][0] == mark[0]
        assert streamed(http, body) == as_streamed([choice])
        if choice["finish_reason"] != "length":
            check_calls(choice)
        strict = [tool("weather", PLACE, strict=True)]
        (free,) = whole(http, {**body, "tools": strict, "tool_choice": "auto", "logit_bias": {str(mark[0]): 3}})
        if free["finish_reason"] != "length":
            check_calls({"message": {"tool_calls": free["message"].get("tool_calls", [])}})


def test_answers_are_the_same_alone_and_together(formats):
    more = [{"tool_choice": "required"}, {"tools": [tool("weather", PLACE, strict=True)]}]
    alone = [ask(formats, "hermes", seed=seed, max_tokens=40, **each) for each in more for seed in range(2)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(ask, formats, "hermes", seed=seed, max_tokens=40, **each) for each in more for seed in range(2)]
        together = [job.result() for job in jobs]
    assert [as_streamed([choice]) for choice in together] == [as_streamed([choice]) for choice in alone]


@pytest.mark.parametrize(
    "more, param, words",
    [
        ({"tools": [tool("f", {"type": "object", "properties": {"a": {"not": {}}}})]}, "tools", "function 'f': at '#/properties/a'"),
        ({"tools": [tool("f", {"type": "array"})]}, "tools", "schema of objects"),
        ({"tools": [tool("f", {"type": "object", "minProperties": 2}, strict=True)], "tool_choice": "auto"}, "tools", "minProperties"),
        ({"response_format": {"type": "json_object"}}, "tools", "response_format"),
        ({"tools": None}, "tool_choice", "no 'tools'"),
        ({"tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice", "'other'"),
    ],
)
def test_what_cant_be_enforced_is_refused(formats, more, param, words):
    body = {"model": "hermes", "messages": USER, "tools": TOOLS, "tool_choice": "required", **more}
    for stream in (False, True):
        error = formats.post("/v1/chat/completions", {**body, "stream": stream}).error(400)
        assert error["param"] == param and words in error["message"], error
