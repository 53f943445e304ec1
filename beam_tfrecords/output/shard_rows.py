"""The list of the shards of a dataset with very many, in a Parquet file beside the manifest: one row per shard.

Its columns are the fields of a shard in the manifest. They are declared here and nowhere else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beam_tfrecords.output.files import INDEX_FOLDER
from beam_tfrecords.output.manifest import Shard

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
# Rows that a reader decodes together, in a millisecond. With 8,192, its process takes 12 MB more.
_GROUP_ROWS = 1 << 10
# Rows of one column that a reader decodes together.
_BATCH_ROWS = 1 << 13
# Columns with names of files -> folder of the files. The names differ in few digits from one row to the next.
_FOLDERS = {"file": "", "index": f"{INDEX_FOLDER}/"}


def write_rows(shards: Sequence[Shard]) -> bytes:
    """Returns the content of the file. The same shards always give the same bytes."""
    columns = {name: [getattr(shard, name) for shard in shards] for name in _SCHEMA.names}
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table(columns, schema=_SCHEMA),
        sink,
        row_group_size=_GROUP_ROWS,
        compression="zstd",
        use_dictionary=["split"],
        write_statistics=False,
        column_encoding=dict.fromkeys(_FOLDERS, "DELTA_BYTE_ARRAY"),
    )
    return sink.getvalue().to_pybytes()


class ShardRows:
    """Reads the file; decodes only the columns and rows that are asked for. Threads may share an instance.

    Args:
      open_file: opens the file.

    Raises:
      ValueError: the file is damaged, or not a list of shards.
    """

    def __init__(self, open_file: Callable[[], IO[bytes]]) -> None:
        self._open_file = open_file
        with _naming_damage(), open_file() as file:
            self._metadata = pq.read_metadata(file)
        sizes = [self._metadata.row_group(number).num_rows for number in range(self._metadata.num_row_groups)]
        self._ends = np.cumsum(sizes)

    def __len__(self) -> int:
        return int(self._metadata.num_rows)

    def find_group(self, number: int) -> int:
        """Returns the row group of a row."""
        return int(np.searchsorted(self._ends, number, side="right"))

    def find_start(self, group: int) -> int:
        """Returns the number of the first row of a row group."""
        return int(self._ends[group - 1]) if group else 0

    def read_group(self, group: int) -> pa.RecordBatch:
        """Returns the rows of a row group.

        Raises:
          ValueError: a column is missing or has invalid values.
        """
        (batch,) = self._read(_SCHEMA.names, range(group, group + 1))
        return batch

    def read_column(self, name: str, numbers: range) -> Iterator[pa.Array]:
        """Yields the values of a column in a range of rows, some thousand at a time.

        Raises:
          ValueError: as `read_group`.
        """
        first, last = self.find_group(numbers.start), self.find_group(numbers.stop - 1)
        start = self.find_start(first)
        for batch in self._read([name], range(first, last + 1)):
            begin, end = max(numbers.start - start, 0), min(numbers.stop - start, len(batch))
            yield batch[name][begin:end]
            start += len(batch)

    def _read(self, names: Sequence[str], groups: range) -> Iterator[pa.RecordBatch]:
        # With its own threads, PyArrow can hang at the end of a process; see `output.index`.
        with _naming_damage(), self._open_file() as opened, pq.ParquetFile(opened, metadata=self._metadata) as file:
            for batch in file.iter_batches(_BATCH_ROWS, groups, list(names), use_threads=False):
                for name in names:
                    _check(batch[name], name)
                yield batch


def make_shards(rows: pa.RecordBatch) -> Iterator[Shard]:
    """Yields the shards of rows of `ShardRows.read_group`."""
    columns = [rows[name].to_pylist() for name in _SCHEMA.names]
    for values in zip(*columns, strict=True):
        yield Shard(**dict(zip(_SCHEMA.names, values, strict=True)))


@contextlib.contextmanager
def _naming_damage() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, KeyError) as error:
        if isinstance(error, MemoryError):
            raise
        raise ValueError(" ".join(str(error).split())[:300]) from error


def _check(column: pa.Array, name: str) -> None:
    field = _SCHEMA.field(name)
    # A cast would import `pyarrow.compute`, which takes 8 MB.
    if not column.type.equals(field.type):
        raise ValueError(f"column {name} is of {column.type}; expected {field.type}")
    if column.null_count and not field.nullable:
        raise ValueError(f"column {name} has null")
    if pa.types.is_integer(field.type) and column.to_numpy().min(initial=0) < 0:
        raise ValueError(f"column {name} has a negative number")
    # A dataset from a stranger must not expose other files of the reader's machine.
    folder = _FOLDERS.get(name)
    for file in column.to_pylist() if folder is not None else ():
        if not file.startswith(folder) or not _is_plain(file.removeprefix(folder)):
            raise ValueError(f"it names {file!r}, which is not in the dataset")


def _is_plain(name: str) -> bool:
    """Whether a name is that of a file, without a folder."""
    return name not in ("", ".", "..") and not any(letter in name for letter in "/\\\0")
