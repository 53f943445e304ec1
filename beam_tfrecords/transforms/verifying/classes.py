"""Checks that the classes of records agree with each other, with the class names and with the index."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.fields import Per
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.features.stored_objects import StoredObjects


class ClassCheck:
    """Checks the classes of records.

    Args:
      layout: layout of the records.
      class_names: class names in index order.
    """

    def __init__(self, layout: Layout, class_names: Sequence[str]) -> None:
        self._heads = layout.heads
        self._has_objects = Content.OBJECTS in layout.required
        self._class_names = class_names
        self._known = frozenset(class_names)
        self._objects = StoredObjects.of(layout.features)
        self._of_label = [one for one in layout.features if one.is_of_label and one.class_value]
        self._of_objects = [one for one in self._objects.features.values() if one.class_value]

    def find_problems(self, values: Mapping[str, list[Any]], row: Mapping[str, Any] | None) -> Iterator[str]:
        """Yields the problems of a record's classes.

        Args:
          values: name of a feature of the layout -> its values.
          row: index row of the record; None if the index cannot be read.
        """
        problems: list[str] = []
        labels = self._compare(self._of_label, values, problems)
        self._compare(self._of_objects, values, problems)
        problems += self._compare_lengths(values, row)
        if row is not None and labels is not None and None not in labels:
            # The index has the label only for records with a single label, and not for classes of annotated objects.
            label = labels[0] if len(labels) == 1 and not self._has_objects else None
            if row["label"] != label:
                shown = label if label is not None else (labels or None)
                problems.append(f"the label is {shown!r}; the index says {row['label']!r}")
        for feature, head in self._heads.items():
            (index,), names = values[feature], head.class_names
            if not 0 <= index < len(names):
                problems.append(f"feature {feature!r}: class {index} is outside the {len(names)} classes")
        yield from problems

    def _compare(
        self, features: Sequence[Any], values: Mapping[str, list[Any]], problems: list[str]
    ) -> list[str | None] | None:
        """Returns the classes of the first feature, and compares the others with it; None if there is no feature."""
        named = [(feature.name, self._name(feature, values[feature.name], problems)) for feature in features]
        for (one, found), (other, expected) in itertools.pairwise(named):
            # An unknown class (None) is already reported as another problem.
            if len(found) != len(expected) or any(a != b and None not in (a, b) for a, b in zip(found, expected)):  # noqa: B905
                problems.append(f"feature {one!r} has the classes {found}; feature {other!r} {expected}")
        return named[0][1] if named else None

    def _name(self, feature: Any, values: list[Any], problems: list[str]) -> list[str | None]:
        names: list[str | None] = []
        # Samples of a split without labels have neither.
        for value in values if feature.is_of_objects else (one for one in values if one not in (-1, b"")):
            name = feature.class_value.find(value, self._class_names)
            names.append(name if name in self._known else None)
            if names[-1] is None:
                is_name = isinstance(value, bytes)
                said = f"{value.decode(errors='replace')!r} is not one of" if is_name else f"label {value} is outside"
                problems.append(f"feature {feature.name!r}: {said} the {len(self._class_names)} classes")
        return names

    def _compare_lengths(self, values: Mapping[str, list[Any]], row: Mapping[str, Any] | None) -> Iterator[str]:
        """Checks that every feature of annotated objects has one value per object."""
        counts, points = (self._objects.lengths(values, per) for per in (Per.OBJECT, Per.KEYPOINT))
        try:
            self._objects.polygons(values)
        except ValueError as error:
            yield str(error)
        expected = row.get("objects") if row is not None else None
        if expected is not None:
            yield from (
                f"feature {name!r} is of {count:g} objects; the index says {expected}"
                for name, count in counts.items()
                if count != expected
            )
        elif len(set(counts.values())) > 1:
            yield "features are of different numbers of objects: " + _show(counts)
        # The number of points per object is unknown, so only the features are compared with each other.
        if len(set(points.values())) > 1:
            yield "features are of different numbers of keypoints: " + _show(points)


def _show(counts: Mapping[str, float]) -> str:
    return ", ".join(f"{name!r} {count:g}" for name, count in counts.items())
