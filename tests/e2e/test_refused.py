"""NUMA calls that the kernel, or a filter before it, refuses: the daemon serves, says so, and claims nothing that was not
confirmed; with strict = yes it does not serve."""

import json
import re

import pytest
import weightd

# Of what the daemon uses, how each way of refusing looks from inside.
CALLS = ["mbind", "get_mempolicy", "set_mempolicy", "move_pages"]
ERRORS = ["EPERM", "EINVAL", "ENOSYS"]
OF_COPIES = {"mbind", "get_mempolicy", "move_pages"}  # set_mempolicy is for what workers have to themselves
STRICT = 3


def ask(daemon):
    return daemon.http.post("/v1/completions", {"prompt": "a", "max_tokens": 8, "temperature": 0}).ok()["choices"]


def warnings(daemon):
    return [line for line in daemon.log().splitlines() if "NUMA calls are refused" in line]


def labels(daemon, name):
    """{labels: value} of a metric"""
    text = daemon.http.get("/metrics").body.decode()
    return {found: int(value) for found, value in re.findall(rf"^{name}{{(.*)}} (\d+)$", text, re.MULTILINE)}


def numa_calls(daemon):
    """What weightctl doctor, who is asked outside of the daemon's filter, finds."""
    found = json.loads(daemon.ctl("doctor", "--json").stdout)["findings"]
    return next(finding for finding in found if finding["name"] == "numa_calls")


def expect_verified(daemon):
    status, (code, health) = daemon.status(), daemon.health()
    assert status["placement"] == "verified" and status["refused_calls"] == {}
    assert all(copy["placement"] == "verified" for copy in status["models"][0]["copies"])
    assert code == 200 and health["placement"] == "verified" and "refused_calls" not in health
    assert labels(daemon, "weightd_placement")['placement="verified"'] == 1
    assert labels(daemon, "weightd_numa_refused") == {}
    assert not warnings(daemon)
    assert numa_calls(daemon)["verdict"] == "ok"


def expect_unverified(daemon, calls, error):
    """Status, /health and /metrics agree, and the log has it once."""
    daemon.wait_for(lambda: set(daemon.status()["refused_calls"]) == set(calls), "told all refusals")
    status, (code, health) = daemon.status(), daemon.health()
    assert status["placement"] == "unverified" and set(status["refused_calls"].values()) == {error}
    for copy in status["models"][0]["copies"]:
        assert copy["placement"] == ("unverified" if OF_COPIES & set(calls) else "verified")
        assert copy["misplaced"] == 0
        assert copy["on_node"] == (0 if "move_pages" in calls else copy["pages"])
    assert code == 200 and health["status"] == "ok", "answers do not depend on it"
    assert health["placement"] == "unverified"
    assert all(f"{call} ({error})" in health["refused_calls"] for call in calls)
    assert labels(daemon, "weightd_placement") == {
        'placement="verified"': 0,
        'placement="unverified"': 1,
        'placement="misplaced"': 0,
    }
    assert labels(daemon, "weightd_numa_refused") == {f'call="{call}",error="{error}"': 1 for call in calls}
    verified = 0 if OF_COPIES & set(calls) else 1
    daemon.wait_for(
        lambda: set(labels(daemon, "weightd_weight_placement_verified").values()) == {verified}, "told nodes' placement"
    )
    said = warnings(daemon)
    assert len(said) == 1 and all(f"{call} ({error})" in said[0] for call in calls), said
    people = daemon.ctl("status").stdout.decode()
    assert all(f"{call} ({error})" in people for call in calls)
    # Nothing is refused to who asks, and it is not about him.
    finding = numa_calls(daemon)
    assert finding["verdict"] == "wrong" and finding["found"].startswith("the kernel refuses the daemon"), finding
    assert all(f"{call} ({error})" in finding["found"] for call in calls), finding


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("call", CALLS)
def test_a_refused_call_is_told_once_and_placement_is_unverified(start, tiny, call, error):
    daemon = start({"tiny": tiny}, {"workers_per_node": 2}, wrapper=weightd.refusing(error, call))
    daemon.wait_all_ready()
    expect_unverified(daemon, [call], error)
    ask(daemon)


def test_all_refused_as_in_a_container(start, tiny):
    contained = start({"tiny": tiny}, wrapper=weightd.refusing("EPERM", "migrate_pages", *CALLS))
    expect_unverified(contained, CALLS, "EPERM")
    free = start({"tiny": tiny})
    expect_verified(free)
    assert ask(contained) == ask(free)


def test_a_call_that_nothing_needs_may_be_refused(start, tiny):
    daemon = start({"tiny": tiny}, {"strict": "yes"}, wrapper=weightd.refusing("EPERM", "migrate_pages"))
    expect_verified(daemon)


def test_later_checks_do_not_forget_what_could_not_be_bound(start, tiny):
    daemon = start({"tiny": tiny}, wrapper=weightd.refusing("EPERM", "mbind"))
    for _ in range(2):  # each asks for every page anew
        assert daemon.status()["models"][0]["copies"][0]["placement"] == "unverified"


@pytest.mark.parametrize("call", CALLS)
def test_strict_ends_with_a_status_of_its_own_before_it_serves(start, tiny, call):
    daemon = start({"tiny": tiny}, {"strict": "yes"}, ready=False, wrapper=weightd.refusing("EPERM", call))
    assert daemon.process.wait(60) == STRICT, daemon.log()
    assert re.search(rf"strict = yes, .*{call} \(EPERM\)", daemon.log())
    assert "loading model" not in daemon.log(), "it is known before a byte is read"
    assert not daemon.segments() and not daemon.session()
    daemon.clean()


def test_strict_serves_where_nothing_is_refused(start, tiny):
    daemon = start({"tiny": tiny}, {"strict": "yes"})
    expect_verified(daemon)
    ask(daemon)
