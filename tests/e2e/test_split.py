"""Models in several GGUF files: they answer as the one file does, to the byte; and whatever is wrong with one of the files
is said in one line with its name."""

import os
import shutil
import sys

import pytest

import weightd

sys.path.insert(0, str(weightd.TOP / "tests/tools"))
from split_gguf import split  # noqa: E402


@pytest.fixture
def parts(tiny, tmp_path):
    """A small model in three files that a test may do to what it likes."""
    return split(tiny, 3, tmp_path, stem="tiny")


def complete(daemon, model, prompt, n=24):
    body = {"model": model, "prompt": prompt, "max_tokens": n, "temperature": 0, "ignore_eos": True}
    return daemon.http.post("/v1/completions", {**body, "return_token_ids": True, "logprobs": 3}).ok()["choices"]


def test_a_real_model_in_three_files_answers_as_in_one(start, model, golden, tmp_path):
    daemon = start({"whole": model, "split": split(model, 3, tmp_path)[0]})
    status = {entry["name"]: entry for entry in daemon.status()["models"]}
    assert status["split"]["digest"] == status["whole"]["digest"]
    for case in golden["greedy"][:3]:
        assert complete(daemon, "split", case["prompt"]) == complete(daemon, "whole", case["prompt"])


def test_many_parts(start, tiny, tmp_path):
    """As many as there are tensors: more than fit one message to the loader."""
    daemon = start({"whole": tiny, "split": split(tiny, 20, tmp_path)[0]})
    status = {entry["name"]: entry for entry in daemon.status()["models"]}
    assert status["split"]["digest"] == status["whole"]["digest"]


def fault(start, path):
    """Starts with a model that cannot be loaded; what is said of it."""
    daemon = start({"tiny": path}, ready=False)
    assert daemon.process.wait(60) == 1
    (line,) = [line for line in daemon.log().splitlines() if "model 'tiny': " in line and "loading" not in line]
    assert not daemon.segments()
    daemon.clean()
    return line.partition("model 'tiny': ")[2]


@pytest.mark.parametrize("which", range(3))
def test_a_part_that_is_missing(start, parts, which):
    parts[which].unlink()
    assert fault(start, parts[0]) == f"cannot open {parts[which]}: No such file or directory"


SPOILED = {
    "empty": (lambda path: path.write_bytes(b""), "offset 0: header, magic: the file is empty"),
    "no GGUF": (lambda path: path.write_bytes(b"GGUG" + path.read_bytes()[4:]), "offset 0: header, magic: not a GGUF file"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-100]), "offset "),
}


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("how", SPOILED)
def test_a_part_that_is_spoiled(start, parts, how, which):
    spoil, reason = SPOILED[how]
    spoil(parts[which])
    assert f"{parts[0].name}: {parts[which].name}: {reason}" in fault(start, parts[0])


def test_parts_that_do_not_belong_together(start, tiny, parts, tmp_path):
    (tmp_path / "more").mkdir()
    more = split(tiny, 4, tmp_path / "more", stem="tiny")
    shutil.copy(more[1], parts[1])
    assert f"{parts[1].name}: key 'split.count', value: is 4, by its name it is one of 3" in fault(start, parts[0])
    shutil.copy(parts[2], parts[1])
    assert f"{parts[1].name}: key 'split.no', value: is 2, by its name it should be 1" in fault(start, parts[0])


def test_the_first_part_has_to_be_named(start, parts):
    assert f"by its name {parts[1]} is part 2 of 3; it has to name the first, ...-00001-of-00003.gguf" in fault(start, parts[1])


def test_a_part_under_another_name_is_not_taken_for_a_model(start, parts, tmp_path):
    shutil.copy(parts[0], tmp_path / "renamed.gguf")
    reason = fault(start, tmp_path / "renamed.gguf")
    assert "the model is in 3 files" in reason and "renamed.gguf should end in -00001-of-00003.gguf" in reason


def test_a_part_that_is_a_pipe_stops_nothing(start, tiny, parts):
    """Opening it would wait for a writer for ever, if it was opened as other files are."""
    parts[1].unlink()
    os.mkfifo(parts[1])
    daemon = start({"split": parts[0], "tiny": tiny}, ready=False)
    daemon.wait_for(lambda: f"{parts[1].name}: not a regular file" in daemon.log(), "told of the pipe")
    daemon.wait_for(lambda: daemon.health()[0] is not None, "answering")
    daemon.wait_for(lambda: [m["state"] for m in daemon.status()["models"]] == ["failed", "ready"], "serving the other")
    assert complete(daemon, "tiny", "a b c")
