"""The clients people have, as they are: OpenAI's own library (blocking and asynchronous, over the Unix socket and over TCP),
curl, LangChain and LiteLLM. What each of them hands to its user is compared with the answer as it is on the wire."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from typing import Literal

import httpx2
import jsonschema
import openai
import pydantic
import pytest
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

import weightd

USER = [{"role": "user", "content": "Name three colours of the rainbow."}]
GREEDY = {"model": "smollm2", "messages": USER, "temperature": 0, "max_tokens": 24}
PLACE = {"type": "object", "properties": {"place": {"enum": ["Brno", "Zürich 🌧"]}, "days": {"type": "integer", "minimum": 1, "maximum": 16}},
         "required": ["place", "days"], "additionalProperties": False}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "The weather of a place", "parameters": PLACE}}
NAMED = {"type": "function", "function": {"name": "weather"}}


class Home(pydantic.BaseModel):
    street: Literal["Na Příkopě", "Unter den Linden"]
    number: int = pydantic.Field(ge=1, le=999)


class Animal(pydantic.BaseModel):
    """An animal in a zoo."""

    kind: Literal["cat", "dog", "emu"]
    age: int = pydantic.Field(ge=0, le=99)
    home: Home | None
    colours: list[Literal["black", "white"]] = pydantic.Field(max_length=3)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture(scope="module")
def served(model):
    """SmolLM2, which has learnt no tools: what is enforced it writes all the same. (daemon, the API's address on TCP)"""
    port = free_port()
    with weightd.running({"smollm2": {"path": model, "tool_parser": "hermes"}}, {"listen": f"127.0.0.1:{port}"}) as running:
        yield running, f"http://127.0.0.1:{port}/v1"


def over_unix(daemon):
    transport = httpx2.HTTPTransport(uds=str(daemon.socket))
    return openai.OpenAI(base_url="http://localhost/v1", api_key="none", http_client=httpx2.Client(transport=transport), max_retries=0)


@contextlib.contextmanager
def over(way, served):
    daemon, address = served
    client = over_unix(daemon) if way == "unix" else openai.OpenAI(base_url=address, api_key="none", max_retries=0)
    with client:
        yield client


@pytest.fixture(params=["unix", "tcp"])
def client(request, served):
    with over(request.param, served) as client:
        yield client


@pytest.fixture
def http(served):
    return served[0].http


def raw(http, body, path="/v1/chat/completions"):
    return http.post(path, body).ok()


# --- OpenAI's library ------------------------------------------------------------------------------


def test_openai_answers(client, http):
    wire = raw(http, {**GREEDY, "logprobs": True, "top_logprobs": 2, "n": 2, "seed": 1})
    answer = client.chat.completions.create(**GREEDY, logprobs=True, top_logprobs=2, n=2, seed=1)
    assert answer.object == "chat.completion" and answer.model == "smollm2" and len(answer.choices) == 2
    assert [choice.message.content for choice in answer.choices] == [choice["message"]["content"] for choice in wire["choices"]]
    assert answer.choices[0].finish_reason == wire["choices"][0]["finish_reason"]
    assert answer.usage.model_dump(exclude_none=True) == wire["usage"]
    assert [token.logprob for token in answer.choices[0].logprobs.content] == [t["logprob"] for t in wire["choices"][0]["logprobs"]["content"]]
    assert b"".join(bytes(token.bytes) for token in answer.choices[0].logprobs.content).decode().startswith(answer.choices[0].message.content)


def test_openai_streams(client, http):
    wire = raw(http, GREEDY)
    with client.chat.completions.create(**GREEDY, stream=True, stream_options={"include_usage": True}) as stream:
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == wire["choices"][0]["message"]["content"]
    assert chunks[0].choices[0].delta.role == "assistant" and len(chunks) > 5
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == wire["choices"][0]["finish_reason"]
    assert chunks[-1].usage.model_dump(exclude_none=True) == wire["usage"]
    words = wire["choices"][0]["message"]["content"].split()
    with client.chat.completions.stream(**GREEDY, stop=words[6]) as stream:  # at its limit it would raise
        content = stream.get_final_completion().choices[0].message.content
    assert content == wire["choices"][0]["message"]["content"].partition(words[6])[0]


def test_openai_completes(client, http):
    body = {"model": "smollm2", "prompt": ["The capital of France is", "2 + 2 ="], "temperature": 0, "max_tokens": 6, "logprobs": 2, "echo": True}
    wire, answer = raw(http, body, "/v1/completions"), client.completions.create(**body)
    assert [choice.text for choice in answer.choices] == [choice["text"] for choice in wire["choices"]]
    assert answer.choices[1].logprobs.token_logprobs == wire["choices"][1]["logprobs"]["token_logprobs"]
    texts = ["", ""]
    for chunk in client.completions.create(**body, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == [choice.text for choice in answer.choices]


def test_openai_calls_tools(client, http):
    body = {**GREEDY, "tools": [WEATHER], "tool_choice": NAMED, "max_tokens": 100}
    wire = raw(http, body)["choices"][0]["message"]["tool_calls"][0]
    message = client.chat.completions.create(**body).choices[0].message
    (call,) = message.tool_calls
    assert message.content is None and call.function.name == "weather" and call.function.arguments == wire["function"]["arguments"]
    jsonschema.validate(json.loads(call.function.arguments), PLACE)
    with client.chat.completions.stream(**body) as stream:
        kinds = {event.type for event in stream}
        (streamed,) = stream.get_final_completion().choices[0].message.tool_calls
    assert "tool_calls.function.arguments.delta" in kinds and "tool_calls.function.arguments.done" in kinds
    assert streamed.function.arguments == call.function.arguments
    # This model's template knows no calls and wants a text in every message.
    said = {**message.model_dump(exclude_none=True), "content": ""}
    result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
    after = client.chat.completions.create(**{**GREEDY, "messages": [*USER, said, result]})
    assert after.choices[0].message.content


def test_openai_parses(client):
    """Types of pydantic there and back, as its schemas say them."""
    body = {**GREEDY, "messages": [{"role": "user", "content": "A young cat."}], "max_tokens": 400}
    answer = client.chat.completions.parse(**body, response_format=Animal)
    parsed = answer.choices[0].message.parsed
    assert isinstance(parsed, Animal) and parsed == Animal.model_validate_json(answer.choices[0].message.content)
    tool = openai.pydantic_function_tool(Animal)
    answer = client.chat.completions.parse(**body, tools=[tool], tool_choice="required", parallel_tool_calls=False)
    (call,) = answer.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Animal)
    with client.chat.completions.stream(**body, response_format=Animal) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == parsed


def test_openai_responds(client, http):
    body = {"model": "smollm2", "input": USER, "temperature": 0, "max_output_tokens": 24}
    chat = raw(http, GREEDY)["choices"][0]["message"]["content"]
    answer = client.responses.create(**body)
    assert answer.output_text == chat and answer.usage.output_tokens == 24
    with client.responses.stream(**body) as stream:
        events = list(stream)
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == chat
    assert events[-1].type == "response.incomplete" and events[-1].response.output_text == chat  # it was cut
    tool = {"type": "function", "name": "weather", "parameters": PLACE, "strict": True}
    called = client.responses.create(**{**body, "max_output_tokens": 100}, tools=[tool], tool_choice="required", parallel_tool_calls=False)
    (call,) = called.output
    assert call.name == "weather"
    jsonschema.validate(json.loads(call.arguments), PLACE)


def test_openai_embeds(client, http):
    """The library asks for base64 and unpacks it."""
    body = {"model": "smollm2", "input": ["a colour", "Zürich 🌧"]}
    wire = raw(http, body, "/v1/embeddings")
    answer = client.embeddings.create(**body)
    assert [each.embedding for each in answer.data] == [pytest.approx(each["embedding"], abs=1e-6) for each in wire["data"]]
    assert answer.usage.prompt_tokens == wire["usage"]["prompt_tokens"]
    assert len(client.embeddings.create(**body, dimensions=8, encoding_format="float").data[1].embedding) == 8


def test_openai_errors_are_its_exceptions(client):
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(**{**GREEDY, "temperature": 3})
    assert bad.value.param == "temperature" and bad.value.code == "out_of_range"
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(**{**GREEDY, "model": "gpt"})
    assert unknown.value.code == "model_not_found"
    assert [each.id for each in client.models.list()] == ["smollm2"]
    assert client.models.retrieve("smollm2").id == "smollm2"


def test_openai_asynchronously(served, http):
    """Many at once in one loop, some of them streams that are left in the middle."""
    daemon, _ = served
    wire = raw(http, GREEDY)["choices"][0]["message"]["content"]

    async def whole(client):
        return (await client.chat.completions.create(**GREEDY)).choices[0].message.content

    async def stream(client):
        text = ""
        async for chunk in await client.chat.completions.create(**GREEDY, stream=True):
            text += chunk.choices[0].delta.content or ""
        return text

    async def leave(client):
        long = {**GREEDY, "max_tokens": 2000}
        async with await client.chat.completions.create(**long, stream=True, extra_body={"ignore_eos": True}) as events:
            async for chunk in events:
                if chunk.choices[0].delta.content:
                    return wire

    async def all_at_once():
        transport = httpx2.AsyncHTTPTransport(uds=str(daemon.socket))
        client = httpx2.AsyncClient(transport=transport)
        async with openai.AsyncOpenAI(base_url="http://localhost/v1", api_key="none", http_client=client, max_retries=0) as client:
            return await asyncio.gather(*(kind(client) for kind in (whole, stream, leave) for _ in range(3)))

    assert asyncio.run(all_at_once()) == [wire] * 9
    daemon.wait_for(lambda: weightd.metric(daemon, "weightd_calls_in_flight") == 0, "without calls")


# --- others ----------------------------------------------------------------------------------------


def test_curl(served, http):
    daemon, address = served
    wire = raw(http, GREEDY)["choices"][0]["message"]["content"]
    for way in (["--unix-socket", daemon.socket, "http://localhost/v1/chat/completions"], [f"{address}/chat/completions"]):
        command = ["curl", "--silent", "--fail-with-body", "--no-buffer", "-H", "Content-Type: application/json", *way]
        answer = subprocess.run([*command, "-d", json.dumps(GREEDY)], capture_output=True, check=True)
        assert json.loads(answer.stdout)["choices"][0]["message"]["content"] == wire
        stream = subprocess.run([*command, "-d", json.dumps({**GREEDY, "stream": True})], capture_output=True, check=True)
        events = [line[6:] for line in stream.stdout.decode().splitlines() if line]
        assert events[-1] == "[DONE]"
        assert "".join(json.loads(event)["choices"][0]["delta"].get("content") or "" for event in events[:-1]) == wire
        large = subprocess.run([*command, "-H", "Expect: 100-continue", "-d", "@-"], input=json.dumps({**GREEDY, "user": "u" * 200000}).encode(),
                               capture_output=True, check=True)
        assert json.loads(large.stdout)["choices"][0]["message"]["content"] == wire
        bad = subprocess.run([*command, "-d", "{"], capture_output=True)
        assert bad.returncode == 22 and json.loads(bad.stdout)["error"]["code"] == "invalid_json"


def test_langchain(served, http):
    _, address = served
    wire = raw(http, GREEDY)
    chat = ChatOpenAI(base_url=address, api_key="none", model="smollm2", temperature=0, max_tokens=24, max_retries=0)
    answer = chat.invoke(USER[0]["content"])
    text = wire["choices"][0]["message"]["content"]
    assert answer.content == text and answer.usage_metadata["output_tokens"] == wire["usage"]["completion_tokens"]
    pieces = list(chat.stream(USER[0]["content"]))
    assert "".join(piece.content for piece in pieces) == text and len(pieces) > 5
    assert [each.content for each in chat.batch([USER[0]["content"]] * 3)] == [text] * 3
    assert asyncio.run(chat.ainvoke(USER[0]["content"])).content == text


def test_langchain_embeds(served, http):
    _, address = served
    texts = ["a colour", "Zürich 🌧"]
    wire = raw(http, {"model": "smollm2", "input": texts}, "/v1/embeddings")["data"]
    # Otherwise it sends the tokens of another model's vocabulary.
    embeddings = OpenAIEmbeddings(base_url=address, api_key="none", model="smollm2", check_embedding_ctx_length=False, max_retries=0)
    assert embeddings.embed_documents(texts) == [pytest.approx(each["embedding"], abs=1e-6) for each in wire]
    assert embeddings.embed_query(texts[1]) == pytest.approx(wire[1]["embedding"], abs=1e-6)


def test_langchain_tools_and_structures(served, http):
    _, address = served
    chat = ChatOpenAI(base_url=address, api_key="none", model="smollm2", temperature=0, max_tokens=300, max_retries=0)
    body = {**GREEDY, "max_tokens": 300, "tools": [WEATHER], "tool_choice": "required"}
    wire = raw(http, {**body, "parallel_tool_calls": False})["choices"][0]["message"]["tool_calls"][0]["function"]
    bound = chat.bind_tools([WEATHER], tool_choice="required", parallel_tool_calls=False)
    (call,) = bound.invoke(USER[0]["content"]).tool_calls
    assert call["name"] == "weather" and call["args"] == json.loads(wire["arguments"])
    whole = None
    for piece in chat.bind_tools([WEATHER], tool_choice="weather").stream(USER[0]["content"]):
        whole = piece if whole is None else whole + piece
    assert whole.tool_calls[0]["args"] == call["args"]
    for method in ("json_schema", "function_calling"):
        found = chat.with_structured_output(Animal, method=method).invoke("A young cat.")
        assert isinstance(found, Animal)


def test_litellm(served, http):
    _, address = served
    wire = raw(http, GREEDY)
    script = f"""
import asyncio, json, litellm
body = {{"model": "openai/smollm2", "messages": {USER!r}, "temperature": 0, "max_tokens": 24, "api_base": {address!r}, "api_key": "none", "num_retries": 0}}
whole = litellm.completion(**body)
stream = "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(**body, stream=True))
later = asyncio.run(litellm.acompletion(**body))
call = litellm.completion(**{{**body, "max_tokens": 100}}, tools=[{WEATHER!r}], tool_choice={NAMED!r}).choices[0].message.tool_calls[0]
print(json.dumps([whole.choices[0].message.content, stream, later.choices[0].message.content, whole.usage.completion_tokens, call.function.arguments]))
"""
    # Without these it fetches a list of prices, and reports; should it try all the same, it gets nowhere.
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "DO_NOT_TRACK": "1", "HTTPS_PROXY": "http://127.0.0.1:9"}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, **quiet}, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    text, stream, later, tokens, arguments = json.loads(run.stdout.splitlines()[-1])
    assert text == stream == later == wire["choices"][0]["message"]["content"] and tokens == wire["usage"]["completion_tokens"]
    jsonschema.validate(json.loads(arguments), PLACE)
