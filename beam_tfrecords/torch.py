"""Records for PyTorch: a dataset by number, and one that streams in a shuffled order and can be resumed."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

try:
    import torch.utils.data
except ImportError as error:
    raise ImportError(
        "beam_tfrecords.torch needs PyTorch: pip install '.[torch]' in a clone of beam-tfrecords"
    ) from error

from beam_tfrecords.examples.layouts import MASK_FIELD, no_pair
from beam_tfrecords.reading.collating import Pair
from beam_tfrecords.reading.records import Records, check_records
from beam_tfrecords.reading.resizing import ImageSize, ResizeMode
from beam_tfrecords.reading.shuffling import LISTED, RunShuffle, Shuffle
from beam_tfrecords.reading.torch_collating import collate

__all__ = ["RecordDataset", "RecordStream", "collate"]


class RecordDataset(torch.utils.data.Dataset[Any]):
    """Records by number, for a `DataLoader` that shuffles by itself; a batch is fetched at once.

    Args:
      records: of `Dataset.records`, also filtered.
      image_size: (height, width) in pixels of images, or one number for both, as in `load`.
      resize_mode: how images reach it, as in `load`.
      as_supervised: gives (image, label), or (image, mask), as tensors instead of a dict: images are [C, H, W] uint8,
        or uint16 if they are stored with 16 bits, and masks [H, W] int64.
      transform: applied to every example, a dict, or a pair.
      shard: (i, n) keeps the i-th of n contiguous parts of the same length; the last `len(records) % n` records are in
        none.

    Raises:
      TypeError: they are no records.
      ValueError: there is no such shard or size, or no image with a label.
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
        """Several examples; a `DataLoader` asks for those of a batch."""
        return self._records.batchable(list(map(self._give, self._records.read_batch(numbers))))


