"""Sends the output and logs of a worker to the launcher.

Workers use two pipes instead of the launcher's standard streams, so that a process that a worker leaves behind keeps no
terminal, pipe or log file of the launcher open.
"""

from __future__ import annotations

import codecs
import contextlib
import logging
import logging.handlers
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

_STREAMS = ("stdout", "stderr")
_CHUNK_BYTES = 1 << 16
# Maximum number of chunks that are read in one call, which exceed the capacity of a pipe. So a process that prints
# endlessly cannot block the launcher.
_MOST_CHUNKS = 64


class WorkerOutput:
    """The launcher's ends of the pipes that a worker prints to.

    Attributes:
      theirs: the worker's ends, for `take_output`.
      pipes: file descriptors of the pipes that a process may still print to.
    """

    def __init__(self) -> None:
        pairs = [Pipe(duplex=False) for _ in _STREAMS]
        self.theirs = tuple(theirs for _, theirs in pairs)
        self._ours = {ours.fileno(): ours for ours, _ in pairs}
        self._streams = dict(zip(self._ours, _STREAMS, strict=True))
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {pipe: decoder("backslashreplace") for pipe in self._ours}
        for pipe in self._ours:
            os.set_blocking(pipe, False)

    @property
    def pipes(self) -> list[int]:
        return list(self._ours)

    def show(self) -> list[int]:
        """Prints the output so far, and returns the pipes that no process can print to any more.

        Ignores write errors of the launcher's streams, because the functions that print are not at fault.
        """
        return [pipe for pipe in self.pipes if self._show(pipe)]

    def close(self) -> None:
        """Closes all pipes."""
        for pipe in (*self._ours.values(), *self.theirs):
            pipe.close()
        self._ours.clear()

    def _show(self, pipe: int) -> bool:
        """Prints the content of one pipe; closes the pipe at its end. Returns whether it has ended."""
        for _ in range(_MOST_CHUNKS):
            try:
                data = os.read(pipe, _CHUNK_BYTES)
            except BlockingIOError:
                break
            with contextlib.suppress(Exception):
                stream = getattr(sys, self._streams[pipe])
                stream.write(self._decoders[pipe].decode(data, final=not data))
                stream.flush()
            if not data:
                self._ours.pop(pipe).close()
                return True
        return False


class Reply(logging.handlers.QueueHandler):
    """The worker's end of a connection: sends log records as they come, and results."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)  # type: ignore[arg-type]
        self._connection, self._process = connection, os.getpid()

    def send(self, message: Any) -> None:
        """Sends a message.

        Raises:
          ConnectionError: the launcher has ended.
        """
        assert self.lock is not None
        with self.lock:
            self._connection.send(message)

    def enqueue(self, record: logging.LogRecord) -> None:
        """Sends a log record; `logging` calls this method."""
        if os.getpid() == self._process:
            self.send(record)
        else:  # a fork of the worker, whose record could land in the middle of another message
            assert logging.lastResort is not None
            logging.lastResort.handle(record)


def take_output(theirs: Sequence[int]) -> None:
    """Makes this process, a worker, print to the launcher's pipes, given by their file descriptors."""
    for number, (name, pipe) in enumerate(zip(_STREAMS, theirs, strict=True), start=1):
        os.dup2(pipe, number)
        os.close(pipe)
        # A new stream, because the old one was opened for another kind of file and might seek in the pipe.
        setattr(sys, name, os.fdopen(number, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False))


def flush_output() -> None:
    """Flushes Python's standard streams."""
    for name in _STREAMS:
        with contextlib.suppress(Exception):  # the user's function may have closed or replaced a stream
            getattr(sys, name).flush()


def log_levels() -> Mapping[str, int]:
    """Returns the levels that this process has set for its loggers: name -> level; "" is the root logger."""
    loggers = {**logging.root.manager.loggerDict, "": logging.root}
    levels = {name: logger.level for name, logger in loggers.items() if isinstance(logger, logging.Logger)}
    disabled = logging.root.manager.disable
    return {name: max(level, disabled + 1) for name, level in levels.items() if level or not name}


def take_log(reply: Reply, levels: Mapping[str, int]) -> None:
    """Makes this process, a worker, send its log records to the launcher, with the launcher's levels."""
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    logging.root.handlers = [reply]
