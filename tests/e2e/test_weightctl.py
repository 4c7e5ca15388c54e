"""weightctl against a server of the test's own, which says what a real one seldom does, and in a real terminal."""

import http.server
import json
import os
import pty
import re
import select
import signal
import socketserver
import subprocess
import threading
import time

import pytest

import weightd
from control import Control

STATUS = {
    "version": "9.9",
    "instance": "blue",
    "pid": 4711,
    "state": "ready",
    "uptime_s": 200,
    "socket": "/run/x.sock",
    "listen": "",
    "io": "uring",
    "models": [
        {
            "name": "m",
            "path": "/m.gguf",
            "state": "ready",
            "architecture": "llama",
            "generation": 1,
            "context_tokens": 2048,
            "cpu_level": "avx512",
            "numerics": "bf16",
            "kv_type": "int8",
            "backing": "shm",
            "restart": "adopt",
            "adopted": True,
            "digest": "00",
            "copies": [
                {
                    "node": 1,
                    "segment": "/weightd.blue.m.g1.n1",
                    "bytes": 98362432,
                    "small_bytes": 1893440,
                    "huge_bytes": 96468992,
                    "giant_bytes": 0,
                    "pages": 24014,
                    "on_node": 24014,
                    "misplaced": 0,
                    "absent": 0,
                    "unknown": 0,
                    "placement": "verified",
                    "checked_ms_ago": 12,
                }
            ],
        }
    ],
    "workers": [
        {
            "index": 0,
            "pid": 4713,
            "node": 1,
            "cpus": "4-7",
            "model": "m",
            "state": "ready",
            "restarts": 2,
            "running": 3,
            "waiting": 1,
            "private_bytes": 21000000,
            "private_peak_bytes": 90000000,
            "arena_bytes": 1000000,
            "arena_peak_bytes": 70000000,
            "kv_pages": 1000,
            "kv_pages_used": 8,
            "locked": False,
            "oversubscribed": True,
        }
    ],
    "front": {"pid": 4712, "private_bytes": 3000000, "private_peak_bytes": 3500000},
    "parent": {"pid": 4711, "private_bytes": 1000000, "private_peak_bytes": 1000000},
    "private_bytes_total": 25000000,
    "private_peak_bytes_total": 94500000,
}


def weightctl(*arguments, **more):
    return subprocess.run([weightd.WEIGHTCTL, *arguments], capture_output=True, text=True, timeout=60, **more)


def status(tmp_path, value, *arguments):
    control = Control(tmp_path / "control", value if isinstance(value, bytes) else json.dumps(value).encode())
    result = weightctl("status", "--control", tmp_path / "control", *arguments)
    control.listener.close()
    os.unlink(tmp_path / "control")
    assert control.lines == ["status\n"]
    return result


def test_status_for_people(tmp_path):
    result = status(tmp_path, STATUS)
    assert result.returncode == 0, result.stderr
    for words in (
        "weightd 9.9, instance blue, pid 4711: ready, up 3 min",
        "io uring",
        "98.4 MB",
        "96.5 MB",
        "24014",
        "verified",
        "4-7",
        "8/1000",
        "unlocked",
        "oversubscribed",
        "ADOPTED",
        " adopt ",
        "all processes 25.0 MB (peak 94.5 MB)",
        "/weightd.blue.m.g1.n1",
    ):
        assert words in result.stdout, f"'{words}' is not in\n{result.stdout}"


@pytest.mark.parametrize("gone, cell", [("", "4-7"), ("5", "4-7 (gone: 5)"), ("4,6-7", "4-7 (gone: 4,6-7)")])
def test_status_tells_the_cpus_that_are_gone_and_nothing_else_of_them(tmp_path, gone, cell):
    said = status(tmp_path, {**STATUS, "workers": [{**STATUS["workers"][0], "cpus_gone": gone}]}).stdout
    assert re.findall(r" (4-7(?: \(.*?\))?) ", said) == [cell], said


def test_status_json_is_passed_on(tmp_path):
    assert json.loads(status(tmp_path, STATUS, "--json").stdout) == STATUS


def changed(**change):
    copy = {**STATUS["models"][0]["copies"][0], **change}
    return {**STATUS, "models": [{**STATUS["models"][0], "copies": [copy]}]}


def with_adapter(state):
    copy = {**STATUS["models"][0]["copies"][0], "misplaced": 1, "on_node": 24013, "placement": "misplaced"}
    return {**STATUS, "adapters": [{"name": "a", "model": "m", "state": state, "path": "/a", "copies": [copy]}]}


