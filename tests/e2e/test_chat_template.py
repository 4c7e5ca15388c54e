"""The key chat_template: a template of the administrator's in place of the model's own, or for a model that has none."""

import inotify
import pytest
from test_restart import Lives

GEMMA = """{{ bos_token }}
{%- for message in messages %}
{%- set role = 'model' if message.role == 'assistant' else message.role %}
<start_of_turn>{{ role }}
{{ message.content | trim }}<end_of_turn>
{%- endfor %}
{%- if add_generation_prompt %}
<start_of_turn>model
{% endif %}
"""
MESSAGES = [
    {"role": "user", "content": " Say: dog "},
    {"role": "assistant", "content": "dog"},
    {"role": "user", "content": "Say: čočka"},
]
RENDERED = (
    "<bos><start_of_turn>user\nSay: dog<end_of_turn><start_of_turn>model\ndog<end_of_turn>"
    "<start_of_turn>user\nSay: čočka<end_of_turn><start_of_turn>model\n"
)


@pytest.fixture
def template(tmp_path):
    path = tmp_path / "chat.jinja"
    path.write_text("{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]")
    return path


def chat(daemon, n=16, messages=MESSAGES):
    return daemon.http.post("/v1/chat/completions", {"messages": messages, "max_tokens": n, "temperature": 0})


def test_a_model_without_one(start, gemma3, tmp_path):
    path = tmp_path / "gemma.jinja"
    path.write_text(GEMMA)
    bare = start({"gemma": gemma3})
    assert "chat_template" in chat(bare).error(400)["message"]
    bare.stop()
    daemon = start({"gemma": {"path": gemma3, "chat_template": path}})
    rendered = daemon.http.post("/apply-template", {"messages": MESSAGES}).ok()["prompt"]
    assert rendered == RENDERED
    tokens = daemon.http.post("/tokenize", {"content": rendered, "add_special": False, "parse_special": True}).ok()["tokens"]
    answer = chat(daemon).ok()
    assert answer["usage"]["prompt_tokens"] == len(tokens)
    # <bos> and the turns are one token each.
    assert len(tokens) == 1 + sum(
        len(daemon.http.post("/tokenize", {"content": text, "add_special": False, "parse_special": True}).ok()["tokens"])
        for text in RENDERED.removeprefix("<bos>").replace("<start_of_turn>", "\0<start_of_turn>").split("\0")
        if text
    )
    body = {"prompt": tokens, "max_tokens": 16, "temperature": 0}
    assert daemon.http.post("/v1/completions", body).ok()["choices"][0]["text"] == answer["choices"][0]["message"]["content"]


def test_in_place_of_the_models_own(start, model, template):
    daemon = start({"smollm2": {"path": model, "chat_template": template}})
    rendered = daemon.http.post("/apply-template", {"messages": MESSAGES}).ok()["prompt"]
    assert rendered == "[user]  Say: dog \n[assistant] dog\n[user] Say: čočka\n[assistant]"
    answer = chat(daemon).ok()["choices"][0]["message"]["content"]
    body = {"prompt": rendered, "max_tokens": 16, "temperature": 0}
    assert daemon.http.post("/v1/completions", body).ok()["choices"][0]["text"] == answer


WRONG = {
    "a tag without an end": (b"{% if true %}\n\n{{ x", "chat.jinja: line 3: "),
    "a block without an end": (b"one\n{% for m in messages %}{{ m }}", "chat.jinja: line 2: "),
    "a filter nobody has": (b"\n\n\n{{ messages | nonesuch }}", "chat.jinja: line 4: "),
    "not UTF-8": (b"line one\nline two \xff", "chat.jinja: line 2: not UTF-8 at byte 18"),
    "cut UTF-8": (b"one\n\xe2\x82", "chat.jinja: line 2: not UTF-8 at byte 4"),
    "empty": (b"", "chat.jinja: line 1: a chat template is wanted, the file is empty"),
    "too long": (b" " * (2**20 + 1), "chat.jinja: a chat template has at most 1048576 bytes"),
}


@pytest.mark.parametrize("what", [*WRONG, "missing", "a directory"])
def test_a_wrong_one_fails_the_load(start, tiny, template, what):
    if what in WRONG:
        template.write_bytes(WRONG[what][0])
    else:
        template.unlink()
    if what == "a directory":
        template.mkdir()
    daemon = start({"tiny": {"path": tiny, "chat_template": template}}, ready=False)
    assert daemon.process.wait(60) == 1
    (line,) = [line for line in daemon.log().splitlines() if " error " in line and "model 'tiny': " in line]
    expected = {"missing": f"cannot open {template}: No such file", "a directory": "chat.jinja: not a regular file"}
    reason = expected.get(what) or WRONG[what][1]
    assert reason in line, line
    assert not daemon.segments()
    daemon.clean()


def test_a_relative_path_is_refused(start, tiny):
    daemon = start({"tiny": {"path": tiny, "chat_template": "chat.jinja"}}, ready=False)
    assert daemon.process.wait(60) == 2
    assert "chat_template: 'chat.jinja' is not an absolute path" in daemon.log()
    daemon.clean()


def test_it_is_part_of_a_copy(start, tiny, template):
    life = Lives(start, {"tiny": {"path": tiny, "chat_template": template}})
    try:
        prompt = lambda: life.daemon.http.post("/apply-template", {"messages": MESSAGES[:1]}).ok()["prompt"]  # noqa: E731
        life.start()
        first = prompt()
        life.crash()
        with inotify.Watch(template) as template_watch, inotify.Watch(tiny) as model_watch:
            life.start()
            assert life.model()["adopted"] is True and prompt() == first
            assert not template_watch.seen() and not model_watch.seen()
        life.crash()
        template.write_text("changed: {{ messages[0].content }}")
        life.start()
        assert life.model()["adopted"] is False and prompt() == "changed:  Say: dog "
        assert "file 2 of 2 of its source was changed or replaced since" in life.daemon.log()
        life.crash()
        life.models = {"tiny": tiny}
        life.start()
        assert life.model()["adopted"] is False and prompt() not in (first, "changed:  Say: dog ")
        assert "its source had 2 files, now there are 1" in life.daemon.log()
    finally:
        life.daemon.stop()
        life.clean()
