"""A process that lives and does not move is found out, replaced, and systemd is told the truth meanwhile."""

import contextlib
import os
import signal
import time

import pytest

import systemd

LONG = {"prompt": "Once upon a time", "max_tokens": 8000, "ignore_eos": True}


@pytest.fixture
def notify(tmp_path):
    made = []

    def make(watchdog_s=None):
        made.append(systemd.Notify(tmp_path, watchdog_s))
        return made[-1]

    yield make
    for one in made:
        one.close()


def worker(daemon):
    return daemon.status()["workers"][0]


def texts_of(events):
    for event in events:
        yield "".join(choice["text"] for choice in event["choices"])


@pytest.mark.parametrize("busy", [False, True])
def test_a_stopped_worker_is_replaced_within_ten_seconds(start, model, busy):
    """With the settings as they come."""
    daemon = start({"smollm2": model})
    events = daemon.http.stream("/v1/completions", LONG) if busy else iter([{}])
    next(events)
    pid = worker(daemon)["pid"]
    os.kill(pid, signal.SIGSTOP)
    stopped = time.monotonic()
    daemon.wait_for(lambda: worker(daemon)["pid"] not in (0, pid) and worker(daemon)["state"] == "ready", "replaced", 10)
    daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 1}).ok()
    assert 5 < time.monotonic() - stopped < 10
    if busy:
        with pytest.raises(AssertionError, match=r"without \[DONE\]"):
            for event in events:
                last = event
        assert "died" in last["error"]["message"]
    end = worker(daemon)["last_end"]
    assert end == "killed: it made no progress", end
    assert not os.path.exists(f"/proc/{pid}")


def test_a_stopped_front_is_replaced_within_ten_seconds(start, tiny):
    daemon = start({"tiny": tiny})
    front = daemon.status()["front"]["pid"]
    os.kill(front, signal.SIGSTOP)
    stopped = time.monotonic()
    # The kernel may have accepted one connection for it, which is lost; others wait in the backlog.
    with contextlib.suppress(ConnectionError):
        daemon.http.request("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1}, timeout=10)
    daemon.http.request("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1}, timeout=10).ok()
    assert 5 < time.monotonic() - stopped < 10
    after = daemon.status()["front"]
    assert after["pid"] != front and after["last_end"] == "killed: it made no progress" and after["restarts"] == 1


def test_idle_and_working_processes_are_left_alone(start, model):
    """With the smallest limit: an idle worker wakes up, a working one counts."""
    daemon = start({"smollm2": model}, {"hang_seconds": 2})
    before = [worker(daemon)["pid"], daemon.status()["front"]["pid"]]
    time.sleep(4)  # the time itself is what is tested
    end = time.monotonic() + 4
    for _ in daemon.http.stream("/v1/completions", LONG):
        if time.monotonic() > end:
            break
    assert [worker(daemon)["pid"], daemon.status()["front"]["pid"]] == before
    assert "no progress" not in daemon.log()


def test_a_stopped_and_continued_worker_goes_on(start, model):
    """Less than hang_seconds is no hang: its clients wait, and get all of their answer."""
    daemon = start({"smollm2": model})
    request = {**LONG, "max_tokens": 80, "temperature": 0}
    expected = list(texts_of(daemon.http.stream("/v1/completions", request)))
    events = daemon.http.stream("/v1/completions", request)
    texts = [next(texts_of(events))]
    pid = worker(daemon)["pid"]
    os.kill(pid, signal.SIGSTOP)
    time.sleep(3)  # the time itself is what is tested
    os.kill(pid, signal.SIGCONT)
    texts += texts_of(events)
    assert "".join(texts) == "".join(expected)
    assert worker(daemon)["pid"] == pid


def test_systemd_hears_of_loading_readiness_and_the_end(start, model, tiny, notify, tmp_path):
    hearing = notify()
    daemon = start({"smollm2": model, "gone": tmp_path / "no-such-file"}, environment=hearing.environment, ready=False)
    hearing.wait_for(lambda m: "loading model 'smollm2'" in m.get("STATUS", ""), "loading")
    hearing.wait_for(lambda m: m.get("READY") == "1", "ready, although one of the models can't be", 60)
    status = [m["STATUS"] for m in hearing.messages + hearing.read(0.5) if "STATUS" in m][-1]
    workers = len(daemon.worker_pids())
    assert status.startswith(f"{workers} of {workers} workers ready; model 'gone' failed: cannot open"), status
    daemon.process.send_signal(signal.SIGTERM)
    hearing.wait_for(lambda m: m.get("STOPPING") == "1", "stopping")
    assert daemon.process.wait(30) == 0
    everything = hearing.messages + hearing.read()
    assert sum(m.get("READY") == "1" for m in everything) == 1
    assert not any("WATCHDOG" in m for m in everything), "nobody asked for it"


def test_the_watchdog_is_answered_only_while_the_front_moves(start, tiny, notify):
    hearing = notify(watchdog_s=2)
    daemon = start({"tiny": tiny}, {"hang_seconds": 60}, environment=hearing.environment)
    assert "watchdog" in daemon.log(), "a watchdog shorter than hang_seconds is warned of"
    begin = time.monotonic()
    for _ in range(4):
        hearing.wait_for(lambda m: m.get("WATCHDOG") == "1", "the watchdog's answer", 2)
    assert time.monotonic() - begin > 2.4, "twice in its time is enough"
    os.kill(daemon.status()["front"]["pid"], signal.SIGSTOP)
    hearing.read(0.5)  # one may have been on its way
    assert not [m for m in hearing.read(3) if "WATCHDOG" in m], "silence while the front stands still"
    os.kill(daemon.status()["front"]["pid"], signal.SIGCONT)
    hearing.wait_for(lambda m: m.get("WATCHDOG") == "1", "the watchdog's answer again", 2)


def test_a_stopped_parent_does_not_answer_the_watchdog_and_blames_nobody_afterwards(start, tiny, notify):
    hearing = notify(watchdog_s=2)
    daemon = start({"tiny": tiny}, {"hang_seconds": 2}, environment=hearing.environment)
    pids = daemon.children()
    for pid in [daemon.process.pid, *pids]:
        os.kill(pid, signal.SIGSTOP)
    hearing.read(0.1)
    assert not hearing.read(4)  # longer than hang_seconds
    for pid in [daemon.process.pid, *pids]:
        os.kill(pid, signal.SIGCONT)
    hearing.wait_for(lambda m: m.get("WATCHDOG") == "1", "the watchdog's answer again", 3)
    assert sorted(daemon.children()) == sorted(pids)
    daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 1}).ok()
