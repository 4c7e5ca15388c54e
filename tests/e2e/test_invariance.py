"""An answer is a function of its request: the same bytes alone and among others, in any arrival order, whatever the chunks,
the threads, the worker and the kernel interface are.

`expected` asks for everything once, one request at a time, of a daemon as it comes. Every test below changes one thing and
asks again. The bytes of an answer are all of its data lines, log-probabilities to the last digit; only its id and the
second of its making are taken out (repertoire.normalised)."""

import concurrent.futures
import random
import subprocess
import time

import pytest

import repertoire
import weightd
from repertoire import REPERTOIRE, SHORT_REPERTOIRE, ask, difference, random_request

CLIENTS = 17


def answers_alone(http, requests):
    return {request.name: ask(http, request) for request in requests}


def check(requests, expected, answers):
    wrong = [
        difference(request, expected[request.name], answers[request.name])
        for request in requests
        if answers[request.name] != expected[request.name]
    ]
    assert not wrong, f"{len(wrong)} of {len(requests)} answers differ\n" + "\n".join(wrong)


def together(http, requests, seed, n_others=0, clients=CLIENTS):
    """Asks in random order among random others, at most `clients` at a time, each arriving a random moment after it
    might. Answers by name."""
    rng = random.Random(seed)
    crowd = [(request, rng.random() * 0.03) for request in requests]
    crowd += [(random_request(rng), rng.random() * 0.03) for _ in range(n_others)]
    rng.shuffle(crowd)

    def client(item):
        request, pause = item
        time.sleep(pause)  # not waiting for anything: it makes the order of arrival random
        return request.name, ask(http, request)

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        return dict(pool.map(client, crowd))


@pytest.fixture(scope="module")
def expected(daemon):
    assert len(REPERTOIRE) >= 20 and len({request.name for request in REPERTOIRE}) == len(REPERTOIRE)
    answers = answers_alone(daemon.http, REPERTOIRE)
    assert len(set(answers.values())) == len(REPERTOIRE)  # different questions, or comparing would prove little
    return answers


def test_company(daemon, expected, amount, record):
    """Among 16 random others, in random orders of arrival."""
    seeds = amount(3, 100)
    for seed in range(seeds):
        check(REPERTOIRE, expected, together(daemon.http, REPERTOIRE, seed, n_others=16))
    record("answers among 16 others", seeds * len(REPERTOIRE), f"({seeds} orders)")


VARIANTS = [
    {"prefill_chunk": 16},
    {"prefill_chunk": 64, "prefill_share": 100},
    {"prefill_chunk": 512},
    {"prefill_share": 10},
    {"threads": 1},
    {"threads": 2, "io": "epoll"},
    {"io": "uring", "max_running": 3},
]


def named(settings):
    return ", ".join(f"{key} {value}" for key, value in settings.items())


@pytest.mark.parametrize("settings", VARIANTS, ids=named)
def test_settings(start, model, expected, amount, record, settings):
    """All together, so that each setting meets the others' company, too."""
    daemon = start({"smollm2": model}, settings)
    rounds = amount(1, 10)
    for seed in range(rounds):
        check(REPERTOIRE, expected, together(daemon.http, REPERTOIRE, seed))
    record(f"answers with {named(settings)}", rounds * len(REPERTOIRE), f"({rounds} orders)")


# Answers over several KV pages: what calls take after they were let in.
LONG_ANSWERS = [
    repertoire.completion(
        f"long answer {number}", repertoire.ids(20, number), 110, ignore_eos=True, logprobs=1, **repertoire.SAMPLED
    )
    for number in range(14)
]


def test_eviction(start, daemon, model, expected, amount, record):
    """Too little memory for all: calls lose their pages to others and come back, and their answers do not show it."""
    requests = [request for request in REPERTOIRE if "1,500" not in request.name] + LONG_ANSWERS
    expected = expected | answers_alone(daemon.http, LONG_ANSWERS)
    small = start({"smollm2": model}, {"kv_bytes": "12M"})  # 17 pages, and the long answers alone come to 70
    rounds = amount(1, 20)
    for seed in range(rounds):
        check(requests, expected, together(small.http, requests, seed, clients=len(requests)))
    evicted, replayed = (weightd.metric(small, f"weightd_{name}_total") for name in ("evicted", "replayed_tokens"))
    assert evicted > 0 and replayed > 0
    record("answers with too little KV memory", rounds * len(requests), f"({evicted} evictions, {replayed} tokens again)")


