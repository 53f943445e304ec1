"""Makes references to the elements of a collection: samples, dictionaries, rows and examples."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from beam_tfrecords.errors import BuildError, FailureReason, SampleError
from beam_tfrecords.features.serialize import parse_plain_example
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.mapping.sample import Sample
from beam_tfrecords.transforms.mapping.sample_objects import SampleObjects
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.sources.functions.sample_reader import SampleReader
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.partition import StagingFiles
from beam_tfrecords.transforms.sources.records.folder_metadata import Features
from beam_tfrecords.transforms.sources.records.object_features import find_object_features, read_objects
from beam_tfrecords.transforms.sources.records.record_files import FILE_NAMES, file_name
from beam_tfrecords.transforms.sources.tables.cells import read_cell
from beam_tfrecords.transforms.sources.tally import Tally

# Usual names of the fields, the first of which are those of `Sample`; the others are TensorFlow's.
_USUAL = {
    "key": ("key", "image/key/sha256", "image/filename", "image/source_id"),
    "image": ("image", "image/encoded"),
    "label": ("label", "image/class/label"),
}
# Fields of dictionaries that are attributes of a sample.
_ATTRIBUTES = ("images", "mask", "split", "objects")


@dataclasses.dataclass(frozen=True)
class ElementReader:
    """Converts the elements of a collection to references.

    Attributes:
      samples: converts samples.
      fields: "key", "image" or "label" -> name of the field that has it; fields with usual names need none.
      needs_objects: whether to read the annotated objects of examples.
    """

    samples: SampleReader
    fields: Mapping[str, str]
    needs_objects: bool

    def read(self, element: Any, staging: StagingFiles, tally: Tally) -> SampleRef:
        """Returns the reference of an element; a rejected one if a value cannot be stored or an image does not exist.

        Args:
          element: a `Sample`, a dictionary, a dataclass, a `NamedTuple`, a `beam.Row`, or a `tf.train.Example`, which
            may be serialized.
          staging: receives bytes and arrays.
          tally: counts the fields of the element.

        Raises:
          BuildError: the element has another type, or no key; or a service fault.
        """
        if isinstance(element, Sample):
            return self.samples.read(element, staging, tally)
        if (data := _serialized(element)) is not None:
            return self._read_example(data, staging, tally)
        row = _row_of(element)
        if row is None:
            raise BuildError(
                f"{self.samples.name}: found an element of type {type(element).__name__}; expected a "
                "beam_tfrecords.Sample, a dictionary, a dataclass, a row or a tf.train.Example"
            )
        shown = ", ".join(sorted(row))
        attributes = {name: row.pop(name) for name in _ATTRIBUTES if name in row}
        key = self._take(row, "key")
        image = self._take(row, "image")
        if key is None and isinstance(image, str | os.PathLike):
            key = os.fspath(image)
        if key is None:
            raise BuildError(
                f"{self.samples.name}: found no key in an element with the fields {shown}; expected a "
                "field `key`, or the name of another one in `key_column`"
            )
        label = self._take(row, "label")
        return self._read_row(key, staging, tally, image=image, label=label, columns=row, **attributes)

    def _read_example(self, data: bytes, staging: StagingFiles, tally: Tally) -> SampleRef:
        try:
            features = parse_plain_example(data)
        except ValueError as error:
            return _rejected(content_hash(data), error)
        row = {name: read_cell(feature) for name, feature in features.items()}
        image, key, label = (self._take(row, name) for name in ("image", "key", "label"))
        mask, split = row.pop("mask", None), row.pop("split", None)
        # Without a name, the content of an example is its key.
        key = content_hash(data) if key is None else _text(key)
        wanted = self.samples.columns
        if name := file_name(row):
            key = f"{key}/{name}"
            row = {field: value for field, value in row.items() if field not in FILE_NAMES or field in (wanted or ())}
        found = find_object_features(features, Features(), image="", shown="") if self.needs_objects else None
        of_objects = {*found.features} - {*(wanted or ())} if found and wanted is not None else set()
        ref = self._read_row(
            key,
            staging,
            tally,
            image=image,
            mask=mask,
            label=_texts(label),
            split=None if split is None else _text(split),
            columns={name: _texts(value) for name, value in row.items() if name not in of_objects},
        )
        if found is None or ref.failure is not None:
            return ref
        try:
            objects = read_objects(features, found, ())
        except SampleError as error:
            return _rejected(ref.key, error)
        # Numbers of classes start at 1 in these features.
        labels = [one - found.first_class if isinstance(one, int) else one for one in objects.labels]
        return dataclasses.replace(ref, objects=dataclasses.replace(objects, labels=tuple(labels)))

    def _read_row(self, key: Any, staging: StagingFiles, tally: Tally, **attributes: Any) -> SampleRef:
        try:
            if isinstance(objects := attributes.get("objects"), Mapping):
                attributes["objects"] = _make_objects(objects)
            sample = Sample(key, **attributes)
        except (TypeError, ValueError) as error:
            return _rejected(str(key), error)
        return self.samples.read(sample, staging, tally)

    def _take(self, row: dict[str, Any], what: str) -> Any:
        """Removes a field from a row and returns its value; None if the row has none."""
        named = self.fields.get(what)
        if named is None:
            name = next((name for name in _USUAL[what] if name in row), "")
            return row.pop(name, None)
        if named not in row:
            raise BuildError(
                f"{self.samples.name}: `{what}_column={named}`: found no such field in an element with the fields "
                f"{', '.join(sorted(row))}"
            )
        return row.pop(named)


def _make_objects(values: Mapping[str, Any]) -> SampleObjects:
    known = [field.name for field in dataclasses.fields(SampleObjects)]
    if not {"boxes", "labels"} <= values.keys() <= {*known}:
        raise ValueError(
            f"objects: found {', '.join(values)}; expected boxes, labels, and others of {', '.join(known)}"
        )
    return SampleObjects(**{**values, "boxes": np.asarray(values["boxes"], np.float64).reshape(-1, 4)})


def _rejected(key: str, error: Exception) -> SampleRef:
    detail = error.detail if isinstance(error, SampleError) else str(error)
    return SampleRef(printable(key), {}, failure=(FailureReason.INVALID_ROW.value, detail))


def _serialized(element: Any) -> bytes | None:
    """Returns the bytes of an example; None for another element."""
    if isinstance(element, bytes):
        return element
    serialize = getattr(element, "SerializeToString", None)
    data: bytes | None = serialize(deterministic=True) if serialize else None
    return data


def _row_of(element: Any) -> dict[str, Any] | None:
    """Returns the fields of a row; None for another element."""
    if isinstance(element, Mapping):
        return dict(element)
    if dataclasses.is_dataclass(element) and not isinstance(element, type):
        return {field.name: getattr(element, field.name) for field in dataclasses.fields(element)}
    fields = getattr(element, "as_dict", None) or getattr(element, "_asdict", None)
    return dict(fields()) if fields else None


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _texts(value: Any) -> Any:
    """Decodes bytes, or each of a list of bytes, unless one of them is not UTF-8."""
    try:
        if isinstance(value, list):
            return [one.decode() if isinstance(one, bytes) else one for one in value]
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value
