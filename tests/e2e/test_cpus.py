"""Which CPUs the daemon's threads run on: disjoint while that is possible, never more than it was given. And what it says
when CPUs go away under it."""

import contextlib
import os
import re
import time
from pathlib import Path

import pytest

CPUSETS = Path("/sys/fs/cgroup/cpuset")  # version 1's mount
UNIFIED = Path("/sys/fs/cgroup")


def cpu_set(text):
    cpus = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def thread_cpus(pid):
    """{thread: the CPUs it may run on}"""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("Cpus_allowed_list:"):
                found[int(task.name)] = cpu_set(line.split(":", 1)[1])
    return found


def ask(daemon):
    return daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 8, "temperature": 0}).ok()["choices"]


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_workers_have_cpus_of_their_own_or_say_that_they_do_not(start, tiny, n):
    daemon = start({"tiny": tiny}, {"workers_per_node": n})
    daemon.wait_all_ready()
    workers = daemon.status()["workers"]
    nodes = {worker["node"] for worker in workers}
    assert len(workers) == n * len(nodes) and all(worker["state"] == "ready" for worker in workers)
    taken = {}
    for worker in workers:
        cpus = cpu_set(worker["cpus"])
        threads = thread_cpus(worker["pid"])
        assert all(len(own) == 1 for own in threads.values()), "each thread is bound to one CPU"
        assert sorted(cpu for own in threads.values() for cpu in own) == sorted(cpus), "one thread on each"
        for cpu in cpus:
            taken.setdefault(cpu, []).append(worker["index"])
        if worker["oversubscribed"]:
            assert len(cpus) == 1
    shared = any(len(indices) > 1 for indices in taken.values())
    assert all(worker["oversubscribed"] == shared for worker in workers)
    if n > os.cpu_count():
        assert shared
    assert (b"oversubscribed" in daemon.ctl("status").stdout) == shared
    answers = [ask(daemon) for _ in range(3)]
    assert all(answer == answers[0] for answer in answers)


def cpu_ns(daemon):
    """CPU time of all threads of all its processes; schedstat has it to the nanosecond, where stat has ticks."""
    tasks = (task for pid in daemon.processes() for task in Path(f"/proc/{pid}/task").iterdir())
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


@pytest.mark.parametrize("n", [1, 2 * os.cpu_count()])
def test_idle_processes_take_no_cpu(start, model, n):
    """Nor do those that share a CPU: a waiting thread that spins would take all of one that others compute on. Within two
    ticks of a clock that has a hundred in a second, over two seconds, however many there are."""
    daemon = start({"model": model}, {"workers_per_node": n})
    daemon.wait_all_ready()
    ask(daemon)
    workers = set(daemon.worker_pids())

    def idle_two_seconds():
        before = cpu_ns(daemon)
        time.sleep(2)  # what is observed is that nothing happens
        return cpu_ns(daemon) - before

    # What the calls left behind (scratch that goes back) may be under way at first.
    taken = [idle_two_seconds() for _ in range(2)]
    assert taken[1] < 20_000_000, taken
    assert set(daemon.worker_pids()) == workers


def all_within(daemon, allowed):
    for pid in daemon.processes():
        for thread, cpus in thread_cpus(pid).items():
            assert cpus <= allowed, f"thread {thread} of process {pid} may run on {cpus}"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs to leave one out")
@pytest.mark.parametrize("n", [1, 3])
def test_an_inherited_taskset_is_kept(start, tiny, n):
    last = max(os.sched_getaffinity(0))
    daemon = start({"tiny": tiny}, {"workers_per_node": n}, wrapper=["taskset", "-c", str(last)])
    daemon.wait_all_ready()
    all_within(daemon, {last})
    ask(daemon)
    os.kill(daemon.worker_pids()[0], 9)
    os.kill(daemon.status()["front"]["pid"], 9)
    daemon.wait_all_ready()
    all_within(daemon, {last})
    workers = daemon.status()["workers"]
    assert all(worker["cpus"] == str(last) for worker in workers)
    assert all(worker["oversubscribed"] == (n > 1) for worker in workers)


@contextlib.contextmanager
def cpuset_of(cpus):
    """A control group of these CPUs."""
    base = CPUSETS if (CPUSETS / "cpuset.cpus").exists() else UNIFIED
    group = base / f"weightd-test-{os.getpid()}"
    try:
        if base == UNIFIED:
            (base / "cgroup.subtree_control").write_text("+cpuset")
        group.mkdir()
        (group / "cpuset.cpus").write_text(",".join(map(str, cpus)))
        (group / "cpuset.mems").write_text((base / "cpuset.mems").read_text() if base == CPUSETS else "")
    except OSError as error:
        pytest.skip(f"no cpuset can be made here: {error}")
    yield group
    group.rmdir()


