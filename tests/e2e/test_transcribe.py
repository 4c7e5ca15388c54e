"""weightctl transcribe against a server of the test's own, which sees what was sent and answers as it likes."""

import email.parser
import email.policy
import http.server
import json
import os
import signal
import socketserver
import subprocess
import threading

import pytest

import weightd


class Daemon:
    """What of the API transcribe uses. `answer(form)` returns status and body of a transcription."""

    def __init__(self, path, answer, workers):
        self.path, self.forms, self.targets = path, [], []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def address_string(self):
                return "client"

            def log_message(self, *arguments):
                pass

            def reply(self, status, body, content_type):
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                assert self.path == "/v1/status"
                states = ["ready"] * workers + ["starting"]
                items = [{"index": i, "model": "whisper", "state": state} for i, state in enumerate(states)]
                self.reply(200, json.dumps({"workers": items}).encode(), "application/json")

            def do_POST(self):
                head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
                whole = head + self.rfile.read(int(self.headers["Content-Length"]))
                message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(whole)
                form = {}
                for part in message.iter_parts():
                    name = part.get_param("name", header="Content-Disposition")
                    form[name] = part.get_payload(decode=True)
                    if part.get_filename():
                        form["filename"] = part.get_filename()
                outer.targets.append(self.path)
                outer.forms.append(form)
                status, body = answer(form)
                self.reply(status, body if isinstance(body, bytes) else json.dumps(body).encode(), "text/plain")

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *arguments):
                pass

        self.server = Server(str(path), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def daemon(tmp_path):
    made = []

    def begin(answer, workers=1):
        made.append(Daemon(tmp_path / "api", answer, workers))
        return made[-1]

    yield begin
    for server in made:
        server.close()


def transcribe(*arguments):
    return subprocess.run(
        [weightd.WEIGHTCTL, "transcribe", *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


def text(form):
    return 200, b"heard " + form["filename"].encode() + b"\n"


def refused(message):
    return {"error": {"message": message, "type": "invalid_request_error", "param": "file", "code": None}}


def test_a_file_is_sent_as_it_is(daemon, tmp_path):
    server = daemon(text)
    content = os.urandom(3_000_000) + b"\r\n--weightctl-\r\n"
    (tmp_path / 'a "b\\.wav').write_bytes(content)
    result = transcribe(
        "--socket", server.path, "--model", "whisper", "--language", "cs", tmp_path / 'a "b\\.wav'
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "heard a b.wav\n", "")
    (form,) = server.forms
    assert form.pop("file") == content
    assert form == {"model": b"whisper", "language": b"cs", "response_format": b"text", "filename": "a b.wav"}
    assert server.targets == ["/v1/audio/transcriptions"]


def test_many_files_go_to_all_workers_at_once(daemon, tmp_path):
    together = threading.Barrier(3)

    def answer(form):
        together.wait(60)  # passes when three requests are there at the same time, and only then
        return 200, b"WEBVTT\n\n" + form["filename"].encode()

    server = daemon(answer, workers=3)
    files = [tmp_path / f"{i}.flac" for i in range(6)]
    for i, file in enumerate(files):
        file.write_bytes(bytes([i]) * i)
    out = tmp_path / "out"
    out.mkdir()
    result = transcribe("--socket", server.path, "--format", "vtt", "--output-dir", out, *files)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert sorted(os.listdir(out)) == [f"{i}.vtt" for i in range(6)]
    for i in range(6):
        assert (out / f"{i}.vtt").read_bytes() == f"WEBVTT\n\n{i}.flac".encode()
        assert (out / f"{i}.vtt").stat().st_mode & 0o777 == 0o666 & ~umask()
    assert {form["file"] for form in server.forms} == {bytes([i]) * i for i in range(6)}
    assert all("model" not in form and form["response_format"] == b"vtt" for form in server.forms)


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_errors_are_of_their_file_alone(daemon, tmp_path):
    def answer(form):
        return (400, refused("no audio in it")) if form["file"] == b"bad" else text(form)

    server = daemon(answer, workers=2)
    for name in ("one", "bad", "two"):
        (tmp_path / f"{name}.mp3").write_bytes(name.encode())
    (tmp_path / "out").mkdir()
    files = [tmp_path / f"{name}.mp3" for name in ("one", "bad", "missing", "two")]
    result = transcribe("--socket", server.path, "--output-dir", tmp_path / "out", *files)
    assert result.returncode == 4
    assert result.stderr.splitlines() == [
        f"weightctl: {files[1]}: no audio in it",
        f"weightctl: {files[2]}: No such file or directory",
    ]
    assert sorted(os.listdir(tmp_path / "out")) == ["one.txt", "two.txt"]
    assert (tmp_path / "out" / "two.txt").read_text() == "heard two.mp3\n"
    # What was there before stays as it was when its file fails.
    (tmp_path / "out" / "bad.txt").write_text("older")
    assert transcribe("--socket", server.path, "--output-dir", tmp_path / "out", files[1]).returncode == 4
    assert (tmp_path / "out" / "bad.txt").read_text() == "older"
    assert transcribe("--socket", server.path, files[2], files[0]).returncode == 1


def test_texts_come_in_the_order_of_the_files(daemon, tmp_path):
    first = threading.Event()

    def answer(form):
        if form["file"] == b"a":
            first.wait(60)
        else:
            first.set()
        return text(form)

    server = daemon(answer, workers=2)
    for name in "ab":
        (tmp_path / name).write_text(name)
    result = transcribe("--socket", server.path, tmp_path / "a", tmp_path / "b")
    assert result.stdout == f"==> {tmp_path}/a <==\nheard a\n==> {tmp_path}/b <==\nheard b\n"


def test_json_has_a_line_for_each_file(daemon, tmp_path):
    server = daemon(lambda form: (200, {"text": "x", "words": []}))
    (tmp_path / "a.wav").write_bytes(b"")
    result = transcribe(
        "--json", "--task", "translate", "--word-timestamps", "--socket", server.path, tmp_path / "a.wav", tmp_path
    )
    assert result.returncode == 1
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[0] == {"file": f"{tmp_path}/a.wav", "transcript": {"text": "x", "words": []}}
    assert lines[1] == {"file": str(tmp_path), "error": "not a regular file"}
    assert server.forms[0]["response_format"] == b"verbose_json"
    assert server.forms[0]["word_timestamps"] == b"true"
    assert server.targets == ["/v1/audio/translations"]


def test_an_answer_before_the_end_is_the_answer(tmp_path):
    """A server that takes no more than the head and refuses: the words still arrive."""
    path = tmp_path / "api"

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            line = self.rfile.readline()
            while self.rfile.readline() != b"\r\n":
                pass
            body = json.dumps(refused("too large") if line.startswith(b"POST") else {}).encode()
            self.wfile.write(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with open(tmp_path / "large", "wb") as file:
            file.truncate(64 << 20)
        result = transcribe("--socket", path, tmp_path / "large")
        server.shutdown()
    assert result.returncode == 4
    assert result.stderr == f"weightctl: {tmp_path}/large: too large\n"


def test_an_interrupt_ends_it(daemon, tmp_path):
    arrived, leave = threading.Event(), threading.Event()

    def answer(form):
        arrived.set()
        leave.wait(60)
        return text(form)

    server = daemon(answer)
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "out").mkdir()
    command = [weightd.WEIGHTCTL, "transcribe", "--socket", server.path, "--output-dir", tmp_path / "out"]
    with subprocess.Popen([*command, tmp_path / "a", tmp_path / "b"], stderr=subprocess.PIPE) as process:
        assert arrived.wait(60)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    leave.set()
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "usage: weightctl transcribe FILE..."),
        (["--format", "doc", "a"], "--format 'doc' is none of txt, srt, vtt, json"),
        (["--task", "sing", "a"], "--task 'sing' is neither"),
        (["--word-timestamps", "a"], "--word-timestamps wants"),
        (["--format", "srt", "a", "b"], "several files as srt want --output-dir"),
        (["--output-dir", "/nonexistent", "a"], "--output-dir /nonexistent: not a directory"),
        (["--output-dir", "/", "x/a.wav", "y/a.mp3"], "x/a.wav and y/a.mp3 would both become //a.txt"),
        (["--json", "--output-dir", "/", "a"], "--json and --output-dir exclude each other"),
        (["--control", "x", "a"], "--control does not go with 'transcribe'"),
    ],
)
def test_wrong_usage_is_told(arguments, words):
    result = transcribe(*arguments)
    assert result.returncode == 2
    assert words in result.stderr


def test_nobody_listens(tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    result = transcribe("--socket", tmp_path / "none", tmp_path / "a", tmp_path / "a")
    assert result.returncode == 3
    assert result.stderr.count("weightd cannot be reached") == 1
