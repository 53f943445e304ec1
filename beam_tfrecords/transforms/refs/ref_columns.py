"""Batches of references as columns, which the steps list, shuffle and convert."""

from __future__ import annotations

import dataclasses
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgpack

from beam_tfrecords.dataset.published_paths import UNCHANGED, PublishedPaths
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.sample_refs import (
    SampleRef,
    Scalar,
    Value,
    file_of_place,
    name_of_place,
    pack_identity,
)

# Limits of a batch: references, references while a source is still reading, and bytes of long values.
_MOST, _MOST_READ, _MOST_BYTES = 10_000, 256, 4 << 20
# Bytes of joined references to decompress at once.
_PIECE = 64 << 10
# Estimated bytes of an object without its polygons.
_OBJECT_BYTES = 64
_LONG = (str, bytes, list)
# Attributes of a reference that often have the same value in a whole table.
_OF_REF = ("split", "images", "size", "fingerprint", "failure", "objects", "group")
# All attributes that are stored as one value if possible; the rare ones are last, so that `pack` can omit them.
_SHARED = (*_OF_REF, "overflow")
# Their values for a row without an image.
_OF_ROW: Mapping[str, Any] = {**dict.fromkeys(_SHARED), "images": {}, "size": 0, "fingerprint": ""}


@dataclasses.dataclass(frozen=True)
class RefColumns:
    """A batch of references whose `columns` have the same names, as columns of plain values.

    Attributes:
      keys: key of each reference, as in `SampleRef`.
      labels: label of each reference, as in `SampleRef`.
      columns: column name -> value of each reference.
      shared: name in `_SHARED` -> one packed value for all references, or a list with one value for each. "overflow" is
        None, or the file locations of oversized rows, of which this batch has only keys and splits; see `OverflowRows`.
    """

    keys: list[str]
    labels: list[Value]
    columns: Mapping[str, list[Value]]
    shared: Mapping[str, Any]

    @classmethod
    def of_rows(
        cls, keys: list[str], labels: list[Value], columns: Mapping[str, list[Value]], **shared: Any
    ) -> RefColumns:
        """Makes references to rows without images.

        Args:
          keys, labels, columns: as in this class.
          shared: other shared values, as in this class.
        """
        return cls(keys, labels, columns, {**_OF_ROW, **shared})

    @classmethod
    def of(cls, refs: Iterable[SampleRef], *, most: int = _MOST) -> Iterator[RefColumns]:
        """Yields batches of up to `most` references in order; references with long values make smaller batches.

        A new batch starts where the names of columns change.
        """
        for names, group in itertools.groupby(refs, key=lambda ref: tuple(ref.columns)):
            while batch := _take_fitting(group, most):
                shared: tuple[list[Any], ...] = (
                    [ref.split for ref in batch],
                    [ref.plain_images() for ref in batch],
                    [ref.size for ref in batch],
                    [ref.fingerprint for ref in batch],
                    [ref.failure and list(ref.failure) for ref in batch],
                    [ref.objects and list(ref.objects.pack()) for ref in batch],
                    [ref.group for ref in batch],
                )
                yield cls(
                    [ref.key for ref in batch],
                    [ref.label for ref in batch],
                    {name: [ref.columns[name] for ref in batch] for name in names},
                    {**dict(zip(_OF_REF, map(_share, shared), strict=True)), "overflow": None},
                )

    @classmethod
    def of_one(cls, ref: SampleRef) -> RefColumns:
        """Makes a batch of one reference."""
        return next(cls.of([ref]))

    @classmethod
    def join(cls, batches: Sequence[RefColumns]) -> RefColumns:
        """Concatenates batches whose columns have the same names."""
        if len(batches) == 1:
            return batches[0]

        return cls(
            _chain(refs.keys for refs in batches),
            _chain(refs.labels for refs in batches),
            {name: _chain(refs.columns[name] for refs in batches) for name in batches[0].columns},
            {name: _join([(refs.shared[name], len(refs)) for refs in batches]) for name in _SHARED},
        )

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[SampleRef]:
        rows = zip(self.keys, self.labels, self._cells(), *map(self.each, _OF_REF), strict=True)
        for key, label, cells, split, images, size, fingerprint, failure, objects, group in rows:
            yield SampleRef.of_plain((key, split, images, size, fingerprint, label, cells, failure, objects), group)

    def __getitem__(self, place: int) -> SampleRef:
        return next(iter(self.take([place])))

    def each(self, name: str) -> list[Any]:
        """Returns the value of a shared attribute for each reference."""
        found = self.shared[name]
        return found if isinstance(found, list) else [found] * len(self)

    def take(self, places: Iterable[int]) -> RefColumns:
        """Returns the references at these positions."""
        chosen = list(places)
        return self._choose(lambda values: list(map(values.__getitem__, chosen)))

    def slice(self, start: int, stop: int) -> RefColumns:
        """Returns the references at the positions from `start` to before `stop`."""
        return self if (start, stop) == (0, len(self)) else self._choose(lambda values: values[start:stop])

    def replace(self, **shared: Any) -> RefColumns:
        """Returns the references with other values of shared attributes."""
        return dataclasses.replace(self, shared={**self.shared, **shared})

    def all_labels(self) -> Iterator[Sequence[Scalar]]:
        """Yields `SampleRef.labels` of each reference."""
        for label, objects in zip(self.labels, self.each("objects"), strict=True):
            if objects is not None:
                yield Objects.unpack_labels(objects)
            else:
                yield label if isinstance(label, list) else (label,)

    def identities(self) -> Iterator[bytes]:
        """Yields `pack_identity` of each reference."""
        of_file = map(self.each, ("split", "size", "fingerprint"))
        others = map(self.each, ("failure", "images", "objects"))
        return map(pack_identity, self.keys, *of_file, self.labels, self._cells(), *others)

    def published(self, paths: PublishedPaths) -> RefColumns:
        """Returns the references with published paths in their fingerprints and failures, as a listing has them."""
        changed: dict[str, list[Any]] = {}
        if any("@/" in one for one in self.each("fingerprint")):
            rows = zip(self.each("fingerprint"), self.each("images"), strict=True)
            files = ((one, map(file_of_place, images.values())) for one, images in rows)
            changed["fingerprint"] = [paths.publish_fingerprint(*one) for one in files]
        if any(self.each("failure")):
            changed["failure"] = [one and [one[0], paths.publish_text(one[1])] for one in self.each("failure")]
        return self.replace(**changed) if changed else self

    def names(self, paths: PublishedPaths = UNCHANGED) -> list[list[str]]:
        """Returns the published display names of the images of each reference."""
        return [[paths.publish(name_of_place(place)) for place in images.values()] for images in self.each("images")]

    def uris(self, paths: PublishedPaths = UNCHANGED) -> list[str | None]:
        """Returns the published `SampleRef.uri` of each reference."""
        return [next(iter(names), None) for names in self.names(paths)]

    def files(self) -> Iterator[str]:
        """Yields the files that contain the images."""
        return (file_of_place(place) for images in self.each("images") for place in images.values())

    def _cells(self) -> Iterable[dict[str, Value]]:
        """Returns `SampleRef.columns` of each reference."""
        if not self.columns:
            return [{} for _ in self.keys]
        names = tuple(self.columns)
        return [dict(zip(names, cells, strict=True)) for cells in zip(*self.columns.values(), strict=True)]

    def _choose(self, choose: Callable[[list[Any]], list[Any]]) -> RefColumns:
        return RefColumns(
            choose(self.keys),
            choose(self.labels),
            {name: choose(values) for name, values in self.columns.items()},
            {name: choose(values) if isinstance(values, list) else values for name, values in self.shared.items()},
        )

    def pack(self) -> bytes:
        """Packs the references to bytes, which can be concatenated with other packed batches."""
        shared = [_share(values) if isinstance(values, list) else values for values in self.shared.values()]
        # At 10^9 samples, most blocks get one reference per chunk, so the overhead of a batch matters.
        while shared and shared[-1] is None:
            shared.pop()
        packed: bytes = msgpack.packb((self.keys, self.labels, self.columns, *shared))
        return packed


