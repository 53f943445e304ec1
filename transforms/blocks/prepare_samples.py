"""Reads and converts the images of a block; the one place where image bytes are handled."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample, PreparedSample
from beam_tfrecords.transforms.blocks.fetching import Fetched, fetch, read_images
from beam_tfrecords.transforms.blocks.files_seen import FilesSeen
from beam_tfrecords.transforms.blocks.guard import Convert, guarded
from beam_tfrecords.transforms.blocks.reuse import BlockReuse
from beam_tfrecords.transforms.blocks.stopwatch import Stopwatch
from beam_tfrecords.transforms.ref_columns import RefColumns
from beam_tfrecords.transforms.refs import MASK, SampleRef
from beam_tfrecords.transforms.stats import Change

# What became of a sample before it is written.
Outcome: TypeAlias = "PreparedSample | SampleError"
# Converted images that are held at once, if there are several.
_MOST_BYTES = 1 << 20
_ROW = PreparedSample()


class PreparedBatch(NamedTuple):
    """Samples that are to be written.

    Attributes:
      changes: as in `BlockReuse.count`, for each.
      source_bytes: of the files of the images of each.
    """

    refs: RefColumns
    outcomes: Sequence[Outcome]
    changes: Sequence[Change | None]
    source_bytes: Sequence[int]


def prepare_samples(
    batches: Iterable[RefColumns],
    plan: BlockPlan,
    convert: ConvertSample,
    *,
    reuse: BlockReuse | None,
    seen: FilesSeen,
    clock: Stopwatch,
    is_first: bool,
) -> Iterator[PreparedBatch]:
    """Yields the samples in their order, by batches whose images may be held at once.

    Args:
      batches: the references of a block.
      reuse: what the earlier dataset has of them.
      seen: receives the fingerprints that the listing does not tell.
      clock: receives the time that reading takes.
      is_first: as in `guarded`.
    """

    def needs_images(refs: RefColumns) -> list[bool]:
        if reuse is None or not plan.read_images:
            return [plan.read_images] * len(refs)
        return list(map(reuse.needs_image, refs))

    known = map(seen.look_up, batches)
    with guarded(convert.prepare, plan.image_timeout, memory=plan.max_image_memory, is_first=is_first) as prepare:
        for refs, fetched in fetch(known, needs_images=needs_images, max_file_size=plan.max_file_size):
            clock.lap("read")
            yield from _prepare(seen.hash_bytes(refs, fetched), fetched, plan, prepare, reuse)


def _prepare(
    refs: RefColumns,
    fetched: deque[Fetched],
    plan: BlockPlan,
    prepare: Convert[Outcome],
    reuse: BlockReuse | None,
) -> Iterator[PreparedBatch]:
    if not (reuse or any(fetched)):
        yield PreparedBatch(refs, [_ROW] * len(refs), [None] * len(refs), refs.each("size"))
        return
    found: list[tuple[Outcome, Change | None, int]] = []
    size = start = 0
    for place, ref in enumerate(refs):
        images = fetched.popleft()
        read = {} if isinstance(images, SampleError) else images
        source_bytes = sum([len(data) for name, data in read.items() if name != MASK]) or ref.size
        outcome, change = _take_or_prepare(ref, images, plan, prepare, reuse)
        # Otherwise two images would be held while the next one is read.
        del images, read
        found.append((outcome, change, source_bytes))
        size += outcome.size if isinstance(outcome, PreparedSample) else 0
        del outcome
        if size > _MOST_BYTES or not fetched:
            yield PreparedBatch(refs.slice(start, place + 1), *zip(*found, strict=True))
            found, size, start = [], 0, place + 1


def _take_or_prepare(
    ref: SampleRef, images: Fetched, plan: BlockPlan, prepare: Convert[Outcome], reuse: BlockReuse | None
) -> tuple[Outcome, Change | None]:
    """The sample as the earlier dataset has it, or converted."""
    if isinstance(images, SampleError):
        return images, None
    try:
        taken = reuse.take(ref, images) if reuse else None
    except SampleError as error:
        return error, None
    if taken is not None:
        return taken
    if not images and ref.locator and plan.read_images:
        # They were not read, because there seemed to be a record of them.
        read = read_images(ref, max_file_size=plan.max_file_size)
        return (read if isinstance(read, SampleError) else prepare(ref, read)), None
    # No decoder runs for a row, so that it needs no guard.
    return prepare(ref, images) if images else _ROW, None
