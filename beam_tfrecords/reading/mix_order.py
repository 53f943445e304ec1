"""The order of a mixture: which part each of its positions takes an example from."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from beam_tfrecords.reading.shuffling import Shuffle

# Length of the pattern that a mixture repeats; weights are rounded to multiples of 1 / _PERIOD.
_PERIOD = 10_000


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
