"""What lies in a finished dataset's folder, and how to open it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from transforms import storage
from transforms.errors import BuildError, RequestError
from transforms.examples.layouts import Layout, parse_layout
from transforms.tfrecord import Compression
from transforms.values import Shard

MANIFEST = "manifest.json"
FAILURES = "failures.jsonl"
SUCCESS = "_SUCCESS"
BUILD_FOLDER = ".build"


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
    def compression(self) -> Compression:
        """Of the shards."""
        return "gzip" if self.manifest["spec"]["compression"] == "gzip" else "none"

    @property
    def shards(self) -> list[Shard]:
        """All shards, by split and number."""
        return [Shard(**shard) for shard in self.manifest["shards"]]

    @property
    def files(self) -> Iterator[str]:
        """All files but `_SUCCESS`, relative to the folder."""
        for shard in self.shards:
            yield shard.file
            if shard.index:
                yield shard.index
        yield from self.manifest["files"]
        yield MANIFEST

    def split_shards(self, split: str) -> list[Shard]:
        """The shards of a split, by number.

        Raises:
          RequestError: if there is no such split.
        """
        shards = [shard for shard in self.shards if shard.split == split]
        if not shards:
            known = sorted({shard.split for shard in self.shards})
            raise RequestError(f"{self.path}: no split {split!r}; there are: {', '.join(known)}")
        return shards


def open_dataset(path: str) -> Dataset:
    """Opens a finished dataset.

    Raises:
      RequestError: if there is none.
      BuildError: if there is one whose manifest can't be read.
    """
    path = storage.absolute(path).rstrip("/")
    if not storage.exists(storage.join(path, SUCCESS)):
        raise RequestError(f"{path}: no finished dataset (there is no {SUCCESS}); expected the --output of a build")
    try:
        data = storage.read_bytes(storage.join(path, MANIFEST))
        manifest = json.loads(data)
        published = json.loads(storage.read_bytes(storage.join(path, SUCCESS)))["manifest_sha256"]
        dataset = Dataset(path, manifest, hashlib.sha256(data).hexdigest(), published)
        # A manifest that lacks what these two need is broken, and is so now rather than half-way.
        if not list(dataset.files) or not dataset.layout.features:
            raise ValueError("it names no files or no features")
    except (OSError, ValueError, KeyError, TypeError, RequestError) as error:
        raise BuildError(f"{path}: there is a {SUCCESS}, but {MANIFEST} can't be read: {error}") from error
    return dataset