class RecordStream(torch.utils.data.IterableDataset[Any]):
    """Records in an order of their own, with a state.

    The batches of a `DataLoader` with the same `batch_size` are the same for every number of workers: each worker reads
    every n-th batch. So the state is how many examples of the epoch were had. `StatefulDataLoader` of torchdata keeps
    it; with a plain `DataLoader`, say `state_dict(examples=...)`.

    An iteration begins where `load_state_dict` said, for as long as the epoch is the same. `set_epoch`, which is called
    before each epoch, chooses its order.

    Args:
      records: of `Dataset.records`, also filtered.
      batch_size: that of the `DataLoader`; so many records are read at once.
      shuffle: whether each epoch has an order of its own; else all have that of the dataset.
      seed: of the shuffle; every process needs the same.
      run_length: so many neighbours stay together in a shuffle; a bucket is asked once for a run, and not for each
        record. Each epoch has other runs.
      image_size: as in `RecordDataset`.
      resize_mode: as there.
      as_supervised: as there.
      transform: as there.
      shard: (i, n) keeps the i-th of n parts of the order of the same length; `len(records) % n` records, other ones in
        each epoch of a shuffle, are in none.

    Raises:
      TypeError: they are no records.
      ValueError: there is no such shard or size, or no image with a label.
    """

    def __init__(
        self,
        records: Records,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        run_length: int = 1,
        image_size: ImageSize = None,
        resize_mode: ResizeMode | None = None,
        as_supervised: bool = False,
        transform: Callable[[Any], Any] | None = None,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        if run_length < 1:
            raise ValueError(f"run_length={run_length}: expected 1 or more")
        self._share, self._begin = _share(records, shard)
        resized = records.resized(image_size, resize_mode)
        self._run_length = operator.index(run_length)
        self._batch_size = batch_size
        # Order and identity depend on their texts, and NumPy's numbers have others.
        self._shuffle = shuffle = bool(shuffle)
        self._seed = seed = operator.index(seed)
        shard = operator.index(shard[0]), operator.index(shard[1])
        self._give = _MakeItem.of(resized, as_supervised=as_supervised, transform=transform)
        self._records = self._give.prepare(resized)
        # A short order is another one than in version 0.2.
        listed = " listed" if shuffle and len(records) <= LISTED else ""
        runs = f" runs of {self._run_length}" if shuffle and run_length > 1 else ""
        self._identity = f"{records.digest} {shuffle} {seed} {shard}{listed}{runs}"
        # Epoch, and examples of it that were had before the iteration; persistent workers see what this process sets.
        self._position = torch.zeros(2, dtype=torch.int64)
        # Without a /dev/shm that can be written to, PyTorch has no persistent workers either.
        with contextlib.suppress(RuntimeError, OSError):
            self._position.share_memory_()
        # Examples that this process has given since, and those of them that its next iteration passes over.
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
        """Where the iteration is.

        Args:
          examples: how many the loop has had of this iteration; None where the dataset itself is iterated, or where
            `StatefulDataLoader` asks in each of its workers.
        """
        epoch, begin = self._position.tolist()
        given = self._given if examples is None else examples
        if torch.utils.data.get_worker_info() is None:
            begin, given = begin + given, 0
        return {"identity": self._identity, "epoch": epoch, "begin": begin, "given": given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Lets the next iteration go on from a state.

        Raises:
          ValueError: the state is that of other records, or of another seed or shard.
        """
        if state["identity"] != self._identity:
            raise ValueError(
                f"the state is that of {state['identity']}; expected {self._identity} (records, shuffle, seed, shard)"
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

    def _make_order(self, epoch: int) -> Callable[[np.ndarray], np.ndarray]:
        """What gives the numbers at some places of an epoch."""
        if not self._shuffle:
            return np.asarray
        if self._run_length == 1:
            return Shuffle(len(self._records), self._seed, epoch)
        return RunShuffle(len(self._records), self._run_length, self._seed, epoch)

    def _iterate(self, epoch: int, starts: Iterable[int], cut: int) -> Iterator[Any]:
        """The examples of the batches that begin at some places of the order, but for the first `cut` of them."""
        order = self._make_order(epoch)
        places = (np.arange(start, min(start + self._batch_size, self._share)) for start in starts)
        batches = (order(self._begin + batch[0 if number else cut :]) for number, batch in enumerate(places))
        for examples in self._records.read_batches(batches):
            for example in self._records.batchable(list(map(self._give, examples))):
                self._given += 1
                yield example


@dataclasses.dataclass(frozen=True)
class _MakeItem:
    """Makes of an example what a dataset gives.

    Attributes:
      pair: names of the features that are image and label; None for all of them.
      is_mask: whether the label is a mask.
      transform: as in `RecordDataset`.
    """

    pair: tuple[str, str] | None
    is_mask: bool
    transform: Callable[[Any], Any] | None

    @classmethod
    def of(cls, records: Records, *, as_supervised: bool, transform: Callable[[Any], Any] | None) -> _MakeItem:
        if not as_supervised:
            return cls(None, False, transform)
        pair = records.layout.supervised
        if pair is None:
            raise ValueError(no_pair(records.layout))
        masks = [feature.name for feature in records.layout.features if feature.field == MASK_FIELD]
        return cls(pair, pair[1] in masks, transform)

    def prepare(self, records: Records) -> Records:
        """The records that give what it is called with."""
        return records.in_planes(self.pair[0]) if self.pair else records

    def __call__(self, example: Any) -> Any:
        if self.pair:
            image, label = (example[name] for name in self.pair)
            if self.is_mask:
                label = torch.from_numpy(label[..., 0].astype(np.int64))
            elif isinstance(label, np.ndarray):
                label = torch.from_numpy(label)
            example = Pair((torch.from_numpy(image), label))
        return self.transform(example) if self.transform else example


def _share(records: Records, shard: tuple[int, int]) -> tuple[int, int]:
    """Length of a shard of records, and where it begins."""
    number, of = shard
    check_records(records)
    if not 0 <= number < of:
        raise ValueError(f"shard={shard}: expected (i, n) with i from 0 to n - 1")
    if len(records) < of:
        raise ValueError(f"shard={shard}: there are {len(records)} records; expected at least one for each shard")
    return len(records) // of, number * (len(records) // of)
