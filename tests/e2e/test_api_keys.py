"""API keys: who shows none, or a wrong one, gets 401 and nothing else; a file that others could read is refused."""

import http.client
import json
import os
import signal
import socket
import subprocess

import pytest

import weightd

KEYS = ["sk-first-0123456789", "sk-second-0123456789abcdef"]
FILE = f"# ours\n\n{KEYS[0]}\n  \n{KEYS[1]} \r\n"


def key_file(directory, text=FILE, mode=0o600):
    path = directory / "keys"
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def keyed(start, tiny, tmp_path):
    return start({"tiny": tiny}, {"api_keys_file": key_file(tmp_path)})


def ask(daemon, authorization, method="GET", target="/v1/models", body=None):
    headers = {} if authorization is None else {"Authorization": authorization}
    return daemon.http.request(method, target, body, headers)


def test_a_key_is_wanted(keyed):
    wrong = [
        None, "", "Bearer", "Bearer ", "Bearer x", f"Basic {KEYS[0]}", KEYS[0], f"Bearer{KEYS[0]}", f"Bearer {KEYS[0]}x",
        f"Bearer {KEYS[0][:-1]}", f"Bearer {KEYS[0]} {KEYS[1]}", f"Bearer {KEYS[0].upper()}", "Bearer # ours",
        "Bearer " + "x" * 4000, f"Bearer {KEYS[0] * 2}",
    ]  # fmt: skip
    for authorization in wrong:
        answer = ask(keyed, authorization)
        assert answer.error(401)["code"] == "invalid_api_key", authorization
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    for key in KEYS:
        for scheme in ("Bearer", "bearer"):
            assert ask(keyed, f"{scheme} {key}").status == 200
    body = {"prompt": "a", "max_tokens": 1}
    for target in ("/v1/completions", "/tokenize", "/metrics", "/nowhere", "/v1/models/tiny"):
        assert ask(keyed, None, "POST", target, body).status == 401
    assert ask(keyed, f"Bearer {KEYS[1]}", "POST", "/v1/completions", body).status == 200
    assert keyed.http.get("/health").status == 200


def test_a_refused_client_keeps_its_connection(keyed):
    client = http.client.HTTPConnection("localhost")
    client.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.sock.connect(str(keyed.socket))
    client.auto_open = 0
    for authorization, status in (("Bearer x", 401), (f"Bearer {KEYS[0]}", 200), ("Bearer x", 401)):
        client.request("POST", "/tokenize", json.dumps({"content": "a"}), {"Authorization": authorization})
        answer = client.getresponse()
        assert answer.status == status
        answer.read()
    client.close()


def test_the_next_front_asks_for_the_same_keys(keyed):
    (front,) = keyed.children("front")
    os.kill(front, signal.SIGKILL)
    keyed.wait_for(lambda: keyed.children("front") not in ([], [front]), "with another front")
    assert ask(keyed, None).status == 401
    assert ask(keyed, f"Bearer {KEYS[0]}").status == 200


def test_keys_are_not_in_the_log_or_the_command_lines(keyed):
    ask(keyed, "Bearer wrong-wrong-wrong-wrong")
    lines = [open(f"/proc/{pid}/cmdline").read() for pid in keyed.processes()]
    for key in (*KEYS, "wrong-wrong"):
        assert key not in keyed.log() and not any(key in line for line in lines)


@pytest.mark.parametrize(
    "text, mode, words",
    [
        (FILE, 0o640, "mode 0640"),
        (FILE, 0o604, "mode 0604"),
        (FILE, 0o620, "mode 0620"),
        ("", 0o600, "no key in it"),
        ("# only\n", 0o600, "no key in it"),
        ("short\n", 0o600, "line 1: a key has 16 to 256"),
        ("# a\n" + "x" * 257, 0o600, "line 2: a key has 16 to 256"),
        ("0123456789abcdef with spaces\n", 0o600, "line 1: a key consists of visible"),
        ("0123456789abcdefé\n", 0o600, "line 1: a key consists of visible"),
        ("0123456789abcdef\0\n", 0o600, "NUL"),
        ("0123456789abcdef\n" * 1025, 0o600, "more than 1024"),
        ("x" * 300000, 0o600, "longer than"),
        (None, 0o600, "No such file"),
    ],
)
def test_files_that_are_refused(tiny, tmp_path, text, mode, words):
    path = tmp_path / "keys"
    if text is not None:
        key_file(tmp_path, text, mode)
    config = tmp_path / "weightd.conf"
    config.write_text(
        f"[weightd]\ninstance = keys{os.getpid()}\nsocket = {tmp_path}/s\ncontrol_socket = {tmp_path}/c\n"
        f"api_keys_file = {path}\n[model tiny]\npath = {tiny}\n"
    )
    ended = subprocess.run([weightd.WEIGHTD, "--config", config], capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0 and words in ended.stderr, ended.stderr
