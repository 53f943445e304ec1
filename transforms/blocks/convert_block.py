"""ConvertBlocks: the references of a block in, its parts out; the one place where image bytes are handled."""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, FailureReason, SampleError, Stage
from beam_tfrecords.tfrecord import Compression
from beam_tfrecords.transforms.blocks.convert_rows import write_rows
from beam_tfrecords.transforms.blocks.convert_sample import ConvertedSample, ConvertSample
from beam_tfrecords.transforms.blocks.fetching import Fetched, fetch, read_images, with_fingerprints
from beam_tfrecords.transforms.blocks.files_seen import FilesSeen, look_again
from beam_tfrecords.transforms.blocks.results import BlockResult, read_marker
from beam_tfrecords.transforms.blocks.reuse import BlockReuse, ReusePlan
from beam_tfrecords.transforms.blocks.rows import keep_last, merge_rows, reject_duplicates
from beam_tfrecords.transforms.blocks.stopwatch import Stopwatch
from beam_tfrecords.transforms.blocks.write_samples import Outcome, ReadSample, SampleWriter, group_small
from beam_tfrecords.transforms.hashing import order_hashes
from beam_tfrecords.transforms.images.quality import measure_quality
from beam_tfrecords.transforms.libraries import check_libraries
from beam_tfrecords.transforms.parts import PartPolicy, PartWriter
from beam_tfrecords.transforms.processes.isolation import TimeLimit, isolated
from beam_tfrecords.transforms.processes.memory_left import check_memory_left
from beam_tfrecords.transforms.ref_columns import RefColumns, unpack_refs
from beam_tfrecords.transforms.refs import MASK, BlockKey, SampleRef
from beam_tfrecords.transforms.service_faults import describe_fault
from beam_tfrecords.transforms.stats import Change, Key, Stats
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.counts import add_block

Made = TypeVar("Made")
# (reference, bytes of its images by their names)
Convert: TypeAlias = "Callable[[SampleRef, Mapping[str, bytes]], ConvertedSample]"


@dataclasses.dataclass(frozen=True)
class BlockPlan:
    """What a worker needs to know to convert blocks.

    Attributes:
      policies: split -> when its parts end.
      image_timeout: seconds that the conversion of one sample may take.
      max_image_memory: bytes that it may take.
      hashes_files: whether the fingerprint of a file is the hash of its bytes.
      libraries: library -> version of the launcher; those that decide records have to be the same here.
      launch: tells this launch of the build from others, which try again what may not be the sample's fault.
      group_rows: whether references with one key are one sample.
      last_member_wins: whether a member of an archive replaces those before it with the same name.
    """

    folder: str
    seed: int
    policies: Mapping[str, PartPolicy]
    compression: Compression
    read_images: bool
    max_file_size: int
    image_timeout: float
    max_image_memory: int = 0
    hashes_files: bool = False
    reuse: ReusePlan | None = None
    libraries: Mapping[str, str] = dataclasses.field(default_factory=dict)
    launch: str = ""
    group_rows: bool = False
    last_member_wins: bool = False


def convert_block(block: tuple[BlockKey, Iterable[bytes]], *, plan: BlockPlan, convert: Convert) -> BlockResult:
    """Converts one block, unless it is finished.

    Raises:
      BuildError: this machine has other versions of the libraries that decide records, or too little memory.
    """
    check_libraries(plan.libraries)
    (split, number), packed = block
    joined = list(packed)
    stem = f"{split}-{number:06d}"
    folder = BuildFolder(plan.folder)
    marker, started = folder.block(stem), folder.started_block(stem)
    is_first = _begin(started)
    # To a store that would be one more request; on a disk, a power cut may leave the marker alone.
    finished = None if is_first and storage.has_scheme(marker) else read_marker(marker)
    if finished is not None and finished.is_final(plan.launch) and _has_its_files(finished, joined, plan):
        return finished
    # A decoder that cannot have the memory says anything, such as that the file is damaged.
    check_memory_left(plan.max_image_memory)
    maker = convert if isinstance(convert, ConvertSample) else None
    # The examples are made when some samples have come together.
    first_step: Callable[[SampleRef, Mapping[str, bytes]], Outcome] = maker.prepare if maker else convert
    attempt = functools.partial(convert_sample, first_step, memory=plan.max_image_memory)
    guard = _in_time(attempt, plan.image_timeout) if is_first else isolated(attempt, plan.image_timeout, name=_name)
    refs = read_block(joined, seed=plan.seed)
    reuse = BlockReuse(plan.reuse, maker, (split, number)) if plan.reuse and maker else None
    with guard as guarded:
        result = _convert_refs(refs, (split, number), stem=stem, plan=plan, convert=guarded, maker=maker, reuse=reuse)
    storage.write_bytes(marker, json.dumps(result.to_json()).encode())
    add_block(plan.folder, result.stats, before=finished.stats if finished else None)
    return result


