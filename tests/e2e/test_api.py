"""The HTTP API on the real model."""

import concurrent.futures
import http.client
import json
import re
import socket
import time

import pytest

PROMPT = "The capital of France is"


def complete(http, **more):
    return http.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 8, "temperature": 0, **more}).ok()


def test_completion(http):
    answer = complete(http)
    assert answer["object"] == "text_completion" and answer["id"].startswith("cmpl-") and answer["model"] == "smollm2"
    choice = answer["choices"][0]
    assert "Paris" in choice["text"] and choice["index"] == 0 and choice["finish_reason"] == "length"
    assert answer["usage"] == {"prompt_tokens": 5, "completion_tokens": 8, "total_tokens": 13}


def test_chat(http):
    answer = http.post(
        "/v1/chat/completions",
        {
            "messages": [{"role": "user", "content": "What is the capital of France?"}],
            "temperature": 0,
            "max_tokens": 24,
        },
    ).ok()
    assert answer["object"] == "chat.completion"
    message = answer["choices"][0]["message"]
    assert message["role"] == "assistant" and "Paris" in message["content"]


def test_chat_stops_by_itself(http):
    answer = http.post(
        "/v1/chat/completions", {"messages": [{"role": "user", "content": "Say hello."}], "temperature": 0}
    ).ok()
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert "<|im_end|>" not in answer["choices"][0]["message"]["content"]


def test_streaming_is_the_same_text(http):
    body = {"prompt": PROMPT, "max_tokens": 24, "temperature": 0, "stream_options": {"include_usage": True}}
    whole = http.post("/v1/completions", {key: body[key] for key in body if key != "stream_options"}).ok()
    events = list(http.stream("/v1/completions", body))
    assert "".join(event["choices"][0]["text"] for event in events if event["choices"]) == whole["choices"][0]["text"]
    assert events[-1]["choices"] == [] and events[-1]["usage"] == whole["usage"]
    assert len(events) > 10


def test_chat_stream_begins_with_the_role(http):
    events = list(
        http.stream(
            "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8, "temperature": 0}
        )
    )
    assert events[0]["object"] == "chat.completion.chunk"
    assert events[0]["choices"][0]["delta"]["role"] == "assistant"
    assert events[-1]["choices"][0]["finish_reason"] in ("stop", "length")


def test_several_prompts(http):
    answer = http.post("/v1/completions", {"prompt": [PROMPT, "1, 2, 3,"], "max_tokens": 4, "temperature": 0}).ok()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert answer["choices"][0]["text"] == complete(http, max_tokens=4)["choices"][0]["text"]


def test_prompt_as_ids_and_returned_ids(http):
    ids = http.post("/tokenize", {"content": PROMPT}).ok()["tokens"]
    choice = complete(http, prompt=ids, return_token_ids=True)["choices"][0]
    assert choice["prompt_token_ids"] == ids and len(choice["token_ids"]) == 8
    assert choice["text"] == complete(http)["choices"][0]["text"]
    assert http.post("/detokenize", {"tokens": choice["token_ids"]}).ok()["content"] == choice["text"]


