"""TFRecord files as input: datasets of ours or of TFDS that are merged, cut anew, or encoded anew."""

from __future__ import annotations

import dataclasses
import functools
import glob
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.examples.parse import parse_example
from beam_tfrecords.files import DATASET_INFO, FEATURES, LABEL_MAP, label_file
from beam_tfrecords.label_files import read_label_file, read_label_map
from beam_tfrecords.tfrecord import RecordError
from beam_tfrecords.transforms.images.formats import sniff
from beam_tfrecords.transforms.sources.containers import Container
from beam_tfrecords.transforms.sources.detect.columns import choose_label
from beam_tfrecords.transforms.sources.detect.image_columns import choose_image, choose_mask
from beam_tfrecords.transforms.sources.inputs import InputFile, find_files_below, quote_input, splits_of_names
from beam_tfrecords.transforms.sources.records.object_features import (
    CLASSES_OF_OBJECTS,
    ObjectFeatures,
    find_object_features,
)
from beam_tfrecords.transforms.sources.records.record_rows import ReadTfrecord, is_length, read_cell, scan_file
from beam_tfrecords.transforms.sources.records.tfds_features import (
    Features,
    parse_features,
    parse_shard_lengths,
    shard_of,
)
from beam_tfrecords.transforms.sources.source import MakeSource
from beam_tfrecords.transforms.sources.source_spec import LabelType, SourceSpec
from beam_tfrecords.transforms.sources.tables.object_cells import wants_objects
from beam_tfrecords.transforms.sources.tables.row_source import (
    RowSource,
    describe_unused,
    note_splits,
    shard_splits,
    splits_of,
)
from beam_tfrecords.transforms.sources.tables.table import FirstRows

_SHARD = r"-\d{5,}-of-\d{5,}"
# Directly in a folder.
RECORD_FILE = re.compile(rf"[^/]*\.(?:tfrecords?|tfrec|records?)(?:\.gz)?(?:{_SHARD})?|[^/]+{_SHARD}", re.IGNORECASE)
# photos-train.tfrecord-00000-of-00007, as TFDS names them; train-00000-of-01024, as ImageNet's are named.
_SPLIT = re.compile(rf"(?:.*-)?(?P<split>[a-z]\w*)(?:\.[a-z]+)?{_SHARD}(?:\.\w+)*", re.IGNORECASE)
# Records of the first file that show which features there are.
_RECORDS = 32
_MOST_TRIED = 1000
_LABELS = ("label", "image/class/label")
# What TensorFlow's records of ImageNet have: the number of a class from 1 on, its text and WordNet's id, and the file.
_IMAGENET = ("image/class/label", "image/class/text", "image/class/synset", "image/filename")


class TfrecordSource(RowSource):
    """Files of records.

    Args:
      files: the files.
      start: the first records of the first one.
      described: folder -> what stands beside its files.
      spec: the request.

    Raises:
      RequestError: they do not fit the request.
    """

    unit = "record"

    def __init__(
        self,
        files: Sequence[InputFile],
        start: FirstRows,
        described: Mapping[str, _Description],
        spec: SourceSpec,
    ) -> None:
        super().__init__(files)
        self.name = spec.source
        features, names, _ = described[storage.dirname(files[0].entry.path)]
        mask = choose_mask(start.columns, start, spec)
        image = _choose_image(start, features, spec, mask)
        sides = _find_sides(image, start)
        columns = tuple(name for name in start.columns if name not in (image, mask))
        types = {name: kind for name, kind in (start.column_types or {}).items() if name in columns}
        table = dataclasses.replace(start, columns=columns, column_types=types)
        objects = _find_objects(start, features, spec, image)
        lacks = "no feature 'label'"
        label = None if objects else choose_label(table, spec, declared=features.labels, first=_LABELS, lacks=lacks)
        is_imagenet = label == _IMAGENET[0] and {*_IMAGENET} <= {*columns} and not (spec.class_names or spec.classes)
        if is_imagenet and spec.key_column is None:
            spec = dataclasses.replace(spec, key_column=_IMAGENET[-1])
        cells = self._take_columns(table, spec, label, has_several=label in features.several, has_mask=mask is not None)
        if is_imagenet and spec.label_type is LabelType.CLASS:
            cells, self.labels_are_numbered = dataclasses.replace(cells, text=_IMAGENET[1]), True
        self.provides |= {Content.OBJECTS, Content.LABEL} if objects else frozenset()
        named = objects.label if objects else label or ""
        class_names = {folder: one.class_names.get(named, ()) for folder, one in described.items()}
        # Of datasets with other classes, all their names are the classes.
        self.class_names = names.get(named, ()) if len(set(class_names.values())) == 1 else ()
        self.labels_may_be_indices = not any(class_names.values()) and not self.labels_are_numbered
        self.first_class = objects.first_class if objects else 0
        splits = splits_of(files) or shard_splits(files, _SPLIT, spec) or _splits_of_names(files, spec)
        self.notes += note_splits(splits, spec) if cells.columns.split is None else []
        lengths = {
            path: length
            for path in (file.entry.path for file in files)
            if (shard := shard_of(storage.basename(path)))
            and (length := described[storage.dirname(path)].lengths.get(shard)) is not None
        }
        used = {image, mask, *sides, *(objects.features if objects else ()), *cells.needed}
        # A dataset of ours or of TFDS is known by what stands beside it, and its layout takes what it has.
        self.notes += [] if features.images else describe_unused(table, used, spec)
        self.read_container: ReadTfrecord = ReadTfrecord(
            cells,
            image,
            class_names,
            splits,
            sides,
            objects,
            mask,
            lengths,
        )


