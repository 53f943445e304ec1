"""Mixes records of several datasets in given proportions, with one list of classes."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import operator
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, SupportsIndex, overload

import numpy as np

from beam_tfrecords.errors import RequestError
from beam_tfrecords.examples.layouts import MASK_FIELD, Feature, Layout
from beam_tfrecords.reading.dataset import Dataset
from beam_tfrecords.reading.opening import open_dataset
from beam_tfrecords.reading.records import Records
from beam_tfrecords.reading.resizing import ImageSize, ResizeMode
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

    Attributes:
      pattern: part of each position; repeats through the mixture: [period] int64.
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
        self.pattern = parts[order]
        # Number of earlier positions of the pattern with the same part.
        self._ranks = np.empty(period, np.int64)
        for part in range(len(shares)):
            at = np.flatnonzero(self.pattern == part)
            self._ranks[at] = np.arange(len(at))
        self._length = max(self._end(part, size) for part, size in enumerate(sizes))

    def __len__(self) -> int:
        return self._length

    def _end(self, part: int, size: int) -> int:
        """Returns the number of positions until a part has been used completely."""
        periods, rank = divmod(size - 1, int(self._shares[part]))
        return periods * len(self.pattern) + int(np.flatnonzero(self.pattern == part)[rank]) + 1

    def __call__(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the part of each position, and the number of its example."""
        periods, at = np.divmod(places, len(self.pattern))
        parts = self.pattern[at]
        return parts, (periods * self._shares[parts] + self._ranks[at]) % self._sizes[parts]


class MixedRecords(Records):
    """Records of several datasets in one order; works with the same loaders as `Records`."""

    def __init__(self, parts: Sequence[Records], weights: Sequence[float], *, seed: int) -> None:
        check_layouts([part.layout for part in parts if part.has_features])
        self._class_names = join_classes([part.class_names for part in parts])
        self._parts = [part.renumbered(self._class_names) for part in parts]
        self._read = self._parts[0]._read
        self._is_remote = any(part._is_remote for part in parts)
        self._order = MixOrder(list(map(len, parts)), weights, seed)
        self._mixed = repr((tuple(weights), seed))
        self._range = range(len(self._order))

    def __repr__(self) -> str:
        return f"<{len(self):,} records mixed of {', '.join(map(repr, self._parts))}>"

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names of all parts, which label indices refer to."""
        return self._class_names

    @property
    def digest(self) -> str:
        """16 hex digits that identify these records, independent of the datasets' paths."""
        named = repr(([part.digest for part in self._parts], self._mixed, self._range, self.class_names))
        return hashlib.sha256(named.encode()).hexdigest()[:16]

    def __len__(self) -> int:
        return len(self._range)

    @overload
    def __getitem__(self, number: int) -> Any: ...
    @overload
    def __getitem__(self, number: slice) -> Records: ...
    def __getitem__(self, number: int | slice) -> Any:
        if isinstance(number, slice):
            return self._with(_range=self._range[number])
        return self._getitems([number])[0]

    def _getitems(self, numbers: Iterable[SupportsIndex]) -> list[Any]:
        return self._gather(Records._getitems, numbers)

    def read_batch(self, numbers: Iterable[SupportsIndex]) -> list[Any]:
        """Reads like `Records.read_batch`."""
        return self._gather(Records.read_batch, numbers)

    def _gather(self, read: Callable[[Records, Iterable[SupportsIndex]], list[Any]], numbers: Any) -> list[Any]:
        places = np.array([self._range[operator.index(number)] for number in numbers], np.int64)
        which, own = self._order(places)
        examples: list[Any] = [None] * len(places)
        for part, records in enumerate(self._parts):
            at = np.flatnonzero(which == part)
            if len(at):
                for place, example in zip(at, read(records, own[at]), strict=True):
                    examples[place] = example
        return examples

    def resized(self, image_size: ImageSize, resize_mode: ResizeMode | None = None) -> Records:
        """Resizes like `Records.resized`."""
        parts = [part.resized(image_size, resize_mode) for part in self._parts]
        return self._with(_parts=parts, _read=parts[0]._read)

    def in_planes(self, name: str) -> Records:
        """Returns planes like `Records.in_planes`."""
        parts = [part.in_planes(name) for part in self._parts]
        return self._with(_parts=parts, _read=parts[0]._read)

    def filter(self, condition: Any = None, **equals: Any) -> Records:
        """Raises TypeError: filter the parts before they are mixed."""
        raise TypeError("records that are mixed cannot be filtered; filter each part: mix([(a.filter(...), 0.7), ...])")


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Datasets that are read as one: with `load(mixture, "train")`, or with `records` for PyTorch and Grain.

    Attributes:
      datasets: the parts.
      weights: a weight for each part, with any sum.
      seed: seed of the order of the parts.
    """

    datasets: tuple[Dataset, ...]
    weights: tuple[float, ...]
    seed: int

    def __post_init__(self) -> None:
        check_layouts([dataset.layout for dataset in self.datasets])

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names of all datasets: those of the first, then those that each later dataset adds."""
        return join_classes([dataset.class_names for dataset in self.datasets])

    def records(self, split: str | None = None, **options: Any) -> MixedRecords:
        """Returns the records of a split, or of a split expression, of each dataset; arguments as `Dataset.records`."""
        parts = [dataset.records(split, **options) for dataset in self.datasets]
        return MixedRecords(parts, self.weights, seed=self.seed)

    def __getitem__(self, split: str) -> MixedRecords:
        return self.records(split)


