"""A finished dataset, as its files describe it: everything but reading its records."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import MANIFEST, REMOVED, SUCCESS
from beam_tfrecords.dataset.manifest import MANIFEST_FORMAT, Shard, StoredImages, check_manifest
from beam_tfrecords.dataset.published import (
    DamagedError,
    Success,
    read_latest,
    read_manifest,
    read_success,
    was_finished,
)
from beam_tfrecords.dataset.published_paths import PublishedPaths
from beam_tfrecords.dataset.schema import count, fields, read_json
from beam_tfrecords.dataset.split_ranges import ALL, SplitRange, find_ranges
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.features.layouts import Layout, parse_layout, with_class_names
from beam_tfrecords.nearest import list_known
from beam_tfrecords.tfrecord import Compression

if TYPE_CHECKING:
    from beam_tfrecords.storage.cache_folder import CacheFolder


@dataclasses.dataclass(frozen=True)
class StoredDataset:
    """A finished dataset.

    Attributes:
      path: folder of the dataset.
      manifest: content of `manifest.json`.
      shards: all shards, by split and number.
      manifest_sha256: hex digest of the manifest as it is now.
      published_sha256: hex digest of the manifest as it was published.
      cache: local cache for data that is read from a bucket; None for no cache.
      location: digest of where the input was, as in `_SUCCESS`.
    """

    path: str
    manifest: Mapping[str, Any] = dataclasses.field(hash=False)
    shards: tuple[Shard, ...] = dataclasses.field(hash=False)
    manifest_sha256: str
    published_sha256: str
    cache: CacheFolder | None = dataclasses.field(default=None, compare=False)
    location: str | None = dataclasses.field(default=None, compare=False)

    @property
    def name(self) -> str:
        """Name of the dataset; its file names start with it."""
        return str(self.manifest["name"])

    @property
    def num_records(self) -> int:
        """Number of records in all splits."""
        return int(self.manifest["records"])

    @property
    def num_shards(self) -> int:
        """Number of shards of all splits."""
        return len(self.shards)

    @property
    def splits(self) -> dict[str, int]:
        """Number of records by split name."""
        return {split: entry["records"] for split, entry in self.manifest["splits"].items()}

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names, in the order of their indices; empty without labels."""
        return tuple(self.manifest["class_names"])

    def find_ranges(self, split: str | None) -> list[SplitRange]:
        """Returns the ranges of records that a split expression names; None names all records.

        Raises:
          RequestError: a split or a record of the expression does not exist.
        """
        splits = self.splits
        ordered = {name: splits[name] for name in dict.fromkeys([*self._shard_counts, *splits])}
        return find_ranges(ordered, ALL if split is None else split)

    @property
    def ref(self) -> DatasetRef:
        """Reference to this dataset in its current state."""
        return DatasetRef(self.path, self.manifest_sha256)

    def is_made_of(self, paths: PublishedPaths) -> bool:
        """Whether the local files of a request, with these published paths, are where the dataset's input was."""
        return self.location == paths.location(self.manifest_sha256)

    @property
    def is_whole(self) -> bool:
        """Whether the manifest is the published one."""
        return self.manifest_sha256 == self.published_sha256

    @functools.cached_property
    def layout(self) -> Layout:
        """Features of an example."""
        return with_class_names(parse_layout(self.manifest["spec"]["layout"]), self.manifest.get("heads", {}))

    @functools.cached_property
    def images(self) -> StoredImages:
        """How the images are stored."""
        return StoredImages.of(self.manifest["spec"], self.manifest.get("array_size"))

    @property
    def compression(self) -> Compression:
        """Compression of the shards."""
        return "gzip" if self.manifest["spec"]["compression"] == "gzip" else "none"

    @functools.cached_property
    def _shard_counts(self) -> dict[str, int]:
        """Split -> number of its shards, in the order of the shards; without splits that have none."""
        return Counter(shard.split for shard in self.shards)

    @property
    def files(self) -> Iterator[str]:
        """All files except `_SUCCESS`, relative to the folder."""
        for shard in self.shards:
            yield shard.file
            yield shard.index or ""
        yield from self.manifest["files"]
        yield MANIFEST

    def is_there(self) -> bool:
        """Whether the folder still contains this dataset, and no other one has replaced it."""
        with contextlib.suppress(BuildError):
            success = read_success(self.path)
            return success is not None and success.manifest_sha256 == self.published_sha256
        return False

    @property
    def sizes(self) -> dict[str, int]:
        """File -> bytes, as recorded in the manifest."""
        sizes = dict(self.manifest["sizes"])
        for shard in self.shards:
            sizes |= {shard.file: shard.bytes, shard.index or "": shard.index_bytes or 0}
        return sizes

    def find_missing(self) -> list[str]:
        """Reports files that are missing or differ in size from the manifest, one line each. Lists the folder once."""
        start = len(self.path) + 1
        try:
            found = {entry.path[start:]: entry.size for entry in storage.list_files(self.path, literal=True)}
        except FileNotFoundError:  # removed in the meantime
            found = {}
        expected = self.sizes
        lines = [f"{file} is missing" for file in self.files if file not in found]
        lines += [
            f"{file} has {found[file]:,} bytes instead of {size:,}"
            for file, size in expected.items()
            if found.get(file, size) != size
        ]
        return [*lines, *([f"there is a {REMOVED}: it is being removed"] if REMOVED in found else [])]

    def states(self, metadata: Mapping[str, Any]) -> bool:
        """Whether the manifest contains all of these values: name -> value."""
        # Compare as JSON: tuples become lists.
        values = json.loads(json.dumps(metadata))
        return all(self.manifest.get(name) == value for name, value in values.items())

    @property
    def split_starts(self) -> dict[str, int]:
        """Split -> number of its first shard among all shards."""
        return dict(zip(self._shard_counts, itertools.accumulate(self._shard_counts.values(), initial=0), strict=False))

    def split_shards(self, split: str) -> list[Shard]:
        """Returns the shards of a split, by number.

        Raises:
          RequestError: the split does not exist.
        """
        if split not in self.splits:
            known = list_known(split, sorted(self.splits))
            raise RequestError(f"{self.path}: no split {split!r}; {known}", code="unknown_split")
        return [shard for shard in self.shards if shard.split == split]


