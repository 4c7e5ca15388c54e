"""weightctl plan, held against a daemon that does what was planned, and on a machine that is not there."""

import json
import re
import subprocess
import threading
from pathlib import Path

import pytest

import weightd
from test_operators import unfold

CHUNK = 256  # prefill_chunk
CONTEXT = 8 * CHUNK + 32


def plan(*arguments, **more):
    return subprocess.run([weightd.WEIGHTCTL, "plan", *arguments], capture_output=True, text=True, timeout=300, **more)


def planned(*arguments):
    result = plan(*arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def private_bytes(pid):
    """What a process has for itself: anonymous pages, and page tables."""
    text = Path(f"/proc/{pid}/status").read_text()
    return sum(int(re.search(rf"^{key}:\s+(\d+) kB", text, re.MULTILINE)[1]) * 1024 for key in ("RssAnon", "VmPTE"))


def near(planned_bytes, measured_bytes):
    assert abs(planned_bytes - measured_bytes) <= 0.1 * measured_bytes, (planned_bytes, measured_bytes)


@pytest.mark.skipif(weightd.SANITIZED, reason="a sanitizer's own memory is not planned for")
@pytest.mark.parametrize(
    "settings, n_requests, n_prompt",
    [
        # The worst moment: a long prompt's last chunk, which is a whole one.
        ({}, 1, 8 * CHUNK),
        ({"kv_type": "int8", "huge_pages": "off"}, 1, 8 * CHUNK),
        ({"cpu_level": "avx2"}, 1, 8 * CHUNK),
        ({"prefill_chunk": 32}, 2, 256),  # answers that grow side by side are full together, long after their prompts
    ],
)
def test_a_plan_is_within_a_tenth_of_what_comes(start, model, settings, n_requests, n_prompt):
    daemon = start({"smollm2": model}, settings)
    found = planned("smollm2", "--config", daemon.config, "--context", str(CONTEXT), "--requests", str(n_requests))
    status = daemon.status()
    worker = status["workers"][0]["pid"]
    assert [copy["bytes"] for copy in status["models"][0]["copies"]] == [
        node["copy_bytes"] for node in found["nodes"] if node["copy_bytes"]
    ]
    near(found["worker"]["stays_bytes"], private_bytes(worker))

    # Together they fill the context, but for a page of keys and values or so.
    n_answer = CONTEXT - n_prompt - 8
    body = {"model": "smollm2", "prompt": " word" * n_prompt, "max_tokens": n_answer, "ignore_eos": True, "temperature": 0}
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(daemon.http.post("/v1/completions", body, timeout=600)))
        for _ in range(n_requests)
    ]
    for thread in threads:
        thread.start()
    peak = 0
    for thread in threads:
        while thread.is_alive():
            peak = max(peak, private_bytes(worker))
            thread.join(0.002)
    usage = [answer.ok()["usage"] for answer in answers]
    assert len(usage) == n_requests and all(CONTEXT - 32 < u["total_tokens"] <= CONTEXT for u in usage), usage
    near(found["worker"]["peak_bytes"], peak)
    # What came and went is gone, and planned to be.
    daemon.wait_for(lambda: private_bytes(worker) < 1.1 * found["worker"]["stays_bytes"], "back to what stays")


@pytest.fixture
def machine(tmp_path):
    """Two nodes, one of which has little memory left and some huge pages."""
    root = unfold("2n8c-ht", tmp_path / "root")
    for node, free, pages in (0, 20, 0), (1, 2, 3):
        (root / f"sys/devices/system/node/node{node}/meminfo").write_text(
            f"Node {node} MemTotal: 33554432 kB\nNode {node} MemFree: {free << 20} kB\n"
        )
        pool = root / f"sys/devices/system/node/node{node}/hugepages/hugepages-2048kB"
        pool.mkdir(parents=True)
        (pool / "nr_hugepages").write_text(f"{pages}\n")
        (pool / "free_hugepages").write_text(f"{min(pages, 1)}\n")
    with open(root / "proc/meminfo", "a") as meminfo:
        meminfo.write("Hugepagesize:       2048 kB\n")
    return root


