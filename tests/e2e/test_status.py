"""GET /v1/status of the real daemon, against weightctl status and the kernel's own figures."""

import weightd


def test_status_says_what_weightctl_says(daemon):
    def is_told():  # once a second
        return [worker["state"] for worker in daemon.http.get("/v1/status").ok()["workers"]] == ["ready"]

    daemon.wait_for(is_told, "telling of the worker")
    told, theirs = daemon.http.get("/v1/status").ok(), daemon.status()
    [copy], [worker], [model] = told["copies"], told["workers"], told["models"]
    [copy2], [worker2], [model2] = theirs["models"][0]["copies"], theirs["workers"], theirs["models"]
    for key in "node", "generation", "small_bytes", "huge_bytes", "giant_bytes", "pages", "misplaced":
        assert copy[key] == copy2[key], key
    for key in "index", "node", "copy_node", "cpus", "model", "generation", "state", "restarts", "kv_pages":
        assert worker[key] == worker2[key], key
    for key in "name", "architecture", "generation", "context_tokens":
        assert model[key] == model2[key], key
    assert told["health"] == daemon.health()[1]
    weights = copy2["bytes"]
    figures = weightd.smaps_rollup(worker2["pid"])
    assert weights <= worker["shared_bytes"] + 4096 and worker["shared_bytes"] <= figures["RssShmem"] + figures.get("HugetlbPages", 0) + (1 << 20)
    assert 0 < worker["private_bytes"] <= worker["private_peak_bytes"]
    assert told["nodes"][0]["memory_bytes"] > told["nodes"][0]["free_bytes"] > 0


def test_it_is_read_and_nothing_else(daemon):
    assert daemon.http.post("/v1/status", {}).status == 405
    head = daemon.http.request("HEAD", "/v1/status")
    assert (head.status, head.body) == (200, b"") and int(head.headers["Content-Length"]) > 500
