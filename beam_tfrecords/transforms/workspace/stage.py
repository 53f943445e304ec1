"""RemoveTemporary: removes the temporary files of a build that nobody waits for, after its dataset is published."""

from __future__ import annotations

import functools
from typing import Any

import apache_beam as beam

from beam_tfrecords import storage
from beam_tfrecords.transforms.workspace.cleaning import delete_batch, list_batches


class RemoveTemporary(beam.PTransform):
    """Removes temporary files on many workers: any element, after publishing has finished -> nothing.

    The shuffle of the result ensures that publishing is final before any file is removed. A runner that loses the
    result of a shuffle, as Flink may, would start from the beginning and convert the images again; so a waiting
    launcher removes the files itself instead.

    Args:
      folder: the folder for temporary files of all builds into the output.
      success: the `_SUCCESS` file of the published dataset; nothing is removed if it is missing.
      outcome: the file that says that nothing was published; nothing is removed if it exists.
    """

    def __init__(self, folder: str, *, success: str, outcome: str) -> None:
        super().__init__()
        self._list = functools.partial(list_batches, folder=folder, success=success, outcome=outcome)

    def expand(self, published: beam.PCollection[Any]) -> beam.PCollection[None]:
        return (
            published
            | "AfterPublishing" >> beam.Reshuffle()
            | "ListTemporary" >> beam.FlatMap(storage.with_storage_options(self._list))
            | "Spread" >> beam.Reshuffle()
            | "Delete" >> beam.Map(storage.with_storage_options(delete_batch))
        )
