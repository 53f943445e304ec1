"""Prints for people. The text may contain names, cells and headers from outside."""

from __future__ import annotations

import io
import logging
import os
import sys
from typing import Any, TextIO

from beam_tfrecords.escaping import escape

# Start of a line -> code of its color, and whether it is that of the whole line: red, yellow, bold.
_COLORS = {
    "beam-tfrecords:": ("31", False),
    "Nothing was published": ("31", False),
    "INTERNAL ERRORS": ("31", False),
    "warning:": ("33", False),
    "leaks:": ("33", False),
    "  beam-tfrecords ": ("1", True),
    "    beam-tfrecords ": ("1", True),
    "$ ": ("1", True),
}


def counted(number: int, what: str) -> str:
    """Formats a number with its noun, given in the singular: `1 block`, `2,000 blocks`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def show(*lines: str, file: TextIO | None = None) -> None:
    """Prints lines, escaped.

    Args:
      lines: lines without line breaks; line breaks in names are escaped.
      file: standard error for messages during the work, where lines that cannot be written are lost. None for results,
        on standard output.

    Raises:
      OSError: results cannot be written.
    """
    try:
        has_colors = _has_colors(file or sys.stdout)
        print("\n".join(_color(escape(line)) if has_colors else escape(line) for line in lines), file=file)
    except OSError:
        if file is None:
            raise


def _has_colors(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows colors; see https://no-color.org."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _color(line: str) -> str:
    """Colors the first word of a problem, and makes a command bold."""
    for start, (code, is_whole) in _COLORS.items():
        if line.startswith(start):
            shown = line if is_whole else start
            return f"\x1b[{code}m{shown}\x1b[0m{line[len(shown) :]}"
    return line


class _Log(logging.Handler):
    """Prints log records on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        show(*f"{record.levelname} {record.name}: {self.format(record)}".splitlines(), file=sys.stderr)


def log_to_terminal(level: int) -> None:
    """Prints log records of this process from a level on, except for loggers with their own level."""
    logging.root.addHandler(_Log())
    logging.root.setLevel(level)


class _Forgiving(io.FileIO):
    """A stream that drops data that cannot be written, for example because the reader has closed the pipe."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
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
    buffer = io.BufferedWriter(_Forgiving(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(buffer, stream.encoding, "backslashreplace", line_buffering=True)


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
