"""/metrics as those read it who scrape it: parsed by Prometheus' own client library, held against what was asked of the
daemon, and against the dashboards and rules that are shipped."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import prometheus_client.parser
import pytest
import weightd
import yaml

PROMPT = {"prompt": "The sky is", "temperature": 0, "ignore_eos": True}
OWN = re.compile(r"\bweightd_[a-z0-9_]+")
NODES = Path("/sys/devices/system/node")
KINDS = {"counter", "gauge", "histogram"}
DASHBOARD = weightd.TOP / "conf/grafana/weightd.json"
SCRAPE = weightd.TOP / "conf/prometheus/prometheus.yml"
RULES = weightd.TOP / "conf/prometheus/weightd.rules.yml"
RULES_TEST = weightd.TOP / "conf/prometheus/weightd.rules.test.yml"


def scrape(daemon):
    answer = daemon.http.get("/metrics")
    assert answer.status == 200
    return answer.headers["Content-Type"], answer.body.decode()


def samples(text):
    """{(name, labels): value}; no series may come twice."""
    found = {}
    for family in prometheus_client.parser.text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"{key} comes twice"
            found[key] = sample.value
    return found


def total(values, name, **labels):
    """The sum of a family's samples that have these labels."""
    parts = [
        value for (found, has), value in values.items() if found == name and set(labels.items()) <= set(dict(has).items())
    ]
    assert parts, f"there is no {name} {labels}"
    return sum(parts)


@pytest.fixture(scope="module")
def busy(model):
    """A daemon of our own, so that counts are exact, with two models, so that sums and labels differ."""
    with weightd.running({"smollm2": model, "other": model}, {"prefix_cache_bytes": "16M"}) as running:
        running.wait_all_ready()
        yield running


