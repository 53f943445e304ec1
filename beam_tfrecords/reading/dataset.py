"""A finished dataset, as its files describe it."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import hashlib
import importlib
import itertools
import json
import operator
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from beam_tfrecords import storage
from beam_tfrecords.byte_sizes import number_of_bytes
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.escaping import escape
from beam_tfrecords.examples.layouts import Feature, Layout, parse_layout, with_class_names
from beam_tfrecords.output.files import CHANGES, LATEST, MANIFEST, REMOVED, SUCCESS, VERSION_NAME
from beam_tfrecords.output.manifest import CHANGES_CHECK, SUCCESS_CHECK, Shard, StoredImages, manifest_check
from beam_tfrecords.output.schema import count, mapped, plain, read_json
from beam_tfrecords.reading.split_ranges import ALL, SplitRange, find_ranges
from beam_tfrecords.tfrecord import Compression

if TYPE_CHECKING:
    from beam_tfrecords.reading.record_columns import RecordColumns
    from beam_tfrecords.reading.records import Records
    from beam_tfrecords.reading.resizing import ImageSize, ResizeMode
    from beam_tfrecords.storage.cache_folder import CacheFolder

# Form in which a record is returned; see `Dataset.records`.
Form: TypeAlias = Literal["pixels", "features", "bytes"]

# Default size of a local cache.
CACHE_SIZE = "50GB"
# Format of the manifest. Version 0.1.0 wrote format 1 without its number: shards have a SHA-256 and no CRC-32C.
FORMAT = 2

# Size limit in bytes of the manifest, which has 400 bytes per shard, and of the other JSON files.
_MOST_BYTES = 256 << 20
_MOST_NAME = 1 << 10


# Attributes of other libraries' datasets -> ours.
_OTHER_NAMES = {
    **dict.fromkeys(("num_rows", "num_examples", "num_samples", "size", "count"), "num_records"),
    **dict.fromkeys(("column_names", "columns", "schema", "element_spec", "keys"), "features"),
    **dict.fromkeys(("classes", "names", "labels", "class_to_idx", "num_classes"), "class_names"),
    **dict.fromkeys(("split", "split_names", "info"), "splits"),
    **dict.fromkeys(("root", "folder", "data_dir", "data_path"), "path"),
    **dict.fromkeys(("as_dataset", "select", "filter", "take", "examples", "with_format"), "records"),
}
# Attributes that an error message lists.
_SHOWN = [
    "name",
    "path",
    "num_records",
    "splits",
    "features",
    "class_names",
    "int2str",
    "str2int",
    "records",
    "verify",
    "shards",
    "files",
    "manifest",
]
# Class names that `repr` shows.
_FEW_NAMES = 8


@dataclasses.dataclass(frozen=True, repr=False)
class Dataset:
    """A finished dataset.

        >>> from beam_tfrecords import open_dataset
        >>> dataset = open_dataset("out/")
        >>> dataset.num_records, dataset.class_names
        (12, ('cat', 'dog'))
        >>> dataset["train"][0]["image"].shape
        (16, 16, 3)

    Attributes:
      path: folder of the dataset.
      manifest: content of `manifest.json`.
      manifest_sha256: hex digest of the manifest as it is now.
      published_sha256: hex digest of the manifest as it was published.
      cache: local cache for data that is read from a bucket; None for no cache.
    """

    path: str
    manifest: Mapping[str, Any]
    manifest_sha256: str
    published_sha256: str
    cache: CacheFolder | None = dataclasses.field(default=None, compare=False)

    def __repr__(self) -> str:
        splits = ", ".join(f"{split} {records:,}" for split, records in self.splits.items())
        features = ", ".join(feature.name for feature in self.layout.features)
        names = [*self.class_names[:_FEW_NAMES], *(["…"] if len(self.class_names) > _FEW_NAMES else [])]
        classes = f"; {len(self.class_names):,} classes: {', '.join(names)}" if names else ""
        lines = [
            f"Dataset({self.path!r})",
            f"  {self.manifest['records']:,} records in {len(self.shards):,} shards: {splits}",
            f"  features: {features}{classes}",
        ]
        return "\n".join(map(escape, lines))

    def __len__(self) -> int:
        return self.num_records

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, split: str) -> Records:
        if not isinstance(split, str):
            raise TypeError(f"dataset[{split!r}]: expected a split, such as dataset['train']; its records have numbers")
        return self.records(split)

    def __iter__(self) -> Iterator[str]:
        return iter(self.splits)

    if not TYPE_CHECKING:  # so that type checkers report missing attributes

        def __getattr__(self, name: str) -> Any:
            near = [_OTHER_NAMES.get(name), *difflib.get_close_matches(name, _SHOWN, n=1)]
            hint = next((f"did you mean {word!r}? " for word in near if word), "")
            raise AttributeError(f"a dataset has no {name!r}; {hint}It has: {', '.join(_SHOWN)}")

    @property
    def name(self) -> str:
        """Name of the dataset; its file names start with it."""
        return str(self.manifest["name"])

    @property
    def num_records(self) -> int:
        """Number of records in all splits."""
        return int(self.manifest["records"])

    @property
    def features(self) -> dict[str, Feature]:
        """Features of an example by name, with their content and type."""
        return {feature.name: feature for feature in self.layout.features}

    def int2str(self, index: int) -> str:
        """Returns the class name of an index.

        Raises:
          ValueError: the index is invalid.
        """
        try:
            number = operator.index(index)
        except TypeError as error:
            raise ValueError(f"{index!r} is no index of a class; expected one number, such as 0") from error
        if not 0 <= number < len(self.class_names):
            raise ValueError(f"{index} is no index of a class; there are {len(self.class_names):,} classes")
        return self.class_names[number]

    def str2int(self, name: str) -> int:
        """Returns the index of a class name.

        Raises:
          ValueError: the class does not exist.
        """
        if not isinstance(name, str):
            raise ValueError(f"{name!r} is no class; expected one name, such as 'cat'")
        if name not in self.class_names:
            near = difflib.get_close_matches(name, self.class_names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {len(self.class_names):,}"
            raise ValueError(f"{name!r} is no class; {hint}")
        return self.class_names.index(name)

    @property
    def splits(self) -> dict[str, int]:
        """Number of records by split name."""
        return {split: entry["records"] for split, entry in self.manifest["splits"].items()}

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names, in the order of their indices; empty without labels."""
        return tuple(self.manifest["class_names"])

    def records(
        self,
        split: str | None = None,
        *,
        form: Form = "pixels",
        image_size: ImageSize = None,
        resize_mode: ResizeMode | None = None,
        verify: bool = False,
    ) -> Records:
        """Returns the records of a split, with random access; needs no TensorFlow.

        Args:
          split: name of a split, or an expression as in `load`, such as "train[:10%]+validation"; None or "all" for
            all splits, one after the other.
          form: "pixels" returns each example as a dict of its features, with images as [H, W, C] uint8 arrays and text
            as `str`; "features" does the same, but leaves images and text as the stored bytes; "bytes" returns the
            serialized example.
          image_size: (height, width) of decoded images in pixels, or one number for both, as in `load`.
          resize_mode: how images are resized, as in `load`.
          verify: checks the CRCs of each record that is read.

        Raises:
          RequestError: the split does not exist, the dataset has no index, or it is compressed.
          ValueError: the form or the size is invalid.
        """
        from beam_tfrecords.reading.decoding import ReadExample
        from beam_tfrecords.reading.records import Records
        from beam_tfrecords.reading.shard_cache import ShardCache

        if form not in get_args(Form):
            raise ValueError(f"form={form!r}: expected {', '.join(map(repr, get_args(Form)))}")
        ranges = self.find_ranges(split)
        used = list(dict.fromkeys(one.split for one in ranges))
        shards = [shard for name in used for shard in self.split_shards(name)]
        if self.compression != "none":
            raise RequestError(
                f"{self.path}: the records of a compressed shard cannot be read at random; read it with load(), or "
                "build it with --compression=none",
                code="compressed_shards",
            )
        if any(shard.index is None for shard in shards):
            raise RequestError(f"{self.path}: the dataset has no index; read it with load()", code="no_index")
        is_decoded = form == "pixels"
        read_example = ReadExample(self.layout.features, self.images, is_decoded, has_text=is_decoded)
        records = Records(
            self.path,
            shards,
            read=bytes if form == "bytes" else read_example,
            columns=self.unindexed_columns,
            verify=verify,
            cache=ShardCache.of(self.cache, shards) if self.cache else None,
        )
        starts = dict(zip(used, itertools.accumulate((self.splits[name] for name in used), initial=0), strict=False))
        numbers = [range(starts[name] + begin, starts[name] + end) for name, begin, end in ranges]
        return records.taking(numbers).resized(image_size, resize_mode)

    def find_ranges(self, split: str | None) -> list[SplitRange]:
        """Returns the ranges of records that a split expression names; None names all records.

        Raises:
          RequestError: a split or a record of the expression does not exist.
        """
        splits, in_order = self.splits, dict.fromkeys(shard.split for shard in self.shards)
        return find_ranges({name: splits[name] for name in in_order}, split or ALL)

    def with_cache(self, folder: str | os.PathLike[str] | None, size: int | str = CACHE_SIZE) -> Dataset:
        """Returns the same dataset with a cache, as in `open_dataset`; None changes nothing."""
        return self if folder is None else dataclasses.replace(self, cache=_open_cache(os.fspath(folder), size))

    @property
    def unindexed_columns(self) -> RecordColumns:
        """Reader of the columns that conditions use and indices lack."""
        from beam_tfrecords.reading.record_columns import RecordColumns

        return RecordColumns(self.layout, self.class_names, self.compression)

    def verify(self) -> list[str]:
        """Checks every CRC, count, feature and image, as `beam-tfrecords verify` does.

        Returns:
          The problems found, one line each; empty if the dataset is undamaged.
        """
        # `verify` is in a higher layer, so the import waits for the call.
        findings: list[str] = importlib.import_module("beam_tfrecords").verify(self.path)
        return findings

    @property
    def ref(self) -> DatasetRef:
        """Reference to this dataset in its current state."""
        return DatasetRef(self.path, self.manifest_sha256)

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
        return StoredImages.of(self.manifest["spec"])

    @property
    def compression(self) -> Compression:
        """Compression of the shards."""
        return "gzip" if self.manifest["spec"]["compression"] == "gzip" else "none"

    @property
    def shards(self) -> list[Shard]:
        """All shards, by split and number."""
        return list(self._shards)

    @functools.cached_property
    def _shards(self) -> tuple[Shard, ...]:
        return tuple(Shard.from_json(shard) for shard in self.manifest["shards"])

    @property
    def files(self) -> Iterator[str]:
        """All files except `_SUCCESS`, relative to the folder."""
        for shard in self.shards:
            yield shard.file
            if shard.index:
                yield shard.index
        yield from self.manifest["files"]
        yield MANIFEST

    def is_there(self) -> bool:
        """Whether the folder still contains this dataset, and no other one has replaced it."""
        try:
            return _read_published(self.path) == self.published_sha256
        except (OSError, ValueError):
            return False

    @property
    def sizes(self) -> dict[str, int]:
        """File -> bytes, as recorded in the manifest; earlier versions of beam-tfrecords recorded only shards."""
        sizes = {shard.file: shard.bytes for shard in self.shards} | self.manifest.get("sizes", {})
        for shard in self.shards:
            if shard.index and shard.index_bytes is not None:
                sizes[shard.index] = shard.index_bytes
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
        return all(self.manifest.get(name) == value for name, value in json.loads(json.dumps(metadata)).items())

    def split_shards(self, split: str) -> list[Shard]:
        """Returns the shards of a split, by number.

        Raises:
          RequestError: the split does not exist.
        """
        shards = [shard for shard in self.shards if shard.split == split]
        if not shards:
            known = sorted({shard.split for shard in self.shards})
            raise RequestError(f"{self.path}: no split {split!r}; it has: {', '.join(known)}", code="unknown_split")
        return shards


