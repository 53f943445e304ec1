"""Random access to the records of splits through the index; needs no TensorFlow."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, get_args, overload

import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.dataset.manifest import Shard, StoredImages
from beam_tfrecords.errors import RequestError
from beam_tfrecords.escaping import escape
from beam_tfrecords.extras import install_hint
from beam_tfrecords.features.fields import Stored
from beam_tfrecords.features.layouts import Layout, decoded_names
from beam_tfrecords.geometry.sizes import ImageSize, ResizeMode
from beam_tfrecords.reading.collating import as_examples, teach_torch
from beam_tfrecords.reading.decoding import ReadExample
from beam_tfrecords.reading.index_files import ShardCache
from beam_tfrecords.reading.record_columns import RecordColumns
from beam_tfrecords.reading.resizing import Resize
from beam_tfrecords.reading.shard_reader import THREADS, ShardReader, pool
from beam_tfrecords.storage.threads import map_in_threads

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

# Number of records that an iteration reads at once; it reads one such group ahead.
_GROUP = 64
# Form in which a record is returned; see `Dataset.records`.
Form: TypeAlias = Literal["pixels", "features", "bytes"]


@dataclasses.dataclass(frozen=True, eq=False)
class DatasetRecords:
    """The stored records of one dataset, and how they are read.

    Attributes:
      reader: reads the serialized examples.
      read: converts a serialized example to the returned value: `ReadExample`, or `bytes`.
      columns: reads the columns that a filter uses and indices lack.
    """

    reader: ShardReader
    read: ReadExample | type[bytes]
    columns: RecordColumns

    def changing(self, **changed: Any) -> DatasetRecords:
        """Returns the same records, read with other settings of `ReadExample`."""
        assert isinstance(self.read, ReadExample)
        return dataclasses.replace(self, read=dataclasses.replace(self.read, **changed))

    def renumbered(self, class_names: Sequence[str]) -> DatasetRecords:
        """Returns the same records with label indices into other class names, which include all of its own.

        Raises:
          ValueError: these records are serialized examples or have masks, and their classes would change their indices.
        """
        own, read = self.columns.class_names, self.read
        if own == tuple(class_names[: len(own)]):
            # The classes may be those of another mixture.
            return self if isinstance(read, type) or read.classes is None else self.changing(classes=None)
        if isinstance(read, type) or Stored.MASK in Layout(read.features).stored:
            classes = escape(", ".join(own[:3]))
            raise ValueError(
                f"{escape(self.reader.path)}: its classes ({classes}…) have other indices in a mixture, and masks and "
                "serialized examples cannot be changed; build the datasets with one list of `class_names`"
            )
        return self.changing(classes=tuple(map(list(class_names).index, own)))

    def resized(self, image_size: ImageSize, resize_mode: ResizeMode | None) -> DatasetRecords:
        """Returns the same records with resized images; see `Records.resized`."""
        if not (isinstance(self.read, ReadExample) and self.read.pixels):
            raise ValueError(f"image_size={image_size}: these records hold stored images, not pixels")
        return self.changing(resize=Resize.of(image_size, resize_mode, self.read.images))

    def read_all(self, numbers: Sequence[int], *, are_used_together: bool) -> list[Any]:
        """Returns records by their numbers in the dataset's shards.

        Raises:
          BuildError: a record cannot be read; the message names the first one.
        """
        fetched, read = self.reader.fetch(numbers), self.read
        try:
            if are_used_together and isinstance(read, ReadExample):
                return read.read_batch(fetched)
            return list(map(read, fetched))
        except (ImportError, MemoryError):
            raise
        except Exception:
            for number, example in zip(numbers, fetched, strict=True):
                try:
                    read(example)
                except Exception as error:
                    raise self.reader.unreadable(number, example, error) from error
            raise


class Records(Sequence[Any]):
    """The records of splits in their order; supports `len`, `[number]`, slices, lists of numbers and iteration.

        >>> from beam_tfrecords import open_dataset
        >>> records = open_dataset("out/").records("train")
        >>> cats = records.filter(label="cat")
        >>> len(records), len(cats), len(cats[:2]), len(records[[3, 7]])
        (12, 6, 2, 2)
        >>> records["label"][:3]
        array([0, 1, 0])

    Loaders accept it directly: Grain as a random access source (`_getitems`), PyTorch as a map-style dataset
    (`__getitems__`). Processes may share it by pickling or forking.

    Args:
      sources: records of one dataset each; several of them are mixed.
      numbers: numbers of these records, in their order, among all records of the sources, one source after the other;
        None for all records.
      class_names: class names that label indices refer to.
    """

    def __init__(
        self, sources: Sequence[DatasetRecords], numbers: np.ndarray | None, class_names: tuple[str, ...]
    ) -> None:
        self._sources = sources
        self._numbers = numbers
        self._starts = np.cumsum([0, *(len(one.reader) for one in sources)])
        self._size = int(self._starts[-1]) if numbers is None else len(numbers)
        self._class_names = class_names
        # Features of the examples are the same in all sources.
        self._read = sources[0].read

    def __repr__(self) -> str:
        of = (f"{', '.join(dict.fromkeys(one.split for one in r.shards))} in {r.path}" for r in self._readers)
        return escape(f"<{len(self):,} records of {' and '.join(dict.fromkeys(of))}>")

    @property
    def path(self) -> str:
        """Folder of the dataset."""
        return self._only("have several folders").reader.path

    @property
    def digest(self) -> str:
        """16 hex digits that identify these records, independent of the datasets' paths."""
        several = [[(shard.file, shard.crc32c) for shard in reader.shards] for reader in self._readers]
        named = hashlib.sha256(repr(several[0] if len(several) == 1 else (several, self._class_names)).encode())
        named.update(b"" if self._numbers is None else self._numbers.astype("<i8").tobytes())
        return named.hexdigest()[:16]

    @property
    def _readers(self) -> list[ShardReader]:
        return [one.reader for one in self._sources]

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, number: int) -> Any: ...
    @overload
    def __getitem__(self, number: slice | Sequence[int] | np.ndarray) -> Records: ...
    @overload
    def __getitem__(self, number: str) -> Any: ...
    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, str):
            return self._read_feature(number)
        if isinstance(number, slice | list | tuple | range | np.ndarray):
            return self._choose(number if isinstance(number, slice) else self._check_numbers(number))
        if isinstance(number, bool | np.bool_) or not hasattr(number, "__index__"):
            raise TypeError(
                f"records[{number!r}]: found {type(number).__name__}; expected the number of a record, a slice, "
                f"several numbers, {len(self):,} truth values, or the name of a feature"
            )
        return self._getitems([number])[0]

    def _choose(self, chosen: slice | np.ndarray) -> Records:
        """Returns the records at an index of an array."""
        if self._numbers is not None:
            numbers = self._numbers[chosen]
        elif isinstance(chosen, slice):
            numbers = np.arange(*chosen.indices(len(self)))
        else:
            numbers = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64) % len(self)
        return Records(self._sources, numbers, self._class_names)

    def _check_numbers(self, numbers: Any) -> np.ndarray:
        """Returns numbers of records, or a [len(self)] array that says which ones, as an index of an array."""
        chosen = np.asarray(numbers if len(numbers) else np.empty(0, np.int64))
        is_mask = chosen.dtype == bool and chosen.shape == (len(self),)
        if not is_mask and (chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer)):
            features = self.layout.features if self.has_features else ()
            names = [one.name for one in features if one.name in chosen.tolist()]
            more = f"; a feature is read alone: records[{names[0]!r}]; columns by records.to_pandas()" if names else ""
            raise TypeError(
                f"records[…]: found an array {list(chosen.shape)} of {chosen.dtype}; expected numbers of records, or "
                f"{len(self):,} truth values{more}"
            )
        outside = chosen[:0] if is_mask else chosen[(chosen < -len(self)) | (chosen >= len(self))]
        if len(outside):
            raise IndexError(f"record {outside[0]}: there are {len(self):,} records")
        return chosen

    def _read_feature(self, name: str) -> Any:
        """Returns the values of a feature of all records, as an array if all have one shape; decodes no image."""
        features = {feature.name: feature for feature in self.layout.features}
        images = [one.name for one in features.values() if one.kind.stored is not Stored.VALUES]
        images += decoded_names(self.layout.features).values()
        if name not in features or name in images:
            found = "no such feature"
            if name in images:
                found = f"images, which are read one by one, as records[0][{name!r}]"
            others = ", ".join(one for one in features if one not in images)
            raise TypeError(f"records[{name!r}]: found {found}; expected one of {others}")
        feature = features[name]
        values = [example[name] for example in self._with(lambda one: one.changing(features=(feature,), pixels=False))]
        if feature.type == "bytes" or len({np.shape(value) for value in values}) > 1:
            return values
        empty = (0, feature.length) if feature.length else 0
        return np.array(values) if values else np.empty(empty, np.int64 if feature.type == "int64" else np.float32)

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Returns a DataFrame with a row for each record, in their order.

        Args:
          columns: columns as in `filter`; None for all of the index. Only `labels` and columns of the layout take as
            long as reading the records.

        Raises:
          ImportError: pandas is not installed.
          RequestError: a column does not exist.
          TypeError: the records are mixed.
        """
        self._only("have no table; each part has its own: part.to_pandas()")
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(f"records.to_pandas() needs pandas: {install_hint('pandas')}") from error
        shards = self._kept_shards() or [0]  # a table without rows has the columns of any shard
        whole = pd.concat([rows.to_pandas() for rows in self._read_rows(shards, columns)], ignore_index=True)
        if self._numbers is None:
            return whole
        starts = self._sources[0].reader.starts
        numbers = np.concatenate([np.arange(*starts[shard : shard + 2]) for shard in shards])
        return whole.iloc[np.searchsorted(numbers, self._numbers)].reset_index(drop=True)

    def index_rows(self) -> Iterator[dict[str, Any]]:
        """Yields the index row of each record of one dataset, also with its split; the records are in its order."""
        starts, shards = self._sources[0].reader.starts, self._kept_shards()
        for shard, rows in zip(shards, self._read_rows(shards, None), strict=True):
            if self._numbers is not None:
                first, end = np.searchsorted(self._numbers, starts[shard : shard + 2])
                rows = rows.take(self._numbers[first:end] - starts[shard])
            yield from rows.to_pylist()

    def _read_rows(self, shards: Sequence[int], columns: Sequence[str] | None) -> Iterator[pa.Table]:
        """Yields columns of all records of each shard."""
        from beam_tfrecords.reading.conditions import read_rows

        source = self._sources[0]
        reader = source.reader
        read = functools.partial(read_rows, reader.path, names=columns, records=source.columns, cache=reader.cache)
        return map_in_threads(read, map(reader.shards.__getitem__, shards), threads=THREADS)

    def _getitems(self, numbers: Iterable[SupportsIndex]) -> list[Any]:
        """Returns several records; reads adjacent records of a store with one request."""
        return self._gather(numbers, lambda source, own: self._sources[source].read_all(own, are_used_together=False))

    def __getitems__(self, numbers: Iterable[SupportsIndex]) -> list[Any]:
        """Returns `_getitems` for PyTorch, in a form that its `DataLoader` can batch."""
        return self.batchable(self._getitems(numbers))

    def batchable(self, examples: list[Any]) -> list[Any]:
        """Prepares examples of these records for `beam_tfrecords.torch.collate`, if PyTorch is imported."""
        if "torch" not in sys.modules or not isinstance(self._read, ReadExample):
            return examples
        teach_torch()
        return as_examples(examples, self._read.features)

    @property
    def layout(self) -> Layout:
        """Features of an example.

        Raises:
          ValueError: these records are serialized examples.
        """
        if not isinstance(self._read, ReadExample):
            raise ValueError("these records are serialized examples (form='bytes'), without features")
        return Layout(self._read.features)

    @property
    def has_features(self) -> bool:
        """Whether these records are parsed examples; otherwise they are serialized ones."""
        return isinstance(self._read, ReadExample)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names that label indices refer to."""
        return self._class_names

    def read_batch(self, numbers: Iterable[SupportsIndex]) -> list[Any]:
        """Returns several examples that are used together; see `ReadExample.read_batch`."""
        return self._gather(numbers, lambda source, own: self._sources[source].read_all(own, are_used_together=True))

    def _gather(self, numbers: Iterable[SupportsIndex], read: Callable[[int, Sequence[int]], list[Any]]) -> list[Any]:
        """Returns `read` of the number of each source and of its records, in the order of all numbers."""
        size, places = self._size, list(map(operator.index, numbers))
        for index, place in enumerate(places):
            if not -size <= place < size:
                raise IndexError(f"record {place}: there are {size:,} records")
            places[index] = place % size
        # Lists are faster than arrays for single records.
        chosen = places if self._numbers is None else self._numbers[places].tolist()
        if len(self._sources) == 1:
            return read(0, chosen)
        which = np.searchsorted(self._starts, chosen, side="right") - 1
        examples: list[Any] = [None] * len(chosen)
        for source in np.unique(which).tolist():
            at = np.flatnonzero(which == source).tolist()
            own = [chosen[number] - int(self._starts[source]) for number in at]
            for number, example in zip(at, read(source, own), strict=True):
                examples[number] = example
        return examples

    def __iter__(self) -> Iterator[Any]:
        starts = range(0, len(self), _GROUP)
        groups = (range(start, min(start + _GROUP, len(self))) for start in starts)
        return itertools.chain.from_iterable(self._read_ahead(self._getitems, groups))

    def read_batches(self, batches: Iterable[Iterable[SupportsIndex]]) -> Iterator[list[Any]]:
        """Yields `read_batch` of each batch of numbers; reads the next batch of a store while one is used."""
        return self._read_ahead(self.read_batch, batches)

    def _read_ahead(
        self, read: Callable[[Iterable[SupportsIndex]], list[Any]], groups: Iterable[Iterable[SupportsIndex]]
    ) -> Iterator[list[Any]]:
        if not any(reader.is_remote for reader in self._readers):
            yield from map(read, groups)
            return
        groups = iter(groups)
        with ThreadPoolExecutor(1) as ahead:
            waiting = [ahead.submit(read, group) for group in itertools.islice(groups, 1)]
            while waiting:
                waiting += [ahead.submit(read, group) for group in itertools.islice(groups, 1)]
                yield waiting.pop(0).result()

    def filter(self, condition: pc.Expression | str | None = None, **equals: Any) -> Records:
        """Returns the records that satisfy a condition. Reads only `labels` and columns of the layout from the records.

            records.filter(label="cat")
            records.filter("label = 'cat' and sharpness < 20")
            records.filter("'cat' in labels and key like 'street/%' and column.age > 3")
            records.filter(pyarrow.compute.field("height") > 200)

        Args:
          condition: uses index columns, `split`, `labels` and columns of the layout; see `conditions.make_condition`.
          equals: column -> required value, or list of allowed values.

        Raises:
          RequestError: the condition cannot be parsed, or the index has no such column.
          BuildError: the dataset was replaced, or its index is damaged.
          TypeError: the records are mixed.
        """
        source = self._only("cannot be filtered; filter each part: mix([(a.filter(...), 0.7), ...])")
        # Imported here, since most programs do not need what it imports.
        from beam_tfrecords.reading.conditions import find_rows, make_condition

        reader, columns = source.reader, source.columns
        checked = make_condition(condition, columns.schema, self.class_names, **equals)
        find = functools.partial(find_rows, reader.path, condition=checked, records=columns, cache=reader.cache)
        kept, shards = self._numbers, self._kept_shards()
        # Threads help with many small indices: most of the time is spent outside the interpreter.
        found = pool().map(find, [reader.shards[shard] for shard in shards])
        rows = (reader.starts[shard] + rows for shard, rows in zip(shards, found, strict=True))
        numbers = np.concatenate([np.empty(0, np.int64), *rows])
        return Records([source], numbers if kept is None else kept[np.isin(kept, numbers)], self._class_names)

    def _only(self, otherwise: str) -> DatasetRecords:
        """Returns the source of these records.

        Raises:
          TypeError: the records are mixed.
        """
        if len(self._sources) == 1:
            return self._sources[0]
        raise TypeError(f"records that are mixed {otherwise}")

    def _kept_shards(self) -> list[int]:
        """Returns the numbers of the shards that have these records of one dataset."""
        reader = self._sources[0].reader
        if self._numbers is None:
            return list(range(len(reader.shards)))
        return np.unique(np.searchsorted(reader.starts, self._numbers, side="right") - 1).tolist()

    def taking(self, ranges: Sequence[range]) -> Records:
        """Returns the records of ranges of numbers, one range after the other."""
        ends = [one.stop for one in ranges]
        if [one.start for one in ranges] == [0, *ends[:-1]] and ends[-1] == len(self):
            return self
        return self._choose(np.concatenate([np.arange(one.start, one.stop) for one in ranges]))

    def joined(self, gap: int) -> Records:
        """Returns the same records; reads a store with one request if at most `gap` bytes lie between them."""
        return self._with(lambda one: dataclasses.replace(one, reader=dataclasses.replace(one.reader, gap=gap)))

    def resized(self, image_size: ImageSize, resize_mode: ResizeMode | None = None) -> Records:
        """Returns the same records with resized images; masks, boxes and keypoints follow.

        Args:
          image_size: (height, width) in pixels, or one number for both; None for the stored size.
          resize_mode: as in `load`.

        Raises:
          ValueError: the size or the mode is invalid, or these records have no pixels.
        """
        if image_size is None and resize_mode is None:
            return self
        return self._with(lambda source: source.resized(image_size, resize_mode))

    def in_planes(self, names: Sequence[str]) -> Records:
        """Returns the same records, whose `read_batch` returns the images of these features as [C, H, W]."""
        return self._with(lambda source: source.changing(planes=tuple(names))) if self.has_pixels else self

    def _with(self, change: Callable[[DatasetRecords], DatasetRecords]) -> Records:
        """Returns the same records of changed sources."""
        return Records(list(map(change, self._sources)), self._numbers, self._class_names)

    @property
    def shards(self) -> Sequence[Shard]:
        """The shards that these records of one dataset are chosen from."""
        return self._only("have several lists of shards").reader.shards

    @property
    def images(self) -> StoredImages:
        """How images are stored."""
        assert isinstance(self._read, ReadExample)
        return self._read.images

    @property
    def has_pixels(self) -> bool:
        """Whether images are decoded."""
        return isinstance(self._read, ReadExample) and self._read.pixels

    @property
    def resize(self) -> Resize | None:
        """The requested size of images; None for the stored one."""
        return self._read.resize if isinstance(self._read, ReadExample) else None

    @property
    def sources(self) -> list[Records]:
        """All records of each dataset that these are chosen from, with its own classes."""
        return [Records([one], None, one.columns.class_names) for one in self._sources]

    def fetch(self, numbers: Iterable[SupportsIndex]) -> list[tuple[int, bytes]]:
        """Returns the number of its source and the serialized example for each number."""

        def read(source: int, own: Sequence[int]) -> list[tuple[int, bytes]]:
            return [(source, example) for example in self._sources[source].reader.fetch(own)]

        return self._gather(numbers, read)

    def checked(self) -> Records:
        """Returns the same records; checks the CRCs of each record that is read."""
        return self._with(lambda one: dataclasses.replace(one, reader=dataclasses.replace(one.reader, verify=True)))

    def numbered(self) -> tuple[Sequence[DatasetRecords], np.ndarray]:
        """Returns the sources, and the numbers of these records among all records of the sources."""
        return self._sources, np.arange(len(self)) if self._numbers is None else self._numbers


