"""The source for TFRecord files: merges, re-splits or re-encodes datasets of TFDS and other programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Suggestion
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.columns import choose_label
from beam_tfrecords.transforms.sources.detect.missing_images import refuse_missing
from beam_tfrecords.transforms.sources.image_roots import pair_roots
from beam_tfrecords.transforms.sources.inputs import (
    InputFile,
    Inputs,
    key_prefixes,
    names_several,
    quote_input,
    require_utf8,
)
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.sources.records.dataset_source import find_datasets, open_datasets
from beam_tfrecords.transforms.sources.records.file_names import FILE_NAMES
from beam_tfrecords.transforms.sources.records.folder_metadata import (
    Features,
    RecordMetadata,
    describe_folder,
    find_described,
)
from beam_tfrecords.transforms.sources.records.image_choice import choose_images, with_texts
from beam_tfrecords.transforms.sources.records.image_features import ImageChoice
from beam_tfrecords.transforms.sources.records.kept_features import find_kept_layout
from beam_tfrecords.transforms.sources.records.object_features import find_objects
from beam_tfrecords.transforms.sources.records.record_datasets import check_one_dataset
from beam_tfrecords.transforms.sources.records.record_files import choose_evenly, count_files, find_record_files
from beam_tfrecords.transforms.sources.records.record_images import NamedFiles
from beam_tfrecords.transforms.sources.records.record_rows import ReadTfrecord, read_first_records
from beam_tfrecords.transforms.sources.records.record_splits import place_files, record_splits
from beam_tfrecords.transforms.sources.selection import Selection
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest
from beam_tfrecords.transforms.sources.tables.cells import is_label
from beam_tfrecords.transforms.sources.tables.row_source import RowSource, splits_of
from beam_tfrecords.transforms.sources.tables.table import FirstRows
from beam_tfrecords.transforms.sources.tables.table_settings import LabelType, TableSettings
from beam_tfrecords.transforms.splits import Splits

_LABELS = ("label", "image/class/label")
# Files whose first records are compared, and records of each.
_FILES, _LOOKED = 8, 4
# Features of TensorFlow's ImageNet records: class number from 1, class name, WordNet id, and file name.
_IMAGENET = ("image/class/label", "image/class/text", "image/class/synset", "image/filename")


class TfrecordSource(RowSource):
    """TFRecord files.

    Args:
      files: the files.
      start: first records of the first file.
      described: folder -> metadata of its files.
      request: the request.
      needs: requested contents.

    Raises:
      RequestError: the files do not fit the request.
    """

    description = Description(unit="record")

    def __init__(
        self,
        files: Sequence[InputFile],
        start: FirstRows,
        described: Mapping[str, RecordMetadata],
        request: OpenRequest,
        needs: Needs,
    ) -> None:
        super().__init__(files, request.inputs)
        settings: TableSettings = request.spec
        features, names, _ = described[storage.dirname(files[0].entry.path)]
        texts = with_texts(start)
        has_image = Content.IMAGE in needs.contents
        images = choose_images(start, texts, features, settings, needs) if has_image else ImageChoice()
        columns = tuple(name for name in start.columns if name not in images.features)
        types = {name: kind for name, kind in (start.column_types or {}).items() if name in columns}
        # If the records hold the images, a file name beside them does not name a further image.
        table = dataclasses.replace(texts if images.files else start, columns=columns, column_types=types)
        objects = find_objects(start, features, settings, needs, image=images.image, usual=_LABELS)
        if objects and not objects.is_normalized:
            self.notes.append("the boxes are in pixels")
        lacks = "no feature 'label'"
        folders = (part for file in files for part in file.key_prefix.split("/")[:-2])
        unread = {part.partition("=")[0] for part in folders if "=" in part} - {*start.columns}
        if unread:
            shown = f"the values in names of folders such as {min(unread)}=… are not read"
            self.notes.append(shown)
            lacks += f" ({shown}; write them into the records)"
        if images.files is not None and not (settings.image_column or settings.image_path):
            self.notes.append(f"image files from feature {images.files.image_column!r}")
        label = None
        if not objects:
            label = choose_label(table, settings, needs, declared=features.labels, first=_LABELS, lacks=lacks)
        named = objects.label if objects else label or ""
        if named and settings.label_type is LabelType.CLASS:
            _refuse_byte_labels(start, named)
        is_imagenet = (
            label == _IMAGENET[0] and {*_IMAGENET} <= {*columns} and not (needs.class_names or request.spec.classes)
        )
        if is_imagenet and settings.key_column is None:
            settings = dataclasses.replace(settings, key_column=_IMAGENET[-1])
        has_several = label in features.several
        cells = self._take_columns(
            table,
            images.files or settings,
            needs,
            label,
            has_several=has_several,
            has_mask=images.mask is not None,
            images=images.images,
            names_files=images.files is not None,
        )
        if is_imagenet and settings.label_type is LabelType.CLASS:
            cells = dataclasses.replace(cells, text=_IMAGENET[1])
            self._describe(labels_are_numbered=True, text_column="")
        class_names = {folder: one.class_names.get(named, ()) for folder, one in described.items()}
        # If datasets have different classes, the labels, which are names, determine the classes.
        common = names.get(named, ()) if len(set(class_names.values())) == 1 else ()
        by_feature = _names_by_feature(described)
        names_images = images.files is None and settings.key_column is None and needs.records is None
        of_names = FILE_NAMES if names_images else ()
        seen, kept = self.description, None
        if needs.records is not None:
            kept, notes = find_kept_layout(files, start.columns, needs.records, by_feature)
            self.notes += notes
            seen = dataclasses.replace(seen, columns=tuple(sorted(kept.columns)))
        self._describe(
            columns=seen.columns,
            kept_layout=kept,
            provides=seen.provides
            | ({Content.OBJECTS, Content.LABEL} if objects else frozenset())
            | ({Content.RECORDS} if kept else frozenset()),
            used={*images.used, *(objects.features if objects else ()), *cells.needed, *of_names},
            class_names=common,
            column_classes={
                name: by_feature[name][0] if len({*by_feature[name]}) == 1 else ()
                for name in features.labels
                if name in (needs.columns or ())
            },
            labels_may_be_indices=not any(class_names.values()) and not seen.labels_are_numbered,
            first_class=objects.first_class if objects else 0,
        )
        splits = splits_of(files)
        if needs.splits.are_auto and not (splits or settings.split_column):
            splits = record_splits(files) if settings.split_column is None else {}
        if cells.columns.split is None:
            self._note_splits(splits)
        lengths = {
            path: length
            for path in (file.entry.path for file in files)
            if (length := described[storage.dirname(path)].length_of(path)) is not None
        }
        of, self._image_root = cells.columns, request.spec.image_root
        self._roots = pair_roots(files, request.spec.image_root)
        roots = {file.entry.path: one.own or one.every for file, one in zip(files, self._roots, strict=True)}
        self.read: ReadTfrecord = ReadTfrecord(
            cells,
            image=images.image or None,
            class_names=class_names,
            splits=splits,
            pixels=images.pixels,
            objects=objects,
            mask=images.mask,
            lengths=lengths,
            kept=kept,
            named=images.named,
            lists=images.lists,
            known=frozenset(start.columns),
            names_images=names_images,
            files=NamedFiles(of.images, of.lists, of.patterns, roots, request.spec.allow_outside_root)
            if images.files
            else None,
        )

    def check(self, most_missing: float) -> None:
        """See `Source.check`."""
        table, files = self.description.table, self.read.files
        if files is None and self._image_root:
            raise RequestError(
                f"`image_root={','.join(self._image_root)}`: no feature of the records names image files; leave "
                "it out, or name the feature with `image_column`",
                code="setting_not_applicable",
            )
        if files is not None and table is not None:
            refuse_missing(table, self.read.cells.columns, self._roots[0].every, most_missing)


def open_input(request: OpenRequest) -> MakeSource:
    """Finds the files, and reads their first records and metadata.

    Raises:
      RequestError: a file does not exist, or the files do not fit the request.
    """
    inputs = request.inputs
    if datasets := find_datasets(inputs.paths):
        return open_datasets(datasets, request.joined, inputs, request.spec)
    files, with_metadata, notes = _find_files(inputs, request.spec)
    described = {
        folder: describe_folder(folder) if folder in with_metadata else RecordMetadata(Features(), {}, {})
        for folder in {storage.dirname(file.entry.path) for file in files}
    }
    start = _read_first(files)

    def make(needs: Needs) -> TfrecordSource:
        read, said, found = files, inputs, [*notes]
        if needs.splits.folders and (placed := place_files(files, needs.splits.folders)):
            if left := {file.entry.path for file in files} - {file.entry.path for file in placed}:
                found.append(f"not read, because they are in no folder of `splits`: {count_files(left)}")
            read, said = placed, dataclasses.replace(inputs, splits=dict.fromkeys(inputs.paths, ""))
            needs = dataclasses.replace(needs, splits=Splits())
        source = TfrecordSource(read, start, described, dataclasses.replace(request, inputs=said), needs)
        source.notes[:0] = found
        return source

    return make


def _find_files(inputs: Inputs, selection: Selection) -> tuple[list[InputFile], set[str], list[str]]:
    """Returns the files, the folders that may have metadata, and notes on files that are not read.

    Raises:
      RequestError: an input has no such file, or has several datasets.
    """
    files: list[InputFile] = []
    described: set[str] = set()
    notes: list[str] = []
    for path, prefix in zip(inputs.paths, key_prefixes(inputs.paths), strict=True):
        found = find_record_files(path)
        notes += found.notes
        if not found.files:
            others = f"; it has {count_files(found.others)}" if found.others else ""
            raise RequestError(
                f"{quote_input(path)}: there is no TFRecord file in it, such as x.tfrecord-00000-of-00001{others}",
                code="not_found",
            )
        entries = [*found.files.values()]
        for entry in entries:
            require_utf8(entry.path)
        is_folder = found.root == path
        # A glob or a folder may have more files later.
        own = (
            [f"{name}/" for name in found.files]
            if is_folder
            else key_prefixes([one.path for one in entries], always=names_several(path))
        )
        keys = [prefix + key for key in own]
        # Files that the request leaves out are not part of the choice of a dataset.
        named = zip(found.files, keys, strict=True)
        check_one_dataset(path, found, [name for name, key in named if not selection.skips_path(key.removesuffix("/"))])
        files += [InputFile(key, entry, inputs.splits.get(path)) for key, entry in zip(keys, entries, strict=True)]
        folders = {storage.dirname(entry.path) for entry in entries}
        described |= folders & find_described(found.root, found.others) if is_folder else folders
    return files, described, notes


def _read_first(files: Sequence[InputFile]) -> FirstRows:
    """Reads the first records of the file with the most features; of several, of the first one.

    The records of some splits have no label. Spark writes empty files, and others may be damaged.

    Raises:
      RequestError: no file has a record that can be read.
    """
    errors: list[tuple[str, SampleError]] = []
    richest: InputFile | None = None
    most = 0
    for place, file in enumerate(dict.fromkeys([*choose_evenly(files, _FILES), *files])):
        if place >= _FILES and richest:
            break
        try:
            found = read_first_records(Partition.of(file.entry, key_prefix=""), most=_LOOKED)
        except SampleError as error:
            errors.append((file.entry.path, error))
            continue
        if len(found.columns) > most:
            richest, most = file, len(found.columns)
    if richest:
        return read_first_records(Partition.of(richest.entry, key_prefix=""))
    path, first = next((one for one in errors if one[1].reason is not FailureReason.EMPTY), errors[0])
    raise RequestError(
        f"{quote_input(path)} is not a TFRecord file of tf.train.Example: {first.detail}", code="invalid_file"
    ) from first


def _refuse_byte_labels(start: FirstRows, label: str) -> None:
    """Refuses labels whose bytes are not texts, such as those of NumPy's numbers and of serialized tensors."""
    cells = [row.get(label) for row in start.first_rows]
    parts = [part for cell in cells for part in (cell if isinstance(cell, list) else [cell])]
    for value in parts:
        # The bytes of some small numbers are blanks.
        if isinstance(value, bytes) and value and not (is_label(value) and value.strip()):
            raise RequestError(
                f"{quote_input(start.path)}: the feature {label!r} has bytes that are no text, such as {value[:12]!r}; "
                "expected texts or numbers; name another feature with `label_column`, or leave the labels out",
                [Suggestion("images without labels", {"label_column": None, "layout": "image"})],
                code="column_without_labels",
            )


def _names_by_feature(described: Mapping[str, RecordMetadata]) -> dict[str, list[Sequence[str]]]:
    """Returns feature -> its class names in each folder; empty where a folder has none."""
    names = {name for one in described.values() for name in one.features.labels}
    return {name: [one.class_names.get(name, ()) for one in described.values()] for name in names}
