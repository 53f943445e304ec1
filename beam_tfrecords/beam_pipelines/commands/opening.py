"""Opens the argument of `inspect`, `verify` and `export`: a dataset, or TFRecord files of other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam_tfrecords.errors import RequestError
from beam_tfrecords.reading.dataset import Dataset
from beam_tfrecords.reading.opening import open_dataset

if TYPE_CHECKING:
    from beam_tfrecords.transforms.sources.records.record_files import RecordFiles


def open_dataset_or_files(path: str) -> Dataset | RecordFiles:
    """Opens the finished dataset at a path, or finds the TFRecord files there.

    Raises:
      RequestError: there is neither.
      BuildError: the dataset's manifest cannot be read.
    """
    try:
        return open_dataset(path)
    except RequestError as error:
        from beam_tfrecords.beam_pipelines.commands.record_files import find_foreign_files

        if found := find_foreign_files(path, error):
            return found
        raise