@dataclasses.dataclass(frozen=True)
class DatasetRef:
    """A reference to one state of a dataset; small enough for every worker.

    Attributes:
      path: folder of the dataset.
      manifest_sha256: hex digest of its manifest.
    """

    path: str
    manifest_sha256: str

    def open(self) -> Dataset:
        """Opens the dataset.

        Raises:
          BuildError: another dataset has replaced it.
        """
        dataset, _ = open_published(self.path)
        if dataset is None or dataset.ref != self:
            raise BuildError(f"{self.path}: another dataset has taken the place of the earlier one; start again")
        return dataset


def _open_cache(path: str, size: int | str) -> CacheFolder:
    from beam_tfrecords.storage.cache_folder import CacheFolder

    if storage.has_scheme(path):
        raise RequestError(f"`cache={path}`: expected a folder of this machine", code="invalid_value")
    try:
        return CacheFolder(storage.absolute(path), number_of_bytes(size))
    except ValueError as error:
        raise ValueError(f"cache_size={size!r}: {error}") from error


def is_dataset(path: str) -> bool:
    """Whether a folder contains a finished dataset, or versions of one."""
    is_published, latest = storage.run_concurrently(
        path, functools.partial(storage.exists, storage.join(path, SUCCESS)), functools.partial(read_latest, path)
    )
    return bool(latest) or (is_published and storage.exists(storage.join(path, MANIFEST)))


