"""Fixtures of the end-to-end tests. They need the built programs (WEIGHTD_BUILD) and the pulled default model; a missing
one is an error, never a skip.

With --long the tests that count (seeds, clients, rounds) take their larger numbers. What such a test did it tells
`record`; the table is printed at the end, and --result=FILE writes it down with machine, commit and outcome."""

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import weightd


recorded = []  # (test, what, count, unit), in the order of the tests


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="larger numbers where a test counts seeds, clients or rounds")
    parser.addoption("--result", metavar="FILE", help="write the table of what was counted to this file")


def pytest_sessionstart(session):
    for program in (weightd.WEIGHTD, weightd.WEIGHTCTL):
        if not program.exists():
            pytest.exit(f"{program} is missing: build first, or set WEIGHTD_BUILD", returncode=2)


def table():
    widths = [max(len(str(row[column])) for row in recorded) for column in range(3)]
    return [
        f"{test:{widths[0]}}  {what:{widths[1]}}  {count:>{widths[2]}} {unit}" for test, what, count, unit in recorded
    ]


def line_of(command):
    """The first line that a program says, or what kept it from saying any."""
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=weightd.TOP).stdout.partition("\n")[0]
    except OSError as error:
        return str(error)


def processor():
    """As lscpu has it, which reads the same file."""
    text = Path("/proc/cpuinfo").read_text()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else "unknown"


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    if not recorded:
        return
    counts = {outcome: len(terminalreporter.stats.get(outcome, [])) for outcome in ("passed", "failed", "error", "skipped")}
    terminalreporter.section("what was counted")
    for line in table():
        terminalreporter.write_line(line)
    if not config.getoption("result"):
        return
    lines = [
        f"date     {datetime.date.today().isoformat()}",
        f"commit   {line_of(['git', 'describe', '--always', '--dirty'])}",
        f"machine  {processor()}, Linux {os.uname().release}",
        f"counts   {'long' if config.getoption('long') else 'short'}",
        f"outcome  {', '.join(f'{count} {outcome}' for outcome, count in counts.items() if count)}",
        "",
        *table(),
    ]
    Path(config.getoption("result")).write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def amount(request):
    """amount(short, long): how much of something this run does."""
    return lambda short, long: long if request.config.getoption("long") else short


@pytest.fixture
def record(request):
    """record(what, count, unit): a line of the table at the end."""
    return lambda what, count, unit: recorded.append((request.node.name, what, count, unit))


@pytest.fixture(scope="session")
def golden():
    return json.loads((weightd.TOP / "tests/golden/smollm2-135m-instruct-q4_1.json").read_text())


def pulled(name, file):
    """A model's file, fetched if it is not there yet."""
    path = weightd.model_dir() / file
    if not path.exists():
        subprocess.run([weightd.WEIGHTCTL, "pull", name, "--dir", path.parent, "--catalogue", weightd.CATALOGUE], check=True)
    return path


@pytest.fixture(scope="session")
def model():
    """The default model's file."""
    return pulled("smollm2", weightd.MODEL_FILE)


@pytest.fixture(scope="session")
def gemma3():
    """A real model of another family, without a chat template."""
    return pulled("gemma3-270m", "gemma3-270m.gguf")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A random model of a few hundred kilobytes with everything a real one has."""
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    subprocess.run([sys.executable, weightd.TOP / "tests/tools/tiny_gguf.py", path], check=True)
    return path


# As Hermes and Qwen write it: tools in the system's turn, calls and results in tags.
HERMES_TEMPLATE = """{%- if tools %}{{- '<|im_start|>system\\n# Tools\\n' }}{%- for tool in tools %}{{- tool | tojson }}{%- endfor %}
{{- '\\nCall one as <tool_call>\\n{"name": ..., "arguments": ...}\\n</tool_call><|im_end|>\\n' }}{%- endif %}
{%- for message in messages %}{%- if message.role == 'assistant' and message.tool_calls %}
{{- '<|im_start|>assistant' }}{%- for call in message.tool_calls %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}{{- call.function.arguments | tojson }}
{{- '}\\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}{{- '<|im_start|>user\\n<tool_response>' + message.content + '</tool_response><|im_end|>\\n' }}
{%- else %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- if think %}{{- '<think>\\n' }}{%- endif %}{%- endif %}"""


@pytest.fixture(scope="session")
def hermes_model(tmp_path_factory):
    """Its template alone tells that it calls tools; its <tool_call> is a control token, which is no text elsewhere."""
    directory = tmp_path_factory.mktemp("hermes")
    template = directory / "template.jinja"
    template.write_text(HERMES_TEMPLATE)
    path = directory / "hermes.gguf"
    tiny = [sys.executable, weightd.TOP / "tests/tools/tiny_gguf.py"]
    subprocess.run([*tiny, "--template", template, "--control-token", "<tool_call>", path], check=True)
    return path


@pytest.fixture
def start():
    """start(models, settings, ...) starts a daemon; after the test all are stopped, with the checks of Daemon.stop."""
    daemons = []

    def begin(models, settings=None, ready=True, **more):
        daemon = weightd.Daemon(models, settings, **more)
        daemons.append(daemon)
        if ready:
            daemon.wait_ready()
        return daemon

    yield begin
    problems = []
    for daemon in daemons:
        if daemon.directory.exists():
            try:
                daemon.stop()
            except AssertionError as problem:
                problems.append(str(problem))
    assert not problems, "\n".join(problems)


@pytest.fixture(scope="session")
def daemon(model):
    """One daemon with the default model and default settings for all tests that only ask."""
    with weightd.running({"smollm2": model}) as running:
        yield running


@pytest.fixture
def http(daemon):
    return daemon.http
