"""Settings as the daemon's own command line shows them."""

import os
import subprocess

import pytest

import weightd


def run(*arguments, **environment):
    return subprocess.run(
        [weightd.WEIGHTD, *arguments], capture_output=True, text=True, timeout=30, env={**os.environ, **environment}
    )


def check(tmp_path, text, *more):
    path = tmp_path / "weightd.conf"
    path.write_text(text)
    return run("--check-config", "--config", path, *more)


def test_the_sample_is_what_help_config_prints(tmp_path):
    sample = (weightd.TOP / "conf/weightd.conf").read_text()
    assert run("--help-config").stdout == sample
    assert check(tmp_path, sample).returncode == 0


@pytest.mark.parametrize(
    "line, words",
    [
        ("listen = 0.0.0.0:80", "weightd.conf:2: listen: '0.0.0.0' is not a loopback address"),
        ("max_queu = 3", "did you mean 'max_queue'?"),
        ("threads = 0x3", "weightd.conf:2: threads: '0x3' is not understood; allowed: auto or 1 to 1024"),
        ("threads", "expected 'key = value'"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, words):
    for arguments in (("--check-config",), ()):  # starting refuses the same
        path = tmp_path / "weightd.conf"
        path.write_text(f"[weightd]\n{line}\n")
        result = run(*arguments, "--config", path)
        assert result.returncode == 2 and words in result.stderr and len(result.stderr.splitlines()) == 1


def test_what_is_printed_can_be_read(tmp_path):
    path = tmp_path / "weightd.conf"
    path.write_text("[weightd]\nthreads = 3\n[model m]\npath = m.gguf\n")
    printed = run("--print-config", "--config", path, "--set", "kv_bytes=64M", "--set", f"model_dir={tmp_path}").stdout
    assert "threads = 3\n" in printed and "kv_bytes = 64M\n" in printed and f"path = {tmp_path}/m.gguf\n" in printed
    assert check(tmp_path, printed).returncode == 0
    assert run("--print-config", "--config", path).stdout == printed
    assert check(tmp_path, printed, "--set", "kv_bytes=lots").returncode == 2


def test_systemds_directories_are_used(tmp_path):
    printed = run(
        "--print-config", "--config", os.devnull, RUNTIME_DIRECTORY="/run/blue", STATE_DIRECTORY="/var/lib/blue:/other"
    ).stdout
    assert "socket = /run/blue/weightd.sock\n" in printed and "control_socket = /run/blue/control.sock\n" in printed
    assert "model_dir = /var/lib/blue/models\n" in printed


def test_a_socket_path_too_long_for_the_kernel(tmp_path):
    result = run("--check-config", "--config", os.devnull, RUNTIME_DIRECTORY="/run/" + "x" * 120)
    assert result.returncode == 2 and "too long for a socket" in result.stderr


def test_without_a_model_it_says_what_to_do(tmp_path):
    path = tmp_path / "weightd.conf"
    path.write_text(
        f"[weightd]\ninstance = none{os.getpid()}\nmodel_dir = {tmp_path}\nsocket = {tmp_path}/s\ncontrol_socket = {tmp_path}/c\n"
    )
    result = run("--config", path)
    assert result.returncode == 1 and "weightctl pull" in result.stderr


def test_a_level_that_cannot_compute_as_told_is_refused_before_anything_is_loaded(tmp_path):
    path = tmp_path / "weightd.conf"
    path.write_text(
        f"[weightd]\ninstance = testlevel\nsocket = {tmp_path}/s\ncontrol_socket = {tmp_path}/c\n"
        f"cpu_level = avx2\nnumerics = bf16\n[model m]\npath = {tmp_path}/m.gguf\n"
    )
    result = run("--config", path)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1
    assert "avx2" in result.stderr and ("numerics = bf16" in result.stderr or "this CPU offers" in result.stderr)
    assert not (tmp_path / "s").exists()


def test_int8_where_a_level_lacks_it_is_refused_by_name(tmp_path):
    path = tmp_path / "weightd.conf"
    path.write_text(f"[weightd]\ncpu_level = avx2\nnumerics = int8\n[model m]\npath = {tmp_path}/m.gguf\n")
    result = run("--config", path)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1
    assert "numerics = int8 is not served by cpu_level avx2" in result.stderr or "this CPU offers" in result.stderr


@pytest.mark.parametrize("option", ["--help", "--version", "--help-config", "--print-config"])
def test_output_that_cannot_be_written_is_no_success(option):
    with open("/dev/full", "w") as full:
        result = subprocess.run([weightd.WEIGHTD, option], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1 and "No space left" in result.stderr
