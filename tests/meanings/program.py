"""Lists and converts an input in this process, as `convert` would, and returns its records and its words."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import tempfile
import unittest.mock
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.checks.classes import resolve_heads
from beam_tfrecords.beam_pipelines.build.checks.listing import check_listing
from beam_tfrecords.beam_pipelines.build.checks.settings import describe_request
from beam_tfrecords.beam_pipelines.build.identity import make_ledger
from beam_tfrecords.beam_pipelines.build.listing.list_input import list_input
from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
from beam_tfrecords.beam_pipelines.build.listing.trial import trying_suggestions
from beam_tfrecords.beam_pipelines.build.user_functions import find_functions
from beam_tfrecords.beam_pipelines.messages.summary import describe_classes, describe_reasons, describe_skipped
from beam_tfrecords.beam_pipelines.settings.definitions import read_request, show_flags
from beam_tfrecords.errors import SampleError
from beam_tfrecords.features import example_pb2
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.layouts import Layout, with_class_names
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample
from beam_tfrecords.transforms.blocks.rows import join_rows, read_block
from beam_tfrecords.transforms.listing.decisions import UNDECIDED
from beam_tfrecords.transforms.listing.listing import read_refs
from beam_tfrecords.transforms.refs.fetching import read_images
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.meaning.ledger import describe_ledger
from beam_tfrecords.transforms.sources.source import Source
from tests.converting import pack_refs
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


@contextlib.contextmanager
def temporary_in_memory() -> Iterator[None]:
    """Makes temporary folders in memory, if there is such a file system: removing some took a fifth of the time."""
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with unittest.mock.patch.object(tempfile, "tempdir", folder):
        yield


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Makes a temporary folder."""
    return tempfile.TemporaryDirectory(prefix="meanings-")


def read_input(settings: Mapping[str, Any]) -> Reading:
    """Returns what a request gives.

    Raises:
      RequestError: the request is refused.
    """
    with scratch_folder() as folder:
        spec = read_request({**settings, "output": f"{folder}/out"})
        with storage.using(spec.storage_options()):
            spec = find_functions(spec)
            with trying_suggestions(spec):
                return _read(spec, folder)


def _read(spec: BuildSpec, folder: str) -> Reading:
    spec, source = open_spec_source(spec)
    listed = list_input(spec, source, folder, max_file_size=spec.max_file_size)
    listing, skipped, source = listed.listing, listed.tally, listed.source
    class_names = check_listing(spec, source, listing, skipped)
    heads = resolve_heads(spec, source, listing, listed.tally, {})
    layout = with_class_names(spec.layout or Layout(()), {name: classes.names for name, classes in heads.items()})
    convert = ConvertSample(spec.image, layout, class_names, heads=heads, invalid_boxes=spec.invalid_boxes)
    failures: Counter[str] = Counter()
    examples: dict[str, tuple[str, str]] = {}
    records = []
    for ref in _join(spec, source, read_refs(listing)):
        found = _convert(ref, convert, spec)
        if isinstance(found, Record):
            records.append(found)
        else:
            failures[found[0]] += 1
            examples.setdefault(found[0], (ref.key, found[1]))
    total = len(records) + failures.total()
    lines = [
        *describe_classes(_count_classes(records, class_names.names)),
        *describe_reasons(failures, examples),
        *describe_skipped({kind: (count, skipped.examples[kind]) for kind, count in skipped.counts.items()}),
        *map(show_flags, describe_ledger(make_ledger(spec, source, listing, skipped, class_names))),
        *(f"note: {show_flags(note)}" for note in (*listed.tally.notes, *describe_request(spec))),
    ]
    published = bool(records) and failures.total() <= spec.max_failures * total
    return Reading(records, failures, "\n".join(lines), published, class_names.names, layout.fields)


def _join(spec: BuildSpec, source: Source, listed: Iterable[SampleRef]) -> Iterator[SampleRef]:
    """Yields the samples as blocks have them: sorted, and with rows of one key resolved."""
    by_split: dict[str, list[SampleRef]] = {}
    for ref in listed:
        by_split.setdefault(ref.split or "", []).append(ref)
    for split, refs in sorted(by_split.items()):
        batches = read_block([pack_refs(refs)], seed=spec.seed, decide=UNDECIDED.apply)
        yield from itertools.chain.from_iterable(
            join_rows(
                batches,
                Counter(),
                split=split,
                group_rows=spec.group_rows,
                last_member_wins=source.description.last_member_wins,
            )
        )


def _convert(ref: SampleRef, convert: ConvertSample, spec: BuildSpec) -> Record | tuple[str, str]:
    """Returns the record of a sample, or reason and detail of its failure."""
    if ref.failure is not None:
        return tuple(ref.failure)
    try:
        files = read_images(ref, max_file_size=spec.max_file_size) if Content.IMAGE in convert.layout.required else {}
        if isinstance(files, SampleError):
            raise files
        refs = RefColumns.of_one(ref)
        (example,) = convert.finish(refs, [convert.prepare(ref, files)]).examples
    except SampleError as error:
        return error.reason.value, error.detail
    return read_example(ref.key, ref.split or "", example, convert.layout, convert.class_names.names)


def read_example(key: str, split: str, example: bytes, layout: Layout, class_names: Sequence[str]) -> Record:
    """Returns what an example of a layout holds."""
    features = example_pb2.Example.FromString(example).features.feature
    values = {one.field: list(getattr(features[one.name], f"{one.type}_list").value) for one in layout.features}
    images, mask = {}, None
    for feature in layout.features:
        if feature.holds_image and feature.field != "image.pixels":
            numbers = [pictures.read_picture(data) for data in values[feature.field]]
            images[feature.image or "image"] = numbers if feature.several else numbers[0]
    if values.get("mask.encoded"):
        mask = pictures.read_mask(values["mask.encoded"][0])
    columns = {
        one.column: [one.class_names[value] if one.is_class else _text(value) for value in values[one.field]]
        for one in layout.features
        if one.column
    }
    return Record(key, split, images, mask, _labels(values, class_names), _objects(values, class_names), columns)


def _labels(values: Mapping[str, list[Any]], class_names: Sequence[str]) -> Sequence[str] | None:
    indices = values.get("label.index", values.get("labels.index"))
    return None if indices is None else [class_names[index] for index in indices]


def _objects(values: Mapping[str, list[Any]], class_names: Sequence[str]) -> list[tuple[tuple[float, ...], str]] | None:
    sides = [values.get(f"objects.{side}") for side in ("xmin", "ymin", "xmax", "ymax")]
    boxes: list[tuple[float, ...]]
    if "objects.bbox" in values:
        flat = values["objects.bbox"]
        boxes = [(flat[n + 1], flat[n], flat[n + 3], flat[n + 2]) for n in range(0, len(flat), 4)]
    elif all(side is not None for side in sides):
        boxes = list(zip(*sides, strict=True))
    else:
        return None
    if "objects.name" in values:
        names = [_text(name) for name in values["objects.name"]]
    else:
        names = [class_names[index] for index in values.get("objects.index", [])]
    return list(zip(boxes, names, strict=True))


def _count_classes(records: Sequence[Record], class_names: Sequence[str]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = {}
    for record in sorted(records, key=lambda record: record.split):
        found = record.labels if record.objects is None else {name for _, name in record.objects}
        counts.setdefault(record.split, Counter()).update(found or [])
    return {split: {name: found[name] for name in class_names if name in found} for split, found in counts.items()}


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
