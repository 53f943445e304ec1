"""Reads and converts the images of a block. No other step handles image bytes."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, TypeAlias, cast

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.convert_sample import PreparedSample
from beam_tfrecords.transforms.blocks.fetching import Fetched, fetch, read_images
from beam_tfrecords.transforms.blocks.files_seen import FilesSeen
from beam_tfrecords.transforms.blocks.guard import Convert, guarded
from beam_tfrecords.transforms.blocks.reuse import BlockReuse
from beam_tfrecords.transforms.blocks.stopwatch import Stopwatch
from beam_tfrecords.transforms.refs.ref_columns import RefColumns, join_alike, long_bytes
from beam_tfrecords.transforms.refs.sample_refs import SampleRef, is_mask
from beam_tfrecords.transforms.stats import Change, Key

# A sample before it is written: prepared or rejected.
Outcome: TypeAlias = "PreparedSample | SampleError"
# Limits of a batch that is held before writing: samples, and bytes of their converted images and long values. Writing
# photos one by one took 5% of the time of a build.
_MOST, _MOST_BYTES = 256, 1 << 20
_ROW = PreparedSample()


class PreparedBatch(NamedTuple):
    """Samples that are ready for writing.

    Attributes:
      changes: change of each sample, as in `BlockReuse.count`.
      source_bytes: bytes of the image files of each sample.
    """

    refs: RefColumns
    outcomes: Sequence[Outcome]
    changes: Sequence[Change | None]
    source_bytes: Sequence[int]


def prepare_samples(
    batches: Iterable[RefColumns],
    plan: BlockPlan,
    *,
    reuse: BlockReuse | None,
    seen: FilesSeen,
    clock: Stopwatch,
    is_first: bool,
    counts: Counter[Key],
) -> Iterator[PreparedBatch]:
    """Yields the samples in order, in batches small enough to hold in memory.

    Args:
      batches: the references of a block.
      counts: receives ("filtered", split): number of samples that the user's function leaves out.
      reuse: finds records of the previous dataset; None without one.
      seen: receives the fingerprints that the listing lacks.
      clock: receives the time that reading and converting take.
      is_first: as in `guarded`.
    """

    def needs_images(refs: RefColumns) -> list[bool]:
        # The user's function always needs the images, since its result is unknown before it runs.
        if reuse is None or plan.map or not plan.reads_images:
            return [plan.reads_images] * len(refs)
        return list(map(reuse.needs_image, refs))

    known = map(seen.look_up, batches)
    guard = functools.partial(guarded, seconds=plan.image_timeout, memory=plan.max_image_memory, is_first=is_first)
    with (
        guard(plan.convert.prepare) as prepare,
        guard(plan.map.apply, what="the function of `map`") if plan.map else nullcontext() as apply,
    ):
        preparing = _Preparing(plan, prepare, apply, reuse, counts)
        for refs, fetched in fetch(known, needs_images=needs_images, max_file_size=plan.max_file_size):
            clock.lap("read")
            yield from preparing.prepare(seen.hash_bytes(refs, fetched), fetched)
            clock.lap("convert")
        yield from preparing.take()


@dataclasses.dataclass
class _Preparing:
    """Prepares samples for writing, and holds them until a batch is complete.

    Attributes:
      prepare_images: converts the images of a sample.
      apply: applies the user's function; None without one.
    """

    plan: BlockPlan
    prepare_images: Convert[Outcome]
    apply: Convert[Any] | None
    reuse: BlockReuse | None
    counts: Counter[Key]

    def __post_init__(self) -> None:
        self._refs: list[RefColumns] = []
        # References that the user's function returned; each may have other columns.
        self._mapped: list[SampleRef] = []
        self._found: list[tuple[Outcome, Change | None, int]] = []
        self._size = 0

    def prepare(self, refs: RefColumns, fetched: deque[Fetched]) -> Iterator[PreparedBatch]:
        """Prepares samples, and yields the batches that are complete."""
        if not (self.reuse or self.apply or any(fetched)):
            yield from self.take()
            yield PreparedBatch(refs, [_ROW] * len(refs), [None] * len(refs), refs.each("size"))
            return
        start = 0
        for index, ref in enumerate(refs):
            read = fetched.popleft()
            of_images = [] if isinstance(read, SampleError) else [len(read[name]) for name in read if not is_mask(name)]
            source_bytes = sum(of_images) or ref.size
            images: Fetched | None = read
            if self.apply is not None:
                ref, images = self._map(ref, read)
                self._mapped += [] if images is None else [ref]
            if images is not None:
                outcome, change = self._take_or_prepare(ref, images)
                self._found.append((outcome, change, source_bytes))
                self._size += long_bytes(ref) + (outcome.size if isinstance(outcome, PreparedSample) else 0)
                del outcome
            # Frees the images before the next ones are read.
            del images, read
            if self._size > _MOST_BYTES or len(self._found) == _MOST:
                self._hold(refs.slice(start, index + 1))
                start = index + 1
                yield from self.take()
        if start < len(refs):
            self._hold(refs.slice(start, len(refs)))

    def take(self) -> Iterator[PreparedBatch]:
        """Yields the held samples and releases them."""
        found, held = self._found, RefColumns.of(self._mapped) if self.apply else join_alike(self._refs)
        self._found, self._mapped, self._refs, self._size = [], [], [], 0
        for chosen in held:
            yield PreparedBatch(chosen, *zip(*found[: len(chosen)], strict=True))
            found = found[len(chosen) :]

    def _hold(self, refs: RefColumns) -> None:
        if self.apply is None:
            self._refs.append(refs)

    def _map(self, ref: SampleRef, images: Fetched) -> tuple[SampleRef, Fetched | None]:
        """Applies the user's function; returns the new sample and its images, which are None if it is left out."""
        assert self.plan.map is not None
        assert self.apply is not None
        if isinstance(images, SampleError):
            return self.plan.map.keep_columns(ref), images
        made = self.apply(ref, images)
        if isinstance(made, SampleError):
            return self.plan.map.keep_columns(ref), made
        if made is None:
            self.counts["filtered", ref.split or ""] += 1
            return ref, None
        return cast("tuple[SampleRef, Fetched]", made)

    def _take_or_prepare(self, ref: SampleRef, images: Fetched) -> tuple[Outcome, Change | None]:
        """Returns the sample from the previous dataset or converted, and its change if it was reused."""
        if isinstance(images, SampleError):
            return images, None
        try:
            taken = self.reuse.take(ref, images) if self.reuse else None
        except SampleError as error:
            return error, None
        if taken is not None:
            return taken
        if not images and ref.locator and self.plan.reads_images:
            # The images were not read because a previous record seemed to have them.
            read = read_images(ref, max_file_size=self.plan.max_file_size)
            return (read if isinstance(read, SampleError) else self.prepare_images(ref, read)), None
        # A row needs no guard, because no decoder runs for it.
        return self.prepare_images(ref, images) if images else _ROW, None
