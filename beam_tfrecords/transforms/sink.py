"""WriteTFRecordShards: writes any PCollection of serialized examples to shards of a given size."""

from __future__ import annotations

import glob
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import get_args

import apache_beam as beam
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from beam_tfrecords import storage
from beam_tfrecords.byte_sizes import number_of_bytes
from beam_tfrecords.dataset.files import ShardNames
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.errors import BuildError
from beam_tfrecords.tfrecord import Compression, masked_crc32c, open_stream, read_records
from beam_tfrecords.transforms.parts import MEMBERS_PER_SHARD, PART_BYTES, Part, PartPolicy, PartWriter
from beam_tfrecords.transforms.shards.plan import ShardPolicy, Size, add_sizes
from beam_tfrecords.transforms.shards.stage import ComposeShards, PlanShards

# Parts are ordered by a random number below this; `PlanShards` keeps totals per `RANGE_BLOCKS` of these numbers.
_ORDERS = 1 << 20


class WriteTFRecordShards(beam.PTransform):
    """Writes records to TFRecord shards: bytes -> Shard.

    Writes the records of each bundle to temporary files and concatenates these, so no record goes through a shuffle.
    The runner decides the order of the records. Replaces shards of an earlier run with the same path, and deletes its
    other shards; an empty collection stops the pipeline if there are such shards. Windows of the records do not matter.

    Args:
      path: folder and start of the file names: `out/cats` gives `out/cats.tfrecord-00000-of-00007`.
      shard_size: approximate size of a shard: a number of bytes, or a text such as "150MB".
      num_shards: fixed number of shards of about the same size; None derives the number from `shard_size`.
      compression: "none" or "gzip".
      allow_empty: whether an empty collection may delete the shards of an earlier run.

    Raises:
      ValueError: an argument is invalid, the records are unbounded, or the pipeline writes to the path already.
      TypeError: an argument has another type, or the records are not bytes.

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
        shard_size: int | str = 150 * 10**6,
        num_shards: int | None = None,
        compression: Compression = "none",
        allow_empty: bool = False,
    ) -> None:
        super().__init__()
        size = _read_size(shard_size)
        if num_shards is not None:
            _check_positive("num_shards", num_shards)
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
        self._policy = ShardPolicy(size, num_shards)
        self._compression = compression
        self._allow_empty = allow_empty

    def type_check_inputs(self, pvalueish: beam.PCollection[bytes]) -> None:
        """Refuses a collection whose elements are known to be no bytes."""
        kind = getattr(pvalueish, "element_type", None)
        if isinstance(kind, type) and kind is not object and not issubclass(kind, bytes):
            raise _refuse_type(kind)

    def expand(self, records: beam.PCollection[bytes]) -> beam.PCollection[Shard]:
        self._check_collection(records)
        records |= "OneWindow" >> beam.WindowInto(GlobalWindows())
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
        if not self._allow_empty:
            total = beam.pvalue.AsSingleton(parts | "CountParts" >> beam.combiners.Count.Globally())
            nothing = (
                records.pipeline
                | "AtFirst" >> beam.Impulse()
                | "RefuseEmpty" >> beam.FlatMap(storage.with_storage_options(_refuse_empty), total, names=self._names)
            )
            # The shards wait for the end of this check.
            parts = (parts, nothing) | "Checked" >> beam.Flatten()
        if self._policy.num_shards is not None and self._compression == "gzip":
            total = beam.pvalue.AsSingleton(
                parts | "Size" >> beam.Map(_size_of) | "Total" >> beam.CombineGlobally(add_sizes)
            )
            parts |= "SplitMembers" >> beam.Map(
                storage.with_storage_options(_split_members), total, shards=self._policy.num_shards
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

    def _check_collection(self, records: beam.PCollection[bytes]) -> None:
        if not records.is_bounded:
            raise ValueError(
                "WriteTFRecordShards: the collection is unbounded, and the sizes of shards are known only at its end; "
                "expected a bounded collection"
            )
        if count_transforms(records.pipeline, self._writes_the_same) > 1:
            path = storage.join(self._names.folder, self._names.prefix)
            raise ValueError(
                f"WriteTFRecordShards: the pipeline writes to {path} twice, and each would replace the shards of the "
                "other; expected another path, or one collection (beam.Flatten)"
            )

    def _writes_the_same(self, other: beam.PTransform) -> bool:
        return isinstance(other, WriteTFRecordShards) and other._names == self._names


def count_transforms(pipeline: beam.Pipeline, counts: Callable[[beam.PTransform], bool]) -> int:
    """Returns the number of transforms of a pipeline that a function counts."""
    visitor = _CountTransforms(counts)
    pipeline.visit(visitor)
    return visitor.count


class _CountTransforms(PipelineVisitor):
    def __init__(self, counts: Callable[[beam.PTransform], bool]) -> None:
        self._counts = counts
        self.count = 0

    def enter_composite_transform(self, transform_node: AppliedPTransform) -> None:
        self.count += self._counts(transform_node.transform)


def _read_size(size: int | str) -> int:
    if isinstance(size, str):
        try:
            return number_of_bytes(size)
        except ValueError as error:
            raise ValueError(f"shard_size={size!r}: {error}") from None
    _check_positive("shard_size", size)
    return size


def _check_positive(name: str, number: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"{name}={number!r}: found {type(number).__name__}; expected a whole number")
    if number < 1:
        raise ValueError(f"{name}={number}: expected a positive number")


def _refuse_type(kind: type) -> TypeError:
    return TypeError(
        f"WriteTFRecordShards: expected serialized examples (bytes), found {kind.__name__}; "
        "put beam.Map(lambda example: example.SerializeToString()) before it"
    )


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
            raise _refuse_type(type(record))
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


def _find_shards(names: ShardNames) -> list[str]:
    """Returns the paths of all shards with these names."""
    found = storage.list_files(glob.escape(storage.join(names.folder, f"{names.prefix}.tfrecord-")) + "*")
    return [entry.path for entry in found if names.is_shard(storage.basename(entry.path))]


def _refuse_empty(_: bytes, parts: int, *, names: ShardNames) -> Iterator[Part]:
    """Yields nothing.

    Raises:
      BuildError: there are no records to write, so that the shards of an earlier run would be deleted.
    """
    if not parts and (old := _find_shards(names)):
        raise BuildError(
            f"WriteTFRecordShards: the collection is empty, and would replace {len(old):,} shards such as {old[0]}; "
            "expected records, or allow_empty=True"
        )
    yield from ()


def _remove_old_files(_: bytes, shards: Iterable[Shard], folder: str, *, names: ShardNames) -> None:
    """Removes the parts and the shards of an earlier run. Runs after all shards are written, because it reads them."""
    new = {shard.file for shard in shards}
    storage.delete_files([path for path in _find_shards(names) if storage.basename(path) not in new])
    for temporary in (folder, names.staging):
        storage.delete_tree(temporary)


def _split_members(part: Part, total: Size, *, shards: int) -> Part:
    """Rewrites a GZIP part with members of at most an eighth of a shard; returns a part that is no larger unchanged.

    Larger members could not be spread evenly over a fixed number of shards.

    Args:
      part: a part whose index has no columns of the records.
      total: total size of all parts.
      shards: number of shards.
    """
    total_bytes, records = total
    wanted = shards * MEMBERS_PER_SHARD
    policy = PartPolicy(member_bytes=max(1, total_bytes // wanted), member_records=max(1, records // wanted))
    if shards == 1 or part.records == 1 or part.bytes <= policy.member_bytes:
        return part
    writer = PartWriter(
        folder=storage.dirname(part.uri),
        stem=f"{storage.basename(part.uri)}-split",
        split=part.split,
        block=part.block,
        policy=policy,
        compression="gzip",
    )
    with storage.open_read(part.uri) as file, writer:
        for record in read_records(open_stream(file, "gzip")):
            writer.add([record.data], [masked_crc32c(record.data)])
        (written,) = writer.close()
    return written
