"""Records for Grain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

try:
    import grain
except ImportError as error:
    raise ImportError(
        "beam_tfrecords.grain needs Grain: pip install '.[grain]' in a clone of beam-tfrecords"
    ) from error

from beam_tfrecords.reading.records import Records


class RecordSource(grain.sources.RandomAccessDataSource[Any]):
    """Records as a random access source.

    Grain compares the text of a source when it goes on from a checkpoint: here it says which records they are, and not
    where, so that a checkpoint fits a copy of the dataset, and no other dataset.

    Args:
      records: of `Dataset.records`, also filtered.
    """

    def __init__(self, records: Records) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, number: int) -> Any:
        return self._records[number]

    def _getitems(self, numbers: Sequence[int]) -> list[Any]:
        return self._records.__getitems__(numbers)

    def __repr__(self) -> str:
        return f"RecordSource({len(self)} records, {self._records.digest})"
