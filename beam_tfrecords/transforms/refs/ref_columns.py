"""Batches of references, by column: as they are listed, shuffled and converted."""

from __future__ import annotations

import dataclasses
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgpack

from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.sample_refs import (
    SampleRef,
    Scalar,
    Value,
    file_of_place,
    name_of_place,
    pack_identity,
    pack_places,
)

# References of a batch, at most; and while a source still reads others. Bytes of their long values.
_MOST, _MOST_READ, _MOST_BYTES = 10_000, 256, 4 << 20
# Of an object, without its polygons.
_OBJECT_BYTES = 64
_LONG = (str, bytes, list)
# Attributes of a reference that most of a table have in common.
_OF_REF = ("split", "images", "size", "fingerprint", "failure", "objects", "group")
# All that are kept so; those that are seldom there are the last.
_SHARED = (*_OF_REF, "overflow")
# Those of a row without an image.
_OF_ROW: Mapping[str, Any] = {**dict.fromkeys(_SHARED), "images": {}, "size": 0, "fingerprint": ""}


@dataclasses.dataclass(frozen=True)
class RefColumns:
    """A batch of references whose `columns` have the same names, as columns of plain values.

    Attributes:
      keys: of each reference, as in `SampleRef`; so are the others.
      labels: of each.
      columns: name -> value of each.
      shared: name in `_SHARED` -> one value for all references, or a list with the value of each, as packed. "overflow"
        is None, or gives the file locations of oversized rows, whose key and split alone are here; see `OverflowRows`.
    """

    keys: list[str]
    labels: list[Value]
    columns: Mapping[str, list[Value]]
    shared: Mapping[str, Any]

    @classmethod
    def of_rows(
        cls, keys: list[str], labels: list[Value], columns: Mapping[str, list[Value]], **shared: Any
    ) -> RefColumns:
        """The references to rows without images.

        Args:
          keys, labels, columns: as in this class.
          shared: what they have besides, as in this class.
        """
        return cls(keys, labels, columns, {**_OF_ROW, **shared})

    @classmethod
    def of(cls, refs: Iterable[SampleRef], *, most: int = _MOST) -> Iterator[RefColumns]:
        """Batches of up to `most` references, in their order, and fewer of those with long values.

        A new batch begins where the names of columns change.
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
        """A batch of one reference."""
        return next(cls.of([ref]))

    @classmethod
    def join(cls, batches: Sequence[RefColumns]) -> RefColumns:
        """The references of batches whose columns have the same names, one behind the other."""
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
        """An attribute that may be shared, of each reference."""
        found = self.shared[name]
        return found if isinstance(found, list) else [found] * len(self)

    def take(self, places: Iterable[int]) -> RefColumns:
        """The references of these places."""
        chosen = list(places)
        return self._choose(lambda values: list(map(values.__getitem__, chosen)))

    def slice(self, start: int, stop: int) -> RefColumns:
        """The references from one place to before another."""
        return self if (start, stop) == (0, len(self)) else self._choose(lambda values: values[start:stop])

    def replace(self, **shared: Any) -> RefColumns:
        """The same references with other values of attributes that may be shared."""
        return dataclasses.replace(self, shared={**self.shared, **shared})

    def all_labels(self) -> Iterator[Sequence[Scalar]]:
        """`SampleRef.labels` of each."""
        for label, objects in zip(self.labels, self.each("objects"), strict=True):
            if objects is not None:
                yield Objects.unpack_labels(objects)
            else:
                yield label if isinstance(label, list) else (label,)

    def identities(self) -> Iterator[bytes]:
        """`pack_identity` of each."""
        of_file = map(self.each, ("split", "size", "fingerprint"))
        others = map(self.each, ("failure", "images", "objects"))
        return map(pack_identity, self.keys, *of_file, self.labels, self._cells(), *others)

    def uris(self) -> list[str | None]:
        """`SampleRef.uri` of each."""
        return [next(map(name_of_place, images.values()), None) for images in self.each("images")]

    def files(self) -> Iterator[str]:
        """The files that their images are read from."""
        return (file_of_place(place) for images in self.each("images") for place in images.values())

    def places(self) -> Iterator[bytes]:
        """`pack_places` of each."""
        return map(pack_places, self.each("images"))

    def _cells(self) -> Iterable[dict[str, Value]]:
        """The columns of each."""
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
        """The references as bytes; those of other batches can follow."""
        shared = [_share(values) if isinstance(values, list) else values for values in self.shared.values()]
        # At 10^9 samples, most blocks get one of a chunk, so that every byte counts.
        while shared and shared[-1] is None:
            shared.pop()
        packed: bytes = msgpack.packb((self.keys, self.labels, self.columns, *shared))
        return packed

    def pack_rows(self) -> Iterator[bytes]:
        """Each reference as bytes, without the names of its columns."""
        cells = zip(*self.columns.values(), strict=True) if self.columns else itertools.repeat(())
        rows = zip(self.keys, self.labels, cells, *map(self.each, _OF_REF), strict=False)
        return map(msgpack.packb, rows)

    @classmethod
    def of_packed_rows(cls, rows: Iterable[bytes], names: Sequence[str]) -> RefColumns:
        """The reverse of `pack_rows`.

        Args:
          names: of their columns.
        """
        keys, labels, cells, *shared = map(list, zip(*map(msgpack.unpackb, rows), strict=True))
        columns = dict(zip(names, map(list, zip(*cells, strict=True)), strict=True))
        return cls(keys, labels, columns, {**dict(zip(_OF_REF, map(_share, shared), strict=True)), "overflow": None})


def one_by_one(samples: Iterable[SampleRef | RefColumns]) -> Iterator[SampleRef]:
    """The references of a source."""
    for found in samples:
        yield from found if isinstance(found, RefColumns) else (found,)


def by_column(samples: Iterable[SampleRef | RefColumns]) -> Iterator[RefColumns]:
    """The references of a source in their order, by column; `_MOST_READ` in a batch of those that are not so."""
    for kind, alike in itertools.groupby(samples, key=type):
        if kind is RefColumns:
            yield from cast("Iterable[RefColumns]", alike)
        else:
            yield from RefColumns.of(cast("Iterable[SampleRef]", alike), most=_MOST_READ)


def join_alike(batches: Iterable[RefColumns]) -> Iterator[RefColumns]:
    """The references of batches in their order, in as few batches as their names allow."""
    for _, alike in itertools.groupby(batches, key=lambda refs: (tuple(refs.columns), refs.shared["overflow"] is None)):
        yield RefColumns.join(list(alike))


def pack_refs(refs: Iterable[SampleRef]) -> bytes:
    """References as `join_packed` joins those of batches."""
    return join_packed(batch.pack() for batch in RefColumns.of(refs))


def join_packed(packed: Iterable[bytes]) -> bytes:
    """Joins what `RefColumns.pack` returns and compresses it: what is the same, such as folders, is stored once."""
    return zlib.compress(b"".join(packed), level=1)


def unpack_refs(joined: bytes) -> Iterator[RefColumns]:
    """The reverse of `join_packed`."""
    return unpack_batches(zlib.decompress(joined))


def unpack_batches(data: bytes) -> Iterator[RefColumns]:
    """The reverse of `RefColumns.pack`, of batches one behind the other."""
    unpacker = msgpack.Unpacker(max_buffer_size=max(1, len(data)))
    unpacker.feed(data)
    for keys, labels, columns, *shared in unpacker:
        yield RefColumns(keys, labels, columns, dict(itertools.zip_longest(_SHARED, shared)))
    if unpacker.tell() != len(data):
        raise ValueError("references end in the middle")


def long_bytes(ref: SampleRef) -> int:
    """Bytes of the long values of a reference."""
    size = sum([len(value) for value in (ref.label, *ref.columns.values()) if isinstance(value, _LONG)])
    if ref.objects is not None:
        size += len(ref.objects.labels) * _OBJECT_BYTES + sum(map(len, ref.objects.polygons))
    return size


def _take_fitting(refs: Iterator[SampleRef], most: int) -> list[SampleRef]:
    """The next references that may be held at once."""
    taken, size = [], 0
    for ref in refs:
        taken.append(ref)
        size += long_bytes(ref)
        if len(taken) == most or size >= _MOST_BYTES:
            break
    return taken


def _share(values: list[Any]) -> Any:
    """The value that all have; a list of them all if they differ, or if it could be taken for one."""
    first = values[0]
    return first if not isinstance(first, list) and values.count(first) == len(values) else values


def _join(several: Sequence[tuple[Any, int]]) -> Any:
    """Joins shared attributes: (the value of all or a list of that of each, how many they are)."""
    first = several[0][0]
    if not isinstance(first, list) and all(found == first for found, _ in several):
        return first
    return _chain(found if isinstance(found, list) else itertools.repeat(found, count) for found, count in several)


def _chain(several: Iterable[Iterable[Any]]) -> list[Any]:
    return list(itertools.chain.from_iterable(several))