def open_records(
    dataset: StoredDataset,
    split: str | None,
    *,
    form: Form,
    image_size: ImageSize = None,
    resize_mode: ResizeMode | None = None,
    verify: bool = False,
) -> Records:
    """Returns the records of a split; see `Dataset.records`."""
    if not isinstance(verify, bool):
        raise TypeError(f"verify={verify!r}: found {type(verify).__name__}; expected True or False")
    if form not in get_args(Form):
        raise ValueError(f"form={form!r}: expected {', '.join(map(repr, get_args(Form)))}")
    ranges = dataset.find_ranges(split)
    used = list(dict.fromkeys(one.split for one in ranges))
    shards = [shard for name in used for shard in dataset.split_shards(name)]
    if dataset.compression != "none":
        raise RequestError(
            f"{dataset.path}: the records of a compressed shard cannot be read at random; read a whole split with "
            "load(path, split), or build it with --compression=none",
            code="compressed_shards",
        )
    is_decoded = form == "pixels"
    read_example = ReadExample(dataset.layout.features, dataset.images, is_decoded, has_text=is_decoded)
    cache = None
    if dataset.cache and storage.has_scheme(dataset.path):
        cache = ShardCache(dataset.cache, sum(shard.bytes for shard in shards) <= dataset.cache.most_bytes)
    reader = ShardReader(dataset.path, shards, verify, cache)
    source = DatasetRecords(reader, bytes if form == "bytes" else read_example, RecordColumns.of(dataset))
    records = Records([source], None, dataset.class_names)
    starts = dict(zip(used, itertools.accumulate((dataset.splits[name] for name in used), initial=0), strict=False))
    numbers = [range(starts[name] + begin, starts[name] + end) for name, begin, end in ranges]
    return records.taking(numbers).resized(image_size, resize_mode)


def check_records(given: Any) -> Records:
    """Returns a loader's argument if it is records.

    Raises:
      TypeError: it is something else, such as a dataset or its folder.
    """
    if isinstance(given, Records):
        return given
    raise TypeError(
        f"found a value of type {type(given).__name__}; expected the records of a split, such as "
        "open_dataset('out/')['train']"
    )
