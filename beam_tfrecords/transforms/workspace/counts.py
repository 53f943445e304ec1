"""Counts of the work of every worker process in each stage, in one small file per process.

These files make the progress of a build visible on every runner, from storage alone, at a cost that depends on the
number of workers instead of blocks. They may miss the last block of a worker that died; the checkpoints of the blocks
are authoritative.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import os
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from beam_tfrecords import storage
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.processes.server import is_worker
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.state_files import read_state, write_state

# Marks a field whose sum is its largest value, because every worker tells the same number or none.
_LARGEST = {"add": max}


@dataclasses.dataclass(frozen=True)
class BlockCounts:
    """Sums over finished blocks.

    Attributes:
      blocks: number of blocks.
      written: number of samples written, filtered, or merged into or replaced by another sample.
      failed: number of rejected samples.
      request_metrics: requests to object stores, from `storage.take_request_metrics`.
    """

    blocks: int = 0
    written: int = 0
    failed: int = 0
    request_metrics: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def done(self) -> int:
        """Number of finished samples."""
        return self.written + self.failed

    @classmethod
    def of(cls, stats: Stats) -> BlockCounts:
        """Returns the counts of one block."""
        written = sum(stats.total(what) for what in ("written", "filtered", "merged", "replaced"))
        return cls(1, written, stats.total("failed"))


@dataclasses.dataclass(frozen=True)
class StageCounts:
    """Counts of the stages before and after the blocks in this run.

    Attributes:
      rewritten: number of parts rewritten without their duplicates.
      composed: number of composed shards.
      shards: split -> planned number of shards, for splits that already have some.
      listed: number of listed containers or partitions of a large input.
      searched: number of ranges of hashes that were searched for duplicates.
      ranges: most ranges to search; 0 before the search.
      evaluated: number of evaluations of limits and guards.
      converted: number of samples of finished and unfinished blocks, in an output on a disk.
    """

    rewritten: int = 0
    composed: int = 0
    shards: Mapping[str, int] = dataclasses.field(default_factory=dict, metadata=_LARGEST)
    listed: int = 0
    searched: int = 0
    ranges: int = dataclasses.field(default=0, metadata=_LARGEST)
    evaluated: int = 0
    converted: int = 0

    @property
    def follow_blocks(self) -> bool:
        """Whether a stage after the blocks has started, so that all blocks are done."""
        return bool(self.searched or self.rewritten or self.evaluated or self.shards)


Counts = TypeVar("Counts", BlockCounts, StageCounts)


def add_up(kind: type[Counts], several: Iterable[Counts]) -> Counts:
    """Returns the sum of counts: of each field, and of each key of a mapping."""
    found = list(several)
    return kind(
        **{
            field.name: _add_field(field, [getattr(one, field.name) for one in found])
            for field in dataclasses.fields(kind)
        }
    )


def _add_field(field: dataclasses.Field[Any], values: Sequence[Any]) -> Any:
    add = field.metadata.get("add", sum)
    if field.default is not dataclasses.MISSING:
        return add([field.default, *values])
    return {key: add([one[key] for one in values if key in one]) for key in dict.fromkeys(itertools.chain(*values))}


_lock = threading.Lock()
# Counts of this process: (process number, folder of counts) -> file, counts, and time of the last write. A forked
# process starts from zero.
_own: dict[tuple[int, str], tuple[str, Any, float]] = {}
# Files of counts that are read from a store in parallel.
_READERS = 8
# Minimum seconds between writes for small steps.
PAUSE_SECONDS = 0.2
# The same for blocks in a store, where each write is a request, in processes whose launcher knows the outcome. Their
# first write waits as well, so that a build of seconds sends none.
_STORE_PAUSE_SECONDS = 2.0


def add_block(folder: str, stats: Stats, *, before: Stats | None = None) -> None:
    """Adds a block that this process has converted to its counts in the build's folder.

    Args:
      before: counts of the block in an earlier run, which are subtracted; None if no earlier run converted the block.
    """
    # A child process reports its request metrics to its parent.
    is_told = is_worker()
    found = [BlockCounts.of(stats), BlockCounts(request_metrics={} if is_told else storage.take_request_metrics())]
    pause = _STORE_PAUSE_SECONDS if is_told and storage.has_scheme(folder) else 0.0
    if before is not None:
        was = BlockCounts.of(before)
        found.append(BlockCounts(-was.blocks, -was.written, -was.failed))
    _add(BuildFolder(folder).workers, found, pause=pause)


def add_step(folder: str, *, pause: float = PAUSE_SECONDS, **found: Any) -> None:
    """Adds what this process has done in a stage before or after the blocks to its counts in the build's folder.

    Args:
      pause: minimum seconds between writes. The last steps of a process may be missing; nothing depends on them.
      found: fields of `StageCounts`.
    """
    _add(BuildFolder(folder).stages, [StageCounts(**found)], pause=pause)


def add_records(folder: str, records: int) -> None:
    """Adds records that this process has read to its counts in a folder."""
    _add(BuildFolder(folder).workers, [BlockCounts(written=records)])


def _add(folder: str, found: Sequence[Counts], *, pause: float = 0.0) -> None:
    kind: Any = type(found[0])
    with _lock:
        now = time.monotonic()
        first = now if pause and storage.has_scheme(folder) else -math.inf
        new = (storage.join(folder, f"{uuid.uuid4().hex}.json"), kind(), first)
        path, earlier, written = _own.get((os.getpid(), folder), new)
        counts = add_up(kind, [earlier, *found])
        if now - written >= pause:
            write_state(path, counts)
            written = now
        _own[os.getpid(), folder] = (path, counts, written)


def read_block_counts(folder: str) -> BlockCounts:
    """Returns the sum of all workers' block counts, from this run and earlier ones."""
    return _sum(BlockCounts, BuildFolder(folder).workers)


def read_stage_counts(folder: str) -> StageCounts:
    """Returns the sum of all workers' stage counts since `clear_stage_counts`."""
    return _sum(StageCounts, BuildFolder(folder).stages)


def clear_stage_counts(folder: str) -> None:
    """Deletes the stage counts of an earlier run, because a new run repeats these stages."""
    stages = BuildFolder(folder).stages
    storage.delete_files([file.path for file in _list_counts(stages)])
    _own.pop((os.getpid(), stages), None)


def read_last_block_time(folder: str) -> float | None:
    """Returns the time of the last converted block in seconds since the epoch; None if there is none."""
    return max((file.modified for file in _list_counts(BuildFolder(folder).workers)), default=None)


def _sum(kind: type[Counts], folder: str) -> Counts:
    files = [file.path for file in _list_counts(folder)]
    read = functools.partial(read_state, kind)
    found = map_in_threads(read, files, threads=_READERS) if storage.has_scheme(folder) else map(read, files)
    return add_up(kind, (counts for counts in found if counts is not None))


def _list_counts(folder: str) -> list[storage.FileEntry]:
    if not (storage.has_scheme(folder) or storage.is_folder(folder)):
        return []
    return [entry for entry in storage.list_files(folder, literal=True) if entry.path.endswith(".json")]