def dialogue_of(http, turns):
    """A conversation, each question with all the answers before it: (request, answer) of each turn."""
    messages, said = [], []
    for turn in turns:
        messages.append({"role": "user", "content": turn})
        request = repertoire.chat(f"turn {len(said)}", list(messages), 40, **repertoire.SAMPLED)
        answer = http.post(request.target, request.body).ok()
        said.append((request, repertoire.ask(http, request)))
        messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
    return said


def test_prefix_cache(start, daemon, model, expected, amount, record):
    """The cache cold, warm, warm in company, and too small for what it is given; and conversations, whose prompts bring
    back what was computed as an answer before."""
    conversation = dialogue_of(daemon.http, [repertoire.prose(60, turn) for turn in range(4)])
    for size in "256M", "4M":
        cached = start({"smollm2": model}, {"prefix_cache_bytes": size})
        check(REPERTOIRE, expected, answers_alone(cached.http, REPERTOIRE))
        cold = weightd.metric(cached, "weightd_prefix_tokens_total")
        check(REPERTOIRE, expected, answers_alone(cached.http, REPERTOIRE))
        rounds = amount(1, 20)
        for seed in range(rounds):
            check(REPERTOIRE, expected, together(cached.http, REPERTOIRE, seed, n_others=4))
        for turn in 1, 2:
            assert dialogue_of(cached.http, [repertoire.prose(60, turn) for turn in range(4)]) == conversation, turn
        reused = weightd.metric(cached, "weightd_prefix_tokens_total")
        assert reused > cold
        record(
            f"answers with a prefix cache of {size}", (2 + rounds) * len(REPERTOIRE) + 8, f"({reused} tokens not computed)"
        )
        cached.stop()


def calls_by_worker(daemon):
    return {worker["index"]: worker["calls"] for worker in daemon.status()["workers"]}


def test_workers(start, model, expected, record):
    """Each request is asked until both workers have answered it."""
    daemon = start({"smollm2": model}, {"workers_per_node": 2, "threads": 1})
    assert len(calls_by_worker(daemon)) >= 2
    n = 0
    for request in SHORT_REPERTOIRE:
        before, answered = calls_by_worker(daemon), set()
        for _ in range(10):
            # Twice at the same time: the second finds the other worker with fewer calls.
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                for answer in pool.map(lambda _: ask(daemon.http, request), range(2)):
                    check([request], expected, {request.name: answer})
                    n += 1
            now = calls_by_worker(daemon)
            answered = {worker for worker in now if now[worker] > before[worker]}
            if len(answered) >= 2:
                break
        assert len(answered) >= 2, f"only worker {answered} has answered '{request.name}'"
    record("answers of two workers", n, f"({len(SHORT_REPERTOIRE)} requests, each by both)")


def test_parallel(start, model, expected, record):
    """Threads on all nodes, each with its node's copy: one worker where there would be one on each node. (A machine with
    one node has no more to it than that; tests/guest/run boots one with two.)"""
    daemon = start({"smollm2": {"path": model, "parallel": "tensor"}})
    status = daemon.status()
    assert status["models"][0]["parallel"] == "tensor"
    assert len(status["workers"]) == 1
    parts = status["workers"][0]["parts"]
    assert {part["copy_node"] for part in parts} == {copy["node"] for copy in status["models"][0]["copies"]}
    check(SHORT_REPERTOIRE, expected, answers_alone(daemon.http, SHORT_REPERTOIRE))
    check(SHORT_REPERTOIRE, expected, together(daemon.http, SHORT_REPERTOIRE, seed=41, n_others=8))
    plan = subprocess.run([weightd.WEIGHTD, "--config", daemon.config, "--plan"], capture_output=True, text=True, check=True)
    assert "model smollm2: parallel = tensor, so its workers on all nodes are 1 process\n" in plan.stdout
    record("answers of a worker over all nodes", 2 * len(SHORT_REPERTOIRE), f"{len(parts)} nodes")


def test_avx2(start, model, record):
    """A level has its own numerics, so its answers are compared with its own."""
    if not {"avx2", "fma", "f16c"} <= weightd.cpu_flags():
        pytest.skip("this CPU lacks avx2")
    requests = SHORT_REPERTOIRE[:8]
    first = start({"smollm2": model}, {"cpu_level": "avx2"})
    alone = answers_alone(first.http, requests)
    check(requests, alone, together(first.http, requests, 1, n_others=8))
    second = start({"smollm2": model}, {"cpu_level": "avx2", "threads": 1, "prefill_chunk": 16})
    check(requests, alone, together(second.http, requests, 2))
    record("answers at level avx2", 2 * len(requests), "(in company; one thread and small chunks)")


