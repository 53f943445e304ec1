"""Mixes records of several datasets in given proportions, with one list of classes."""

from __future__ import annotations

import hashlib
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from beam_tfrecords.errors import RequestError
from beam_tfrecords.examples.layouts import MASK_FIELD, Feature, Layout
from beam_tfrecords.reading.records import Records
from beam_tfrecords.reading.shuffling import MixOrder
from beam_tfrecords.sizes import ImageSize, ResizeMode

if TYPE_CHECKING:
    import pandas as pd


class MixedRecords(Records):
    """Records of several datasets in one order; works with the same loaders as `Records`."""

    _shown = ("class_names", "digest", "layout", "read_batch", "resized")

    def __init__(self, parts: Sequence[Records], weights: Sequence[float], *, seed: int) -> None:
        _check_layouts([part.layout for part in parts if part.has_features])
        # The classes of the first part, then those that each later part adds.
        self._class_names = tuple(dict.fromkeys(name for part in parts for name in part.class_names))
        self._parts = [part.renumbered(self._class_names) for part in parts]
        self._read = self._parts[0]._read
        self._is_remote = any(part._is_remote for part in parts)
        self._order = MixOrder(list(map(len, parts)), weights, seed)
        self._mixed = repr((tuple(weights), seed))
        self._range: Sequence[int] = range(len(self._order))

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

    def _choose(self, chosen: slice | np.ndarray) -> Records:
        if isinstance(chosen, slice):
            return self._with(_range=self._range[chosen])
        return self._with(_range=tuple(np.asarray(self._range)[chosen].tolist()))

    def _of_feature(self, feature: Feature) -> Records:
        return self._with_parts(lambda part: part._of_feature(feature))

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Raises TypeError: the parts have tables."""
        raise TypeError("records that are mixed have no table; each part has its own: part.to_pandas()")

    def _getitems(self, numbers: Iterable[SupportsIndex]) -> list[Any]:
        return self._gather(lambda part, own: self._parts[part]._getitems(own), numbers)

    def read_batch(self, numbers: Iterable[SupportsIndex]) -> list[Any]:
        """Reads like `Records.read_batch`."""
        return self._gather(lambda part, own: self._parts[part].read_batch(own), numbers)

    @property
    def sources(self) -> list[Records]:
        """Records of one dataset each, of which these are mixed."""
        return [source for part in self._parts for source in part.sources]

    def fetch(self, numbers: Iterable[SupportsIndex]) -> list[tuple[int, bytes]]:
        """Returns the number of its source and the serialized example for each number."""
        first = [0, *itertools.accumulate(len(part.sources) for part in self._parts)]

        def read(part: int, own: np.ndarray) -> list[tuple[int, bytes]]:
            return [(first[part] + source, example) for source, example in self._parts[part].fetch(own)]

        return self._gather(read, numbers)

    def _gather(self, read: Callable[[int, np.ndarray], list[Any]], numbers: Iterable[SupportsIndex]) -> list[Any]:
        places = np.array([self._range[operator.index(number)] for number in numbers], np.int64)
        which, own = self._order(places)
        examples: list[Any] = [None] * len(places)
        for part in np.unique(which).tolist():
            at = np.flatnonzero(which == part)
            for place, example in zip(at, read(part, own[at]), strict=True):
                examples[place] = example
        return examples

    def checked(self) -> Records:
        """Checks like `Records.checked`."""
        return self._with_parts(lambda part: part.checked())

    def renumbered(self, class_names: Sequence[str]) -> Records:
        """Renumbers like `Records.renumbered`."""
        return self._with_parts(lambda part: part.renumbered(class_names), _class_names=tuple(class_names))

    def resized(self, image_size: ImageSize, resize_mode: ResizeMode | None = None) -> Records:
        """Resizes like `Records.resized`."""
        return self._with_parts(lambda part: part.resized(image_size, resize_mode))

    def in_planes(self, names: Sequence[str]) -> Records:
        """Returns planes like `Records.in_planes`."""
        return self._with_parts(lambda part: part.in_planes(names))

    def _with_parts(self, change: Callable[[Records], Records], **changed: Any) -> Records:
        """Returns the same mixture of changed parts."""
        parts = list(map(change, self._parts))
        return self._with(_parts=parts, _read=parts[0]._read, **changed)

    def balanced(self, by: Literal["class"] = "class", *, seed: int = 0) -> Records:
        """Raises TypeError: balance the parts before they are mixed."""
        raise TypeError("records that are mixed cannot be balanced; balance each part: mix([(a.balanced(), 0.7), ...])")

    def filter(self, condition: Any = None, **equals: Any) -> Records:
        """Raises TypeError: filter the parts before they are mixed."""
        raise TypeError("records that are mixed cannot be filtered; filter each part: mix([(a.filter(...), 0.7), ...])")


def mix(parts: Sequence[tuple[Records, float]], *, seed: int = 0) -> MixedRecords:
    """Mixes records of datasets in given proportions.

        >>> from beam_tfrecords import open_dataset
        >>> photos, more = open_dataset("out/"), open_dataset("more/")
        >>> mixed = mix([(photos["train"], 0.7), (more["train"], 0.3)])
        >>> len(mixed)
        18

    Every stretch of the mixture has the proportions of the weights. An epoch ends as soon as every part has been used
    completely; a part that is exhausted earlier restarts. The same parts, weights and seed give the same order. Classes
    are joined by name, so labels are indices into `class_names` of the mixture.

    Args:
      parts: (records, weight); the records may come from different splits, and be filtered, balanced or mixed. Weights
        may have any sum.
      seed: seed of the order.

    Raises:
      RequestError: the examples of the parts have different features.
      ValueError: there are no parts, a weight is not a positive number, or a part has no records.
    """
    try:
        given = [part for part, _ in parts]
        weights = tuple(float(weight) for _, weight in parts)
    except (TypeError, ValueError) as error:
        raise TypeError("mix: expected pairs of records and a weight: mix([(first, 0.7), (second, 0.3)])") from error
    wrong = [weight for weight in weights if not (weight > 0 and math.isfinite(weight))]
    if wrong or not given:
        raise ValueError(f"weights {weights}: expected at least one part, and a number above 0 for each")
    others = [type(part).__name__ for part in given if not isinstance(part, Records)]
    if others:
        raise TypeError(
            f"mix: found {', '.join(others)}; expected records of each dataset: "
            "mix([(open_dataset(first)['train'], 0.7), (open_dataset(second)['train'], 0.3)])"
        )
    if not all(map(len, given)):
        raise ValueError(f"part {list(map(len, given)).index(0)} has no record; expected one or more in each")
    return MixedRecords(given, weights, seed=operator.index(seed))


def _check_layouts(layouts: Sequence[Layout]) -> None:
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
