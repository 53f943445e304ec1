"""What workers print and log reaches the launcher; no process that they start keeps the launcher's output open."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from beam_tfrecords.transforms.processes.worker import Worker, WorkerDiedError, WorkerTimeoutError


@pytest.fixture
def worker():
    worker = Worker()
    yield worker
    worker.close()


# Processes that a function leaves behind; each writes its number to a file


def fork_pool(path: str) -> None:
    pool = multiprocessing.get_context("fork").Pool(2)
    pool.map_async(note_and_sleep, [path, path])


def note_and_sleep(path: str) -> None:
    note(path, os.getpid())
    time.sleep(600)


def note(path: str, process: int) -> None:
    with open(path, "a") as file:
        file.write(f"{process}\n")


def start_program(path: str) -> None:
    note(path, subprocess.Popen(["sleep", "600"]).pid)


def start_group(path: str) -> None:
    note(path, subprocess.Popen(["sleep", "600"], preexec_fn=os.setpgrp).pid)


def start_session(path: str) -> None:
    note(path, subprocess.Popen(["sleep", "600"], start_new_session=True).pid)


def start_by_shell(path: str) -> None:
    subprocess.run(f"sleep 600 & echo $! >> {path}", shell=True, check=True)


STARTS = [fork_pool, start_program, start_group, start_session, start_by_shell]


def start_and_sleep(start: Callable[[str], None], path: str) -> None:
    start_and_wait(start, path)
    time.sleep(600)


def start_and_die(start: Callable[[str], None], path: str) -> None:
    start_and_wait(start, path)
    # As `TimeLimit` ends a process.
    os.kill(os.getpid(), signal.SIGALRM)


def start_and_wait(start: Callable[[str], None], path: str) -> None:
    start(path)
    while len(Path(path).read_text().split()) < 1:
        time.sleep(0.01)


def wait_for_end(path: Path) -> None:
    """Waits until the noted processes have ended."""
    numbers = path.read_text().split()
    assert numbers
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        stats = [Path(f"/proc/{number}/stat") for number in numbers]
        if not [stat for stat in stats if stat.exists() and " Z " not in stat.read_text()]:
            return
        time.sleep(0.01)
    raise AssertionError(f"still there: {numbers}")


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.__name__)
def test_a_call_that_takes_too_long_is_killed_with_what_it_has_started(worker, tmp_path, start):
    worker.call(os.getpid)
    numbers = tmp_path / "numbers"
    numbers.touch()
    # On a busy machine a second may be over before anything has started.
    for timeout in (1.0, 10.0, 60.0):
        with pytest.raises(WorkerTimeoutError):
            worker.call(start_and_sleep, start, str(numbers), timeout=timeout)
        if numbers.read_text():
            break
    wait_for_end(numbers)


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.__name__)
def test_a_worker_that_dies_takes_along_what_it_has_started(worker, tmp_path, start):
    (tmp_path / "numbers").touch()
    with pytest.raises(WorkerDiedError, match="SIGALRM"):
        worker.call(start_and_die, start, str(tmp_path / "numbers"))
    wait_for_end(tmp_path / "numbers")


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.__name__)
def test_a_worker_that_is_closed_takes_along_what_it_has_started(worker, tmp_path, start):
    (tmp_path / "numbers").touch()
    worker.call(start_and_wait, start, str(tmp_path / "numbers"))
    worker.close()
    wait_for_end(tmp_path / "numbers")


def test_the_output_of_a_launcher_ends_with_the_launcher(tmp_path):
    # The process that is left has a session of its own, and its worker is not there to be asked for it.
    program = f"""
        import os, sys
        sys.path.insert(0, {str(Path(__file__).parents[3])!r})
        from tests.core.processes.test_output import start_session
        from beam_tfrecords.transforms.processes.worker import Worker
        worker = Worker()
        worker.call(start_session, sys.argv[1])
        print("done", flush=True)
        os._exit(0)
    """
    start = time.monotonic()
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "numbers")]
    # Reads to the end of the pipes, as `tee` does.
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert (ran.stdout, ran.stderr) == ("done\n", "")
    assert time.monotonic() - start < 300
    for number in (tmp_path / "numbers").read_text().split():
        # A worker that sees the end of its launcher in time has ended it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(number), signal.SIGKILL)


# What is printed


def print_all() -> None:
    print("a line", "ä € 😀")
    print("no line", end="")
    sys.stderr.write("an error\n")
    sys.stdout.buffer.write(b"; of bytes \xff\n")


def test_what_a_function_prints_is_printed_here_before_its_result_is_returned(worker, capsys):
    worker.call(print_all)
    out, err = capsys.readouterr()
    assert sorted(out.splitlines()) == sorted(["a line ä € 😀", "; of bytes \\xff", "no line"])
    assert err == "an error\n"


def test_more_than_a_pipe_holds_is_printed(worker, capsys):
    worker.call(print, "x" * 1_000_000)
    assert capsys.readouterr().out == "x" * 1_000_000 + "\n"


def test_a_function_that_prints_without_end_is_ended_in_time(worker, capsys):
    worker.call(os.getpid)
    with pytest.raises(WorkerTimeoutError):
        worker.call(print_without_end, timeout=0.5)


def print_without_end() -> None:
    while True:
        print("again")


def test_output_that_cannot_be_printed_is_lost_and_the_call_is_not(worker, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert worker.call(print_and_return, 7) == 7


def print_and_return(value: int) -> int:
    print(value)
    return value


# What is logged


def log_all(value: object = 1) -> None:
    logger = logging.getLogger("steps.of.a.user")
    logger.debug("debug %s", value)
    logger.info("info %s", value)
    logger.warning("warning %s", value)
    try:
        raise KeyError(value)
    except KeyError:
        logger.exception("exception %s", value)


def test_records_of_a_function_have_their_names_and_levels_here(worker, caplog):
    worker.call(log_all)
    records = [(record.name, record.levelname, record.getMessage().splitlines()[0]) for record in caplog.records]
    assert records == [
        ("steps.of.a.user", "WARNING", "warning 1"),
        ("steps.of.a.user", "ERROR", "exception 1"),
    ]
    assert "KeyError: 1" in caplog.records[-1].getMessage()


@pytest.mark.parametrize("name", ["", "steps", "steps.of.a.user"])
def test_the_levels_of_this_process_are_those_of_its_workers(worker, caplog, name):
    caplog.set_level(logging.DEBUG, name)
    worker.call(log_all)
    names = [record.levelname for record in caplog.records if record.name.startswith("steps")]
    assert names == ["DEBUG", "INFO", "WARNING", "ERROR"]


def test_a_record_of_what_cannot_be_pickled_is_sent_as_text(worker, caplog):
    worker.call(log_unpicklable)
    assert caplog.messages[0].startswith("a lock: <")


def log_unpicklable() -> None:
    logging.getLogger("steps").warning("a lock: %r", multiprocessing.get_context("fork").Lock())


def test_forks_of_a_worker_that_log_leave_the_result_whole(worker):
    assert worker.call(log_in_forks) == [None] * 8


def log_in_forks() -> list[None]:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        return pool.map(log_all, range(8))
