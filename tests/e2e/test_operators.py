"""What operators ask of a machine and of the daemon on it (weightctl doctor, numastat, top), against the real machine, the real
daemon and recorded machines."""

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest

import weightd
from control import Control

FINDINGS = {
    "dev_shm",
    "memlock",
    "memory_limit",
    "huge_pages",
    "hugetlb_pools",
    "io_uring",
    "numa_balancing",
    "numa_calls",
    "cpuset",
    "smt",
    "governor",
}


def unfold(name, root):
    """A .tree file of tests/numa as a directory of kernel files (tests/numa/tree.c says how they are written)."""
    for line in (weightd.TOP / f"tests/numa/{name}.tree").read_text().splitlines():
        if not line.startswith("#"):
            path, _, text = line.partition(" ")
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            with open(root / path, "a") as file:
                file.write(text + "\n")
    return root


@pytest.fixture
def machine(tmp_path):
    """A recorded machine with nothing wrong, and settings without models."""
    root = unfold("doctor-well", tmp_path / "root")
    (tmp_path / "weightd.conf").write_text(f"[weightd]\nmodel_dir = {tmp_path}\n")
    return root


def doctor(root, *arguments):
    command = [weightd.WEIGHTCTL, "doctor", "--config", root.parent / "weightd.conf", "--sysroot", root, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_doctor_finds_nothing_on_a_good_machine(machine):
    result = doctor(machine)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Nothing is wrong." in result.stdout and "->" not in result.stdout
    found = json.loads(doctor(machine, "--json").stdout)
    assert found["wrong"] == 0
    assert {finding["name"] for finding in found["findings"]} == FINDINGS
    assert all(finding["verdict"] == "ok" and "remedy" not in finding for finding in found["findings"])


def test_doctor_names_the_remedy_and_exits_with_1(machine):
    (machine / "proc/sys/kernel/numa_balancing").write_text("1\n")
    (machine / "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor").write_text("ondemand\n")
    result = doctor(machine)
    assert result.returncode == 1
    assert "WRONG  numa_balancing" in result.stdout and "-> sysctl -w kernel.numa_balancing=0" in result.stdout
    assert "2 of 11 findings are wrong." in result.stdout
    result = doctor(machine, "--json")
    assert result.returncode == 1
    wrong = [finding for finding in json.loads(result.stdout)["findings"] if finding["verdict"] == "wrong"]
    assert {finding["name"] for finding in wrong} == {"numa_balancing", "governor"}
    assert all(finding["remedy"] for finding in wrong)


def test_doctor_measures_the_models_of_the_settings(machine, model):
    conf = machine.parent / "weightd.conf"
    conf.write_text(conf.read_text() + f"[model m]\npath = {model}\n")
    mounts = machine / "proc/self/mountinfo"
    mounts.write_text(mounts.read_text().replace("size=8388608k", "size=131072k"))  # one copy fits, two do not
    result = doctor(machine)
    assert result.returncode == 1
    assert "134 MB; the models' copies take about 197 MB on 2 nodes" in result.stdout


def test_doctor_asks_the_daemon(daemon):
    status = daemon.status()
    result = daemon.ctl("doctor", "--json")
    found = {finding["name"]: finding for finding in json.loads(result.stdout)["findings"]}
    assert set(found) == FINDINGS
    locked = all(worker["locked"] for worker in status["workers"])
    assert found["memlock"]["verdict"] == ("ok" if locked else "wrong"), found["memlock"]
    placed = all(copy["placement"] == "verified" for m in status["models"] for copy in m["copies"])
    assert found["numa_calls"]["verdict"] == ("ok" if placed else "wrong"), found["numa_calls"]
    assert not placed or "every page of the daemon's" in found["numa_calls"]["found"]
    wrong = sum(finding["verdict"] == "wrong" for finding in found.values())
    assert result.returncode == (1 if wrong else 0)


def test_doctor_tells_of_a_daemon_that_may_not_lock(start, tiny):
    unprivileged = ["setpriv", "--bounding-set=-ipc_lock"] if os.geteuid() == 0 else []
    daemon = start({"tiny": tiny}, wrapper=["prlimit", "--memlock=65536:65536", *unprivileged])
    finding = next(f for f in json.loads(daemon.ctl("doctor", "--json").stdout)["findings"] if f["name"] == "memlock")
    unlocked = [worker for worker in daemon.status()["workers"] if not worker["locked"]]
    assert unlocked, "the limit was to keep the worker from locking"
    assert finding["verdict"] == "wrong" and "LimitMEMLOCK=infinity" in finding["remedy"]


MIB = 1048576


def numa_maps(pid):
    """Bytes of all mappings, and of those of named copies."""
    everything = copies = 0
    for line in Path(f"/proc/{pid}/numa_maps").read_text().splitlines():
        words = dict(word.partition("=")[::2] for word in line.split()[2:])
        pages = sum(int(count) for word, count in words.items() if re.fullmatch(r"N\d+", word))
        size = pages * int(words.get("kernelpagesize_kB", 0)) * 1024
        everything += size
        copies += size * words.get("file", "").startswith("/dev/shm/weightd.")
    return everything, copies


def test_numastat_counts_what_the_kernel_counts(daemon):
    found = json.loads(daemon.ctl("numastat", "--json").stdout)
    status = daemon.status()
    assert {process["pid"] for process in found["processes"]} == {
        status["pid"],
        status["front"]["pid"],
        *(worker["pid"] for worker in status["workers"]),
    }
    for process in found["processes"]:
        own = sum(sum(process[kind]) for kind in ("huge", "heap", "stack", "private"))
        everything, copies = numa_maps(process["pid"])
        assert abs(own + sum(process["copies"]) - everything) < MIB // 2, process
        assert sum(process["copies"]) == copies, process
    sizes = {copy["segment"]: copy["bytes"] for model in status["models"] for copy in model["copies"]}
    assert {copy["segment"]: sum(copy["bytes"]) for copy in found["copies"]} == sizes
    assert all(copy["mappings"] for copy in found["copies"])


def test_numastat_knows_copies_without_a_name(start, tiny):
    daemon = start({"tiny": tiny}, {"backing": "memfd"})
    found = json.loads(daemon.ctl("numastat", "--json").stdout)
    copies = daemon.status()["models"][0]["copies"]
    assert [sum(copy["bytes"]) for copy in found["copies"]] == [copy["bytes"] for copy in copies]
    assert all(copy["mappings"] for copy in found["copies"])


def test_numastat_agrees_with_numastat(daemon):
    if not shutil.which("numastat"):
        pytest.skip("numastat is not installed")
    found = json.loads(daemon.ctl("numastat", "--json").stdout)
    worker = next(process for process in found["processes"] if process["role"].startswith("worker 0"))
    table = subprocess.run(["numastat", "-p", str(worker["pid"])], capture_output=True, text=True, check=True).stdout
    theirs = {row[0]: float(row[-1]) for line in table.splitlines() if (row := line.split()) and row[0] != "Per-node"
              and re.fullmatch(r"[\d.]+", row[-1])}
    for kind in ("Huge", "Heap", "Stack"):
        assert abs(sum(worker[kind.lower()]) / MIB - theirs[kind]) < 0.25, (kind, worker, table)
    assert abs((sum(worker["private"]) + sum(worker["copies"])) / MIB - theirs["Private"]) < 0.25, (worker, table)


def test_numastat_for_people_on_two_nodes(machine):
    """A machine and a daemon that are not there: files of the kernel, and a socket that answers."""
    for node, free in (0, 3072), (1, 5120):
        (machine / f"sys/devices/system/node/node{node}/meminfo").write_text(
            f"Node {node} MemTotal:       8388608 kB\nNode {node} MemFree:        {free * 1024} kB\n"
            f"Node {node} HugePages_Total:     {node}\n")
    with open(machine / "proc/meminfo", "a") as meminfo:
        meminfo.write("Hugepagesize:       2048 kB\n")
    for pid, node in (11, 0), (12, 1):
        (machine / f"proc/{pid}").mkdir()
        (machine / f"proc/{pid}/numa_maps").write_text(
            f"5500 prefer:{node} heap anon=256 N{node}=256 kernelpagesize_kB=4\n"
            f"7f00 bind:{node} file=/dev/shm/weightd.x.m.g1.n{node} dirty=2560 N{node}=2560 kernelpagesize_kB=4\n")
    answer = {
        "parent": {"pid": 9},  # it is gone
        "front": {"pid": 0},  # and this one not there yet
        "workers": [{"pid": 11, "index": 0, "model": "m"}, {"pid": 12, "index": 1, "model": "m"}],
        "models": [{"copies": [{"segment": f"/weightd.x.m.g1.n{node}"} for node in (0, 1, 2)]}],
    }
    socket = machine.parent / "control"
    control = Control(socket, json.dumps(answer).encode())
    ask = [weightd.WEIGHTCTL, "numastat", "--control", socket, "--sysroot", machine]
    result = subprocess.run(ask, capture_output=True, text=True, timeout=60)
    control.listener.close()
    assert result.returncode == 0, result.stderr
    assert control.lines == ["overview\n"]
    rows = [re.split(r"\s{2,}", line.strip()) for line in result.stdout.splitlines()]
    for row in (
        ["MemTotal", "8192.00", "8192.00", "16384.00"],
        ["MemFree", "3072.00", "5120.00", "8192.00"],
        ["HugePages_Total", "0.00", "2.00", "2.00"],
        ["11 (worker 0, m)", "1.00", "0.00", "1.00"],
        ["12 (worker 1, m)", "0.00", "1.00", "1.00"],
        ["/weightd.x.m.g1.n0", "10.00", "0.00", "10.00"],
        ["/weightd.x.m.g1.n1", "0.00", "10.00", "10.00"],
        ["/weightd.x.m.g1.n2 (not mapped)", "0.00", "0.00", "0.00"],
        ["Processes and copies", "11.00", "11.00", "22.00"],
    ):
        assert row in rows, f"{row} is not in\n{result.stdout}"


def test_numastat_without_a_daemon(machine):
    ask = [weightd.WEIGHTCTL, "numastat", "--control", machine.parent / "nobody"]
    assert subprocess.run(ask, capture_output=True, timeout=60).returncode == 3


def worker(index, pid, node, generated, prompt, **more):
    return {"index": index, "pid": pid, "node": node, "model": "m", "state": "ready", "generated_tokens": generated,
            "prompt_tokens": prompt, "running": 2, "waiting": 1, "restarts": 0, **more}


def overview(*workers):
    return json.dumps({"state": "ready", "instance": "x", "private_bytes_total": 5_000_000, "workers": workers}).encode()


def top(tmp_path, looks, *arguments):
    control = Control(tmp_path / "control", looks)
    result = subprocess.run([weightd.WEIGHTCTL, "top", "--control", tmp_path / "control", *arguments],
                            capture_output=True, text=True, timeout=60)
    control.listener.close()
    assert set(control.lines) == {"overview\n"}
    return result


LOOKS = [
    overview(worker(0, os.getpid(), 3, 100, 1000), worker(1, 1, 1, 50, 0), worker(2, 2**22 + 1, 3, 70, 7)),
    # The second one was replaced, the third one is gone.
    overview(worker(0, os.getpid(), 3, 160, 3000), worker(1, 2, 1, 20, 10, restarts=1), worker(2, 0, 3, 0, 0)),
]


def test_top_tells_what_came_between_two_looks(tmp_path):
    result = top(tmp_path, LOOKS, "--once", "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    seconds = found["seconds"]
    assert seconds >= 1
    counted = [(round(w["tokens_per_second"] * seconds), round(w["prompt_tokens_per_second"] * seconds))
               for w in found["workers"]]
    assert counted == [(60, 2000), (20, 10), (0, 0)], "a new process has counted from 0 on"
    assert [(n["node"], n["workers"], n["running"], n["waiting"], round(n["tokens_per_second"] * seconds))
            for n in found["nodes"]] == [(1, 1, 2, 1, 20), (3, 2, 4, 2, 60)]
    assert round(found["tokens_per_second"] * seconds) == 80 and found["running"] == 6 and found["waiting"] == 3


def test_top_for_people(tmp_path):
    result = top(tmp_path, LOOKS, "--once")
    assert result.returncode == 0, result.stderr
    assert "instance x: ready; 6 running, 3 waiting;" in result.stdout and "private memory 5.0 MB" in result.stdout
    assert "\x1b" not in result.stdout
    assert len([line for line in result.stdout.splitlines() if re.match(r"\s*[012] +\d+ +[13] +m ", line)]) == 3


def test_top_goes_on_until_it_is_interrupted(tmp_path):
    control = Control(tmp_path / "control", LOOKS)
    command = [weightd.WEIGHTCTL, "top", "--json", "--control", tmp_path / "control"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(2):
            assert json.loads(process.stdout.readline())["instance"] == "x"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    control.listener.close()


def test_top_sees_a_daemon_at_work(daemon):
    """A call that goes on for longer than the look, and the same tokens on its node."""
    answer = threading.Thread(target=daemon.http.post, args=("/v1/completions", {
        "model": "smollm2", "prompt": "Once", "max_tokens": 4000, "ignore_eos": True}))
    answer.start()
    daemon.wait_for(lambda: daemon.status()["workers"][0]["running"] == 1, "running")
    found = json.loads(daemon.ctl("top", "--once", "--json").stdout)
    assert found["state"] == "ready" and found["tokens_per_second"] > 0 and found["cpus"] > 0, found
    assert found["tokens_per_second"] == pytest.approx(sum(n["tokens_per_second"] for n in found["nodes"]))
    answer.join()


def test_top_without_a_daemon(tmp_path):
    ask = [weightd.WEIGHTCTL, "top", "--once", "--control", tmp_path / "nobody"]
    assert subprocess.run(ask, capture_output=True, timeout=60).returncode == 3