def one_by_one(samples: Iterable[SampleRef | RefColumns]) -> Iterator[SampleRef]:
    """Yields the references of a source one by one."""
    for found in samples:
        yield from found if isinstance(found, RefColumns) else (found,)


def by_column(samples: Iterable[SampleRef | RefColumns]) -> Iterator[RefColumns]:
    """Yields the references of a source in order as columns; joins single references to batches of `_MOST_READ`."""
    for kind, alike in itertools.groupby(samples, key=type):
        if kind is RefColumns:
            yield from cast("Iterable[RefColumns]", alike)
        else:
            yield from RefColumns.of(cast("Iterable[SampleRef]", alike), most=_MOST_READ)


def join_alike(batches: Iterable[RefColumns]) -> Iterator[RefColumns]:
    """Yields the references of batches in order, joining adjacent batches whose columns have the same names."""
    for _, alike in itertools.groupby(batches, key=lambda refs: (tuple(refs.columns), refs.shared["overflow"] is None)):
        yield RefColumns.join(list(alike))


def join_packed(packed: Iterable[bytes]) -> bytes:
    """Joins and compresses packed batches of `RefColumns.pack`; repeated strings, such as folders, are stored once."""
    return zlib.compress(b"".join(packed), level=1)


def unpack_refs(joined: bytes) -> Iterator[RefColumns]:
    """Unpacks the output of `join_packed`, only as far as the caller reads."""
    inflate = zlib.decompressobj()
    pieces = (joined[start : start + _PIECE] for start in range(0, len(joined), _PIECE))
    yield from unpack_batches(map(inflate.decompress, pieces))
    if not inflate.eof:
        raise ValueError("references end in the middle")


