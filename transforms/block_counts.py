"""What every worker process has converted, in a small file of its own, and as Beam metrics.

The files let anybody follow a build, on every runner and from storage alone, at a cost that depends on the number of
workers and not of blocks. They may miss the last block of a worker that died; the markers of the blocks decide.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping

from apache_beam.metrics import Metrics

from transforms import storage
from transforms.state_files import parse_state, write_state
from transforms.stats import Stats

NAMESPACE = "beam_tfrecords"
_FOLDER = "workers"


@dataclasses.dataclass(frozen=True)
class BlockCounts:
    """Sums over finished blocks.

    Attributes:
      blocks: number of blocks.
      written: samples written.
      failed: samples rejected.
    """

    blocks: int = 0
    written: int = 0
    failed: int = 0

    @property
    def done(self) -> int:
        """Samples written or failed."""
        return self.written + self.failed

    @classmethod
    def of(cls, stats: Stats) -> BlockCounts:
        """The counts of one block."""
        return cls(1, stats.total("written"), stats.total("failed"))

    @classmethod
    def sum(cls, counts: Iterable[BlockCounts]) -> BlockCounts:
        """The sum of several."""
        rows = [dataclasses.astuple(one) for one in counts]
        return cls(*map(sum, zip(*rows, strict=True))) if rows else cls()


class Stopwatch:
    """Adds up the time that is spent in the steps of a loop."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        """Counts the time since the last call for a step."""
        now = time.perf_counter()
        self._seconds[step] += now - self._last
        self._last = now

    @property
    def msec(self) -> dict[str, int]:
        """Step -> milliseconds."""
        return {step: round(1000 * seconds) for step, seconds in self._seconds.items()}


_lock = threading.Lock()
# Of this process: (process number, folder) -> file and counts. A forked process starts anew.
_own: dict[tuple[int, str], tuple[str, BlockCounts]] = {}


def add_block(folder: str, stats: Stats) -> None:
    """Adds a block that this process has converted to what its file in the build's folder says."""
    with _lock:
        new = (storage.join(folder, _FOLDER, f"{uuid.uuid4().hex}.json"), BlockCounts())
        path, earlier = _own.get((os.getpid(), folder), new)
        counts = BlockCounts.sum([earlier, BlockCounts.of(stats)])
        _own[os.getpid(), folder] = (path, counts)
        write_state(path, counts)


def read_block_counts(folder: str) -> BlockCounts:
    """What all workers have converted, in this attempt and earlier ones.

    Args:
      folder: the build's folder for temporary files.

    Raises:
      OSError: storage cannot be read.
      BuildError: the store does not answer.
    """
    found = (parse_state(BlockCounts, storage.read_bytes(file.path)) for file in _list_counts(folder))
    return BlockCounts.sum(counts for counts in found if counts is not None)


def read_last_block_time(folder: str) -> float | None:
    """When a block was last converted, in seconds since the epoch; None if none was.

    Args:
      folder: the build's folder for temporary files.
    """
    return max((file.modified for file in _list_counts(folder)), default=None)


def _list_counts(folder: str) -> list[storage.FileEntry]:
    workers = storage.join(folder, _FOLDER)
    if not storage.is_folder(workers):
        return []
    return [entry for entry in storage.list_files(workers) if entry.path.endswith(".json")]


def report_block(stats: Stats, *, bytes_out: int, msec: Mapping[str, int] | None) -> None:
    """Adds a block to the metrics of the pipeline.

    Args:
      stats: the counts of the block.
      bytes_out: size of its parts.
      msec: step -> milliseconds that this attempt spent in it; None if an earlier attempt converted the block.
    """

    def count(name: str, value: int) -> None:
        if value:
            Metrics.counter(NAMESPACE, name).inc(value)

    count("samples_written", stats.total("written"))
    for reason, samples in stats.failure_reasons().items():
        count(f"failed_{reason}", samples)
    count("bytes_in", stats.total("source_bytes"))
    count("bytes_out", bytes_out)
    count("blocks", 1)
    if msec is None:
        count("blocks_resumed", 1)
        return
    for step, duration in msec.items():
        Metrics.distribution(NAMESPACE, f"{step}_msec_per_block").update(duration)
