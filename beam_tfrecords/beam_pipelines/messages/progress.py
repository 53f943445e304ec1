"""Progress lines. The line of a build reads the counts that the workers write, so it is the same for every runner."""

from __future__ import annotations

import abc
import dataclasses
import io
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import TextIO, TypeVar

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.terminal import counted, format_rate, format_seconds
from beam_tfrecords.errors import BuildError
from beam_tfrecords.escaping import escape
from beam_tfrecords.transforms.workspace.counts import (
    BlockCounts,
    StageCounts,
    read_block_counts,
    read_stage_counts,
)

_TERMINAL_SECONDS = 0.5
_LOG_SECONDS = 10.0
_USUAL_WIDTH = 80
# Width of the bar in characters.
_BAR = 16


Line = TypeVar("Line", bound="ProgressLine")


class ProgressLine(abc.ABC):
    """A line about ongoing work, which a terminal rewrites.

    Attributes:
      is_logged: whether to print the line from time to time if there is no terminal.
    """

    is_logged = True

    def __init__(self, stream: TextIO | None = None) -> None:
        # A program that was started without standard error has None.
        self._stream = stream or sys.stderr or io.StringIO()
        # A dumb terminal cannot rewrite a line; the output of a notebook's cell can.
        in_notebook = type(self._stream).__module__.startswith("ipykernel")
        self.rewrites = in_notebook or (self._stream.isatty() and os.environ.get("TERM") != "dumb")
        self._shown = 0
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._start = time.monotonic()

    def __enter__(self: Line) -> Line:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        self._hide()

    def _hide(self) -> None:
        if self.rewrites:
            self._stream.write(f"\r{'':{self._shown}}\r")
            self._stream.flush()
            self._shown = 0

    def _run(self) -> None:
        if self.rewrites:
            self._show_every(_TERMINAL_SECONDS)
        elif self.is_logged:
            self._show_every(_LOG_SECONDS)

    def _show_every(self, seconds: float) -> None:
        # The first line appears at once on a terminal.
        wait = 0.0 if self.rewrites else seconds
        while not self._stop.wait(wait):
            wait = seconds
            if (line := self._describe(time.monotonic() - self._start)) is None:
                continue
            with self._lock:
                self._write(line)

    def _write(self, line: str) -> None:
        if self.rewrites:
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

    @abc.abstractmethod
    def _describe(self, seconds: float) -> str | None:
        """Returns the line after this time in seconds; None if there is nothing to show."""


class ListingLine(ProgressLine):
    """Shows that an input is being listed, and for how long.

    Args:
      inputs: the inputs, as the request names them.
    """

    def __init__(self, inputs: Sequence[str]) -> None:
        super().__init__()
        more = f" and {len(inputs) - 1:,} more" if len(inputs) > 1 else ""
        self._text = escape(f"listing {inputs[0]}{more}")

    def _describe(self, seconds: float) -> str:
        return f"{self._text}, {format_seconds(seconds)}" if seconds >= 1 else self._text


class ListProgress(ProgressLine):
    """Shows how much of an input the workers have listed.

    Args:
      folder: folder of the listing, below the output.
      total: number of containers, or of pieces of a large input.
      what: the name of these units.
    """

    def __init__(self, folder: str, *, total: int, what: str) -> None:
        super().__init__()
        self._folder, self._total, self._what = folder, total, what

    def _describe(self, seconds: float) -> str | None:
        try:
            listed = read_stage_counts(self._folder).listed
        except (OSError, BuildError):
            return None
        # A runner may have listed a container twice.
        return f"listed {min(listed, self._total):,} of {self._total:,} {self._what}"


