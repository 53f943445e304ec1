"""Histograms of positive values in bounded memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

# Values between 2^-16 and 2^48 are resolved to 2%.
_LOWEST, _HIGHEST, _PER_OCTAVE = -16, 48, 32
_BINS = (_HIGHEST - _LOWEST) * _PER_OCTAVE
_MOST_COLUMNS = 32


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a histogram, for values from `low` (inclusive) to `high` (exclusive)."""

    low: float
    high: float
    count: int


class Distribution:
    """Positive values, stored as counts and sums of narrow logarithmic bins."""

    def __init__(self) -> None:
        self.count = 0
        self.minimum, self.maximum = float("inf"), float("-inf")
        self._counts = np.zeros(_BINS, np.int64)
        self._sums = np.zeros(_BINS)

    def add(self, values: np.ndarray) -> None:
        """Adds the positive finite values; skips others, such as unknown sizes."""
        values = values[np.isfinite(values) & (values > 0)].astype(float)
        if not len(values):
            return
        self.count += len(values)
        self.minimum, self.maximum = min(self.minimum, values.min()), max(self.maximum, values.max())
        bins = np.clip((np.log2(values) - _LOWEST) * _PER_OCTAVE, 0, _BINS - 1).astype(int)
        self._counts += np.bincount(bins, minlength=_BINS)
        self._sums += np.bincount(bins, weights=values, minlength=_BINS)

    @property
    def median(self) -> float:
        """The median, within 2%; exact if the values around it are equal."""
        middle = int(np.searchsorted(np.cumsum(self._counts), (self.count + 1) // 2))
        return float(self._sums[middle] / self._counts[middle])

    def columns(self, among: Sequence[Distribution]) -> list[Column]:
        """Returns the columns of a histogram over the joint range of several distributions."""
        used = np.flatnonzero(sum(one._counts for one in among))
        first, last = int(used[0]), int(used[-1])
        width = -(-(last + 1 - first) // _MOST_COLUMNS)
        starts = range(first, last + 1, width)
        edges = [2.0 ** (start / _PER_OCTAVE + _LOWEST) for start in (*starts, starts[-1] + width)]
        counts = [int(self._counts[start : start + width].sum()) for start in starts]
        return [Column(*column) for column in zip(edges, edges[1:], counts, strict=False)]