@pytest.mark.parametrize(
    "value, code",
    [
        (with_adapter("ready"), 1),
        (with_adapter("unloaded, in use"), 0),  # it goes with its last call
        (changed(misplaced=1, on_node=24013, placement="misplaced"), 1),
        (changed(misplaced=1), 1),
        (changed(placement="unverified"), 0),
        ({**STATUS, "state": "loading"}, 1),
        ({**STATUS, "state": "failed"}, 1),
        ({**STATUS, "state": "stopping"}, 1),
        ({}, 1),
        ([], 1),
        (b"not JSON", 1),
        (b"", 1),
        ({"error": "no"}, 4),
        ({"state": "ready"}, 0),
    ],
)
def test_status_exit_code(tmp_path, value, code):
    assert status(tmp_path, value).returncode == code
    assert status(tmp_path, value, "--json").returncode == code


def test_names_cannot_steer_the_terminal(tmp_path):
    value = {**STATUS, "models": [{**STATUS["models"][0], "path": "/\x1b[2J\n.gguf"}]}
    assert "\x1b" not in status(tmp_path, value).stdout


def test_nobody_listens(tmp_path):
    for arguments in (
        ("status", "--control"),
        ("stop", "--control"),
        ("complete", "x", "--socket"),
        ("run", "x", "--socket"),
    ):
        result = weightctl(*arguments, tmp_path / "nothing")
        assert result.returncode == 3 and str(tmp_path / "nothing") in result.stderr
    failed = weightctl("status", "--json", "--control", tmp_path / "nothing")
    assert failed.returncode == 3 and "cannot be reached" in json.loads(failed.stdout)["error"]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("fly",),
        ("run", "a", "b"),
        ("complete",),
        ("pull",),
        ("status", "x"),
        ("status", "--model", "m"),
        ("run", "--json", "x"),
        ("run", "--temperature", "hot", "x"),
        ("run", "--temperature", "1.", "x"),
        ("run", "--max-tokens", "-1", "x"),
        ("run", "--seed", "007", "x"),
        ("run", "--nope"),
        ("--config",),
    ],
)
def test_wrong_usage(arguments):
    result = weightctl(*arguments)
    assert result.returncode == 2 and "--help" in result.stderr


def test_help_and_version():
    assert "Commands:" in weightctl("--help").stdout
    assert re.match(r"weightctl \d+\.\d+\.\d+\n$", weightctl("--version").stdout)


class Api:
    """An HTTP server on a Unix socket: the test's function gets the request and writes the answer."""

    def __init__(self, path, answer):
        self.requests = requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def address_string(self):
                return "client"

            def log_message(self, *arguments):
                pass

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                requests.append((self.path, request))
                try:
                    answer(self, request)
                except (BrokenPipeError, ConnectionResetError):
                    requests.append("client left")
                self.close_connection = True

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

            def handle_error(self, *arguments):
                pass

        self.server = Server(str(path), Handler)
        self.path = path
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def begin_events(handler):
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Connection", "close")
    handler.end_headers()


def event(handler, value):
    handler.wfile.write(b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n")
    handler.wfile.flush()


def chat_answer(text):
    """Answers a chat with these words, one event each."""

    def answer(handler, _):
        begin_events(handler)
        event(handler, {"choices": [{"delta": {"role": "assistant"}}]})
        for word in re.findall(r"\S+\s*", text):
            event(handler, {"choices": [{"delta": {"content": word}}]})
        event(handler, {"choices": [{"delta": {}, "finish_reason": "stop"}]})
        event(handler, b"[DONE]")

    return answer


@pytest.fixture
def api(tmp_path):
    made = []

    def begin(answer):
        made.append(Api(tmp_path / "api", answer))
        return made[-1]

    yield begin
    for server in made:
        server.close()


def test_run_keeps_the_conversation(api):
    server = api(chat_answer("I am fine."))
    result = weightctl(
        "run",
        "--socket",
        server.path,
        "--system",
        "Be brief.",
        "--temperature",
        "0.5",
        "--seed",
        "18446744073709551615",
        "--max-tokens",
        "5",
        "--model",
        "m",
        input="Hello\nHow are you?\n/clear\nAgain\n/quit\nnever asked\n",
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "I am fine.\n" * 3
    path, second = server.requests[1]
    assert path == "/v1/chat/completions"
    system = {"role": "system", "content": "Be brief."}
    said = [
        system,
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "I am fine."},
        {"role": "user", "content": "How are you?"},
    ]
    assert second == {
        "messages": said,
        "stream": True,
        "temperature": 0.5,
        "seed": 2**64 - 1,
        "max_tokens": 5,
        "model": "m",
    }
    assert server.requests[2][1]["messages"] == [system, {"role": "user", "content": "Again"}]
    assert len(server.requests) == 3


def test_complete(api):
    def answer(handler, request):
        if request.get("stream"):
            begin_events(handler)
            event(handler, {"choices": [{"text": "one "}]})
            event(handler, {"choices": [{"text": "two"}]})
            event(handler, b"[DONE]")
        else:
            body = b'{"choices": [{"text": "one two"}]}'
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)

    server = api(answer)
    assert weightctl("complete", "--socket", server.path, "count").stdout == "one two\n"
    assert weightctl("complete", "--socket", server.path, "-", input="a long\ntext").stdout == "one two\n"
    assert (
        json.loads(weightctl("complete", "--json", "--socket", server.path, "count").stdout)["choices"][0]["text"]
        == "one two"
    )
    assert [request["prompt"] for _, request in server.requests] == ["count", "a long\ntext", "count"]
    assert weightctl("complete", "--socket", server.path, b"\xff").returncode == 2


