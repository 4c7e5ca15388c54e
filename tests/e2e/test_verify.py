"""Placement while the daemon runs. Where pages really move is the guest's part (tests/guest): one node shows no mistake."""


def test_copies_are_sampled(start, tiny):
    daemon = start({"tiny": tiny}, {"verify_seconds": 1})

    def sampled():
        lines = daemon.http.get("/metrics").body.decode().splitlines()
        return any(line.startswith("weightd_weight_sampled_pages_total ") and not line.endswith(" 0") for line in lines)

    daemon.wait_for(sampled, "sampled", 30)
    (copy,) = daemon.status()["models"][0]["copies"]
    assert copy["state"] == "good" and 0 < copy["sampled_pages"] <= copy["pages"] and copy["sampled_misplaced"] == 0
    assert daemon.health()[1]["status"] == "ok"
