"""The heartbeat of a build: a small file in its folder that its launcher rewrites every few seconds."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import threading
import time
from collections.abc import Iterator

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.processes.descendants import is_there
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder, Workspace, is_listing
from beam_tfrecords.transforms.workspace.state_files import read_state, write_state

_INTERVAL = 5.0
# Seconds before the first write to a store. A short build sends none; until then, the lease shows that it runs.
_FIRST_IN_STORE = 20.0
# Seconds after its last write at which a process counts as dead.
_TIMEOUT = 30.0


@dataclasses.dataclass(frozen=True)
class Run:
    """One attempt at a build.

    Attributes:
      began: start of the attempt, in seconds since the epoch, by the clock of its machine.
      beat: time of its last write, by the clock of its machine.
      written: time of its last write, by the clock of the store.
      done_before: number of samples that earlier attempts had converted.
      ended: time when it ended or left its job, by the clock of its machine; 0 before.
      refusal: message of the `RequestError` with which a job that lists the input refuses it; "" if it does not.
    """

    host: str
    process: int
    began: float
    beat: float
    listed: int
    blocks: int
    done_before: int
    written: float = 0.0
    ended: float = 0.0
    refusal: str = ""

    @classmethod
    def left(cls) -> Run:
        """Returns an attempt that this process leaves to a job, which has not listed its input."""
        now = time.time()
        return cls(socket.gethostname(), os.getpid(), now, now, 0, 0, 0, ended=now)

    def is_alive(self, now: float) -> bool:
        """Whether the process has written recently by the store's clock, and, if it is on this machine, exists."""
        if self.ended:
            return False
        if self.host == socket.gethostname() and not is_there(self.process):
            return False
        return now - self.written < _TIMEOUT


class Heartbeat:
    """Writes the heartbeat of a build while it runs."""

    def __init__(self, folder: str, *, listed: int, blocks: int, done_before: int = 0) -> None:
        now = time.time()
        self._run = Run(socket.gethostname(), os.getpid(), now, now, listed, blocks, done_before)
        self._path = BuildFolder(folder).run
        self._in_store = storage.has_scheme(folder)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        if not self._in_store:
            self._write()
        self._thread.start()
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        # A successful build soon removes its folder; until then this process exists.
        if kind is not None:
            self.end()

    def end(self) -> None:
        """Records that the heartbeat has stopped, although the build is not finished."""
        # The folder may no longer exist.
        with contextlib.suppress(OSError, BuildError):
            if storage.exists(self._path):
                self._write(ended=time.time())

    def _beat(self) -> None:
        pause = _FIRST_IN_STORE if self._in_store else _INTERVAL
        while not self._stop.wait(pause):
            pause = _INTERVAL
            # If the storage fails, the build itself reports the error.
            with contextlib.suppress(OSError, BuildError):
                self._write()

    def _write(self, ended: float = 0.0) -> None:
        write_state(self._path, dataclasses.replace(self._run, beat=time.time(), ended=ended))


def read_runs(output: str) -> Iterator[tuple[str, Run | None]]:
    """Yields the builds with temporary files in an output: folder -> last attempt, if it wrote a heartbeat.

    A build whose job lists the input has the folder of the listing.
    """
    for folder in Workspace(output).list_folders():
        path = BuildFolder(folder).run
        run = read_state(Run, path)
        if run is None and is_listing(folder):
            continue
        yield folder, run and dataclasses.replace(run, written=storage.stat(path).modified)
