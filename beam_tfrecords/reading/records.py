"""Random access to the records of a split through the index; needs no TensorFlow."""

from __future__ import annotations

import array
import bisect
import dataclasses
import functools
import hashlib
import html
import importlib
import io
import itertools
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, Literal, SupportsIndex, TypeAlias, get_args, overload

import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.dataset.attribute_hints import OF_RECORDS, explain_attribute
from beam_tfrecords.dataset.dataset import Dataset, Form
from beam_tfrecords.dataset.manifest import Shard, StoredImages
from beam_tfrecords.dataset.missing import explain_missing, replaced
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.escaping import escape
from beam_tfrecords.examples.layouts import MASK_FIELD, OBJECT_MASKS, SINGLE_LABELS, Feature, Layout
from beam_tfrecords.extras import install_hint
from beam_tfrecords.reading.collating import as_examples
from beam_tfrecords.reading.decoding import ReadExample
from beam_tfrecords.reading.index_files import read_places
from beam_tfrecords.reading.record_columns import RecordColumns
from beam_tfrecords.reading.resizing import Resize
from beam_tfrecords.reading.shard_cache import ShardCache
from beam_tfrecords.reading.shuffling import balanced_order
from beam_tfrecords.sizes import ImageSize, ResizeMode
from beam_tfrecords.storage.open_file import OpenFile
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.tfrecord import FOOTER_BYTES, HEADER_BYTES, RecordError, masked_crc32c, read_records

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

