"""Restart without reload: what an earlier daemon left is adopted when a load could not make it any better, without a look
at the model's file; and whatever is wrong with it is found, removed and loaded again."""

import contextlib
import glob
import os
import shutil
import signal
import socket
import struct
import sys
import time

import pytest

import inotify
import weightd
from fdstore import Store

sys.path.insert(0, str(weightd.TOP / "tests/tools"))
from split_gguf import split  # noqa: E402

HEADER, GENERATION, PUBLISHED, ISA = 4096, 12, 60, 64  # of shm/layout.h
ROOT = os.geteuid() == 0


class Lives:
    """Daemons of one instance, one after the other."""

    def __init__(self, start, models, settings=None, store=None, instance=None):
        self.begin, self.models, self.store = start, models, store
        self.instance = instance or "restart" + os.urandom(4).hex()
        # A busy machine is no reason to restart a worker here.
        self.settings = {"instance": self.instance, "hang_seconds": 120, **(settings or {})}
        self.daemon, self.listener = None, None

    def start(self, ready=True, **settings):
        settings = {**self.settings, **settings}
        if self.store:
            self.daemon = self.store.start(self.begin, self.models, settings, listener=self.listener, ready=False)
        else:
            self.daemon = self.begin(self.models, settings, ready=False)
        self.daemon.instance = self.instance
        if ready:
            self.daemon.wait_ready()
        return self.daemon

    def crash(self):
        """kill -9 of the parent; its children follow."""
        pids = self.daemon.processes()
        self.daemon.process.kill()
        self.daemon.process.wait()
        end = time.monotonic() + 10
        while any(os.path.exists(f"/proc/{pid}") for pid in pids):
            assert time.monotonic() < end, "children outlive their parent"
            time.sleep(0.01)
        self.forget()

    def terminate(self):
        """An orderly stop, as systemd's; what is left is the test's business."""
        self.daemon.process.send_signal(signal.SIGTERM)
        assert self.daemon.process.wait(45) == 0, self.daemon.log()
        self.forget()

    def forget(self):
        self.daemon.log_file.close()
        shutil.rmtree(self.daemon.directory)

    def model(self):
        return self.daemon.status()["models"][0]

    def segments(self):
        return sorted(path for path in glob.glob(f"/dev/shm/weightd.{self.instance}.*") if not path.endswith(".lock"))

    def only_segment(self):
        (path,) = self.segments()
        return path

    def clean(self):
        for path in glob.glob(f"/dev/shm/weightd.{self.instance}.*"):
            os.unlink(path)


@pytest.fixture
def lives(start):
    made = []

    def make(*arguments, **more):
        made.append(Lives(start, *arguments, **more))
        return made[-1]

    yield make
    for each in made:
        if each.daemon and each.daemon.directory.exists():
            each.daemon.stop()
        each.clean()


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path)
    yield made
    made.close()
    assert not made.refused, "systemd would not have taken that"


@pytest.fixture
def own_tiny(tiny, tmp_path):
    """A model file that a test may do to what it likes."""
    return shutil.copy2(tiny, tmp_path / "tiny.gguf")


@pytest.fixture
def own_model(model, tmp_path):
    """The real one, but with an inode that nobody else on the machine opens."""
    yield shutil.copy2(model, tmp_path / "model.gguf")
    os.unlink(tmp_path / "model.gguf")


