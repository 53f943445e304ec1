"""Chooses the paths of the files of each record: by feature, split, class and key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from beam_tfrecords.beam_pipelines.export.file_names import distinct, find_shared, name_folders, number_of, stem_of


class FilePaths:
    """Paths of files, relative to the folder of an export.

    Args:
      reserved: names in the folder that are taken.
      columns: columns of paths whose files have a folder of their own; others are in the folder of their split.
      splits: names of the splits.
      class_names: the classes, if images have a folder for each.
      records: split, key and class of each record.
    """

    def __init__(
        self,
        reserved: Sequence[str],
        columns: Sequence[str],
        splits: Iterable[str],
        class_names: Sequence[str],
        records: Iterable[tuple[str, str, str | None]],
    ) -> None:
        self.folders: Mapping[str, str] = name_folders([*reserved, *columns, *splits])
        self._columns = frozenset(columns)
        self._classes = name_folders(class_names)
        self._shared = find_shared(np.fromiter((number_of(self._stem(*record)) for record in records), np.int64))

    def of_record(self, split: str, key: str, label: str | None, column: str) -> str:
        """Returns the path of a file without extension."""
        stem = self._stem(split, key, label)
        folder, _, name = stem.rpartition("/")
        name = distinct(name, key, is_shared=number_of(stem) in self._shared)
        return "/".join([*([self.folders[column]] if column in self._columns else []), folder, name])

    def _stem(self, split: str, key: str, label: str | None) -> str:
        folders = [self.folders[split], *([self._classes[label]] if label in self._classes else [])]
        return "/".join([*folders, stem_of(key, [split, label or ""])])