def _has_its_files(finished: BlockResult, joined: Iterable[bytes], plan: BlockPlan) -> bool:
    """Whether the files of a finished block are what they were, where the listing does not tell."""
    if not finished.files_seen:
        return True
    refs = itertools.chain.from_iterable(
        _one_by_key(read_block(joined, seed=plan.seed), Counter(), plan, split=finished.split)
    )
    seen = look_again(
        refs,
        hashes_files=plan.hashes_files,
        needs_image=lambda ref: plan.read_images,
        max_file_size=plan.max_file_size,
    )
    return seen == finished.files_seen


def _one_by_key(
    together: Iterable[RefColumns], counts: Counter[Key], plan: BlockPlan, *, split: str
) -> Iterator[RefColumns]:
    """The references of a block, one for each key that is not rejected."""
    if plan.group_rows:
        return RefColumns.of(merge_rows(itertools.chain.from_iterable(together), counts, split=split))
    if plan.last_member_wins:
        together = keep_last(together, counts, split=split)
    return iter(reject_duplicates(together))


def _begin(started: str) -> bool:
    """Marks a block as started; whether this is the first attempt at it. A store is sent one request."""
    if storage.has_scheme(started):
        return storage.write_new(started, b"")
    is_first = not storage.exists(started)
    if is_first:
        storage.write_bytes(started, b"")
    return is_first


def read_block(joined: Iterable[bytes], *, seed: int) -> Iterator[RefColumns]:
    """The references of a block in their final order; equal keys stay next to each other, in an order of their own."""
    by_names: dict[tuple[str, ...], list[RefColumns]] = {}
    for refs in itertools.chain.from_iterable(map(unpack_refs, joined)):
        by_names.setdefault(tuple(refs.columns), []).append(refs)
    kinds = list(map(RefColumns.join, by_names.values()))
    starts = [0, *itertools.accumulate(map(len, kinds))]
    orders = np.asarray(order_hashes(seed=seed, keys=[key for refs in kinds for key in refs.keys]))
    places = np.argsort(orders, kind="stable").tolist()

    def kind_of(place: int) -> int:
        return bisect.bisect_right(starts, place, hi=len(kinds)) - 1

    def identify(place: int) -> tuple[str, bytes]:
        kind = kind_of(place)
        ref = kinds[kind][place - starts[kind]]
        return ref.key, ref.pack()

    if len(np.unique(orders)) < len(orders):
        equal = (list(group) for _, group in itertools.groupby(places, key=orders.tolist().__getitem__))
        places = [place for some in equal for place in (sorted(some, key=identify) if len(some) > 1 else some)]
    for kind, run in itertools.groupby(places, key=kind_of) if len(kinds) != 1 else [(0, places)]:
        yield kinds[kind].take(place - starts[kind] for place in run)


def convert_sample(
    convert: Callable[[SampleRef, Mapping[str, bytes]], Made],
    ref: SampleRef,
    images: Mapping[str, bytes],
    *,
    memory: int = 0,
) -> Made | SampleError:
    """Converts one sample; whatever `convert` raises is a failure of this sample, and of no other.

    Args:
      convert: converts it.
      ref: the sample.
      images: the bytes of its images by their names; empty for a row without one.
      memory: bytes that its conversion may take.

    Raises:
      BuildError: a service fault, such as no more file handles or memory; no sample is to blame for it.
    """
    try:
        return convert(ref, images)
    except SampleError as error:
        return error
    except MemoryError as error:
        check_memory_left(memory)
        detail = f"the conversion needs more memory than there is: {error}".removesuffix(": ")
        return SampleError(Stage.CONVERT, FailureReason.TOO_MUCH_MEMORY, detail)
    except Exception as error:
        if isinstance(error, OSError) and storage.is_service_fault(error):
            raise BuildError(describe_fault(ref.uri or ref.key, error)) from error
        return SampleError.internal(Stage.CONVERT, error)


