"""The dashboard in a real browser, over loopback: what it shows is held against weightctl status and the API."""

import base64
import contextlib
import hashlib
import json
import os
import re
import signal
import socket
import threading
import time

import pytest

import browser
import weightd

KEY = "sk-of-the-dashboard-0123456789"
ROW = "document.querySelector('#worker-rows tr')"
SHOWN = f"{ROW}?.innerText.includes('ready') && document.querySelector('#model-rows').innerText.includes('served')"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def chromium():
    running = browser.Browser()
    yield running
    running.close()


@pytest.fixture(scope="module")
def served(model):
    port = free_port()
    with weightd.running({"smollm2": model}, {"listen": f"127.0.0.1:{port}", "kv_bytes": "256M"}) as daemon:
        daemon.url = f"http://127.0.0.1:{port}/"
        yield daemon


@pytest.fixture
def page(chromium, served):
    """The dashboard with figures in it. Nothing on its console, unless the test takes it away, is part of the test."""
    page = chromium.page()
    page.open(served.url)
    page.wait(SHOWN, "showing the worker and its model")
    yield page
    assert page.problems == []
    page.close()


def cells(page, row):
    """{column: text} of a table's row."""
    return page.run(
        f"Object.fromEntries([...{row}.children].map(cell => [cell.dataset.label, cell.innerText.trim()]))"
    )


@contextlib.contextmanager
def held_while_loading(daemon):
    """A reload whose loader is stopped in the middle of the file, wherever that is on this machine: each try waits a
    little longer before it stops it, or half as long when it came too late."""
    wait = 0.02
    for _ in range(40):
        reload = threading.Thread(target=daemon.ctl, args=("reload", "smollm2"))
        reload.start()
        daemon.wait_for(lambda: daemon.children("loader") or not reload.is_alive(), "loading")
        loader = [*daemon.children("loader"), None][0]
        try:
            if loader:
                time.sleep(wait)
                os.kill(loader, signal.SIGSTOP)
                time.sleep(1.5)  # until the front has been told
                [model] = daemon.http.get("/v1/status").ok()["models"]
                if 0 < model.get("loaded_bytes", 0) < model.get("file_bytes", 0):
                    yield
                    return
                wait *= 1.5 if "loaded_bytes" not in model else 0.5
        except ProcessLookupError:
            wait *= 0.5
        finally:
            with contextlib.suppress(ProcessLookupError, TypeError):
                os.kill(loader, signal.SIGCONT)
            reload.join()
            daemon.wait_for(lambda: "change" not in daemon.status()["models"][0], "done with the change")
    raise AssertionError("no loader could be held while it was reading")


# --- the file ---------------------------------------------------------------------------------------


