"""The real programs, driven from outside: a daemon with a generated configuration, and HTTP over its Unix socket."""

import contextlib
import ctypes
import glob
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("WEIGHTD_BUILD", TOP / "build")).resolve()
WEIGHTD = BUILD / "weightd"
WEIGHTCTL = BUILD / "weightctl"
CATALOGUE = TOP / "conf/models.ini"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
READY_S = 120
SANITIZED = WEIGHTD.exists() and b"__asan_init" in WEIGHTD.read_bytes()  # about ten times slower, and keeps freed memory


def model_dir():
    """Where ./check and ./quickstart keep pulled models."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache) / "weightd/models"


INT8_FLAGS = {"avx512_vnni", "avx512vbmi", "avx512_bf16"}  # what numerics = int8 needs


def cpu_flags():
    return set(re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)[1].split())


LIBC = ctypes.CDLL(None)


def end_with_us():
    """In a child before it executes a program: tests that are killed leave no daemon behind (prctl, PR_SET_PDEATHSIG)."""
    LIBC.prctl(1, signal.SIGTERM)


def refusing(error, *calls):
    """A Daemon's wrapper: these system calls fail with this error in all of its processes."""
    return (sys.executable, TOP / "tests/e2e/refuse.py", error, ",".join(calls))


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=120):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def ok(self):
        assert self.status == 200, f"status {self.status}: {self.body[:500]!r}"
        return self.json

    def error(self, status):
        """The OpenAI error object of an answer that must have this status."""
        assert self.status == status, f"status {self.status} instead of {status}: {self.body[:500]!r}"
        error = self.json["error"]
        assert isinstance(error["message"], str) and error["message"], error
        assert set(error) >= {"message", "type", "param", "code"}, error
        return error


