"""RemoveTemporary: removes the temporary files of a build that nobody waits for, after its dataset is published."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from beam_tfrecords import storage
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.transforms.workspace.cleaning import delete_batch, list_batches


class RemoveTemporary(beam.PTransform):
    """Removes temporary files on many workers: any element, after publishing has finished -> nothing.

    The shuffle of the result ensures that publishing is final before any file is removed. A runner that loses the
    result of a shuffle, as Flink may, would start from the beginning and convert the images again; so a waiting
    launcher removes the files itself instead.

    Args:
      fence: the right to publish, or a side input with it.
    """

    def __init__(self, fence: Fence | AsSingleton) -> None:
        super().__init__()
        self._fence = fence

    def expand(self, published: beam.PCollection[Any]) -> beam.PCollection[None]:
        return (
            published
            | "AfterPublishing" >> beam.Reshuffle()
            | "ListTemporary" >> beam.FlatMap(storage.with_storage_options(list_batches), fence=self._fence)
            | "Spread" >> beam.Reshuffle()
            | "Delete" >> beam.Map(storage.with_storage_options(delete_batch))
        )
