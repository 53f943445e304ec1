"""What a build asks of a cluster and its store by the clock: stragglers, ramps, disks, memory; for `scale_plan.py`.

Nothing here is measured. What stores and Flink document is in the constants; the rate of a core is given, and the times
of blocks and machines are drawn.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Sequence

import numpy as np

from beam_tfrecords.beam_pipelines.runners.flink_buffers import BUFFER_BYTES, FlinkBuffers
from beam_tfrecords.storage.upload_plan import MIN_BYTES, plan_upload
from beam_tfrecords.transforms.parts import PART_BYTES

# Standard deviations of the logarithms: of how long a block takes, and of how fast a machine is.
_BLOCK_SPREAD, _WORKER_SPREAD = 0.5, 0.25
# Requests a second: what a bucket of GCS takes at first, doubled every 20 minutes; what a prefix of S3 takes.
GCS_READS, GCS_WRITES, GCS_DOUBLING = 5000, 1000, 1200.0
S3_READS, S3_WRITES = 5500, 3500
_SOFT_DELETE_DAYS, _MONTH_DAYS, _GB_MONTH = 7, 365.25 / 12, 0.02
# Of a cluster: slots of a task manager; parts that a worker uploads at once, as in `parts`.
_SLOTS, _UPLOADS = 4, 4
# Flink's memory model with deploy/flink/builds.yaml, in MB: framework, on and off the heap; direct memory of tasks;
# classes; heap for the tasks of a slot. A fifth of Flink's memory is for sorting, a fifth for the network, and a tenth
# of all is overhead.
_FRAMEWORK_MB, _DIRECT_MB, _CLASSES_MB, _HEAP_OF_SLOT_MB = 256, 256, 384, 256
_SORT_AND_NETWORK, _NETWORK, _OVERHEAD = 0.4, 0.2, 0.1
_SORT_BUFFERS, _GATE_BUFFERS = 64, 100
# Measured on Flink (docs/clusters.md): the largest Python worker, and what workers are forked from.
_WORKER_MB, _FORKED_FROM_MB = 115, 100
_SHARDS_SAMPLE = 2000


@dataclasses.dataclass(frozen=True)
class Clock:
    """How long the conversion takes, in hours.

    Attributes:
      workers: processes, each with a core.
      even: if nothing were slower than anything else.
      dynamic: if a worker takes the next block when it is done with one, as Dataflow rebalances.
      fixed: if every block is assigned before, as Flink's hash of the key does.
      ramp: what waiting for GCS adds, if its bucket begins cold.
      reads: requests a second that read.
      writes: requests a second that write.
    """

    workers: int
    even: float
    dynamic: float
    fixed: float
    ramp: float
    reads: float
    writes: float


def draw_clock(counts: np.ndarray, *, workers: int, rate: float, writes: int, generator: np.random.Generator) -> Clock:
    """Draws the times of blocks and workers.

    Args:
      counts: images of each block.
      workers: processes, each with a core.
      rate: images a second and core.
      writes: requests that write, of all blocks.
      generator: of the random numbers.
    """
    images = int(counts.sum())
    seconds = counts / rate * _draw(generator, _BLOCK_SPREAD, counts.size)
    slowness = 1 / _draw(generator, _WORKER_SPREAD, workers)
    assigned = generator.integers(workers, size=counts.size)
    fixed = float((np.bincount(assigned, weights=seconds, minlength=workers) * slowness).max())
    reads_a_second = rate * workers
    writes_a_second = writes / images * reads_a_second
    return Clock(
        workers,
        images / rate / workers / 3600,
        _run_dynamically(seconds, slowness) / 3600,
        fixed / 3600,
        max(
            ramp_delay(images, reads_a_second, first=GCS_READS),
            ramp_delay(writes, writes_a_second, first=GCS_WRITES),
        )
        / 3600,
        reads_a_second,
        writes_a_second,
    )


def _draw(generator: np.random.Generator, spread: float, size: int) -> np.ndarray:
    """Factors with a mean of 1."""
    return generator.lognormal(-(spread**2) / 2, spread, size)


def _run_dynamically(seconds: np.ndarray, slowness: np.ndarray) -> float:
    """When the last block ends, if whoever is done takes the next one."""
    ends = [(0.0, float(factor)) for factor in slowness]
    heapq.heapify(ends)
    for taken in seconds.tolist():
        begin, factor = ends[0]
        heapq.heapreplace(ends, (begin + taken * factor, factor))
    return max(end for end, _ in ends)


def ramp_delay(requests: int, rate: float, *, first: float) -> float:
    """Seconds that requests take longer, where a store takes `first` a second, and twice as many every 20 minutes."""
    seconds, left, allowed = 0.0, float(requests), first
    while allowed < rate and left > allowed * GCS_DOUBLING:
        left -= allowed * GCS_DOUBLING
        seconds += GCS_DOUBLING
        allowed *= 2
    return seconds + left / min(allowed, rate) - requests / rate


@dataclasses.dataclass(frozen=True)
class Copies:
    """What joining parts asks of S3, in requests.

    Attributes:
      copied: pieces that never leave the store.
      uploaded: pieces of less than 5 MiB, and what fills them, which go through a worker.
      read: ranges of the parts for them.
      looked_at: sizes of parts.
      begun: uploads that are begun, and as many that are finished.
    """

    copied: int
    uploaded: int
    read: int
    looked_at: int
    begun: int

    @property
    def writes(self) -> int:
        """Requests of the price of a write."""
        return self.copied + self.uploaded + 2 * self.begun

    @property
    def reads(self) -> int:
        """Requests of the price of a read."""
        return self.read + self.looked_at


def count_copies(sizes: np.ndarray, *, shards: int) -> Copies:
    """Plans the uploads of some shards as the project does, and counts them up.

    Args:
      sizes: bytes of all parts, in their order.
      shards: that they become.
    """
    ends = np.cumsum(sizes)
    total = int(ends[-1])
    found = dict.fromkeys(("copied", "uploaded", "read", "looked_at"), 0)
    chosen = np.unique(np.linspace(0, shards - 1, min(shards, _SHARDS_SAMPLE)).astype(int)).tolist()
    for shard in chosen:
        begin, end = total * shard // shards, total * (shard + 1) // shards
        first, last = np.searchsorted(ends, (begin, end - 1), "right").tolist()
        # The first and the last part are cut.
        pieces = np.diff(np.clip([begin, *ends[first:last].tolist(), end], begin, end)).tolist()
        found["looked_at"] += len(pieces)
        for part in plan_upload(pieces):
            if len(part) > 1 or part[0].length < MIN_BYTES:
                found["uploaded"] += 1
                found["read"] += len(part)
            else:
                found["copied"] += 1
    return Copies(**{name: round(number * shards / len(chosen)) for name, number in found.items()}, begun=shards)


def soft_delete_dollars(deleted_bytes: float) -> float:
    """What GCS takes for deleted objects, which it keeps for seven days unless the bucket is told otherwise."""
    return deleted_bytes / 1e9 * _GB_MONTH * _SOFT_DELETE_DAYS / _MONTH_DAYS


@dataclasses.dataclass(frozen=True)
class Machines:
    """What a Flink cluster needs, for each task manager with four slots.

    Attributes:
      workers: slots in all.
      task_managers: in all.
      shuffle_gb: disk for what is shuffled.
      parts_gb: disk for parts that are being written and uploaded.
      memory_gb: of the task manager.
      python_gb: of its Python workers, beside it.
    """

    workers: int
    task_managers: int
    shuffle_gb: float
    parts_gb: float
    memory_gb: float
    python_gb: float


def size_machines(workers: int, *, sent: int) -> Machines:
    """What a Flink cluster with so many slots needs if its tasks send so many bytes."""
    managers = math.ceil(workers / _SLOTS)
    buffers = FlinkBuffers(_SORT_BUFFERS, _GATE_BUFFERS).count(workers) * _SLOTS * BUFFER_BYTES / 2**20
    flink = max((_FRAMEWORK_MB + _DIRECT_MB + _SLOTS * _HEAP_OF_SLOT_MB) / (1 - _SORT_AND_NETWORK), buffers / _NETWORK)
    return Machines(
        workers,
        managers,
        sent / managers / 1e9,
        _SLOTS * (_UPLOADS + 1) * PART_BYTES / 1e9,
        (flink + _CLASSES_MB) / (1 - _OVERHEAD) / 1000,
        (_SLOTS * _WORKER_MB + _FORKED_FROM_MB) / 1000,
    )


def draw_clocks(
    counts: np.ndarray, workers: Sequence[int], *, rate: float, writes: int, generator: np.random.Generator
) -> list[Clock]:
    """The clock of each number of workers."""
    return [draw_clock(counts, workers=number, rate=rate, writes=writes, generator=generator) for number in workers]
