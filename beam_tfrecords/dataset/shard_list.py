"""The list of the shards of a dataset with very many, in a Parquet file beside the manifest: one row per shard.

Its columns are the fields of a shard in the manifest, in the order of `Shard`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beam_tfrecords.dataset.files import INDEX_FOLDER, SHARDS
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.dataset.published import DamagedError, read_published_file

_SCHEMA = pa.schema(
    [
        pa.field("split", pa.string(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("of", pa.int64(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("crc32c", pa.string(), nullable=False),
        pa.field("index", pa.string(), nullable=False),
        pa.field("index_sha256", pa.string(), nullable=False),
        pa.field("first_key", pa.string()),
        pa.field("index_bytes", pa.int64(), nullable=False),
    ]
)


def write_rows(shards: Sequence[Shard]) -> bytes:
    """Returns the content of the file. The same shards always give the same bytes."""
    columns = {name: [getattr(shard, name) for shard in shards] for name in _SCHEMA.names}
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table(columns, schema=_SCHEMA),
        sink,
        compression="zstd",
        use_dictionary=["split"],
        write_statistics=False,
        # Names differ in few digits from one row to the next.
        column_encoding={"file": "DELTA_BYTE_ARRAY", "index": "DELTA_BYTE_ARRAY"},
    )
    return sink.getvalue().to_pybytes()


def read_shards(path: str, manifest: Mapping[str, Any]) -> list[Shard]:
    """Reads the file of a dataset.

    Raises:
      DamagedError: the file is missing, damaged, or not the published one.
      BuildError: the store does not answer.
    """
    data = read_published_file(path, SHARDS)
    if hashlib.sha256(data).hexdigest() != manifest["files"][SHARDS]:
        raise DamagedError(f"{SHARDS} is not the file that was published")
    try:
        shards = read_rows(data)
        counts = {split: entry["shards"] for split, entry in manifest["splits"].items()}
        if [shard.split for shard in shards] != [split for split in sorted(counts) for _ in range(counts[split])]:
            raise ValueError("its shards do not match the manifest's splits in their order")
    except ValueError as error:
        raise DamagedError(f"{SHARDS} cannot be read: {error}") from error
    return shards


def read_rows(data: bytes) -> list[Shard]:
    """Returns the shards of the file.

    Raises:
      ValueError: the file is damaged, or no build writes its values.
    """
    try:
        # With its own threads, PyArrow can hang at the end of a process; see `dataset.index`.
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            table = file.read(_SCHEMA.names, use_threads=False)
        for field in _SCHEMA:
            _check(table[field.name], field)
    except (pa.ArrowException, OSError, KeyError) as error:
        if isinstance(error, MemoryError):
            raise
        raise ValueError(" ".join(str(error).split())[:300]) from error
    shards = [Shard(*values) for values in zip(*(table[name].to_pylist() for name in _SCHEMA.names), strict=True)]
    # A dataset from a stranger must not expose other files of the reader's machine.
    for shard in shards:
        for file, folder in ((shard.file, ""), (shard.index or "", f"{INDEX_FOLDER}/")):
            if not file.startswith(folder) or not _is_plain(file.removeprefix(folder)):
                raise ValueError(f"it names {file!r}, which is not in the dataset")
    return shards


def _check(column: pa.ChunkedArray, field: pa.Field) -> None:
    # A cast would import `pyarrow.compute`, which takes 8 MB.
    if not column.type.equals(field.type):
        raise ValueError(f"column {field.name} is of {column.type}; expected {field.type}")
    if column.null_count and not field.nullable:
        raise ValueError(f"column {field.name} has null")
    if pa.types.is_integer(field.type) and column.to_numpy().min(initial=0) < 0:
        raise ValueError(f"column {field.name} has a negative number")


def _is_plain(name: str) -> bool:
    """Whether a name has no folder."""
    return name not in ("", ".", "..") and not any(letter in name for letter in "/\\\0")