def test_int8(start, model, record):
    """So have int8 numerics, and there, too, neither company nor settings change an answer. They are another's answers."""
    if not weightd.INT8_FLAGS <= weightd.cpu_flags():
        pytest.skip("this CPU lacks AVX-512 VNNI, VBMI or BF16")
    requests = SHORT_REPERTOIRE[:8]
    first = start({"smollm2": model}, {"numerics": "int8"})
    assert first.status()["models"][0]["numerics"] == "int8"
    alone = answers_alone(first.http, requests)
    check(requests, alone, together(first.http, requests, 1, n_others=8))
    second = start({"smollm2": model}, {"numerics": "int8", "threads": 1, "prefill_chunk": 17})
    check(requests, alone, together(second.http, requests, 2))
    assert alone != answers_alone(start({"smollm2": model}).http, requests)
    record("answers with int8 numerics", 2 * len(requests), "(in company; one thread and odd chunks)")


def test_kv_int8(start, daemon, model, record):
    """With keys and values of int8 answers are others, and as little a matter of company, memory and what is kept."""
    kept = {"kv_type": "int8"}
    whole_pages = [request for request in REPERTOIRE if "page" in request.name]
    requests = SHORT_REPERTOIRE[:4] + whole_pages + LONG_ANSWERS[:8]
    first = start({"smollm2": model}, kept)
    assert first.status()["models"][0]["kv_type"] == "int8"
    alone = answers_alone(first.http, requests)
    assert alone != answers_alone(daemon.http, requests)
    check(requests, alone, together(first.http, requests, 1, n_others=8))
    # 17 pages, where with bfloat16 there would be 9.
    small = start({"smollm2": model}, kept | {"kv_bytes": "6500K", "threads": 1, "prefill_chunk": 17})
    assert [worker["kv_pages"] for worker in small.status()["workers"]] == [17]
    check(requests, alone, together(small.http, requests, 2, clients=len(requests)))
    evicted = weightd.metric(small, "weightd_evicted_total")
    assert evicted > 0
    cached = start({"smollm2": model}, kept | {"prefix_cache_bytes": "64M"})
    for _ in range(2):
        check(whole_pages, alone, answers_alone(cached.http, whole_pages))
    assert weightd.metric(cached, "weightd_prefix_tokens_total") > 0
    record("answers with int8 keys and values", 2 * len(requests) + 2 * len(whole_pages), f"(in company, with {evicted} evictions, from a cache)")


def work_of(daemon, request):
    """(weight products, forward passes, generated tokens) that a request costs."""
    names = "weightd_weight_products_total", "weightd_steps_total"
    before = [weightd.metric(daemon, name) for name in names]
    answer = daemon.http.post(request.target, request.body).ok()
    daemon.wait_for(lambda: weightd.metric(daemon, "weightd_calls_running") == 0, "idle")
    after = [weightd.metric(daemon, name) for name in names]
    return *(b - a for a, b in zip(before, after)), answer["usage"]["completion_tokens"]


def test_weights_are_read_once_for_all_rows(start, model, record):
    """16 answers made together cost the products of one, and not of 16: one for each layer and matrix of a pass,
    whatever the number of rows."""
    daemon = start({"smollm2": model})  # nobody else's passes are counted
    n_tokens, n_rows, per_pass = 60, 16, 30 * 7 + 1  # 30 layers of 7 matrices, and the head
    products, passes, tokens = work_of(daemon, repertoire.completion("one", [504], n_tokens, ignore_eos=True))
    assert (products, passes, tokens) == (n_tokens * per_pass, n_tokens, n_tokens)
    prompts = [[504 + i] for i in range(n_rows)]
    products, passes, tokens = work_of(daemon, repertoire.completion("sixteen", prompts, n_tokens, ignore_eos=True))
    assert tokens == n_rows * n_tokens
    assert products == passes * per_pass
    # They arrive one after the other, each at worst with a prompt's pass of its own.
    assert passes <= n_tokens + n_rows
    record(f"products of {n_rows} answers of {n_tokens} tokens", products, f"({passes} passes of {per_pass})")
