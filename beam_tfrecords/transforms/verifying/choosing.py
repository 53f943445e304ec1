"""Chooses the shards of a dataset that are checked."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from beam_tfrecords.dataset.dataset import Dataset, DatasetRef
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.transforms.hashing import order_hashes

# Numbers of shards that a job hands to a worker at once.
_GROUP = 256


@dataclasses.dataclass(frozen=True)
class ChosenShards:
    """The shards of a dataset that are checked.

    Attributes:
      ref: the dataset.
      numbers: numbers of the chosen shards among all shards, ascending.
      records: number of records in the chosen shards.
      are_all: whether every shard is chosen.
    """

    ref: DatasetRef
    numbers: Sequence[int]
    records: int
    are_all: bool

    def groups(self) -> list[Sequence[int]]:
        """Returns the numbers in groups, which a worker expands with `read_shards`."""
        return [self.numbers[start : start + _GROUP] for start in range(0, len(self.numbers), _GROUP)]


def choose_shards(dataset: Dataset, share: float = 1.0) -> ChosenShards:
    """Chooses a share of the shards of each split, at least one.

    The choice depends on the manifest alone, so that each check of a dataset chooses the same shards, and a check of
    its next version chooses others.

    Args:
      dataset: the dataset.
      share: more than 0, up to 1.
    """
    shards = dataset.shards
    seed = int(dataset.manifest_sha256[:8], 16)
    chosen: list[int] = []
    for start, end in itertools.pairwise([*dataset.split_starts.values(), dataset.num_shards]):
        order = np.argsort(order_hashes(seed=seed, keys=map(str, range(start, end))), kind="stable")
        chosen += sorted((start + order[: math.ceil(share * (end - start))]).tolist())
    records = sum(shards[number].records for number in chosen)
    return ChosenShards(dataset.ref, chosen, records, len(chosen) == len(shards))


def read_shards(group: Sequence[int], ref: DatasetRef) -> Iterator[Shard]:
    """Yields the shards of a group.

    Raises:
      BuildError: another dataset has replaced this one.
    """
    shards = _open(ref).shards
    yield from (shards[number] for number in group)


_open = functools.lru_cache(maxsize=1)(DatasetRef.open)
