"""The process that workers are forked from: Python's fork server, which has imported what they need."""

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
# Not the one of multiprocessing: what the caller starts there prints to the caller's output and obeys SIGTERM.
_SERVER: Any = multiprocessing.forkserver.ForkServer()
# Imported in this order. The last one takes the launcher's output from the server.
_FIRST, _LAST = "beam_tfrecords.transforms.processes.preload", "beam_tfrecords.transforms.processes.detach"
_lock = threading.Lock()
# Bytes: the address of a socket has 104 at most (macOS), and multiprocessing's sockets have names of this length.
_LONGEST_FOLDER = 104 - len("/pymp-12345678/listener-12345678") - 1
# Seconds after which a server that gives no answer is replaced: a suspended one, and one that is still importing.
_MOST_SUSPENDED, _MOST_SILENT = 30.0, 600.0
_LOOK_SECONDS = 1.0


class _Popen(multiprocessing.popen_forkserver.Popen):
    # The code of the standard library, with our server where it names the one of its module.
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
    """Starts the server, and returns while it still imports what workers need.

    Args:
      modules: that it imports besides, if they are there.
    """
    with _lock:
        _SERVER.set_forkserver_preload([_FIRST, *modules, _LAST])
        # Started first, because it resets the signal mask.
        multiprocessing.resource_tracker.ensure_running()
        # Ctrl-C reaches every process of a terminal, and systemd's SIGTERM every process of a service; the server and
        # its workers end with this process instead.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        # Without it, the server would look for modules in the user's working folder first.
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
    """A process that was forked from the server.

    Raises:
      OSError, EOFError: it cannot be started.
    """
    for pause in (0.1, 0.5, None):
        start_fork_server()
        try:
            with _lock, _as_a_plain_process(), _in_some_folder(), _replacing_silent():
                process = _Process(target=target, args=arguments)
                process.start()
                # Who waits for all children of this process, as an interpreter that exits does, is not to wait for it.
                multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]
                return process
        except (EOFError, ConnectionError):  # the server has ended, or is about to
            if pause is None:
                raise
            time.sleep(pause)


def find_exit_code(process: Any) -> int:
    """How a process that was killed has ended; 255 if its server has ended before, and nobody knows."""
    with _replacing_silent():
        process.join()
    return int(process.exitcode)


@contextlib.contextmanager
def _as_a_plain_process() -> Iterator[None]:
    """Lets this process start another one, whatever kind of process it is.

    A new process would import the user's script again, which may have no `if __name__ == "__main__":`. And a process of
    a `multiprocessing.Pool` is daemonic: it may start none, because it is ended without notice. Workers notice that.
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
    """Within it, a server that gives no answer is killed; whoever waits for its answer gets EOF instead."""
    answered = threading.Event()

    def watch(server: int) -> None:
        # Time for which this process was suspended too does not count.
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
    """Whether a child process has been stopped, as by SIGSTOP."""
    if not hasattr(os, "waitid"):  # macOS
        return False
    try:
        return os.waitid(os.P_PID, server, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # it has ended
        return False


@contextlib.contextmanager
def _in_some_folder() -> Iterator[None]:
    """Changes to a folder that exists if the working folder was deleted; multiprocessing asks for its name."""
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
    # None if it was deleted before; what is there in its place has no modules.
    module.ORIGINAL_DIR = original or os.devnull  # type: ignore[attr-defined]
    try:
        yield
    finally:
        module.ORIGINAL_DIR = original  # type: ignore[attr-defined]
        os.fchdir(deleted)
        os.close(deleted)


@contextlib.contextmanager
def _short_temporary_folder() -> Iterator[None]:
    """Makes temporary files in /tmp if the path of the usual folder is too long for a socket in it."""
    earlier = tempfile.tempdir
    if len(os.fsencode(tempfile.gettempdir())) > _LONGEST_FOLDER:
        tempfile.tempdir = "/tmp"
    try:
        yield
    finally:
        tempfile.tempdir = earlier


def _forget_server() -> None:
    """A fork of this process has a server of its own: it cannot wait for that of another one."""
    global _lock
    _lock = threading.Lock()
    if _SERVER._forkserver_alive_fd is not None:
        # Otherwise the server would stay as long as the fork.
        os.close(_SERVER._forkserver_alive_fd)
    _SERVER.__init__()


# Looked up at each fork: a test has its forks share the server.
os.register_at_fork(after_in_child=lambda: _forget_server())
