"""WriteTFRecordShards: writes any PCollection of serialized examples to shards of a given size."""

from __future__ import annotations

import glob
import os
import uuid
from collections.abc import Iterable, Iterator
from typing import get_args

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from beam_tfrecords import storage
from beam_tfrecords.output.files import ShardNames
from beam_tfrecords.output.manifest import Shard
from beam_tfrecords.tfrecord import Compression, masked_crc32c
from beam_tfrecords.transforms.parts import MEMBERS_PER_SHARD, PART_BYTES, Part, PartPolicy, PartWriter
from beam_tfrecords.transforms.shards.plan import ShardPolicy, Size, add_sizes
from beam_tfrecords.transforms.shards.split import split_members
from beam_tfrecords.transforms.shards.stage import ComposeShards, PlanShards

# Parts are ordered by a random number below this; `PlanShards` keeps totals per `RANGE_BLOCKS` of these numbers.
_ORDERS = 1 << 20


class WriteTFRecordShards(beam.PTransform):
    """Writes records to TFRecord shards: bytes -> Shard.

    Writes the records of each bundle to temporary files and concatenates these, so no record goes through a shuffle.
    The runner decides the order of the records. An empty input writes no shard. Replaces shards of an earlier run with
    the same path, and deletes its other shards.

    Args:
      path: folder and start of the file names: `out/cats` gives `out/cats.tfrecord-00000-of-00007`.
      shard_size: approximate bytes of a shard.
      num_shards: fixed number of shards of about the same size; None derives the number from `shard_size`.
      compression: "none" or "gzip".

    Raises:
      ValueError: an argument is invalid.

    Example:
      >>> import apache_beam as beam
      >>> from beam_tfrecords import WriteTFRecordShards
      >>> with beam.Pipeline() as pipeline:
      ...     _ = pipeline | beam.Create([b"one", b"two"]) | WriteTFRecordShards("text/words", num_shards=1)
      >>> import os
      >>> os.listdir("text")
      ['words.tfrecord-00000-of-00001']
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        shard_size: int = 150 * 10**6,
        num_shards: int | None = None,
        compression: Compression = "none",
    ) -> None:
        super().__init__()
        if shard_size < 1 or (num_shards is not None and num_shards < 1):
            raise ValueError(f"shard_size={shard_size}, num_shards={num_shards}: expected positive numbers")
        if compression not in get_args(Compression):
            raise ValueError(f"compression={compression!r}: expected {' or '.join(map(repr, get_args(Compression)))}")
        path = os.fspath(path)
        if not path or path.endswith("/"):
            raise ValueError(
                f"path={path!r}: expected a folder and the beginning of the files' names, such as {path + 'examples'!r}"
            )
        path = storage.absolute(path)
        folder, prefix = storage.dirname(path), storage.basename(path)
        self._names = ShardNames(folder, prefix, staging=storage.join(folder, f".{prefix}.unfinished"))
        self._policy = ShardPolicy(shard_size, num_shards)
        self._compression = compression

    def expand(self, records: beam.PCollection[bytes]) -> beam.PCollection[Shard]:
        member_bytes = max(1, min(PART_BYTES, self._policy.shard_size // MEMBERS_PER_SHARD))
        policy = PartPolicy(member_bytes=member_bytes)
        # Chooses the name at run time, because a template runs many times. The reshuffle keeps the name for retries.
        folder = beam.pvalue.AsSingleton(
            records.pipeline
            | "Once" >> beam.Impulse()
            | "NameTemporaryFolder" >> beam.Map(_name_temporary_folder, self._names.folder)
            | "KeepName" >> beam.Reshuffle()
        )
        parts = records | "WriteParts" >> beam.ParDo(_WriteParts(policy, self._compression), folder)
        if self._policy.num_shards is not None and self._compression == "gzip":
            total = beam.pvalue.AsSingleton(
                parts | "Size" >> beam.Map(_size_of) | "Total" >> beam.CombineGlobally(add_sizes)
            )
            parts |= "SplitMembers" >> beam.Map(
                storage.with_storage_options(split_members), total, shards=self._policy.num_shards
            )
        shards = (
            parts
            | "PlanShards" >> PlanShards(self._policy)
            | "ComposeShards" >> ComposeShards(self._names, with_index=False)
        )
        _ = (
            records.pipeline
            | "AtTheEnd" >> beam.Impulse()
            | "RemoveParts"
            >> beam.Map(
                storage.with_storage_options(_remove_old_files), beam.pvalue.AsIter(shards), folder, names=self._names
            )
        )
        return shards


class _WriteParts(beam.DoFn):
    """Writes the records of each bundle to separate parts: bytes -> Part."""

    def __init__(self, policy: PartPolicy, compression: Compression) -> None:
        self._policy = policy
        self._compression = compression
        self._options = storage.current_options()
        self._writer: PartWriter | None = None

    def setup(self) -> None:
        storage.set_options(self._options)

    def start_bundle(self) -> None:
        self._writer = None

    def process(self, record: bytes, folder: str) -> None:
        if not isinstance(record, bytes):
            raise TypeError(
                f"WriteTFRecordShards: expected serialized examples (bytes), found {type(record).__name__}; "
                "put beam.Map(lambda example: example.SerializeToString()) before it"
            )
        if self._writer is None:
            name = uuid.uuid4()
            self._writer = PartWriter(
                folder=folder,
                stem=name.hex,
                split="",
                block=name.int % _ORDERS,
                policy=self._policy,
                compression=self._compression,
            )
        self._writer.add([record], [masked_crc32c(record)])

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._writer is not None:
            part: Part
            for part in self._writer.close():
                yield GlobalWindows.windowed_value(part)


def _name_temporary_folder(_: bytes, folder: str) -> str:
    return storage.join(folder, f".parts-{uuid.uuid4().hex}")


def _size_of(part: Part) -> Size:
    return part.bytes, part.records


def _remove_old_files(_: bytes, shards: Iterable[Shard], folder: str, *, names: ShardNames) -> None:
    """Removes the parts and the shards of an earlier run. Runs after all shards are written, because it reads them."""
    new = {shard.file for shard in shards}
    found = storage.list_files(glob.escape(storage.join(names.folder, f"{names.prefix}.tfrecord-")) + "*")
    storage.delete_files(
        [entry.path for entry in found if names.is_shard(name := storage.basename(entry.path)) and name not in new]
    )
    for temporary in (folder, names.staging):
        storage.delete_tree(temporary)
