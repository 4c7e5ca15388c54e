"""Fixtures of the end-to-end tests. They need the built programs (WEIGHTD_BUILD) and the pulled default model; a missing
one is an error, never a skip."""

import json
import subprocess
import sys

import pytest

import weightd


def pytest_sessionstart(session):
    for program in (weightd.WEIGHTD, weightd.WEIGHTCTL):
        if not program.exists():
            pytest.exit(f"{program} is missing: build first, or set WEIGHTD_BUILD", returncode=2)


@pytest.fixture(scope="session")
def golden():
    return json.loads((weightd.TOP / "tests/golden/smollm2-135m-instruct-q4_1.json").read_text())


@pytest.fixture(scope="session")
def model():
    """The default model's file, fetched if it is not there yet."""
    path = weightd.model_dir() / weightd.MODEL_FILE
    if not path.exists():
        subprocess.run(
            [weightd.WEIGHTCTL, "pull", "smollm2", "--dir", path.parent, "--catalogue", weightd.CATALOGUE], check=True
        )
    return path


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A random model of a few hundred kilobytes with everything a real one has."""
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    subprocess.run([sys.executable, weightd.TOP / "tests/tools/tiny_gguf.py", path], check=True)
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
    running = weightd.Daemon({"smollm2": model})
    try:
        running.wait_ready()
        yield running
    except BaseException:
        running.kill()
        raise
    running.stop()


@pytest.fixture
def http(daemon):
    return daemon.http