@dataclasses.dataclass(frozen=True)
class DatasetRef:
    """A reference to one state of a dataset; small enough for every worker.

    Attributes:
      path: folder of the dataset.
      manifest_sha256: hex digest of its manifest.
    """

    path: str
    manifest_sha256: str

    def open(self) -> StoredDataset:
        """Opens the dataset.

        Raises:
          BuildError: it is damaged, or another dataset has replaced it.
        """
        try:
            dataset = read_dataset(self.path)
        except DamagedError as error:
            raise BuildError(f"{self.path}: {error}") from error
        if dataset.ref != self:
            raise BuildError(f"{self.path}: another dataset has replaced it; start again")
        return dataset


def is_dataset(path: str) -> bool:
    """Whether a folder contains a finished dataset, or versions of one."""
    is_published, latest = storage.run_concurrently(
        path, functools.partial(storage.exists, storage.join(path, SUCCESS)), functools.partial(read_latest, path)
    )
    return bool(latest) or (is_published and storage.exists(storage.join(path, MANIFEST)))


def read_dataset(path: str) -> StoredDataset:
    """Opens a dataset even if its manifest differs from the published one, as `verify` does.

    Args:
      path: the dataset's own folder; `LATEST` is not followed.

    Raises:
      DamagedError: `_SUCCESS` or the manifest is missing or damaged.
      RequestError, BuildError: as `open_published`.
    """
    return _parse(path, *read_manifest(path))


def open_whole(path: str) -> tuple[StoredDataset | None, str | None]:
    """Opens a dataset only if every file in its manifest exists with the recorded size.

    Takes, returns and raises the same as `open_published`.
    """
    dataset, damage = open_published(path)
    missing = dataset.find_missing() if dataset else []
    if missing:
        more = f", and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        return None, f"{missing[0]}{more}"
    return dataset, damage


def open_published(path: str) -> tuple[StoredDataset | None, str | None]:
    """Opens a dataset whose manifest is the published one; its other files may be damaged.

    Args:
      path: the dataset's own folder; `LATEST` is not followed.

    Returns:
      The dataset, and a description of its damage; both are None for a folder that never held a finished dataset.

    Raises:
      RequestError: a later version of beam-tfrecords wrote it.
      BuildError: the store does not answer.
    """
    try:
        manifest, published = read_manifest(path)
        if hashlib.sha256(manifest).hexdigest() != published.manifest_sha256:
            return None, f"{MANIFEST} is not the one that {SUCCESS} names"
        return _parse(path, manifest, published), None
    except DamagedError as error:
        if storage.exists(storage.join(path, SUCCESS)):
            return None, str(error)
        return None, f"there is a {MANIFEST}, but no {SUCCESS}" if was_finished(path) else None


def _parse(path: str, data: bytes, published: Success) -> StoredDataset:
    try:
        manifest = read_json(data, fields({"format": count}))
        # A later format may use other names.
        if (number := manifest["format"]) <= MANIFEST_FORMAT["format"]:
            # Checked now, so that a reader does not fail half-way.
            check_manifest(manifest)
            dataset = StoredDataset(
                path,
                manifest,
                _read_shards(path, manifest),
                hashlib.sha256(data).hexdigest(),
                published.manifest_sha256,
                location=published.location,
            )
            if not (dataset.shards and dataset.layout.features and dataset.images and dataset.compression):
                raise ValueError("it names no shards or no features")
            if not dataset._shard_counts.keys() <= manifest["splits"].keys():
                raise ValueError("it names a shard of an unknown split")
            # A dataset from a stranger must not expose other files of the reader's machine.
            for file in dataset.files if "shards" in manifest else manifest["files"]:
                if "\0" in file or not storage.is_inside(storage.join(path, file), path):
                    raise ValueError(f"it names {file!r}, which is not in the dataset")
            return dataset
    except (ValueError, KeyError, TypeError, AttributeError, RequestError) as error:
        raise DamagedError(f"{MANIFEST} cannot be read: {error}") from error
    raise RequestError(
        f"{path}: {MANIFEST} has format {number}, and this version of beam-tfrecords reads up to "
        f"{MANIFEST_FORMAT['format']}; install the version that made it, or a later one",
        code="newer_format",
    )


def _read_shards(path: str, manifest: Mapping[str, Any]) -> tuple[Shard, ...]:
    if "shards" in manifest:
        return tuple(map(Shard.from_json, manifest["shards"]))
    # Imported here, since few datasets need what it imports.
    from beam_tfrecords.dataset.shard_list import read_shards

    return tuple(read_shards(path, manifest))