def test_stop_strings_are_cut(http):
    whole = complete(http, max_tokens=40)["choices"][0]["text"]
    stop = whole[len(whole) // 2 :][:4]
    choice = complete(http, max_tokens=40, stop=[stop])["choices"][0]
    assert choice["text"] == whole[: whole.index(stop)] and choice["finish_reason"] == "stop"
    streamed = "".join(
        event["choices"][0]["text"]
        for event in http.stream(
            "/v1/completions", {"prompt": PROMPT, "max_tokens": 40, "temperature": 0, "stop": stop}
        )
    )
    assert streamed == choice["text"]


def test_max_tokens_zero_with_echo(http):
    answer = complete(http, max_tokens=0, echo=True, logprobs=2)
    choice = answer["choices"][0]
    assert choice["text"] == PROMPT and answer["usage"]["completion_tokens"] == 0
    logprobs = choice["logprobs"]
    assert logprobs["token_logprobs"][0] is None and all(value <= 0 for value in logprobs["token_logprobs"][1:])
    assert "".join(logprobs["tokens"]) == PROMPT and logprobs["text_offset"][0] == 0
    assert all(len(top) >= 2 for top in logprobs["top_logprobs"][1:])


def test_chat_logprobs(http):
    answer = http.post(
        "/v1/chat/completions",
        {
            "messages": [{"role": "user", "content": "Hi"}],
            "max_tokens": 4,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": 3,
        },
    ).ok()
    content = answer["choices"][0]["logprobs"]["content"]
    assert len(content) == answer["usage"]["completion_tokens"]
    for entry in content:
        assert len(entry["top_logprobs"]) == 3 and entry["top_logprobs"][0]["logprob"] >= entry["logprob"] - 1e-6
        assert bytes(entry["bytes"]).decode(errors="replace") == entry["token"]


def test_a_seed_repeats_and_seeds_differ(http):
    def draw(seed):
        return complete(http, temperature=1.5, seed=seed, max_tokens=24)["choices"][0]["text"]

    assert draw(7) == draw(7)
    assert len({draw(seed) for seed in range(4)}) > 1


def test_several_choices(http):
    """Choice 0 is the answer that n = 1 gives, the others differ; a prompt counts once."""
    body = {"prompt": PROMPT, "max_tokens": 24, "temperature": 1.5, "seed": 7}
    one = http.post("/v1/completions", body).ok()
    answer = http.post("/v1/completions", {**body, "n": 4, "best_of": 4}).ok()
    texts = [choice["text"] for choice in answer["choices"]]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert texts[0] == one["choices"][0]["text"] and len(set(texts)) == 4
    assert answer["usage"]["prompt_tokens"] == one["usage"]["prompt_tokens"]
    assert answer["usage"]["completion_tokens"] > 2 * 24
    again = http.post("/v1/completions", {**body, "prompt": ["1, 2, 3,", PROMPT], "n": 4}).ok()
    assert [choice["text"] for choice in again["choices"][4:]] == texts


def test_several_choices_of_a_streamed_chat(http):
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 12, "temperature": 1.2, "seed": 3, "n": 3}
    whole = [choice["message"]["content"] for choice in http.post("/v1/chat/completions", body).ok()["choices"]]
    streamed = ["", "", ""]
    for event in http.stream("/v1/chat/completions", body):
        choice = event["choices"][0]
        streamed[choice["index"]] += choice["delta"].get("content", "")
    assert streamed == whole and len(set(whole)) > 1


def test_an_answer_does_not_depend_on_the_batch(http):
    """Batch invariance: alone and among others of other lengths, the same bytes."""
    bodies = [
        {"prompt": "word " * (3 * i + 1) + PROMPT, "max_tokens": 20, "temperature": 0.8, "seed": i, "logprobs": 1}
        for i in range(8)
    ]

    def ask(body):
        return http.post("/v1/completions", body).ok()["choices"][0]

    alone = [ask(body) for body in bodies]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(pool.map(ask, bodies))
    for a, b in zip(alone, together):
        assert a["text"] == b["text"] and a["logprobs"]["token_logprobs"] == b["logprobs"]["token_logprobs"]


def test_models_health_metrics(daemon, http):
    models = http.get("/v1/models").ok()
    assert models["object"] == "list" and [entry["id"] for entry in models["data"]] == ["smollm2"]
    assert http.get("/health").ok()["status"] == "ok"
    metrics = http.get("/metrics")
    assert metrics.headers["Content-Type"].startswith("text/plain")
    text = metrics.body.decode()
    for name in (
        "weightd_requests_total",
        "weightd_generated_tokens_total",
        "weightd_weight_bytes",
        "weightd_arena_bytes",
    ):
        assert f"# TYPE {name} " in text, name
    for line in text.splitlines():
        assert line.startswith("# ") or float(line.rsplit(" ", 1)[1]) >= 0, line


def test_a_utf8_sequence_is_never_split(http):
    text = "Repeat: 안녕하세요 세계 🦜🦜🦜 안녕하세요 세계 🦜🦜🦜"
    ids = http.post("/tokenize", {"content": text}).ok()["tokens"]
    events = http.stream(
        "/v1/completions", {"prompt": "Korean:", "max_tokens": len(ids), "temperature": 0, "forced_token_ids": ids}
    )
    parts = [event["choices"][0]["text"] for event in events]
    assert "".join(parts) == text and all("\ufffd" not in part for part in parts)


