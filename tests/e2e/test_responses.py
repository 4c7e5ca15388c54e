"""/v1/responses: the same call as a chat completion, read and written in other words. Events are read raw here, so that
every one of them is held against what it says together with the others."""

import json
import re

import httpx2
import openai
import pydantic
import pytest

import weightd

ENDED = {"completed": "response.completed", "incomplete": "response.incomplete"}


def events_of(http, body, status=200):
    """The events of a stream, in order: numbered without a gap, named twice alike, the last one an end."""
    answer = http.post("/v1/responses", {**body, "stream": True})
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    events = []
    for block in answer.body.decode().split("\n\n")[:-1]:
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        assert event["sequence_number"] == len(events)
        events.append(event)
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1]["type"] in {"response.completed", "response.incomplete", "response.failed"}
    return events


def replayed(events):
    """What a client that believes only deltas makes of a stream: the items of the output, each opened once, in order of
    their index, and closed before the end with exactly what its deltas said."""
    output, open_items, texts = [], {}, {}
    for event in events[2:-1]:
        kind, index = event["type"].removeprefix("response."), event["output_index"]
        if kind == "output_item.added":
            assert index == len(output)
            assert event["item"]["status"] == "in_progress"
            output.append(None)
            open_items[index] = event["item"]["id"]
            texts[index] = ""
            continue
        assert index in open_items
        assert event.get("item_id", event.get("item", {}).get("id")) == open_items[index]
        if kind.endswith(".delta"):
            assert event["delta"]
            texts[index] += event["delta"]
        elif kind in ("output_text.done", "reasoning_text.done"):
            assert event["text"] == texts[index]
        elif kind == "function_call_arguments.done":
            assert event["arguments"] == texts[index]
        elif kind == "content_part.added":
            assert event["part"]["text"] == ""
        elif kind == "content_part.done":
            assert event["part"]["text"] == texts[index]
        else:
            assert kind == "output_item.done"
            del open_items[index]
            item = output[index] = event["item"]
            assert texts[index] == (item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"])
    assert not open_items
    return output


def without_names(response):
    """A response without what is made anew for each: ids, and the second of its making."""
    text = re.sub(r'"(id|item_id|call_id)": "[^"]*"', r'"\1": "-"', json.dumps(response))
    return re.sub(r'"created_at": \d+', '"created_at": 0', text)


def both_ways(http, body):
    """The answer as a whole, which a stream says, too: by its deltas, by its items, and by its last event."""
    whole = http.post("/v1/responses", body).ok()
    events = events_of(http, body)
    last = events[-1]["response"]
    assert events[-1]["type"] == ENDED[last["status"]]
    assert replayed(events) == last["output"]
    assert without_names(last) == without_names(whole)
    for event in events[:2]:
        assert event["response"]["status"] == "in_progress" and event["response"]["output"] == []
        assert event["response"]["id"] == last["id"]
    return whole


def text_of(response):
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


GREEDY = {"temperature": 0, "max_output_tokens": 24}
FRANCE = "What is the capital of France?"


def chat(http, messages, **more):
    body = {"messages": messages, "temperature": 0, "max_completion_tokens": 24, **more}
    return http.post("/v1/chat/completions", body).ok()


def test_a_response_is_a_chat(http):
    response = both_ways(http, {"input": FRANCE, **GREEDY})
    expected = chat(http, [{"role": "user", "content": FRANCE}])
    assert text_of(response) == expected["choices"][0]["message"]["content"] != ""
    assert response["object"] == "response" and response["model"] == "smollm2" and response["id"].startswith("resp_")
    usage = response["usage"]
    assert usage["input_tokens"] == expected["usage"]["prompt_tokens"]
    assert usage["output_tokens"] == expected["usage"]["completion_tokens"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert response["store"] is False and response["previous_response_id"] is None and response["error"] is None


def test_where_it_ends(http):
    cut = both_ways(http, {"input": FRANCE, "temperature": 0, "max_output_tokens": 3})
    assert cut["status"] == "incomplete" and cut["incomplete_details"] == {"reason": "max_output_tokens"}
    assert cut["output"][0]["status"] == "incomplete" and cut["max_output_tokens"] == 3
    whole = both_ways(http, {"input": "Say hello.", "temperature": 0, "max_output_tokens": 200})
    assert whole["status"] == "completed" and whole["incomplete_details"] is None
    assert whole["output"][0]["status"] == "completed"
    nothing = both_ways(http, {"input": "x", "temperature": 0, "max_output_tokens": 0})
    assert text_of(nothing) == "" and nothing["output"][0]["type"] == "message"


ITEMS = [
    {"role": "developer", "content": "You answer in few words."},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Where does "}, {"type": "input_text", "text": "it play?"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
    {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
     "content": [{"type": "output_text", "text": "At a river.", "annotations": [], "logprobs": []}]},
    {"role": "user", "content": "And what is made there?"},
]  # fmt: skip
MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {"role": "system", "content": "You answer in few words."},
    {"role": "user", "content": "Where does it play?"},
    {"role": "assistant", "content": "At a river."},
    {"role": "user", "content": "And what is made there?"},
]


def test_items_are_messages(http):
    response = both_ways(http, {"instructions": "Be kind.", "input": ITEMS, **GREEDY})
    expected = chat(http, MESSAGES)
    assert text_of(response) == expected["choices"][0]["message"]["content"]
    assert response["usage"]["input_tokens"] == expected["usage"]["prompt_tokens"]
    assert response["instructions"] == "Be kind."


def test_what_was_asked_is_said_again(http):
    body = {"input": "x", "metadata": {"a": "b"}, "temperature": 0.5, "top_p": 0.25, "seed": 1, "max_output_tokens": 2,
            "store": True, "user": "me", "truncation": "disabled", "text": {"format": {"type": "text"}}}  # fmt: skip
    response = http.post("/v1/responses", body).ok()
    for name in ("metadata", "temperature", "top_p", "max_output_tokens"):
        assert response[name] == body[name]
    assert response["store"] is False and response["text"]["format"] == {"type": "text"}
    assert (response["tools"], response["tool_choice"], response["parallel_tool_calls"]) == ([], "auto", True)


def test_formats(http):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    format = {"type": "json_schema", "name": "number", "schema": schema, "strict": True}
    response = both_ways(http, {"input": "A number, please.", **GREEDY, "text": {"format": format}})
    assert isinstance(json.loads(text_of(response))["n"], int)
    assert response["text"]["format"] == format
    assert text_of(both_ways(http, {"input": "JSON", **GREEDY, "text": {"format": {"type": "json_object"}}}))[0] == "{"


def test_log_probabilities(http):
    body = {"input": FRANCE, **GREEDY, "include": ["message.output_text.logprobs"], "top_logprobs": 2}
    rows = both_ways(http, body)["output"][0]["content"][0]["logprobs"]
    expected = chat(http, [{"role": "user", "content": FRANCE}], logprobs=True, top_logprobs=2)
    assert rows == expected["choices"][0]["logprobs"]["content"] and len(rows) > 5
    sent = [row for event in events_of(http, body) for row in event.get("logprobs", []) if event["type"].endswith("delta")]
    assert sent == rows[: len(sent)] and len(sent) >= len(rows) - 1  # but those whose text is empty at the end


# --- tools and reasoning: answers are forced, so that they are what a model that can would say ---


@pytest.fixture(scope="module")
def speaking(tiny):
    with weightd.running({"tiny": {"path": tiny, "tool_parser": "hermes", "reasoning": "think"}}) as running:
        yield running.http


TOOLS = [{"type": "function", "name": "f", "parameters": {"type": "object"}}, {"type": "function", "name": "g", "strict": None}]
CALL_F, CALL_G = '<tool_call>{"name": "f", "arguments": {"x": [1, "}"]}}</tool_call>', '<tool_call>\n{"arguments": {}, "name": "g"}\n</tool_call>'


def forced(http, text, **more):
    ids = http.post("/tokenize", {"content": text, "parse_special": False}).ok()["tokens"]
    body = {"input": "x", "temperature": 0, "forced_token_ids": ids, "max_output_tokens": len(ids), "tools": TOOLS, **more}
    return both_ways(http, body)


SAID = [
    ("", []),
    ("hello", [("message", "hello")]),
    (CALL_F, [("function_call", "f")]),
    (CALL_F + CALL_G, [("function_call", "f"), ("function_call", "g")]),
    ("Well. " + CALL_F, [("message", "Well."), ("function_call", "f")]),
    (CALL_F + " and " + CALL_G, [("function_call", "f"), ("message", " and"), ("function_call", "g")]),
    ("<think>hm hm</think>So.", [("reasoning", "hm hm"), ("message", "So.")]),
    ("<think>hm</think>" + CALL_F, [("reasoning", "hm"), ("function_call", "f")]),
    ("<think>hm</think>a" + CALL_F + "b" + CALL_G + "c", [("reasoning", "hm"), ("message", "abc"), ("function_call", "f"), ("function_call", "g")]),
    ("<think>for ever", [("reasoning", "for ever"), ("message", "")]),
    (CALL_F[:-20], [("function_call", "f")]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SAID)))
