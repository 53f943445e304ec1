"""Workers that are forked from a template: started once, ended with whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beam_tfrecords.beam_pipelines.runners import worker
from beam_tfrecords.beam_pipelines.runners.spark_runner import ended_with_us

ROOT = Path(__file__).parents[3]

# What a runner starts, with a template whose workers note their own number and that of their parent, and work until
# they are ended.
PROGRAM = """
import os, sys, time
from pathlib import Path
from beam_tfrecords.beam_pipelines.runners import forking

def work(worker_id, endpoint):
    Path(endpoint, worker_id).write_text(f"{os.getpid()} {os.getppid()}")
    while worker_id != "short":
        time.sleep(0.05)

if sys.argv[1] == forking.TEMPLATE:
    forking._import_all = lambda: None
    forking.serve(sys.argv[2], int(sys.argv[3]), work)
else:
    forking._TEMPLATE_COMMAND = [sys.executable, __file__]
    assert forking.work_in_fork(sys.argv[1], sys.argv[2], job="job")
"""


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Manager:
    """A task manager: a process that starts workers when it is told to, one for each line."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "program.py").write_text(PROGRAM)
        script = (
            "import subprocess, sys\n"
            "for name in sys.stdin:\n"
            "    process = subprocess.Popen([sys.executable, 'program.py', name.strip(), '.'])\n"
            "    print(process.pid, flush=True)\n"
        )
        environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(Path(__file__).parents[3])}
        self.process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment,
        )

    def start(self, name: str) -> tuple[int, int, int]:
        """Starts a worker; returns the numbers of what was started, of its fork, and of the template."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        started = int(self.process.stdout.readline())
        note = self._folder / name
        wait_until(lambda: note.exists() and len(note.read_text().split()) == 2)
        fork, template = map(int, note.read_text().split())
        return started, fork, template


@pytest.fixture
def manager() -> Iterator[Manager]:
    # A short path: the kernel limits the length of socket paths.
    with tempfile.TemporaryDirectory() as folder:
        running = Manager(Path(folder))
        yield running
        running.process.kill()
        running.process.wait()


def test_all_workers_come_from_one_template(manager):
    first, second = manager.start("1-1"), manager.start("1-2")
    assert first[2] == second[2]
    assert len({*first, *second}) == 5


def test_a_fork_ends_with_what_the_runner_started(manager):
    started, fork, template = manager.start("1-1")
    os.kill(started, signal.SIGKILL)
    wait_until(lambda: not is_there(fork))
    assert is_there(template)


def test_what_the_runner_started_ends_with_its_fork(manager):
    started, fork, _ = manager.start("1-1")
    os.kill(fork, signal.SIGKILL)
    wait_until(lambda: not is_there(started))


def test_a_worker_that_has_done_its_work_ends(manager):
    started, fork, template = manager.start("short")
    wait_until(lambda: not is_there(started) and not is_there(fork))
    assert is_there(template)


def test_everything_ends_with_the_task_manager(manager):
    numbers = manager.start("1-1")
    manager.process.kill()
    manager.process.wait()
    wait_until(lambda: not any(map(is_there, numbers)))


def test_a_template_that_was_killed_is_replaced(manager):
    _, _, template = manager.start("1-1")
    os.kill(template, signal.SIGKILL)
    wait_until(lambda: not is_there(template))
    assert manager.start("1-2")[2] != template


def test_companions_end_with_a_launcher_that_is_killed(tmp_path):
    script = (
        "import subprocess, time\n"
        "from beam_tfrecords.beam_pipelines.runners.spark_runner import ended_with_us\n"
        "from beam_tfrecords.transforms.processes.descendants import find_children\n"
        "before = find_children()\n"
        "started = subprocess.Popen(['sleep', '600'])\n"
        "assert find_children() - before == {started.pid}\n"
        "with ended_with_us(find_children()):\n"
        "    print(started.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT) as launcher:
        assert launcher.stdout
        companion = int(launcher.stdout.readline())
        launcher.kill()
    wait_until(lambda: not is_there(companion))


def test_companions_of_a_job_that_has_ended_are_let_alone():
    with subprocess.Popen(["sleep", "600"]) as companion:
        with ended_with_us([companion.pid]):
            pass
        assert is_there(companion.pid)
        companion.kill()


@pytest.mark.parametrize("missing", ["--id", "--provision_endpoint"])
def test_a_worker_is_told_who_it_is_and_whom_to_ask(missing, capsys):
    given = {"--id": "1-1", "--provision_endpoint": "localhost:1"}
    with pytest.raises(SystemExit):
        worker.main([word for name, value in given.items() if name != missing for word in (name, value)])
    assert f"required: {missing}" in capsys.readouterr().err
