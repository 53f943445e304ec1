"""Opens the argument of `inspect` and `verify`: a dataset of ours, or other TFRecord files."""

from __future__ import annotations

from beam_tfrecords.errors import RequestError
from beam_tfrecords.reading.dataset import Dataset
from beam_tfrecords.reading.opening import open_dataset
from beam_tfrecords.storage import FileEntry


def open_dataset_or_files(path: str) -> Dataset | list[FileEntry]:
    """Opens the finished dataset at a path, or lists the TFRecord files there.

    Raises:
      RequestError: there is neither.
      BuildError: the dataset's manifest cannot be read.
    """
    try:
        return open_dataset(path)
    except RequestError:
        from beam_tfrecords.beam_pipelines.commands.record_files import find_record_files

        if files := find_record_files(path):
            return files
        raise
