"""What every worker process has done in each stage, in a small file of its own.

The files let anybody follow a build, on every runner and from storage alone, at a cost that depends on the number of
workers and not of blocks. They may miss the last block of a worker that died; the checkpoints of the blocks decide.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import multiprocessing
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from beam_tfrecords import storage
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.state_files import read_state, write_state


@dataclasses.dataclass(frozen=True)
class BlockCounts:
    """Sums over finished blocks.

    Attributes:
      blocks: number of blocks.
      written: samples written, filtered, or part of another sample.
      failed: samples rejected.
      request_metrics: what object stores were asked for, as `storage.take_traffic` has it.
    """

    blocks: int = 0
    written: int = 0
    failed: int = 0
    request_metrics: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def done(self) -> int:
        """Samples that nothing is left to do for."""
        return self.written + self.failed

    @classmethod
    def of(cls, stats: Stats) -> BlockCounts:
        """The counts of one block."""
        written = sum(stats.total(what) for what in ("written", "filtered", "merged", "replaced"))
        return cls(1, written, stats.total("failed"))

    @classmethod
    def sum(cls, counts: Iterable[BlockCounts]) -> BlockCounts:
        """The sum of several."""
        blocks = written = failed = 0
        request_metrics: Counter[str] = Counter()
        for one in counts:
            blocks, written, failed = blocks + one.blocks, written + one.written, failed + one.failed
            request_metrics.update(one.request_metrics)
        return cls(blocks, written, failed, dict(request_metrics))


@dataclasses.dataclass(frozen=True)
class StageCounts:
    """What the stages before and behind the blocks have done in this run.

    Attributes:
      rewritten: parts that were written again without their duplicates.
      composed: shards.
      shards: split -> how many shards it is to have, of the splits that have some.
      listed: containers, or pieces of a large input.
      searched: ranges of hashes in which duplicates were searched for.
      ranges: how many there are at most; 0 before the search.
      evaluated: number of evaluations of limits and guards.
    """

    rewritten: int = 0
    composed: int = 0
    shards: Mapping[str, int] = dataclasses.field(default_factory=dict)
    listed: int = 0
    searched: int = 0
    ranges: int = 0
    evaluated: int = 0

    @property
    def follow_blocks(self) -> bool:
        """Whether a stage behind the blocks has begun, so that all blocks are done."""
        return bool(self.searched or self.rewritten or self.evaluated or self.shards)

    @classmethod
    def sum(cls, counts: Iterable[StageCounts]) -> StageCounts:
        """The sum of several."""
        rewritten = composed = listed = searched = ranges = evaluated = 0
        shards: dict[str, int] = {}
        for one in counts:
            rewritten, composed = rewritten + one.rewritten, composed + one.composed
            listed, searched, ranges = listed + one.listed, searched + one.searched, max(ranges, one.ranges)
            shards.update(one.shards)
            evaluated += one.evaluated
        return cls(rewritten, composed, shards, listed, searched, ranges, evaluated)


Counts = TypeVar("Counts", BlockCounts, StageCounts)
_lock = threading.Lock()
# Counts of this process: (process number, folder of counts) -> file, counts, and when they were written. A forked
# process starts anew.
_own: dict[tuple[int, str], tuple[str, Any, float]] = {}
# Files of counts in a store that are read at once.
_READERS = 8
# Small steps are written no more often; the last ones of a process may be missing, which nothing depends on.
_PAUSE_SECONDS = 0.2
# Likewise blocks in a store, where each would be a request, of processes whose launcher knows the outcome.
_STORE_PAUSE_SECONDS = 2.0


def add_block(folder: str, stats: Stats, *, before: Stats | None = None) -> None:
    """Adds a block that this process has converted to what its file in the build's folder says.

    Args:
      before: those of an earlier run, which has converted the block and counted it; None if none has.
    """
    # A process that another one has started tells that one.
    is_told = multiprocessing.parent_process() is not None
    found = [BlockCounts.of(stats), BlockCounts(request_metrics={} if is_told else storage.take_request_metrics())]
    pause = _STORE_PAUSE_SECONDS if is_told and storage.has_scheme(folder) else 0.0
    if before is not None:
        was = BlockCounts.of(before)
        found.append(BlockCounts(-was.blocks, -was.written, -was.failed))
    _add(BuildFolder(folder).workers, found, pause=pause)


def add_records(folder: str, records: int) -> None:
    """Adds records that this process has read to what its file in a folder says."""
    _add(BuildFolder(folder).workers, [BlockCounts(written=records)])


def add_rewritten(folder: str) -> None:
    """Adds a part that this process has written again to what its file in the build's folder says."""
    _add(BuildFolder(folder).stages, [StageCounts(rewritten=1)])