def test_the_format_is_what_prometheus_reads(busy):
    busy.http.post("/v1/completions", {**PROMPT, "max_tokens": 4}).ok()
    kind, text = scrape(busy)
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    assert "# EOF" not in text, "that would be OpenMetrics, which has other rules"
    assert text.endswith("\n") and "\n\n" not in text
    described, typed, current = set(), {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, words = line[7:].split(" ", 1)
            assert name not in described and words.strip(), line
            described.add(name)
        elif line.startswith("# TYPE "):
            current, sort = line[7:].split(" ")
            assert current in described and current not in typed and sort in KINDS, line
            typed[current] = sort
            assert (sort == "counter") == current.endswith("_total"), line
        else:
            name = re.match(r"[a-zA-Z_:][a-zA-Z0-9_:]*", line)[0]
            base = re.sub(r"_(bucket|sum|count)$", "", name) if typed[current] == "histogram" else name
            assert base == current, f"{line} stands among the samples of {current}"
    assert described == set(typed)
    values = samples(text)
    assert all(value >= 0 for value in values.values())
    histograms = [name for name, sort in typed.items() if sort == "histogram"]
    assert len(histograms) >= 8
    for name in histograms:
        check_histogram(values, name)


def check_histogram(values, name):
    series = {}
    for (found, labels), value in values.items():
        if found == name + "_bucket":
            labels = dict(labels)
            series.setdefault(frozenset((k, v) for k, v in labels.items() if k != "le"), {})[float(labels["le"])] = value
    assert series, name
    for labels, buckets in series.items():
        counts = [buckets[bound] for bound in sorted(buckets)]
        assert counts == sorted(counts) and max(buckets) == float("inf"), (name, counts)
        assert values[(name + "_count", labels)] == counts[-1], name
        assert (values[(name + "_sum", labels)] > 0) <= (counts[-1] > 0), name


def test_counters_only_grow_and_say_what_was_done(busy):
    before = samples(scrape(busy)[1])
    usage = []
    for stream in range(3):
        answer = busy.http.post("/v1/completions", {**PROMPT, "model": "other", "max_tokens": 5 + stream, "seed": stream})
        usage.append(answer.ok()["usage"])
    list(busy.http.stream("/v1/completions", {**PROMPT, "model": "other", "max_tokens": 9}))
    busy.http.post("/v1/completions", {**PROMPT, "model": "other", "max_tokens": -1}).error(400)
    after = samples(scrape(busy)[1])
    for key, value in before.items():
        if key[0].endswith(("_total", "_bucket", "_count", "_sum")):
            assert after[key] >= value, key

    def grown(name, **labels):
        return total(after, name, **labels) - total(before, name, **labels)

    prompts = sum(part["prompt_tokens"] for part in usage) + usage[0]["prompt_tokens"]
    answers = sum(part["completion_tokens"] for part in usage) + 9
    assert answers == 5 + 6 + 7 + 9
    assert grown("weightd_prompt_tokens_total", model="other") == prompts
    assert grown("weightd_generated_tokens_total", model="other") == answers
    assert grown("weightd_generated_tokens_total", model="smollm2") == 0
    assert grown("weightd_calls_ended_total", model="other", reason="length") == 4
    assert grown("weightd_calls_ended_total", model="other", reason="error") == 0
    for name in ("queue", "prefill", "time_to_first_token", "decode", "request_duration"):
        assert grown(f"weightd_{name}_seconds_count", model="other") == 4, name
        assert grown(f"weightd_{name}_seconds_sum", model="other") > 0, name
    assert grown("weightd_inter_token_seconds_count", model="other") == answers - 4
    assert grown("weightd_call_generated_tokens_sum", model="other") == answers
    assert grown("weightd_requests_total", path="/v1/completions", code="200") == 4
    # the parts of a request are no more than the whole
    parts = sum(grown(f"weightd_{name}_seconds_sum", model="other") for name in ("queue", "prefill", "decode"))
    assert 0 < parts <= grown("weightd_request_duration_seconds_sum", model="other")


def test_the_other_names_have_the_same_values(busy):
    busy.http.post("/v1/completions", {**PROMPT, "max_tokens": 3}).ok()
    values = samples(scrape(busy)[1])
    vllm = {
        "vllm:prompt_tokens_total": "weightd_prompt_tokens_total",
        "vllm:generation_tokens_total": "weightd_generated_tokens_total",
        "vllm:time_to_first_token_seconds_count": "weightd_time_to_first_token_seconds_count",
        "vllm:inter_token_latency_seconds_sum": "weightd_inter_token_seconds_sum",
        "vllm:time_per_output_token_seconds_sum": "weightd_inter_token_seconds_sum",
        "vllm:e2e_request_latency_seconds_sum": "weightd_request_duration_seconds_sum",
        "vllm:request_queue_time_seconds_sum": "weightd_queue_seconds_sum",
        "vllm:request_generation_tokens_sum": "weightd_call_generated_tokens_sum",
    }
    for alias, own in vllm.items():
        for name in ("smollm2", "other"):
            assert total(values, alias, model_name=name, engine="0") == total(values, own, model=name), alias
    assert total(values, "vllm:request_success_total", model_name="smollm2", finished_reason="length") > 0
    assert 0 <= total(values, "vllm:kv_cache_usage_perc", model_name="smollm2") <= 1
    assert total(values, "llamacpp:prompt_tokens_total") == total(values, "weightd_prompt_tokens_total")
    assert total(values, "llamacpp:tokens_predicted_total") == total(values, "weightd_generated_tokens_total")
    assert total(values, "llamacpp:requests_processing") == 0
    assert total(values, "llamacpp:predicted_tokens_seconds") > 0


def test_a_running_answer_shows_before_it_ends(busy):
    def running():
        values = samples(scrape(busy)[1])
        return total(values, "vllm:num_requests_running", model_name="smollm2")

    before = samples(scrape(busy)[1])
    events = busy.http.stream("/v1/completions", {**PROMPT, "max_tokens": 1500})
    for _ in range(5):
        next(events)
    busy.wait_for(lambda: running() == 1, "shown as running")
    values = samples(scrape(busy)[1])
    name = "weightd_generated_tokens_total"
    assert total(values, name, model="smollm2") >= total(before, name, model="smollm2") + 4
    events.close()
    busy.wait_for(lambda: running() == 0, "rid of the client that left")
    ended = ("weightd_calls_ended_total", {"model": "smollm2", "reason": "abort"})
    busy.wait_for(lambda: total(samples(scrape(busy)[1]), ended[0], **ended[1]) >= 1, "counted as aborted")


def test_memory_and_placement_are_the_kernels(busy):
    def agrees(worker):
        figures = weightd.proc_figures(worker["pid"], "status")
        text = scrape(busy)[1]
        if "weightd_private_bytes" not in text:
            return False  # not told yet
        shown = total(samples(text), "weightd_private_bytes", process="worker", worker=str(worker["index"]))
        return shown == pytest.approx(figures["RssAnon"] + figures["VmPTE"], rel=0.1)

    for worker in busy.status()["workers"]:  # a second later, at most, and once memory of earlier calls has gone back
        busy.wait_for(lambda: agrees(worker), "what the kernel says")
    values = samples(scrape(busy)[1])
    for process in ("parent", "front"):
        now = total(values, "weightd_private_bytes", process=process)
        assert 0 < now <= total(values, "weightd_private_peak_bytes", process=process)
    copies = [copy for model in busy.status()["models"] for copy in model["copies"]]
    for node in {copy["node"] for copy in copies}:
        pages = sum(copy["on_node"] for copy in copies if copy["node"] == node)
        assert total(values, "weightd_weight_pages", node=str(node), placement="on_node") == pages > 0
        whole = all(copy["placement"] == "verified" for copy in copies if copy["node"] == node)
        assert total(values, "weightd_weight_placement_verified", node=str(node)) == whole
        held = sum(copy["bytes"] for copy in copies if copy["node"] == node)
        assert total(values, "weightd_weight_page_bytes", node=str(node)) == held, "every byte is in some page"
    version = subprocess.run([weightd.WEIGHTD, "--version"], capture_output=True, text=True).stdout.split()[-1]
    assert total(values, "weightd_build_info", version=version) == 1


def kernel_counters(node):
    return {name: int(value) for name, value in (line.split() for line in (NODES / node / "numastat").read_text().splitlines())}


def test_every_node_shows_the_kernels_counters(busy):
    nodes = {path.name: kernel_counters(path.name) for path in NODES.glob("node[0-9]*")}
    busy.wait_for(lambda: "weightd_numa_pages_total" in scrape(busy)[1], "told of the nodes")
    shown = samples(scrape(busy)[1])
    for node, before in nodes.items():
        after, number = kernel_counters(node), node.removeprefix("node")
        for name, value in before.items():
            now = total(shown, "weightd_numa_pages_total", node=number, counter=name)
            assert now <= after[name], (node, name)
            busy.wait_for(
                lambda: total(samples(scrape(busy)[1]), "weightd_numa_pages_total", node=number, counter=name) >= value,
                f"{name} of {node} as the kernel has it",
            )
        whole = re.search(r"MemTotal:\s+(\d+) kB", (NODES / node / "meminfo").read_text())[1]
        assert total(shown, "weightd_node_memory_bytes", node=number, state="total") == int(whole) * 1024
        for page, size in ("2m", "2048kB"), ("1g", "1048576kB"):
            pool = NODES / node / f"hugepages/hugepages-{size}/nr_hugepages"
            pages = int(pool.read_text()) if pool.exists() else 0
            assert total(shown, "weightd_node_huge_pages", node=number, page=page, state="total") == pages


def test_unlocked_weights_are_those_that_no_worker_has_locked(busy):
    """VmLck of the workers is the kernel's word; what it does not cover of a copy could be swapped out."""

    def expected():
        unlocked = {}
        for model in busy.status()["models"]:
            for copy in model["copies"]:
                readers = [w for w in busy.status()["workers"] if (w["model"], w["copy_node"]) == (model["name"], copy["node"])]
                locked = max(weightd.proc_figures(w["pid"], "status")["VmLck"] for w in readers)
                unlocked[copy["node"]] = unlocked.get(copy["node"], 0) + max(copy["bytes"] - locked, 0)
        return unlocked

    for node, unlocked in expected().items():
        busy.wait_for(
            lambda: total(samples(scrape(busy)[1]), "weightd_weight_unlocked_bytes", node=str(node)) == unlocked, f"{unlocked}"
        )


def test_without_locking_all_of_a_copy_is_unlocked(start, tiny):
    daemon = start({"tiny": tiny}, {"lock_memory": "no"})
    daemon.wait_ready()
    copies = daemon.status()["models"][0]["copies"]

    def shown(node):
        return {value for (name, has), value in samples(scrape(daemon)[1]).items()
                if name == "weightd_weight_unlocked_bytes" and dict(has)["node"] == str(node)}

    for copy in copies:
        daemon.wait_for(lambda: shown(copy["node"]) == {copy["bytes"]}, "told that nothing is locked")


def test_a_workers_cpu_time_grows_over_its_death(busy):
    worker = busy.status()["workers"][0]
    labels = {"process": "worker", "worker": str(worker["index"]), "node": str(worker["node"])}

    def seconds():
        return total(samples(scrape(busy)[1]), "weightd_cpu_seconds_total", **labels)

    def of_kernel(pid):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    busy.http.post("/v1/completions", {**PROMPT, "model": worker["model"], "max_tokens": 30}).ok()
    used = of_kernel(worker["pid"])
    busy.wait_for(lambda: seconds() >= used - 0.02, "as much as the kernel says")
    assert seconds() <= of_kernel(worker["pid"]) + 0.02
    before = seconds()
    os.kill(worker["pid"], signal.SIGKILL)
    busy.wait_for(lambda: busy.status()["workers"][0]["pid"] not in (0, worker["pid"]), "replaced")
    busy.wait_all_ready()
    assert seconds() >= before
    busy.http.post("/v1/completions", {**PROMPT, "model": worker["model"], "max_tokens": 60}).ok()
    more = of_kernel(busy.status()["workers"][0]["pid"])
    assert more > 0.05
    busy.wait_for(lambda: seconds() >= before + more - 0.02, "its follower's on top")


def test_without_the_other_names(start, tiny):
    daemon = start({"tiny": tiny}, {"metrics_aliases": "no"})
    text = scrape(daemon)[1]
    assert "weightd_prompt_tokens_total" in text and "vllm:" not in text and "llamacpp:" not in text


def families(text):
    """Names that a query may use, histograms' parts included."""
    return {name for name, _ in samples(text)}


def expressions(value):
    """All queries within a dashboard or rules."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("expr", "query", "definition") and isinstance(inner, str):
                yield inner
            else:
                yield from expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from expressions(inner)


def test_every_metric_of_dashboard_and_rules_exists(busy):
    busy.wait_for(lambda: "weightd_private_bytes" in scrape(busy)[1], "told of memory")
    names = families(scrape(busy)[1])
    for source, content in ((DASHBOARD, json.loads(DASHBOARD.read_text())), (RULES, yaml.safe_load(RULES.read_text()))):
        text = "\n".join(expressions(content))
        used = {name for name in OWN.findall(text)}
        assert len(used) >= 8, source
        assert used <= names, f"{source.name} uses {sorted(used - names)}"


def test_the_dashboard_is_one():
    board = json.loads(DASHBOARD.read_text())
    assert board["title"] and board["uid"] and board["schemaVersion"] >= 36
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)) and len(ids) >= 10
    taken = set()
    for panel in board["panels"]:
        assert panel["title"] and panel["type"] in ("row", "timeseries", "stat", "gauge", "table", "heatmap"), panel["id"]
        at = panel["gridPos"]
        assert 0 <= at["x"] and at["x"] + at["w"] <= 24 and at["w"] and at["h"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, f"'{panel['title']}' lies over another panel"
        taken |= cells
        if panel["type"] != "row":
            assert panel["targets"] and panel["datasource"]["uid"] == "${datasource}"
            assert panel.get("description"), f"'{panel['title']}' does not say what it shows"
            assert all(target["refId"] and target["expr"] for target in panel["targets"])
    assert [variable["type"] for variable in board["templating"]["list"]][0] == "datasource"


@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", RULES), ("check", "config", SCRAPE), ("test", "rules", RULES_TEST)],
    ids=["rules", "config", "alerts"],
)
def test_promtool_agrees(arguments):
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_finds_nothing_in_the_text(busy):
    done = subprocess.run(["promtool", "check", "metrics"], input=scrape(busy)[1], capture_output=True, text=True)
    ours = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("weightd_")]
    assert not ours, "\n".join(ours)
    assert done.returncode in (0, 3), done.stdout + done.stderr  # 3: remarks, which are about names that are not ours
