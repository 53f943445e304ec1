"""The files of a finished dataset, and how to open it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.examples.layouts import Layout, parse_layout
from beam_tfrecords.files import MANIFEST, SUCCESS
from beam_tfrecords.tfrecord import Compression
from beam_tfrecords.versions import read_latest

# Of a manifest. One without a number has format 1, that of version 0.1.0: shards have a SHA-256 and no CRC-32C.
FORMAT = 2

_MANIFEST_TYPES: Mapping[str, type] = {
    "name": str,
    "listed": int,
    "records": int,
    "failures": int,
    "dropped_duplicates": int,
    "class_names": list,
    "duplicates": dict,
    "splits": dict,
    "shards": list,
    "files": dict,
    "spec": dict,
}
_SHARD_TYPES: Mapping[str, type] = {"split": str, "number": int, "file": str, "records": int, "bytes": int}


@dataclasses.dataclass(frozen=True)
class Shard:
    """A finished shard.

    Attributes:
      split: its split.
      number: its number, from 0.
      of: number of shards of the split.
      file: name of its file.
      records: number of records.
      bytes: size of the file.
      crc32c: CRC-32C of the file, 8 hex digits; None in format 1.
      index: name of its index file relative to the dataset, or None.
      index_sha256: hex digest of the index file, or None.
      first_key: key of its first record; None if it has no record or no index.
      sha256: hex digest of the file; in format 1 only.
    """

    split: str
    number: int
    of: int
    file: str
    records: int
    bytes: int
    crc32c: str | None
    index: str | None
    index_sha256: str | None
    first_key: str | None = None
    sha256: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain values, for the manifest."""
        values = dataclasses.asdict(self)
        del values["sha256"]
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Shard:
        """The reverse of `to_json`, for every format."""
        return cls(**{"crc32c": None, **values})


# Resize modes that give every image the height and width that were asked for.
_FIXED_MODES = ("exact", "pad", "crop")


@dataclasses.dataclass(frozen=True)
class StoredImages:
    """How the images of a dataset are stored.

    Attributes:
      encoding: "jpeg", "png", "webp", "raw" or "keep".
      channels: 1, 3 or 4; None if each image has those of its file.
      size: (height, width) in pixels of every image; None if they differ.
    """

    encoding: str
    channels: int | None
    size: tuple[int, int] | None

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> StoredImages:
        """Reads the settings that a manifest records."""
        size = spec["image_size"]
        is_fixed = size is not None and spec["resize_mode"] in _FIXED_MODES and spec["upscale"]
        height, width = map(int, size.split("x")) if is_fixed else (0, 0)
        channels = spec["channels"]
        return cls(
            spec["image_encoding"], None if channels == "keep" else channels, (height, width) if is_fixed else None
        )


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A finished dataset.

    Attributes:
      path: its folder.
      manifest: its manifest.
      manifest_sha256: hex digest of the manifest as it is.
      published_sha256: hex digest of the manifest as it was published.
    """

    path: str
    manifest: Mapping[str, Any]
    manifest_sha256: str
    published_sha256: str

    @property
    def layout(self) -> Layout:
        """Features of an example."""
        return parse_layout(self.manifest["spec"]["layout"])

    @property
    def images(self) -> StoredImages:
        """How its images are stored."""
        return StoredImages.of(self.manifest["spec"])

    @property
    def compression(self) -> Compression:
        """Of the shards."""
        return "gzip" if self.manifest["spec"]["compression"] == "gzip" else "none"

    @property
    def shards(self) -> list[Shard]:
        """All shards, by split and number."""
        return [Shard.from_json(shard) for shard in self.manifest["shards"]]

    @property
    def files(self) -> Iterator[str]:
        """All files but `_SUCCESS`, relative to the folder."""
        for shard in self.shards:
            yield shard.file
            if shard.index:
                yield shard.index
        yield from self.manifest["files"]
        yield MANIFEST

    def find_missing(self) -> list[str]:
        """Files that are not there, and shards that do not have their size; found by one listing."""
        start = len(self.path) + 1
        sizes = {entry.path[start:]: entry.size for entry in storage.list_files(self.path, literal=True)}
        expected = {shard.file: shard.bytes for shard in self.shards}
        return [file for file in self.files if file not in sizes or sizes[file] != expected.get(file, sizes[file])]

    def states(self, facts: Mapping[str, Any]) -> bool:
        """Whether the manifest says all of this: name -> value."""
        # As JSON has them: tuples become lists.
        return all(self.manifest.get(name) == value for name, value in json.loads(json.dumps(facts)).items())

    def split_shards(self, split: str) -> list[Shard]:
        """The shards of a split, by number.

        Raises:
          RequestError: there is no such split.
        """
        shards = [shard for shard in self.shards if shard.split == split]
        if not shards:
            known = sorted({shard.split for shard in self.shards})
            raise RequestError(f"{self.path}: no split {split!r}; it has: {', '.join(known)}")
        return shards


def open_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Opens a finished dataset; of a folder with versions, the one that `LATEST` names now.

    Raises:
      RequestError: there is none, or a later version of beam-tfrecords has made it.
      BuildError: its manifest cannot be read.
    """
    path = storage.absolute(os.fspath(path)).rstrip("/")
    version = read_latest(path)
    if version:
        path = storage.join(path, version)
    if not storage.exists(storage.join(path, SUCCESS)):
        raise RequestError(f"{path}: no finished dataset (there is no {SUCCESS}); expected the `output` of a build")
    try:
        data = storage.read_bytes(storage.join(path, MANIFEST))
        manifest = json.loads(data)
        published = json.loads(storage.read_bytes(storage.join(path, SUCCESS)))["manifest_sha256"]
        dataset = Dataset(path, manifest, hashlib.sha256(data).hexdigest(), published)
        number = manifest.get("format", 1)
        # Checked here, so that a reader does not fail half-way. A later format may have other names.
        if number <= FORMAT:
            _check_types(manifest, _MANIFEST_TYPES)
            for shard in manifest["shards"]:
                _check_types(shard, {**_SHARD_TYPES, ("crc32c" if number > 1 else "sha256"): str})
            if not (dataset.shards and dataset.layout.features and dataset.images and dataset.compression):
                raise ValueError("it names no shards or no features")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RequestError) as error:
        raise BuildError(f"{path}: there is a {SUCCESS}, but {MANIFEST} cannot be read: {error}") from error
    if number > FORMAT:
        raise RequestError(
            f"{path}: {MANIFEST} has format {number}, and this version of beam-tfrecords reads up to {FORMAT}; install "
            "the version that made it, or a later one: pip install --upgrade beam-tfrecords"
        )
    return dataset


def _check_types(values: Mapping[str, Any], types: Mapping[str, type]) -> None:
    for name, kind in types.items():
        if not isinstance(values[name], kind):
            raise TypeError(f"{name} is {values[name]!r}; expected {kind.__name__}")
