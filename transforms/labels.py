"""Class names, and the class index of a label as the source has it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import TypeGuard

from transforms.errors import FailureReason, RequestError, SampleError, Stage
from transforms.refs import Scalar

_INTEGER = re.compile(r"-?[0-9]{1,19}")
# Integer labels have a name for every index up to the largest; a larger one is not a class index.
MAX_CLASSES = 1_000_000


@dataclasses.dataclass(frozen=True)
class ClassNames:
    """The classes, in index order.

    Attributes:
      names: unique names.
      numbers_are_indices: whether a label that is a number but not a name is a class index, as in a table of
        integer labels. A folder named `1` is the class `1`.
    """

    names: tuple[str, ...]
    numbers_are_indices: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", {name: index for index, name in enumerate(self.names)})

    def find(self, label: Scalar) -> int | None:
        """The index of a label given as a name or as an index; None if there is no such class."""
        if isinstance(label, str) or (isinstance(label, int) and not self.numbers_are_indices):
            index: int | None = self._index.get(_name(label))  # type: ignore[attr-defined]
            if index is not None:
                return index
        if self.numbers_are_indices and _is_integer(label) and 0 <= int(label) < len(self.names):
            return int(label)
        return None

    def resolve(self, label: Scalar) -> tuple[int, str]:
        """The class index and name of a label.

        Raises:
          SampleError: there is no label or no such class.
        """
        if label is None or label == "":
            raise SampleError(Stage.LABEL, FailureReason.LABEL_MISSING, "no label")
        index = self.find(label)
        if index is None:
            raise SampleError(Stage.LABEL, FailureReason.UNKNOWN_CLASS, f"{label!r} is not one of the class names")
        return index, self.names[index]


def infer_class_names(labels: Iterable[Scalar], *, numbers_are_indices: bool) -> ClassNames:
    """The class names where the request gives none.

    If every label is an integer, there is a class for every index up to the largest. Otherwise the labels
    are names, sorted; a number among them is a name too.

    Args:
      labels: the labels found.
      numbers_are_indices: whether integers can be class indices; False for names of folders.

    Raises:
      RequestError: integer labels are negative or too large to be class indices.
    """
    found = {label for label in labels if label is not None and label != ""}
    if not found or not numbers_are_indices or not all(map(_is_integer, found)):
        return ClassNames(tuple(sorted({_name(label) for label in found})))
    integers = {int(label) for label in found}
    if min(integers) < 0 or max(integers) >= MAX_CLASSES:
        raise RequestError(
            f"the labels are integers from {min(integers)} to {max(integers)}, which are not class indices; "
            "say `class_names`, or use the column as a feature of its own"
        )
    return ClassNames(tuple(str(index) for index in range(max(integers) + 1)), numbers_are_indices)


def _name(label: Scalar) -> str:
    # 1 and True are the same key of a dictionary, in which labels are counted, and so they are the same class.
    return str(int(label)) if isinstance(label, int) else str(label)


def _is_integer(label: Scalar) -> TypeGuard[str | int]:
    if isinstance(label, str):
        return bool(_INTEGER.fullmatch(label))
    return isinstance(label, int)
