"""The process that workers are forked from: in forks, in daemonic processes, without a working folder."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import textwrap

import pytest

from beam_tfrecords.transforms.processes.worker import Worker


@pytest.fixture
def worker():
    worker = Worker()
    yield worker
    worker.close()


def call_in_worker() -> int:
    worker = Worker()
    try:
        return worker.call(os.getpid)
    finally:
        worker.close()


def test_a_fork_of_this_process_and_this_process_have_workers(worker):
    before = worker.call(os.getpid)
    child = os.fork()
    if not child:
        code = 1
        try:
            code = int(call_in_worker() == before)
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert worker.call(os.getpid) == before


def test_a_daemonic_process_has_workers_and_stays_daemonic():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(call_in_worker) != os.getpid()
        assert pool.apply(is_daemonic)


def is_daemonic() -> bool:
    call_in_worker()
    return multiprocessing.current_process().daemon


def test_workers_are_no_children_for_who_ends_or_waits_for_all_children(worker):
    worker.call(os.getpid)
    assert multiprocessing.active_children() == []


def test_workers_start_although_the_working_folder_was_deleted(tmp_path):
    program = """
        import os, sys
        os.mkdir(sys.argv[1])
        os.chdir(sys.argv[1])
        os.rmdir(sys.argv[1])
        from beam_tfrecords.transforms.processes.worker import Worker
        assert Worker().call(os.getpid) != os.getpid()
        try:
            os.getcwd()
        except FileNotFoundError:
            print("still deleted")
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "deleted")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert (ran.stdout, ran.stderr) == ("still deleted\n", "")


def test_the_callers_own_fork_server_is_not_ours(tmp_path):
    """Its processes print to the caller's output and obey SIGTERM, before and after ours has one, and in a fork."""
    (tmp_path / "mine.py").write_text(
        textwrap.dedent("""
            import multiprocessing, os, time
            from beam_tfrecords.transforms.processes.worker import Worker

            def say(word):
                print("child says", word, flush=True)

            if __name__ == "__main__":
                context = multiprocessing.get_context("forkserver")
                before = context.Process(target=say, args=("before",))
                before.start(), before.join()
                if not os.fork():
                    worker = Worker()
                    print("fork has", worker.call(abs, -1), flush=True)
                    worker.close()
                    os._exit(0)
                os.wait()
                worker = Worker()
                worker.call(abs, -1)
                after = context.Process(target=say, args=("after",))
                after.start(), after.join()
                sleeping = context.Process(target=time.sleep, args=(60,))
                sleeping.start()
                sleeping.terminate(), sleeping.join(30)
                print("ended by", sleeping.exitcode)
                worker.close()
        """)
    )
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    command = [sys.executable, str(tmp_path / "mine.py")]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    assert ran.stdout.splitlines() == ["child says before", "fork has 1", "child says after", "ended by -15"], (
        ran.stderr
    )