# Maximum of local files open at once, in each process.
_OPEN_FILES = 64
# Concurrent requests to a store. A small record takes some 20 ms, whatever its size.
_THREADS = 16
# One request reads several records of a store if the gaps between them, and the request itself, are no larger.
_GAP_BYTES = 64 << 10
_REQUEST_BYTES = 4 << 20
# Number of records that an iteration reads at once; it reads one such group ahead.
_GROUP = 64


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
      path: folder of the dataset.
      shards: the shards of the records; uncompressed and indexed.
      read: converts a serialized example to the returned value.
      columns: reads the columns that a filter uses and indices lack.
      verify: checks the CRCs of each record that is read.
      cache: keeps records of a store; None for no cache.
    """

    # Attributes that `dir` and error messages list.
    _shown: ClassVar[Sequence[str]] = (
        "balanced",
        "class_names",
        "digest",
        "filter",
        "layout",
        "path",
        "read_batch",
        "resized",
        "to_pandas",
    )

    def __init__(
        self,
        path: str,
        shards: Sequence[Shard],
        *,
        read: Callable[[bytes], Any],
        columns: RecordColumns,
        verify: bool,
        cache: ShardCache | None = None,
    ) -> None:
        self._path = path
        self._cache = cache if storage.has_scheme(path) else None
        self._shards = shards
        self._verify = verify
        self._read = read
        self._columns = columns
        # Number of the first record of each shard, and of all records.
        self._starts = array.array("q", itertools.accumulate((shard.records for shard in shards), initial=0))
        # Numbers of the records that a filter or a slice has kept; None for all records.
        self._kept: np.ndarray | None = None
        self._is_remote = storage.has_scheme(path)
        self._gap = _GAP_BYTES
        # Shard -> [offset, length, CRC] of its records.
        self._places: dict[int, np.ndarray] = {}

    def __repr__(self) -> str:
        splits = ", ".join(dict.fromkeys(shard.split for shard in self._shards))
        return escape(f"<{len(self):,} records of {splits} in {self._path}>")

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(feature.name)}</td><td>{html.escape(feature.shown_type)}</td></tr>"
            for feature in self.layout.features
        )
        caption = html.escape(repr(self).strip("<>"))
        return f"<table><caption>{caption}</caption><tr><th>feature</th><th>type</th></tr>{rows}</table>"

    @property
    def path(self) -> str:
        """Folder of the dataset."""
        return self._path

    @property
    def digest(self) -> str:
        """16 hex digits that identify these records, independent of the dataset's path."""
        named = hashlib.sha256(repr([(shard.file, shard.crc32c) for shard in self._shards]).encode())
        named.update(b"" if self._kept is None else self._kept.astype("<i8").tobytes())
        return named.hexdigest()[:16]

    def __len__(self) -> int:
        return self._starts[-1] if self._kept is None else len(self._kept)

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
        if self._kept is not None:
            return self._with(_kept=self._kept[chosen])
        if isinstance(chosen, slice):
            return self._with(_kept=np.arange(*chosen.indices(len(self))))
        return self._with(_kept=np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64) % len(self))

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
        images = [one.name for one in features.values() if one.holds_image or one.field in (MASK_FIELD, OBJECT_MASKS)]
        if name not in features or name in images:
            found = "no such feature"
            if name in images:
                found = f"images, which are read one by one, as records[0][{name!r}]"
            others = ", ".join(one for one in features if one not in images)
            raise TypeError(f"records[{name!r}]: found {found}; expected one of {others}")
        feature = features[name]
        values = [example[name] for example in self._of_feature(feature)]
        if feature.type == "bytes" or len({np.shape(value) for value in values}) > 1:
            return values
        empty = (0, feature.length) if feature.length else 0
        return np.array(values) if values else np.empty(empty, np.int64 if feature.type == "int64" else np.float32)

    def _of_feature(self, feature: Feature) -> Records:
        """Returns the same records with only one feature, and no pixels."""
        assert isinstance(self._read, ReadExample)
        return self._with(_read=dataclasses.replace(self._read, features=(feature,), pixels=False))

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Returns a DataFrame with a row for each record, in their order.

        Args:
          columns: columns as in `filter`; None for those of the index. Only `labels` and columns of the layout take as
            long as reading the records.

        Raises:
          ImportError: pandas is not installed.
          RequestError: a column does not exist.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(f"records.to_pandas() needs pandas: {install_hint('pandas')}") from error
        shards = self._kept_shards() or [0]  # a table without rows has the columns of any shard
        whole = pd.concat([rows.to_pandas() for rows in self._read_rows(shards, columns)], ignore_index=True)
        if self._kept is None:
            return whole
        numbers = np.concatenate([np.arange(*self._starts[shard : shard + 2]) for shard in shards])
        return whole.iloc[np.searchsorted(numbers, self._kept)].reset_index(drop=True)

    def _read_rows(self, shards: Sequence[int], columns: Sequence[str] | None) -> Iterator[pa.Table]:
        """Yields columns of all records of each shard."""
        from beam_tfrecords.reading.conditions import read_rows

        read = functools.partial(read_rows, self._path, names=columns, records=self._columns, cache=self._cache)
        return map_in_threads(read, map(self._shards.__getitem__, shards), threads=_THREADS)

    def __dir__(self) -> list[str]:
        return sorted(self._shown)

    if not TYPE_CHECKING:  # so that type checkers report missing attributes

        def __getattr__(self, name: str) -> Any:
            hints = OF_RECORDS
            if isinstance(self.__dict__.get("_read"), ReadExample):
                hints = {**hints, **{one.name: f"records[{one.name!r}]" for one in self._read.features}}
            raise AttributeError(explain_attribute("records", name, hints, self._shown))

    def _getitems(self, numbers: Iterable[SupportsIndex]) -> list[Any]:
        """Returns several records; reads adjacent records of a store with one request."""
        return self._decode(numbers, lambda fetched: list(map(self._read, fetched)))

    def __getitems__(self, numbers: Iterable[SupportsIndex]) -> list[Any]:
        """Returns `_getitems` for PyTorch, in a form that its `DataLoader` can batch."""
        return self.batchable(self._getitems(numbers))

    def batchable(self, examples: list[Any]) -> list[Any]:
        """Prepares examples of these records for `beam_tfrecords.torch.collate`, if PyTorch is imported."""
        if "torch" not in sys.modules or not isinstance(self._read, ReadExample):
            return examples
        importlib.import_module("beam_tfrecords.torch")
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
        return self._columns.class_names

    def renumbered(self, class_names: Sequence[str]) -> Records:
        """Returns the same records with label indices into other class names, which include all of its own.

        Raises:
          ValueError: these records are serialized examples or have masks, and their classes would change their indices.
        """
        own = self.class_names
        if own == tuple(class_names[: len(own)]):
            if isinstance(self._read, ReadExample) and self._read.classes is not None:  # from another mixture
                return self._with(_read=dataclasses.replace(self._read, classes=None))
            return self
        if not isinstance(self._read, ReadExample) or MASK_FIELD in self.layout.fields:
            classes = escape(", ".join(own[:3]))
            raise ValueError(
                f"{escape(self._path)}: its classes ({classes}…) have other indices in a mixture, and masks and "
                "serialized examples cannot be changed; build the datasets with one list of `class_names`"
            )
        indices = tuple(map(list(class_names).index, own))
        return self._with(_read=dataclasses.replace(self._read, classes=indices))

    def read_batch(self, numbers: Iterable[SupportsIndex]) -> list[Any]:
        """Returns several examples that are used together; see `ReadExample.read_batch`."""
        if not isinstance(self._read, ReadExample):
            return self._getitems(numbers)
        return self._decode(numbers, self._read.read_batch)

    def _decode(self, numbers: Iterable[SupportsIndex], read: Callable[[Sequence[bytes]], list[Any]]) -> list[Any]:
        """Returns `read` of the records' bytes; an error names the first record that cannot be read."""
        asked = list(map(operator.index, numbers))
        fetched = self._fetch(asked)
        try:
            return read(fetched)
        except (ImportError, MemoryError):
            raise
        except Exception:
            for number, example in zip(asked, fetched, strict=True):
                self._read_alone(number, example)
            raise

    def _read_alone(self, number: int, example: bytes) -> None:
        """Reads one example to find out whether it can be read.

        Raises:
          BuildError: it cannot be read; the message says whether it is damaged.
        """
        try:
            self._read(example)
        except Exception as error:
            shard, offset, _, crc = self._find(number)
            where = f"{self._file(shard)}: record {self._number(number) - self._starts[shard]:,} at byte {offset:,}"
            if masked_crc32c(example) == crc:
                raise BuildError(f"{where} cannot be read: {error}") from error
            raise BuildError(
                f"{where} is damaged (its CRC32C differs): {error}; `records(…, verify=True)` checks each record that "
                f"is read, and `beam-tfrecords verify --dataset={self._path}` all of them"
            ) from error

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
        if not self._is_remote:
            yield from map(read, groups)
            return
        groups = iter(groups)
        with ThreadPoolExecutor(1) as ahead:
            waiting = [ahead.submit(read, group) for group in itertools.islice(groups, 1)]
            while waiting:
                waiting += [ahead.submit(read, group) for group in itertools.islice(groups, 1)]
                yield waiting.pop(0).result()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_places": {}}

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
        """
        # Imported here, since most programs do not need what it imports.
        from beam_tfrecords.reading.conditions import find_rows, make_condition

        checked = make_condition(condition, self._columns.schema, self.class_names, **equals)
        find = functools.partial(find_rows, self._path, condition=checked, records=self._columns, cache=self._cache)
        kept, shards = self._kept, self._kept_shards()
        # Threads help with many small indices: most of the time is spent outside the interpreter.
        found = _pool().map(find, [self._shards[shard] for shard in shards])
        rows = (self._starts[shard] + rows for shard, rows in zip(shards, found, strict=True))
        numbers = np.concatenate([np.empty(0, np.int64), *rows])
        return self._with(_kept=numbers if kept is None else kept[np.isin(kept, numbers)])

    def taking(self, ranges: Sequence[range]) -> Records:
        """Returns the records of ranges of numbers, one range after the other."""
        ends = [one.stop for one in ranges]
        if [one.start for one in ranges] == [0, *ends[:-1]] and ends[-1] == len(self):
            return self
        return self._with(_kept=np.concatenate([np.arange(one.start, one.stop) for one in ranges]))

    def joined(self, gap: int) -> Records:
        """Returns the same records; reads those of a store with one request if at most `gap` bytes lie between them."""
        return self._with(_gap=gap)

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
        if not (isinstance(self._read, ReadExample) and self._read.pixels):
            raise ValueError(f"image_size={image_size}: these records have images as they are stored, not pixels")
        read = dataclasses.replace(self._read, resize=Resize.of(image_size, resize_mode, self._read.images))
        return self._with(_read=read)

    def in_planes(self, names: Sequence[str]) -> Records:
        """Returns the same records, whose `read_batch` returns the images of these features as [C, H, W]."""
        if not (isinstance(self._read, ReadExample) and self._read.pixels):
            return self
        return self._with(_read=dataclasses.replace(self._read, planes=tuple(names)))

    def index(self, value: Any, *bounds: int) -> int:
        """Raises TypeError: records are found with `filter(key=...)`."""
        raise TypeError("records are found by their keys: filter(key=...)")

    def count(self, value: Any) -> int:
        """Raises TypeError: records are counted with `len(records.filter(...))`."""
        raise TypeError("records are counted by columns of the index: len(records.filter(label=...))")

    def __contains__(self, value: object) -> bool:
        raise TypeError("records are found by their keys: len(records.filter(key=...)) > 0")

    def __add__(self, other: object) -> Records:
        raise TypeError("records are joined by their splits, dataset['train+validation'], or in proportions, by mix")

    def _with(self, **changed: Any) -> Records:
        records = object.__new__(type(self))
        records.__dict__.update(self.__dict__, **changed)
        return records

    def balanced(self, by: Literal["class"] = "class", *, seed: int = 0) -> Records:
        """Returns these records in an order in which each class comes equally often.

        The order consists of rounds with one record of each class that these records have. It ends when all records of
        the largest class have been used; those of other classes repeat. It takes 8 bytes of memory per position. To use
        some of the records, filter them first.

        Args:
          by: "class", the class label.
          seed: seed of the order of the classes in a round.

        Raises:
          ValueError: the examples do not have one class label each.
          BuildError: as `filter`.
        """
        if by != "class":
            raise ValueError(f"balanced by {by!r}: expected 'class'")
        seed = operator.index(seed)
        classes = self._find_classes()
        present, sizes = np.unique(classes, return_counts=True)
        if not len(present):
            return self
        which, numbers = balanced_order(sizes.tolist(), seed=seed)
        by_class = np.argsort(classes, kind="stable")
        return self._choose(by_class[(sizes.cumsum() - sizes)[which] + numbers])

    def _find_classes(self) -> np.ndarray:
        """Returns [len(self)] indices of the records' classes in `class_names`; reads only the index."""
        single = [one for one in self._columns.layout.features if one.field in SINGLE_LABELS and not one.several]
        if not (single and self.class_names):
            found = ", ".join(feature.name for feature in self._columns.layout.features)
            raise ValueError(f"balanced: expected examples with one class label each; found the features {found}")
        indices = {name: index for index, name in enumerate(self.class_names)}
        classes = np.full(self._starts[-1], -1)
        shards = self._kept_shards()
        for shard, rows in zip(shards, self._read_rows(shards, ["label"]), strict=True):
            labels = rows.column("label").combine_chunks().dictionary_encode()
            known = np.array([*(indices.get(name, -1) for name in labels.dictionary.to_pylist()), -1])
            numbers = labels.indices.fill_null(len(known) - 1).to_numpy()
            classes[self._starts[shard] : self._starts[shard + 1]] = known[numbers]
        kept = classes if self._kept is None else classes[self._kept]
        if (kept < 0).any():
            raise ValueError(
                f"balanced: {np.count_nonzero(kept < 0):,} of {len(kept):,} records have no class; leave them out with "
                "records.filter('label is not None')"
            )
        return kept

    @property
    def shards(self) -> Sequence[Shard]:
        """The shards that these records are chosen from."""
        return self._shards

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
        """These records; of a mixture, the records of one dataset each."""
        return [self]

    def fetch(self, numbers: Iterable[SupportsIndex]) -> list[tuple[int, bytes]]:
        """Returns the number of its source and the serialized example for each number."""
        return [(0, example) for example in self._fetch(numbers)]

    def checked(self) -> Records:
        """Returns the same records; checks the CRCs of each record that is read."""
        return self._with(_verify=True)

    def _fetch(self, numbers: Iterable[SupportsIndex]) -> list[bytes]:
        """Returns serialized examples."""
        asked = list(map(operator.index, numbers))
        if not self._is_remote:
            return [self._read_record(*self._find(number)) for number in asked]
        # Read together: one by one, the indices of a shuffled batch would cost a request for each of its records.
        places = self._find_all(asked)
        found = self._find_kept(places)
        lacking = [place for place in places if place not in found]
        reads_blocks = self._cache and self._cache.keeps_all
        requests = self._block_requests(lacking) if reads_blocks else _merge(lacking, gap=self._gap)
        for answer in _pool().map(self._request, requests):
            found.update(answer)
        return [found[place] for place in places]

    def _read_places(self, shard: Shard) -> np.ndarray:
        return read_places(self._path, shard, cache=self._cache)

    def _find_kept(self, places: Iterable[_Place]) -> dict[_Place, bytes]:
        """Returns the examples that the cache has."""
        found: dict[_Place, bytes] = {}
        if self._cache is None:
            return found
        # Adjacent records are read together.
        for shard, begin, length, wanted in _merge(places, gap=0):
            kept = self._cache.read_examples(self._shards[shard], begin, length, [place[1:] for place in wanted])
            found.update((place, example) for place, example in zip(wanted, kept, strict=True) if example is not None)
        return found

    def _block_requests(self, places: Iterable[_Place]) -> list[_Request]:
        """Returns requests for all records that start in the same blocks of the shards as `places`."""
        blocks: dict[tuple[int, int], list[_Place]] = {}
        for place in sorted(set(places)):
            blocks.setdefault((place[0], place[1] // _REQUEST_BYTES), []).append(place)
        requests = []
        for (shard, block), wanted in blocks.items():
            starts, lengths = self._places[shard][:, 0], self._places[shard][:, 1]
            first, behind = np.searchsorted(starts, [block * _REQUEST_BYTES, (block + 1) * _REQUEST_BYTES])
            begin, end = int(starts[first]), int(starts[behind - 1] + lengths[behind - 1])
            requests.append((shard, begin, end - begin, wanted))
        return requests

    def _request(self, request: _Request) -> dict[_Place, bytes]:
        """Returns the wanted examples of a request."""
        shard, begin, length, wanted = request
        if self._cache is None:
            return self._cut(request, self._read_range(shard, begin, length))
        named = self._shards[shard]
        with self._cache.filling(named, begin):
            # Another process may have read them in the meantime.
            found = self._find_kept(wanted)
            if len(found) < len(wanted):
                data = self._read_range(shard, begin, length)
                self._cache.keep(named, begin, data)
                found = self._cut(request, data)
        return found

    def _cut(self, request: _Request, data: bytes) -> dict[_Place, bytes]:
        shard, begin, _, wanted = request
        framed = {place: data[place[1] - begin :][: place[2]] for place in wanted}
        return {place: self._check(record, shard, place[1], place[3]) for place, record in framed.items()}

    def _find_all(self, asked: Sequence[int]) -> list[_Place]:
        """Finds several records like `_find`; reads the indices that are not loaded yet together."""
        numbers = list(map(self._number, asked))
        shards = (np.searchsorted(self._starts, numbers, side="right") - 1).tolist()
        missing = set(shards) - self._places.keys()
        read = _pool().map(self._read_places, (self._shards[shard] for shard in missing))
        self._places.update(zip(missing, read, strict=True))
        starts, places = self._starts, self._places
        return [
            (shard, *places[shard][number - starts[shard]].tolist())
            for shard, number in zip(shards, numbers, strict=True)
        ]

    def _kept_shards(self) -> list[int]:
        """Returns the numbers of the shards that have these records."""
        if self._kept is None:
            return list(range(len(self._shards)))
        return np.unique(np.searchsorted(self._starts, self._kept, side="right") - 1).tolist()

    def _find(self, number: int) -> _Place:
        """Returns the shard, offset, length and CRC of a record."""
        number = self._number(number)
        shard = self._shard_of(number)
        if shard not in self._places:
            self._places[shard] = self._read_places(self._shards[shard])
        return (shard, *self._places[shard][number - self._starts[shard]].tolist())

    def _number(self, number: int) -> int:
        """Returns the number of a record among all records of the shards."""
        size = len(self)
        if not -size <= number < size:
            raise IndexError(f"record {number}: there are {size:,} records")
        number %= size
        return number if self._kept is None else int(self._kept[number])

    def _shard_of(self, number: int) -> int:
        return bisect.bisect_right(self._starts, number) - 1

    def _file(self, shard: int) -> str:
        return storage.join(self._path, self._shards[shard].file)

    def _read_range(self, shard: int, offset: int, length: int) -> bytes:
        path, named = self._file(shard), self._shards[shard]
        try:
            if self._is_remote:
                data = storage.read_range(path, offset, length)
            else:
                # A dataset that replaces this one has other files with the same names.
                file = _open(path, named.crc32c)  # stays open as long as it is referenced
                if file.size != named.bytes:
                    raise replaced(self._path, named.file)
                data = file.read_range(offset, length)
        except FileNotFoundError as error:
            raise explain_missing(self._path, named.file) from error
        if len(data) != length:
            raise BuildError(f"{path} ends before byte {offset + length:,}, where the index has a record")
        return data

    def _read_record(self, shard: int, offset: int, length: int, crc: int) -> bytes:
        return self._check(self._read_range(shard, offset, length), shard, offset, crc)

    def _check(self, framed: bytes, shard: int, offset: int, crc: int) -> bytes:
        """Returns the example in a framed record.

        Raises:
          BuildError: the record differs from the index, because the shard was replaced; or it is damaged.
        """
        if self._verify:
            try:
                (_,) = read_records(io.BytesIO(framed))
            except (RecordError, ValueError) as error:
                raise BuildError(f"{self._file(shard)}: the record at byte {offset:,} is damaged: {error}") from error
        if crc != int.from_bytes(framed[-FOOTER_BYTES:], "little"):
            raise replaced(self._path, self._shards[shard].file)
        return framed[HEADER_BYTES:-FOOTER_BYTES]


def open_records(
    dataset: Dataset,
    split: str | None,
    *,
    form: Form,
    image_size: ImageSize,
    resize_mode: ResizeMode | None,
    verify: bool,
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
    records = Records(
        dataset.path,
        shards,
        read=bytes if form == "bytes" else read_example,
        columns=RecordColumns.of(dataset),
        verify=verify,
        cache=ShardCache.of(dataset.cache, sum(shard.bytes for shard in shards)) if dataset.cache else None,
    )
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


# (shard, offset, length, CRC) of a record
_Place: TypeAlias = "tuple[int, int, int, int]"
# (shard, offset, length, the wanted records in this range)
_Request: TypeAlias = "tuple[int, int, int, list[_Place]]"


def _merge(places: Iterable[_Place], *, gap: int) -> list[_Request]:
    """Returns requests that cover the records; joins requests with at most `gap` bytes between them."""
    requests: list[_Request] = []
    for place in sorted(set(places)):
        shard, offset, length, _ = place
        if requests:
            last, begin, size, wanted = requests[-1]
            end = offset + length
            if last == shard and offset - begin - size <= gap and end - begin <= _REQUEST_BYTES:
                wanted.append(place)
                requests[-1] = (shard, begin, end - begin, wanted)
                continue
        requests.append((shard, offset, length, [place]))
    return requests


@functools.lru_cache(maxsize=_OPEN_FILES)
def _open(path: str, checksum: str | None) -> OpenFile:
    # The checksum distinguishes the file from an earlier one at the same path.
    return OpenFile(path)


def _pool() -> ThreadPoolExecutor:
    return _pool_of(os.getpid())


@functools.lru_cache(maxsize=1)
def _pool_of(process: int) -> ThreadPoolExecutor:
    """Returns the threads of a process; a forked process has none of its parent's threads."""
    return ThreadPoolExecutor(_THREADS, "records")