def test_the_page_is_one_file_that_asks_nobody_else(served):
    answer = served.http.get("/")
    text = answer.body.decode()
    assert answer.status == 200 and len(answer.body) < 100_000
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    hashes = {
        tag: base64.b64encode(hashlib.sha256(re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1].encode()).digest()).decode()
        for tag in ("script", "style")
    }
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'" and policy["connect-src"] == "'self'"
    assert policy["script-src"] == f"'sha256-{hashes['script']}'" and policy["style-src"] == f"'sha256-{hashes['style']}'"
    assert not re.search(r"<script [^>]*src|<link [^>]*stylesheet|@import|url\(|innerHTML|\bon\w+=\"|style=\"", text)
    assert not set(re.findall(r"https?://[^\s'\"]+", text)) - {"http://www.w3.org/2000/svg"}  # a name space, not an address
    head = served.http.request("HEAD", "/")
    assert head.body == b"" and head.headers["Content-Length"] == str(len(answer.body))
    again = served.http.request("GET", "/", None, {"If-None-Match": answer.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")


def test_it_can_be_switched_off(start, tiny):
    assert start({"tiny": tiny}, {"dashboard": "no"}).http.get("/").status == 404


# --- what it shows ----------------------------------------------------------------------------------


def test_nodes_workers_and_models_are_shown(page, served):
    status = served.status()
    [worker], [model] = status["workers"], status["models"]
    [copy] = model["copies"]
    node = page.text("#node-map article")
    assert f"Node {copy['node']}" in node and "smollm2, generation 1" in node
    assert {"verified": "verified", "unverified": "unverified"}[copy["placement"]] in node
    assert f"0 of {copy['pages']:,} pages misplaced" in node
    assert f"Worker 0, CPUs {worker['cpus']}" in node
    for size, name in ("huge_bytes", "in 2 MiB pages"), ("small_bytes", "in 4 KiB pages"):
        assert (name in node) == (copy[size] > 0)
    row = cells(page, ROW)
    assert (row["Worker"], row["State"], row["Node"], row["CPUs"]) == ("Worker 0", "ready", "0", worker["cpus"])
    assert re.fullmatch(r"[\d.]+ [KM]iB", row["Private"]) and re.fullmatch(r"[\d.]+ MiB", row["Shared"])
    assert cells(page, "document.querySelector('#model-rows tr')")["Context"] == f"{model['context_tokens']:,} tokens"
    said = page.run("document.querySelector('#worker-charts svg').getAttribute('aria-label')")
    assert re.match(r"Worker 0, the last five minutes: Shared [\d.]+ MiB, at most", said), said
    assert page.run("document.querySelector('#worker-charts path').getAttribute('d')").startswith("M")


def test_tokens_are_counted_as_they_come(page, served):
    rows = "[...document.querySelector('#throughput tbody').rows].map(row => row.cells[4].textContent)"
    served.http.post("/v1/completions", {"prompt": "One, two,", "max_tokens": 200, "ignore_eos": True}).ok()
    page.wait(f"{rows}.every(text => parseFloat(text) > 0 && text.endsWith(' tokens/s'))", "showing a rate of both")
    total = sum(model["generated_tokens"] for model in served.http.get("/v1/status").ok()["models"])
    page.wait(f"document.querySelector('#tiles').innerText.includes('{total:,} tokens in all')", "showing all tokens")


def test_a_refresh_touches_nothing_that_is_the_same(page):
    page.run(
        f"window.kept = [{ROW}, document.querySelector('#node-map article'), document.querySelector('#tiles > div')];"
        "window.moved = []; new MutationObserver(list => window.moved.push(...list.map(c => c.target.nodeName + ' ' +"
        " [...c.addedNodes, ...c.removedNodes].filter(n => n.nodeType == 1).map(n => n.nodeName)).filter(t => t.split(' ')[1])))"
        ".observe(document.querySelector('#main'), {childList: true, subtree: true}); 1"
    )
    time.sleep(4)
    assert page.run("window.kept.every(element => element.isConnected)")
    assert page.run("window.moved") == []  # no element came or went, texts aside


def test_a_killed_worker_and_its_return_are_shown(page, served):
    before = served.status()["workers"][0]
    os.kill(before["pid"], signal.SIGKILL)
    page.wait(f"{ROW}.lastElementChild.innerText === '{before['restarts'] + 1}'", "showing the restart")
    page.wait(f"{ROW}.innerText.includes('ready')", "showing the new worker")
    page.wait("/[1-9]\\d* workers? replaced/.test(document.querySelector('#tiles').innerText)", "counting it")
    assert served.status()["workers"][0]["pid"] != before["pid"]
    served.wait_all_ready()


def test_a_load_is_shown_while_it_goes_on(page, served):
    bar = "document.querySelector('#model-rows progress')"
    with held_while_loading(served):
        page.wait(f"!{bar}.hidden && {bar}.value > 0", "showing progress")
        row = cells(page, "document.querySelector('#model-rows tr')")
        assert re.search(r"[\d.]+ \w+ of [\d.]+ MiB \(\d+ %\)", row["Standing"]), row
        assert re.fullmatch(r"\d+; \d+ is loading", row["Generation"]), row
        assert "Loading smollm2" in [name for role, name in page.names() if role.lower() in ("progressbar", "progressindicator")]
    generation = served.status()["models"][0]["generation"]
    page.wait(f"{bar}.hidden && document.querySelector('#node-map').innerText.includes('generation {generation}')", "showing the new one")


# --- machines that are not at hand: the page is given the answers that one would have -----------------

MARKUP = "<img src=x onerror=alert(1)>"


def big_machine():
    """Four nodes, 24 workers, a generation that comes, a copy that has moved, one that is spread, models in all standings."""
    gib = 1 << 30
    copies = [
        {"node": node, "n_nodes": 1, "model": "large", "generation": 3, "small_bytes": 0, "huge_bytes": 30 * gib, "giant_bytes": 10 * gib,
         "pages": 10_485_760, "misplaced": 12 if node == 2 else 0, "state": "degraded" if node == 2 else "verified"}
        for node in range(3)
    ]  # fmt: skip
    copies.append({**copies[0], "n_nodes": 4, "model": MARKUP, "generation": 1, "state": "unverified"})
    copies.append({**copies[0], "adapter": 7, "huge_bytes": 0, "giant_bytes": 0, "small_bytes": 40 << 20, "state": "verified"})
    workers = [
        {"index": i, "node": i % 4, "copy_node": min(i % 4, 2), "cpus": f"{8 * i}-{8 * i + 7}", "cpus_gone": int(i == 5), "model": "large", "generation": 3,
         "state": ["ready", "waiting", "hung", "starting", "leaving"][i if i < 5 else 0], "restarts": 9 if i == 1 else 0, "restart_in_ms": 4000 if i == 1 else 0,
         "shared_bytes": 40 * gib, "private_bytes": gib, "private_peak_bytes": 2 * gib, "running": 3, "waiting": 2, "kv_pages": 1000, "kv_pages_used": 10}
        for i in range(24)
    ]  # fmt: skip
    models = [
        {"name": "large", "standing": "served", "architecture": "qwen2", "generation": 3, "context_tokens": 32768, "prompt_tokens": 10, "generated_tokens": 20,
         "change": {"generation": 4, "state": "loading"}, "loaded_bytes": 10 * gib, "file_bytes": 40 * gib},
        {"name": MARKUP, "standing": "loading"},
        {"name": "broken", "standing": "failed"},
        {"name": "shaky", "standing": "failing", "generation": 1},
        {"name": "ear", "standing": "served", "architecture": "whisper", "generation": 1},
    ]  # fmt: skip
    health = [{"id": "large", "status": "degraded", "message": "node 2: 12 pages are elsewhere"}, {"id": "broken", "status": "failed", "message": "no such file"}]
    process = {"private_bytes": 5 << 20, "private_peak_bytes": 6 << 20}
    return {
        "object": "status", "version": "9.9", "now_ms": 1000, "told_ms_ago": 10, "uptime_s": 200_000, "calls_in_flight": 120, "calls_max": 4096,
        "health": {"status": "failed", "models": health, "placement": "misplaced", "refused_calls": "mbind: EPERM", "message": "no such file"},
        "connections": 1, "connections_max": 9, "queue_full": 0, "worker_restarts": 9, "models": models, "copies": copies, "copies_left_out": 3, "workers": workers,
        "adapters": [{"id": 7, "name": "sales", "model": "large", "calls": 1}], "front": process, "parent": process,
        "nodes": [{"node": node, "n_copies": 1, "memory_bytes": 256 * gib, "free_bytes": 100 * gib, "unlocked_bytes": gib if node == 1 else 0, "checked_ms_ago": 90_000} for node in range(4)],
    }  # fmt: skip


@pytest.fixture
def big(chromium, served):
    """`asked`: what the page has sent besides."""
    page = chromium.page()
    page.before(
        "window.asked = []; const real = window.fetch; const given = %s; window.fetch = async (path, options) => {"
        "if (path === '/v1/status') { given.now_ms += 1000; given.models[0].generated_tokens += 500; return Response.json(given); }"
        "if (path === '/v1/audio/transcriptions') { window.asked.push([...options.body].map(([k, v]) => [k, v.name ?? v])); return Response.json({text: 'What was said.'}); }"
        "return real(path, options); }" % json.dumps(big_machine())
    )
    page.open(served.url)
    page.wait("document.querySelectorAll('#node-map article').length === 4", "showing four nodes")
    yield page
    assert page.problems == []
    page.close()


def test_bad_news_of_a_big_machine(big):
    nodes = [big.text(f"#node-map article:nth-child({i})") for i in range(1, 5)]
    assert "12 of 10,485,760 pages misplaced" in nodes[2] and "degraded" in nodes[2]
    assert "Spread over 4 nodes" in nodes[0] and "unverified" in nodes[0] and "sales, for large" in nodes[0]
    assert "10.0 GiB in 1 GiB pages, 30.0 GiB in 2 MiB pages" in nodes[1] and "1.0 GiB not locked" in nodes[1]
    assert "no copy" in nodes[3] and "(1 of them gone)" in nodes[1]
    assert "placement misplaced (refused: mbind: EPERM)" in big.text("#nodes")
    assert "3 more copies are not shown here" in big.text("#nodes")
    rows = [cells(big, f"document.querySelector('#worker-rows tr:nth-child({i})')") for i in range(1, 6)]
    assert [row["State"] for row in rows] == ["ready", "waiting, 5 s", "hung", "starting", "leaving"]
    assert rows[3]["Node"] == "3, reads 2" and rows[0]["Shared"] == "40.0 GiB" and rows[0]["KV pages"] == "10 of 1,000"
    models = [cells(big, f"document.querySelector('#model-rows tr:nth-child({i})')") for i in range(1, 6)]
    assert models[0]["Standing"].split("\n")[0] == "degraded" and "12 pages are elsewhere; 10.0 GiB of 40.0 GiB (25 %)" in models[0]["Standing"]
    assert models[0]["Generation"] == "3; 4 is loading" and models[0]["Adapters"] == "sales (1 call)"
    assert models[2]["Standing"].startswith("failed") and "no such file" in models[2]["Standing"]
    assert models[3]["Standing"] == "failing" and models[1]["Context"] == "–"
    assert models[1]["Model"] == MARKUP  # a name is text, whatever is in it
    assert big.run("document.querySelectorAll('main img').length") == 0
    tiles = big.text("#tiles")
    assert re.search(r"Running\s+72\s+calls", tiles) and "120 of 4,096 places taken" in tiles and re.search(r"2\s+d 7 h", tiles)
    big.wait("/5\\d\\d\\s+tokens\\/s/.test(document.querySelector('#tiles').innerText)", "showing 500 tokens by second")
    for width in 360, 1280:
        big.size(width)
        big.wait(f"innerWidth === {width}", "of that width")
        assert big.run("document.documentElement.scrollWidth") <= width
    for theme in "light", "dark":
        big.prefer(prefers_color_scheme=theme)
        assert big.run(CONTRAST)[1] == []


def test_many_workers_have_their_charts_when_they_are_asked_for(big):
    assert big.run("document.querySelectorAll('#worker-charts .chart').length") == 8
    assert big.text("#more-charts") == "Show the other 16"
    big.run("document.querySelector('#more-charts').click()")
    assert big.run("document.querySelectorAll('#worker-charts .chart').length") == 24
    assert big.run("document.activeElement.textContent").endswith("Worker 8")  # where the new ones begin


def test_speech_is_offered_where_a_model_of_it_is_served(big):
    assert not big.run("document.querySelector('#speech').hidden || document.querySelector('#speech-link').hidden")
    assert big.run("[...document.querySelector('#speech-model').options].map(o => o.value)") == ["ear"]
    assert big.run("[...document.querySelector('#chat-model').options].map(o => o.value)") == ["large", "sales"]
    big.run(
        "(() => { const files = new DataTransfer(); files.items.add(new File(['RIFF'], 'said.wav', {type: 'audio/wav'}));"
        "document.querySelector('#speech-file').files = files.files; document.querySelector('#speech-send').click(); })()"
    )
    assert big.wait("!document.querySelector('#speech-text').hidden && document.querySelector('#speech-text').innerText", "written down") == "What was said."
    assert big.run("window.asked") == [[["file", "said.wav"], ["model", "ear"], ["response_format", "json"]]]
    assert big.text("#speech-state").startswith("Done in ")


# --- how it stands with the server --------------------------------------------------------------------


def test_a_server_that_is_gone_is_said_to_be_since_when(chromium, start, tiny):
    port = free_port()
    daemon = start({"tiny": tiny}, {"listen": f"127.0.0.1:{port}"})
    page = chromium.page()
    page.open(f"http://127.0.0.1:{port}/")
    page.wait(SHOWN, "showing figures")
    daemon.stop()
    text = page.wait("!document.querySelector('#banner').hidden && document.querySelector('#banner').innerText", "saying so")
    assert re.match(r"No answer from the server since \d\d:\d\d:\d\d \(\d+ s\)\. What is shown is from before\.", text)
    assert page.run("document.querySelector('#main').classList.contains('stale')")
    assert "disconnected" in page.text("header")
    assert page.text("#announce") == "No answer from the server"
    start({"tiny": tiny}, {"listen": f"127.0.0.1:{port}"})
    page.wait("document.querySelector('#banner').hidden", "well again")
    assert not page.run("document.querySelector('#main').classList.contains('stale')")
    assert all("ERR_CONNECTION_REFUSED" in problem or "ERR_EMPTY" in problem or "RESET" in problem for problem in page.problems), page.problems
    page.close()


def test_figures_that_are_old_are_marked(page, served):
    os.kill(served.process.pid, signal.SIGSTOP)  # the parent; the front goes on
    try:
        text = page.wait("!document.querySelector('#banner').hidden && document.querySelector('#banner').innerText", "saying so")
        assert re.match(r"The daemon has told its front nothing for \d+ s", text)
    finally:
        os.kill(served.process.pid, signal.SIGCONT)
    page.wait("document.querySelector('#banner').hidden", "well again")


def test_a_key_is_asked_for(chromium, start, tiny, tmp_path):
    keys, port = tmp_path / "keys", free_port()
    keys.write_text(KEY + "\n")
    keys.chmod(0o600)
    daemon = start({"tiny": tiny}, {"listen": f"127.0.0.1:{port}", "api_keys_file": keys})
    assert daemon.http.get("/v1/status").status == 401
    page = chromium.page()
    page.open(f"http://127.0.0.1:{port}/")
    page.wait("!document.querySelector('#key-form').hidden", "asking for a key")
    assert page.run("document.activeElement.id") == "key"
    page.type("sk-wrong")
    page.press(browser.ENTER)
    page.wait("document.querySelector('#key-error').innerText.includes('does not know')", "refusing a wrong one")
    page.run("document.querySelector('#key').select()")
    page.type(KEY)
    page.press(browser.ENTER)
    page.wait(SHOWN, "showing figures")
    assert page.run("document.querySelector('#key-form').hidden")
    assert page.run(f"Object.values(sessionStorage).includes('{KEY}') && !Object.values(localStorage).includes('{KEY}')")
    assert all("401" in problem for problem in page.problems) and page.problems
    page.close()


# --- chat -------------------------------------------------------------------------------------------


def test_chat_says_what_the_api_says(page, served):
    question = {"role": "user", "content": "Name three colours."}
    body = {"model": "smollm2", "messages": [question], "temperature": 0, "max_completion_tokens": 48}
    expected = served.http.post("/v1/chat/completions", body).ok()["choices"][0]["message"]["content"]
    page.run("document.querySelector('#chat-tokens').value = 48; document.querySelector('#chat-temperature').value = 0")
    page.run("document.querySelector('#chat-text').focus()")
    page.type(question["content"])
    page.press(browser.ENTER)
    page.wait("document.querySelector('#chat-state').innerText.startsWith('Done')", "answered")
    said = page.run("[...document.querySelectorAll('#chat-log .said')].map(turn => turn.lastElementChild.textContent)")
    assert said == [question["content"], expected]
    assert re.match(r"Done: \d+ tokens? in [\d.]+ s, [\d.,]+ tokens/s\.", page.text("#chat-state"))
    # What was said before is part of the next request.
    body["messages"] += [{"role": "assistant", "content": expected}, {"role": "user", "content": "And three more?"}]
    expected = served.http.post("/v1/chat/completions", body).ok()["choices"][0]["message"]["content"]
    page.run("document.querySelector('#chat-text').focus()")
    page.type("And three more?")
    page.press(browser.ENTER)
    page.wait("document.querySelectorAll('#chat-log .said').length == 4 && document.querySelector('#chat-state').innerText.startsWith('Done')", "answered again")
    assert page.run("document.querySelector('#chat-log .said:last-child').lastElementChild.textContent") == expected


def test_chat_streams_and_stops(page, served):
    page.run("document.querySelector('#chat-tokens').value = 4000")
    page.run("document.querySelector('#chat-text').value = 'Count from 1 to 1000, each number in words.'; document.querySelector('#chat-send').click()")
    words = "document.querySelector('#chat-log .assistant')?.lastElementChild.textContent"
    first = page.wait(words, "streaming")
    page.wait(f"{words}.length > {len(first)}", "streaming on")
    page.run("document.querySelector('#chat-stop').click()")
    page.wait("document.querySelector('#chat-state').innerText === 'Stopped.'", "stopped")
    served.wait_for(lambda: served.http.get("/v1/status").ok()["calls_in_flight"] == 0, "without the call")
    assert not page.run("document.querySelector('#chat-send').disabled") and page.run("document.querySelector('#chat-stop').disabled")


def test_a_refused_chat_says_why_and_keeps_the_question(page):
    page.run("document.querySelector('#chat-text').value = 'word '.repeat(20000); document.querySelector('#chat-send').click()")
    text = page.wait("document.querySelector('#chat-state').innerText.startsWith('It did not work') && document.querySelector('#chat-state').innerText", "refused")
    assert "tokens" in text
    assert page.run("document.querySelector('#chat-text').value.length") > 90000
    assert page.run("document.querySelectorAll('#chat-log .said').length") == 0
    assert all("400" in problem for problem in page.problems) and len(page.problems) == 1
    page.problems.clear()


# --- for everybody ----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_nothing_is_wider_than_the_window(page, width):
    page.size(width)
    page.wait(f"innerWidth === {width}", "of that width")
    assert page.run("document.documentElement.scrollWidth") <= width
    wide = "[...document.querySelectorAll('main *, header *')].filter(e => e.checkVisibility() && !e.closest('.hidden, svg, thead') && (e.getBoundingClientRect().right > innerWidth + 1 || e.getBoundingClientRect().left < -1)).map(e => e.outerHTML.slice(0, 80))"
    assert page.run(wide) == []


# The contrast of every visible text with what is behind it (WCAG 2.2, 1.4.3), on a canvas that knows all notations.
CONTRAST = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const rgba = colour => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return canvas.getImageData(0, 0, 1, 1).data; };
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4).reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const behind = element => { for (let e = element; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return [255, 255, 255, 255]; };
  const low = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let n = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest("script, style, .hidden, .skip, :disabled")) continue;
    const [a, b] = [light(rgba(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
    n++;
    if ((a + .05) / (b + .05) < 4.5) low.push([walker.currentNode.data.trim().slice(0, 40), (a + .05) / (b + .05)]);
  }
  return [n, low];
})()"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_light_and_dark_can_be_read(page, theme):
    page.prefer(prefers_color_scheme=theme)
    colour = "getComputedStyle(document.body).backgroundColor"
    by_system = page.run(colour)
    n, low = page.run(CONTRAST)
    assert n > 50 and low == []
    page.run("document.querySelector('#theme').value = '%s'; document.querySelector('#theme').dispatchEvent(new Event('change'))" % {"light": "dark", "dark": "light"}[theme])
    assert page.run(colour) != by_system
    assert page.run(CONTRAST)[1] == []
    page.open(page.run("location.href") + "?again")  # the choice stays
    assert page.run(colour) != by_system