def test_parts(speaking, number):
    text, expected = SAID[number]
    response = forced(speaking, text, **({} if text else {"forced_token_ids": [], "max_output_tokens": 0}))
    got = [(item["type"], item.get("name") or item["content"][0]["text"]) for item in response["output"]]
    assert got == (expected or [("message", "")])
    for item in response["output"]:
        if item["type"] == "function_call" and text.endswith("</tool_call>"):
            assert json.loads(item["arguments"]) == ({"x": [1, "}"]} if item["name"] == "f" else {})
            assert item["call_id"] and item["status"] == "completed"
    if text == CALL_F[:-20]:
        assert response["output"][0]["status"] == "incomplete"
    assert (response["usage"]["output_tokens_details"]["reasoning_tokens"] > 0) == text.startswith("<think>")
    assert response["tools"] == TOOLS


def test_calls_come_back(speaking):
    """An agent's second turn: the output of the first is input again, and the results with it. The prompt is a chat's."""
    first = forced(speaking, "Well. " + CALL_F + CALL_G)
    results = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "42"}
        for item in first["output"]
        if item["type"] == "function_call"
    ]
    body = {"input": [{"role": "user", "content": "x"}, *first["output"], *results], "tools": TOOLS, "max_output_tokens": 0}
    second = speaking.post("/v1/responses", body).ok()
    calls = [
        {"id": item["call_id"], "type": "function", "function": {"name": item["name"], "arguments": item["arguments"]}}
        for item in first["output"]
        if item["type"] == "function_call"
    ]
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "Well.", "tool_calls": calls}]
    messages += [{"role": "tool", "content": "42", "tool_call_id": call["id"]} for call in calls]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
             {"type": "function", "function": {"name": "g"}}]  # fmt: skip
    expected = speaking.post(
        "/v1/chat/completions", {"messages": messages, "tools": tools, "max_completion_tokens": 0}
    ).ok()
    assert second["usage"]["input_tokens"] == expected["usage"]["prompt_tokens"]


