"""Processes die and come back; nobody notices but whose answers they were making."""

import concurrent.futures
import contextlib
import os
import pathlib
import pwd
import signal
import socket
import threading
import time

import pytest

import inotify

LONG = {"prompt": "Once upon a time", "max_tokens": 250, "ignore_eos": True, "temperature": 1, "seed": 7}


def text_of(events):
    """The text of a stream, and its error (None if it ended well)."""
    text, error = "", None
    with contextlib.suppress(AssertionError): # no [DONE] after an error
        for event in events:
            if "error" in event:
                error = event["error"]
            else:
                text += "".join(choice.get("text") or "" for choice in event["choices"])
    return text, error


def serves_again(http, seconds):
    """Asks until there is an answer; fails unless it comes in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if http.post("/v1/completions", {"prompt": "a", "max_tokens": 1}).status == 200:
                return
        time.sleep(0.005)
    raise AssertionError(f"no answer within {seconds} s")


def test_a_killed_worker_is_replaced_within_a_second_without_the_file(start, model):
    daemon = start({"smollm2": model})
    before = daemon.status()
    with inotify.Watch(model) as watch:
        daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 2}).ok()
        os.kill(before["workers"][0]["pid"], signal.SIGKILL)
        serves_again(daemon.http, 1)
        assert watch.seen() == set()
        model.open("rb").close()
        assert watch.seen() == {"open"}, "the watch does watch"
    after = daemon.status()
    worker = after["workers"][0]
    assert worker["pid"] != before["workers"][0]["pid"] and worker["state"] == "ready"
    assert worker["restarts"] == 1 and worker["failures"] == 0
    assert worker["last_end"] == "killed by signal 9 (Killed)" and worker["last_end_ms_ago"] < 60000
    assert after["models"][0]["generation"] == before["models"][0]["generation"], "the weights were not loaded again"
    assert after["models"][0]["digest"] == before["models"][0]["digest"]
    assert "worker 0 ended " in daemon.ctl("status").stdout.decode()


def test_only_calls_of_the_killed_worker_fail_and_at_once(start, model):
    daemon = start({"smollm2": model}, {"workers_per_node": 2, "threads": 1})
    daemon.wait_all_ready()
    expected = text_of(daemon.http.stream("/v1/completions", LONG))
    assert expected[1] is None
    all_run, died, failed = threading.Barrier(5), [], []

    def client():
        events = daemon.http.stream("/v1/completions", LONG)
        first = next(events)
        all_run.wait(60)
        text, error = text_of(events)
        if error:
            failed.append(time.monotonic())
        return first["choices"][0]["text"] + text, error

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(client) for _ in range(4)]
        all_run.wait(60)
        victim = daemon.status()["workers"][0]
        os.kill(victim["pid"], signal.SIGKILL)
        died.append(time.monotonic())
        answers = [client.result() for client in clients]
    assert victim["running"] == 2, "its clients were still being served"
    errors = [error for _, error in answers if error]
    assert len(errors) == victim["running"]
    assert all("died" in error["message"] for error in errors), errors
    assert max(failed) - died[0] < 1
    assert all(expected[0].startswith(text) for text, error in answers)
    assert all(text == expected[0] for text, error in answers if not error)


def test_a_killed_front_is_replaced_within_a_second_and_refuses_nobody(start, model):
    """Connects go on all the time; what the old front was having answered is freed in the workers."""
    daemon = start({"smollm2": model})
    stop, refused, connected = threading.Event(), [], []

    def connect():
        while not stop.is_set():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                try:
                    client.connect(str(daemon.socket))
                    connected.append(time.monotonic())
                except OSError as error:
                    refused.append(error)
            time.sleep(0.002)

    connecting = threading.Thread(target=connect)
    connecting.start()
    try:
        events = [daemon.http.stream("/v1/completions", {**LONG, "max_tokens": 8000}) for _ in range(3)]
        for stream in events:
            next(stream)
        status = daemon.status()
        assert status["workers"][0]["running"] == 3 and status["workers"][0]["kv_pages_used"] >= 3
        os.kill(status["front"]["pid"], signal.SIGKILL)
        killed = time.monotonic()
        serves_again(daemon.http, 1)
        back = time.monotonic()
        for stream in events:
            with pytest.raises((AssertionError, OSError)):  # cut off, and seen as such
                list(stream)
    finally:
        stop.set()
        connecting.join()
    assert not refused
    assert [t for t in connected if killed < t < back]
    after = daemon.status()
    assert after["front"]["pid"] not in (0, status["front"]["pid"])
    assert after["front"]["restarts"] == 1 and after["front"]["last_end"] == "killed by signal 9 (Killed)"
    assert after["workers"][0]["pid"] == status["workers"][0]["pid"]
    daemon.wait_for(
        lambda: all(daemon.status()["workers"][0][key] == 0 for key in ("running", "waiting", "kv_pages_used")),
        "without calls of the old front", 5,
    )  # fmt: skip


def gone_within(daemon, seconds, woken_after=None):
    start = time.monotonic()
    while left := daemon.session():
        waited = time.monotonic() - start
        assert waited < seconds, f"left after {seconds} s: {left}"
        if woken_after is not None and waited > woken_after:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        time.sleep(0.01)


def kill_parent_of_stopped(daemon):
    """What is stopped can't see for itself that its parent is gone: the kernel has to have been asked before."""
    for pid in daemon.children():
        with contextlib.suppress(ProcessLookupError):  # some live for a moment only
            os.kill(pid, signal.SIGSTOP)
    daemon.process.kill()


