"""Processes that call functions: forks of a process without threads, new interpreters beside threads."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from transforms import storage
from transforms.child import Child, ChildDiedError
from transforms.pool import ProcessPool

ROOT = Path(__file__).parents[2]

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="without /proc nothing is forked")


def run_program(program: str, *arguments: object) -> list[str]:
    """The lines that a program of its own prints."""
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    return ran.stdout.splitlines()


@pytest.fixture
def child():
    child = Child()
    yield child
    child.close()


@pytest.fixture
def pool():
    pool = ProcessPool(1)
    yield pool
    pool.close()


def is_imported(name: str) -> bool:
    return name in sys.modules


def divide_by_zero() -> float:
    return 1 / 0


def append_line(path: str) -> int:
    """How many lines the file then has."""
    with open(path, "a") as file:
        file.write("line\n")
    return len(Path(path).read_text().splitlines())


@needs_proc
@pytest.mark.parametrize(
    ("before", "forked"),
    [
        ("pass", True),
        ("threading.Thread(target=threading.Event().wait, daemon=True).start()", False),
        ("import apache_beam", False),
    ],
    ids=["alone", "with a thread", "with Beam"],
)
def test_a_process_is_forked_if_it_has_neither_threads_nor_beam(before, forked):
    program = """
        import colorsys, sys, threading
        from tests.transforms.test_child import Child, is_imported
        exec(sys.argv[1])
        child = Child()
        print(child.call(is_imported, "colorsys"))
        child.close()
    """
    assert run_program(program, before)[-1] == str(forked)


@needs_proc
def test_what_the_workers_import_starts_no_thread():
    program = """
        import os
        from beam_pipelines.cli import run_command
        run_command("convert", ["--input=nowhere", "--output=nowhere"])
        import beam_pipelines.head_start, transforms.samples
        print(len(os.listdir("/proc/self/task")))
    """
    assert run_program(program)[-1] == "1"


def test_a_lock_is_free_when_its_process_has_ended_and_the_forked_ones_have_not(tmp_path):
    program = """
        import os, sys, time
        from transforms import storage
        from transforms.pool import ProcessPool
        with storage.lock(sys.argv[1]):
            pool = ProcessPool(2)
            pool.start()
            for number in range(2):
                pool.begin(number, time.sleep, 2)
            time.sleep(0.5)
            os._exit(0)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program), tmp_path / "lock"], cwd=ROOT, check=True)
    with storage.lock(str(tmp_path / "lock")) as held:
        assert held


def test_a_process_that_dies_is_told_with_its_signal_and_the_next_call_has_another(child):
    with pytest.raises(ChildDiedError, match="SIGABRT"):
        child.call(os.abort)
    assert child.call(os.getppid) == os.getpid()


def test_a_bug_comes_back_with_its_traceback(child):
    with pytest.raises(RuntimeError, match="in divide_by_zero"):
        child.call(divide_by_zero)


def test_a_call_that_was_begun_is_not_made_again(pool, tmp_path):
    path = str(tmp_path / "lines")
    pool.begin("first", append_line, path)
    assert pool.submit(append_line, path, name="first").result() == 1
    assert pool.submit(append_line, path, name="first").result() == 2
    assert pool.submit(append_line, path).result() == 3


def test_closing_a_pool_ends_what_it_is_doing(pool):
    pool.begin("nap", time.sleep, 60)
    time.sleep(1)
    begun = time.monotonic()
    pool.close()
    assert time.monotonic() - begun < 30