def read_changes(path: str) -> dict[str, Any] | None:
    """Reads `changes.json` in a folder; returns None if the file does not exist.

    Raises:
      BuildError: the file cannot be read.
    """
    if not storage.exists(storage.join(path, CHANGES)):
        return None
    try:
        changes: dict[str, Any] = read_json(_read_file(path, CHANGES), CHANGES_CHECK)
    except (OSError, ValueError) as error:
        raise BuildError(f"{path}: {CHANGES} cannot be read: {error}") from error
    return changes


def read_dataset(path: str) -> Dataset:
    """Opens a dataset even if its manifest differs from the published one, as `verify` does.

    Args:
      path: the dataset's own folder; `LATEST` is not followed.

    Raises:
      DamagedError: `_SUCCESS` or the manifest is missing or damaged.
      RequestError, BuildError: as `open_published`.
    """
    return _parse(path, *_read_files(path))


def open_whole(path: str) -> tuple[Dataset | None, str | None]:
    """Opens a dataset only if every file in its manifest exists with the recorded size.

    Arguments, results and errors are those of `open_published`.
    """
    dataset, damage = open_published(path)
    missing = dataset.find_missing() if dataset else []
    if missing:
        more = f", and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        return None, f"{missing[0]}{more}"
    return dataset, damage


