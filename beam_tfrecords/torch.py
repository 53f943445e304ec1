"""Datasets for PyTorch over the records of a split. Only this module imports PyTorch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

try:
    import torch.utils.data
except ImportError as error:
    raise ImportError("beam_tfrecords.torch needs PyTorch; see https://pytorch.org for how to install it") from error

from beam_tfrecords.dataset import Form, open_dataset
from beam_tfrecords.reading.records import Records

# Records that an iteration asks for at once.
_GROUP = 64


class MapDataset(torch.utils.data.Dataset[Any]):
    """The examples of a split by their number, for a DataLoader that shuffles.

    Args:
      path: the dataset's folder, or records, such as those that a filter has kept.
      split: name of the split; None for records.
      transform: applied to every example, a dict by feature name with images as [H, W, C] uint8 arrays.
      form: as in `Dataset.records`.

    Raises:
      RequestError: there is no such dataset or split, or it cannot be read at random.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Records,
        split: str | None = None,
        *,
        transform: Callable[[Any], Any] | None = None,
        form: Form = "pixels",
    ) -> None:
        self.records = _open(path, split, form)
        self._transform = transform

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, number: int) -> Any:
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        """Several examples; a DataLoader asks for a batch at once."""
        examples = self.records.__getitems__(numbers)
        return [self._transform(example) for example in examples] if self._transform else examples


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """The examples of a split in their order, or shuffled anew in every epoch; workers share them.

    Its state is how far an iteration has come: that of a DataLoader without workers, or of torchdata's
    StatefulDataLoader with them.

    Args:
      path: the dataset's folder, or records.
      split: name of the split; None for records.
      shuffle: whether the order is that of `seed` and the epoch instead of the dataset's.
      seed: of the shuffle.
      shard: (index, number) of the machines or GPUs that share the split; each gets the same number of examples, and
        the last `records % number` of the order are read by none.
      transform: as in `MapDataset`.
      form: as in `Dataset.records`.

    Raises:
      RequestError: there is no such dataset or split, or it cannot be read at random.
      ValueError: the shard is not one of the number.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Records,
        split: str | None = None,
        *,
        shuffle: bool = False,
        seed: int = 0,
        shard: tuple[int, int] = (0, 1),
        transform: Callable[[Any], Any] | None = None,
        form: Form = "pixels",
    ) -> None:
        if not 0 <= shard[0] < shard[1]:
            raise ValueError(f"shard={shard}: expected (index, number) with an index of 0 or more below the number")
        self.records = _open(path, split, form)
        self._shuffle, self._seed, self._shard, self._transform = shuffle, seed, shard, transform
        self._epoch = self._position = 0

    def __len__(self) -> int:
        return len(self.records) // self._shard[1]

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next iteration; before an epoch, in the process of the DataLoader."""
        self._epoch, self._position = epoch, 0

    def state_dict(self) -> dict[str, int]:
        """Where the iteration is; in a DataLoader's worker, that of the worker."""
        return {"epoch": self._epoch, "position": self._position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """The next iteration begins where the state was."""
        self._epoch, self._position = state["epoch"], state["position"]

    def __iter__(self) -> Iterator[Any]:
        size = len(self.records)
        order = np.random.default_rng([self._seed, self._epoch]).permutation(size) if self._shuffle else np.arange(size)
        index, _ = self._shard
        numbers = order[index * len(self) : (index + 1) * len(self)]
        worker = torch.utils.data.get_worker_info()
        if worker is not None:
            numbers = numbers[worker.id :: worker.num_workers]
        while self._position < len(numbers):
            for example in self.records.__getitems__(numbers[self._position : self._position + _GROUP]):
                self._position += 1
                yield self._transform(example) if self._transform else example
        self._position = 0


def _open(path: str | os.PathLike[str] | Records, split: str | None, form: Form) -> Records:
    if isinstance(path, Records):
        return path
    if split is None:
        raise ValueError("split: expected the name of a split, such as 'train'")
    return open_dataset(path).records(split, form=form)
