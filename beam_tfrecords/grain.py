"""The records of a split as a data source for Grain. Only this module imports Grain."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, SupportsIndex

try:
    from grain.sources import RandomAccessDataSource
except ImportError as error:
    raise ImportError("beam_tfrecords.grain needs Grain: pip install grain") from error

from beam_tfrecords.dataset import Form, open_dataset
from beam_tfrecords.reading.records import Records


class DataSource(RandomAccessDataSource[Any]):
    """The examples of a split by their number: `grain.MapDataset.source(DataSource(out, "train"))`.

    Args:
      path: the dataset's folder, or records, such as those that a filter has kept.
      split: name of the split; ignored for records.
      form: as in `Dataset.records`.

    Raises:
      RequestError: there is no such dataset or split, or it cannot be read at random.
    """

    def __init__(self, path: str | os.PathLike[str] | Records, split: str = "train", *, form: Form = "pixels") -> None:
        self.records = path if isinstance(path, Records) else open_dataset(path).records(split, form=form)

    def __repr__(self) -> str:
        return f"DataSource({self.records!r})"

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, number: SupportsIndex) -> Any:
        return self.records[number.__index__()]

    def _getitems(self, numbers: Sequence[int]) -> list[Any]:
        return self.records.__getitems__(numbers)
