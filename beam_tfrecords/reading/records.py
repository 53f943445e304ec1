"""Random access to the records of a split by the index; needs no TensorFlow."""

from __future__ import annotations

import bisect
import dataclasses
import difflib
import functools
import hashlib
import importlib
import io
import itertools
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, overload

import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.escaping import escape
from beam_tfrecords.examples.layouts import MASK_FIELD, Layout
from beam_tfrecords.output.manifest import Shard
from beam_tfrecords.output.missing import explain_missing
from beam_tfrecords.reading.collating import as_examples
from beam_tfrecords.reading.decoding import ReadExample
from beam_tfrecords.reading.index_files import read_places, replaced
from beam_tfrecords.reading.record_columns import RecordColumns
from beam_tfrecords.reading.resizing import ImageSize, Resize, ResizeMode
from beam_tfrecords.reading.shard_cache import ShardCache
from beam_tfrecords.storage.open_file import OpenFile
from beam_tfrecords.tfrecord import FOOTER_BYTES, HEADER_BYTES, RecordError, masked_crc32c, read_records

if TYPE_CHECKING:
    import pyarrow.compute as pc

# Local files that are open at once, in each process.
_OPEN_FILES = 64
# Requests to a store that run at once; it takes some 20 ms for a record, whatever its size.
_THREADS = 16
# Records of a store that are read with one request if no more bytes than these lie between them, or altogether.
_GAP_BYTES = 64 << 10
_REQUEST_BYTES = 4 << 20
# Records that an iteration reads at once, and as many ahead.
_GROUP = 64


# What other libraries call what records have, or leave to others.
_OTHER_NAMES = {
    **dict.fromkeys(("shuffle", "batch", "map", "repeat", "prefetch", "to_tf_dataset"), "load, DataLoader or Grain"),
    **dict.fromkeys(("take", "select", "skip", "head"), "records[:10]"),
    **dict.fromkeys(("num_records", "num_rows", "num_examples", "size", "shape"), "len(records)"),
    **dict.fromkeys(("features", "column_names", "columns"), "layout"),
    **dict.fromkeys(("classes", "names"), "class_names"),
    "where": "filter",
}
# What a message names of all that records have.
_SHOWN = ("class_names", "digest", "filter", "layout", "read_batch", "resized")


