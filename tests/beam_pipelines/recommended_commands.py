"""The command for a public dataset that reads the labels that people train on, and those labels."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from beam_tfrecords.errors import RequestError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.sources.tables.table_settings import LabelType
from tests.beam_pipelines.listed_records import Listed, commands_of, list_samples, read, write_layout
from tests.beam_pipelines.public_layouts import LAYOUTS, Command, Layout, Records

# The other layouts show a rule, and are no dataset.
DATASETS = [layout for layout in LAYOUTS if re.search("[A-Z_]", layout.name)]


@dataclasses.dataclass(frozen=True)
class Recommendation:
    """The command for a dataset, run on its tree.

    Attributes:
      words: the arguments of the command, with DIR or the name of the layout's root for the input.
      kind: what the dataset has as labels: `classes`, `texts`, `objects`, `objects with masks`, `masks` or `nothing`.
      records: split -> class -> samples, objects or texts; the class is "" without classes.
    """

    words: list[str]
    kind: str
    records: Records


def recommend(layout: Layout, folder: Path) -> Recommendation:
    """Makes the tree of a layout in a folder, and runs the command for it."""
    root = write_layout(layout, folder)
    words = [*_words(layout, root, folder), "--output=out"]
    listed = list_samples(words, folder / "recommended")
    records: dict[str, Counter[str]] = {}
    kind = _kind(listed)
    for ref in listed.refs:
        assert ref.split is not None
        records.setdefault(ref.split, Counter()).update(_labels(ref, listed, kind))
    shown = root.name if layout.root else "DIR"
    return Recommendation([word.replace(str(root), shown) for word in words if word != "--output=out"], kind, records)


def _words(layout: Layout, root: Path, folder: Path) -> list[str]:
    if isinstance(layout.recommended, Command):
        return [word.replace("DIR", str(root)) for word in shlex.split(layout.recommended.flags)]
    plain = [f"--input={root}"]
    if layout.records is not None:
        return plain
    try:
        read([*plain, "--output=out"], folder / "refused")
    except RequestError as refusal:
        words = commands_of(explain(refusal, "convert", [*plain, "--output=out"]))[layout.recommended]
        return [word for word in words if word != "--output=out"]
    raise AssertionError(f"{layout.name} is not refused")


def _kind(listed: Listed) -> str:
    layout = listed.spec.layout
    if listed.spec.label_type is LabelType.TEXT:
        return "texts"
    if Content.OBJECTS in layout.required:
        return "objects with masks" if Content.OBJECT_MASKS in layout.required else "objects"
    if Content.MASK in layout.required:
        return "masks"
    return "classes" if Content.LABEL in layout.required else "nothing"


def _labels(ref: SampleRef, listed: Listed, kind: str) -> Iterator[str]:
    if kind.startswith("objects"):
        found = ref.objects.labels if ref.objects else ()
    elif kind == "classes":
        found = ref.label if isinstance(ref.label, list) else [ref.label]
    else:
        found = None
    if found is None:
        yield ""
        return
    for label in found:
        yield listed.classes.resolve(label)[1]
