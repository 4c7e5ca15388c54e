"""What operators ask of a machine and of the daemon on it: weightctl doctor, against the real machine, the real daemon and
recorded machines."""

import json
import os
import subprocess

import pytest

import weightd

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
