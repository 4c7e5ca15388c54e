"""Placement while the daemon runs. Where pages really move is the guest's part (tests/guest): one node shows no mistake."""

import json


def test_copies_are_sampled(start, tiny):
    daemon = start({"tiny": tiny}, {"verify_seconds": 1})

    def sampled():
        lines = daemon.http.get("/metrics").body.decode().splitlines()
        return any(line.startswith("weightd_weight_sampled_pages_total ") and not line.endswith(" 0") for line in lines)

    daemon.wait_for(sampled, "sampled", 30)
    (copy,) = daemon.status()["models"][0]["copies"]
    assert copy["state"] == "good" and 0 < copy["sampled_pages"] <= copy["pages"] and copy["sampled_misplaced"] == 0
    assert daemon.health()[1]["status"] == "ok"


def test_verify_counts_and_has_nothing_to_repair(start, tiny):
    daemon = start({"tiny": tiny}, {"verify_seconds": 0})
    before = daemon.status()["models"][0]
    for options in ((), ("--repair",)):
        result = daemon.ctl("verify", *options)
        assert result.returncode == 0 and b"verified" in result.stdout, result.stderr
        (copy,) = json.loads(daemon.ctl("verify", "--json", *options).stdout)["copies"]
        assert copy["of"] == "tiny" and copy["state"] == "good" and copy["on_node"] == copy["pages"] > 0
        assert "sampled_pages" not in copy  # it is counted, and samples are off
    after = daemon.status()["models"][0]
    assert after["generation"] == before["generation"] and after["copies"][0]["segment"] == before["copies"][0]["segment"]
