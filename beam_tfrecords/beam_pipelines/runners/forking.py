"""Forks the Python workers of a job from one process, the template, that has imported everything.

Runners end their Python workers between the stages of a batch job and start them again: a dozen times for one build.
Importing takes two seconds each time, forking some milliseconds. The template is started by the first worker of a job
under a task manager, serves that job alone, so that it never runs code of an earlier installation, and ends with the
task manager, or when it has had nothing to do for a minute.

What the runner has started stays a process of its own, as small as Python is. If either it or its fork exits, the other
exits.

Beam has two things that could take the place of this module. Measured with 42 photos on a task manager with two slots:

- Its worker pool (`worker_pool_main`, environment EXTERNAL) starts an interpreter for each worker as well: 50 s of
  processors instead of 21 s, 714 MB instead of 446 MB. Somebody has to start a pool beside each task manager, so the
  address of a cluster would no longer be enough. The pool does not notice that a worker was killed, and Flink waits
  three minutes for that worker. Workers of the pool's own outlive a pool that is killed.
- `--environment_cache_millis` keeps no worker: Flink closes the environments of a batch job whenever no stage runs. It
  starts as many workers as without, and takes as long.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

from beam_tfrecords.transforms.processes.descendants import is_there

# Set in the workers' environment: names the job.
JOB_VARIABLE = "BEAM_TFRECORDS_JOB"
# First word of the command line of a template; the path of its socket and the task manager's number follow.
TEMPLATE = "template"
_TEMPLATE_COMMAND = [sys.executable, "-m", "beam_tfrecords.beam_pipelines.runners.worker"]
_PRELOADED = (
    "apache_beam.runners.worker.sdk_worker_main",
    "beam_tfrecords.beam_pipelines.build.pipeline",
    "beam_tfrecords.transforms.processes.preload",
)
_START_TIMEOUT = 30.0
_IDLE_TIMEOUT = 60.0
_CHECK_INTERVAL = 1.0


def work_in_fork(worker_id: str, endpoint: str, *, job: str) -> bool:
    """Has a worker forked from the job's template, and returns when it has ended.

    Returns:
      False if no template could be reached or started: the caller has to do the work in its own process.
    """
    connection = _connect(job)
    if connection is None:
        return False
    manager = os.getppid()
    with connection:
        try:
            connection.sendall(json.dumps([worker_id, endpoint]).encode())
        except ConnectionError:  # the template has just ended
            return False
        connection.settimeout(_CHECK_INTERVAL)
        while os.getppid() == manager:
            try:
                if connection.recv(1):
                    return True
            except TimeoutError:
                continue
            except ConnectionError:  # the template was killed
                break
            break
    # The runner starts another one.
    sys.exit(1)


def _connect(job: str) -> socket.socket | None:
    """Connects to the job's template; starts the template if there is none."""
    path = _socket_path(job)
    if path is None:
        return None
    deadline = time.monotonic() + _START_TIMEOUT
    is_started = False
    while time.monotonic() < deadline:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(path)
            return connection
        except OSError:
            connection.close()
        if not is_started:
            subprocess.Popen(
                [*_TEMPLATE_COMMAND, TEMPLATE, path, str(os.getppid())],
                # Without it, modules would be looked for in the current folder first, which may be the user's.
                env={**os.environ, "PYTHONSAFEPATH": "1"},
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            is_started = True
        time.sleep(0.02)
    return None


def _socket_path(job: str) -> str | None:
    """The path of the template's socket, in a folder that only this user can enter; None if there can be none."""
    try:
        folder = os.path.join(tempfile.gettempdir(), f"beam-tfrecords-{os.getuid()}")
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        facts = os.lstat(folder)
    except OSError:
        return None
    path = os.path.join(folder, f"{os.getppid()}-{job}")
    # The kernel takes no longer names.
    is_safe = facts.st_uid == os.getuid() and facts.st_mode & 0o777 == 0o700 and len(path) < 100
    return path if is_safe else None


def serve(path: str, manager: int, work: Callable[[str, str], None]) -> None:
    """Forks workers until the task manager ends, or none is wanted for a while.

    Args:
      manager: process number of the task manager.
    """
    # A terminal's Ctrl-C is meant for the launcher.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    listener = _listen(path)
    if listener is None:
        return
    own = os.stat(path).st_ino
    try:
        _import_all()
        _fork_on_request(listener, manager, work)
    finally:
        # Another template may have taken the place of this one.
        with contextlib.suppress(FileNotFoundError):
            if os.stat(path).st_ino == own:
                os.unlink(path)


def _listen(path: str) -> socket.socket | None:
    """Listens at a path, unless another template does."""
    listener = socket.socket(socket.AF_UNIX)
    own = f"{path}.{os.getpid()}"
    listener.bind(own)
    listener.listen(64)
    try:
        # Under this name it is found only from now on, when it takes connections.
        os.link(own, path)
    except FileExistsError:
        if _is_served(path):
            os.unlink(own)
            return None
        # Left by one that was killed.
        os.replace(own, path)
        return listener
    os.unlink(own)
    return listener


def _is_served(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


def _fork_on_request(listener: socket.socket, manager: int, work: Callable[[str, str], None]) -> None:
    children: set[int] = set()
    busy = time.monotonic()
    while is_there(manager) and time.monotonic() - busy < _IDLE_TIMEOUT:
        if select.select([listener], [], [], _CHECK_INTERVAL)[0]:
            connection, _ = listener.accept()
            child = os.fork()
            if not child:
                listener.close()
                _work(connection, work)
            connection.close()
            children.add(child)
        children -= {child for child in children if os.waitpid(child, os.WNOHANG)[0]}
        if children:
            busy = time.monotonic()


def _work(connection: socket.socket, work: Callable[[str, str], None]) -> None:
    """Never returns."""
    code = 1
    try:
        worker_id, endpoint = json.loads(connection.recv(1 << 16))
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        random.seed()
        from apache_beam.runners.worker.worker_id_interceptor import WorkerIdInterceptor

        # Read from the environment when it was imported.
        WorkerIdInterceptor._worker_id = worker_id
        work(worker_id, endpoint)
        connection.send(b"0")
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def _end_with(connection: socket.socket) -> None:
    """Ends this process as soon as the other end of the connection is gone."""
    connection.recv(1)
    os._exit(1)


def _import_all() -> None:
    # Threads would not survive the fork; these would only wait.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    for module in _PRELOADED:
        importlib.import_module(module)