def test_a_required_call(speaking):
    for choice in ("required", {"type": "function", "name": "g"}):
        body = {"input": "x", "temperature": 0, "max_output_tokens": 80, "tools": TOOLS, "tool_choice": choice}
        response = both_ways(speaking, body)
        assert response["output"][0]["type"] == "function_call" and response["tool_choice"] == choice


class Place(pydantic.BaseModel):
    name: str
    large: bool


def test_openais_client(daemon, http):
    """Its own types take what is said: whole, as events, and parsed into a model."""
    transport = httpx2.HTTPTransport(uds=str(daemon.socket))
    with openai.OpenAI(base_url="http://localhost/v1", api_key="x", max_retries=0,
                       http_client=httpx2.Client(transport=transport)) as client:  # fmt: skip
        expected = text_of(http.post("/v1/responses", {"input": FRANCE, **GREEDY}).ok())
        assert client.responses.create(model="smollm2", input=FRANCE, **GREEDY).output_text == expected
        with client.responses.stream(model="smollm2", input=FRANCE, **GREEDY) as stream:
            deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
            final = stream.get_final_response()
        assert "".join(deltas) == final.output_text == expected
        parsed = client.responses.parse(
            model="smollm2", input="A place.", text_format=Place, temperature=0, max_output_tokens=60
        )
        assert isinstance(parsed.output_parsed, Place)
        with pytest.raises(openai.BadRequestError, match="previous_response_id"):
            client.responses.create(model="smollm2", input="x", previous_response_id="resp_1")
        vectors = client.embeddings.create(model="smollm2", input=["a", "b"])
        assert [len(entry.embedding) for entry in vectors.data] == [576, 576]
        plain = client.embeddings.create(model="smollm2", input=["a", "b"], encoding_format="float")
        assert plain.data[0].embedding == pytest.approx(vectors.data[0].embedding, abs=1e-7)


