"""A worker process: results, errors, crashes, timeouts, and what happens when either side ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from beam_tfrecords.errors import BuildError, FailureReason, SampleError, Stage
from beam_tfrecords.storage.locks import try_lock
from beam_tfrecords.transforms.processes.server import is_worker
from beam_tfrecords.transforms.processes.worker import Worker, WorkerDiedError, WorkerTimeoutError

ROOT = Path(__file__).parents[3]


@pytest.fixture
def worker():
    worker = Worker()
    yield worker
    worker.close()


def raise_bug() -> float:
    return 1 / 0


def reject() -> None:
    raise SampleError(Stage.DECODE, FailureReason.CORRUPT, "bad data")


def break_build() -> None:
    raise BuildError("the disk is full")


def run_program(program: str, *arguments: object) -> subprocess.CompletedProcess:
    """Runs Python code in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)


def test_results_of_any_size_come_back(worker):
    assert worker.call(bytes, 10**7) == bytes(10**7)


def test_a_worker_knows_what_it_is_and_has_the_search_path_and_arguments_of_its_launcher(worker, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, "/modules/of/a/user"])
    assert (is_worker(), worker.call(is_worker)) == (False, True)
    assert worker.call(eval, "[*__import__('sys').path, *__import__('sys').argv]") == [*sys.path, *sys.argv]


def test_all_calls_run_in_one_process_that_is_not_this_one(worker):
    assert worker.call(os.getpid) == worker.call(os.getpid) != os.getpid()


def test_a_crash_is_reported_with_its_signal_and_the_next_call_runs_in_a_new_process(worker):
    before = worker.call(os.getpid)
    with pytest.raises(WorkerDiedError, match="SIGABRT"):
        worker.call(os.abort)
    assert worker.call(os.getpid) not in (before, os.getpid())


def test_an_exit_is_reported_with_its_code(worker):
    with pytest.raises(WorkerDiedError, match="exit code 7"):
        worker.call(os._exit, 7)


def test_an_unexpected_exception_is_raised_with_its_traceback(worker):
    with pytest.raises(RuntimeError, match="in raise_bug"):
        worker.call(raise_bug)


@pytest.mark.parametrize(("function", "kind"), [(reject, SampleError), (break_build, BuildError)])
def test_errors_of_a_sample_and_of_a_build_keep_their_type_and_the_process(worker, function, kind):
    before = worker.call(os.getpid)
    with pytest.raises(kind):
        worker.call(function)
    assert worker.call(os.getpid) == before


def test_a_call_that_takes_too_long_is_killed_and_the_next_one_works(worker):
    worker.call(os.getpid)
    start = time.monotonic()
    with pytest.raises(WorkerTimeoutError, match=r"0\.3 seconds"):
        worker.call(time.sleep, 600, timeout=0.3)
    assert time.monotonic() - start < 300
    assert worker.call(os.getpid) != os.getpid()


def test_closing_ends_a_call_of_another_thread(worker):
    worker.call(os.getpid)
    threading.Timer(0.3, worker.close).start()
    start = time.monotonic()
    with pytest.raises(WorkerDiedError, match="SIGKILL"):
        worker.call(time.sleep, 600)
    assert time.monotonic() - start < 300


def test_a_closed_worker_starts_no_process(worker):
    worker.close()
    with pytest.raises(WorkerDiedError, match="closed"):
        worker.call(os.getpid)


def test_ctrl_c_does_not_end_a_worker(worker):
    process = worker.call(os.getpid)
    os.kill(process, signal.SIGINT)
    assert worker.call(os.getpid) == process


def test_neither_sigterm_nor_ctrl_c_ends_a_worker_in_a_call(worker):
    process = worker.call(os.getpid)
    for number in (signal.SIGINT, signal.SIGTERM):
        threading.Timer(0.2, os.kill, (process, number)).start()
        assert worker.call(time.sleep, 0.5) is None
    assert worker.call(os.getpid) == process


