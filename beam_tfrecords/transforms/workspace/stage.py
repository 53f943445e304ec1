"""RemoveTemporary: removes the temporary files of a build that nobody waits for, once its dataset is published."""

from __future__ import annotations

import functools
from typing import Any

import apache_beam as beam

from beam_tfrecords import storage
from beam_tfrecords.transforms.workspace.cleaning import delete_batch, list_batches


class RemoveTemporary(beam.PTransform):
    """Removes what is below a folder, on many workers: anything, once publishing is done -> nothing.

    Nothing is removed before publishing is done for good, because its result is shuffled. A runner that loses
    the result of a shuffle, as Flink may, starts at the beginning and converts the images again: a launcher that waits
    removes the files itself.

    Args:
      success: the file that stands for the published dataset; without it nothing is removed.
      outcome: the file that says that nothing was published; with it nothing is removed.
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