def test_the_keyboard_reaches_everything_in_order(page):
    page.run("document.querySelectorAll('details').forEach(details => details.open = false)")
    wanted = page.run(
        "[...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex=\"0\"]')]"
        ".filter(e => e.checkVisibility() && !e.disabled).map((e, i) => (e.dataset.place = i, e.id || e.innerText.trim()))"
    )
    assert len(wanted) > 15
    page.run("document.activeElement.blur()")
    for place, name in enumerate(wanted):
        page.press(browser.TAB)
        assert page.run("Number(document.activeElement.dataset.place)") == place, f"not at {name}"
        assert page.run("getComputedStyle(document.activeElement).outlineStyle") != "none", name
    page.press(browser.TAB, modifiers=8)  # and back
    page.press(browser.TAB, modifiers=8)


CONTROLS = {"button", "link", "textbox", "combobox", "spinbutton", "image", "img", "table", "region", "article", "navigation", "log", "DisclosureTriangle", "progressbar", "form"}


def test_everything_has_a_name(page):
    nodes = page.names()
    assert [(role, name) for role, name in nodes if role in CONTROLS and not name.strip() and role != "form"] == []
    roles = [role for role, _ in nodes]
    for role in "banner", "navigation", "main", "contentinfo", "region", "table", "columnheader", "rowheader", "log", "status":
        assert role in roles, role
    for name in "NUMA nodes", "Workers", "Models and adapters", "Chat":
        assert any(role == "region" and said.startswith(name) for role, said in nodes), name
    assert page.run("document.querySelectorAll('h1').length") == 1
    assert page.run("document.documentElement.lang") == "en" and page.run("document.title") == "weightd"
    assert page.run("[...document.querySelectorAll('[id]')].every((e, i, all) => all.findIndex(o => o.id === e.id) === i)")
    page.size(360)  # tables are laid out as blocks, and are tables for all that
    page.wait("innerWidth === 360", "narrow")
    wanted = {("columnheader", "Private peak"), ("rowheader", "Worker 0")}
    for _ in range(50):  # the browser makes its tree anew in its own time
        narrow = page.names()
        if wanted <= set(narrow):
            break
        time.sleep(0.1)
    assert wanted <= set(narrow)


