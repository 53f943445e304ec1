"""The stored records of one dataset, of which records consist."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from beam_tfrecords.escaping import escape
from beam_tfrecords.features.fields import Stored
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.geometry.sizes import ImageSize, ResizeMode
from beam_tfrecords.reading.decoding import ReadExample
from beam_tfrecords.reading.record_columns import RecordColumns
from beam_tfrecords.reading.resizing import Resize
from beam_tfrecords.reading.shard_reader import ShardReader


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
