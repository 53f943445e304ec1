"""RemoveTemporary: removes the temporary files of a build that nobody waits for, once its dataset is published."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam

from transforms import storage

# Files that one worker deletes at a time.
_BATCH = 1000


class RemoveTemporary(beam.PTransform):
    """Removes what is below a folder, on many workers: anything, once publishing is done -> nothing.

    Nothing is removed before publishing is done for good, because its result is shuffled. A runner that loses
    the result of a shuffle, as Flink may, starts at the beginning and converts the images again: a launcher that waits
    removes the files itself.

    Args:
      folder: with the temporary files.
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
            | "ListTemporary" >> beam.FlatMap(self._list)
            | "Spread" >> beam.Reshuffle()
            | "Delete" >> beam.Map(delete_batch)
        )


def list_batches(_: Any, *, folder: str, success: str, outcome: str) -> Iterator[Sequence[str]]:
    """The files to delete; a local folder as a whole."""
    if not storage.exists(success) or storage.exists(outcome):
        return
    if not storage.has_scheme(folder):
        yield [folder]
        return
    paths = (entry.path for entry in storage.list_files(folder))
    while batch := list(itertools.islice(paths, _BATCH)):
        yield batch


def delete_batch(paths: Sequence[str]) -> None:
    """Deletes files, or local folders with what is in them."""
    if storage.has_scheme(paths[0]):
        storage.delete_files(paths)
    else:
        for path in paths:
            storage.delete_tree(path)