class Http:
    """One request per connection."""

    def __init__(self, path):
        self.path = path

    def request(self, method, target, body=None, headers=None, timeout=120):
        connection = UnixConnection(self.path, timeout)
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            if isinstance(body, str):
                body = body.encode()
            connection.request(method, target, body, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, target):
        return self.request("GET", target)

    def post(self, target, body, **more):
        return self.request("POST", target, body, **more)

    def stream(self, target, body, timeout=120):
        """Yields the events' data, parsed; ends at [DONE] and asserts that it came."""
        connection = UnixConnection(self.path, timeout)
        try:
            connection.request(
                "POST", target, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"}
            )
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            event = b""
            for line in answer:
                if line.strip():
                    assert line.startswith(b"data: "), line
                    event += line[6:].rstrip(b"\r\n")
                elif event == b"[DONE]":
                    return
                elif event:
                    yield json.loads(event)
                    event = b""
            raise AssertionError("the stream ended without [DONE]")
        finally:
            connection.close()

    def raw(self, sent, timeout=30):
        """Sends bytes and returns all that comes back until the server closes."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(timeout)
            client.connect(str(self.path))
            client.sendall(sent)
            received = b""
            while chunk := client.recv(65536):
                received += chunk
            return received


class Daemon:
    """`settings` go under [weightd], `models` and `adapters` map names to files, or to all keys of a section. Stopping
    asserts a good end and that nothing is left."""

    def __init__(self, models, settings=None, adapters=None, wrapper=(), environment=None, build=BUILD, pass_fds=()):
        self.directory = Path(tempfile.mkdtemp(prefix="weightd-e2e-"))
        self.instance = "test" + re.sub(r"[^A-Za-z0-9]", "", self.directory.name)[-12:]
        self.socket = self.directory / "weightd.sock"
        self.control = self.directory / "control.sock"
        self.config = self.directory / "weightd.conf"
        self.log_path = self.directory / "log"
        keys = {
            "instance": self.instance,
            "socket": self.socket,
            "control_socket": self.control,
            "model_dir": self.directory,
            "catalogue": CATALOGUE,
            **(settings or {}),
        }
        text = "[weightd]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())
        for kind, sections in ("model", models), ("adapter", adapters or {}):
            for name, section in sections.items():
                keys = section if isinstance(section, dict) else {"path": section}
                text += f"\n[{kind} {name}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())
        self.config.write_text(text)
        self.http = Http(self.socket)
        self.build = build
        self.log_file = open(self.log_path, "wb")
        self.process = subprocess.Popen(
            [*wrapper, build / "weightd", "--config", self.config],
            stdin=subprocess.DEVNULL,
            stdout=self.log_file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
            pass_fds=pass_fds,
            preexec_fn=end_with_us,
        )

    def log(self):
        return self.log_path.read_text(errors="replace")

    def health(self):
        """(status, object), or (None, None) while nobody listens."""
        try:
            answer = self.http.get("/health")
            return answer.status, answer.json
        except OSError:
            return None, None

    def wait_ready(self, seconds=READY_S):
        return self.wait_for(lambda: self.health()[0] == 200, "ready", seconds)

    def wait_all_ready(self):
        """Every worker serves; wait_ready is content with one of each model."""
        self.wait_ready()
        return self.wait_for(lambda: self.status()["state"] == "ready", "ready with all workers")

    def wait_for(self, condition, what, seconds=30):
        """True once the condition holds; fails when the daemon ends or the time is up."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(
                    f"weightd ended with {self.process.returncode} before it was {what}:\n{self.log()[-3000:]}"
                )
            if condition():
                return True
            time.sleep(0.05)
        raise AssertionError(f"not {what} after {seconds} s:\n{self.log()[-3000:]}")

    def ctl(self, *arguments, **more):
        return subprocess.run(
            [self.build / "weightctl", "--config", self.config, *arguments], capture_output=True, timeout=120, **more
        )

    def status(self):
        return json.loads(self.ctl("status", "--json").stdout)

    def worker_pids(self):
        return [worker["pid"] for worker in self.status()["workers"]]

    def processes(self):
        """The daemon and all its descendants."""
        parents = {}
        for entry in glob.glob("/proc/[0-9]*/stat"):
            with contextlib.suppress(OSError):
                text = Path(entry).read_text()
                parents[int(text.split()[0])] = int(text[text.rindex(")") + 2 :].split()[1])
        found = {self.process.pid}
        while True:
            more = {pid for pid, parent in parents.items() if parent in found} - found
            if not more:
                return sorted(found)
            found |= more

    def session(self):
        """Whatever still runs of what the daemon ever started, its own end included."""
        found = []
        for entry in glob.glob("/proc/[0-9]*/stat"):
            with contextlib.suppress(OSError):
                text = Path(entry).read_text()
                state, _, _, session = text[text.rindex(")") + 2 :].split()[:4]
                if int(session) == self.process.pid and state not in "ZX":
                    found.append(int(text.split()[0]))
        return found

    def roles(self):
        """The daemon's children, also such that are just starting: {"worker 0": pid, "front": pid, ...}."""
        found = {}
        for pid in self.processes():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                if "--name" in words:
                    found[words[words.index("--name") + 1]] = pid
        return found

    def children(self, role=""):
        """The pids of those in this role ("worker", "front", "loader", "worker 1")."""
        return [pid for name, pid in self.roles().items() if name.startswith(role)]

    def segments(self):
        """The names of this instance's objects in /dev/shm (the lock's file aside)."""
        return [path for path in glob.glob(f"/dev/shm/weightd.{self.instance}.*") if not path.endswith(".lock")]

    def stop(self):
        """SIGTERM, a clean exit, nothing left behind."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(45)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"weightd did not end within 45 s of SIGTERM:\n{self.log()[-3000:]}") from None
        log, left = self.log(), self.segments()
        self.clean()
        assert code == 0, f"weightd ended with {code}:\n{log[-3000:]}"
        assert not left, f"left in shared memory: {left}"
        assert "Sanitizer" not in log, log

    def kill(self):
        """For a test's own clean-up: whatever still runs of this daemon's session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        time.sleep(0.2)
        for path in glob.glob(f"/dev/shm/weightd.{self.instance}.*"):
            os.unlink(path)
        self.clean()

    def clean(self):
        self.log_file.close()
        with contextlib.suppress(OSError):
            os.unlink(f"/dev/shm/weightd.{self.instance}.lock")
        shutil.rmtree(self.directory, ignore_errors=True)


def metric(daemon, name):
    """The sum of a metric over all its labels."""
    values = re.findall(rf"^{name}(?:{{[^}}]*}})? (\d+)$", daemon.http.get("/metrics").body.decode(), re.MULTILINE)
    assert values, f"there is no metric {name}"
    return sum(int(value) for value in values)


def proc_figures(pid, file):
    """The figures in kB of a file of /proc/PID, in bytes."""
    text = Path(f"/proc/{pid}/{file}").read_text()
    return {name: int(kib) * 1024 for name, kib in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}


@contextlib.contextmanager
def running(*arguments, **more):
    """A daemon for the tests of a module: ready when it is handed out, stopped (which asserts a good end) afterwards, and
    killed if it never got ready."""
    daemon = Daemon(*arguments, **more)
    try:
        daemon.wait_ready()
        yield daemon
    except BaseException:
        daemon.kill()
        raise
    daemon.stop()


def smaps_rollup(pid):
    """The figures of /proc/PID/smaps_rollup and status in bytes."""
    return {**proc_figures(pid, "smaps_rollup"), **proc_figures(pid, "status")}


def mappings(pid):
    """[(first line, {figure: bytes})] of /proc/PID/smaps."""
    result = []
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            result.append((line, {}))
        elif match := re.match(r"(\w+):\s+(\d+) kB$", line):
            result[-1][1][match[1]] = int(match[2]) * 1024
    return result
