"""Every field of OpenAI's chat completions and completions: honoured, harmless, or refused by name; and every numeric one
of every endpoint, also deep in lists and objects, against the values that break servers. One kept-alive connection takes it
all: whoever is refused has lost nothing."""

import http.client
import json
import socket

import pytest

import weightd

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_completion_tokens": 1}
COMPLETION = {"prompt": "Hi", "max_tokens": 1}
RESPONSE = {"input": "Hi", "max_output_tokens": 1}
EMBEDDING = {"input": "Hi"}
PATHS = {"chat": ("/v1/chat/completions", CHAT), "completions": ("/v1/completions", COMPLETION)}
RESPONSE = {"input": "Hi", "max_output_tokens": 1}
NUMBER_PATHS = {**PATHS, "responses": ("/v1/responses", RESPONSE), "embeddings": ("/v1/embeddings", {"input": "Hi"})}
ALSO = {"responses": ("/v1/responses", RESPONSE), "embeddings": ("/v1/embeddings", EMBEDDING)}
# Numbers that these have: name: (least, most, whether only integers count)
ALSO_NUMBERS = {
    "responses": {
        "max_output_tokens": (0, 2**31 - 1, True),
        "top_logprobs": (0, 20, True),
        "temperature": (0, 2, False),
        "top_p": (0, 1, False),
        "seed": (-(2**63), 2**64 - 1, True),
    },
    "embeddings": {"dimensions": (1, 128, True)},
}

# name: (least, most, whether only integers count); where it exists is in ENDPOINTS
NUMBERS = {
    "n": (1, 16, True),
    "best_of": (1, 16, True),
    "max_tokens": (0, 2**31 - 1, True),
    "max_completion_tokens": (0, 2**31 - 1, True),
    "top_logprobs": (0, 20, True),
    "logprobs": (0, 20, True),
    "seed": (-(2**63), 2**64 - 1, True),
    "top_k": (0, 2**31 - 1, True),
    "temperature": (0, 2, False),
    "top_p": (0, 1, False),
    "min_p": (0, 1, False),
    "presence_penalty": (-2, 2, False),
    "frequency_penalty": (-2, 2, False),
    "repeat_penalty": (0.1, 10, False),
    "max_output_tokens": (0, 2**31 - 1, True),
    "dimensions": (1, 128, True),
}
ONLY = {"best_of": ["completions"], "logprobs": ["completions"], "top_logprobs": ["chat", "responses"], "max_completion_tokens": ["chat"],
        "max_output_tokens": ["responses"], "dimensions": ["embeddings"], "seed": [*PATHS, "responses"], "temperature": [*PATHS, "responses"],
        "top_p": [*PATHS, "responses"]}
NEEDS = {("chat", "top_logprobs"): {"logprobs": True}, ("responses", "top_logprobs"): {"include": ["message.output_text.logprobs"]}}
HOSTILE = ["-1", "-0.5", "0.5", "1.5", "21", "2147483648", "-2147483649", "9223372036854775808", "18446744073709551616",
           "-9223372036854775809", "1e308", "-1e308", "5e-324", '"1"', "[]", "[1]", "{}", "true", "false"]
NOT_JSON = ["NaN", "Infinity", "-Infinity", "nan", "1e999", "-1e999", "0x10", "01", "+1", ".5", "1.", "--1", "1_000"]

# Documented for the endpoint; what each value gives: None: accepted, else the 400's code
FIELDS = [
    ("both", "user", '"someone"', None),
    ("chat", "safety_identifier", '"someone"', None),
    ("chat", "metadata", '{"a": "b"}', None),
    ("chat", "store", "true", None),
    ("chat", "store", "false", None),
    ("chat", "service_tier", '"auto"', None),
    ("chat", "prompt_cache_key", '"k"', None),
    ("chat", "prompt_cache_retention", '"24h"', None),
    ("chat", "parallel_tool_calls", "false", None),
    ("chat", "modalities", '["text"]', None),
    ("chat", "modalities", '["text", "audio"]', "unsupported_field"),
    ("chat", "audio", '{"voice": "x", "format": "wav"}', "unsupported_field"),
    ("chat", "prediction", '{"type": "content", "content": "x"}', "unsupported_field"),
    ("chat", "reasoning_effort", '"high"', "unsupported_field"),
    ("chat", "verbosity", '"low"', "unsupported_field"),
    ("chat", "web_search_options", "{}", "unsupported_field"),
    ("chat", "functions", '[{"name": "f"}]', "unsupported_field"),
    ("chat", "function_call", '{"name": "f"}', "unsupported_field"),
    ("chat", "stop", '["a", "b"]', None),
    ("chat", "stream_options", '{"include_usage": true}', "invalid_value"),
    ("completions", "echo", "true", None),
    ("completions", "suffix", '"x"', "unsupported_field"),
    ("completions", "suffix", '""', None),
    ("completions", "stop", '"a"', None),
    ("completions", "messages", "[]", "unknown_field"),
    ("chat", "prompt", '"x"', "unknown_field"),
    ("both", "temprature", "1", "unknown_field"),
]


