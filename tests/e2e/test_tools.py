"""Tool calls and reasoning through the daemon: what is given to the template, and what of an answer becomes which part.

Small models call no tools reliably, so answers are given with forced_token_ids: they go through decode, the worker's text
and the front's parser like drawn ones."""

import json

import pytest

import weightd

USER = [{"role": "user", "content": "How is the weather in Brno?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a place",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    },
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"place": "Brno \\"střed\\" 🌧"}}\n</tool_call>'
ARGUMENTS = {"place": 'Brno "střed" 🌧'}

@pytest.fixture(scope="module")
def daemon_of_three(hermes_model, tiny):
    models = {
        "hermes": hermes_model,
        "plain": tiny,
        "thinker": {"path": tiny, "reasoning": "think", "tool_parser": "mistral"},
    }
    with weightd.running(models) as running:
        running.wait_all_ready()
        yield running


def ids_of(http, model, text):
    return http.post("/tokenize", {"model": model, "content": text}).ok()["tokens"]


def forced(http, model, text, **more):
    ids = ids_of(http, model, text)
    return {"model": model, "messages": USER, "forced_token_ids": ids, "max_tokens": len(ids), **more}


def whole(http, body):
    return http.post("/v1/chat/completions", body).ok()["choices"]


def streamed(http, body):
    """The choices, put together from a stream's deltas as OpenAI's clients do it."""
    choices = {}
    for event in http.stream("/v1/chat/completions", body):
        for choice in event["choices"]:
            so_far = choices.setdefault(choice["index"], {"content": "", "calls": [], "reasoning": "", "finish": None})
            delta = choice["delta"]
            so_far["content"] += delta.get("content") or ""
            so_far["reasoning"] += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls", []):
                if call["index"] == len(so_far["calls"]):
                    assert call["id"] and call["type"] == "function" and call["function"]["name"]
                    so_far["calls"].append([call["function"]["name"], ""])
                else:
                    assert "id" not in call and "name" not in call["function"]
                so_far["calls"][call["index"]][1] += call["function"]["arguments"]
            so_far["finish"] = so_far["finish"] or choice["finish_reason"]
    return [choices[index] for index in sorted(choices)]


def as_streamed(choices):
    return [
        {
            "content": choice["message"]["content"] or "",
            "calls": [
                [call["function"]["name"], call["function"]["arguments"]]
                for call in choice["message"].get("tool_calls", [])
            ],
            "reasoning": choice["message"].get("reasoning_content", ""),
            "finish": choice["finish_reason"],
        }
        for choice in choices
    ]


def test_a_call_of_a_tool(daemon_of_three):
    http = daemon_of_three.http
    body = forced(http, "hermes", "I look.\n" + CALL, tools=[WEATHER])
    choices = whole(http, body)
    message = choices[0]["message"]
    assert message["content"] == "I look."
    (call,) = message["tool_calls"]
    assert call["type"] == "function" and len(call["id"]) == 9
    assert call["function"]["name"] == "weather" and json.loads(call["function"]["arguments"]) == ARGUMENTS
    assert choices[0]["finish_reason"] == "length"  # forced to the last token
    assert streamed(http, body) == as_streamed(choices)


def test_the_model_ends_after_its_calls(daemon_of_three):
    """finish_reason is tool_calls when the model ended by itself."""
    http = daemon_of_three.http
    text = CALL + "\n" + CALL + "STOP"
    body = forced(http, "hermes", text, tools=[WEATHER], stop="STOP")
    choices = whole(http, body)
    assert choices[0]["finish_reason"] == "tool_calls" and choices[0]["message"]["content"] is None
    assert len({call["id"] for call in choices[0]["message"]["tool_calls"]}) == 2
    assert streamed(http, body) == as_streamed(choices)
    one = whole(http, {**body, "parallel_tool_calls": False})
    assert len(one[0]["message"]["tool_calls"]) == 1
    two = whole(http, {**body, "n": 2})
    assert [len(choice["message"]["tool_calls"]) for choice in two] == [2, 2]
    assert streamed(http, {**body, "n": 2}) == as_streamed(two)


def test_arguments_come_in_pieces(daemon_of_three):
    http = daemon_of_three.http
    events = list(http.stream("/v1/chat/completions", forced(http, "hermes", CALL, tools=[WEATHER])))
    pieces = [event for event in events if event["choices"][0]["delta"].get("tool_calls")]
    assert len(pieces) > 5


def test_without_tools_it_is_text(daemon_of_three):
    http = daemon_of_three.http
    text = CALL.replace("<tool_call>", "")  # the token is none then
    for more in ({}, {"tools": [WEATHER], "tool_choice": "none"}):
        message = whole(http, forced(http, "hermes", CALL, **more))[0]["message"]
        assert "tool_calls" not in message and message["content"] == text


def test_a_conversation_with_tools_reaches_the_template(daemon_of_three):
    http = daemon_of_three.http
    messages = [
        *USER,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": '{"place":"Brno"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "abcdefghi", "content": "rain"},
    ]
    prompt = http.post("/apply-template", {"model": "hermes", "messages": messages, "tools": [WEATHER]}).ok()["prompt"]
    assert json.dumps(WEATHER["function"]["description"]) in prompt
    assert '<tool_call>\n{"name": "weather", "arguments": {"place": "Brno"}}\n</tool_call>' in prompt
    assert "<tool_response>rain</tool_response>" in prompt
    bare = http.post("/apply-template", {"model": "hermes", "messages": messages, "tools": [WEATHER], "tool_choice": "none"})
    assert "# Tools" not in bare.ok()["prompt"]


def test_a_model_without_tools_says_so(daemon_of_three):
    error = daemon_of_three.http.post(
        "/v1/chat/completions", {"model": "plain", "messages": USER, "tools": [WEATHER]}
    ).error(400)
    assert error["param"] == "tools" and "tool_parser" in error["message"]


def test_reasoning_is_apart(daemon_of_three):
    http = daemon_of_three.http
    text = "<think>\nBrno is a town. 🤔\n</think>\n\nRainy."
    body = forced(http, "thinker", text)
    choices = whole(http, body)
    assert choices[0]["message"]["reasoning_content"] == "Brno is a town. 🤔"
    assert choices[0]["message"]["content"] == "Rainy."
    assert streamed(http, body) == as_streamed(choices)
    as_text = whole(http, forced(http, "plain", text))[0]["message"]
    assert as_text["content"] == text and "reasoning_content" not in as_text


def test_reasoning_that_the_prompt_begins(daemon_of_three):
    http = daemon_of_three.http
    kwargs = {"chat_template_kwargs": {"think": True}}
    body = forced(http, "hermes", "Hm.\n</think>\nRainy. ", **kwargs)
    choices = whole(http, body)
    assert as_streamed(choices)[0] == {"content": "Rainy. ", "calls": [], "reasoning": "Hm.", "finish": "length"}
    assert streamed(http, body) == as_streamed(choices)


def test_mistrals_list(daemon_of_three):
    http = daemon_of_three.http
    body = forced(http, "thinker", '<think>a</think>[TOOL_CALLS][{"name": "f", "arguments": {"a": [1]}}]', tools=[WEATHER])
    choices = whole(http, body)
    assert as_streamed(choices)[0]["calls"] == [["f", '{"a": [1]}']] and as_streamed(choices)[0]["reasoning"] == "a"
    assert streamed(http, body) == as_streamed(choices)