@pytest.fixture
def cpuset():
    """A control group of one CPU: (its cgroup.procs, the CPU)."""
    cpu = max(os.sched_getaffinity(0))
    with cpuset_of([cpu]) as group:
        yield group / "cgroup.procs", cpu


def test_an_inherited_cpuset_is_kept(start, tiny, cpuset):
    procs, cpu = cpuset
    daemon = start({"tiny": tiny}, wrapper=["sh", "-c", f'echo $$ >{procs} && exec "$@"', "sh"])
    all_within(daemon, {cpu})
    ask(daemon)
    for pid in daemon.processes():
        assert str(pid) in procs.read_text().split()
    daemon.stop()


@pytest.fixture
def shrinking():
    """A control group of two CPUs, one of which will be taken away: (the group, the CPU that stays, the other)."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        pytest.skip("needs two CPUs to take one away")
    with cpuset_of(cpus) as group:
        yield group, *cpus


def gone(daemon):
    text = daemon.http.get("/metrics").body.decode()
    return [int(n) for n in re.findall(r"^weightd_worker_cpus_gone{.*} (\d+)$", text, re.MULTILINE)]


def shows_gone(daemon, cpus):
    """Status and metrics, which the front gets a moment later, agree."""
    return [w["cpus_gone"] for w in daemon.status()["workers"]] == cpus and gone(daemon) == [len(c) for c in cpus]


def test_cpus_that_go_away_are_told_and_workers_are_replaced_without_them(start, tiny, shrinking):
    group, stays, goes = shrinking
    inside = ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh"]
    daemon = start({"tiny": tiny}, {"workers_per_node": 2, "io_cpus": stays}, wrapper=inside)
    daemon.wait_all_ready()
    before = ask(daemon)
    assert all(worker["cpus"] == str(goes) for worker in daemon.status()["workers"]), "they compute where the front is not"
    none, lost = ["", ""], [str(goes)] * 2
    daemon.wait_for(lambda: shows_gone(daemon, none), "told that all are there")
    (group / "cpuset.cpus").write_text(str(stays))
    daemon.wait_for(lambda: shows_gone(daemon, lost), "told what is gone")
    said = [line for line in daemon.log().splitlines() if f"of its CPUs {goes} are gone" in line]
    assert len(said) == 2, said
    assert b"gone: %d" % goes in daemon.ctl("status").stdout
    assert ask(daemon) == before
    # A worker that could not be bound to what is not there would die again and again.
    for pid in daemon.worker_pids():
        os.kill(pid, 9)
    daemon.wait_for(lambda: sum(w["restarts"] for w in daemon.status()["workers"]) == 2, "noticed")
    daemon.wait_all_ready()
    all_within(daemon, {stays})
    assert shows_gone(daemon, lost) and ask(daemon) == before
    # They come back with the CPU; a worker that was replaced meanwhile, when it is replaced again.
    (group / "cpuset.cpus").write_text(f"{stays},{goes}")
    for pid in daemon.worker_pids():
        os.kill(pid, 9)
    daemon.wait_for(lambda: shows_gone(daemon, none), "told that they are back")
    assert "all of its CPUs are back" in daemon.log()
    assert ask(daemon) == before
    daemon.stop()


def test_threads_spin_while_their_cpus_are_their_own(start, tiny):
    daemon = start({"tiny": tiny})
    daemon.wait_all_ready()
    body = {"model": "tiny", "prompt": "a", "max_tokens": 8, "temperature": 0}
    before = daemon.http.post("/v1/completions", body).ok()["choices"]
    alone = not daemon.status()["workers"][0]["oversubscribed"]

    def spin(state, n_models):
        workers = daemon.status()["workers"]
        return len({w["model"] for w in workers}) == n_models and all(w["spins"] == state for w in workers)

    daemon.wait_for(lambda: spin(alone, 1), "spinning with CPUs of its own")
    for _ in range(2):  # models come and go
        assert daemon.ctl("load", "other", tiny).returncode == 0
        daemon.wait_for(lambda: spin(False, 2), "told that CPUs are shared")
        assert daemon.http.post("/v1/completions", body).ok()["choices"] == before
        assert daemon.ctl("unload", "other").returncode == 0
        daemon.wait_for(lambda: spin(alone, 1), "told that CPUs are its own again")
        assert daemon.http.post("/v1/completions", body).ok()["choices"] == before
