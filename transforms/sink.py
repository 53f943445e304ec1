"""WriteTFRecordShards: any PCollection of serialized examples becomes shards of the size asked for."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from beam_tfrecords import storage
from beam_tfrecords.dataset import Shard
from beam_tfrecords.files import ShardNames
from beam_tfrecords.tfrecord import Compression
from transforms.parts import PART_BYTES, PARTS_PER_SHARD, Part, PartPolicy, PartWriter
from transforms.shards.plan import ShardPolicy
from transforms.shards.stage import ComposeShards, PlanShards

# Parts are ordered by a random number below this; `PlanShards` keeps totals per thousand of them.
_ORDERS = 1 << 20


class WriteTFRecordShards(beam.PTransform):
    """Writes records to TFRecord shards: bytes -> Shard.

    Each bundle is written to parts of its own, and the parts are joined; no record goes through a shuffle. The
    order of the records is the runner's. An empty input writes no shard.

    Args:
      path: folder and beginning of the files' names: `out/cats` gives `out/cats.tfrecord-00000-of-00007`.
      shard_size: approximate bytes of a shard.
      num_shards: fixed number of shards, or None for `shard_size` to decide.
      compression: "none" or "gzip".

    Raises:
      ValueError: a size or number is not positive.
    """

    def __init__(
        self,
        path: str,
        *,
        shard_size: int = 150 * 10**6,
        num_shards: int | None = None,
        compression: Compression = "none",
    ) -> None:
        super().__init__()
        if shard_size < 1 or (num_shards is not None and num_shards < 1):
            raise ValueError(f"shard_size={shard_size}, num_shards={num_shards}: expected positive numbers")
        path = storage.absolute(path)
        folder, prefix = storage.dirname(path), storage.basename(path)
        self._names = ShardNames(folder, prefix, staging=storage.join(folder, f".{prefix}.unfinished"))
        self._policy = ShardPolicy(shard_size, num_shards)
        self._compression = compression

    def expand(self, records: beam.PCollection[bytes]) -> beam.PCollection[Shard]:
        size = PART_BYTES if self._policy.num_shards is None else PART_BYTES // PARTS_PER_SHARD
        policy = PartPolicy(bytes=max(1, min(size, self._policy.shard_size // PARTS_PER_SHARD)))
        # Named while the job runs, since a template runs many times; reshuffled, so that a retry keeps it.
        folder = beam.pvalue.AsSingleton(
            records.pipeline
            | "Once" >> beam.Impulse()
            | "NameTemporaryFolder" >> beam.Map(_name_temporary_folder, self._names.folder)
            | "KeepName" >> beam.Reshuffle()
        )
        shards = (
            records
            | "WriteParts" >> beam.ParDo(_WriteParts(policy, self._compression), folder)
            | "PlanShards" >> PlanShards(self._policy)
            | "ComposeShards" >> ComposeShards(self._names, with_index=False)
        )
        _ = (
            records.pipeline
            | "AtTheEnd" >> beam.Impulse()
            | "RemoveParts" >> beam.Map(_remove_temporary, beam.pvalue.AsIter(shards), folder, self._names.staging)
        )
        return shards


class _WriteParts(beam.DoFn):
    """Writes a bundle's records to parts of its own: bytes -> Part."""

    def __init__(self, policy: PartPolicy, compression: Compression) -> None:
        self._policy = policy
        self._compression = compression
        self._writer: PartWriter | None = None

    def start_bundle(self) -> None:
        self._writer = None

    def process(self, record: bytes, folder: str) -> None:
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
        self._writer.add(record)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._writer is not None:
            part: Part
            for part in self._writer.close():
                yield GlobalWindows.windowed_value(part)


def _name_temporary_folder(_: bytes, folder: str) -> str:
    return storage.join(folder, f".parts-{uuid.uuid4().hex}")


def _remove_temporary(_: bytes, shards: Iterable[Shard], *folders: str) -> None:
    # This step waits for all shards because it reads them.
    for _shard in shards:
        pass
    for folder in folders:
        storage.delete_tree(folder)
