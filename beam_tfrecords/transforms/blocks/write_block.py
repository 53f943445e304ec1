"""Converts the samples of a block and writes its parts, its failures and its changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from beam_tfrecords import storage
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.files_seen import FilesSeen
from beam_tfrecords.transforms.blocks.prepare_samples import prepare_samples
from beam_tfrecords.transforms.blocks.results import BlockResult
from beam_tfrecords.transforms.blocks.reuse import BlockReuse
from beam_tfrecords.transforms.blocks.stopwatch import Stopwatch
from beam_tfrecords.transforms.blocks.write_samples import Left, SampleWriter
from beam_tfrecords.transforms.parts import PartWriter
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.stats import Key, Stats
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder


def write_block(
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
