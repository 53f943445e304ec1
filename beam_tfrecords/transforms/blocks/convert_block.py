"""Converts the references of one block to parts, or reads the result of a finished block from its checkpoint.

No other step handles image bytes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import json
import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from beam_tfrecords import storage
from beam_tfrecords.errors import TRIED_AGAIN, FailureReason, SampleError, Stage
from beam_tfrecords.escaping import escape, write_json
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.convert_sample import PreparedSample
from beam_tfrecords.transforms.blocks.guard import Convert, check_memory_left, describe_failure, failure_of, guarded
from beam_tfrecords.transforms.blocks.results import BlockResult, read_checkpoint
from beam_tfrecords.transforms.blocks.rows import join_rows, read_block
from beam_tfrecords.transforms.libraries import check_libraries
from beam_tfrecords.transforms.parts import PartWriter
from beam_tfrecords.transforms.processes.worker import is_second_attempt
from beam_tfrecords.transforms.refs.fetching import Fetched, FilesSeen, fetch, look_again, read_images
from beam_tfrecords.transforms.refs.ref_columns import RefColumns, join_alike, long_bytes
from beam_tfrecords.transforms.refs.sample_refs import BlockKey, SampleRef, is_mask
from beam_tfrecords.transforms.stats import Change, Key, Stats, count_records
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.counts import add_block, add_step

if TYPE_CHECKING:
    from beam_tfrecords.transforms.blocks.reuse import BlockReuse
    from beam_tfrecords.transforms.mapping.open_sample import MapSample

# Limits of a batch that is held before writing: samples, and bytes of their converted images and long values. Writing
# photos one by one took 5% of the time of a build.
_MOST, _MOST_BYTES = 256, 1 << 20
_ROW = PreparedSample()
# These failures are also logged by the worker whose child process ended.
_PROCESS_ENDED = (FailureReason.DECODER_CRASH, FailureReason.DECODE_TIMEOUT)
_log = logging.getLogger(__name__)


def convert_block(
    block: tuple[BlockKey, Iterable[bytes]], *, plan: BlockPlan, isolates_later: bool = False
) -> BlockResult:
    """Converts one block, unless it is finished.

    Args:
      block: its key, and its references as `AssignOrder` joins them.
      plan: the plan of all blocks.
      isolates_later: whether to convert later blocks in child processes too after an attempt at a block did not end.

    Raises:
      BuildError: this machine has other versions of the libraries that decide records, or too little memory.
    """
    check_libraries(plan.libraries, launcher=plan.launcher)
    (split, number), packed = block
    joined = list(packed)
    stem = f"{split}-{number:06d}"
    folder = BuildFolder(plan.folder)
    checkpoint, started = folder.block(stem), folder.started_block(stem)
    if storage.has_scheme(checkpoint) and not isolates_later:
        # The pool of this machine knows about a second attempt, which saves a request to the store.
        is_first, may_be_finished = not is_second_attempt(), not plan.is_new
    else:
        is_first = _begin(started)
        # Reading a checkpoint costs a store one more request. On a disk, a power loss may leave only the checkpoint.
        may_be_finished = not (is_first and storage.has_scheme(checkpoint))
    finished = read_checkpoint(checkpoint) if may_be_finished else None
    if finished is not None and finished.is_final(plan.run_id) and _has_its_files(finished, joined, plan):
        return finished
    is_isolated = not is_first or (isolates_later and storage.exists(folder.unfinished))
    if isolates_later and not is_first:
        storage.write_bytes(folder.unfinished, b"")
    # A decoder that runs out of memory may report any error, such as a damaged file.
    check_memory_left(plan.max_image_memory)
    counts: Counter[Key] = Counter()
    refs = _read_rows(joined, counts, plan, split=split)
    result = _write_block(refs, counts, split=split, number=number, stem=stem, plan=plan, is_first=not is_isolated)
    # The counts may include a block that has no checkpoint yet; the checkpoints are authoritative.
    storage.run_concurrently(
        checkpoint,
        functools.partial(storage.write_bytes, checkpoint, json.dumps(result.to_json()).encode()),
        functools.partial(add_block, plan.folder, result.stats, before=finished.stats if finished else None),
    )
    return result


def _read_rows(joined: Iterable[bytes], counts: Counter[Key], plan: BlockPlan, *, split: str) -> Iterator[RefColumns]:
    refs = join_rows(
        read_block(joined, seed=plan.seed, decide=plan.decide),
        counts,
        split=split,
        group_rows=plan.group_rows,
        last_member_wins=plan.last_member_wins,
    )
    if plan.where is None or plan.map is not None:  # the user's function may change the listed values
        return refs
    return plan.where.keep_listed(refs, counts, plan.convert, split=split)


def _has_its_files(finished: BlockResult, joined: Iterable[bytes], plan: BlockPlan) -> bool:
    """Whether the input files of a finished block are unchanged. Checks only files without a listed fingerprint."""
    if not finished.files_seen:
        return True
    seen = look_again(
        _read_rows(joined, Counter(), plan, split=finished.split),
        hashes_files=plan.hashes_files,
        needs_image=plan.reads_images,
        max_file_size=plan.max_file_size,
    )
    return seen == finished.files_seen


def _begin(started: str) -> bool:
    """Marks a block as started, with one request to a store. Returns whether this is its first attempt."""
    if storage.has_scheme(started):
        return storage.write_new(started, b"")
    is_first = not storage.exists(started)
    if is_first:
        storage.write_bytes(started, b"")
    return is_first


def _write_block(
    batches: Iterable[RefColumns],
    counts: Counter[Key],
    *,
    split: str,
    number: int,
    stem: str,
    plan: BlockPlan,
    is_first: bool,
) -> BlockResult:
    """Converts the samples of a block, and writes its parts, failures and changes.

    Args:
      batches: the references of the block, in order.
      counts: counts of its references so far; receives all others.
      number: number of the block in its split.
      stem: start of the names of its files.
      is_first: as in `guarded`.
    """
    folder = BuildFolder(plan.folder)
    seen = FilesSeen(hashes_files=plan.hashes_files)
    reuse = plan.reuse.open(plan.convert, (split, number)) if plan.reuse else None

    def needs_images(refs: RefColumns) -> list[bool]:
        # The user's function always needs the images, since its result is unknown before it runs.
        if reuse is None or plan.map or not plan.reads_images:
            return [plan.reads_images] * len(refs)
        return list(map(reuse.needs_image, refs))

    guard = functools.partial(guarded, seconds=plan.image_timeout, memory=plan.max_image_memory, is_first=is_first)
    with (
        PartWriter(
            folder=folder.parts,
            stem=stem,
            split=split,
            block=number,
            policy=plan.policies[split],
            compression=plan.compression,
            most_index_bytes=plan.most_index_bytes,
        ) as writer,
        guard(plan.convert.prepare) as prepare,
        guard(plan.map.apply, what="the function of `map`") if plan.map else contextlib.nullcontext() as apply,
    ):
        samples = _SampleWriter(plan, split, writer, counts, reuse, prepare, apply)
        for refs, fetched in fetch(
            map(seen.look_up, batches), needs_images=needs_images, max_file_size=plan.max_file_size
        ):
            samples.add(seen.hash_bytes(refs, fetched), fetched)
        samples.flush()
        parts = tuple(writer.close())
    lists = {"failures": "".join(samples.failures), "changes": reuse.lines() if reuse else ""}
    counts.update(reuse.counts if reuse else {})
    return BlockResult(
        split,
        number,
        parts,
        Stats(dict(counts)),
        {kind: _write_lines(folder.block_list(kind, stem), lines.encode()) for kind, lines in lists.items() if lines},
        run_id=samples.run_id,
        files_seen=seen.digest,
        is_resumed=False,
    )


def _write_lines(path: str, data: bytes) -> tuple[str, int]:
    """Writes a file; returns its path and size in bytes."""
    storage.write_bytes(path, data)
    return path, len(data)


class _Left(enum.Enum):
    """Marks a sample that the request leaves out, so that it is not written."""

    FILTERED = enum.auto()


class _Converted(NamedTuple):
    """A sample before it is written.

    Attributes:
      made: the prepared sample, or why it is rejected.
      change: as in `BlockReuse.count`.
      source_bytes: bytes of its image files.
    """

    made: PreparedSample | SampleError
    change: Change | None
    source_bytes: int


@dataclasses.dataclass
class _SampleWriter:
    """Converts the samples of a block in order, holds them until a batch is complete, and writes the batch.

    Attributes:
      writer: receives the records.
      counts: receives the counts of the samples.
      reuse: finds records of the previous dataset; None without one.
      prepare: converts the images of a sample.
      apply: applies the user's function; None without one.
      failures: failures of the rejected samples, a JSON object per line.
      run_id: this run if it rejected samples that the next run retries; else "".
    """

    plan: BlockPlan
    split: str
    writer: PartWriter
    counts: Counter[Key]
    reuse: BlockReuse | None
    prepare: Convert[PreparedSample | SampleError]
    apply: Convert[Any] | None
    failures: list[str] = dataclasses.field(default_factory=list)
    run_id: str = ""

    def __post_init__(self) -> None:
        self._refs: list[RefColumns] = []
        # References that the user's function returned; each may have other columns.
        self._mapped: list[SampleRef] = []
        self._converted: list[_Converted] = []
        self._size = 0

    def add(self, refs: RefColumns, fetched: deque[Fetched]) -> None:
        """Converts samples with their images, and writes the batches that are complete."""
        if not (self.reuse or self.apply or any(fetched)):
            self.flush()
            self._write(refs, [_Converted(_ROW, None, size) for size in refs.each("size")])
            return
        start = 0
        for index, ref in enumerate(refs):
            # Frees the images before the next ones are read.
            self._convert(ref, fetched.popleft())
            if self._size > _MOST_BYTES or len(self._converted) == _MOST:
                self._hold(refs.slice(start, index + 1))
                start = index + 1
                self.flush()
        if start < len(refs):
            self._hold(refs.slice(start, len(refs)))

    def flush(self) -> None:
        """Writes the samples that are held."""
        converted, refs, mapped = self._converted, self._refs, self._mapped
        self._converted, self._refs, self._mapped, self._size = [], [], [], 0
        for held in RefColumns.of(mapped) if self.apply else join_alike(refs):
            self._write(held, converted[: len(held)])
            converted = converted[len(held) :]

    def _hold(self, refs: RefColumns) -> None:
        if self.apply is None:
            self._refs.append(refs)

    def _convert(self, ref: SampleRef, read: Fetched) -> None:
        of_images = [] if isinstance(read, SampleError) else [len(read[name]) for name in read if not is_mask(name)]
        source_bytes = sum(of_images) or ref.size
        if self.plan.map is not None:
            mapped = self._map(self.plan.map, ref, read)
            if mapped is None:
                self.counts["filtered", ref.split or ""] += 1
                return
            ref, read = mapped
            self._mapped.append(ref)
        made, change = self._take_or_prepare(ref, read)
        self._converted.append(_Converted(made, change, source_bytes))
        self._size += long_bytes(ref) + (made.size if isinstance(made, PreparedSample) else 0)

    def _map(self, map_sample: MapSample, ref: SampleRef, images: Fetched) -> tuple[SampleRef, Fetched] | None:
        """Applies the user's function; returns the new sample and its images, or None if the sample is left out."""
        assert self.apply is not None
        made = images if isinstance(images, SampleError) else self.apply(ref, images)
        if isinstance(made, SampleError):
            return map_sample.keep_columns(ref), made
        return cast("tuple[SampleRef, Fetched] | None", made)

    def _take_or_prepare(self, ref: SampleRef, images: Fetched) -> tuple[PreparedSample | SampleError, Change | None]:
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
            return (read if isinstance(read, SampleError) else self.prepare(ref, read)), None
        # A row needs no guard, because no decoder runs for it.
        return self.prepare(ref, images) if images else _ROW, None

    def _write(self, refs: RefColumns, converted: Sequence[_Converted]) -> None:
        places = [place for place, one in enumerate(converted) if isinstance(one.made, PreparedSample)]
        prepared = converted if len(places) == len(refs) else [converted[place] for place in places]
        labels = iter(self._finish(refs if prepared is converted else refs.take(places), prepared))
        for place, one in enumerate(converted):
            written = one.made if isinstance(one.made, SampleError) else next(labels)
            if isinstance(written, SampleError):
                self._reject(refs[place], written)
            if self.reuse and not isinstance(written, _Left):
                self.reuse.count(refs.keys[place], written, one.change)
        # In a store, each write would be a request.
        if not storage.has_scheme(self.plan.folder):
            add_step(self.plan.folder, converted=len(refs))

    def _finish(self, refs: RefColumns, prepared: Sequence[_Converted]) -> list[str | SampleError | _Left | None]:
        """Makes and writes examples; returns the label of each sample, why it is rejected, or that it is left out.

        Halves a batch that fails, until it contains only the sample that fails.
        """
        if not prepared:
            return []
        try:
            made = self.plan.convert.finish(refs, [cast("PreparedSample", one.made) for one in prepared])
        except Exception as error:
            if len(refs) == 1:
                return [failure_of(error, refs[0], memory=self.plan.max_image_memory)]
            middle = len(refs) // 2
            return [
                *self._finish(refs.slice(0, middle), prepared[:middle]),
                *self._finish(refs.slice(middle, len(refs)), prepared[middle:]),
            ]
        labels: list[str | SampleError | _Left | None] = list(made.index_columns["label"])
        if self.plan.where is not None:
            passes = self.plan.where.passes(refs, made, split=self.split)
            kept = [place for place, fits in enumerate(passes) if fits]
            labels = [label if fits else _Left.FILTERED for label, fits in zip(labels, passes, strict=True)]
            self.counts["filtered", self.split] += len(refs) - len(kept)
            refs, made, prepared = refs.take(kept), made.take(kept), [prepared[place] for place in kept]
        if len(refs):
            count_records(self.counts, self.split, made.class_names, made.index_columns, heads=made.heads)
            known = {name: values for name, values in made.index_columns.items() if values.count(None) < len(refs)}
            self.writer.add(made.examples, made.crcs, known)
            self.counts["source_bytes",] += sum(one.source_bytes for one in prepared)
        return labels

    def _reject(self, ref: SampleRef, error: SampleError) -> None:
        if error.reason in _PROCESS_ENDED:
            _log.warning("%s: %s", escape(ref.uri or ref.key), error.detail)
        self.counts["failed", self.split, error.reason.value] += 1
        self.failures.append(write_json(describe_failure(ref, error, self.plan.convert.paths)) + "\n")
        # Every run lists the input again, which retries samples that the listing rejected.
        if error.reason in TRIED_AGAIN and error.stage is not Stage.LIST:
            self.run_id = self.plan.run_id
