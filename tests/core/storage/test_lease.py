"""The right to write an output, between processes of this machine."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import lease as lease_module
from beam_tfrecords.storage.lease import Lease
from beam_tfrecords.transforms.workspace.cleaning import delete_temporary

_HOLDER = """
import sys
from beam_tfrecords.storage.lease import Lease
lease = Lease.take(sys.argv[1], "build 7 on host a", renewal=0.1, stale=3.0)
print(isinstance(lease, Lease), flush=True)
sys.stdin.read()
lease.check()
lease.give_back()
"""
SHORT = {"renewal": 0.1, "stale": 3.0}
BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@contextlib.contextmanager
def another_process(path: str):
    """Another process that holds the lease."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "True\n"
            yield holder
        finally:
            holder.kill()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "out/.build/lease")


@pytest.fixture
def elsewhere(monkeypatch):
    """Without locks, as on network disks between two machines."""

    @contextlib.contextmanager
    def no_lock(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        yield None

    monkeypatch.setattr(lease_module, "try_lock", no_lock)


def never_waits(*_: object) -> None:
    raise AssertionError("a wait")


def rewrite(path: str, change: dict[str, object]) -> None:
    """Changes what a lease says of its holder."""
    storage.write_bytes(path, json.dumps({**json.loads(storage.read_bytes(path)), **change}).encode())


def rewrite_renewed(path: str) -> None:
    """Renews a lease as a process of another machine does."""
    with contextlib.suppress(FileNotFoundError):
        renewals = json.loads(storage.read_bytes(path))["renewals"]
        rewrite(path, {**ELSEWHERE["another machine"], "renewals": renewals + 1})
    time.sleep(0.05)


def taken(path: str) -> Lease:
    lease = Lease.take(path, "me", **SHORT)
    assert isinstance(lease, Lease)
    return lease


@pytest.mark.nightly
def test_one_process_at_a_time_has_the_lease(path):
    with another_process(path) as holder:
        assert Lease.take(path, "me", **SHORT) == "build 7 on host a"
        time.sleep(3.5)  # longer than until it is stale
        assert Lease.take(path, "me", **SHORT) == "build 7 on host a"
        holder.communicate()
        assert holder.returncode == 0
        with taken(path):
            pass


def test_a_lease_that_was_just_renewed_is_only_looked_at(path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(lease_module, "now_awake", lambda: clock[0])
    with Lease.take(path, "me", renewal=1000.0, stale=2000.0) as lease:
        versions = [storage.read_state(path)]
        for clock[0] in (0.0, 999.0, 1000.0, 1001.0, 1999.0, 2000.0):
            lease.check()
            versions.append(storage.read_state(path))
        renewals = [json.loads(version[0])["renewals"] for version in versions]
        assert renewals == [0, 0, 0, 1, 1, 1, 2]
        # Somebody has taken it since.
        storage.write_bytes(path, b'{"id": "another"}')
        with pytest.raises(BuildError, match="lost its lease"):
            lease.check()


def test_a_killed_process_frees_the_lease_at_once(path):
    with another_process(path) as holder:
        holder.kill()
        holder.wait()
        with Lease.take(path, "me", stale=1000.0) as lease:
            lease.check()


@pytest.mark.usefixtures("elsewhere")
def test_a_killed_process_of_this_machine_frees_the_lease_at_once_without_locks_too(path):
    with another_process(path) as holder:
        assert Lease.take(path, "me", stale=1000.0) == "build 7 on host a"
        holder.kill()
        holder.wait()
        with Lease.take(path, "me", stale=1000.0) as lease:
            lease.check()


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    "change",
    [
        {"process": os.getpid()},  # the number has been given again, as to the first process of each container
        {"process": 1},
        {"started": 7},
    ],
    ids=["this process", "somebody else's", "another start"],
)
def test_a_process_that_started_at_another_time_has_ended(path, change):
    with another_process(path) as holder:
        holder.kill()
        holder.wait()
        rewrite(path, change)
        with Lease.take(path, "me", waiting=never_waits, stale=1000.0) as lease:
            lease.check()


@pytest.mark.usefixtures("elsewhere")
def test_a_process_that_nobody_has_waited_for_has_ended(path):
    with another_process(path) as holder:
        holder.kill()
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        with Lease.take(path, "me", waiting=never_waits, stale=1000.0):
            pass


ELSEWHERE = {
    "another machine": {"processes": "another machine pid:[4026531836]"},  # or the same one, started again
    "another namespace": {"processes": f"{BOOT_ID} pid:[1]"},  # as a container has
    "unknown": {"processes": None},
    "no number": {"process": None},
    "no start": {"process": os.getpid(), "started": None},
}


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("change", ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_process_that_may_have_died_is_waited_for_until_its_lease_is_stale(path, change):
    waits: list[tuple[str, float]] = []
    with another_process(path) as holder:
        holder.kill()
        holder.wait()
        rewrite(path, change)
        began = time.monotonic()
        with Lease.take(path, "me", waiting=lambda *words: waits.append(words), renewal=0.1, stale=1.0) as lease:
            waited = time.monotonic() - began
            lease.check()
    ((who, most),) = waits
    assert who == "build 7 on host a"
    assert 0.5 < most <= 1.0
    assert 0.8 * most <= waited < most + 3


@pytest.mark.usefixtures("elsewhere")
def test_a_process_elsewhere_that_renews_its_lease_is_not_waited_for(path):
    waits: list[float] = []
    with another_process(path), contextlib.ExitStack() as stack:
        rewrite_renewed(path)
        stack.enter_context(repeated(lambda: rewrite_renewed(path)))
        began = time.monotonic()
        other = Lease.take(path, "me", waiting=lambda _, most: waits.append(most), renewal=0.1, stale=1000.0)
        waited = time.monotonic() - began
    assert other == "build 7 on host a"
    assert len(waits) == 1
    assert waited < 5


@pytest.mark.usefixtures("elsewhere")
def test_a_lease_that_is_released_during_the_wait_is_taken(path):
    with another_process(path) as holder:
        rewrite(path, ELSEWHERE["another machine"])
        holder.kill()
        holder.wait()
        threading.Timer(0.5, os.remove, [path]).start()
        with Lease.take(path, "me", renewal=0.1, stale=1000.0) as lease:
            lease.check()


def test_a_lease_that_is_given_back_leaves_no_files(path):
    with taken(path):
        assert sorted(os.listdir(os.path.dirname(path))) == ["lease", "lease.lock"]
    assert os.listdir(os.path.dirname(path)) == []


@pytest.mark.nightly
@pytest.mark.usefixtures("elsewhere")
def test_the_lease_of_a_dead_machine_is_taken_when_it_is_stale(path):
    with another_process(path) as holder:
        time.sleep(3.5)
        assert Lease.take(path, "me", **SHORT) == "build 7 on host a"
        holder.kill()
        holder.wait()
        rewrite(path, ELSEWHERE["another machine"])
        with taken(path):
            assert b'"me"' in storage.read_bytes(path)
        assert "lease" not in os.listdir(os.path.dirname(path))


@pytest.mark.parametrize("content", [b"", b"[]", b"{"])
@pytest.mark.usefixtures("elsewhere")
def test_a_damaged_lease_is_taken_when_it_is_stale(path, content):
    storage.write_bytes(path, content)
    waits: list[str] = []
    threading.Timer(0.5, os.utime, [path, (0, 0)]).start()
    with Lease.take(path, "me", waiting=lambda who, _: waits.append(who), renewal=0.1, stale=2.0) as lease:
        lease.check()
    assert waits == ["an unknown build"]


def clean_as_this_build(output: str) -> None:
    """As the build that holds the lease cleans."""
    delete_temporary(output)


def clean_as_another_build(output: str) -> None:
    """As a build of another machine cleans, whose process number is not that of the holder."""
    for path in glob.glob(f"{output}/.build/lease.tmp-*"):
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


@contextlib.contextmanager
def repeated(function: Callable[[], None]) -> Iterator[None]:
    """Calls a function in another thread, again and again, until the block ends."""
    end = threading.Event()

    def call() -> None:
        while not end.is_set():
            function()

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@pytest.mark.parametrize("clean", [clean_as_this_build, clean_as_another_build])
def test_a_lease_that_is_renewed_beside_cleaning_is_not_lost(path, tmp_path, monkeypatch, clean):
    monkeypatch.setattr(os, "fsync", lambda _: time.sleep(0.0005))  # where another thread gets its turn
    with Lease.take(path, "me", renewal=0.002, stale=1000.0) as lease, repeated(lambda: clean(f"{tmp_path}/out")):
        while json.loads(storage.read_bytes(path))["renewals"] < 120:
            lease.check()
    assert os.listdir(os.path.dirname(path)) == []


def test_every_takeover_is_noticed_beside_renewals_and_cleaning(path, tmp_path, monkeypatch):
    # A build cleans once; here the folder is cleaned all the time, so that ten attempts can be too few.
    monkeypatch.setattr(lease_module, "_ATTEMPTS", 1_000_000)
    generator = random.Random(7)
    with repeated(lambda: clean_as_another_build(f"{tmp_path}/out")):
        for _ in range(40):
            lease = Lease.take(path, "me", renewal=0.001, stale=1000.0)
            assert isinstance(lease, Lease)
            time.sleep(generator.uniform(0, 0.005))
            state = storage.read_state(path)
            while not storage.replace(path, b'{"id": "another"}', version=state[1]):
                state = storage.read_state(path)
            with pytest.raises(BuildError, match="lost its lease"):
                lease.check()
            lease.give_back()
            assert storage.read_bytes(path) == b'{"id": "another"}'
            os.remove(path)