def test_a_function_can_end_what_it_has_started(worker):
    assert worker.call(end_pool_and_program, timeout=60) == -signal.SIGTERM


def end_pool_and_program() -> int:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map_async(time.sleep, [600, 600])
        time.sleep(0.1)
    program = subprocess.Popen(["sleep", "600"])
    program.terminate()
    return program.wait()


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="/proc is missing")
def test_the_process_that_workers_are_forked_from_has_a_single_thread():
    # A lock that another thread holds at the fork would stay locked in the worker.
    program = """
        import os
        from beam_tfrecords.beam_pipelines.commands.cli import run_command
        run_command("convert", ["--input=nowhere", "--output=nowhere"])
        from beam_tfrecords.transforms.processes import fork_server
        from beam_tfrecords.transforms.processes.worker import Worker
        Worker().call(os.getpid)
        print(len(os.listdir(f"/proc/{fork_server._servers[-1].number}/task")))
    """
    assert run_program(program).stdout == "1\n"


def test_starting_workers_prints_nothing():
    program = """
        import os
        from beam_tfrecords.transforms.processes.worker import Worker
        Worker().call(os.getpid)
    """
    ran = run_program(program)
    assert (ran.stdout, ran.stderr) == ("", "")


def test_a_process_ends_although_a_worker_is_still_open():
    program = """
        import os
        from beam_tfrecords.transforms.processes.worker import Worker
        worker = Worker()
        worker.call(os.getpid)
    """
    run_program(program)


def test_a_script_without_a_main_guard_can_start_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os\nfrom transforms.processes.worker import Worker\n"
        "print('once', flush=True)\nworker = Worker()\nassert worker.call(os.getpid) != os.getpid()\nworker.close()\n"
    )
    ran = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (ran.returncode, ran.stdout) == (0, "once\n"), ran.stderr


def test_a_module_of_the_users_working_folder_does_not_shadow_ours(tmp_path):
    (tmp_path / "transforms.py").write_text("raise ImportError('the wrong transforms')")
    program = """
        import os, sys
        os.chdir(sys.argv[1])
        from beam_tfrecords.transforms.processes.worker import Worker
        assert Worker().call(os.getpid) != os.getpid()
    """
    command = [sys.executable, "-P", "-c", textwrap.dedent(program), str(tmp_path)]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, timeout=300)


def test_a_lock_is_free_once_its_process_has_ended_even_while_workers_still_run(tmp_path):
    program = """
        import os, sys, time
        from beam_tfrecords.storage.locks import try_lock
        from beam_tfrecords.transforms.processes.worker import WorkerPool
        with try_lock(sys.argv[1]):
            pool = WorkerPool(2)
            pool.submit(os.getpid).result()
            for number in range(2):
                pool.submit(time.sleep, 2)
            time.sleep(0.5)
            os._exit(0)
    """
    # Without pipes to wait for: the workers hold them, too.
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "lock")]
    subprocess.run(command, cwd=ROOT, check=True, timeout=300)
    with try_lock(str(tmp_path / "lock")) as is_mine:
        assert is_mine


def test_a_worker_in_the_middle_of_a_read_ends_with_its_launcher(tmp_path):
    program = """
        import os, sys, threading, time
        from pathlib import Path
        from beam_tfrecords.transforms.processes.worker import Worker
        worker = Worker()
        Path(sys.argv[1]).write_text(str(worker.call(os.getpid)))
        threading.Thread(target=worker.call, args=(Path.read_bytes, Path(sys.argv[2])), daemon=True).start()
        time.sleep(0.2)
        os._exit(0)
    """
    os.mkfifo(tmp_path / "pipe")
    run_program(program, tmp_path / "number", tmp_path / "pipe")
    number = int((tmp_path / "number").read_text())
    deadline = time.monotonic() + 60
    while Path(f"/proc/{number}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{number}").exists()