def add_shards(folder: str, split: str, *, of: int, composed: int) -> None:
    """Adds shards, of so many of their split, that this process has composed; once for a group of small ones."""
    _add(BuildFolder(folder).stages, [StageCounts(composed=composed, shards={split: of})])


def add_evaluated(folder: str) -> None:
    """Counts an evaluation of limits and guards by this process."""
    _add(
        BuildFolder(folder).stages,
        [StageCounts(evaluated=1)],
        pause=_PAUSE_SECONDS if storage.has_scheme(folder) else 0,
    )


def add_listed(folder: str) -> None:
    """Adds a container that this process has listed to what its file in the folder of the listing says."""
    _add(BuildFolder(folder).stages, [StageCounts(listed=1)], pause=_PAUSE_SECONDS)


def add_searched(folder: str, *, of: int) -> None:
    """Adds a range of hashes, of so many, to what the file of this process in the build's folder says."""
    _add(BuildFolder(folder).stages, [StageCounts(searched=1, ranges=of)], pause=_PAUSE_SECONDS)


def _add(folder: str, found: Sequence[Counts], *, pause: float = 0.0) -> None:
    kind: Any = type(found[0])
    with _lock:
        new = (storage.join(folder, f"{uuid.uuid4().hex}.json"), kind(), -math.inf)
        path, earlier, written = _own.get((os.getpid(), folder), new)
        counts, now = kind.sum([earlier, *found]), time.monotonic()
        if now - written >= pause:
            write_state(path, counts)
            written = now
        _own[os.getpid(), folder] = (path, counts, written)


def read_block_counts(folder: str) -> BlockCounts:
    """What all workers have converted, in this attempt and earlier ones."""
    return _sum(BlockCounts, BuildFolder(folder).workers)


def read_stage_counts(folder: str) -> StageCounts:
    """What all workers have done before and behind the blocks, since `clear_stage_counts`."""
    return _sum(StageCounts, BuildFolder(folder).stages)


def clear_stage_counts(folder: str) -> None:
    """Forgets those of an earlier run, which does these stages again."""
    stages = BuildFolder(folder).stages
    storage.delete_files([file.path for file in _list_counts(stages)])
    _own.pop((os.getpid(), stages), None)


def read_last_block_time(folder: str) -> float | None:
    """When a block was last converted, in seconds since the epoch; None if none was."""
    return max((file.modified for file in _list_counts(BuildFolder(folder).workers)), default=None)


def _sum(kind: type[Counts], folder: str) -> Counts:
    files = [file.path for file in _list_counts(folder)]
    read = functools.partial(read_state, kind)
    found = map_in_threads(read, files, threads=_READERS) if storage.has_scheme(folder) else map(read, files)
    return kind.sum(counts for counts in found if counts is not None)


def _list_counts(folder: str) -> list[storage.FileEntry]:
    if not (storage.has_scheme(folder) or storage.is_folder(folder)):
        return []
    return [entry for entry in storage.list_files(folder, literal=True) if entry.path.endswith(".json")]
