"""The store of fdstore.py is as strict as systemd's, and the unit that is shipped asks for the store that it promises."""

import array
import os
import re
import socket
import subprocess
import sys

import fdstore
import pytest

STORE = "FDSTORE=1\nFDNAME=weightd.i.m.g1.n0"


@pytest.fixture
def store(tmp_path):
    made = fdstore.Store(tmp_path, room=2)
    made.hear(os.getpid())
    yield made
    made.close()


@pytest.fixture
def memfd():
    made = []

    def make():
        made.append(os.memfd_create("x"))
        return made[-1]

    yield make
    for fd in made:
        os.close(fd)


def send(store, text, fds=()):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        client.sendmsg([text.encode("latin-1")], rights, 0, store.path)


def refused(store, text, fds=()):
    """Sends and returns why it was not taken."""
    before = len(store.refused)
    send(store, text, fds)
    store.wait_for(lambda: len(store.refused) > before, "a refusal")
    return store.refused[-1][1]


def test_what_is_right_is_kept_and_removed(store, memfd):
    send(store, STORE, [memfd()])
    store.wait_for(lambda: [name for name, _ in store.held] == ["weightd.i.m.g1.n0"], "kept")
    send(store, "FDSTOREREMOVE=1\nFDNAME=weightd.i.m.g1.n0")
    store.wait_for(lambda: not store.held, "removed")
    assert not store.refused


@pytest.mark.parametrize("name", ["weightd.i.a:b.g1.n0", "a\x01b", "a\x7fb", "gr\xfcn", "n" * 256])
def test_a_bad_name_is_not_the_descriptors_name(store, memfd, name):
    assert "FDNAME= is invalid" in refused(store, f"FDSTORE=1\nFDNAME={name}", [memfd()])
    store.wait_for(lambda: [held for held, _ in store.held] == ["stored"], "kept under the name of the nameless")
    assert "valid FDNAME=" in refused(store, f"FDSTOREREMOVE=1\nFDNAME={name}")
    assert store.held


def test_the_longest_name_is_one(store, memfd):
    send(store, "FDSTORE=1\nFDNAME=" + "n" * 255, [memfd()])
    store.wait_for(lambda: store.held, "kept")
    assert not store.refused


def test_a_message_has_a_size(store, memfd):
    assert "longer than 4096" in refused(store, STORE + "\nX=" + "x" * 4096, [memfd()])
    assert "NUL" in refused(store, STORE + "\n\0X=1", [memfd()])
    assert not store.held and not store.messages


def test_removing_needs_a_name(store):
    assert "valid FDNAME=" in refused(store, "FDSTOREREMOVE=1")


def test_storing_needs_a_descriptor(store):
    assert "without a descriptor" in refused(store, STORE)


def test_the_store_has_a_size(store, memfd):
    for number in range(2):
        send(store, f"FDSTORE=1\nFDNAME={number}", [memfd()])
    store.wait_for(lambda: len(store.held) == 2, "full")
    assert "FileDescriptorStoreMax=2" in refused(store, STORE, [memfd()])


def test_without_file_descriptor_store_max_nothing_is_kept(store, memfd):
    unit = re.sub(r"^FileDescriptorStoreMax=.*\n", "", fdstore.UNIT.read_text(), flags=re.MULTILINE)
    store.room = fdstore.store_max(unit)
    assert "no FileDescriptorStoreMax=" in refused(store, STORE, [memfd()])
    assert "FDSTORE" not in store.environment()


def test_one_descriptor_is_kept_once_and_two_openings_are_two(store, memfd):
    fd = memfd()
    send(store, STORE, [fd])
    assert "already" in refused(store, "FDSTORE=1\nFDNAME=other", [fd])
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    send(store, STORE, [again])
    store.wait_for(lambda: len(store.held) == 2, "kept")
    os.close(again)


def test_only_the_main_process_is_heard(store):
    code = "import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'READY=1', sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, store.path], check=True)
    store.wait_for(lambda: store.refused, "a refusal")
    assert "NotifyAccess=main" in store.refused[0][1] and not store.messages


def test_the_unit_promises_what_it_asks_for():
    unit = fdstore.UNIT.read_text()
    promised = re.findall(r"^Environment=FDSTORE=(\d+)$", unit, re.MULTILINE)
    assert promised == [str(fdstore.store_max(unit))] and int(promised[0]) > 0
    assert re.search(r"^Type=notify$", unit, re.MULTILINE)
    assert set(re.findall(r"^NotifyAccess=(.*)$", unit, re.MULTILINE)) <= {"main"}
