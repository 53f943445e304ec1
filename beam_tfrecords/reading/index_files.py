"""Reads the index files of shards, and checks them against the manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from beam_tfrecords import storage
from beam_tfrecords.dataset.index import read_batches, sealed_crcs
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.dataset.published import explain_missing, replaced
from beam_tfrecords.errors import BuildError
from beam_tfrecords.reading.shard_cache import ShardCache


def read_index(
    path: str, shard: Shard, columns: Sequence[str], *, cache: ShardCache | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the index of a shard in batches of rows, as `read_batches` reads it.

    Args:
      path: folder of the dataset.
      shard: a shard with an index.
      columns: as in `read_batches`.
      cache: keeps the file.

    Raises:
      BuildError: the file differs from the manifest, no longer exists, or does not have one row per record.
    """
    name, sha256 = shard.index or "", shard.index_sha256
    data = cache.read_index(sha256) if cache and sha256 else None
    if data is None:
        data = _read_checked(path, name, sha256)
        if cache and sha256:
            cache.keep_index(sha256, data)
    rows = 0
    try:
        for batch in read_batches(data, columns):
            rows += batch.num_rows
            yield batch
    except pa.ArrowInvalid as error:
        raise _damaged(path, name, error) from error
    if rows != shard.records:
        raise BuildError(f"{shard.index} has {rows} rows, but its shard has {shard.records} records")


def _read_checked(path: str, name: str, sha256: str | None) -> bytes:
    try:
        data = storage.read_bytes(storage.join(path, name))
    except FileNotFoundError as error:
        raise explain_missing(path, name) from error
    if sha256 not in (None, hashlib.sha256(data).hexdigest()):
        raise replaced(path, name)
    return data


def read_places(path: str, shard: Shard, *, cache: ShardCache | None = None) -> np.ndarray:
    """Returns [records, 3] int64: offset and length of each record in bytes, and its CRC.

    Raises:
      BuildError: as `read_index`.
    """
    batches = [np.empty((0, 3), np.int64)]
    for rows in read_index(path, shard, ["offset", "length", "sample_hash"], cache=cache):
        try:
            crcs = sealed_crcs(rows["sample_hash"])
        except (ValueError, KeyError) as error:
            raise _damaged(path, shard.index or "", error) from error
        batches.append(np.stack([rows["offset"].to_numpy(), rows["length"].to_numpy(), crcs], axis=1))
    places = np.concatenate(batches)
    if places[:, :2].max(initial=0) > shard.bytes:
        raise _damaged(path, shard.index or "", ValueError(f"a record lies beyond the end of {shard.file}"))
    return places


def _damaged(path: str, name: str, error: Exception) -> BuildError:
    return BuildError(
        f"{storage.join(path, name)} cannot be read: {error}; run `beam-tfrecords verify --dataset={path}`"
    )
