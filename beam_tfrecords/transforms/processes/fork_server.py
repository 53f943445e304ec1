"""The process that workers are forked from: Python's fork server with the workers' modules already imported."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import multiprocessing.context
import multiprocessing.forkserver
import multiprocessing.popen_forkserver
import multiprocessing.process
import multiprocessing.resource_tracker
import os
import signal
import sys
import tempfile
import threading
import time
import types
from collections.abc import Iterator
from typing import Any

_log = logging.getLogger(__name__)
# Separate from multiprocessing's own server, whose processes must print to the caller's output and obey SIGTERM.
_SERVER: Any = multiprocessing.forkserver.ForkServer()
# Modules that the server imports first and last. The last one detaches the server from the launcher's output.
_FIRST, _LAST = "beam_tfrecords.transforms.processes.preload", "beam_tfrecords.transforms.processes.detach"
_lock = threading.Lock()
# Bytes. The address of a socket has at most 104 (macOS), including the names that multiprocessing appends.
_LONGEST_FOLDER = 104 - len("/pymp-12345678/listener-12345678") - 1
# Seconds without an answer after which a suspended server, and any other server, is replaced.
_MOST_SUSPENDED, _MOST_SILENT = 30.0, 600.0
_LOOK_SECONDS = 1.0


class _Popen(multiprocessing.popen_forkserver.Popen):
    # The standard library's code, with our server in place of its own.
    _launch = types.FunctionType(
        multiprocessing.popen_forkserver.Popen._launch.__code__,  # type: ignore[attr-defined]
        {
            **vars(multiprocessing.popen_forkserver),
            "forkserver": types.SimpleNamespace(
                connect_to_new_process=_SERVER.connect_to_new_process,
                read_signed=multiprocessing.forkserver.read_signed,
            ),
        },
    )


class _Process(multiprocessing.context.ForkServerProcess):
    @staticmethod
    def _Popen(process: Any) -> Any:
        return _Popen(process)


def start_fork_server(*modules: str) -> None:
    """Starts the server. Returns without waiting for its imports.

    Args:
      modules: further modules for the server to import if they exist.
    """
    with _lock:
        _SERVER.set_forkserver_preload([_FIRST, *modules, _LAST])
        # The resource tracker starts first, because its start resets the signal mask.
        multiprocessing.resource_tracker.ensure_running()
        # Ctrl-C reaches every process of a terminal, and systemd's SIGTERM every process of a service. The server and
        # its workers block both, and end with this process instead.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        # Without PYTHONSAFEPATH, the server would search the user's working folder for modules first.
        safe_path = os.environ.get("PYTHONSAFEPATH")
        os.environ["PYTHONSAFEPATH"] = "1"
        try:
            with _short_temporary_folder(), _in_some_folder():
                _SERVER.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            del os.environ["PYTHONSAFEPATH"]
            if safe_path is not None:
                os.environ["PYTHONSAFEPATH"] = safe_path


def start_process(target: Any, arguments: tuple[Any, ...]) -> Any:
    """Starts a process that is forked from the server, and returns it.

    Raises:
      OSError, EOFError: the process cannot be started.
    """
    for pause in (0.1, 0.5, None):
        start_fork_server()
        try:
            with _lock, _as_a_plain_process(), _in_some_folder(), _replacing_silent():
                process = _Process(target=target, args=arguments)
                process.start()
                # Code that waits for all children, such as the interpreter at its exit, must not wait for this process.
                multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]
                return process
        except (EOFError, ConnectionError):  # the server has ended, or is about to
            if pause is None:
                raise
            time.sleep(pause)


def find_exit_code(process: Any) -> int:
    """Returns the exit code of a killed process; 255 if its server ended first, so that the code is unknown."""
    with _replacing_silent():
        process.join()
    return int(process.exitcode)


@contextlib.contextmanager
def _as_a_plain_process() -> Iterator[None]:
    """Lets any kind of process start a worker.

    A new process would normally import the user's script again, which may lack `if __name__ == "__main__":`. Processes
    of a `multiprocessing.Pool` are daemonic: they must not start children, because they are killed without cleanup; but
    our workers notice the end of their launcher.
    """
    main, kind = sys.modules["__main__"], multiprocessing.current_process()._config  # type: ignore[attr-defined]
    is_daemonic = kind.pop("daemon", None)
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        if is_daemonic is not None:
            kind["daemon"] = is_daemonic


@contextlib.contextmanager
def _replacing_silent() -> Iterator[None]:
    """Kills a server that does not answer during the block, so that code waiting for an answer gets EOF instead."""
    answered = threading.Event()

    def watch(server: int) -> None:
        # Counts waits instead of clock time, to exclude time while this process was suspended.
        waited = 0.0
        while not answered.wait(_LOOK_SECONDS):
            waited += _LOOK_SECONDS
            if waited >= (_MOST_SUSPENDED if _is_suspended(server) else _MOST_SILENT):
                _log.warning("the process that workers are forked from gives no answer; starting another one")
                os.kill(server, signal.SIGKILL)
                return

    watching = threading.Thread(target=watch, args=(_SERVER._forkserver_pid,), daemon=True, name="watch fork server")
    watching.start()
    try:
        yield
    finally:
        answered.set()


def _is_suspended(server: int) -> bool:
    """Whether a child process is stopped, for example by SIGSTOP."""
    if not hasattr(os, "waitid"):  # macOS
        return False
    try:
        return os.waitid(os.P_PID, server, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # the process has ended
        return False


@contextlib.contextmanager
def _in_some_folder() -> Iterator[None]:
    """Changes to an existing folder if the working folder was deleted, because multiprocessing needs its name."""
    try:
        os.getcwd()
    except FileNotFoundError:
        pass
    else:
        yield
        return
    deleted, module = os.open(".", os.O_RDONLY), multiprocessing.process
    original = module.ORIGINAL_DIR  # type: ignore[attr-defined]
    os.chdir("/")
    # The original folder is None if it was deleted earlier; the null device stands for a folder without modules.
    module.ORIGINAL_DIR = original or os.devnull  # type: ignore[attr-defined]
    try:
        yield
    finally:
        module.ORIGINAL_DIR = original  # type: ignore[attr-defined]
        os.fchdir(deleted)
        os.close(deleted)


@contextlib.contextmanager
def _short_temporary_folder() -> Iterator[None]:
    """Uses /tmp for temporary files if the path of the usual folder is too long for a socket."""
    earlier = tempfile.tempdir
    if len(os.fsencode(tempfile.gettempdir())) > _LONGEST_FOLDER:
        tempfile.tempdir = "/tmp"
    try:
        yield
    finally:
        tempfile.tempdir = earlier


def _forget_server() -> None:
    """Gives a fork of this process its own server, because it cannot wait for another process's child."""
    global _lock
    _lock = threading.Lock()
    if _SERVER._forkserver_alive_fd is not None:
        # Otherwise the old server would live as long as the fork.
        os.close(_SERVER._forkserver_alive_fd)
    _SERVER.__init__()


# The lambda looks the function up at each fork, so that a test can replace it to share the server.
os.register_at_fork(after_in_child=lambda: _forget_server())