def test_a_plan_for_a_machine_that_is_not_there(machine, model):
    found = planned(model, "--sysroot", machine, "--context", "512", "--requests", "1", "--huge-pages")
    worker, pages = found["worker"], -(-found["copy_bytes"] // (2 << 20))
    assert found["fits"] and found["context_tokens"] == 512 and worker["threads"] == 2
    assert worker["peak_bytes"] == worker["stays_bytes"] + worker["scratch_bytes"] + worker["request_bytes"]
    for node, free, taken in zip(found["nodes"], (20 << 30, 2 << 30), (0, 2)):
        assert node["free_bytes"] == free and node["workers"] == 1 and node["copy_bytes"] == found["copy_bytes"]
        assert node["stays_bytes"] == found["copy_bytes"] + worker["stays_bytes"]
        assert node["peak_bytes"] == found["copy_bytes"] + worker["peak_bytes"]
        assert node["workers_that_fit"] == (free - found["copy_bytes"]) // worker["peak_bytes"]
        assert node["huge_pages"] == pages + taken, "pages that are in use stay beside those for the copy"
    text = plan(model, "--sysroot", machine, "--huge-pages").stdout
    for node, taken in (0, 0), (1, 2):
        file = f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages"
        assert f"\necho {pages + taken} > {file}\n" in text


def transient(worker, requests):
    """What comes and goes of a worker with so many requests, but for keys and values."""
    tables = worker["request_bytes"] - worker["request_bytes"] * 512 // 513
    return worker["scratch_bytes"] + (requests - 1) * worker["further_scratch_bytes"] + requests * tables


def test_keys_and_values_have_a_bound_also_where_the_settings_name_none(machine, model):
    requests, quarter = 32, (32 << 30) // 4
    free, bound = (planned_or_not(machine, model, requests, kv) for kv in ("auto", "1G"))
    for found, most in (free, quarter // 2), (bound, 1 << 30):
        worker = found["worker"]
        pages = -(-found["context_tokens"] // worker["kv_page_tokens"])
        assert requests * pages * worker["kv_page_bytes"] > most, "else there is nothing to bound"
        assert worker["kv_bytes"] == most
        assert worker["peak_bytes"] - worker["stays_bytes"] - transient(worker, requests) == most
        for node in found["nodes"]:
            assert node["workers"] == node["workers_at_home"] == 2 and node["kv_bytes"] == most
            assert node["peak_bytes"] == found["copy_bytes"] + 2 * worker["peak_bytes"]


def planned_or_not(machine, model, requests, kv_bytes):
    settings = ["--set", f"kv_bytes={kv_bytes}", "--set", "workers_per_node=2"]
    result = plan(model, "--sysroot", machine, "--requests", str(requests), *settings, "--json")
    assert result.returncode in (0, 1), result.stderr
    return json.loads(result.stdout)


def test_workers_that_span_nodes_are_counted_once(machine, model, tmp_path):
    config = tmp_path / "weightd.conf"
    config.write_text(f"[model alone]\npath = {model}\n[model together]\npath = {model}\nparallel = tensor\n")
    arguments = ["--config", config, "--sysroot", machine, "--context", "512", "--requests", "1"]
    alone, found = planned("alone", *arguments), planned("together", *arguments)
    worker = found["worker"]
    assert alone["worker"]["nodes"] == 1 and worker["nodes"] == 2
    assert worker["threads"] == 2 * alone["worker"]["threads"], "it computes on the CPUs of both nodes"
    assert worker["page_table_bytes"] > alone["worker"]["page_table_bytes"], "it maps both copies"
    assert [node["workers"] for node in found["nodes"]] == [1, 1]
    assert [node["workers_at_home"] for node in found["nodes"]] == [1, 0]
    home, away = found["nodes"]
    assert home["copy_bytes"] == away["copy_bytes"] == found["copy_bytes"]
    assert away["stays_bytes"] == found["copy_bytes"] and home["stays_bytes"] == found["copy_bytes"] + worker["stays_bytes"]
    both = home["peak_bytes"] + away["peak_bytes"]
    assert abs(both - 2 * found["copy_bytes"] - worker["peak_bytes"]) <= 4, "each byte is on one of the nodes"
    # Each of the two models' workers may have half of a quarter of a node, and the one that spans both has it twice.
    assert alone["worker"]["kv_bytes"] == (32 << 30) // 8 and worker["kv_bytes"] == 2 * (32 << 30) // 8


def test_a_copy_that_is_spread_takes_its_part_of_each_node(machine, model):
    found = planned(model, "--sysroot", machine, "--context", "512", "--requests", "1", "--set", "placement=interleave")
    for node in found["nodes"]:
        assert node["copy_bytes"] == -(-found["copy_bytes"] // 2) and node["workers"] == 1
        assert node["stays_bytes"] == node["copy_bytes"] + found["worker"]["stays_bytes"]


def test_a_plan_that_does_not_fit_says_so(machine, model):
    (machine / "sys/devices/system/node/node1/meminfo").write_text("Node 1 MemTotal: 33554432 kB\nNode 1 MemFree: 204800 kB\n")
    result = plan(model, "--sysroot", machine)
    assert result.returncode == 1
    assert re.search(r"^node 1: [\d.]+ GB are wanted at the worst moment, 210 MB are free", result.stdout, re.MULTILINE)
    assert "node 0:" not in result.stdout


def test_what_cannot_be_planned_is_an_error(tmp_path, model):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    result = plan(tmp_path / "bad.gguf")
    assert result.returncode == 1 and "bad.gguf" in result.stderr and not result.stdout
    result = plan(model, "--set", "numerics=f33")
    assert result.returncode == 1 and "numerics" in result.stderr
    assert plan().returncode == 2
    assert plan(model, "--requests", "0").returncode == 2