def open_published(path: str) -> tuple[Dataset | None, str | None]:
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
        manifest, published = _read_files(path)
        if hashlib.sha256(manifest).hexdigest() != published:
            return None, f"{MANIFEST} is not the one that {SUCCESS} names"
        return _parse(path, manifest, published), None
    except DamagedError as error:
        if storage.exists(storage.join(path, SUCCESS)):
            return None, str(error)
        # A manifest is written just before `_SUCCESS`.
        was_finished = storage.exists(storage.join(path, MANIFEST)) and not storage.exists(storage.join(path, REMOVED))
        return None, f"there is a {MANIFEST}, but no {SUCCESS}" if was_finished else None


def read_latest(root: str) -> str | None:
    """Returns the name of the version to read; None if the folder has no versions, or LATEST is damaged."""
    return read_pointer(root, LATEST) or None


def read_pointer(root: str, file: str) -> str | None:
    """Reads the version name in a file; returns "" if it has none or is a folder, and None if it does not exist."""
    pointer = storage.join(root, file)
    if not storage.exists(pointer):
        return None
    try:
        name = storage.read_range(pointer, 0, _MOST_NAME).decode(errors="replace").strip()
    except IsADirectoryError:
        return ""
    return name if VERSION_NAME.fullmatch(name) else ""


