"""Prints for people. The text may contain names, cells and headers from outside."""

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
    """Formats a number with its noun, given in the singular: `1 block`, `2,000 blocks`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


class PrintError(Exception):
    """The output cannot be written, for example to a full disk; the message says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"the output cannot be printed: {error.strerror or error}")


def show(*lines: str, file: TextIO | None = None) -> None:
    """Prints lines, escaped.

    Args:
      lines: lines without line breaks; line breaks in names are escaped.
      file: standard error for messages during the work, where lines that cannot be written are lost. None for results,
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
    """Prints log records on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        show(*f"{record.levelname} {record.name}: {self.format(record)}".splitlines(), file=sys.stderr)


def log_to_terminal(level: int) -> None:
    """Prints log records of this process from a level on, except for loggers with their own level."""
    logging.root.addHandler(_Log())
    logging.root.setLevel(level)


class _Forgiving(io.RawIOBase):
    """A stream that accepts everything, and drops data that cannot be written.

    Attributes:
      error: the first write error, or None.
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
    """Opens standard streams that the caller has closed, so that no other file gets their descriptors."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # Opens the lowest free descriptor, which is the stream's own.
            opened = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(opened, True)
            setattr(sys, name, os.fdopen(opened, "w" if number else "r", closefd=False, encoding="utf-8"))


def ignore_write_errors(stream: TextIO) -> TextIO:
    """Returns a standard stream that raises no write errors, and escapes characters that its encoding lacks."""
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
    """Flushes a stream; ignores a reader that has closed the pipe.

    Raises:
      PrintError: some output could not be written.
    """
    try:
        stream.flush()
        error = getattr(getattr(stream.buffer, "raw", None), "error", None)
    except OSError as raised:
        error = raised
    if error is not None and not isinstance(error, BrokenPipeError):
        raise PrintError(error) from error


def format_rate(rate: float) -> str:
    """Formats samples per second, such as `1,024/s`; below one with two digits, such as `0.05/s`."""
    return f"{rate:,.0f}/s" if rate >= 1 or not rate else f"{rate:.2g}/s"


def format_seconds(seconds: float) -> str:
    """Formats a time span for people."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