def test_refusals_and_broken_streams(api):
    answers = []
    server = api(lambda handler, request: answers.pop(0)(handler))

    def refuse(handler):
        body = b'{"error": {"message": "no such model", "type": "x", "param": null, "code": null}}'
        handler.send_response(404)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def broken_off(handler):
        begin_events(handler)
        event(handler, {"choices": [{"delta": {"content": "half"}}]})

    def error_event(handler):
        begin_events(handler)
        event(handler, {"choices": [{"delta": {"content": "half"}}]})
        event(handler, {"error": {"message": "the worker died"}})

    def not_json(handler):
        begin_events(handler)
        event(handler, b"{")

    for answer, code, words in (
        (refuse, 4, "no such model"),
        (broken_off, 1, "without [DONE]"),
        (error_event, 4, "the worker died"),
        (not_json, 1, "not JSON"),
    ):
        answers.append(answer)
        result = weightctl("run", "--socket", server.path, "x")
        assert result.returncode == code and words in result.stderr, result.stderr


class Terminal:
    """A program with a pseudo-terminal as its controlling terminal."""

    def __init__(self, *command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(command[0], [str(part) for part in command])
        self.seen = ""

    def expect(self, words, seconds=20):
        end = time.monotonic() + seconds
        while words not in self.seen:
            ready = select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]
            assert ready, f"'{words}' did not come; so far: {self.seen!r}"
            try:
                self.seen += os.read(self.fd, 4096).decode(errors="replace")
            except OSError:
                raise AssertionError(f"it ended before '{words}': {self.seen!r}") from None
        before, _, self.seen = self.seen.partition(words)
        return before

    def send(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        """The exit status, after everything was read."""
        while True:
            try:
                if not os.read(self.fd, 4096):
                    break
            except OSError:
                break
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_interrupt_stops_the_answer_not_the_program(api):
    def endless(handler, request):
        begin_events(handler)
        if request["messages"][-1]["content"] == "go on":
            for i in range(10000):
                event(handler, {"choices": [{"delta": {"content": f"word{i} "}}]})
                time.sleep(0.01)
        event(handler, {"choices": [{"delta": {"content": "short answer"}}]})
        event(handler, b"[DONE]")

    server = api(endless)
    terminal = Terminal(weightd.WEIGHTCTL, "run", "--socket", server.path)
    terminal.expect(">>> ")
    terminal.send("go on\n")
    terminal.expect("word3 ")
    terminal.send("\x03")
    terminal.expect(">>> ")
    terminal.send("and now\n")
    terminal.expect("short answer")
    terminal.expect(">>> ")
    terminal.send("\x03")  # at the prompt it does nothing
    terminal.expect(">>> ")
    terminal.send("/quit\n")
    assert terminal.end() == 0
    messages = [request for request in server.requests if request != "client left"][-1][1]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[1]["content"].startswith("word0 word1 word2 word3 ") and "word500 " not in messages[1]["content"]
    end = time.monotonic() + 5
    while "client left" not in server.requests:
        assert time.monotonic() < end, "the server must notice that the answer is not wanted"
        time.sleep(0.01)


def test_an_answer_cannot_steer_the_terminal(api):
    server = api(chat_answer("red \x1b[31m and \x9b31m bell \x07 end"))
    terminal = Terminal(weightd.WEIGHTCTL, "run", "--socket", server.path, "x")
    shown = terminal.expect("end")
    assert terminal.end() == 0
    assert "\x1b" not in shown and "\x07" not in shown and "\x9b" not in shown and "red [31m and 31m bell" in shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_single_question_is_interrupted(api, number):
    def silent(handler, _):
        begin_events(handler)
        time.sleep(30)

    server = api(silent)
    running = subprocess.Popen([weightd.WEIGHTCTL, "run", "--socket", server.path, "x"])
    while not server.requests:
        time.sleep(0.01)
    running.send_signal(number)
    assert running.wait(10) == 130


def test_against_the_real_daemon(daemon):
    asked = daemon.ctl("run", "What is the capital of France?", "--temperature", "0", "--max-tokens", "30")
    assert asked.returncode == 0 and b"Paris" in asked.stdout, asked.stderr
    continued = daemon.ctl("complete", "The capital of France is", "--temperature", "0", "--max-tokens", "6", "--json")
    assert "Paris" in json.loads(continued.stdout)["choices"][0]["text"]
    refused = daemon.ctl("complete", "x", "--model", "nope")
    assert refused.returncode == 4 and b"nope" in refused.stderr