def unpack_batches(pieces: Iterable[bytes]) -> Iterator[RefColumns]:
    """Unpacks concatenated batches of `RefColumns.pack`, given in pieces of any size."""
    unpacker, size = msgpack.Unpacker(max_buffer_size=0), 0
    for piece in pieces:
        unpacker.feed(piece)
        size += len(piece)
        for keys, labels, columns, *shared in unpacker:
            yield RefColumns(keys, labels, columns, dict(itertools.zip_longest(_SHARED, shared)))
    if unpacker.tell() != size:
        raise ValueError("references end in the middle")


def long_bytes(ref: SampleRef) -> int:
    """Returns the bytes of the long values of a reference."""
    size = sum([len(value) for value in (ref.label, *ref.columns.values()) if isinstance(value, _LONG)])
    if ref.objects is not None:
        size += len(ref.objects.labels) * _OBJECT_BYTES + sum(map(len, ref.objects.polygons))
    return size


def _take_fitting(refs: Iterator[SampleRef], most: int) -> list[SampleRef]:
    """Takes the next references that fit into one batch."""
    taken, size = [], 0
    for ref in refs:
        taken.append(ref)
        size += long_bytes(ref)
        if len(taken) == most or size >= _MOST_BYTES:
            break
    return taken


def _share(values: list[Any]) -> Any:
    """Returns the common value; all values if they differ, or if the common value is itself a list."""
    first = values[0]
    return first if not isinstance(first, list) and values.count(first) == len(values) else values


def _join(several: Sequence[tuple[Any, int]]) -> Any:
    """Joins shared attributes, each given as (common value or list of values, number of references)."""
    first = several[0][0]
    if not isinstance(first, list) and all(found == first for found, _ in several):
        return first
    return _chain(found if isinstance(found, list) else itertools.repeat(found, count) for found, count in several)


def _chain(several: Iterable[Iterable[Any]]) -> list[Any]:
    return list(itertools.chain.from_iterable(several))
