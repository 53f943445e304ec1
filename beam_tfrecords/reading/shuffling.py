"""The order of a shuffle, which computes every position independently, and the order of a mixture."""

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


def _mix(numbers: np.ndarray) -> np.ndarray:
    """Applies the finalizer of SplitMix64."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers >> np.uint64(31)


def mix_order(sizes: Sequence[int], weights: Sequence[float], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the part and the number of an example in it for each position of a mixture.

    Parts are spread evenly according to their weights, with random positions inside each stretch. An exhausted part
    restarts; the mixture ends as soon as every part has been used completely.

    Args:
      sizes: number of examples in each part.
      weights: weights of the parts, with any sum.
      seed: seed of the random positions.
    """
    shares = np.array([max(1, round(_PERIOD * weight / math.fsum(weights))) for weight in weights])
    period, lengths = int(shares.sum()), np.array(sizes)
    own = np.repeat(np.arange(len(shares)), shares)
    ranks = np.concatenate([np.arange(share) for share in shares])
    chances = Shuffle(period, seed)(np.arange(period)) / period
    # Part of each position; repeats through the mixture: [period] int64.
    pattern = own[np.argsort((ranks + chances) / shares[own], kind="stable")]
    # Positions of the first part in the pattern, then those of the second, and so on.
    places = np.argsort(pattern, kind="stable")
    # Number of earlier positions of the pattern with the same part.
    earlier = np.empty(period, np.int64)
    earlier[places] = ranks
    periods, rank = np.divmod(lengths - 1, shares)
    ends = periods * period + places[shares.cumsum() - shares + rank] + 1
    periods, at = np.divmod(np.arange(int(ends.max())), period)
    parts = pattern[at]
    return parts, (periods * shares[parts] + earlier[at]) % lengths[parts]