USERS = ["", pytest.param("nobody", marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can become someone else"))]


@pytest.mark.parametrize("user", USERS)
def test_nothing_outlives_the_parent(start, model, user):
    daemon = start({"smollm2": model}, {"workers_per_node": 2, **({"user": user} if user else {})})
    daemon.wait_all_ready()
    events = daemon.http.stream("/v1/completions", LONG)
    next(events)
    assert len(daemon.session()) >= 4
    kill_parent_of_stopped(daemon)
    gone_within(daemon, 2)
    daemon.kill()


def test_a_front_that_answered_and_is_killed_at_once_has_served(start, tiny):
    """However often: it is no crash loop, whose starts would be ten seconds apart."""
    daemon = start({"tiny": tiny})
    for _ in range(8):
        front = daemon.status()["front"]["pid"]
        os.kill(front, signal.SIGKILL)
        daemon.wait_for(lambda: daemon.health()[0] is not None, "answered by the next front", 5)
    assert daemon.status()["front"]["restarts"] == 8


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("role", ["front", "loader", "worker"])
def test_nothing_outlives_a_parent_that_dies_while_it_starts_others(start, tiny, role, user):
    """Right after the child was executed: before, or while, it changes its user and its wish to die with the parent. A change
    of user takes that wish back: one who was stopped right there sees it when it runs on, before anything else."""
    for delay_ms in (0, 1, 2, 4, 8):
        daemon = start({"tiny": tiny}, {"user": user} if user else {}, ready=False)
        while not daemon.children(role):
            assert daemon.process.poll() is None, daemon.log()
        time.sleep(delay_ms / 1000)  # not waiting for anything: another moment of the child's start
        kill_parent_of_stopped(daemon)
        gone_within(daemon, 2, woken_after=1)
        daemon.kill()


def test_a_second_daemon_of_the_instance_is_refused(start, tiny):
    daemon = start({"tiny": tiny})
    second = start({"tiny": tiny}, {"instance": daemon.instance}, ready=False)
    assert second.process.wait(20) != 0
    assert daemon.instance in second.log()
    second.clean()
    daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 2}).ok()


def test_sigterm_lets_running_calls_finish(start, model):
    daemon = start({"smollm2": model})
    events = daemon.http.stream("/v1/completions", {"prompt": "a", "max_tokens": 100, "ignore_eos": True})
    next(events)
    daemon.process.send_signal(signal.SIGTERM)
    assert len(list(events)) > 50


def test_a_second_sigterm_ends_running_calls(start, model):
    daemon = start({"smollm2": model})
    events = daemon.http.stream("/v1/completions", {**LONG, "max_tokens": 8000})
    next(events)
    daemon.process.send_signal(signal.SIGTERM)
    daemon.wait_for(lambda: "stopping" in daemon.log(), "stopping")
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(2) == 0
    with pytest.raises((AssertionError, OSError)):
        list(events)
    assert not daemon.session() and not daemon.segments()


@pytest.mark.parametrize("times", [1, 2])
def test_sigterm_during_a_load(start, model, times):
    daemon = start({"smollm2": model}, ready=False)
    daemon.wait_for(lambda: daemon.children("loader"), "loading")
    os.kill(daemon.children("loader")[0], signal.SIGSTOP)  # so that it is still loading
    for _ in range(times):
        daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(5) == 0, daemon.log()
    assert not daemon.session() and not daemon.segments()
    assert " error " not in daemon.log(), "ending a load is no fault"


def test_status_and_stop_from_the_command_line(start, tiny):
    daemon = start({"tiny": tiny})
    people = daemon.ctl("status")
    assert people.returncode == 0, people.stdout
    assert b"verified" in people.stdout and b"MISPLACED" in people.stdout
    copy = daemon.status()["models"][0]["copies"][0]
    assert copy["placement"] == "verified" and copy["misplaced"] == copy["absent"] == copy["unknown"] == 0
    assert copy["on_node"] == copy["pages"] == -(-copy["bytes"] // 4096)
    stopped = daemon.ctl("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert daemon.process.wait(10) == 0, "stop returned before the daemon was gone"
    assert daemon.ctl("status").returncode == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_small_dev_shm_leads_to_a_memfd_that_is_said(start, tiny):
    small = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=64k none /dev/shm && exec "$@"', "sh"]
    daemon = start({"tiny": tiny}, wrapper=small)
    copy = daemon.status()["models"][0]["copies"][0]
    assert copy["backing"] == "memfd" and copy["segment"] == "" and copy["placement"] == "verified"
    assert "/dev/shm is too small" in daemon.log()
    daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 2}).ok()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become someone else")
@pytest.mark.parametrize("user", ["", "nobody"])
def test_children_have_no_privilege_left(start, tiny, user):
    daemon = start({"tiny": tiny}, {"user": user} if user else {})
    children = daemon.worker_pids() + [daemon.status()["front"]["pid"]]
    uid = str(pwd.getpwnam(user or "root").pw_uid)
    for pid in children:
        fields = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        assert fields["Uid"].split() == [uid] * 4
        assert fields["NoNewPrivs"].strip() == "1"
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(fields[name], 16) == 0, name
    daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 2}).ok()
