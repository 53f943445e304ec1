"""Forks the Python workers of a job from a template process that has already imported all modules.

Runners stop and restart their Python workers between the stages of a batch job, a dozen times per build. Importing
takes two seconds each time; forking takes a few milliseconds. The first worker of a job under a task manager starts the
template. The template serves only that job, so that it never runs code of an earlier installation. It ends with the
task manager, or after it has been idle for a minute.

The process that the runner started remains as a minimal Python process. If it or its fork exits, so does the other.

Beam has two alternatives to this module. Measured with 42 photos on a task manager with two slots:

- Its worker pool (`worker_pool_main`, environment EXTERNAL) also starts an interpreter per worker: 50 s of processor
  time instead of 21 s, 714 MB instead of 446 MB. A pool must run next to each task manager, so the address of a cluster
  would no longer be enough. The pool does not notice a killed worker, and Flink waits three minutes for that worker.
  Workers of a killed pool keep running.
- `--environment_cache_millis` does not keep workers: Flink closes the environments of a batch job whenever no stage
  runs. It starts as many workers and takes as long as without the flag.
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

# Environment variable of the workers that contains the job name.
JOB_VARIABLE = "BEAM_TFRECORDS_JOB"
# First argument of a template process, followed by its socket path and the task manager's process id.
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
    """Forks a worker from the job's template, and waits until it ends.

    Returns:
      False if no template could be reached or started, so that the caller must do the work in its own process.
    """
    connection = _connect(job)
    if connection is None:
        return False
    manager = os.getppid()
    with connection:
        try:
            connection.sendall(json.dumps([worker_id, endpoint]).encode())
        except ConnectionError:  # The template has just ended.
            return False
        connection.settimeout(_CHECK_INTERVAL)
        while os.getppid() == manager:
            try:
                if connection.recv(1):
                    return True
            except TimeoutError:
                continue
            except ConnectionError:  # The template was killed.
                break
            break
    # The runner then starts another worker.
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
                # Keeps Python from importing modules from the current folder, which may be the user's.
                env={**os.environ, "PYTHONSAFEPATH": "1"},
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            is_started = True
        time.sleep(0.02)
    return None


def _socket_path(job: str) -> str | None:
    """Returns the path of the template's socket in a folder private to this user; None if that is impossible."""
    try:
        folder = os.path.join(tempfile.gettempdir(), f"beam-tfrecords-{os.getuid()}")
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        facts = os.lstat(folder)
    except OSError:
        return None
    path = os.path.join(folder, f"{os.getppid()}-{job}")
    # The kernel limits the length of socket paths.
    is_safe = facts.st_uid == os.getuid() and facts.st_mode & 0o777 == 0o700 and len(path) < 100
    return path if is_safe else None


def serve(path: str, manager: int, work: Callable[[str, str], None]) -> None:
    """Forks workers until the task manager ends, or no worker has been requested for a minute.

    Args:
      path: path of the socket.
      manager: process id of the task manager.
      work: does a worker's work, given its id and the runner's endpoint.
    """
    # Ctrl-C in a terminal is meant for the launcher.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    listener = _listen(path)
    if listener is None:
        return
    own = os.stat(path).st_ino
    try:
        _import_all()
        _fork_on_request(listener, manager, work)
    finally:
        # Another template may have replaced this socket.
        with contextlib.suppress(FileNotFoundError):
            if os.stat(path).st_ino == own:
                os.unlink(path)


def _listen(path: str) -> socket.socket | None:
    """Listens on a socket path; returns None if another template already does."""
    listener = socket.socket(socket.AF_UNIX)
    own = f"{path}.{os.getpid()}"
    listener.bind(own)
    listener.listen(64)
    try:
        # Publishes the socket under its final name only after it accepts connections.
        os.link(own, path)
    except FileExistsError:
        if _is_served(path):
            os.unlink(own)
            return None
        # The existing socket belongs to a killed template.
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
    """Does the work of a forked worker, and exits the process."""
    code = 1
    try:
        worker_id, endpoint = json.loads(connection.recv(1 << 16))
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        random.seed()
        from apache_beam.runners.worker.worker_id_interceptor import WorkerIdInterceptor

        # Beam read the id from the environment during the import.
        WorkerIdInterceptor._worker_id = worker_id
        work(worker_id, endpoint)
        connection.send(b"0")
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def _end_with(connection: socket.socket) -> None:
    """Ends this process as soon as the other end of the connection closes."""
    connection.recv(1)
    os._exit(1)


def _import_all() -> None:
    # Prevents idle threads, which would not survive the fork.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    for module in _PRELOADED:
        importlib.import_module(module)