REFUSED = [
    ({}, "input"),
    ({"input": None}, "input"),
    ({"input": []}, "input"),
    ({"input": 7}, "input"),
    ({"input": [7]}, "input[0]"),
    ({"input": [{"role": "user"}]}, "input[0].content"),
    ({"input": [{"role": "judge", "content": "x"}]}, "input[0].role"),
    ({"input": [{"role": "user", "content": "x"}, {"role": "user", "content": [{"type": "input_image"}]}]}, "input[1].content[0]"),
    ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].type"),
    ({"input": [{"type": "function_call", "call_id": "a", "name": "f", "arguments": "{"}]}, "input[0].arguments"),
    ({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, "input[0].call_id"),
    ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
    ({"input": "x", "previous_response_id": "resp_1"}, "previous_response_id"),
    ({"input": "x", "conversation": "conv_1"}, "conversation"),
    ({"input": "x", "background": True}, "background"),
    ({"input": "x", "truncation": "auto"}, "truncation"),
    ({"input": "x", "reasoning": {"effort": "high"}}, "reasoning.effort"),
    ({"input": "x", "text": {"verbosity": "low"}}, "text.verbosity"),
    ({"input": "x", "text": {"format": {"type": "xml"}}}, "text.format"),
    ({"input": "x", "text": "plain"}, "text"),
    ({"input": "x", "include": ["file_search_call.results"]}, "include[0]"),
    ({"input": "x", "metadata": {"a": 1}}, "metadata"),
    ({"input": "x", "tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"input": "x", "tools": [{"type": "function"}]}, "tools[0].name"),
    ({"input": "x", "tools": [{"type": "function", "name": "f", "parameters": 1}]}, "tools[0].parameters"),
    ({"input": "x", "tools": 1}, "tools"),
    ({"input": "x", "tool_choice": "required"}, "tool_choice"),
    ({"input": "x", "tool_choice": "perhaps"}, "tool_choice"),
    ({"input": "x", "max_output_tokens": -1}, "max_output_tokens"),
    ({"input": "x", "temperature": 3}, "temperature"),
    ({"input": "x", "messages": []}, "messages"),
    ({"input": "x", "n": 2}, "n"),
    ({"input": "word " * 9000}, "input"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused(http, number):
    body, param = REFUSED[number]
    for stream in (False, True):
        error = http.post("/v1/responses", {**body, "stream": stream}).error(400)
        assert error["param"] == param, error
        assert "function" not in error["message"] or "functions" in error["message"] or "'function'" in error["message"]
