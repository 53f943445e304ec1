"""Converts the references of one block to parts, or reads the result of a finished block from its checkpoint."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterable, Iterator

from beam_tfrecords import storage
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.files_seen import FilesSeen, look_again
from beam_tfrecords.transforms.blocks.prepare_samples import prepare_samples
from beam_tfrecords.transforms.blocks.results import BlockResult, read_checkpoint
from beam_tfrecords.transforms.blocks.reuse import BlockReuse
from beam_tfrecords.transforms.blocks.rows import join_rows, read_block
from beam_tfrecords.transforms.blocks.stopwatch import Stopwatch
from beam_tfrecords.transforms.blocks.write_samples import Left, SampleWriter
from beam_tfrecords.transforms.libraries import check_libraries
from beam_tfrecords.transforms.parts import PartWriter
from beam_tfrecords.transforms.processes.memory_left import check_memory_left
from beam_tfrecords.transforms.processes.worker import is_second_attempt
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import BlockKey
from beam_tfrecords.transforms.stats import Key, Stats
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.counts import add_block, add_converted


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
        read_block(joined, seed=plan.seed),
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
      is_first: whether this is the first attempt at the block.
    """
    folder = BuildFolder(plan.folder)
    seen, clock = FilesSeen(hashes_files=plan.hashes_files), Stopwatch()
    reuse = BlockReuse(plan.reuse, plan.convert, (split, number)) if plan.reuse else None
    with PartWriter(
        folder=folder.parts,
        stem=stem,
        split=split,
        block=number,
        policy=plan.policies[split],
        compression=plan.compression,
        most_index_bytes=plan.most_index_bytes,
    ) as writer:
        samples = SampleWriter(
            plan.convert,
            writer,
            counts,
            memory=plan.max_image_memory,
            split=split,
            run_id=plan.run_id,
            where=plan.where,
        )
        prepared = prepare_samples(batches, plan, reuse=reuse, seen=seen, clock=clock, is_first=is_first, counts=counts)
        for batch in prepared:
            clock.lap("convert")
            made = samples.write(batch.refs, batch.outcomes, batch.source_bytes)
            add_converted(plan.folder, len(batch.refs))
            if reuse:
                for key, written, change in zip(batch.refs.keys, made, batch.changes, strict=True):
                    if not isinstance(written, Left):
                        reuse.count(key, written, change)
            # Frees the images before the next ones are read.
            del batch
            clock.lap("write")
        parts = tuple(writer.close())
        clock.lap("write")
    failures, failures_bytes = _write_lines(folder.block_list("failures", stem), "".join(samples.failures) or None)
    changes, changes_bytes = _write_lines(folder.block_list("changes", stem), reuse.lines() if reuse else None)
    counts.update(reuse.counts if reuse else {})
    return BlockResult(
        split,
        number,
        parts,
        failures,
        Stats(dict(counts)),
        failures_bytes=failures_bytes,
        changes=changes,
        changes_bytes=changes_bytes,
        run_id=samples.run_id,
        files_seen=seen.digest,
        msec=clock.msec,
    )


def _write_lines(path: str, lines: str | None) -> tuple[str | None, int]:
    """Writes a file unless `lines` is None; returns its path and size in bytes."""
    if lines is None:
        return None, 0
    data = lines.encode()
    storage.write_bytes(path, data)
    return path, len(data)
