"""Orders of shuffles and mixtures that compute every position independently, so that no list of them is in memory."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np

_ROUNDS = 6
# Orders of up to this size are lists: a network of few bits favors some orders over others.
LISTED = 1 << 12
# Length of the pattern that a mixture repeats; weights are rounded to multiples of 1 / _PERIOD.
_PERIOD = 10_000


class Shuffle:
    """A permutation of the numbers below `size`; depends only on the seeds.

    A Feistel network permutes the next larger power of four; numbers that are too large are permuted again. Short
    orders are sorted by the numbers' hashes.

    Args:
      size: number of elements.
      seeds: determine the order.
    """

    def __init__(self, size: int, *seeds: int) -> None:
        self._size = size
        self._half = np.uint64((max(2, size - 1).bit_length() + 1) // 2)
        digest = hashlib.sha256(repr(seeds).encode()).digest() * 2
        self._keys = np.frombuffer(digest, "<u8")[:_ROUNDS]
        # Steps of SplitMix64, starting at the first key.
        steps = np.arange(1, size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) if size <= LISTED else None
        self._listed = None if steps is None else np.argsort(_mix(self._keys[0] + steps), kind="stable")

    def __call__(self, places: np.ndarray) -> np.ndarray:
        """Returns the numbers at these positions of the order."""
        if self._listed is not None:
            return self._listed[places]
        numbers = self._permute(places.astype(np.uint64))
        while (outside := numbers >= self._size).any():
            numbers[outside] = self._permute(numbers[outside])
        return numbers.astype(np.int64)

    def _permute(self, numbers: np.ndarray) -> np.ndarray:
        mask = (np.uint64(1) << self._half) - np.uint64(1)
        left, right = numbers >> self._half, numbers & mask
        for key in self._keys:
            left, right = right, left ^ _mix(right + key) & mask
        permuted: np.ndarray = left << self._half | right
        return permuted


class RunShuffle:
    """A permutation that keeps runs of neighbors together; the seeds also decide where the runs start.

    Args:
      size: number of elements.
      length: length of a run; the last run may be shorter.
      seeds: determine the order.
    """

    def __init__(self, size: int, length: int, *seeds: int) -> None:
        self._size, self._length = size, length
        self._runs = size // length
        self._order = Shuffle(max(1, self._runs), *seeds)
        self._begin = int(Shuffle(size, *seeds)(np.zeros(1, np.int64))[0])

    def __call__(self, places: np.ndarray) -> np.ndarray:
        """Returns the numbers at these positions of the order."""
        run, within = np.divmod(places, self._length)
        is_whole = run < self._runs
        numbers = np.where(is_whole, self._order(np.where(is_whole, run, 0)), run) * self._length + within
        shifted: np.ndarray = (numbers + self._begin) % self._size
        return shifted


def _mix(numbers: np.ndarray) -> np.ndarray:
    """Applies the finalizer of SplitMix64."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers >> np.uint64(31)


class MixOrder:
    """Maps each position of a mixture to a part and the number of an example in it.

    Parts are spread evenly according to their weights, with random positions inside each stretch. An exhausted part
    restarts; the mixture ends as soon as every part has been used completely.

    Args:
      sizes: number of examples in each part.
      weights: weights of the parts, with any sum.
      seed: seed of the random positions.
    """

    def __init__(self, sizes: Sequence[int], weights: Sequence[float], seed: int) -> None:
        shares = [max(1, round(_PERIOD * weight / math.fsum(weights))) for weight in weights]
        period = sum(shares)
        self._shares = np.array(shares)
        self._sizes = np.array(sizes)
        parts = np.repeat(np.arange(len(shares)), shares)
        ranks = np.concatenate([np.arange(share) for share in shares])
        chances = Shuffle(period, seed)(np.arange(period)) / period
        order = np.argsort((ranks + chances) / self._shares[parts], kind="stable")
        # Part of each position; repeats through the mixture: [period] int64.
        self._pattern = parts[order]
        # Positions of the first part in the pattern, then those of the second, and so on.
        self._places = np.argsort(self._pattern, kind="stable")
        # Number of earlier positions of the pattern with the same part.
        self._ranks = np.empty(period, np.int64)
        self._ranks[self._places] = ranks
        self._length = int(self._ends().max())

    def __len__(self) -> int:
        return self._length

    def _ends(self) -> np.ndarray:
        """Returns the number of positions until each part has been used completely."""
        periods, rank = np.divmod(self._sizes - 1, self._shares)
        ends: np.ndarray = periods * len(self._pattern) + self._places[self._shares.cumsum() - self._shares + rank] + 1
        return ends

    def __call__(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the part of each position, and the number of its example."""
        periods, at = np.divmod(places, len(self._pattern))
        parts = self._pattern[at]
        return parts, (periods * self._shares[parts] + self._ranks[at]) % self._sizes[parts]


def balanced_order(sizes: Sequence[int], *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the part and the number of the example for each position of an order that gives all parts equally often.

    The order consists of rounds that give each part once, until the largest part has been used completely.
    """
    return MixOrder(sizes, [1] * len(sizes), seed)(np.arange(len(sizes) * max(sizes)))
