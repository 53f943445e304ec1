"""Reads labels that are bytes: texts, numbers as NumPy's `tobytes` writes them, or TensorFlow's serialized tensors."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from beam_tfrecords.errors import RequestError, Suggestion
from beam_tfrecords.transforms.refs.sample_refs import Value
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.pixels.stored_numbers import (
    flags_in_bytes,
    number_in_bytes,
    text_in_bytes,
    text_in_tensor,
)
from beam_tfrecords.transforms.sources.tables.cells import invalid_row
from beam_tfrecords.transforms.sources.tables.table import FirstRows

# Bytes that a message shows.
_SHOWN = 12


class ByteLabelKind(enum.Enum):
    """The kind of labels in bytes: texts, serialized texts, class numbers, or a zero or one for each class."""

    TEXT = "text"
    TENSOR = "serialized text"
    NUMBER = "number"
    FLAGS = "zeros and ones"


@dataclasses.dataclass(frozen=True)
class ByteLabels:
    """Reads the labels in a bytes feature. Picklable.

    Attributes:
      name: the feature.
      kind: the kind of its labels.
    """

    name: str
    kind: ByteLabelKind

    @property
    def type(self) -> str:
        """Type of the labels."""
        return "bytes" if self.kind in (ByteLabelKind.TEXT, ByteLabelKind.TENSOR) else "int64"

    def read_features(self, features: Mapping[str, tuple[str, list[Any]]]) -> Mapping[str, tuple[str, list[Any]]]:
        """Returns the features of a record with labels in place of the bytes of the feature.

        Raises:
          SampleError: the bytes are of another kind.
        """
        kind, values = features.get(self.name, ("", []))
        if kind != "bytes":
            return features
        found = [self.read(value) for value in values]
        if self.kind is ByteLabelKind.TEXT:
            return features
        parts = [one for some in found for one in (some if isinstance(some, list) else [some])]
        return {**features, self.name: (self.type, parts)}

    def read(self, value: bytes) -> Value:
        """Returns the label in bytes: a text, a number, or zeros and ones.

        Raises:
          SampleError: the bytes are of another kind.
        """
        found: Any = _read(value, self.kind) if value else value
        if found is None:
            raise invalid_row(
                f"the feature {self.name!r} has the bytes {value[:_SHOWN]!r}; expected a {self.kind.value}"
            )
        return found


def find_byte_labels(table: FirstRows, label: str) -> tuple[FirstRows, ByteLabels | None]:
    """Replaces the bytes of a feature in the first records by labels; returns the records and the reader of the bytes.

    The reader is None for a feature of another type, and then the records are unchanged.

    Raises:
      RequestError: the bytes are neither texts nor numbers.
    """
    cells = [row.get(label) for row in table.first_rows]
    values = [one for cell in cells for one in (cell if isinstance(cell, list) else [cell]) if one]
    if not values or not all(isinstance(value, bytes) for value in values):
        return table, None
    kinds = [one for one in ByteLabelKind if all(_read(value, one) is not None for value in values)]
    # Zeros and ones in a byte each would be 1, 256 and so on as numbers.
    are_flags = all(value.count(0) == len(value) - 1 and 1 in value for value in values)
    kind = None if are_flags and any(value[0] == 0 for value in values) else next(iter(kinds), None)
    if kind is None:
        shown = next(value for value in values if not _is_text(value))
        raise RequestError(
            f"{quote_input(table.path)}: the feature {label!r} has bytes that are neither texts nor numbers, such "
            f"as {shown[:_SHOWN]!r}; name another feature with `label_column`, or leave the labels out",
            [Suggestion("images without labels", {"label_column": None, "layout": "image"})],
            code="column_without_labels",
        )
    labels = ByteLabels(label, kind)
    rows = [{**row, label: _cell_of(labels, row[label])} if label in row else row for row in table.first_rows]
    types = {**(table.column_types or {}), label: labels.type}
    return dataclasses.replace(table, first_rows=rows, column_types=types), labels


def _cell_of(labels: ByteLabels, cell: Any) -> Value:
    if isinstance(cell, list):
        return [labels.read(one) for one in cell]  # type: ignore[misc]
    return labels.read(cell) if cell else cell


def _read(value: bytes, kind: ByteLabelKind) -> bytes | int | list[int] | None:
    """Decodes a label of the given kind; returns None for bytes of another kind."""
    if kind is ByteLabelKind.TEXT:
        return value if _is_text(value) else None
    if kind is ByteLabelKind.TENSOR:
        text = text_in_tensor(value)
        return text if text and _is_text(text) else None
    return number_in_bytes(value) if kind is ByteLabelKind.NUMBER else flags_in_bytes(value)


def _is_text(value: bytes) -> bool:
    # Small numbers may be bytes of spaces, such as a tab.
    return bool((text_in_bytes(value) or "").strip())