@pytest.fixture(scope="module")
def tiny_daemon(tiny):
    with weightd.running({"tiny": tiny}) as running:
        yield running


class KeptAlive(http.client.HTTPConnection):
    """Raises if the server closes: one connection for all requests of a test."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(60)
        self.sock.connect(str(path))
        self.auto_open = 0

    def post(self, path, body):
        self.request("POST", path, body, {"Content-Type": "application/json"})
        answer = self.getresponse()
        return answer.status, json.loads(answer.read())


def with_field(body, name, text):
    """JSON with one member written as given, which json.dumps could not write."""
    members = {key: json.dumps(value) for key, value in body.items()} | {name: text}
    return "{" + ",".join(f'"{key}":{value}' for key, value in members.items()) + "}"


def is_good(text, least, most, integers):
    value = json.loads(text)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return least <= value <= most and (isinstance(value, int) or not integers)


@pytest.mark.parametrize("endpoint, name", [(endpoint, name) for endpoint in ALSO for name in ALSO_NUMBERS[endpoint]])
def test_numbers_of_the_others(tiny_daemon, endpoint, name):
    path, body = ALSO[endpoint]
    least, most, integers = ALSO_NUMBERS[endpoint][name]
    client = KeptAlive(tiny_daemon.socket)
    for text in [*HOSTILE, json.dumps(least), json.dumps(most)]:
        good = is_good(text, least, most, integers)
        if good and name == "max_output_tokens" and json.loads(text) > 100:
            continue  # good, and long
        status, answer = client.post(path, with_field(body, name, text))
        assert status == (200 if good else 400), (text, answer)
        assert good or answer["error"]["param"] == name, (text, answer)
    for text in NOT_JSON:
        status, answer = client.post(path, with_field(body, name, text))
        assert status == 400 and answer["error"]["code"] == "invalid_json", (text, answer)
    assert client.post(path, json.dumps(body))[0] == 200
    client.close()


@pytest.mark.parametrize(
    "endpoint, name", [(endpoint, name) for name in NUMBERS for endpoint in ONLY.get(name, PATHS)]
)
def test_numbers(tiny_daemon, endpoint, name):
    path, body = NUMBER_PATHS[endpoint]
    least, most, integers = NUMBERS[name]
    lengths = {"max_tokens", "max_completion_tokens"} if name == "max_tokens" else {name}
    body = {key: value for key, value in {**body, **NEEDS.get((endpoint, name), {})}.items() if key not in lengths}
    client = KeptAlive(tiny_daemon.socket)
    for text in [*HOSTILE, json.dumps(least), json.dumps(most)]:
        good = is_good(text, least, most, integers) and not (name == "best_of" and json.loads(text) != 1)
        if good and name.startswith("max_") and json.loads(text) > 100:
            continue  # good, and long
        status, answer = client.post(path, with_field(body, name, text))
        assert status == (200 if good else 400), (text, answer)
        assert good or answer["error"]["param"] == name, (text, answer)
    for text in NOT_JSON:
        status, answer = client.post(path, with_field(body, name, text))
        assert status == 400 and answer["error"]["code"] == "invalid_json", (text, answer)
    assert client.post(path, json.dumps(body))[0] == 200
    client.close()


def whole_from_0(most):
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def is_token(value):  # one number alone is no list, a list of them is; there are less than 512
    return whole_from_0(511)(value)


def is_bias(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -100 <= value <= 100


def schema_at(member):
    return {"guided_json": {"type": "object", "properties": {"a": {"type": "string", member: "@"}}}}


# (path, body with "@" where a value goes, the field at fault, what is good)
NESTED = [
    ("/v1/completions", {**COMPLETION, "prompt": [5, "@"]}, "prompt", is_token),
    ("/v1/completions", {**COMPLETION, "prompt": [[5], [6, "@"]]}, "prompt", is_token),
    ("/v1/completions", {**COMPLETION, "forced_token_ids": ["@"]}, "forced_token_ids", is_token),
    ("/v1/completions", {**COMPLETION, "logit_bias": {"5": "@"}}, "logit_bias", is_bias),
    ("/v1/completions", {**COMPLETION, "stop": ["a", "@"]}, "stop", lambda value: isinstance(value, str)),
    ("/v1/completions", {**COMPLETION, "stream": True, "stream_options": {"include_usage": "@"}}, "stream_options", lambda value: isinstance(value, bool)),
    ("/v1/completions", {**COMPLETION, **schema_at("minLength")}, "guided_json", whole_from_0(512)),
    ("/v1/completions", {**COMPLETION, **schema_at("maxLength")}, "guided_json", whole_from_0(512)),
    ("/v1/completions", {**COMPLETION, "guided_choice": ["a", "@"]}, "guided_choice", lambda value: isinstance(value, str)),
    ("/v1/chat/completions", {**CHAT, "logit_bias": {"5": "@"}}, "logit_bias", is_bias),
    ("/v1/chat/completions", {**CHAT, "messages": ["@"]}, "messages", lambda value: False),
    ("/v1/chat/completions", {**CHAT, "messages": [{"role": "user", "content": "@"}]}, "messages", lambda value: isinstance(value, str) or value == []),
    ("/v1/chat/completions", {**CHAT, "messages": [{"role": "@", "content": "x"}]}, "messages", lambda value: isinstance(value, str)),
    ("/v1/chat/completions", {**CHAT, "tools": ["@"]}, "tools", lambda value: False),
    ("/v1/chat/completions", {**CHAT, "tools": [{"type": "function", "function": {"name": "f", "strict": "@"}}]}, "tools", lambda value: False),
    ("/v1/chat/completions", {**CHAT, "tool_choice": {"type": "function", "function": {"name": "@"}}}, "tool_choice", lambda value: False),
    ("/v1/embeddings", {"input": [5, "@"]}, "input", is_token),
    ("/v1/embeddings", {"input": [[5], ["@"]]}, "input", is_token),
    ("/tokenize", {"content": "@"}, "content", lambda value: isinstance(value, str)),
    ("/tokenize", {"content": "x", "add_special": "@"}, "add_special", lambda value: isinstance(value, bool)),
    ("/detokenize", {"tokens": [5, "@"]}, "tokens", is_token),
    ("/v1/responses", {**RESPONSE, "input": [{"role": "user", "content": "@"}]}, "input", lambda value: isinstance(value, str) or value == []),
    ("/v1/responses", {**RESPONSE, "forced_token_ids": ["@"]}, "forced_token_ids", is_token),
]


@pytest.mark.parametrize("number", range(len(NESTED)), ids=[f"{path} {param}" for path, _, param, _ in NESTED])
def test_values_inside(tiny_daemon, number):
    path, body, param, is_good_here = NESTED[number]
    whole = json.dumps(body)
    assert whole.count('"@"') == 1
    client = KeptAlive(tiny_daemon.socket)
    for text in [*HOSTILE, "0", "7", "511", "512", "2147483647"]:
        if body.get("stream") and is_good_here(json.loads(text)):
            continue  # an answer of events
        status, answer = client.post(path, whole.replace('"@"', text))
        assert status == (200 if is_good_here(json.loads(text)) else 400), (text, answer)
        assert status == 200 or answer["error"]["param"].startswith(param), (text, answer)
    for text in NOT_JSON:
        status, answer = client.post(path, whole.replace('"@"', text))
        assert status == 400 and answer["error"]["code"] == "invalid_json", (text, answer)
    client.close()


def test_keys_that_are_numbers(tiny_daemon):
    client = KeptAlive(tiny_daemon.socket)
    for key in ["-1", "1.0", "01", "+1", "1e1", " 1", "", "512", "2147483648", "4294967301", "18446744073709551621", "x", "5\\u0000"]:
        status, answer = client.post("/v1/completions", with_field(COMPLETION, "logit_bias", f'{{"{key}": 1}}'))
        assert status == 400 and answer["error"]["param"] == "logit_bias", (key, answer)
    assert client.post("/v1/completions", with_field(COMPLETION, "logit_bias", '{"511": 1}'))[0] == 200
    client.close()


def test_fields(tiny_daemon):
    client = KeptAlive(tiny_daemon.socket)
    for where, name, text, code in FIELDS:
        for endpoint in PATHS if where == "both" else [where]:
            path, body = PATHS[endpoint]
            status, answer = client.post(path, with_field(body, name, text))
            if code is None:
                assert status == 200, (endpoint, name, text, answer)
            else:
                assert status == 400 and answer["error"]["code"] == code, (endpoint, name, text, answer)
                assert answer["error"]["param"] == name
    client.close()
