"""What records consist of: the stored records of datasets, and an order that chooses from them or mixes them."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from beam_tfrecords.escaping import escape
from beam_tfrecords.features.fields import Stored
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.geometry.sizes import ImageSize, ResizeMode
from beam_tfrecords.reading.decoding import ReadExample
from beam_tfrecords.reading.record_columns import RecordColumns
from beam_tfrecords.reading.resizing import Resize
from beam_tfrecords.reading.shard_reader import ShardReader
from beam_tfrecords.reading.shuffling import MixOrder


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


@dataclasses.dataclass(frozen=True, eq=False)
class Chosen:
    """Records of one dataset.

    Attributes:
      size: number of records in the shards.
      numbers: numbers of the records that a filter or a slice has kept, in their order; None for all records.
    """

    size: int
    numbers: np.ndarray | None = None

    def __len__(self) -> int:
        return self.size if self.numbers is None else len(self.numbers)

    def __call__(self, places: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the number of the source of each position, which is 0, and the number of its record there."""
        return np.zeros(len(places), np.int64), np.array(self.take(places), np.int64)

    def take(self, places: Sequence[int]) -> Sequence[int]:
        """Returns the number of the record at each position; lists are faster than arrays for single records."""
        return places if self.numbers is None else self.numbers[places].tolist()

    def choose(self, chosen: slice | np.ndarray) -> Chosen:
        """Returns the positions at an index of an array."""
        if self.numbers is not None:
            return Chosen(self.size, self.numbers[chosen])
        if isinstance(chosen, slice):
            return Chosen(self.size, np.arange(*chosen.indices(self.size)))
        numbers = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64) % self.size
        return Chosen(self.size, numbers)

    def describe(self, sources: Sequence[DatasetRecords]) -> str:
        """Describes the records as `repr` shows them."""
        reader = sources[0].reader
        splits = ", ".join(dict.fromkeys(shard.split for shard in reader.shards))
        return escape(f"<{len(self):,} records of {splits} in {reader.path}>")

    def digest(self, sources: Sequence[DatasetRecords], class_names: Sequence[str]) -> str:
        """Returns 16 hex digits that identify the records, independent of the path."""
        shards = [(shard.file, shard.crc32c) for shard in sources[0].reader.shards]
        named = hashlib.sha256(repr(shards).encode())
        named.update(b"" if self.numbers is None else self.numbers.astype("<i8").tobytes())
        return named.hexdigest()[:16]


@dataclasses.dataclass(frozen=True, eq=False)
class Mixture:
    """Records of several parts in one order, for `Records`.

    Attributes:
      parts: sources of each part, and their order.
      order: the part and the number of each position.
      named: weights and seed.
      chosen: the positions that are left, in their order.
    """

    parts: Sequence[tuple[int, Chosen | Mixture]]
    order: MixOrder
    named: str
    chosen: Sequence[int]

    def __len__(self) -> int:
        return len(self.chosen)

    def __call__(self, places: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the number of the source of each position, and the number of its record there."""
        which, own = self.order(np.array([self.chosen[place] for place in places], np.int64))
        sources, numbers, first = np.empty_like(own), np.empty_like(own), 0
        for part, (count, order) in enumerate(self.parts):
            at = which == part
            found, numbers[at] = order(own[at])
            sources[at] = first + found
            first += count
        return sources, numbers

    def choose(self, chosen: slice | np.ndarray) -> Mixture:
        """Returns the positions at an index of an array."""
        kept = self.chosen[chosen] if isinstance(chosen, slice) else tuple(np.asarray(self.chosen)[chosen].tolist())
        return dataclasses.replace(self, chosen=kept)

    def describe(self, sources: Sequence[DatasetRecords]) -> str:
        """Describes the records as `repr` shows them."""
        parts = ", ".join(order.describe(own) for own, order in self._split(sources))
        return f"<{len(self):,} records mixed of {parts}>"

    def digest(self, sources: Sequence[DatasetRecords], class_names: Sequence[str]) -> str:
        """Returns 16 hex digits that identify the records, independent of the paths."""
        digests = [order.digest(own, class_names) for own, order in self._split(sources)]
        return hashlib.sha256(repr((digests, self.named, self.chosen, class_names)).encode()).hexdigest()[:16]

    def _split(self, sources: Sequence[DatasetRecords]) -> Iterator[tuple[Sequence[DatasetRecords], Chosen | Mixture]]:
        rest = iter(sources)
        return ((list(itertools.islice(rest, count)), order) for count, order in self.parts)