def open_input(spec: SourceSpec) -> MakeSource:
    """Finds the files, and reads the first records and what describes them.

    Raises:
      RequestError: a file does not exist, or they do not fit the request.
    """
    files = find_files_below(spec, RECORD_FILE, "TFRecord file in it, such as x.tfrecord-00000-of-00001")
    described = {folder: _describe(folder) for folder in {storage.dirname(file.entry.path) for file in files}}
    try:
        start = _read_start(Container.of(files[0].entry, key_prefix=""))
    except SampleError as error:
        raise RequestError(f"{quote_input(files[0].entry.path)} is not a TFRecord file: {error.detail}") from error
    return functools.partial(TfrecordSource, files, start, described)


def _splits_of_names(files: Sequence[InputFile], spec: SourceSpec) -> dict[str, str]:
    paths = [file.entry.path for file in files]
    return {path: split for path, split in zip(paths, splits_of_names(paths, spec), strict=True) if split}


class _Description(NamedTuple):
    """What stands beside the files of a folder.

    Attributes:
      features: of an example.
      class_names: feature -> names of its classes.
      lengths: as `parse_shard_lengths` has them.
    """

    features: Features
    class_names: Mapping[str, tuple[str, ...]]
    lengths: Mapping[tuple[str, int, int], int]


def _describe(folder: str) -> _Description:
    names: dict[str, tuple[str, ...]] = {}
    try:
        lengths = parse_shard_lengths(_read_beside(folder, DATASET_INFO) or b"")
    except ValueError:
        lengths = {}
    if label_map := _read_beside(folder, LABEL_MAP) or _read_only(folder, f"*{LABEL_MAP}"):
        names = dict.fromkeys(CLASSES_OF_OBJECTS, tuple(read_label_map(label_map)))
    try:
        features = parse_features(_read_beside(folder, FEATURES) or b"")
    except ValueError:
        return _Description(Features(), names, lengths)
    for label in features.labels:
        if lines := _read_beside(folder, label_file(label)):
            names[label] = tuple(read_label_file(lines))
    return _Description(features, names, lengths)


def _read_beside(folder: str, name: str) -> bytes | None:
    """A file beside the records; None if there is none."""
    try:
        return storage.read_bytes(storage.join(folder, name))
    except OSError as error:
        if storage.is_service_fault(error):
            raise
        return None


def _read_only(folder: str, pattern: str) -> bytes | None:
    """The only file beside the records whose name is like this; None if there is none, or there are several."""
    found = [entry for entry in storage.list_files(storage.join(glob.escape(folder), pattern)) if entry.size > 0]
    return _read_beside(folder, storage.basename(found[0].path)) if len(found) == 1 else None


def _read_start(container: Container) -> FirstRows:
    """The first records.

    Raises:
      SampleError: there is none, or none is whole.
    """
    rows: list[dict[str, Any]] = []
    types: dict[str, str] = {}
    damage = ""
    try:
        for record, _ in itertools.islice(scan_file(container), _MOST_TRIED):
            if isinstance(record, RecordError):
                damage = damage or f"record {record.record}: {record}"
                continue
            try:
                features = parse_example(record.data)
            except ValueError as error:
                damage = damage or str(error)
                continue
            rows.append({name: read_cell(feature) for name, feature in features.items()})
            types |= {name: kind for name, (kind, _) in features.items() if kind}
            if len(rows) == _RECORDS:
                break
    except SampleError as error:
        damage = damage or error.detail
    # A damaged record beside a whole one is a rejected one, when all are listed.
    if not rows:
        reason = FailureReason.CORRUPT if damage else FailureReason.EMPTY
        raise SampleError(Stage.LIST, reason, damage or "it has no record")
    return FirstRows(container.uri, tuple(types), types, rows)


def _choose_image(start: FirstRows, features: Features, spec: SourceSpec, mask: str | None) -> str:
    """The feature with the image: of those of the description, else of those that are images, else pixels.

    Args:
      mask: feature with the mask, which is no image.
    """
    row = start.first_rows[0]
    encoded = [name for name in start.columns if _is_image(row.get(name))]
    pixels = [name for name in start.columns if _find_sides(name, start)]
    kinds = [[name for name in kind if name != mask] for kind in (features.images, encoded, pixels)]
    lacks = "no feature with an image in its first record, nor with pixels whose height, width and depth are in others"
    return choose_image(kinds, start, spec, lacks=lacks)


def _find_sides(image: str, start: FirstRows) -> tuple[str, ...]:
    """The features with the sides of an image whose bytes are pixels: height, width, and channels unless it is grey.

    They are beside it, as `image/height` is beside `image/raw`; empty if it has other bytes.
    """
    row = start.first_rows[0]
    data = row.get(image)
    if not isinstance(data, bytes) or _is_image(data):
        return ()
    for head in dict.fromkeys((f"{image}/", f"{image.rpartition('/')[0]}/", "")):
        for sides in (("height", "width", "depth"), ("height", "width", "channels"), ("height", "width")):
            names = tuple(f"{head}{side}" for side in sides)
            lengths: list[Any] = [row.get(name) for name in names]
            if all(map(is_length, lengths)) and math.prod(lengths) == len(data):
                return names
    return ()


def _find_objects(start: FirstRows, features: Features, spec: SourceSpec, image: str) -> ObjectFeatures | None:
    """The features with objects, if they are asked for: their classes may be the label that the request names."""
    label = spec.label_column
    named = None if label is None else dataclasses.replace(spec, label_column=None)
    if not wants_objects(named or spec, next((name for name in _LABELS if name in start.columns and not named), None)):
        return None
    return find_object_features(
        start.columns, features, start.first_rows, image=image, shown=quote_input(start.path), label=label
    )


def _is_image(value: Any) -> bool:
    if not isinstance(value, bytes) or not value:
        return False
    try:
        sniff(value)
    except SampleError:
        return False
    return True
