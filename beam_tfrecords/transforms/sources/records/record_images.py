"""Finds the image files that a record names."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.refs.sample_refs import File, Range
from beam_tfrecords.transforms.sources.image_files import find_image, look, of_path
from beam_tfrecords.transforms.sources.tables.cells import read_text
from beam_tfrecords.transforms.sources.tables.image_paths import fill_pattern, pattern_columns


class FoundImage(NamedTuple):
    """An image of a record: its locator, its size in bytes, and the fingerprint of its file.

    Attributes:
      fingerprint: None for an image inside the record.
    """

    place: File | Range
    size: int
    fingerprint: str | None


@dataclasses.dataclass(frozen=True)
class NamedFiles:
    """Image files that records name.

    Attributes:
      features: name of an image -> feature with its path, or with a list of paths.
      lists: names whose feature has a list.
      patterns: name of an image -> pattern that makes its path from features; empty if features have the paths.
      roots: file of records -> folders to search.
      allow_outside_root: whether paths may leave these folders.
    """

    features: Mapping[str, str]
    lists: frozenset[str]
    patterns: Mapping[str, str]
    roots: Mapping[str, Sequence[str]]
    allow_outside_root: bool

    def paths(self, row: Mapping[str, Any]) -> dict[str, str]:
        """Returns name of an image -> its path in the record.

        Raises:
          SampleError: the record has no path.
        """
        found: dict[str, str] = {}
        for name, pattern in self.patterns.items():
            found[name] = fill_pattern(pattern, {one: read_text(row, one) for one in pattern_columns(pattern)})
        for name, feature in self.features.items():
            if name in self.lists:
                values = row[feature] if isinstance(row[feature], list) else [row[feature]] * (row[feature] is not None)
                found |= {f"{name}[{n}]": read_text({feature: one}, feature) for n, one in enumerate(values)}
            else:
                found[name] = read_text(row, feature)
        return found

    def find(self, paths: Mapping[str, str], uri: str) -> Iterator[tuple[str, FoundImage]]:
        """Yields the name of each image, and the image.

        Args:
          paths: name of an image -> its path.
          uri: the file of records.

        Raises:
          SampleError: an image does not exist.
        """
        for name, path in paths.items():
            try:
                file = find_image(path, roots=self.roots[uri], allow_outside_root=self.allow_outside_root)
                size, fingerprint, version = look(file)
            except SampleError as error:
                raise (error if len(paths) == 1 else error.about(name)) from error
            yield name, FoundImage(File(file, version), size, of_path(fingerprint, path))