WRONG = [
    ({"prompt": PROMPT, "max_tokens": -1}, "max_tokens"),
    ({"prompt": PROMPT, "max_tokens": 1.5}, "max_tokens"),
    ({"prompt": PROMPT, "max_tokens": "8"}, "max_tokens"),
    ({"prompt": PROMPT, "max_tokens": 2**63}, "max_tokens"),
    ({"prompt": PROMPT, "temperature": -0.1}, "temperature"),
    ({"prompt": PROMPT, "temperature": 1e308}, "temperature"),
    ({"prompt": PROMPT, "top_p": 1.5}, "top_p"),
    ({"prompt": PROMPT, "logprobs": 21}, "logprobs"),
    ({"prompt": PROMPT, "stop": ["x"] * 17}, "stop"),
    ({"prompt": PROMPT, "stop": [""]}, "stop"),
    ({"prompt": PROMPT, "n": 17}, "n"),
    ({"prompt": PROMPT, "n": 2, "best_of": 3}, "best_of"),
    ({"prompt": PROMPT, "seed": "a"}, "seed"),
    ({"prompt": [2**31]}, None),
    ({"prompt": [-1]}, "prompt[0]"),
    ({"prompt": 5}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({}, "prompt"),
    ({"prompt": PROMPT, "logit_bias": {"1": 101}}, "logit_bias"),
    ({"prompt": PROMPT, "presence_penalty": 3}, "presence_penalty"),
    ({"prompt": PROMPT, "echo": "yes"}, "echo"),
]


@pytest.mark.parametrize("body, parameter", WRONG)
def test_wrong_fields_are_named(http, body, parameter):
    error = http.post("/v1/completions", body).error(400)
    assert error["type"] == "invalid_request_error"
    assert parameter is None or error["param"] == parameter


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "null",
        '{"prompt": "a"} x',
        '{"prompt": "\ud800"}'.encode("utf-8", "surrogatepass"),
        b'{"prompt": "\xff"}',
        '{"prompt": "a", "prompt": "b"}',
        '{"a":' * 100000,
        r'{"prompt": "\ud800"}',
    ],
)
def test_bodies_that_are_not_proper_json(http, body):
    http.post("/v1/completions", body).error(400)


def test_paths_methods_and_models(http):
    http.get("/nowhere").error(404)
    answer = http.request("GET", "/v1/completions")
    answer.error(405)
    assert "POST" in answer.headers["Allow"]
    assert http.post("/v1/completions", {"model": "nope", "prompt": "a"}).error(404)["code"] == "model_not_found"
    assert http.post("/tokenize", {"model": "nope", "content": "a"}).error(404)["code"] == "model_not_found"


def test_a_prompt_past_the_context_is_refused(http):
    error = http.post("/v1/completions", {"prompt": [504] * 9000, "max_tokens": 1}).error(400)
    assert error["code"] == "context_length_exceeded"


def test_a_body_past_the_limit_is_refused(http):
    assert http.post("/v1/completions", {"prompt": "x" * (2 << 20)}).status == 413


def test_broken_http_gets_400_and_is_closed(http):
    for sent in (
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    ):
        received = http.raw(sent)
        assert received.split(b"\r\n")[0].split()[1] in (b"400", b"505"), received[:100]


def test_pipelined_requests_are_answered_in_order(http):
    received = http.raw(
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"
        b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    statuses = re.findall(rb"HTTP/1\.1 (\d+) ", received)  # a body ends without a line break
    assert statuses == [b"200", b"404", b"200"]


def running_calls(daemon):
    return sum(worker["running"] + worker["waiting"] for worker in daemon.status()["workers"])


def test_a_client_that_leaves_frees_its_call(daemon):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(str(daemon.socket))
    body = json.dumps({"prompt": PROMPT, "max_tokens": 4000, "ignore_eos": True, "stream": True}).encode()
    client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    assert client.recv(4096)
    daemon.wait_for(lambda: running_calls(daemon) == 1, "running one call")
    client.close()
    begin = time.monotonic()
    daemon.wait_for(lambda: running_calls(daemon) == 0, "free again", 5)
    assert time.monotonic() - begin < 2
    assert sum(worker["kv_pages_used"] for worker in daemon.status()["workers"]) == 0


def test_past_the_queue_429_with_retry_after(start, model):
    daemon = start({"smollm2": model}, {"max_queue": 2})
    body = json.dumps({"prompt": "a", "max_tokens": 100000, "ignore_eos": True, "stream": True}).encode()
    clients = []
    for _ in range(2):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.connect(str(daemon.socket))
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        clients.append(client)
    answer = daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 1})
    for client in clients:
        client.close()
    assert answer.status == 429 and int(answer.headers["Retry-After"]) >= 1
    answer.error(429)
    daemon.wait_for(
        lambda: daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 1}).status == 200, "free again"
    )


@pytest.mark.parametrize("io", ["uring", "epoll"])
def test_loopback_tcp_on_both_backends(start, tiny, io):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    daemon = start({"tiny": tiny}, {"listen": f"127.0.0.1:{port}", "io": io})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for _ in range(3):  # kept alive
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 3}))
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        assert json.loads(answer.read())["usage"]["completion_tokens"] <= 3
    connection.close()
    assert daemon.status()["io"] == io


def test_socket_mode(daemon):
    assert daemon.socket.stat().st_mode & 0o777 == 0o660
    assert daemon.control.stat().st_mode & 0o777 == 0o600
