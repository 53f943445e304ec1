"""Records for Grain: a random access source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_tfrecords.extras import install_hint

try:
    import grain
except ImportError as error:
    raise ImportError(f"beam_tfrecords.grain needs Grain: {install_hint('grain')}") from error

from beam_tfrecords.geometry.sizes import ImageSize, ResizeMode
from beam_tfrecords.reading.collating import make_batch, ragged_names
from beam_tfrecords.reading.records import Records, check_records


class RecordSource(grain.sources.RandomAccessDataSource[Any]):
    """A random access source of records.

        >>> from beam_tfrecords import open_dataset
        >>> source = RecordSource(open_dataset("out/")["train"], image_size=8, resize_mode="crop", as_supervised=True)
        >>> image, label = source[0]
        >>> image.shape
        (8, 8, 3)

    Grain compares the `repr` of a source when it restores a checkpoint. This `repr` identifies the records, not their
    path, so a checkpoint fits a copy of the dataset and no other dataset.

    Args:
      records: from `Dataset.records`; may be filtered.
      image_size: (height, width) of images in pixels, or one number for both, as in `load`.
      resize_mode: how images are resized, as in `load`.
      as_supervised: returns (image, label), or (image, mask), instead of a dict.

    Raises:
      TypeError: `records` is not a `Records`.
      ValueError: the size is invalid, or examples have no image with a label.
    """

    def __init__(
        self,
        records: Records,
        *,
        image_size: ImageSize = None,
        resize_mode: ResizeMode | None = None,
        as_supervised: bool = False,
    ) -> None:
        self._records = check_records(records).resized(image_size, resize_mode)
        self._pair = self._records.layout.find_pair(decoded=self._records.has_pixels) if as_supervised else None

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, number: int) -> Any:
        return self._getitems([number])[0]

    def _getitems(self, numbers: Sequence[int]) -> list[Any]:
        examples = self._records._getitems(numbers)
        return [(example[self._pair[0]], example[self._pair[1]]) for example in examples] if self._pair else examples

    def collate(self, examples: Sequence[Any]) -> Any:
        """Makes a batch, for `batch(8, batch_fn=source.collate)`; features with any number of values become lists.

        Raises:
          ValueError: images have different sizes.
        """
        ragged = ragged_names(self._records.layout.features)
        return make_batch(examples, ragged, stack=np.stack, convert=np.asarray)

    def __repr__(self) -> str:
        return f"RecordSource({len(self)} records, {self._records.digest})"
