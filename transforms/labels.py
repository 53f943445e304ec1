"""Class names, and from a label as the source has it to a class index."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import TypeGuard

from transforms.errors import FailureReason, RequestError, SampleError, Stage
from transforms.values import Scalar

_INTEGER = re.compile(r"-?[0-9]{1,19}")
# A table of integer labels has a name for every index up to its largest; beyond this it is no class index.
MAX_CLASSES = 1_000_000


@dataclasses.dataclass(frozen=True)
class ClassNames:
    """The classes, in index order.

    Attributes:
      names: unique names.
      numbers_are_indices: whether a label that is written as a number means a class index (as in a
        manifest) rather than a name (as for a folder).
    """

    names: tuple[str, ...]
    numbers_are_indices: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", {name: index for index, name in enumerate(self.names)})

    def find(self, label: Scalar) -> int | None:
        """The index of a label given as a name or as an index, or None if there is no such class."""
        if isinstance(label, str) and label in self._index:  # type: ignore[attr-defined]
            return int(self._index[label])  # type: ignore[attr-defined]
        if self.numbers_are_indices and _is_integer(label) and 0 <= int(label) < len(self.names):
            return int(label)
        return None

    def resolve(self, label: Scalar) -> tuple[int, str]:
        """The class index and name of a label.

        Raises:
          SampleError: if there is no label or no such class.
        """
        if label is None or label == "":
            raise SampleError(Stage.LABEL, FailureReason.LABEL_MISSING, "no label")
        index = self.find(label)
        if index is None:
            raise SampleError(Stage.LABEL, FailureReason.UNKNOWN_CLASS, f"{label!r} is none of the class names")
        return index, self.names[index]


def infer_class_names(labels: Iterable[Scalar], *, numbers_are_indices: bool) -> ClassNames:
    """The class names where the user gave none: sorted, or every index if all labels are indices.

    Raises:
      RequestError: if integer labels are negative or too large to be class indices.
    """
    found = {label for label in labels if label is not None and label != ""}
    if not numbers_are_indices or not found or not all(map(_is_integer, found)):
        return ClassNames(tuple(sorted({str(label) for label in found})), numbers_are_indices)
    integers = {int(label) for label in found}
    if min(integers) < 0 or max(integers) >= MAX_CLASSES:
        raise RequestError(
            f"labels are integers from {min(integers)} to {max(integers)}, which are no class indices; "
            "say --class_names=, or use the column as a feature of its own"
        )
    return ClassNames(tuple(str(index) for index in range(max(integers) + 1)), numbers_are_indices)


def _is_integer(label: Scalar) -> TypeGuard[str | int]:
    if isinstance(label, str):
        return bool(_INTEGER.fullmatch(label))
    return isinstance(label, int)