class Progress(ProgressLine):
    """Shows the progress of a build; prints a line from time to time if there is no terminal.

    Args:
      folder: folder of the build.
      total: number of samples listed.
      blocks: number of their blocks; shown before the first block is done.
      done_before: samples in previously finished blocks, which the rate excludes; None counts them at the start.
      stream: the terminal; standard error if None.
    """

    def __init__(
        self, folder: str, *, total: int, blocks: int = 0, done_before: int | None = None, stream: TextIO | None = None
    ) -> None:
        super().__init__(stream)
        self._folder, self._blocks = folder, blocks
        self._counts, self._stages = BlockCounts(), StageCounts()
        self._total, self._done_before = total, done_before
        # Seconds after which the first sample is known to be done.
        self._idle = 0.0

    def _run(self) -> None:
        if self._done_before is None:
            self._update()
            self._done_before = self._counts.done
        super()._run()

    def _describe(self, seconds: float) -> str | None:
        if not self._update():
            self._idle = seconds
            if not self._blocks or self._counts.blocks:
                return None
            return f"{counted(self._total, 'sample')} in {counted(self._blocks, 'block')}, starting workers"
        before = self._done_before or 0
        # The counts of blocks lag behind, and lack the block of a worker that died.
        done = min(max(self._counts.done, before + self._stages.converted), self._total)
        counts = dataclasses.replace(self._counts, written=done - self._counts.failed)
        if done == before:
            self._idle = seconds
        # Workers take seconds to start, which would make the time left seem longer.
        rate = (done - before) / max(seconds - self._idle, _TERMINAL_SECONDS)
        line = progress_line(counts, self._stages, total=self._total, rate=rate)
        has_room = self.rewrites and len(line) + _BAR + 4 < self._width()
        return f"[{'=' * (_BAR * done // self._total):{_BAR}}] {line}" if has_room else line

    def _update(self) -> bool:
        """Reads the counts; returns whether there is something to show. Ignores a store that does not answer."""
        before = self._counts
        try:
            self._counts = read_block_counts(self._folder)
            # A worker that died may not have counted its last block.
            if not storage.has_scheme(self._folder) or self._counts.done >= self._total or self._counts == before:
                self._stages = read_stage_counts(self._folder)
        except (OSError, BuildError):
            return False
        return self._counts.blocks > 0 or self._stages.converted > 0


class ReadProgress(ProgressLine):
    """Shows how much of a dataset has been read; shows nothing without a terminal.

    Attributes:
      done: number of records read; the reader sets it, unless there is a folder.
    """

    is_logged = False

    def __init__(
        self,
        total: int,
        *,
        then: str,
        folder: str | None = None,
        stream: TextIO | None = None,
    ) -> None:
        """Makes a line that is not shown yet.

        Args:
          total: number of records.
          then: the step after all is read.
          folder: folder where workers write how many records they have read.
          stream: the terminal; standard error if None.
        """
        super().__init__(stream)
        self._total, self._then, self._folder = total, then, folder
        self.done = 0

    def _describe(self, seconds: float) -> str | None:
        if self._folder is not None:
            try:
                self.done = read_block_counts(self._folder).done
            except (OSError, BuildError):
                return None
        done = min(self.done, self._total)
        if not done:
            return None
        rate = done / seconds
        left = self._total - done
        remaining = f"{format_seconds(left / rate)} left" if left else self._then
        share = f"{100 * done / self._total:.0f}%"
        return f"{done:,} of {self._total:,} records ({share}), {format_rate(rate)}, {remaining}"


def progress_line(counts: BlockCounts, stages: StageCounts, *, total: int, rate: float) -> str:
    """Formats the progress: samples, share, rate, failures, time left; after the blocks, the work of the current stage.

    Args:
      counts: counts of the blocks. A block that was converted twice counts twice.
      stages: counts of the stages after the blocks.
      total: number of samples listed.
      rate: samples per second.
    """
    done = min(counts.done, total)
    left = total - done
    if not left or stages.follow_blocks:
        return f"{describe_stage(stages)}; {counted(done, 'sample')}, {counts.failed:,} failed"
    # Nothing is done in this run yet.
    remaining = f"{format_seconds(left / rate)} left" if rate else "starting workers"
    return (
        f"{done:,} of {counted(total, 'sample')} ({100 * done / total:.0f}%), {format_rate(rate)}, "
        f"{counts.failed:,} failed, {remaining}"
    )


def describe_stage(stages: StageCounts) -> str:
    """Describes the current stage after the blocks, and its progress."""
    shards = sum(stages.shards.values())
    # A runner may have composed a shard twice.
    if shards and stages.composed >= shards:
        return f"publishing {counted(shards, 'shard')}"
    if shards:
        return f"writing shards, {stages.composed:,} of {shards:,} done"
    if stages.evaluated:
        return "checking limits"
    removed = [f"removed duplicates from {counted(stages.rewritten, 'part')}"] if stages.rewritten else []
    # Near-duplicates are searched after identical images are removed.
    count = min(stages.searched, stages.ranges)  # A runner may have searched a range twice.
    searched = [f"finding duplicates, {100 * count / stages.ranges:.0f}% done"] if stages.ranges else []
    return ", ".join([*removed, *searched]) or "finding duplicates"
