"""cors_origins: which pages may call from a browser, on answers, streams, errors and preflights."""

import socket

import pytest

import weightd

CHAT, FORUM = "https://chat.example.org", "http://localhost:5173"
PREFLIGHT = {"Access-Control-Request-Method": "POST"}
BODY = {"prompt": "a", "max_tokens": 2}


@pytest.fixture(scope="module")
def listed(tiny):
    settings = {"cors_origins": f"HTTPS://Chat.Example.ORG, {FORUM} tauri://localhost", "max_request_bytes": "8K"}
    with weightd.running({"tiny": tiny}, settings) as running:
        yield running


@pytest.fixture(scope="module")
def anybody(tiny, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("sk-of-the-test-0123456789\n")
    keys.chmod(0o600)
    with weightd.running({"tiny": tiny}, {"cors_origins": "*", "api_keys_file": keys}) as running:
        yield running


def allowed(answer):
    """The origin an answer is for, None: nobody else's. Credentials are never allowed."""
    assert "Access-Control-Allow-Credentials" not in answer.headers
    assert len(answer.headers.get_all("Access-Control-Allow-Origin", [])) <= 1
    return answer.headers["Access-Control-Allow-Origin"]


def varies(answer):
    return {name.strip() for value in answer.headers.get_all("Vary", []) for name in value.split(",")}


def every_kind_of_answer(http, origin):
    """Whole, streamed, and errors of the model's, of the front's and of the framing's own."""
    headers = {} if origin is None else {"Origin": origin}
    yield 200, http.request("GET", "/health", None, headers)
    yield 200, http.request("POST", "/v1/completions", BODY, headers)
    yield 200, http.request("POST", "/v1/completions", {**BODY, "stream": True}, headers)
    yield 400, http.request("POST", "/v1/completions", {**BODY, "temperature": 9}, headers)
    yield 400, http.request("POST", "/v1/completions", {"prompt": [5, 10**6]}, headers)
    yield 404, http.request("GET", "/nowhere", None, headers)
    yield 405, http.request("GET", "/v1/completions", None, headers)
    yield 413, http.request("POST", "/v1/completions", "x" * 9000, headers)


@pytest.mark.parametrize("origin", [CHAT, FORUM, "tauri://localhost"])
def test_listed_origins_get_their_own_name(listed, origin):
    for status, answer in every_kind_of_answer(listed.http, origin):
        assert answer.status == status
        assert allowed(answer) == origin
        assert "Origin" in varies(answer)


@pytest.mark.parametrize(
    "origin",
    [None, "null", "https://example.org", "https://chat.example.org.evil.net", "https://chat.example.org:443",
     "http://chat.example.org", "https://CHAT.example.org", CHAT + "/", f"{CHAT} {FORUM}", "*", "https://", CHAT * 200],
)  # fmt: skip
def test_others_get_none(listed, origin):
    for status, answer in every_kind_of_answer(listed.http, origin):
        assert answer.status == status
        assert allowed(answer) is None
        assert "Origin" in varies(answer)  # a cache must not give this answer to a page that may have it


def test_preflight(listed):
    answer = listed.http.request("OPTIONS", "/v1/chat/completions", None, {"Origin": CHAT, **PREFLIGHT})
    assert (answer.status, answer.body, allowed(answer)) == (204, b"", CHAT)
    assert "Content-Length" not in answer.headers
    assert {"GET", "POST"} <= {name.strip() for name in answer.headers["Access-Control-Allow-Methods"].split(",")}
    assert {"Authorization", "Content-Type"} <= {
        name.strip() for name in answer.headers["Access-Control-Allow-Headers"].split(",")
    }
    assert int(answer.headers["Access-Control-Max-Age"]) > 0
    assert varies(answer) >= {"Origin", "Access-Control-Request-Headers"}


def test_fields_of_clients_may_be_sent(listed):
    wanted = "authorization,content-type,x-stainless-lang, X_Other"
    headers = {"Origin": CHAT, **PREFLIGHT, "Access-Control-Request-Headers": wanted}
    answer = listed.http.request("OPTIONS", "/v1/responses", None, headers)
    assert answer.headers["Access-Control-Allow-Headers"] == wanted
    for hostile in ("x: y", "a;b", "a" * 5000, "ä", "*"):
        headers["Access-Control-Request-Headers"] = hostile.encode().decode("latin-1")
        answer = listed.http.request("OPTIONS", "/v1/responses", None, headers)
        assert answer.status == 204
        assert answer.headers["Access-Control-Allow-Headers"] == "Authorization, Content-Type"


def test_a_refused_preflight(listed):
    for origin in ("null", "https://example.org", CHAT.upper()):
        answer = listed.http.request("OPTIONS", "/v1/completions", None, {"Origin": origin, **PREFLIGHT})
        assert answer.error(403)["code"] == "origin_not_allowed"
        assert allowed(answer) is None


def test_options_that_are_no_preflight(listed):
    for headers in ({}, PREFLIGHT, {"Origin": CHAT}):
        assert listed.http.request("OPTIONS", "/v1/completions", None, headers).status == 405


def test_a_connection_goes_on_after_a_preflight(listed):
    """And says of each request what that one's origin may see."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(30)
        client.connect(str(listed.socket))
        ask = "Host: x\r\nOrigin: %s\r\n"
        head = "OPTIONS /v1/models HTTP/1.1\r\n" + ask % CHAT + "Access-Control-Request-Method: GET\r\n\r\n"
        client.sendall((head + "GET /v1/models HTTP/1.1\r\n" + ask % "https://other.net" + "\r\n").encode())
        client.sendall(("GET /v1/models HTTP/1.1\r\n" + ask % FORUM + "Connection: close\r\n\r\n").encode())
        received = b""
        while chunk := client.recv(65536):
            received += chunk
    assert received.count(b"HTTP/1.1 ") == 3 and received.count(b"Access-Control-Allow-Origin: ") == 2
    first, _, rest = received.partition(b"HTTP/1.1 200")
    assert CHAT.encode() in first and FORUM.encode() in rest and CHAT.encode() not in rest


def test_everybody(anybody):
    for origin in (CHAT, "null", "https://anything.example"):
        answer = anybody.http.request("OPTIONS", "/v1/completions", None, {"Origin": origin, **PREFLIGHT})
        assert (answer.status, allowed(answer)) == (204, "*")  # without a key: browsers show none in a preflight
        answer = anybody.http.request("POST", "/v1/completions", BODY, {"Origin": origin})
        assert (answer.status, allowed(answer)) == (401, "*")
        headers = {"Origin": origin, "Authorization": "Bearer sk-of-the-test-0123456789"}
        answer = anybody.http.request("POST", "/v1/completions", BODY, headers)
        assert (answer.status, allowed(answer)) == (200, "*")


def test_without_the_key_nothing_is_said(start, tiny):
    http = start({"tiny": tiny}).http
    for status, answer in every_kind_of_answer(http, CHAT):
        assert answer.status == (400 if status == 413 else status)  # the bound on bodies is higher here
        assert not [name for name in answer.headers if name.startswith("Access-Control") or name == "Vary"]
    answer = http.request("OPTIONS", "/v1/completions", None, {"Origin": CHAT, **PREFLIGHT})
    assert answer.status == 405 and allowed(answer) is None


@pytest.mark.parametrize("value", ["https://a.example/path", "example.org", f"* {CHAT}", "https://", "https://a b", "://x", "x" * 1100])
def test_wrong_lists(start, tiny, value):
    daemon = start({"tiny": tiny}, {"cors_origins": value}, ready=False)
    try:
        assert daemon.process.wait(30) != 0
        assert "cors_origins" in daemon.log()
    finally:
        daemon.kill()
