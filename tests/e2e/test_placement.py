"""numactl's words and the plan: what the daemon's processes may use is what was said, and what cannot be had is refused
before anything is loaded. On a machine with one node; tests/guest has the others."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import weightd
from test_cpus import cpu_set, thread_cpus


def plan(*arguments, wrapper=()):
    return subprocess.run(
        [*wrapper, weightd.WEIGHTD, "--config", "/dev/null", "--plan", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
    )


def given_cpus():
    """What this process may use, and so the daemon."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return sorted(cpu_set(line.split(":", 1)[1]))
    raise AssertionError("no affinity")


def ask(daemon):
    return daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 8, "temperature": 0}).ok()["choices"]



def test_every_process_keeps_to_the_cpus_it_was_given(start, tiny):
    last = given_cpus()[-1]
    daemon = start({"tiny": tiny}, {"physcpubind": last})
    daemon.wait_all_ready()
    assert [cpu_set(worker["cpus"]) for worker in daemon.status()["workers"]] == [{last}]
    for pid in daemon.processes():
        assert set().union(*thread_cpus(pid).values()) == {last}
    assert ask(daemon)


def test_relative_and_inverse_lists_count_what_was_given():
    cpus = given_cpus()
    last = cpus[-1]
    assert f"on CPU {last}," in plan("--physcpubind=+0", wrapper=["taskset", "-c", str(last)]).stdout
    if len(cpus) > 1:
        assert f"on CPU {last}," in plan("-C", "!" + ",".join(map(str, cpus[:-1]))).stdout
        refused = plan("-C", str(cpus[0]), wrapper=["taskset", "-c", str(last)])
        assert refused.returncode == 1 and f"physcpubind: '{cpus[0]}'" in refused.stderr
        assert f"possible: {last}" in refused.stderr


@pytest.mark.parametrize("settings", [{"placement": "one"}, {"placement": "socket"}, {"placement": "interleave"}, {"interleave": "all"}, {"placement": "all"}, {"membind": "+0"}, {"preferred": "+0"},
                                      {"cpunodebind": "all"}, {"localalloc": "yes"}, {"strict": "yes"}])
def test_the_same_answer_wherever_the_copy_is(start, tiny, settings):
    want = ask(start({"tiny": tiny}, {}))
    daemon = start({"tiny": tiny}, settings)
    assert ask(daemon) == want
    daemon.wait_all_ready()
    model = daemon.status()["models"][0]
    assert [copy["placement"] for copy in model["copies"]] == ["verified"] * len(model["copies"])


def test_membind_is_the_memory_policy_of_every_process(start, tiny):
    """Of memory without a policy of its own, as a heap is, numa_maps shows that of the process."""

    def heap_policies(settings):
        daemon = start({"tiny": tiny}, settings)
        daemon.wait_all_ready()
        maps = {pid: Path(f"/proc/{pid}/numa_maps").read_text().splitlines() for pid in daemon.processes()}
        return [next(line.split()[1] for line in lines if " heap" in line) for lines in maps.values()]

    assert not any(policy.startswith("bind:") for policy in heap_policies({}))
    policies = heap_policies({"membind": "+0"})
    assert len(policies) >= 3 and all(policy.startswith("bind:") for policy in policies)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--cpunodebind=4095"], "cpunodebind: '4095': 4095 is not there or not allowed; possible: "),
        (["--membind=!all"], "membind: '!all': that leaves none"),
        (["--preferred=4095"], "preferred: '4095': 4095 is not there"),
        (["--placement=0,4095"], "placement: '0,4095': 4095 is not there"),
        (["--placement=near"], "placement: 'near' is not understood; allowed: "),
        (["-l", "-m", "0"], "localalloc: not together with membind: memory has one policy"),
    ],
)
def test_what_cannot_be_had_is_refused_by_its_key(arguments, words):
    result = plan(*arguments)
    assert result.returncode in (1, 2) and words in result.stderr and not result.stdout
    assert len(result.stderr.splitlines()) == 1


def test_flags_are_keys():
    printed = subprocess.run(
        [weightd.WEIGHTD, "--config", "/dev/null", "--print-config", "-N", "0", "--physcpubind=0-3", "-p1", "--strict"],
        capture_output=True, text=True, timeout=30,
    ).stdout
    for line in ("cpunodebind = 0", "physcpubind = 0-3", "preferred = 1", "strict = yes", "localalloc = no"):
        assert f"\n{line}\n" in printed


def test_a_model_that_does_not_fit_is_refused_before_it_is_read(tmp_path):
    """A file of holes, twice as large as the machine's memory: nothing of its weights is read, and all figures are named."""
    machine = {key: int(rest.split()[0]) for key, rest in
               (line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())}
    model = tmp_path / "huge.gguf"
    subprocess.run(
        [sys.executable, weightd.TOP / "tests/tools/tiny_gguf.py", "--holes", "--type", "F32", "--dim", "8192",
         "--heads", "64", "--layers", "64", "--pad-mib", str(2 * machine["MemTotal"] >> 10), model],
        check=True,
        timeout=60,
    )
    daemon = weightd.Daemon({"huge": model}, {"placement": "node"})
    try:
        assert daemon.process.wait(30) == 1
        told = re.search(r"(\d+) MiB free are needed on a node: node \d+ has (\d+) MiB(.*)", daemon.log())
        assert told, daemon.log()
        assert int(told[1]) > machine["MemTotal"] >> 10 and int(told[2]) <= machine["MemTotal"] >> 10
        assert "would fit" in told[3]
        assert model.stat().st_blocks * 512 < 1 << 20 and not daemon.segments()
    finally:
        daemon.clean()