@overload
def mix(parts: Sequence[tuple[Records, float]], *, seed: int = 0) -> MixedRecords: ...
@overload
def mix(parts: Sequence[tuple[Dataset | str | os.PathLike[str], float]], *, seed: int = 0) -> Mixture: ...
def mix(parts: Sequence[tuple[Any, float]], *, seed: int = 0) -> Mixture | MixedRecords:
    """Mixes datasets, or records of datasets, in given proportions.

        >>> mixture = mix([("out/", 0.7), ("more/", 0.3)])
        >>> len(mixture.records("train"))
        18

    Every stretch of the mixture has the proportions of the weights. An epoch ends as soon as every part has been used
    completely; a part that is exhausted earlier restarts. The same parts, weights and seed give the same order. Classes
    are joined by name, so labels are indices into `class_names` of the mixture.

    Args:
      parts: (dataset or its path, weight), for `load(mixture, split)` and `mixture.records(split)`; or (records,
        weight), where the records may come from different splits and be filtered. Weights may have any sum.
      seed: seed of the order.

    Raises:
      RequestError: a dataset does not exist, or the datasets have different features.
      ValueError: there are no parts, a weight is not a positive number, or a part has no records.
    """
    given = [part for part, _ in parts]
    weights = tuple(float(weight) for _, weight in parts)
    wrong = [weight for weight in weights if not (weight > 0 and math.isfinite(weight))]
    if wrong or not given:
        raise ValueError(f"weights {weights}: expected at least one part, and a number above 0 for each")
    seed = operator.index(seed)
    if all(isinstance(part, Records) for part in given):
        if not all(map(len, given)):
            raise ValueError(f"part {list(map(len, given)).index(0)} has no record; expected one or more in each")
        return MixedRecords(given, weights, seed=seed)
    if not all(isinstance(part, Dataset | str | os.PathLike) for part in given):
        kinds = ", ".join(type(part).__name__ for part in given)
        raise TypeError(
            f"mix: found {kinds}; expected datasets or their paths, or `records` of each; what TensorFlow reads is "
            "load(mix([(first, 0.7), (second, 0.3)]), 'train')"
        )
    datasets = tuple(part if isinstance(part, Dataset) else open_dataset(part) for part in given)
    return Mixture(datasets, weights, seed)


def join_classes(names: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Returns the classes of all parts: those of the first, then those that each later part adds."""
    return tuple(dict.fromkeys(name for part in names for name in part))


def check_layouts(layouts: Sequence[Layout]) -> None:
    """Checks that all examples have the same features.

    Raises:
      RequestError: they differ.
    """
    first, *others = [{feature.name: _kind(feature) for feature in layout.features} for layout in layouts] or [{}]
    for number, other in enumerate(others, 1):
        differing = sorted(name for name in {*first, *other} if first.get(name) != other.get(name))
        if differing:
            name = differing[0]
            raise RequestError(
                f"mix: examples of part {number} have other features than those of part 0: {', '.join(differing)}; "
                f"{name} is {first.get(name, 'missing')} in part 0 and {other.get(name, 'missing')} in part {number}; "
                "expected datasets of one `layout`",
                code="layouts_differ",
            )


def _kind(feature: Feature) -> str:
    what = "an image" if feature.holds_image else "a mask" if feature.field == MASK_FIELD else feature.type
    classes = f", the {feature.class_value.name.lower()} of a class" if feature.class_value else ""
    if feature.is_class:
        what = f"a class of {', '.join(feature.class_names)}"
    return f"{what}{classes}{', several' if feature.several else ''}{f' [{feature.length}]' if feature.length else ''}"