def answer(daemon, prompt="a b c", n=12):
    body = {"prompt": prompt, "max_tokens": n, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    return daemon.http.post("/v1/completions", body).ok()["choices"]


def timed_ready(life, **settings):
    """Starts and returns the seconds until /health said 200."""
    began = time.monotonic()
    daemon = life.start(ready=False, **settings)
    while daemon.health()[0] != 200:
        assert daemon.process.poll() is None and time.monotonic() < began + 60, daemon.log()
        time.sleep(0.005)
    return time.monotonic() - began


def test_after_a_crash_the_weights_are_adopted(lives, own_model, golden):
    life = lives({"smollm2": own_model})
    cases = sorted(golden["greedy"], key=lambda case: len(case["prompt_ids"]))[:3]
    before = life.start()
    assert life.model()["restart"] == "adopt" and life.model()["adopted"] is False
    load = life.model()["load"]
    assert load["file_bytes"] == os.path.getsize(own_model) and load["threads"] >= 1
    assert 0 < load["wait_us"] <= load["fill_us"] < load["total_us"] and load["limit"] in ("reading", "packing")
    assert abs(load["bytes_per_second"] * load["fill_us"] / 1e6 / load["file_bytes"] - 1) < 0.01
    assert f"{load['limit']} is the limit" in before.log()
    answers, first = [answer(before, case["prompt"], 8) for case in cases], life.model()
    # The recorded ones; two tokens may be nearly equal somewhere (see test_golden.py).
    assert sum(case["text"].startswith(own[0]["text"]) for case, own in zip(cases, answers)) >= 2
    inode = os.stat(life.only_segment()).st_ino
    life.crash()
    assert os.stat(life.only_segment()).st_ino == inode
    times = []
    for _ in range(3):
        with inotify.Watch(own_model) as watch:
            times.append(timed_ready(life))
            assert [answer(life.daemon, case["prompt"], 8) for case in cases] == answers
            assert not watch.seen(), "the model's file was touched"
        again = life.model()
        assert again["adopted"] is True and again["restart"] == "adopt" and "load" not in again
        assert again["digest"] == first["digest"] and again["copies"][0]["placement"] == "verified"
        assert again["architecture"] == first["architecture"] and again["context_tokens"] == first["context_tokens"]
        assert os.stat(life.only_segment()).st_ino == inode
        assert f": adopted {again['copies'][0]['bytes'] / 2**20:.1f} MiB" in life.daemon.log()
        assert "loading model" not in life.daemon.log()
        if len(times) < 3:
            life.crash()
    print("ready after", [f"{seconds:.3f} s" for seconds in times])
    assert min(times) < 1, times


def test_the_watch_sees_a_load(lives, tiny):
    """So that the silence above means something."""
    life = lives({"tiny": tiny})
    with inotify.Watch(tiny) as watch:
        life.start()
        assert watch.seen() >= {"open"}


# --- every single thing that can be wrong with a leftover ---------------------------------------------------------------


def rewrite(path, at, value):
    """As the owner can: mode and all else are as before."""
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(value)
    os.chmod(path, 0o440)


def resize(path, change):
    os.chmod(path, 0o600)
    os.truncate(path, max(os.stat(path).st_size + change, 0))
    os.chmod(path, 0o440)


def flip_last_tensor(path, _):
    with open(path, "rb") as file:
        image = file.read()[HEADER:]
    n_tensors, tensors = struct.unpack_from("<I", image, 12)[0], struct.unpack_from("<Q", image, 24)[0]
    offset, n_bytes = max(struct.unpack_from("<QQ", image, tensors + 40 * i + 24) for i in range(n_tensors))
    at = offset + n_bytes - 1
    rewrite(path, HEADER + at, bytes([image[at] ^ 1]))


def replace_source(_, source):
    shutil.copy2(source, str(source) + ".new")
    os.replace(str(source) + ".new", source)


SPOILED = {
    "a flipped byte": (flip_last_tensor, "do not have the digest"),
    "grown": (lambda path, _: resize(path, 4096), "the rest are holes"),
    "truncated": (lambda path, _: resize(path, -4096), "total_bytes"),
    "empty": (lambda path, _: resize(path, -(1 << 40)), "is no segment's size"),
    "not a whole page": (lambda path, _: resize(path, 1), "is no segment's size"),
    "mode": (lambda path, _: os.chmod(path, 0o444), "its mode is 0444"),
    "two names": (lambda path, _: os.link(path, path + ".second"), "it has 2 names"),
    "unpublished": (lambda path, _: rewrite(path, PUBLISHED, bytes(4)), "published"),
    "generation": (lambda path, _: rewrite(path, GENERATION, struct.pack("<I", 2)), "of generation 2"),
    "isa": (lambda path, _: rewrite(path, ISA, struct.pack("<I", 99)), "packed for ISA 99"),
    "source's mtime": (lambda _, source: os.utime(source, (1, 1)), "file 1 of 1 of its source was changed or replaced since"),
    "source's content": (lambda _, source: os.truncate(source, os.stat(source).st_size), "file 1 of 1 of its source was changed or replaced since"),
    "source replaced": (replace_source, "file 1 of 1 of its source was changed or replaced since"),
}
if ROOT:
    SPOILED["group"] = (lambda path, _: os.chown(path, -1, 12345), "its group is 12345")


@pytest.mark.parametrize("what", [None, *SPOILED])
def test_a_leftover_with_one_thing_wrong_is_loaded_again(lives, own_tiny, what):
    life = lives({"tiny": own_tiny})
    expected = answer(life.start())
    life.crash()
    path = life.only_segment()
    kept = os.open(path, os.O_RDONLY)  # so that its inode's number is not used again
    before = os.fstat(kept)
    if what:
        spoil, reason = SPOILED[what]
        spoil(path, own_tiny)
    with inotify.Watch(own_tiny) as watch:
        life.start()
        touched = watch.seen()
    after = os.stat(path)
    log = life.daemon.log()
    assert answer(life.daemon) == expected
    assert life.model()["copies"][0]["placement"] == "verified"
    if what is None:  # the rule that the others are exceptions to
        assert life.model()["adopted"] is True and not touched and after.st_ino == before.st_ino
    else:
        assert life.model()["adopted"] is False and "open" in touched
        assert f"{path[8:]} is not adopted: " in log and reason in log, log
        assert after.st_ino != before.st_ino and os.fstat(kept).st_nlink == (1 if what == "two names" else 0)
        assert after.st_mode & 0o7777 == 0o440 and after.st_nlink == 1
    os.close(kept)
    if what == "two names":
        os.unlink(path + ".second")


def test_every_part_of_a_split_model_counts(lives, tiny, tmp_path):
    parts = split(tiny, 3, tmp_path)
    life = lives({"tiny": parts[0]})
    expected = answer(life.start())
    life.crash()
    with contextlib.ExitStack() as stack:
        watches = [stack.enter_context(inotify.Watch(part)) for part in parts]
        life.start()
        assert answer(life.daemon) == expected and life.model()["adopted"] is True
        assert not any(watch.seen() for watch in watches), "a part of the model was touched"
    for i, part in enumerate(parts):
        life.crash()
        replace_source(None, part)
        life.start()
        assert answer(life.daemon) == expected and life.model()["adopted"] is False
        assert f"file {i + 1} of 3 of its source was changed or replaced since" in life.daemon.log()
    life.crash()
    parts[2].rename(tmp_path / "away")
    life.start(ready=False)
    assert life.daemon.process.wait(60) == 1 and not life.segments()
    assert f"{parts[2]}: No such file or directory" in life.daemon.log()
    life.forget()


@pytest.mark.skipif(not ROOT, reason="only root can give objects away")
@pytest.mark.parametrize("made_by", ["chown", "squatter"])
def test_another_users_object_is_left_alone(lives, tiny, made_by):
    """A leftover that now belongs to someone else, or what someone has put where ours would be."""
    life = lives({"tiny": tiny})
    expected = answer(life.start())
    life.crash()
    path = life.only_segment()
    if made_by == "squatter":
        os.unlink(path)
        with open(path, "wb") as squatter:
            squatter.write(b"mine")
    os.chown(path, 12345, 12345)
    before, content = os.stat(path), open(path, "rb").read()
    for end in life.crash, life.terminate:
        life.start()
        assert answer(life.daemon) == expected
        copy = life.model()["copies"][0]
        plain, salted = copy["segment"][: len(path) - 8], copy["segment"][len(path) - 8 :]
        assert "/dev/shm" + plain == path and salted[:2] == ".x" and len(salted) == 18
        assert f"has the name {plain}, which is left alone" in life.daemon.log()
        assert life.model()["adopted"] is (end == life.terminate), "a salted leftover is found"
        end()
    after = os.stat(path)
    assert life.segments() == [path] and open(path, "rb").read() == content
    assert (after.st_ino, after.st_uid, after.st_mode) == (before.st_ino, before.st_uid, before.st_mode)


def test_what_nobody_wants_any_more_is_removed(lives, tiny):
    """Of a model that is configured no longer, of a node without a copy, and what only says that it is a newer one."""
    life = lives({"one": tiny, "two": tiny})
    life.start()
    life.crash()
    one, two = life.segments()
    for name in "two.g1.n4000", "two.g2.n0":
        shutil.copyfile(two, f"/dev/shm/weightd.{life.instance}.{name}")
    life.models = {"two": tiny}
    life.start()
    assert life.segments() == [two] and life.model()["adopted"] is True
    for path in one, f"/dev/shm/weightd.{life.instance}.two.g1.n4000":
        assert f"{path[8:]} is removed: " in life.daemon.log()
    assert f"/weightd.{life.instance}.two.g2.n0 is not adopted: " in life.daemon.log()


def test_settings_that_shape_a_copy_are_part_of_it(lives, tiny):
    life = lives({"tiny": tiny})
    life.start()
    life.crash()
    life.start(backing="memfd")
    model = life.model()
    assert model["backing"] == "memfd" and model["adopted"] is False and model["restart"] == "reload"
    assert "it is no sealed memfd, as backing asks for" in life.daemon.log() and not life.segments()


def test_a_loader_that_dies_over_a_leftover_costs_a_load_not_the_service(lives, model):
    life = lives({"smollm2": model})
    expected = answer(life.start())
    for _ in range(5):
        life.crash()
        life.start(ready=False)
        hit = kill_loader(life.daemon)
        life.daemon.wait_ready()
        assert answer(life.daemon) == expected
        if hit and "while it checked what an earlier daemon left" in life.daemon.log():
            assert life.model()["adopted"] is False and len(life.segments()) == 1
            assert life.daemon.log().count("checking what an earlier daemon left") == 1
            assert "No such file" not in life.daemon.log()
            return
    raise AssertionError("the loader was too quick, five times")


def kill_loader(daemon):
    """As soon as there is one. False: the daemon was ready before."""
    while daemon.process.poll() is None and "ready:" not in daemon.log():
        with open(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children", encoding="ascii") as children:
            for pid in map(int, children.read().split()):
                with open(f"/proc/{pid}/cmdline", "rb") as words:
                    if b"--role\0loader" in words.read():
                        os.kill(pid, signal.SIGKILL)
                        return True
    return False


@pytest.mark.skipif(not ROOT, reason="only root can become someone else")
def test_children_of_another_user_adopt_what_has_their_group(lives, tiny):
    life = lives({"tiny": tiny}, {"user": "nobody"})
    expected = answer(life.start())
    life.crash()
    assert answer(life.start()) == expected
    assert life.model()["adopted"] is True
    life.crash()
    assert answer(life.start(user="")) == expected
    assert life.model()["adopted"] is False and "its group is" in life.daemon.log()


# --- orderly ends -------------------------------------------------------------------------------------------------------


def test_an_orderly_stop_removes_the_weights_unless_they_are_to_be_kept(lives, tiny):
    life = lives({"tiny": tiny})
    expected = answer(life.start(keep_weights="yes"))
    life.terminate()
    assert len(life.segments()) == 1
    with inotify.Watch(tiny) as watch:
        life.start(keep_weights="no")
        assert life.model()["adopted"] is True and answer(life.daemon) == expected
        assert not watch.seen()
    life.terminate()
    assert not life.segments()


def test_a_start_that_fails_leaves_the_weights_to_the_next(lives, tiny, tmp_path):
    life = lives({"tiny": tiny})
    life.start()
    life.crash()
    (tmp_path / "taken").write_text("no socket")
    daemon = life.start(ready=False, socket=tmp_path / "taken")
    assert daemon.process.wait(20) == 1
    life.forget()
    life.start()
    assert life.model()["adopted"] is True


def test_a_refused_second_daemon_does_not_touch_the_firsts_weights(lives, tiny):
    first = lives({"tiny": tiny})
    first.start()
    segment = os.stat(first.only_segment())
    second = lives({"tiny": tiny}, instance=first.instance)
    assert second.start(ready=False).process.wait(20) == 1
    second.forget()
    assert os.stat(first.only_segment()).st_ino == segment.st_ino


def test_instances_do_not_touch_each_other(lives, tiny):
    """Also where one's name is the beginning of the other's, and one crashes."""
    base = "restart" + os.urandom(4).hex()
    short, long = lives({"tiny": tiny}, instance=base), lives({"tiny": tiny}, instance=base + "-b")
    for life in short, long:
        life.start()
    inodes = [os.stat(life.only_segment()).st_ino for life in (short, long)]
    assert inodes[0] != inodes[1]
    for crashed, other in (short, long), (long, short):
        crashed.crash()
        crashed.start()
        assert crashed.model()["adopted"] is True
        assert [os.stat(life.only_segment()).st_ino for life in (short, long)] == inodes
        answer(other.daemon)
    short.terminate()
    assert not short.segments() and os.stat(long.only_segment()).st_ino == inodes[1]
    answer(long.daemon)
    short.start()
    assert short.model()["adopted"] is False
    long.terminate()
    assert not long.segments() and len(short.segments()) == 1


# --- the service manager's store ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backing", ["shm", "memfd"])
def test_the_service_managers_store_outlives_restart_and_crash(lives, store, tiny, tmp_path, backing):
    life = lives({"tiny": tiny}, {"backing": backing}, store=store)
    life.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    life.listener.bind(str(tmp_path / "passed.sock"))
    life.listener.listen()
    life.start(ready=False)
    life.daemon.http.path = tmp_path / "passed.sock"
    life.daemon.wait_ready()
    expected, first = answer(life.daemon), life.model()
    assert first["restart"] == "fdstore" and first["adopted"] is False and first["backing"] == backing
    store.wait_for(lambda: len(store.held) == 1, "a stored descriptor")
    assert store.held[0][0] == f"weightd.{life.instance}.tiny.g1.n{first['copies'][0]['node']}"
    inodes = store.inodes()
    for end in life.crash, life.terminate, life.crash, life.terminate:
        end()
        store.wait_for(lambda: store.messages[-1].keys() >= {"STOPPING"} or end != life.terminate, "the end")
        assert store.inodes() == inodes, "kept over the end"
        with inotify.Watch(tiny) as watch:
            life.start(ready=False)
            life.daemon.http.path = tmp_path / "passed.sock"
            life.daemon.wait_ready()
            assert answer(life.daemon) == expected
            assert not watch.seen()
        again = life.model()
        assert "is not adopted" not in life.daemon.log(), "name and descriptor are one object"
        assert again["adopted"] is True and again["restart"] == "fdstore" and again["backing"] == backing
        assert again["digest"] == first["digest"]
        assert store.inodes() == inodes
    life.listener.close()


def test_a_stored_copy_of_a_changed_file_is_dropped_and_replaced(lives, store, own_tiny):
    life = lives({"tiny": own_tiny}, {"backing": "memfd"}, store=store)
    expected = answer(life.start())
    store.wait_for(lambda: store.held, "a stored descriptor")
    before = store.inodes()
    life.terminate()
    os.utime(own_tiny, (1, 1))
    assert answer(life.start()) == expected
    assert life.model()["adopted"] is False and life.model()["restart"] == "fdstore"
    assert "a stored object is not adopted: file 1 of 1 of its source was changed or replaced since" in life.daemon.log()
    store.wait_for(lambda: len(store.held) == 1 and store.inodes() != before, "the new copy in its place")


def test_a_stored_copy_of_a_model_that_went_is_dropped(lives, store, tiny):
    life = lives({"tiny": tiny}, {"backing": "memfd"}, store=store)
    life.start()
    store.wait_for(lambda: store.held, "a stored descriptor")
    life.terminate()
    life.models = {"other": tiny}
    life.start()
    store.wait_for(lambda: [name.split(".")[2] for name, _ in store.held] == ["other"], "only the other model's copy")
    assert "its model is not configured any more" in life.daemon.log()


@pytest.mark.parametrize("room, restart", [(0, ["reload", "reload"]), (1, ["fdstore", "reload"])])
def test_no_more_is_promised_than_the_store_takes(lives, store, tiny, room, restart):
    store.room = room
    life = lives({"one": tiny, "two": tiny}, {"backing": "memfd"}, store=store)
    life.start()
    assert [model["restart"] for model in life.daemon.status()["models"]] == restart
    store.wait_for(lambda: len(store.held) == room, "as many as there is room for")


def test_the_longest_names_are_stored_under_themselves(lives, store, tiny):
    names = ["m" * 35 + ".Q4_0-x", "a.b-c_D"]
    life = lives({name: tiny for name in names}, {"backing": "memfd"}, store=store, instance="i" * 20 + os.urandom(4).hex())
    life.start()
    store.wait_for(lambda: len(store.held) == 2, "both stored")
    assert [name.split(".g1.n")[0] for name, _ in store.held] == [f"weightd.{life.instance}.{name}" for name in names]
    life.terminate()
    life.start()
    assert all(model["adopted"] for model in life.daemon.status()["models"])


def test_without_a_store_status_says_how_a_restart_finds_the_copies(start, tiny):
    for backing, restart in ("shm", "adopt"), ("memfd", "reload"):
        daemon = start({"tiny": tiny}, {"backing": backing})
        assert daemon.status()["models"][0]["restart"] == restart
        table = daemon.ctl("status").stdout.decode()
        assert "ADOPTED" in table and restart in table
