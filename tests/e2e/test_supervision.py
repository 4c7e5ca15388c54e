"""Processes die and come back; the parent stays and memory goes away with it."""

import os
import pathlib
import pwd
import signal
import time

import pytest


def test_a_killed_worker_is_restarted_and_serves_again(start, tiny):
    daemon = start({"tiny": tiny})
    before = daemon.status()
    pid, digest = before["workers"][0]["pid"], before["models"][0]["digest"]
    os.kill(pid, signal.SIGKILL)
    daemon.wait_for(
        lambda: any(w["pid"] != pid and w["state"] == "ready" for w in daemon.status()["workers"]),
        "served by a new worker",
    )
    after = daemon.status()
    assert sum(worker["restarts"] for worker in after["workers"]) == 1
    assert after["models"][0]["generation"] == before["models"][0]["generation"], "the weights were not loaded again"
    assert after["models"][0]["digest"] == digest
    daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 2}).ok()


def test_calls_of_a_killed_worker_end_with_an_error(start, model):
    daemon = start({"smollm2": model})
    victim = daemon.worker_pids()[0]
    events = daemon.http.stream("/v1/completions", {"prompt": "a", "max_tokens": 100000, "ignore_eos": True})
    next(events)
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(AssertionError, match=r"without \[DONE\]"):
        for event in events:
            last = event
    assert "error" in last


def test_a_killed_front_is_restarted(start, tiny):
    daemon = start({"tiny": tiny})
    front = daemon.status()["front"]["pid"]
    workers = daemon.worker_pids()
    os.kill(front, signal.SIGKILL)
    daemon.wait_for(lambda: daemon.status()["front"]["pid"] not in (0, front), "served by a new front")
    daemon.wait_ready(30)
    daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 2}).ok()
    assert len(daemon.worker_pids()) == len(workers)


def test_children_do_not_outlive_the_parent(start, tiny):
    daemon = start({"tiny": tiny})
    pids = [pid for pid in daemon.processes() if pid != daemon.process.pid]
    assert len(pids) >= 2
    daemon.process.kill()
    daemon.process.wait()
    end = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
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
