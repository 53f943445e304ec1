"""The progress line, from what the workers say they have done: the same for every runner."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TextIO

from beam_tfrecords.errors import BuildError
from transforms.workspace.counts import BlockCounts, read_block_counts

_TERMINAL_SECONDS = 0.5
_LOG_SECONDS = 10.0
_USUAL_WIDTH = 80


class Progress:
    """Shows the progress of a build: one line that is rewritten on a terminal, a line now and then elsewhere."""

    def __init__(self, folder: str, *, total: int, stream: TextIO | None = None) -> None:
        self._folder = folder
        self._counts = BlockCounts()
        self._total = total
        self._stream = stream or sys.stderr
        # A dumb terminal cannot rewrite a line; the output of a notebook's cell can.
        in_notebook = type(self._stream).__module__.startswith("ipykernel")
        self._rewrites = in_notebook or (self._stream.isatty() and os.environ.get("TERM") != "dumb")
        self._shown = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._start = time.monotonic()

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._rewrites:
            self._stream.write(f"\r{'':{self._shown}}\r")
            self._stream.flush()

    def _run(self) -> None:
        # Blocks that an earlier attempt finished do not count for the rate.
        self._update()
        before = self._counts.done
        while not self._stop.wait(_TERMINAL_SECONDS if self._rewrites else _LOG_SECONDS):
            if not self._update():
                continue
            seconds = time.monotonic() - self._start
            line = progress_line(self._counts, total=self._total, rate=(self._counts.done - before) / seconds)
            if self._rewrites:
                # A line that wraps could not be rewritten.
                line = line[: self._width() - 1]
                self._shown, line = len(line), f"\r{line:{self._shown}}"
            else:
                line += "\n"
            self._stream.write(line)
            self._stream.flush()

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _USUAL_WIDTH
        except OSError:
            return _USUAL_WIDTH

    def _update(self) -> bool:
        """Counts again; whether there is something to show. A store that does not answer now may do so next time."""
        try:
            self._counts = read_block_counts(self._folder)
        except (OSError, BuildError):
            return False
        return self._counts.blocks > 0


def progress_line(counts: BlockCounts, *, total: int, rate: float) -> str:
    """One line: samples, share, rate, failures, time left.

    Args:
      counts: what has been counted. A block that was converted twice counts twice.
      rate: samples a second.
    """
    done = min(counts.done, total)
    left = total - done
    if not done:
        remaining = "starting"
    elif not left:
        remaining = "composing shards"
    else:
        remaining = f"{format_seconds(left / rate)} left" if rate else "waiting"
    return (
        f"{done:,} of {total:,} samples ({100 * done / total:.0f}%), {rate:,.0f}/s, "
        f"{counts.failed:,} failed, {remaining}"
    )


def format_seconds(seconds: float) -> str:
    """A time span for people."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