def test_changes_of_state_are_announced_and_figures_are_not(page, served):
    page.run("window.said = []; new MutationObserver(() => window.said.push(document.querySelector('#announce').innerText)).observe(document.querySelector('#announce'), {childList: true, characterData: true, subtree: true}); 1")
    served.http.post("/v1/completions", {"prompt": "a", "max_tokens": 30, "ignore_eos": True}).ok()
    time.sleep(3)
    assert page.run("window.said") == []
    assert page.run("[...document.querySelectorAll('[aria-live], [role=status], [role=alert], [role=log]')].filter(e => e.contains(document.querySelector('#tiles'))).length") == 0


def test_less_motion_and_a_pause(page):
    page.prefer(prefers_reduced_motion="reduce")
    assert page.run("getComputedStyle(document.querySelector('.bar span')).transitionDuration") == "0s"
    assert page.run("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    page.run("document.querySelector('#pause').click()")
    assert page.run("document.querySelector('#pause').getAttribute('aria-pressed')") == "true"
    time.sleep(1.5)  # for what is under way
    before = page.text("#tiles")
    time.sleep(2.5)
    assert page.text("#tiles") == before
    assert "paused" in page.text("header")
    page.run("document.querySelector('#pause').click()")
    page.wait(f"document.querySelector('#tiles').innerText !== {json.dumps(before)}", "going on")


def test_nothing_is_offered_for_speech_without_a_model_for_it(page):
    assert page.run("document.querySelector('#speech').hidden && document.querySelector('#speech-link').hidden")