class Success(NamedTuple):
    """Content of `_SUCCESS`.

    Attributes:
      manifest_sha256: hex digest of the published manifest.
      version: the version's own name; None without versions, and in files of earlier versions of beam-tfrecords.
    """

    manifest_sha256: str
    version: str | None

    @classmethod
    def parse(cls, data: bytes) -> Success:
        """Parses the file.

        Raises:
          ValueError: the content does not come from a build.
        """
        values = read_json(data, SUCCESS_CHECK)
        return cls(values["manifest_sha256"], values.get("version"))


def read_success(path: str) -> Success | None:
    """Reads `_SUCCESS` of a folder; returns None if it is missing or damaged.

    Raises:
      BuildError: the store does not answer.
    """
    try:
        return Success.parse(_read_or_raise(path, SUCCESS))
    except (DamagedError, ValueError):
        return None


class DamagedError(Exception):
    """A file of a finished dataset differs from what was written."""


def _read_published(path: str) -> str:
    """Returns the hex SHA-256 of the published manifest."""
    return Success.parse(_read_file(path, SUCCESS)).manifest_sha256


def _read_file(path: str, name: str) -> bytes:
    data = storage.read_range(storage.join(path, name), 0, _MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES >> 20} MiB")
    return data


def _read_files(path: str) -> tuple[bytes, str]:
    """Returns the manifest, and the hex SHA-256 of the published one."""
    published, manifest = storage.run_concurrently(
        path, functools.partial(_read_or_raise, path, SUCCESS), functools.partial(_read_or_raise, path, MANIFEST)
    )
    try:
        return manifest, Success.parse(published).manifest_sha256
    except ValueError as error:
        raise DamagedError(f"{SUCCESS} cannot be read: {error}") from error


def _read_or_raise(path: str, name: str) -> bytes:
    try:
        return _read_file(path, name)
    except (OSError, ValueError) as error:
        if storage.is_unanswered(error):
            # The file may be intact, so it must not count as damaged.
            raise BuildError(f"{path}: {name} cannot be read: {error.strerror or error}") from error
        raise DamagedError(f"{name} cannot be read: {error}") from error


def _parse(path: str, data: bytes, published: str) -> Dataset:
    try:
        manifest = read_json(data, mapped(plain))
        number = manifest.get("format", 1)
        count(number, "format")
        dataset = Dataset(path, manifest, hashlib.sha256(data).hexdigest(), published)
        # Checked now, so that a reader does not fail half-way. A later format may use other names.
        if number <= FORMAT:
            manifest_check(number)(manifest, "it")
            if not (dataset.shards and dataset.layout.features and dataset.images and dataset.compression):
                raise ValueError("it names no shards or no features")
            if not {shard.split for shard in dataset.shards} <= manifest["splits"].keys():
                raise ValueError("it names a shard of another split than it has")
            # A dataset from a stranger must not expose other files of the reader's machine.
            for file in dataset.files:
                if "\0" in file or not storage.is_inside(storage.join(path, file), path):
                    raise ValueError(f"it names {file!r}, which is not in the dataset")
    except (ValueError, KeyError, TypeError, AttributeError, RequestError) as error:
        raise DamagedError(f"{MANIFEST} cannot be read: {error}") from error
    if number > FORMAT:
        raise RequestError(
            f"{path}: {MANIFEST} has format {number}, and this version of beam-tfrecords reads up to {FORMAT}; install "
            "the version that made it, or a later one: git pull && pip install . in your clone of beam-tfrecords",
            code="newer_format",
        )
    return dataset
