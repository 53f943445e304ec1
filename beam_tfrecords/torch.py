"""Records for PyTorch: a map-style dataset, a stream that is shuffled and can be resumed, and their batches."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from beam_tfrecords.extras import install_hint

try:
    import torch.utils.data
except ImportError as error:
    raise ImportError(f"beam_tfrecords.torch needs PyTorch: {install_hint('torch')}") from error

from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.fields import Stored
from beam_tfrecords.features.layouts import decoded_names
from beam_tfrecords.geometry.sizes import ImageSize, ResizeMode
from beam_tfrecords.reading.collating import Pair, collate, teach_torch
from beam_tfrecords.reading.records import Records, check_records
from beam_tfrecords.reading.shuffling import LISTED, Shuffle

__all__ = ["RecordDataset", "RecordStream", "collate"]


class RecordDataset(torch.utils.data.Dataset[Any]):
    """A map-style dataset, for a `DataLoader` that shuffles. Reads all records of a batch together.

    Images are [C, H, W], as PyTorch expects them, in dicts and in pairs; the records themselves have [H, W, C].

        >>> from beam_tfrecords import open_dataset
        >>> dataset = RecordDataset(open_dataset("out/")["train"], image_size=8, resize_mode="crop", as_supervised=True)
        >>> image, label = dataset[0]
        >>> tuple(image.shape)
        (3, 8, 8)

    Args:
      records: from `Dataset.records`; may be filtered.
      image_size: (height, width) of images in pixels, or one number for both, as in `load`.
      resize_mode: how images are resized, as in `load`.
      as_supervised: returns (image, label), or (image, mask), as tensors instead of a dict: images are uint8, or uint16
        if they are stored with 16 bits, and masks [H, W] int64.
      transform: applied to every example, which is a dict or a pair.
      shard: (i, n) keeps the i-th of n contiguous shards of equal length, without the last `len(records) % n` records.

    Raises:
      TypeError: `records` is not a `Records`.
      ValueError: the shard or the size is invalid, or examples have no image with a label.
    """

    def __init__(
        self,
        records: Records,
        *,
        image_size: ImageSize = None,
        resize_mode: ResizeMode | None = None,
        as_supervised: bool = False,
        transform: Callable[[Any], Any] | None = None,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        share, begin = _share(records, shard)
        kept = records[begin : begin + share] if shard[1] > 1 else records
        resized = kept.resized(image_size, resize_mode)
        self._give = _MakeItem.of(resized, as_supervised=as_supervised, transform=transform)
        self._records = self._give.prepare(resized)

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, number: int) -> Any:
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        """Returns several examples; a `DataLoader` calls this once per batch."""
        return self._records.batchable(list(map(self._give, self._records.read_batch(numbers))))


class RecordStream(torch.utils.data.IterableDataset[Any]):
    """A shuffled stream of records whose position can be saved and restored.

        >>> from beam_tfrecords import open_dataset
        >>> stream = RecordStream(open_dataset("out/")["train"], batch_size=2, shuffle=True)
        >>> _ = next(iter(stream))
        >>> stream.state_dict()["begin"]
        1

    A `DataLoader` with the same `batch_size` yields the same batches for every number of workers, because each of n
    workers reads every n-th batch. The state is therefore the number of examples of the epoch that have been consumed.
    `StatefulDataLoader` of torchdata saves it; with a plain `DataLoader`, call `state_dict(examples=...)`.

    An iteration starts at the position that `load_state_dict` set, until the epoch changes. Call `set_epoch` before
    each epoch to choose its order.

    Args:
      records: from `Dataset.records`; may be filtered.
      batch_size: the `DataLoader`'s batch size; also the number of records that are read together.
      shuffle: whether each epoch has its own order; otherwise every epoch has the order of the dataset.
      seed: seed of the shuffle; must be the same in every process.
      image_size: as in `RecordDataset`.
      resize_mode: as in `RecordDataset`.
      as_supervised: as in `RecordDataset`.
      transform: as in `RecordDataset`.
      shard: (i, n) keeps the i-th of n shards of equal length of the order, and drops `len(records) % n` records, which
        differ in each epoch of a shuffle.

    Raises:
      TypeError: `records` is not a `Records`.
      ValueError: the shard, a size or a length is invalid, or examples have no image with a label.
    """

    def __init__(
        self,
        records: Records,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        image_size: ImageSize = None,
        resize_mode: ResizeMode | None = None,
        as_supervised: bool = False,
        transform: Callable[[Any], Any] | None = None,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        if operator.index(batch_size) < 1:
            raise ValueError(f"batch_size={batch_size}: expected 1 or more")
        self._share, self._begin = _share(records, shard)
        resized = records.resized(image_size, resize_mode)
        self._batch_size = batch_size
        # The order and the identity depend on the values' text, which differs for NumPy numbers.
        self._shuffle = shuffle = bool(shuffle)
        self._seed = seed = operator.index(seed)
        shard = operator.index(shard[0]), operator.index(shard[1])
        self._give = _MakeItem.of(resized, as_supervised=as_supervised, transform=transform)
        self._records = self._give.prepare(resized)
        # Short orders have changed since version 0.2.
        listed = " listed" if shuffle and len(records) <= LISTED else ""
        self._identity = f"{records.digest} {shuffle} {seed} {shard}{listed}"
        # The epoch, and the examples of it that were consumed before this iteration. Shared with persistent workers.
        self._position = torch.zeros(2, dtype=torch.int64)
        # Without a writable /dev/shm, PyTorch has no persistent workers either.
        with contextlib.suppress(RuntimeError, OSError):
            self._position.share_memory_()
        # Examples that this process has yielded since then, and how many of them its next iteration skips.
        self._given = self._passed = 0

    def __len__(self) -> int:
        return self._share

    @property
    def epoch(self) -> int:
        """Number of the epoch, from 0."""
        return int(self._position[0])

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next iterations."""
        if epoch != self.epoch:
            self._position.copy_(torch.tensor([epoch, 0]))
            self._given = self._passed = 0

    def state_dict(self, *, examples: int | None = None) -> dict[str, Any]:
        """Returns the position of the iteration.

        Args:
          examples: number of examples that the loop has consumed in this iteration; None if the dataset itself is
            iterated, or if `StatefulDataLoader` calls this in each of its workers.
        """
        epoch, begin = self._position.tolist()
        given = self._given if examples is None else examples
        if torch.utils.data.get_worker_info() is None:
            begin, given = begin + given, 0
        return {"identity": self._identity, "epoch": epoch, "begin": begin, "given": given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iteration continue from a saved state.

        Raises:
          ValueError: the state belongs to other records, another seed or another shard.
        """
        if state["identity"] != self._identity:
            raise ValueError(
                f"the state belongs to {state['identity']}; expected {self._identity} (records, shuffle, seed, shard)"
            )
        self._position.copy_(torch.tensor([state["epoch"], state["begin"]]))
        self._given = self._passed = state["given"]

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        own, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        epoch, begin = self._position.tolist()
        self._given, self._passed = self._passed, 0
        starts = range(begin + own * self._batch_size, self._share, workers * self._batch_size)
        return self._iterate(epoch, starts[self._given // self._batch_size :], self._given % self._batch_size)

    def _iterate(self, epoch: int, starts: Iterable[int], cut: int) -> Iterator[Any]:
        """Yields the examples of the batches that start at `starts` in the order, without the first `cut` examples."""
        order = Shuffle(len(self._records), self._seed, epoch) if self._shuffle else np.asarray
        places = (np.arange(start, min(start + self._batch_size, self._share)) for start in starts)
        batches = (order(self._begin + batch[0 if number else cut :]) for number, batch in enumerate(places))
        for examples in self._records.read_batches(batches):
            for example in self._records.batchable(list(map(self._give, examples))):
                self._given += 1
                yield example


teach_torch()


@dataclasses.dataclass(frozen=True)
class _MakeItem:
    """Converts an example to an item of the dataset.

    Attributes:
      pair: names of the image and label features; None for a dict of all features.
      is_mask: whether the label is a mask.
      transform: as in `RecordDataset`.
    """

    pair: tuple[str, str] | None
    is_mask: bool
    transform: Callable[[Any], Any] | None

    @classmethod
    def of(cls, records: Records, *, as_supervised: bool, transform: Callable[[Any], Any] | None) -> _MakeItem:
        if not (transform is None or callable(transform)):
            raise TypeError(
                f"transform={transform!r}: found {type(transform).__name__}; expected a function of an example"
            )
        if not as_supervised:
            return cls(None, False, transform)
        # A pair has the mask if there is one.
        return cls(
            records.layout.find_pair(decoded=records.has_pixels), Stored.MASK in records.layout.stored, transform
        )

    def prepare(self, records: Records) -> Records:
        """Returns the records in the form that `__call__` expects."""
        if not records.has_pixels:
            return records
        names = decoded_names(features := records.layout.features)
        # Arrays have the axes of their files.
        of_images = [one for one in features if one.holds_image and Content.ARRAY not in one.kind.contents]
        images = [names.get(one.name, one.name) for one in of_images]
        return records.in_planes([self.pair[0]] if self.pair else images)

    def __call__(self, example: Any) -> Any:
        if self.pair:
            image, label = (example[name] for name in self.pair)
            if self.is_mask:
                label = torch.from_numpy(label[..., 0].astype(np.int64))
            elif isinstance(label, np.ndarray):
                label = torch.from_numpy(label)
            example = (torch.from_numpy(image), label)
        if self.transform:
            example = self.transform(example)
        # Transforms of torchvision take only a tuple of Python's own apart.
        return Pair(example) if type(example) is tuple and len(example) == 2 else example


def _share(records: Records, shard: tuple[int, int]) -> tuple[int, int]:
    """Returns the length of a shard of records, and its start."""
    number, of = shard
    check_records(records)
    if not 0 <= number < of:
        raise ValueError(f"shard={shard}: expected (i, n) with i from 0 to n - 1")
    if len(records) < of:
        raise ValueError(f"shard={shard}: there are {len(records)} records; expected at least one for each shard")
    return len(records) // of, number * (len(records) // of)
