"""Builds an input in this process, and returns its records and its words."""

from __future__ import annotations

import dataclasses
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beam_tfrecords import open_dataset
from tests import published
from tests.core.commands import run_command
from tests.core.plain_runner import plain_pipelines, without_reports
from tests.meanings import pictures


@dataclasses.dataclass(frozen=True)
class Record:
    """What an example holds.

    Attributes:
      key: of the sample.
      split: of the sample.
      images: name -> number of the picture.
      mask: value of its pixels; None without one.
      labels: names of its classes; None if the layout has none.
      objects: (xmin, ymin, xmax, ymax) as shares of the image and the class of each; None if the layout has none.
      columns: column -> values of a feature that holds it.
    """

    key: str
    split: str
    images: Mapping[str, Any]
    mask: int | None
    labels: Sequence[str] | None
    objects: Sequence[tuple[tuple[float, ...], str]] | None
    columns: Mapping[str, Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class Reading:
    """What the program makes of an input.

    Attributes:
      records: the examples that it would write.
      failures: reason -> number of rejected samples.
      text: notes and summary.
      published: whether few enough samples were rejected.
      class_names: the classes in the order of their indices.
      fields: of the layout.
    """

    records: Sequence[Record]
    failures: Counter[str]
    text: str
    published: bool
    class_names: Sequence[str]
    fields: frozenset[str]


def read_input(settings: Mapping[str, Any]) -> Reading:
    """Returns what a request gives; of one with too many failures, what is left without that limit.

    Raises:
      RequestError: the request is refused.
    """
    most = settings.get("max_failures", 0.01)
    with tempfile.TemporaryDirectory(prefix="meanings-") as folder, plain_pipelines(), without_reports():
        said = _build({**settings, "output": f"{folder}/out", "max_failures": 1.0})
        if not Path(folder, "out/_SUCCESS").exists():
            return Reading([], Counter(), said, False, (), frozenset())
        dataset, found = open_dataset(f"{folder}/out"), published.read_published(f"{folder}/out")
    records = [read_record(one, dataset.layout, dataset.class_names) for one in found.records]
    failures = Counter(found.manifest["failure_reasons"])
    is_published = failures.total() <= most * (len(records) + failures.total())
    return Reading(records, failures, said, is_published, dataset.class_names, dataset.layout.fields)


def _build(settings: Mapping[str, Any]) -> str:
    """Builds as the command does; returns what it says."""
    pairs = [(name, one) for name, value in settings.items() for one in (value if isinstance(value, list) else [value])]
    ran = run_command("convert", *(f"--{name}" if one is True else f"--{name}={one}" for name, one in pairs))
    if ran.refusal is not None:
        raise ran.refusal
    assert ran.code in (0, 3), ran.err
    return ran.out if ran.code == 0 else ran.out + ran.err


def read_record(record: published.Record, layout: Any, class_names: Sequence[str]) -> Record:
    """Returns what a record of a layout holds."""
    values = {one.field: record.values.get(one.name, []) for one in layout.features}
    images: dict[str, Any] = {}
    for feature in layout.features:
        if feature.holds_image and feature.field != "image.pixels":
            numbers = [pictures.read_picture(data) for data in values[feature.field]]
            images[feature.image or "image"] = numbers if feature.several else numbers[0]
    mask = pictures.read_mask(values["mask.encoded"][0]) if values.get("mask.encoded") else None
    indices = values.get("label.index", values.get("labels.index"))
    labels = None if indices is None else [class_names[index] for index in indices]
    columns = {
        one.column: [one.class_names[value] if one.is_class else _text(value) for value in values[one.field]]
        for one in layout.features
        if one.column
    }
    return Record(record.key, record.split, images, mask, labels, _objects(values, class_names), columns)


def _objects(values: Mapping[str, list[Any]], class_names: Sequence[str]) -> list[tuple[tuple[float, ...], str]] | None:
    sides = [values.get(f"objects.{side}") for side in ("xmin", "ymin", "xmax", "ymax")]
    if "objects.bbox" in values:
        flat = values["objects.bbox"]
        sides = [flat[1::4], flat[::4], flat[3::4], flat[2::4]]
    if None in sides:
        return None
    names = [class_names[index] for index in values.get("objects.index", [])]
    if "objects.name" in values:
        names = [_text(name) for name in values["objects.name"]]
    return list(zip(zip(*sides, strict=True), names, strict=True))


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
