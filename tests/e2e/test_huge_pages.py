"""Weights in pages of 4 KiB, 2 MiB and 1 GiB: what status says is what the kernel says of a worker, and a pool that is too
small is said. Copies in a pool need one: echo 64 >/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"""

import re
import shutil
from pathlib import Path

import pytest

import weightd
from fdstore import Store

NODES = Path("/sys/devices/system/node")
BODY = {"prompt": "a b c", "max_tokens": 12, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
PAGE = 2 << 20


def free_pages(node, size="2048kB"):
    pool = NODES / f"node{node}/hugepages/hugepages-{size}/free_hugepages"
    return int(pool.read_text()) if pool.exists() else 0


def nodes():
    return [int(path.name.removeprefix("node")) for path in NODES.glob("node[0-9]*")]


def by_page_size(pid, inode):
    """Bytes of an object in a process' map: in pages of 4 KiB, 2 MiB and 1 GiB, read from smaps."""
    sizes = {"small_bytes": 0, "huge_bytes": 0, "giant_bytes": 0}
    for line, figures in weightd.mappings(pid):
        if line.split()[4] != str(inode):
            continue
        pool = figures["Shared_Hugetlb"] + figures["Private_Hugetlb"]
        sizes["giant_bytes" if figures["KernelPageSize"] > PAGE else "huge_bytes"] += pool + figures["ShmemPmdMapped"]
        sizes["small_bytes"] += figures["Rss"] - figures["ShmemPmdMapped"]
    return sizes


def inode_of(pid, name):
    """Of the mapping whose path has this in it."""
    found = {line.split()[4] for line, _ in weightd.mappings(pid) if name in line}
    assert len(found) == 1, found
    return int(found.pop())


def figures(copy):
    return {size: copy[size] for size in ("small_bytes", "huge_bytes", "giant_bytes")}


@pytest.mark.parametrize("backing", ["shm", "memfd"])
@pytest.mark.parametrize("huge_pages", ["off", "try"])
def test_status_says_what_a_worker_reads_from(start, model, backing, huge_pages):
    daemon = start({"smollm2": model}, {"backing": backing, "huge_pages": huge_pages})
    daemon.wait_all_ready()
    status = daemon.status()
    for copy in status["models"][0]["copies"]:
        assert sum(figures(copy).values()) == copy["bytes"]
        if huge_pages == "off":
            assert copy["small_bytes"] == copy["bytes"]
        for worker in status["workers"]:
            if worker["copy_node"] == copy["node"]:
                inode = inode_of(worker["pid"], f"weightd.{daemon.instance}.smollm2.g1.n{copy['node']}")
                assert by_page_size(worker["pid"], inode) == figures(copy)


def test_the_table_has_a_column_for_each_size(start, tiny):
    daemon = start({"tiny": tiny}, {"huge_pages": "off"})
    lines = daemon.ctl("status").stdout.decode().splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("COPY OF"))
    names, cells = (re.split(r"  +", line.strip()) for line in lines[head : head + 2])
    cells = dict(zip(names, cells))
    assert cells["4K"] == cells["SIZE"] and cells["2M"] == cells["1G"] == "0 B"


def needs_an_empty_pool():
    if any(free_pages(node, "1048576kB") for node in nodes()):
        pytest.skip("this machine has free pages of 1 GiB")


def test_without_a_pool_a_memfd_takes_its_place(start, tiny):
    needs_an_empty_pool()
    daemon = start({"tiny": tiny}, {"backing": "hugetlb-1g"})
    model = daemon.status()["models"][0]
    assert model["backing"] == "memfd" and model["restart"] == "reload"
    assert "a node's pool of huge pages is too small for its copies" in daemon.log()
    assert daemon.http.post("/v1/completions", BODY).ok()["usage"]["completion_tokens"] == 12


def test_where_huge_pages_must_be_a_small_pool_is_an_error(start, tiny):
    needs_an_empty_pool()
    daemon = start({"tiny": tiny}, {"backing": "hugetlb-1g", "huge_pages": "on"}, ready=False)
    assert daemon.process.wait(60) == 1
    assert "'s pool has 0 free pages of 1 GiB, its copy of tiny needs 1: enlarge it" in daemon.log()
    assert "hugepages-1048576kB/nr_hugepages" in daemon.log()
    daemon.log_file.close()
    shutil.rmtree(daemon.directory)  # it is gone, as it should be: nothing to stop


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path)
    yield made
    made.close()
    assert not made.refused, "systemd would not have taken that"


def test_copies_in_a_pool(start, tiny, store):
    if any(free_pages(node) < 24 for node in nodes()):
        pytest.skip("a node has less than 24 free pages of 2 MiB in its pool")
    before = {node: free_pages(node) for node in nodes()}
    reference = start({"tiny": tiny})
    expected = reference.http.post("/v1/completions", BODY).ok()["choices"]
    settings = {"backing": "hugetlb", "huge_pages": "on", "instance": "pool-test", "keep_weights": "yes"}
    daemon = store.start(start, {"tiny": tiny}, settings)
    daemon.wait_all_ready()
    status = daemon.status()
    model = status["models"][0]
    assert model["backing"] == "hugetlb" and model["restart"] == "fdstore" and not model["adopted"]
    for copy in model["copies"]:
        assert figures(copy) == {"small_bytes": 0, "huge_bytes": copy["bytes"], "giant_bytes": 0}
        assert copy["bytes"] % PAGE == 0 and copy["placement"] == "verified"
        assert free_pages(copy["node"]) == before[copy["node"]] - copy["bytes"] // PAGE
        for worker in status["workers"]:
            if worker["copy_node"] == copy["node"]:
                inode = inode_of(worker["pid"], f"weightd.pool-test.tiny.g1.n{copy['node']}")
                assert by_page_size(worker["pid"], inode) == figures(copy)
    assert daemon.http.post("/v1/completions", BODY).ok()["choices"] == expected
    store.wait_for(lambda: len(store.held) == len(model["copies"]), "every copy in the service manager's store")
    daemon.stop()
    daemon = store.start(start, {"tiny": tiny}, settings)
    daemon.wait_all_ready()
    again = daemon.status()["models"][0]
    assert again["adopted"] and again["backing"] == "hugetlb" and again["digest"] == model["digest"]
    assert daemon.http.post("/v1/completions", BODY).ok()["choices"] == expected
    daemon.stop()
    for name in {name for name, _ in store.held}:
        store.drop(name)
    assert {node: free_pages(node) for node in nodes()} == before
