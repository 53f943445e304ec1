"""Splits parts that are too large to be spread evenly over a fixed number of shards."""

from __future__ import annotations

from collections.abc import Iterator

from beam_tfrecords import storage
from beam_tfrecords.tfrecord import Compression, masked_crc32c, open_stream, read_records
from beam_tfrecords.transforms.parts import PARTS_PER_SHARD, Part, PartPolicy, PartWriter
from beam_tfrecords.transforms.shards.plan import Size


def split_part(part: Part, total: Size, *, shards: int, compression: Compression) -> Iterator[Part]:
    """The records of a part in parts of at most an eighth of a shard; the part itself if it is no larger.

    Args:
      part: without an index.
      total: of all parts.
      shards: number of shards that there will be.
      compression: of the part.
    """
    total_bytes, records = total
    wanted = shards * PARTS_PER_SHARD
    policy = PartPolicy(bytes=max(1, total_bytes // wanted), records=max(1, records // wanted))
    if shards == 1 or part.records == 1 or part.bytes <= policy.bytes:
        yield part
        return
    writer = PartWriter(
        folder=storage.dirname(part.uri),
        stem=f"{storage.basename(part.uri)}-split",
        split=part.split,
        block=part.block,
        policy=policy,
        compression=compression,
    )
    with storage.open_read(part.uri) as file, writer:
        for record in read_records(open_stream(file, compression)):
            writer.add([record.data], [masked_crc32c(record.data)])
        yield from writer.close()
