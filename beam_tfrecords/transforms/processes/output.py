"""Sends what a worker prints and logs to the launcher.

The standard streams of a worker's process lead nowhere, so that a process that a worker leaves behind keeps no
terminal, pipe or log file of the launcher open.
"""

from __future__ import annotations

import contextlib
import io
import logging
import logging.handlers
import os
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

# Python's name of a standard stream -> its file descriptor.
_STREAMS = {"stdout": 1, "stderr": 2}


class Printed(NamedTuple):
    """Text that a worker has printed to the standard stream of this name."""

    stream: str
    text: str

    def show(self) -> None:
        """Prints the text. Ignores errors of the stream, because the function that prints is not at fault."""
        with contextlib.suppress(Exception):
            stream = getattr(sys, self.stream)
            stream.write(self.text)
            stream.flush()


class Reply(logging.handlers.QueueHandler):
    """The worker's end of a connection: sends printed text and log records as they come, and results."""

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

    def enqueue(self, record: logging.LogRecord | Printed) -> None:
        """Sends a log record, as `logging` calls this method, or printed text.

        Nothing is sent from a fork of the worker, whose message could land in the middle of another one.
        """
        if os.getpid() == self._process:
            self.send(record)


class _Sender(io.BufferedIOBase):
    """The bytes of a standard stream, which the worker sends as text."""

    def __init__(self, stream: str, reply: Reply) -> None:
        self._stream, self._reply = stream, reply

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return _STREAMS[self._stream]

    def write(self, data: Any) -> int:
        self._reply.enqueue(Printed(self._stream, bytes(data).decode(errors="backslashreplace")))
        return len(data)


def take_output(reply: Reply) -> None:
    """Makes this process, a worker, send what Python prints to the launcher."""
    for name in _STREAMS:
        setattr(sys, name, io.TextIOWrapper(_Sender(name, reply), "utf-8", "backslashreplace", line_buffering=True))


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
