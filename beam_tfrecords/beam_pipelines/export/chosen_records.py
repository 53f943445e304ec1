"""Reads the records to export, shard by shard, with their index rows."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.output.manifest import Shard
from beam_tfrecords.reading.conditions import find_rows, make_condition
from beam_tfrecords.reading.dataset import Dataset
from beam_tfrecords.reading.index_files import read_index
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.tfrecord import open_stream, read_records

_THREADS = 16


@dataclasses.dataclass(frozen=True)
class ChosenRecords:
    """Records of one shard.

    Attributes:
      dataset: the dataset.
      shard: the shard; it has an index.
      numbers: numbers of the records in the shard, in order.
    """

    dataset: Dataset
    shard: Shard
    numbers: np.ndarray

    def index_rows(self, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yields the index rows of the records."""
        start = 0
        for batch in read_index(self.dataset.path, self.shard, columns):
            chosen = self.numbers[(self.numbers >= start) & (self.numbers < start + batch.num_rows)] - start
            yield from batch.take(pa.array(chosen)).to_pylist()
            start += batch.num_rows

    def examples(self) -> Iterator[bytes]:
        """Yields the serialized examples; checks their CRCs."""
        wanted = set(self.numbers.tolist())
        if not wanted:
            return
        with storage.open_read(storage.join(self.dataset.path, self.shard.file)) as file:
            records = read_records(open_stream(file, self.dataset.compression))
            for number, record in enumerate(itertools.islice(records, max(wanted) + 1)):
                if number in wanted:
                    yield record.data


def choose_records(dataset: Dataset, split: str | None, where: str | None) -> list[ChosenRecords]:
    """Finds the records of a split that satisfy a condition; None stands for all.

    Raises:
      RequestError: the split does not exist, or no record satisfies the condition.
    """
    shards = dataset.shards if split is None else dataset.split_shards(split)
    columns = dataset.unindexed_columns
    condition = None if where is None else make_condition(where, columns.schema)

    def choose(shard: Shard) -> ChosenRecords:
        numbers = np.arange(shard.records) if condition is None else find_rows(dataset.path, shard, condition, columns)
        return ChosenRecords(dataset, shard, numbers)

    chosen = [one for one in map_in_threads(choose, shards, threads=_THREADS) if len(one.numbers)]
    if not chosen:
        raise RequestError(
            f"{dataset.path}: no record{f' where {where}' if where else ''}; nothing to export", code="no_records"
        )
    return chosen
