"""Writes indices of shards for NVIDIA DALI and the `tfrecord` package.

The format is that of `tfrecord2idx`, which both include: for each record, a line with its offset and its length with
framing, in bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TypeVar

from beam_tfrecords import storage
from beam_tfrecords.output.files import DALI_FOLDER, dali_index
from beam_tfrecords.output.index import read_batches
from beam_tfrecords.output.manifest import Shard
from beam_tfrecords.storage.threads import map_in_threads

_THREADS = 8
Written = TypeVar("Written")


def write_dali_indices(
    path: str, shards: Iterable[Shard], *, write: Callable[[str, bytes], Written]
) -> dict[str, Written]:
    """Writes the DALI index of every shard.

    Args:
      path: folder of the dataset, whose shards and own indices are already written.
      shards: its shards.
      write: writes a file of the dataset.

    Returns:
      File name -> result of `write`.
    """
    write_index = functools.partial(_write_index, path=path, write=write)
    written = dict(map_in_threads(write_index, shards, threads=_THREADS))
    storage.sync_folder(storage.join(path, DALI_FOLDER))
    return written


def _write_index(shard: Shard, *, path: str, write: Callable[[str, bytes], Written]) -> tuple[str, Written]:
    own = shard.index or ""
    lines = [
        "".join(f"{offset} {length}\n" for offset, length in zip(*rows.to_pydict().values(), strict=True)).encode()
        for rows in read_batches(storage.read_bytes(storage.join(path, own)), ["offset", "length"])
    ]
    name = dali_index(own)
    return name, write(name, b"".join(lines))
