"""Recompresses parts whose GZIP members are too large to spread evenly over a fixed number of shards."""

from __future__ import annotations

from beam_tfrecords import storage
from beam_tfrecords.tfrecord import masked_crc32c, open_stream, read_records
from beam_tfrecords.transforms.parts import MEMBERS_PER_SHARD, Part, PartPolicy, PartWriter
from beam_tfrecords.transforms.shards.plan import Size


def split_members(part: Part, total: Size, *, shards: int) -> Part:
    """Rewrites a GZIP part with members of at most an eighth of a shard; returns a part that is no larger unchanged.

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
