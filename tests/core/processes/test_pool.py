"""A pool of workers: retries, and closing at any moment."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.processes import fork_server
from beam_tfrecords.transforms.processes.worker import WorkerPool, usable_cores

SEED = 20_240_301


@pytest.fixture
def pool():
    pool = WorkerPool(2)
    yield pool
    pool.close()


def append_line(path: str) -> int:
    """Returns how many lines the file then has."""
    with open(path, "a") as file:
        file.write("line\n")
    return len(Path(path).read_text().splitlines())


def die_once(path: str) -> str:
    if append_line(path) == 1:
        os.abort()
    return "second attempt"


def worker_processes() -> set[int]:
    """The processes that were forked from the fork server."""
    server = fork_server._servers[-1].number
    listed = subprocess.run(["ps", "-o", "pid=,stat=", "--ppid", str(server)], capture_output=True, text=True)
    return {int(line.split()[0]) for line in listed.stdout.splitlines() if "Z" not in line}


def pool_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("pool")]


def test_calls_are_spread_over_as_many_processes_as_asked_for(pool):
    processes = {future.result() for future in [pool.submit(wait_for_other, number) for number in range(2)]}
    assert len(processes - {os.getpid()}) == 2


def wait_for_other(_: int) -> int:
    time.sleep(0.5)
    return os.getpid()


def test_processes_beyond_the_cores_yield_so_that_not_all_end_their_blocks_together():
    pool = WorkerPool(2 * usable_cores())
    futures = [pool.submit(wait_and_tell_nice, number) for number in range(2 * usable_cores())]
    found = sorted(future.result() for future in futures)
    pool.close()
    others, yielding = found[: usable_cores()], found[usable_cores() :]
    assert set(others) == {os.getpriority(os.PRIO_PROCESS, 0)}
    assert min(yielding) > max(others) or max(others) == 19


def wait_and_tell_nice(_: int) -> int:
    time.sleep(0.5)
    return os.getpriority(os.PRIO_PROCESS, 0)


def test_a_call_whose_process_dies_is_made_once_more(pool, tmp_path):
    assert pool.submit(die_once, str(tmp_path / "attempts")).result() == "second attempt"


def test_a_call_whose_process_dies_twice_breaks_the_build(pool):
    with pytest.raises(BuildError, match="ended twice at the same work: SIGABRT"):
        pool.submit(os.abort).result()


def test_calls_that_wait_are_cancelled_when_the_pool_is_closed(pool, tmp_path):
    calls = [pool.submit(time.sleep, 60) for _ in range(2)]
    waiting = pool.submit(append_line, str(tmp_path / "lines"))
    pool.close()
    assert waiting.cancelled()
    for call in calls:
        with pytest.raises((BuildError, CancelledError)):
            call.result(timeout=300)
    assert not (tmp_path / "lines").exists()


@pytest.mark.nightly
def test_closing_at_any_moment_waits_for_nothing_and_leaves_nothing(pool):
    pool.submit(os.getpid).result()  # starts the fork server
    pool.close()
    generator = random.Random(SEED)
    for _ in range(200):
        one = WorkerPool(generator.choice([1, 2, 3]))
        for _ in range(generator.randrange(6)):
            function, *arguments = generator.choice([(time.sleep, 600), (os.abort,), (os.getpid,), (time.sleep, 0.01)])
            one.submit(function, *arguments)
        time.sleep(generator.choice([0, 0.001, 0.01, 0.05]))
        closing = threading.Thread(target=one.close, daemon=True)
        closing.start()
        closing.join(300)
        assert not closing.is_alive(), f"seed {SEED}"
    deadline = time.monotonic() + 300
    while (worker_processes() or pool_threads()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (worker_processes(), pool_threads()) == (set(), []), f"seed {SEED}"
