"""The source for TFRecord files: merges, re-splits or re-encodes datasets of TFDS and other programs."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, SampleError
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.transforms.settings import change_settings
from beam_tfrecords.transforms.sources.containers import Container
from beam_tfrecords.transforms.sources.detect.columns import choose_label
from beam_tfrecords.transforms.sources.inputs import InputFile, Inputs, find_files_below, quote_input, splits_of_names
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.records.dataset_source import find_datasets, open_datasets
from beam_tfrecords.transforms.sources.records.description import Description, describe_folder
from beam_tfrecords.transforms.sources.records.image_features import choose_features
from beam_tfrecords.transforms.sources.records.joined_table import JoinedTable
from beam_tfrecords.transforms.sources.records.object_features import find_objects
from beam_tfrecords.transforms.sources.records.record_rows import ReadTfrecord, read_first_records
from beam_tfrecords.transforms.sources.selection import Selection
from beam_tfrecords.transforms.sources.source import MakeSource
from beam_tfrecords.transforms.sources.tables.row_source import (
    RowSource,
    shard_splits,
    splits_of,
)
from beam_tfrecords.transforms.sources.tables.table import FirstRows
from beam_tfrecords.transforms.sources.tables.table_settings import LabelType, TableSettings

_SHARD = r"-\d{5,}-of-\d{5,}"
# Record files directly in a folder.
RECORD_FILE = re.compile(rf"[^/]*\.(?:tfrecords?|tfrec|records?)(?:\.gz)?(?:{_SHARD})?|[^/]+{_SHARD}", re.IGNORECASE)
# photos-train.tfrecord-00000-of-00007 as in TFDS, or train-00000-of-01024 as in ImageNet.
_SPLIT = re.compile(rf"(?:.*-)?(?P<split>[a-z]\w*)(?:\.[a-z]+)?{_SHARD}(?:\.\w+)*", re.IGNORECASE)
_LABELS = ("label", "image/class/label")
# Features of TensorFlow's ImageNet records: class number from 1, class name, WordNet id, and file name.
_IMAGENET = ("image/class/label", "image/class/text", "image/class/synset", "image/filename")


class TfrecordSource(RowSource):
    """TFRecord files.

    Args:
      files: the files.
      start: first records of the first file.
      described: folder -> metadata of its files.
      inputs: inputs of the request.
      settings: settings of the rows.
      selection: records to convert.
      needs: requested contents.

    Raises:
      RequestError: the files do not fit the request.
    """

    unit = "record"

    def __init__(
        self,
        files: Sequence[InputFile],
        start: FirstRows,
        described: Mapping[str, Description],
        inputs: Inputs,
        settings: TableSettings,
        selection: Selection,
        needs: Needs,
    ) -> None:
        super().__init__(files, inputs)
        features, names, _ = described[storage.dirname(files[0].entry.path)]
        image, mask, sides = choose_features(start, features, settings, needs)
        columns = tuple(name for name in start.columns if name not in (image, mask))
        types = {name: kind for name, kind in (start.column_types or {}).items() if name in columns}
        table = dataclasses.replace(start, columns=columns, column_types=types)
        objects = find_objects(start, features, settings, needs, image=image, usual=_LABELS)
        lacks = "no feature 'label'"
        label = None
        if not objects:
            label = choose_label(table, settings, needs, declared=features.labels, first=_LABELS, lacks=lacks)
        is_imagenet = (
            label == _IMAGENET[0] and {*_IMAGENET} <= {*columns} and not (needs.class_names or selection.classes)
        )
        if is_imagenet and settings.key_column is None:
            settings = change_settings(settings, key_column=_IMAGENET[-1])
        has_several = label in features.several
        cells = self._take_columns(table, settings, needs, label, has_several=has_several, has_mask=mask is not None)
        if is_imagenet and settings.label_type is LabelType.CLASS:
            cells, self.labels_are_numbered, self.text_column = dataclasses.replace(cells, text=_IMAGENET[1]), True, ""
        self.provides |= {Content.OBJECTS, Content.LABEL} if objects else frozenset()
        named = objects.label if objects else label or ""
        class_names = {folder: one.class_names.get(named, ()) for folder, one in described.items()}
        # If datasets have different classes, the labels, which are names, determine the classes.
        self.class_names = names.get(named, ()) if len(set(class_names.values())) == 1 else ()
        lists = {
            name: {one.class_names.get(name, ()) for one in described.values()}
            for name in features.labels
            if name in (needs.columns or ())
        }
        self.column_classes = {name: min(found) if len(found) == 1 else () for name, found in lists.items()}
        self.labels_may_be_indices = not any(class_names.values()) and not self.labels_are_numbered
        self.first_class = objects.first_class if objects else 0
        splits = splits_of(files)
        if needs.splits.are_auto and not (splits or settings.split_column):
            by_shard = shard_splits(files, _SPLIT) if settings.split_column is None else {}
            splits = by_shard or _splits_of_names(files)
        if cells.columns.split is None:
            self._note_splits(splits)
        lengths = {
            path: length
            for path in (file.entry.path for file in files)
            if (length := described[storage.dirname(path)].length_of(path)) is not None
        }
        self.used = {image, mask, *sides, *(objects.features if objects else ()), *cells.needed}
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


def open_input(
    inputs: Inputs, table: TableSettings, selection: Selection, join: str | None, join_key: str
) -> MakeSource:
    """Finds the files, and reads their first records and metadata.

    Raises:
      RequestError: a file does not exist, or the files do not fit the request.
    """
    if datasets := find_datasets(inputs.paths):
        return open_datasets(datasets, JoinedTable.open(join, join_key), inputs, table)
    if join is not None:
        raise RequestError(
            f"`join={join}`: {quote_input(inputs.paths[0])} is no dataset of beam-tfrecords",
            code="setting_not_applicable",
        )
    files = find_files_below(inputs, RECORD_FILE, "TFRecord file in it, such as x.tfrecord-00000-of-00001")
    described = {folder: describe_folder(folder) for folder in {storage.dirname(file.entry.path) for file in files}}
    try:
        start = read_first_records(Container.of(files[0].entry, key_prefix=""))
    except SampleError as error:
        raise RequestError(
            f"{quote_input(files[0].entry.path)} is not a TFRecord file: {error.detail}", code="invalid_file"
        ) from error
    return functools.partial(TfrecordSource, files, start, described, inputs, table, selection)


def _splits_of_names(files: Sequence[InputFile]) -> dict[str, str]:
    paths = [file.entry.path for file in files]
    return {path: split for path, split in zip(paths, splits_of_names(paths), strict=True) if split}