def _convert_refs(
    together: Iterable[RefColumns],
    key: BlockKey,
    *,
    stem: str,
    plan: BlockPlan,
    convert: Callable[[SampleRef, Mapping[str, bytes]], Outcome],
    maker: ConvertSample | None,
    reuse: BlockReuse | None,
) -> BlockResult:
    split, number = key
    # Without an image to decode, nothing crashes, or takes its time.
    writes_rows = maker is not None and not (plan.read_images or reuse)
    folder = BuildFolder(plan.folder)

    def needs_image(ref: SampleRef) -> bool:
        return plan.read_images and (reuse is None or reuse.needs_image(ref))

    counts: Counter[Key] = Counter()
    together = _one_by_key(together, counts, plan, split=split)
    seen, clock = FilesSeen(hashes_files=plan.hashes_files), Stopwatch()
    with PartWriter(
        folder=folder.parts,
        stem=stem,
        split=split,
        block=number,
        policy=plan.policies[split],
        compression=plan.compression,
        measure=measure_quality,
    ) as writer:
        if maker is not None and writes_rows:
            together = together if plan.hashes_files else with_fingerprints(together)
            refs = write_rows(together, maker, writer, counts, clock, split=split)
        else:
            refs = map(seen.look_up, itertools.chain.from_iterable(together))
        attempt = functools.partial(convert_sample, memory=plan.max_image_memory)
        samples = SampleWriter(maker, attempt, writer, counts, split=split, reuse=reuse, launch=plan.launch)
        fetched_refs = fetch(refs, needs_image=needs_image, max_file_size=plan.max_file_size)
        # What follows a row that is not written with others is written behind it.
        for group in group_small(fetched_refs, most=1 if writes_rows else None):
            clock.lap("read")
            while group:
                ref, fetched = group.popleft()
                images = {} if isinstance(fetched, SampleError) else fetched
                ref = seen.hash_bytes(ref, images)
                found, change = _take_or_convert(ref, fetched, plan=plan, convert=convert, reuse=reuse)
                source_bytes = sum([len(data) for name, data in images.items() if name != MASK]) or ref.size
                # Otherwise two images would be held while the next one is read.
                del fetched, images
                samples.add(ReadSample(ref, found, change, source_bytes))
            clock.lap("convert")
            samples.flush()
            clock.lap("write")
        parts = tuple(writer.close())
        clock.lap("write")
    failures_path = folder.block_list("failures", stem) if samples.failures else None
    lines = "".join(samples.failures).encode()
    if failures_path:
        storage.write_bytes(failures_path, lines)
    changes_path, changes = None, b""
    if reuse:
        changes_path, changes = folder.block_list("changes", stem), reuse.lines().encode()
        storage.write_bytes(changes_path, changes)
        counts.update(reuse.counts)
    return BlockResult(
        split,
        number,
        parts,
        failures_path,
        Stats(dict(counts)),
        failures_bytes=len(lines),
        changes=changes_path,
        changes_bytes=len(changes),
        launch=samples.launch,
        files_seen=seen.digest,
        msec=clock.msec,
    )


def _take_or_convert(
    ref: SampleRef,
    images: Fetched,
    *,
    plan: BlockPlan,
    convert: Callable[[SampleRef, Mapping[str, bytes]], Outcome],
    reuse: BlockReuse | None,
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
        return (read if isinstance(read, SampleError) else convert(ref, read)), None
    return convert(ref, images), None


@contextlib.contextmanager
def _in_time(attempt: Callable[..., Any], seconds: float) -> Iterator[Callable[..., Any]]:
    """The conversion in this process, which is killed if a sample takes longer than `seconds`."""
    limit = TimeLimit(seconds)

    def convert_in_time(ref: SampleRef, images: Mapping[str, bytes]) -> Any:
        # No decoder runs for a row, and the timer would take as long as half of its conversion.
        if not images:
            return attempt(ref, images)
        with limit:
            return attempt(ref, images)

    yield convert_in_time


def _name(ref: SampleRef, _: Mapping[str, bytes]) -> str:
    return ref.uri or ref.key