class Records(Sequence[Any]):
    """The records of splits in their order: `len`, `[number]`, slices, iteration.

    Loaders take it as it is: Grain as a random access source (`_getitems`), PyTorch as a map-style dataset
    (`__getitems__`). Processes may share it by pickling or forking.

    Args:
      path: the dataset's folder.
      shards: those that hold them, not compressed and with indices.
      read: makes of a serialized example what is given.
      columns: reads for a filter what indices lack.
      verify: whether CRCs are checked when a record is read.
      cache: where records of a store are kept; None for nowhere.
    """

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
        self._starts = [0, *itertools.accumulate(shard.records for shard in self._shards)]
        self._bounds = np.array(self._starts)
        # Numbers of the records that a filter or a slice has kept; None for all.
        self._kept: np.ndarray | None = None
        self._is_remote = storage.has_scheme(path)
        self._gap = _GAP_BYTES
        # Shard -> [offset, length, CRC] of its records.
        self._places: dict[int, np.ndarray] = {}

    def __repr__(self) -> str:
        splits = ", ".join(dict.fromkeys(shard.split for shard in self._shards))
        return escape(f"<{len(self):,} records of {splits} in {self._path}>")

    @property
    def digest(self) -> str:
        """16 hex digits that say which records these are, wherever the dataset is."""
        named = hashlib.sha256(repr([(shard.file, shard.crc32c or shard.sha256) for shard in self._shards]).encode())
        named.update(b"" if self._kept is None else self._kept.astype("<i8").tobytes())
        return named.hexdigest()[:16]

    def __len__(self) -> int:
        return self._starts[-1] if self._kept is None else len(self._kept)

    @overload
    def __getitem__(self, number: int) -> Any: ...
    @overload
    def __getitem__(self, number: slice) -> Records: ...
    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            kept = np.arange(self._starts[-1]) if self._kept is None else self._kept
            return self._with(_kept=kept[number])
        if isinstance(number, str):
            raise TypeError(f"records[{number!r}]: records have numbers, and each its features: records[0][{number!r}]")
        return self._getitems([number])[0]

    if not TYPE_CHECKING:  # type checkers refuse what there is not

        def __getattr__(self, name: str) -> Any:
            near = [_OTHER_NAMES.get(name), *difflib.get_close_matches(name, _SHOWN, n=1)]
            hint = next((f"did you mean {word}? " for word in near if word), "")
            raise AttributeError(f"records have no {name!r}; {hint}They have: {', '.join(_SHOWN)}")

    def _getitems(self, numbers: Iterable[SupportsIndex]) -> list[Any]:
        """Several records at once; from a store, those that lie together with one request."""
        return self._decode(numbers, lambda fetched: list(map(self._read, fetched)))

    def __getitems__(self, numbers: Iterable[SupportsIndex]) -> list[Any]:
        """As `_getitems`; where PyTorch asks, its `DataLoader` knows how to make a batch of them."""
        return self.batchable(self._getitems(numbers))

    def batchable(self, examples: list[Any]) -> list[Any]:
        """Examples of these records, for `beam_tfrecords.torch.collate` if PyTorch is imported."""
        if "torch" not in sys.modules or not isinstance(self._read, ReadExample):
            return examples
        importlib.import_module("beam_tfrecords.reading.torch_collating")
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
        """Whether examples are read; else they are serialized."""
        return isinstance(self._read, ReadExample)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that the indices of labels are about."""
        return self._columns.class_names

    def renumbered(self, class_names: Sequence[str]) -> Records:
        """The same records with the indices of other class names, among which are all of its own.

        Raises:
          ValueError: these records are serialized examples, or have masks, whose classes have other indices there.
        """
        own = self.class_names
        if own == tuple(class_names[: len(own)]):
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
        """As `__getitems__`, for examples that are used together; see `ReadExample.read_batch`."""
        if not isinstance(self._read, ReadExample):
            return self._getitems(numbers)
        return self._decode(numbers, self._read.read_batch)

    def _decode(self, numbers: Iterable[SupportsIndex], read: Callable[[Sequence[bytes]], list[Any]]) -> list[Any]:
        """What `read` makes of records; an error names the first record that cannot be read."""
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
        """Reads one example.

        Raises:
          BuildError: it cannot be read; the message says whether it is damaged.
        """
        try:
            self._read(example)
        except Exception as error:
            shard, offset, length, crc = self._find(number)
            if crc == -1:  # an index of an earlier release
                crc = int.from_bytes(self._read_range(shard, offset, length)[-FOOTER_BYTES:], "little")
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
        """`read_batch` of each batch of numbers; from a store, the next one is read while one is used."""
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
        """The records that fulfil a condition; only `labels` and columns of the layout are read from the records.

            records.filter(label="cat")
            records.filter("label = 'cat' and sharpness < 20")
            records.filter("'cat' in labels and key like 'street/%' and column.age > 3")
            records.filter(pyarrow.compute.field("height") > 200)

        Args:
          condition: over index columns, `split`, `labels` and columns of the layout; see `conditions.make_condition`.
          equals: column -> value, or list of values, that it must have.

        Raises:
          RequestError: the condition cannot be read, or the index has no such column.
          BuildError: the dataset was replaced, or its index is damaged.
        """
        # Most programs do without what it imports.
        from beam_tfrecords.reading.conditions import find_rows, make_condition

        checked = make_condition(condition, self._columns.schema, **equals)
        find = functools.partial(find_rows, self._path, condition=checked, records=self._columns, cache=self._cache)
        kept, shards = self._kept, list(range(len(self._shards)))
        if kept is not None:
            shards = np.unique(np.searchsorted(self._starts, kept, side="right") - 1).tolist()
        # Of many small indices, most of the time is spent outside Python.
        found = _pool().map(find, [self._shards[shard] for shard in shards])
        rows = (self._starts[shard] + rows for shard, rows in zip(shards, found, strict=True))
        numbers = np.concatenate([np.empty(0, np.int64), *rows])
        return self._with(_kept=numbers if kept is None else kept[np.isin(kept, numbers)])

    def taking(self, ranges: Sequence[range]) -> Records:
        """The records of ranges of numbers, one after the other."""
        ends = [one.stop for one in ranges]
        if [one.start for one in ranges] == [0, *ends[:-1]] and ends[-1] == len(self):
            return self
        return self._with(_kept=np.concatenate([np.arange(one.start, one.stop) for one in ranges]))

    def joined(self, gap: int) -> Records:
        """The same records; those of a store are read with one request if no more than `gap` bytes lie between them."""
        return self._with(_gap=gap)

    def resized(self, image_size: ImageSize, resize_mode: ResizeMode | None = None) -> Records:
        """The same records with images of another size; masks, boxes and keypoints follow.

        Args:
          image_size: (height, width) in pixels, or one number for both; None for the size that is stored.
          resize_mode: as in `load`.

        Raises:
          ValueError: there is no such size or mode, or these records have no pixels.
        """
        if image_size is None and resize_mode is None:
            return self
        if not (isinstance(self._read, ReadExample) and self._read.pixels):
            raise ValueError(f"image_size={image_size}: these records have images as they are stored, not pixels")
        read = dataclasses.replace(self._read, resize=Resize.of(image_size, resize_mode, self._read.images))
        return self._with(_read=read)

    def in_planes(self, name: str) -> Records:
        """The same records, of which `read_batch` gives the image with this name as [C, H, W]."""
        assert isinstance(self._read, ReadExample)
        return self._with(_read=dataclasses.replace(self._read, planes=name))

    def index(self, value: Any, *bounds: int) -> int:
        """Not a search: a record is found by `filter(key=...)`."""
        raise TypeError("records are found by their keys: filter(key=...)")

    def _with(self, **changed: Any) -> Records:
        records = object.__new__(type(self))
        records.__dict__.update(self.__dict__, **changed)
        return records

    def _fetch(self, numbers: Iterable[SupportsIndex]) -> list[bytes]:
        """Serialized examples."""
        asked = list(map(operator.index, numbers))
        if not self._is_remote:
            return [self._read_record(*self._find(number)) for number in asked]
        # One after the other, the indices of a shuffled batch would take a request's time for each of its records.
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
        """The examples that the cache has."""
        found: dict[_Place, bytes] = {}
        if self._cache is None:
            return found
        # Neighbours are read at once.
        for shard, begin, length, wanted in _merge(places, gap=0):
            kept = self._cache.read_examples(self._shards[shard], begin, length, [place[1:] for place in wanted])
            found.update((place, example) for place, example in zip(wanted, kept, strict=True) if example is not None)
        return found

    def _block_requests(self, places: Iterable[_Place]) -> list[_Request]:
        """Requests for all records that begin in the same blocks of the shards."""
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
        """The examples that a request is for."""
        shard, begin, length, wanted = request
        if self._cache is None:
            return self._cut(request, self._read_range(shard, begin, length))
        named = self._shards[shard]
        with self._cache.filling(named, begin):
            # Another process may have read them meanwhile.
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
        """As `_find`, of several records; indices that are not there yet are read at once."""
        numbers = list(map(self._number, asked))
        shards = (np.searchsorted(self._bounds, numbers, side="right") - 1).tolist()
        missing = set(shards) - self._places.keys()
        read = _pool().map(self._read_places, (self._shards[shard] for shard in missing))
        self._places.update(zip(missing, read, strict=True))
        starts, places = self._starts, self._places
        return [
            (shard, *places[shard][number - starts[shard]].tolist())
            for shard, number in zip(shards, numbers, strict=True)
        ]

    def _find(self, number: int) -> _Place:
        """Shard, offset, length and CRC of a record."""
        number = self._number(number)
        shard = self._shard_of(number)
        if shard not in self._places:
            self._places[shard] = self._read_places(self._shards[shard])
        return (shard, *self._places[shard][number - self._starts[shard]].tolist())

    def _number(self, number: int) -> int:
        """Number of a record among all of the shards."""
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
                # A dataset that replaces this one has other files of the same names.
                file = _open(path, named.crc32c or named.sha256)  # stays open while somebody holds it
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
        """The example in a framed record, which is that of the index: a shard may have been replaced meanwhile."""
        if self._verify:
            try:
                (_,) = read_records(io.BytesIO(framed))
            except (RecordError, ValueError) as error:
                raise BuildError(f"{self._file(shard)}: the record at byte {offset:,} is damaged: {error}") from error
        if crc not in (-1, int.from_bytes(framed[-FOOTER_BYTES:], "little")):
            raise replaced(self._path, self._shards[shard].file)
        return framed[HEADER_BYTES:-FOOTER_BYTES]


def check_records(given: Any) -> Records:
    """What a loader is given, if it is records.

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
# (shard, offset, length, the records that are wanted of it)
_Request: TypeAlias = "tuple[int, int, int, list[_Place]]"


def _merge(places: Iterable[_Place], *, gap: int) -> list[_Request]:
    """Requests that cover the records; those with no more bytes than `gap` between them are joined."""
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
    # The checksum tells a file from an earlier one at the same path.
    return OpenFile(path)


def _pool() -> ThreadPoolExecutor:
    return _pool_of(os.getpid())


@functools.lru_cache(maxsize=1)
def _pool_of(process: int) -> ThreadPoolExecutor:
    """The threads of a process; a forked one has none of its parent's."""
    return ThreadPoolExecutor(_THREADS, "records")
