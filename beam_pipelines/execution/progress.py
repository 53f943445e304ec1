"""The progress line, from the markers of finished blocks: the same for every runner."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from types import TracebackType
from typing import TextIO

from transforms import storage
from transforms.errors import BuildError
from transforms.stats import Stats

_TERMINAL_SECONDS = 0.5
_LOG_SECONDS = 10.0
_USUAL_WIDTH = 80


class BlockCounter:
    """Counts the samples of finished blocks; reads every marker once.

    Args:
      folder: the build's folder for temporary files.
    """

    def __init__(self, folder: str) -> None:
        self._folder = storage.join(folder, "blocks")
        self._seen: set[str] = set()
        self.written = 0
        self.failed = 0

    @property
    def done(self) -> int:
        """Samples written or failed."""
        return self.written + self.failed

    def update(self) -> bool:
        """Reads the markers that are new.

        Returns:
          False if there are no markers, because no block is finished.

        Raises:
          OSError: storage cannot be read.
          BuildError: the store does not answer.
        """
        if not storage.is_folder(self._folder):
            return False
        for path in [entry.path for entry in storage.list_files(self._folder) if entry.path.endswith(".json")]:
            if path in self._seen:
                continue
            try:
                stats = Stats.from_json(json.loads(storage.read_bytes(path))["stats"])
            except ValueError:  # emptied by a power cut; the block is done again
                continue
            self._seen.add(path)
            self.written += stats.total("written")
            self.failed += stats.total("failed")
        return True


class Progress:
    """Shows the progress of a build: one line that is rewritten on a terminal, a line now and then elsewhere.

    Args:
      folder: the build's folder for temporary files.
      total: samples listed.
      stream: where to write (standard error).
    """

    def __init__(self, folder: str, *, total: int, stream: TextIO | None = None) -> None:
        self._counter = BlockCounter(folder)
        self._total = total
        self._stream = stream or sys.stderr
        # A dumb terminal cannot rewrite a line.
        self._is_terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._start = time.monotonic()

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._is_terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _run(self) -> None:
        # Blocks that an earlier attempt finished do not count for the rate.
        self._update()
        before = self._counter.done
        while not self._stop.wait(_TERMINAL_SECONDS if self._is_terminal else _LOG_SECONDS):
            if not self._update():
                continue
            seconds = time.monotonic() - self._start
            line = progress_line(self._counter, total=self._total, rate=(self._counter.done - before) / seconds)
            # A line that wraps could not be rewritten.
            self._stream.write(f"\r{line[: self._width() - 1]}\x1b[K" if self._is_terminal else f"{line}\n")
            self._stream.flush()

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _USUAL_WIDTH
        except OSError:
            return _USUAL_WIDTH

    def _update(self) -> bool:
        """Counts again; whether there is something to show. A store that does not answer now may do so next time."""
        try:
            return self._counter.update()
        except (OSError, BuildError):
            return False


def progress_line(counter: BlockCounter, *, total: int, rate: float) -> str:
    """One line: samples, share, rate, failures, time left.

    Args:
      counter: what has been counted.
      total: samples listed.
      rate: samples a second.
    """
    left = total - counter.done
    if not counter.done:
        remaining = "starting"
    elif not left:
        remaining = "composing shards"
    else:
        remaining = f"{format_seconds(left / rate)} left" if rate else "waiting"
    return (
        f"{counter.done:,} of {total:,} samples ({100 * counter.done / total:.0f}%), {rate:,.0f}/s, "
        f"{counter.failed:,} failed, {remaining}"
    )


def format_seconds(seconds: float) -> str:
    """A time span for people."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
