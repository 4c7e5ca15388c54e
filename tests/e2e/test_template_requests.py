"""What a chat template may do to a request: refuse it in its own words, ask it for the date, and take long without
holding up what runs."""

import threading

ASKING = """
{%- if messages[0].role != 'user' -%}{{ raise_exception('Conversations begin with a user, not ' ~ messages[0].role) }}{%- endif -%}
{%- if strftime_now is defined -%}{{ strftime_now('%d %B %Y') }}{%- else -%}some day{%- endif -%}: {{ messages[0].content }}"""
USER = [{"role": "user", "content": "hello"}]


def apply(daemon, messages, status=200, **kwargs):
    body = {"messages": messages, **({"chat_template_kwargs": kwargs} if kwargs else {})}
    answer = daemon.http.post("/apply-template", body)
    return answer.ok()["prompt"] if status == 200 else answer.error(status)


def test_a_templates_own_words_and_dates(start, tiny, tmp_path):
    path = tmp_path / "chat.jinja"
    path.write_text(ASKING)
    daemon = start({"tiny": {"path": tiny, "chat_template": path}})
    wrong = [{"role": "assistant", "content": "hello"}]
    said = "Conversations begin with a user, not assistant"
    for target in ("/apply-template", "/v1/chat/completions"):
        error = daemon.http.post(target, {"messages": wrong}).error(400)
        assert (error["message"], error["param"]) == (said, "messages")
    assert apply(daemon, USER) == "some day: hello"
    assert apply(daemon, USER, now="2026-11-30") == "30 November 2026: hello"
    assert "'now' must be a date" in apply(daemon, USER, 400, now="today")["message"]
    body = {"messages": USER, "max_tokens": 4, "temperature": 0}
    daemon.http.post("/v1/chat/completions", body).ok()
    path.write_text("{{ strftime_now('%Y') }}")
    unconditional = start({"tiny": {"path": tiny, "chat_template": path}})
    assert '"now": "2026-11-30"' in apply(unconditional, USER, 400)["message"]
    assert apply(unconditional, USER, now="2026-11-30") == "2026"


def test_a_long_rendering_and_a_stream_beside_it(start, model, tmp_path):
    """Millions of steps: in one piece the stream would get no token meanwhile, or the one that was on its way."""
    path = tmp_path / "chat.jinja"
    path.write_text("{% for a in range(2900) %}{% for b in range(2900) %}{% endfor %}{% endfor %}{{ messages[0].content }}")
    daemon = start({"smollm2": {"path": model, "chat_template": path}})
    events, begun = [], threading.Event()
    body = {"prompt": "Once", "max_tokens": 600, "ignore_eos": True, "temperature": 0}

    def listen():
        for event in daemon.http.stream("/v1/completions", body):
            events.append(event)
            begun.set()

    listener = threading.Thread(target=listen)
    listener.start()
    assert begun.wait(60)
    before = len(events)
    assert apply(daemon, USER) == "hello"
    meanwhile = len(events) - before
    assert listener.is_alive(), "the stream ended before the template did"
    assert meanwhile >= 5, f"{meanwhile} tokens"
    listener.join(120)
    assert events[-1]["choices"][0]["finish_reason"] == "length"
