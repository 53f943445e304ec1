"""Prints for people. What is printed may hold names, cells and headers that come from outside."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import select
import sys
from typing import Any, TextIO

from beam_tfrecords.escaping import escape


def counted(number: int, what: str) -> str:
    """A number with its noun, given in the singular: `1 block`, `2,000 blocks`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


class PrintError(Exception):
    """What is printed cannot be written, such as to a full disk; the message says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"the output cannot be printed: {error.strerror or error}")


def show(*lines: str, file: TextIO | None = None) -> None:
    """Prints lines, escaped.

    Args:
      lines: without line breaks; those in a name are escaped.
      file: standard error for what happens on the way; a line that cannot be written there is lost. None for results,
        on standard output.

    Raises:
      PrintError: results cannot be written.
    """
    try:
        print("\n".join(map(escape, lines)), file=file)
    except BrokenPipeError:
        if file is None:
            raise
    except OSError as error:
        if file is None:
            raise PrintError(error) from error


class _Log(logging.Handler):
    """Shows log records on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        show(*f"{record.levelname} {record.name}: {self.format(record)}".splitlines(), file=sys.stderr)


def log_to_terminal(level: int) -> None:
    """Shows the log of this process from a level on, except records whose loggers have another one."""
    logging.root.addHandler(_Log())
    logging.root.setLevel(level)


class _Forgiving(io.RawIOBase):
    """A stream that takes everything: what cannot be written is lost.

    Attributes:
      error: the first that was met, or None.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def fileno(self) -> int:
        return self._number

    def write(self, data: Any) -> int:
        while self.error is None:
            try:
                return os.write(self._number, data)
            except BlockingIOError:
                select.select([], [self._number], [])
            except OSError as error:
                self.error = error
        return len(data)


def open_closed_streams() -> None:
    """Opens the standard streams that the caller has closed, so that no other file gets their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The lowest number that is free: its own.
            opened = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(opened, True)
            setattr(sys, name, os.fdopen(opened, "w" if number else "r", closefd=False, encoding="utf-8"))


def ignore_write_errors(stream: TextIO) -> TextIO:
    """A standard stream that raises no error of writing, and writes what an encoding lacks as escapes."""
    with contextlib.suppress(OSError):
        stream.flush()
    raw = _Forgiving(stream.fileno())
    buffer = io.BufferedWriter(raw)
    is_direct = getattr(stream, "write_through", False)
    is_by_line = getattr(stream, "line_buffering", False)
    return io.TextIOWrapper(
        buffer, stream.encoding, "backslashreplace", line_buffering=is_by_line or is_direct, write_through=is_direct
    )


def check_printed(stream: TextIO) -> None:
    """Writes what a stream still holds; a reader that has gone away needs none of it.

    Raises:
      PrintError: not all that was printed could be written.
    """
    try:
        stream.flush()
        error = getattr(getattr(stream.buffer, "raw", None), "error", None)
    except OSError as raised:
        error = raised
    if error is not None and not isinstance(error, BrokenPipeError):
        raise PrintError(error) from error


def format_rate(rate: float) -> str:
    """Samples a second, such as `1,024/s`; below one with two digits, such as `0.05/s`."""
    return f"{rate:,.0f}/s" if rate >= 1 or not rate else f"{rate:.2g}/s"


def format_seconds(seconds: float) -> str:
    """A time span for people."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
